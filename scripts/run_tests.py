"""Run the checks in order of cost and say at the end what passed. Called by scripts/test.

scripts/test               everything
scripts/test --fast        what takes less than a minute: style, types, imports, and unit
                           tests without those of PostgreSQL
scripts/test unit api      only these areas
scripts/test libraries     what public libraries record, installed for it: not part of everything
scripts/test e2e -- -x -k logs     everything after -- goes to pytest
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTEST_AREAS = [
    "unit",
    "policy",
    "api",
    "loops",
    "simulation",
    "agent",
    "sdk",
    "integration",
    "training",
    "chaos",
    "e2e",
]
FAST = ["style", "types", "imports", "unit"]
FAST_TESTS = ["-m", "not postgres"]
BROWSER_AREAS = {"e2e"}
RERUN_AREAS = {"loops", "agent", "sdk", "integration", "training", "chaos", "e2e"}
"""Their tests watch processes and clocks that the machine may hold up at any moment."""
MAX_UNSTEADY = 2
"""Up to so many failed tests of such an area are run once more, and named whatever comes of it."""
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
BESIDE = {
    "frontend": ["types"],  # what it builds is served by the tests' stacks, so before them
    "simulation": ["agent", "sdk", "integration", "training", "chaos", "e2e"],
}
FAST_BESIDE = {"types": ["unit"]}
"""What runs while others do, on what they leave of the processors, and is told after the last."""
NICENESS = 19
NUM_WORKERS = min(4, os.cpu_count() or 1)
NUM_WAITING_WORKERS = min(6, NUM_WORKERS + 1)
"""Of the areas that wait more than they compute."""
NUM_BROWSER_WORKERS = min(6, NUM_WORKERS + 1)
"""Of the browser tests, which wait most: three of them used less than one of two processors."""


@dataclass(frozen=True)
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
        self.unsteady: list[str] = []
        """Those that passed only when they were run again."""

    def add(self, report: Path) -> list[str]:
        """Count the tests in pytest's report; return those that failed or had an error."""
        failed = []
        for case in ET.parse(report).getroot().iter("testcase"):
            kinds = {"failure": "failed", "error": "errors", "skipped": "skipped"}
            kind = next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
            self.counts[kind] += 1
            if kind in ("failed", "errors"):
                failed.append(f"{case.get('classname')}::{case.get('name')}")
        return failed

    def include(self, other: Tests) -> None:
        self.counts += other.counts
        self.unsteady += other.unsteady

    def __str__(self) -> str:
        kinds = ("failed", "errors", "passed", "skipped")
        parts = [f"{self.counts[kind]} {kind}" for kind in kinds if self.counts[kind]]
        return ", ".join(parts) or "no tests ran"


def environment() -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    # The same modules are loaded by thousands of processes, and test files by each worker.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PATH": path, "VIRTUAL_ENV": str(BIN.parent)}


class Spent(threading.local):
    """Of the processors, by what this thread called."""

    seconds = 0.0


spent = Spent()


def call(*command: str, cwd: Path = ROOT, output: IO[bytes] | None = None) -> bool:
    """Whether it ended with 0. With an `output`, for what it prints, it lets others go first."""
    niceness = ["nice", f"-n{NICENESS}"] if output is not None else []
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


def style(output: IO[bytes] | None) -> bool:
    formatted = call("ruff", "format", "--check", "--quiet", ".", output=output)
    if not formatted:
        print("hint: ruff format .", flush=True)
    return call("ruff", "check", "--quiet", ".", output=output) and formatted


def types(output: IO[bytes] | None) -> bool:
    return call("mypy", output=output)


def imports(output: IO[bytes] | None) -> bool:
    return call("lint-imports", output=output)


def frontend(output: IO[bytes] | None) -> bool:
    folder = ROOT / "frontend"
    if not (folder / "package-lock.json").exists():
        print("there is no dashboard yet")
        return True
    # Types made from an older server's description would compile against routes that are gone.
    described = ["env", f"PYTHON={sys.executable}", str(BIN / "node"), "scripts/api.mjs", "--check"]
    fresh = call(*described, cwd=folder, output=output)
    checked = call(str(BIN / "npm"), "run", "check", "--silent", cwd=folder, output=output)
    return checked and fresh


def libraries(output: IO[bytes] | None) -> bool:
    """Tests of what public libraries record: not a part of everything, since they take 1 GB."""
    folder, tests = BIN.parent / "libraries", ROOT / "tests" / "libraries"
    wanted = ["--excludes", str(tests / "excludes.txt"), "-r", str(tests / "requirements.txt")]
    if not call("uv", "pip", "install", "-q", "--target", str(folder), *wanted, output=output):
        return False
    path = ["env", f"PYTHONPATH={folder}"]
    return call(*path, "pytest", "-q", "tests/libraries", output=output)


CHECKS: dict[str, Callable[[IO[bytes] | None], bool]] = {
    "style": style,
    "types": types,
    "imports": imports,
    "frontend": frontend,
    "libraries": libraries,
}
ON_REQUEST = {"libraries"}


def find_browser() -> str | None:
    """Chromium for the browser tests: $CHROME, or one on the PATH."""
    given = os.environ.get("CHROME")
    if given:
        return given if shutil.which(given) else None
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        path = shutil.which(name)
        if path:
            return path
    mac = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return str(mac) if mac.exists() else None


def provide_browser() -> bool:
    """Browser tests are never skipped: install Chromium where we may, else say what to do."""
    apt = shutil.which("apt-get")
    if find_browser() is None and not os.environ.get("CHROME") and apt and os.geteuid() == 0:
        print("installing Chromium for the browser tests (apt-get install chromium)", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-q"], ["install", "-q", "-y", "chromium"]):
            subprocess.run([apt, *arguments], env=quiet, check=False, stdout=subprocess.DEVNULL)
    browser = find_browser()
    if browser is None:
        print(
            "error: the browser tests need Chromium, and there is none here.\n"
            "hint: install it (Debian: apt-get install chromium), or set CHROME to its path; "
            "to leave these tests out, name the other areas: scripts/test unit api …",
            file=sys.stderr,
            flush=True,
        )
        return False
    os.environ["CHROME"] = browser
    return True


def pytest(area: str, more: list[str], tests: Tests, output: IO[bytes] | None = None) -> bool:
    deal = PARALLEL_AREAS.get(area)
    parallel: list[str] = []
    if deal == "loadfile":  # begun in the order in which they are collected
        num = NUM_BROWSER_WORKERS if area in BROWSER_AREAS else NUM_WAITING_WORKERS
        parallel = [f"-n{num}", "--dist=loadfile", "--no-loadscope-reorder"]
    elif deal and NUM_WORKERS > 1:
        parallel = [f"-n{NUM_WORKERS}", f"--dist={deal}"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # What failed last is remembered for each area: another may run at the same time.
        remembered = f"--override-ini=cache_dir={ROOT}/.pytest_cache/{area}"
        command = ("pytest", "-q", f"--junit-xml={report}", remembered, f"tests/{area}", *more)
        # With little of the processors a test may take its time.
        patience = [] if output is None else ["--timeout=1800"]
        ok = call(*command, *parallel, *patience, output=output)
        if not report.exists():
            return ok
        failed = tests.add(report)
        if area in RERUN_AREAS and 0 < len(failed) <= MAX_UNSTEADY:
            print(f"\nrun again, alone: {', '.join(failed)}", flush=True)
            ok = call(*command, "--last-failed")
            tests.counts["failed"] = tests.counts["errors"] = 0
            again = tests.add(report)
            tests.unsteady += [test for test in failed if test not in again]
    return ok


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
    options = parser.parse_args(arguments)
    unknown = [a for a in options.areas if a not in known]
    if unknown:
        parser.error(f"no area {unknown[0]!r}; there are: {', '.join(known)}")
    fast = options.fast and not options.areas
    everything = [name for name in known if name not in ON_REQUEST]
    chosen = options.areas or (FAST if fast else everything)
    more = [*FAST_TESTS, *more] if fast else more
    beside = FAST_BESIDE if fast else BESIDE

    def check(name: str, output: IO[bytes] | None = None) -> Outcome:
        tests = Tests()
        before, busy_before = time.monotonic(), spent.seconds
        if name in BROWSER_AREAS and not provide_browser():
            ok = False
        elif name in PYTEST_AREAS:
            ok = pytest(name, more, tests, output)
        else:
            ok = CHECKS[name](output)
        took, busy = time.monotonic() - before, spent.seconds - busy_before
        return Outcome(name, ok, took, busy, tests)

    started = time.monotonic()
    outcomes: list[Outcome] = []
    hosts = {guest: {*beside[guest]} & {*chosen} for guest in beside if guest in chosen}
    left = [name for name in known if name in chosen and not hosts.get(name)]
    guests: dict[str, tuple[IO[bytes], Future[Outcome]]] = {}
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        while left:
            name = left.pop(0)
            for guest in hosts:
                if name in hosts[guest] and guest not in guests:
                    output = stack.enter_context(tempfile.TemporaryFile())
                    guests[guest] = output, pool.submit(check, guest, output)
            print(f"\n── {name}", flush=True)
            outcomes.append(check(name))
            for guest in [guest for guest in guests if not hosts[guest] & {*left}]:
                told, result = guests.pop(guest)
                del hosts[guest]
                print(f"\n── {guest}", flush=True)
                outcomes.append(result.result())
                told.seek(0)
                print(told.read().decode(errors="replace"), flush=True)

    tests = Tests()
    print("\n── summary")
    for outcome in outcomes:
        tests.include(outcome.tests)
        print(
            f"{'ok    ' if outcome.ok else 'FAILED'}  {outcome.name:<12} {outcome.seconds:6.1f} s"
            f"  {outcome.busy_s:6.1f} s of the processors"
        )
    for test in tests.unsteady:
        print(f"UNSTEADY: failed, and passed when run again: {test}")
    ok = all(outcome.ok for outcome in outcomes)
    verdict = f" {tests} in {time.monotonic() - started:.2f}s "
    print(f"{verdict:=^80}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
