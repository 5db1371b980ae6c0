"""What the documentation says exists: links, commands, options, routes, documents, names, codes."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
import typer
import yaml
from starlette.routing import compile_path

import muster
from muster.cli import trials
from muster.cli.all_commands import app as cli
from muster.document.inference import PROGRAMS as JOB_PROGRAMS
from muster.launch.variables import is_replaced
from muster_server import errors
from muster_server.api.http.errors import _HTTP_CODES
from muster_server.domain.messages import english
from muster_server.services.documents import resolve
from support.client import plain_app

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("server", "agent", "trainer", "parts", "scripts", "bench")
LISTED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split()  # fmt: skip
# Some of the documentation is made from the code, and not in git.
PAGES = sorted(
    {*(ROOT / name for name in LISTED if (ROOT / name).exists()), *(ROOT / "docs").rglob("*.md")}
)
WRITTEN = [page for page in PAGES if "<!-- Made " not in page.read_text()[:400]]
OPERATIONS = plain_app().state.operations


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Fenced code blocks."""
    start, language, lines = 0, "", []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r" *```(\w*)", line)
        if fence and not start:
            start, language, lines = number, fence[1], []
        elif fence:
            yield Block(name_of(page), start, language, "\n".join(lines) + "\n")
            start = 0
        elif start:
            lines.append(line)
    assert not start, f"{name_of(page)}:{start}: the block is not closed"


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


# ---------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number, unique = 0, slug
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = prose(page)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    broken = []
    for link in links:
        if re.match(r"(https?|mailto):", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


PLACES = {
    "server/README.md": "server/muster_server",
    "server/muster_server/services/README.md": "server/muster_server/services",
    "agent/README.md": "agent/muster_agent",
    "trainer/README.md": "trainer/muster",
    "parts/models/README.md": "parts/models/muster_models",
    "frontend/README.md": "frontend",
    "CONTRIBUTING.md": "",
    "docs/concepts/architecture.md": "",
    "docs/concepts/protocol.md": "",
}
"""Pages that say where things are in the code → the folder that their paths begin in."""


@pytest.mark.parametrize("page", PLACES)
def test_every_file_that_a_map_of_the_code_names_exists(page: str) -> None:
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|tsx?))`", (ROOT / page).read_text())
    starts = (ROOT / PLACES[page], ROOT, ROOT / "server/muster_server", ROOT / "frontend/src")
    named = [name for name in named if "NAME" not in name]  # a recipe's own file
    assert [path for path in named if not any((start / path).exists() for start in starts)] == []


def test_every_page_that_the_code_names_exists() -> None:
    named = {
        (name, name_of(path))
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"docs/[\w./-]+\.md", path.read_text())
    }
    assert len(named) > 10
    assert sorted(each for each in named if not (ROOT / each[0]).is_file()) == []


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [p for p in PAGES if p.is_relative_to(ROOT / "docs") and p.name != "README.md"]
    single = [p for p in pages if p.parent.name != "decisions"]
    missing = [name_of(p) for p in single if f"({p.relative_to(ROOT / 'docs')})" not in index]
    assert missing == []


def test_pictures_are_used_and_small() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for picture in (ROOT / "docs" / "images").iterdir():
        assert f"images/{picture.name}" in text, f"{picture.name} is shown nowhere"
        assert picture.stat().st_size < 250_000, picture.name


# ---------------------------------------------------------------- commands


class Command(NamedTuple):
    where: str
    text: str


PROGRAMS = ("muster", "scripts/", "muster-server", "muster-agent")


def commands() -> Iterator[Command]:
    """Everything of ours that a reader may type: from code blocks, and from the text."""
    for page in WRITTEN:
        for block in blocks(page):
            if block.language in ("console", "bash", "sh"):
                joined = block.text.replace("\\\n", " ")
                for line in joined.splitlines():
                    if block.language == "console" and not line.startswith("$ "):
                        continue  # what it prints
                    for part in re.split(r" && | \| | < | &$", line.removeprefix("$ ")):
                        yield Command(block.where, part)
            if block.language == "ini":  # a unit of systemd
                for line in re.findall(r"^ExecStart=(.+)$", block.text, re.MULTILINE):
                    yield Command(block.where, line)
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page)):
            if re.match(r"(muster|muster-server|muster-agent|scripts/\w+) [a-z-]", code):
                yield Command(name_of(page), code)


def ours(command: Command) -> list[str] | None:
    """Its words from our program's name on; None when it is somebody else's."""
    words = shlex.split(command.text, comments=True)
    while words and (re.fullmatch(r"[A-Z_]+=.*", words[0]) or words[0] in ("sudo", "exec")):
        words = words[1:]
    if words[:3] == ["docker", "compose", "exec"]:
        words = words[4:]
    if words[:1] == ["kubectl"] and "exec" in words and "--" in words:
        words = words[words.index("--") + 1 :]
    if words and words[0] in (".venv/bin/muster", "scripts/muster"):
        words[0] = "muster"
    if words and re.fullmatch(r"(/|~/|\.venv/).*/muster-(agent|server)", words[0]):
        words[0] = words[0].rpartition("/")[2]
    return words if words and words[0].startswith(PROGRAMS) else None


OURS = [(command, words) for command in commands() if (words := ours(command))]


@functools.cache
def command_line() -> Any:
    """All commands of `muster`. Building them takes longer than parsing a line."""
    return typer.main.get_command(cli)


def parse_click(words: list[str]) -> None:
    command, info, rest = command_line(), "muster", words
    while hasattr(command, "commands"):
        assert rest, "no command"
        name, *rest = rest
        if name not in command.commands and hasattr(command, "default"):
            name, rest = command.default, [name, *rest]
        assert name in command.commands, f"no command {name!r}"
        command, info = command.commands[name], name
    if words[:2] == ["agent", "run"]:
        return parse_argparse("muster-agent", ["run", *rest])
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    for word in rest[: rest.index("--")] if "--" in rest else rest:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in options, f"no option {word}"
    if rest and "…" not in rest:  # `muster login` alone only names the command
        with mock.patch.object(trials, "_find_named", return_value=trials.TrialReference(1)):
            command.make_context(info, rest)
    return None


def parse_argparse(program: str, words: list[str]) -> None:
    if program == "muster-agent":
        from muster_agent.cli import _parse

        _parse(words)
    else:
        from muster_server.cli import _parser

        _parser().parse_args(words)


def parse_script(script: str, words: list[str]) -> None:
    assert (ROOT / script).exists(), f"no {script}"
    if script == "scripts/up":
        parse_click(["up", *words])
    elif script == "scripts/test":
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(ROOT / "scripts")  # where it finds the scripts beside it
            module = runpy.run_path(str(ROOT / "scripts" / "run_tests.py"), run_name="run_tests")
        known = {*module["CHECKS"], *module["PYTEST_AREAS"], "--fast", "--changed", "--help"}
        given = words[: words.index("--")] if "--" in words else words
        assert {w.partition("=")[0] for w in given if w != "…"} <= known


@pytest.mark.parametrize(
    ("command", "words"), OURS, ids=[f"{c.where} {' '.join(w)}" for c, w in OURS]
)
def test_every_command_is_one_of_ours(command: Command, words: list[str]) -> None:
    program, *rest = words
    try:
        if program == "muster":
            parse_click(rest)
        elif program.startswith("scripts/"):
            parse_script(program, rest)
        else:
            parse_argparse(program, rest)
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and not error.code:
            return  # --help, --version
        pytest.fail(f"{command.where}: {command.text}: {error}")


def test_there_are_commands_to_check() -> None:
    assert len(OURS) > 40
    assert {words[0] for _, words in OURS} >= {"muster", "scripts/up", "scripts/test"}


def test_a_command_that_does_not_exist_is_found() -> None:
    for text in ("fly", "submit --fast x.yaml", "priority 1 one", "show 1 2"):
        with pytest.raises((Exception, SystemExit)):
            parse_click(shlex.split(text))


def test_units_of_systemd_and_commands_inside_pods_are_checked() -> None:
    for text, words in (
        ("/opt/muster/bin/muster-agent run --once", ["muster-agent", "run", "--once"]),
        ("kubectl -n a exec deploy/b -- muster-server check", ["muster-server", "check"]),
    ):
        assert ours(Command("", text)) == words
    checked = {(command.where.partition(":")[0], *words[:2]) for command, words in OURS}
    assert ("docs/guides/agents.md", "muster-agent", "run") in checked
    assert ("docs/guides/kubernetes.md", "muster-server", "setup-token") in checked


def test_every_extra_that_is_to_be_installed_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page in PAGES:
        for names in re.findall(rf"{project['name']}\[([\w,]+)\]", page.read_text()):
            assert set(names.split(",")) <= project["optional-dependencies"].keys(), name_of(page)


CHART = ROOT / "deploy" / "helm" / "muster"


def test_helm_is_given_values_that_the_chart_has() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = (CHART / "values.yaml").read_text()
    given = [
        (page, name)
        for page in PAGES
        for line in re.findall(r"^helm .*(?:\n  .*)*", page.read_text(), re.MULTILINE)
        for name in re.findall(r"--set ([\w.]+)=", line)
    ]
    assert given
    for page, name in given:
        found = values
        for part in name.split("."):
            assert part in found, f"{name_of(page)}: {name}"
            found = found[part]
    guide = (ROOT / "docs" / "guides" / "kubernetes.md").read_text()
    keys = re.findall(r"--from-(?:literal|file)=(\w+)=", guide)
    assert keys
    assert [key for key in keys if key not in text] == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_route_that_is_called_exists(page: Path) -> None:
    text = page.read_text()
    called = re.findall(r"\b(GET|PUT|POST|PATCH|DELETE|HEAD) (/[\w/{}.:-]+)", text)
    for line in re.findall(r"^(?:\$ )?(curl .*(?:\n  .*)*)", text, re.MULTILINE):
        words = shlex.split(line.replace("\\\n", " "))
        method = words[words.index("-X") + 1] if "-X" in words else "GET"
        method = "POST" if method == "GET" and {"-d", "--json"} & set(words) else method
        (path,) = (re.search(r"(/(?:api|healthz|readyz)[^?]*)", w)[1] for w in words if "/api" in w)  # type: ignore[index]
        called.append((method, path))
    for method, path in called:
        plain = re.sub(r"\{[^}]*\}", "1", path)
        assert any(
            method in o.methods and compile_path(o.path)[0].match(plain)
            for o in OPERATIONS
            if o.kind == "http" and o.id != "dashboard"
        ), f"{method} {path}"


def test_every_variable_exists() -> None:
    """MUSTER_… named anywhere is one that some part of this repository reads."""
    read = "".join(
        path.read_text()
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in ("", ".py", ".sh") and ".pyc" not in path.name
    )
    others = (
        "docker-compose.yml",
        "docs/reference/settings.md",
        "tests/agent/endings/test_endings.py",
        "tests/e2e/test_dashboard.py",
        "tests/integration/providers/test_slurm_ends.py",
        "tests/conftest.py",
        *(
            str(file.relative_to(ROOT))
            for file in (ROOT / "tests" / "simulation").glob("test_*.py")
        ),
    )
    read += "".join((ROOT / other).read_text() for other in others)
    named = {
        (name, name_of(page))
        for page in WRITTEN
        for name in re.findall(r"\bMUSTER_[A-Z_]*[A-Z]\b(?!_)", page.read_text())
    }
    unknown = {found for found in named if found[0] not in read and not is_replaced(found[0])}
    assert sorted(unknown) == []


# ---------------------------------------------------------------- documents and code


def documents() -> Iterator[tuple[str, str]]:
    for block in ALL_BLOCKS:
        if block.language == "yaml":
            yield block.where, block.text
    for path in sorted((ROOT / "examples").glob("*/experiment.yaml")):
        yield name_of(path), path.read_text()


DOCUMENTS = list(documents())


@pytest.mark.parametrize(("where", "text"), DOCUMENTS, ids=[where for where, _ in DOCUMENTS])
def test_every_experiment_document_is_valid(where: str, text: str) -> None:
    """A fragment is tried in the smallest document that it can be a part of."""
    parsed: dict[str, Any] = yaml.safe_load(text)
    if "services" in parsed or "blocks" in parsed:
        return  # a piece of a compose file, or a report
    whole = text
    if "name" not in parsed:
        whole += "\nname: a-fragment\n"
    is_run_outside = parsed.get("search", {}).get("runner") == "external"
    if not {"trainer", "entrypoint", "roles", *JOB_PROGRAMS} & set(parsed) and not is_run_outside:
        whole += "\ntrainer: {model: mlp, data: digits}\n"
    resolved = resolve(whole)
    assert [f"{p.path} {english(p.message)}" for p in resolved.problems] == [], where


PYTHON = [block for block in ALL_BLOCKS if block.language == "python"]


@pytest.mark.parametrize("block", PYTHON, ids=[block.where for block in PYTHON])
def test_every_python_block_is_python_that_uses_what_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "muster"
        ):
            assert node.attr in muster.__all__, f"{block.where}: muster.{node.attr}"


def test_the_dashboard_recommends_functions_that_exist() -> None:
    for path in (ROOT / "frontend" / "src" / "i18n").rglob("*.ts"):
        for name in re.findall(r"\bmuster\.(\w+)\(", path.read_text()):
            assert name in muster.__all__, f"{path.name}: muster.{name}"


def test_the_tour_of_the_dashboard_names_labels_that_exist() -> None:
    """Italics are labels and terms of the dashboard, in the words of its English texts."""
    texts = "".join(p.read_text() for p in (ROOT / "frontend/src/i18n/en").rglob("*.ts"))
    labels = {text.lower().rstrip("…") for text in re.findall(r'"([^"\n]+)"', texts)}
    tour = prose(ROOT / "docs" / "guides" / "dashboard.md")
    named = {" ".join(m.split()) for m in re.findall(r"(?<![*\w`])\*([^\s*][^*`]*)\*(?!\*)", tour)}
    assert len(named) > 50
    assert sorted(n for n in named if n.lower().rstrip("…") not in labels) == []


# ---------------------------------------------------------------- names and codes


def constants(path: Path) -> Iterator[str]:
    """Every string in a file, or in all files of a folder."""
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_metric_the_trainer_reports_is_explained() -> None:
    groups = "train|val|time|comm|throughput|memory|pipeline"
    reported = {
        value
        for part in (
            "training",
            "measure/timing.py",
            "measure/step_sums.py",
            "measure/memory.py",
            "sdk/run.py",
            "measure/comm.py",
        )
        for value in constants(ROOT / "trainer" / "muster" / part)
        if re.fullmatch(rf"({groups})/[a-z0-9_]+", value)
    }
    assert len(reported) > 15
    text = (ROOT / "docs" / "concepts" / "measuring.md").read_text()
    assert sorted(name for name in reported if f"`{name}`" not in text) == []


def test_every_operation_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "rest-api.md").read_text()
    assert [o.id for o in OPERATIONS if f"| `{o.id}` |" not in text] == []


STATUS = {name: c.status for name, c in vars(errors).items() if hasattr(c, "status")}
OTHER_ERRORS = {"problem", "NotConfigured", "Refused", "Unreachable", "Failure", "ClientError"}


def raised_codes() -> dict[str, int | None]:
    """Code → status, where the code shows it."""
    found: dict[str, int | None] = {code: status for status, code in _HTTP_CODES.items()}
    for folder in ("server/muster_server", "trainer/muster", "parts"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    if name in STATUS or name in OTHER_ERRORS:
                        for value in (*node.args, *(k.value for k in node.keywords)):
                            code = getattr(value, "value", None)
                            if isinstance(code, str) and re.fullmatch(r"[a-z_]+\.[a-z_]+", code):
                                found[code] = STATUS.get(name, found.get(code))
    return found


def test_every_error_code_is_explained_with_its_status() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    rows = {
        code: int(status) if status else None
        for code, status in re.findall(r"^\| `([a-z_.]+)` \| (\d*) ?\| \S", text, re.MULTILINE)
    }
    raised = raised_codes()
    assert sorted(set(raised) - set(rows)) == []
    wrong = {c: (rows[c], s) for c, s in raised.items() if s is not None and rows[c] != s}
    assert wrong == {}
    literals = {value for f in ("server", "trainer", "parts") for value in constants(ROOT / f)}
    assert sorted(set(rows) - literals) == [], "explained, and raised nowhere"
