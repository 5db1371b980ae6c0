"""Run the checks, several at a time, and say at the end what passed. Called by scripts/test.

scripts/test               everything
scripts/test --fast        what takes less than a minute: style, types, imports, and unit
                           tests without those of PostgreSQL
scripts/test --changed     only what the changes since origin/main can affect, committed or not: first the
                           tests nearest to them, and where these pass the others
scripts/test --changed=HEAD~3        the same for the changes since a commit
scripts/test unit api      only these areas
scripts/test libraries     what public libraries record, their newest and an older version, installed
                           for it: not part of everything
scripts/test ray             pilots on a real Ray, installed for it: not part of everything
scripts/test e2e -- -x -k logs     everything after -- goes to pytest
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from changed_tests import Tree, changed_files

from support.needs import provide

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
COMPUTING_AREAS = ["policy", "unit", "api", "loops", "simulation"]
"""What a change breaks most often comes first, and the histories that nearly always pass come last."""
WATCHING_AREAS = ["agent", "sdk", "chaos", "training", "integration", "e2e"]
"""Their tests start processes and wait for them. `e2e`, which uses the processors best, comes last: when it
begins, little else is left to run beside it."""
PYTEST_AREAS = [*COMPUTING_AREAS, *WATCHING_AREAS]
FAST = ["style", "types", "imports", "unit"]
FAST_TESTS = ["-m", "not postgres"]
BROWSER_AREAS = {"e2e"}
RERUN_AREAS = {"unit", "api", "loops", *WATCHING_AREAS}
"""Their tests watch processes and clocks that the machine may hold up at any moment."""
MAX_UNSTEADY = 4
"""Up to so many failed tests of such an area are run once more, when nothing else runs, and named
whatever comes of it."""
NUM_SLOWEST = 10
"""So many files are named with the time of their tests, the slowest first."""
PARALLEL_AREAS = {
    # worksteal gives each worker a contiguous part: few pay for the same module's fixtures.
    "unit": "worksteal",
    "policy": "worksteal",
    "api": "worksteal",
    "loops": "worksteal",
    "simulation": "worksteal",
    # Their files start stacks and agents of their own, and wait for most of the time.
    "agent": "loadfile",
    "training": "loadfile",
    "sdk": "loadfile",
    "integration": "loadfile",
    "e2e": "loadfile",
}
"""How their tests are dealt out: they share nothing but what their own worker, or their file's,
started. The others use both cores at once, or measure time."""
FIRST = ["style", "imports"]
"""They take a second each, and are told before anything else begins."""
LANES = [
    (["frontend", "types"], 1, 0),
    (WATCHING_AREAS, 1, 0),
    (COMPUTING_AREAS, 1, 10),
]
"""What runs side by side: checks, how many of them at a time, and their niceness. An area that
waits leaves a part of two processors, and what computes takes that. Two of them at a time made
tests fail that watch a clock."""
NUM_WORKERS = min(4, os.cpu_count() or 1)
NUM_WAITING_WORKERS = min(6, NUM_WORKERS + 2)
"""Number of pytest workers in the areas that wait more than they compute. Three left almost half of two
processors idle when nothing else was left to run."""
NUM_BROWSER_WORKERS = min(6, NUM_WORKERS + 1)
"""Number of pytest workers in the browser tests, which wait most. Three used less than one of two processors."""


@dataclass
class Outcome:
    name: str
    ok: bool
    seconds: float
    busy_s: float
    """Processor seconds of what it ran and waited for: at most twice `seconds` on two processors."""
    tests: Tests


class Tests:
    """How the tests of an area, or of all, ended."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self.unsteady: list[str] = []
        """Those that passed only when they were run again, or say so themselves by a property of this name."""
        self.skipped: Counter[str] = Counter()
        """Number of tests that were skipped, by the reason."""
        self.seconds: Counter[str] = Counter()
        """Duration of the tests of each file, by module name."""

    def read(self, report: Path) -> None:
        """Count the tests in pytest's report, and note those that failed or had an error."""
        self.failed = []
        self.counts["failed"] = self.counts["errors"] = 0
        for case in ET.parse(report).getroot().iter("testcase"):
            kinds = {"failure": "failed", "error": "errors", "skipped": "skipped"}
            kind = next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
            self.counts[kind] += 1
            self.seconds[module_of(case.get("classname", ""))] += float(case.get("time", "0"))
            if kind in ("failed", "errors"):
                self.failed.append(f"{case.get('classname')}::{case.get('name')}")
            for said in case.iter("property"):
                if said.get("name") == "unsteady" and kind == "passed":
                    self.unsteady.append(
                        f"{case.get('classname')}::{case.get('name')}: {said.get('value')}"
                    )
            for skipped in case.iter("skipped"):
                self.skipped[skipped.get("message") or "no reason was given"] += 1

    def include(self, other: Tests) -> None:
        self.counts += other.counts
        self.unsteady += other.unsteady
        self.skipped += other.skipped
        self.seconds.update(other.seconds)

    def __str__(self) -> str:
        kinds = ("failed", "errors", "passed", "skipped")
        parts = [f"{self.counts[kind]} {kind}" for kind in kinds if self.counts[kind]]
        return ", ".join(parts) or "no tests ran"


def module_of(class_name: str) -> str:
    """Return the test module of a class name in pytest's report: without classes of the module."""
    parts = class_name.split(".")
    last = next((i for i, part in enumerate(parts) if part.startswith("test_")), len(parts))
    return ".".join(parts[: last + 1])


def environment() -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    # The same modules are loaded by thousands of processes, and test files by each worker.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PATH": path, "VIRTUAL_ENV": str(BIN.parent)}


class Spent(threading.local):
    """Of the processors, by what this thread called."""

    seconds = 0.0


spent = Spent()


@dataclass(frozen=True)
class Manner:
    """How commands are run: what they print goes to `output`, or to the terminal."""

    output: IO[bytes] | None = None
    niceness: int = 0


def call(*command: str, cwd: Path = ROOT, manner: Manner = Manner()) -> bool:
    """Whether it ended with 0."""
    niceness = ["nice", f"-n{manner.niceness}"] if manner.niceness else []
    output = manner.output
    process = subprocess.Popen(
        [*niceness, *command], cwd=cwd, env=environment(), stdout=output, stderr=output
    )
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    spent.seconds += usage.ru_utime + usage.ru_stime
    return process.returncode == 0


def counted(
    arguments: list[str], tests: Tests, manner: Manner, *, before: Sequence[str] = ()
) -> bool:
    """Run pytest, count its tests, and return whether all passed; `before` stands before the command."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        ok = call(*before, "pytest", "-q", f"--junit-xml={report}", *arguments, manner=manner)
        if report.exists():
            tests.read(report)
    return ok


def style(manner: Manner, tests: Tests) -> bool:
    formatted = call("ruff", "format", "--check", "--quiet", ".", manner=manner)
    if not formatted:
        print("hint: ruff format .", flush=True)
    return call("ruff", "check", "--quiet", ".", manner=manner) and formatted


def types(manner: Manner, tests: Tests) -> bool:
    return call("mypy", manner=manner)


def imports(manner: Manner, tests: Tests) -> bool:
    return call("lint-imports", manner=manner)


def frontend(manner: Manner, tests: Tests) -> bool:
    folder = ROOT / "frontend"
    if not (folder / "package-lock.json").exists():
        print("there is no dashboard yet")
        return True
    npm = str(BIN / "npm")
    checked = call(npm, "run", "check:source", "--silent", cwd=folder, manner=manner)
    # scripts/test has built the dashboard from these sources just before.
    small = call(npm, "run", "budget", "--silent", cwd=folder, manner=manner)
    return checked and small


def installed_in(name: str, *requirements: Path) -> Path:
    """Return the folder for what these files of requirements ask for: outside of the checkout, the same for
    every checkout with the same files and Python."""
    digest = hashlib.sha256(sys.version.encode())
    for file in requirements:
        digest.update(file.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "muster-tests" / f"{name}-{digest.hexdigest()[:12]}"


def new_files() -> set[str]:
    """Return the files of the checkout that git neither has nor ignores; none where there is no git."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return set()
    return set(done.stdout.splitlines())


def libraries(manner: Manner, tests: Tests) -> bool:
    """Tests of what public libraries record, of their newest and of an older version: not a part of
    everything, since they take 3 GB."""
    lists, ok = ROOT / "tests" / "libraries", True
    for wanted in ("newest", "older"):
        folder = installed_in(
            f"libraries-{wanted}", lists / "excludes.txt", lists / f"{wanted}.txt"
        )
        given = ["--excludes", str(lists / "excludes.txt"), "-r", str(lists / f"{wanted}.txt")]
        if not call("uv", "pip", "install", "-q", "--target", str(folder), *given, manner=manner):
            return False
        print(f"── {wanted} versions", flush=True)
        given = ["env", f"MUSTER_LIBRARIES={folder}"]
        found = Tests()
        ok = counted(["tests/libraries"], found, manner, before=given) and ok
        tests.include(found)
    return ok


def ray(manner: Manner, tests: Tests) -> bool:
    """Tests of pilots on a real Ray in an environment of its own: not a part of everything, since it
    takes 400 MB."""
    requirements = ROOT / "tests" / "support" / "batch" / "ray.txt"
    folder = installed_in("ray", requirements)
    python = ["--python", str(folder / "bin" / "python")]
    wanted = ["-r", str(requirements)]
    return (
        call(
            "uv", "venv", "-q", "--allow-existing", "--python", sys.executable, str(folder),
            manner=manner,
        )
        and call("uv", "pip", "install", "-q", *python, *wanted, manner=manner)
        and counted(["tests/integration/providers/test_ray.py"], tests, manner)
    )  # fmt: skip


CHECKS: dict[str, Callable[[Manner, Tests], bool]] = {
    "style": style,
    "types": types,
    "imports": imports,
    "frontend": frontend,
    "libraries": libraries,
    "ray": ray,
}
ON_REQUEST = {"libraries", "ray"}


def pytest(
    area: str,
    more: list[str],
    tests: Tests,
    manner: Manner = Manner(),
    files: Sequence[str] | None = None,
) -> bool:
    """Run an area, or these of its files."""
    deal = PARALLEL_AREAS.get(area)
    parallel: list[str] = []
    if deal == "loadfile":  # begun in the order in which they are collected
        num = NUM_BROWSER_WORKERS if area in BROWSER_AREAS else NUM_WAITING_WORKERS
        parallel = [f"-n{num}", "--dist=loadfile", "--no-loadscope-reorder"]
    elif deal and NUM_WORKERS > 1:
        parallel = [f"-n{NUM_WORKERS}", f"--dist={deal}"]
    return _pytest(area, [*more, *parallel], tests, manner, files)


def run_again(area: str, more: list[str], tests: Tests, files: Sequence[str] | None = None) -> bool:
    """Whether the tests that failed pass when they run alone, where that is worth a try."""
    failed = tests.failed
    if area not in RERUN_AREAS or not 0 < len(failed) <= MAX_UNSTEADY:
        return False
    print(f"\n── run again, alone: {', '.join(failed)}", flush=True)
    ok = _pytest(area, [*more, "--last-failed"], tests, Manner(), files)
    tests.unsteady += [test for test in failed if test not in tests.failed]
    return ok


def _pytest(
    area: str, options: list[str], tests: Tests, manner: Manner, files: Sequence[str] | None
) -> bool:
    # What failed last is remembered for each area: another may run at the same time.
    remembered = f"--override-ini=cache_dir={ROOT}/.pytest_cache/{area}"
    return counted(
        [remembered, "--failed-first", *(files or [f"tests/{area}"]), *options], tests, manner
    )


class Run:
    """Checks that run side by side, and what came of them."""

    def __init__(
        self,
        chosen: Collection[str],
        more: list[str],
        lacking: set[str],
        files: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """lacking: areas that cannot run here. files: of areas of which not every test file runs."""
        self.more = more
        self._lacking = lacking
        self._files = files or {}
        self.outcomes: list[Outcome] = []
        self._left = [name for name in (*FIRST, *ON_REQUEST) if name in chosen]
        self._side_by_side = [name for name in chosen if name not in self._left]
        self._lock = threading.Lock()
        self._is_stopped = False

    def all(self) -> None:
        if len(self._side_by_side) == 1:  # it has the terminal to itself
            self._left += self._side_by_side
            self._side_by_side = []
        for name in self._left:
            print(f"\n── {name}", flush=True)
            self.outcomes.append(self._check(name, Manner()))
        lanes = []
        with ThreadPoolExecutor() as pool:
            for names, num_at_once, niceness in LANES:
                queue = deque(name for name in names if name in self._side_by_side)
                for _ in range(num_at_once):
                    lanes.append(pool.submit(self._lane, queue, niceness))
            try:
                for lane in lanes:
                    lane.result()
            except BaseException:
                self._is_stopped = True  # the commands that run were interrupted, too
                raise
        for outcome in self.outcomes:
            outcome.ok = outcome.ok or run_again(
                outcome.name, self.more, outcome.tests, self._files.get(outcome.name)
            )

    def _lane(self, queue: deque[str], niceness: int) -> None:
        while (name := self._next(queue)) is not None:
            with tempfile.TemporaryFile() as output:
                with self._lock:
                    print(f"   {name} begins", flush=True)
                outcome = self._check(name, Manner(output, niceness))
                output.seek(0)
                with self._lock:
                    self.outcomes.append(outcome)
                    print(f"\n── {name}", flush=True)
                    print(output.read().decode(errors="replace"), flush=True)

    def _next(self, queue: deque[str]) -> str | None:
        with self._lock:
            return queue.popleft() if queue and not self._is_stopped else None

    def _check(self, name: str, manner: Manner) -> Outcome:
        tests = Tests()
        before, busy_before = time.monotonic(), spent.seconds
        if name in self._lacking:
            ok = False
        elif name in PYTEST_AREAS:
            ok = pytest(name, self.more, tests, manner, self._files.get(name))
        else:
            ok = CHECKS[name](manner, tests)
        return Outcome(name, ok, time.monotonic() - before, spent.seconds - busy_before, tests)


def stages_since(commit: str) -> list[tuple[Collection[str], Mapping[str, Sequence[str]]]]:
    """Return what changes since the commit can affect, as checks and as files of areas: the nearest
    tests, then all others."""
    changed = changed_files(ROOT, commit)
    if not changed:
        print(f"nothing has changed since {commit}")
        return []
    selected = Tree(ROOT).select(changed)
    counts = [sum(map(len, files.values())) for files in (selected.nearest, selected.others)]
    print(
        f"{len(changed)} changed files: {counts[0]} test files near them, then {counts[1]} others"
    )
    return [
        ([*selected.checks, *selected.nearest], selected.nearest),
        (list(selected.others), selected.others),
    ]


def main() -> int:
    arguments, more = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, more = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*CHECKS, *PYTEST_AREAS]
    parser.add_argument("areas", nargs="*", help=", ".join(known))
    parser.add_argument("--fast", action="store_true", help=", ".join(FAST))
    parser.add_argument(
        "--changed",
        nargs="?",
        const="origin/main",
        metavar="COMMIT",
        help="what the changes since then can affect",
    )
    options = parser.parse_args(arguments)
    if options.changed and (options.areas or options.fast):
        parser.error("--changed chooses the areas itself")
    unknown = [a for a in options.areas if a not in known]
    if unknown:
        parser.error(f"no area {unknown[0]!r}; there are: {', '.join(known)}")
    fast = options.fast and not options.areas
    everything = [name for name in known if name not in ON_REQUEST]
    chosen = options.areas or (FAST if fast else everything)
    more = [*FAST_TESTS, *more] if fast else more
    started = time.monotonic()
    there = new_files()
    outcomes: list[Outcome] = []
    for names, files in stages_since(options.changed) if options.changed else [(chosen, {})]:
        run = Run(names, more, set() if fast else provide(list(names)), files)
        run.all()
        outcomes += run.outcomes
        if not all(outcome.ok for outcome in outcomes):
            break
    tests = Tests()
    print("\n── summary")
    for outcome in outcomes:
        tests.include(outcome.tests)
        print(
            f"{'ok    ' if outcome.ok else 'FAILED'}  {outcome.name:<12} {outcome.seconds:6.1f} s"
            f"  {outcome.busy_s:6.1f} s of the processors"
        )
    for module, seconds in tests.seconds.most_common(NUM_SLOWEST):
        print(f"slow  {seconds:7.1f} s  {module}")
    for reason, count in tests.skipped.most_common():
        print(f"skipped {count:>5}  {reason}")
    for test in tests.unsteady:
        print(f"UNSTEADY: failed, and passed when run again: {test}")
    left = sorted(new_files() - there)
    for name in left:
        print(f"LEFT in the checkout, where tests may write nothing: {name}")
    ok = all(outcome.ok for outcome in outcomes) and not left
    verdict = f" {tests} in {time.monotonic() - started:.2f}s "
    print(f"{verdict:=^80}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
