"""Which checks and test files a change can affect: `scripts/test --changed`.

The graph of imports leads from changed modules to test files, through fixtures and helpers. Areas
that start processes are affected by all that these processes load.
"""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

PACKAGES = {
    "muster_server": "server",
    "muster_agent": "agent",
    "muster": "trainer",
    "muster_models": "parts/models",
    "support": "tests",
}
"""Folder of each package."""
_JOB = ("muster.sdk", "muster.capture", "muster.measure", "muster.integrations", "muster.launch")
_STACK = ("muster_server", "muster_agent", "muster", "muster_models")
PARTS, LOADS_PARTS = ("muster_models",), "muster_server.parts"
"""Packages that the server finds by their entry points, and the module that loads them."""
LOADED: Mapping[str, Sequence[str]] = {
    "sdk": _JOB,
    "agent": ("muster_agent", *_JOB),
    "training": (*_JOB, "muster.training", "muster.inference"),
    "integration": _STACK,
    "chaos": _STACK,
    "e2e": _STACK,
}
"""Packages that the processes of an area load; what these import affects them in turn."""
READ: Mapping[str, Sequence[str]] = {
    "frontend/": ("frontend", "tests/e2e"),
    "docs/guides/": (
        "frontend",
        "tests/agent/launch",
        "tests/integration/guides",
        "tests/unit/logs",
    ),
    "docs/": ("frontend", "tests/agent/launch", "tests/unit"),
    "scripts/": ("tests/unit/scripts",),
    "bench/": (),
    "deploy/": ("tests/unit",),
    "examples/": ("tests/unit", "tests/api", "tests/training", "tests/integration", "tests/e2e"),
    "migrations/": ("tests/unit", "tests/api", "tests/loops", "tests/integration", "tests/e2e"),
}
"""What reads the files below a folder, by the first that fits; `tests/policy` reads all of them."""
ALWAYS = ("style", "imports", "types", "tests/policy")


@dataclass
class Selection:
    """What a change can affect."""

    checks: set[str] = field(default_factory=set)
    nearest: dict[str, list[str]] = field(default_factory=dict)
    """By area, changed test files, and those that import a changed module or its neighbours
    by which it is used."""
    others: dict[str, list[str]] = field(default_factory=dict)
    """By area, the files that it reaches by way of others, or a whole area."""


def changed_files(root: Path, since: str) -> set[str]:
    """Return the files that differ from where this branch left `since`, and those git does not have.

    Raises subprocess.CalledProcessError for a commit that is not there.
    """

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=root,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout.splitlines()

    (base,) = git("merge-base", since, "HEAD")
    # A file that was moved counts with both of its names.
    differing = git("diff", "--name-only", "--no-renames", base)
    return {*differing, *git("ls-files", "--others", "--exclude-standard")}


def _module_of(file: str) -> str | None:
    """Return the name of a package's module, whether its file is there or was deleted."""
    path = PurePath(file)
    for package, folder in PACKAGES.items():
        if path.suffix == ".py" and path.is_relative_to(f"{folder}/{package}"):
            parts = path.relative_to(folder).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


@dataclass(frozen=True)
class _Part:
    """What a test file, or a function of it, names."""

    modules: frozenset[str]
    fixtures: frozenset[str]


class Tree:
    """The packages and test files of a checkout."""

    def __init__(self, root: Path) -> None:
        import grimp

        self._root = root
        packages = list(PACKAGES)
        self._graph = grimp.build_graph(packages[0], *packages[1:], cache_dir=None)
        self._modules = self._graph.modules
        self.files = sorted(
            str(file.relative_to(root))
            for file in (root / "tests").rglob("test_*.py")
            if "support" not in file.parts and "libraries" not in file.parts
        )

    def select(self, changed: Iterable[str]) -> Selection:
        """Return what these files can affect, by their paths below the root of the checkout."""
        changed = set(changed)
        selected, areas, modules = {*ALWAYS}, set[str](), set[str]()
        for file in changed:
            if name := _module_of(file):
                modules.add(self._there(name))
            elif file.startswith("tests/") and not file.startswith("tests/conftest"):
                selected |= self._below_tests(file)
                modules |= self._beside(file)
            elif PurePath(file).suffix == ".md" and "/" not in file:
                continue
            elif read := next((READ[f] for f in READ if file.startswith(f)), None):
                selected |= set(read)
            elif not file.startswith("bench/"):
                selected |= {"frontend", "tests"}
        affected = self._importers(modules)
        packages = {name.rpartition(".")[0] for name in modules}
        around = packages | {m for m in affected if m.rpartition(".")[0] in packages}
        near = modules | (affected & around)
        for area, packages in LOADED.items():
            if any(f"{name}.".startswith(f"{p}.") for name in affected for p in packages):
                areas.add(f"tests/{area}")
        if "muster_server.app" in affected:
            selected.add("frontend")  # its types are those of the server's routes
        nearest, others = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for file in self.files:
            area = file.split("/")[1]
            named = self._named(file)
            if file in changed or named & near:
                nearest[area].append(file)
            elif named & affected or any(
                str(folder) in selected | areas for folder in PurePath(file).parents
            ):
                others[area].append(file)
        checks = {name for name in selected if not name.startswith("tests")}
        return Selection(checks, dict(nearest), dict(others))

    def _below_tests(self, file: str) -> set[str]:
        """Return which folders a file that is no module of support can affect."""
        path = PurePath(file)
        if path.parts[1] == "support":
            return set()  # beside a module that reads it
        if path.name == "conftest.py" or path.suffix != ".py":
            return {str(path.parent if len(path.parts) > 2 else "tests")}
        if path.parts[1] == "databases":
            return {"tests/loops", "tests/api"}
        return {str(path.parent)} if not path.name.startswith("test_") else self._siblings(path)

    def _siblings(self, path: PurePath) -> set[str]:
        """Tests import from test files beside them."""
        importing = f"from .{path.stem} import"
        beside = (self._root / path.parent).glob("test_*.py")
        return {str(path.parent)} if any(importing in f.read_text() for f in beside) else set()

    def _beside(self, file: str) -> set[str]:
        path = PurePath(file)
        if path.parts[1] != "support" or path.suffix == ".py":
            return set()
        folder = ".".join(path.parent.parts[1:])
        return {name for name in self._modules if name.rpartition(".")[0] == folder}

    def _there(self, name: str) -> str:
        """Return the module, or the package that lost it."""
        while name not in self._modules:
            name = name.rpartition(".")[0]
        return name

    def _importers(self, modules: set[str]) -> set[str]:
        if any(name.split(".")[0] in PARTS for name in modules):
            modules = modules | {LOADS_PARTS}
        return modules.union(*(self._graph.find_downstream_modules(name) for name in modules))

    def _named(self, file: str) -> set[str]:
        """Return the modules that a test file names, or a fixture that it uses does."""
        whole, _ = self._read(file)
        modules, wanted = set(whole.modules), set(whole.fixtures)
        for folder in PurePath(file).parents:
            conftest = str(folder / "conftest.py")
            if not (self._root / conftest).exists():
                continue
            top, fixtures = self._read(conftest)
            modules |= top.modules
            pending = [name for name in fixtures if name in wanted or name.startswith("_")]
            seen = set(pending)
            while pending:
                part = fixtures[pending.pop()]
                modules |= part.modules
                wanted |= part.fixtures
                more = (part.fixtures & set(fixtures)) - seen
                seen |= more
                pending += more
        return modules

    @cache  # noqa: B019 - one tree for each run
    def _read(self, file: str) -> tuple[_Part, dict[str, _Part]]:
        """Return what a file names as a whole; of a conftest.py, what is outside its functions and what
        each function names."""
        body = ast.parse((self._root / file).read_text()).body
        if not file.endswith("conftest.py"):
            return self._part(body), {}
        functions = [n for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        rest = [node for node in body if node not in functions]
        return self._part(rest), {f.name: self._part([f]) for f in functions}

    def _part(self, body: Sequence[ast.stmt]) -> _Part:
        modules, words = set[str](), set[str]()
        for node in (inner for outer in body for inner in ast.walk(outer)):
            match node:
                case ast.Import(names=names):
                    modules |= {alias.name for alias in names}
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    modules |= {module, *(f"{module}.{alias.name}" for alias in names)}
                case ast.arg(arg=word) | ast.Constant(value=str(word)):
                    words.add(word)
        # Programs are started by their modules' names, and fixtures asked for by theirs.
        return _Part(frozenset((modules | words) & self._modules), frozenset(words))
