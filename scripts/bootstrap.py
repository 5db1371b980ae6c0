#!/usr/bin/env python3
"""Make a checkout ready: a virtual environment, the packages, the built dashboard.

    python3 scripts/bootstrap.py [--test] [--quiet]

Every step leaves a stamp with a hash of what it depends on, so a second run does nothing and
takes a fraction of a second. Needs Python 3.11 and nothing else; says in one sentence what is
missing.

MUSTER_VENV    where the virtual environment goes (default: .venv in the checkout)
MUSTER_TORCH   cpu (default) | cuda (the build from the Python index) | skip (no built-in trainer)
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the message is the point
    sys.exit(
        "error: Python 3.11 or newer is needed, and this is %d.%d (%s).\n"  # noqa: UP031
        "hint: install a newer Python, or run this script with it: python3.11 %s"
        % (sys.version_info[0], sys.version_info[1], sys.executable, sys.argv[0])
    )

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
DISK_NEEDED_GB = 2.5
"""Measured: 1.8 GB with torch's CPU build and 0.3 GB for the dashboard's packages, and some air."""
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
FRONTEND_SKIPPED = {
    "node_modules",
    "dist",
    "test-results",
    "coverage",
    ".vite",
    "playwright-report",
}
FORMAT = "1"
"""Change it to make every checkout install again."""

quiet = False


def say(text: str) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def fail(message: str, hint: str = "") -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    sys.exit(1)


# ---------------------------------------------------------------- stamps


def digest(paths: Iterable[Path], *more: str) -> str:
    """Of the files' names and contents and of `more`; missing files count as empty."""
    result = hashlib.sha256()
    for text in (FORMAT, *more):
        result.update(text.encode() + b"\0")
    for path in paths:
        result.update(str(path).encode() + b"\0")
        if path.is_file():
            result.update(hashlib.sha256(path.read_bytes()).digest())
    return result.hexdigest()


class Stamps:
    """What was done with which inputs; one file per step, written after the step succeeded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_current(self, step: str, value: str) -> bool:
        path = self.folder / step
        return path.is_file() and path.read_text() == value

    def write(self, step: str, value: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / step).write_text(value)


# ---------------------------------------------------------------- running long commands


def run_step(
    what: str, command: list[str], log: Path, *, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> str | None:
    """Run a command with its output in `log` and a line of progress now and then.

    Returns None when it succeeded, its output otherwise.
    """
    started = time.monotonic()
    say(f"  {what} …")
    with log.open("a") as file:
        file.write(f"\n$ {' '.join(command)}\n")
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        output: list[str] = []
        done = threading.Event()

        def tick() -> None:
            while not done.wait(10):
                last = output[-1].strip()[:80] if output else ""
                say(f"    {time.monotonic() - started:4.0f} s  {last}")

        threading.Thread(target=tick, daemon=True).start()
        for line in process.stdout:
            file.write(line)
            # pip names every package that a local file index lacks; that is no news.
            if "is ignored: it is neither a file nor a directory" not in line:
                output.append(line)
        done.set()
        code = process.wait()
    if code == 0:
        say(f"  {what}: done in {time.monotonic() - started:.0f} s")
        return None
    return "".join(output[-200:]) or f"exit code {code}"


def explain_and_fail(what: str, output: str, log: Path) -> NoReturn:
    """Say in one sentence why installing failed, with the tail of the output for the rest."""
    tail = "\n".join("    " + line for line in output.strip().splitlines()[-15:])
    print(tail, file=sys.stderr)
    if re.search(r"No space left|ENOSPC|Errno 28", output):
        fail(f"{what} failed: the disk is full.", f"free some space and run this again; log: {log}")
    if re.search(
        r"NewConnectionError|Failed to establish|name resolution|Name or service not known|"
        r"nodename nor servname|ConnectTimeout|Read timed out|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|"
        r"ECONNREFUSED|Network is unreachable|ProxyError|MaxRetryError|Connection refused|"
        r"from versions: none",  # all that pip says when it may not try again
        output,
    ):
        fail(
            f"{what} failed: the package index cannot be reached.",
            "check the network and the proxy or mirror settings "
            f"(HTTPS_PROXY, PIP_INDEX_URL, npm_config_registry); log: {log}",
        )
    if re.search(r"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT", output):
        fail(
            f"{what} failed: the certificate of the package index is not trusted.",
            f"set PIP_CERT and NODE_EXTRA_CA_CERTS to your CA bundle; log: {log}",
        )
    if re.search(r"Permission denied|EACCES|Errno 13", output):
        fail(f"{what} failed: no write permission.", f"log: {log}")
    fail(f"{what} failed.", f"log: {log}")


# ---------------------------------------------------------------- the steps


def check_place(venv: Path) -> None:
    """Refuse early what would fail late: no permission, no space, no venv module."""
    place = venv
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        fail(
            f"no write permission in {place}.",
            "set MUSTER_VENV to a folder you may write to, or use a checkout of your own",
        )
    free_gb = shutil.disk_usage(place).free / 1e9
    if free_gb < DISK_NEEDED_GB:
        fail(
            f"only {free_gb:.1f} GB are free at {place}, and about {DISK_NEEDED_GB} GB are needed.",
            "free some space, or set MUSTER_VENV to a folder on a larger disk",
        )
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        fail(
            "this Python comes without its venv module.",
            f"on Debian and Ubuntu: apt-get install python{version}-venv",
        )


@contextlib.contextmanager
def locked(venv: Path) -> Iterator[None]:
    """One bootstrap at a time per environment; a second one waits."""
    try:
        venv.mkdir(parents=True, exist_ok=True)
        lock = (venv / ".bootstrap.lock").open("w")
    except OSError as error:
        fail(f"cannot write to {venv}: {error.strerror}.", "set MUSTER_VENV to another folder")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("  waiting for another bootstrap of this environment …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_environment(venv: Path, log: Path) -> Path:
    """The environment's python; created, or kept when it still runs."""
    python = venv / "bin" / "python"
    works = (
        python.exists()
        and subprocess.run(
            [python, "-c", "import pip"], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not works:
        output = run_step(
            f"creating {display(venv)}", [sys.executable, "-m", "venv", str(venv)], log
        )
        if output is not None:
            explain_and_fail("creating the virtual environment", output, log)
    return python


def pip(python: Path, *arguments: str) -> list[str]:
    return [str(python), "-m", "pip", *arguments, "--disable-pip-version-check", "--no-input"]


def install_packages(python: Path, log: Path, *, torch: str, test: bool) -> None:
    # `pip install --group` came with 25.1.
    version = subprocess.run(
        [python, "-c", "import pip; print(pip.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split(".")
    if (int(version[0]), int(version[1])) < (25, 1):
        output = run_step("updating pip", pip(python, "install", "-q", "pip>=25.1"), log)
        if output is not None:
            explain_and_fail("updating pip", output, log)
    if torch != "skip":
        install_torch(python, log, torch)
    extras = "local" if torch == "skip" else "local,train"
    groups = ["--group", "build", *(["--group", "test"] if test else [])]
    output = run_step(
        "installing the packages",
        pip(python, "install", "-c", "constraints.txt", "-e", f".[{extras}]", *groups),
        log,
    )
    if output is not None:
        explain_and_fail("installing the packages", output, log)


def install_torch(python: Path, log: Path, torch: str) -> None:
    """The CPU build unless asked otherwise: the default Linux build brings gigabytes of CUDA."""
    probe = "import importlib.metadata as m; print(m.version('torch'))"
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return
    line = (ROOT / "constraints.txt").read_text()
    match = re.search(r"^torch==(\S+)$", line, re.MULTILINE)
    assert match, "constraints.txt pins torch"
    version = match.group(1)
    install = pip(python, "install")
    if torch == "cuda" or sys.platform == "darwin":
        attempts = [[*install, f"torch=={version}"]]
    else:
        # A mirror or a local wheel folder may have it; only then PyTorch's own index.
        attempts = [
            [*install, f"torch=={version}+cpu"],
            [*install, f"torch=={version}+cpu", "--extra-index-url", PYTORCH_CPU_INDEX],
        ]
        if platform.machine() not in ("x86_64", "aarch64"):
            attempts.append([*install, f"torch=={version}"])
    output = None
    for attempt in attempts:
        output = run_step(f"installing PyTorch {version} ({torch})", attempt, log)
        if output is None:
            return
        say("  not found there")
    assert output is not None
    explain_and_fail(f"installing PyTorch {version}", output, log)


def build_dashboard(venv: Path, stamps: Stamps, log: Path) -> None:
    frontend = ROOT / "frontend"
    if not (frontend / "package-lock.json").exists():
        return
    lock = digest([frontend / "package.json", frontend / "package-lock.json"])
    sources = digest(sorted(frontend_files(frontend)))
    static = ROOT / "server" / "muster_server" / "static" / "index.html"
    env = {**os.environ, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    npm = str(venv / "bin" / "npm")
    # The stamps belong to this checkout's folders, not to the environment, which may be shared.
    if not (stamps.is_current("npm", lock) and (frontend / "node_modules").is_dir()):
        output = run_step(
            "installing the dashboard's packages",
            [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
            log,
            cwd=frontend,
            env=env,
        )
        if output is not None:
            explain_and_fail("installing the dashboard's packages", output, log)
        stamps.write("npm", lock)
    if not (stamps.is_current("dashboard", sources) and static.exists()):
        output = run_step(
            "building the dashboard", [npm, "run", "build"], log, cwd=frontend, env=env
        )
        if output is not None:
            explain_and_fail("building the dashboard", output, log)
        stamps.write("dashboard", sources)


def frontend_files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name not in FRONTEND_SKIPPED:
                yield from frontend_files(entry)
        elif not entry.name.endswith(".tsbuildinfo"):
            yield entry


def display(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def main() -> None:
    global quiet
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--test", action="store_true", help="also what the tests need")
    parser.add_argument("--no-dashboard", action="store_true", help="do not build the dashboard")
    parser.add_argument("--quiet", action="store_true", help="say nothing unless it fails")
    arguments = parser.parse_args()
    quiet = arguments.quiet
    venv = Path(os.environ.get("MUSTER_VENV") or ROOT / ".venv").absolute()
    torch = os.environ.get("MUSTER_TORCH") or "cpu"
    if torch not in ("cpu", "cuda", "skip"):
        fail(f"MUSTER_TORCH is {torch!r}.", "use cpu, cuda or skip")
    if arguments.test and torch == "skip":
        fail("the tests need PyTorch.", "leave MUSTER_TORCH unset or set it to cpu")

    started = time.monotonic()
    stamps = Stamps(venv / ".bootstrap" / hashlib.sha256(str(ROOT).encode()).hexdigest()[:12])
    log = venv / "bootstrap.log"
    wanted = digest([ROOT / "pyproject.toml", ROOT / "constraints.txt"], torch, str(ROOT))
    # An environment made for the tests also serves to run.
    steps = ["packages-test"] if arguments.test else ["packages", "packages-test"]
    if not any(stamps.is_current(step, wanted) for step in steps):
        check_place(venv)
        say(f"Setting up {display(venv)} (once; the log is {display(log)})")
        with locked(venv):
            python = make_environment(venv, log)
            install_packages(python, log, torch=torch, test=arguments.test)
            stamps.write(steps[0], wanted)
            (venv / ".bootstrap" / "python.json").write_text(
                json.dumps({"base": sys.executable, "version": platform.python_version()})
            )
    if not arguments.no_dashboard:
        with locked(venv):
            build_dashboard(venv, stamps, log)
    if time.monotonic() - started > 2:
        say(f"Ready after {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
