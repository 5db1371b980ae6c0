#!/usr/bin/env python3
"""Make a checkout ready: a virtual environment, the packages, the built dashboard.

    python3 scripts/bootstrap.py [--test] [--quiet]

The packages are those of `requirements.lock`; uv installs them and checks their hashes. Every step
leaves a stamp with a hash of what it depends on, so a second run does nothing and takes a fraction
of a second. Needs Python 3.11 and nothing else; says in one sentence what is missing.

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
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VERSION = ROOT / "trainer/muster/__init__.py"
LOCK = ROOT / "requirements.lock"
PARTS = sorted(ROOT.glob("parts/*/pyproject.toml"))
DISK_NEEDED_GB = 2.5
"""Measured: 1.8 GB with torch's CPU build and 0.3 GB for the dashboard's packages, and some air."""
CUDA_SIZE = "2.7 GB to download, and about twice as much on the disk"
"""Measured for torch 2.13 on x86-64: the download."""
FRONTEND_OUTPUT = {"node_modules", "dist", "test-results", "coverage", ".vite", "playwright-report"}
UV_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
}
"""Settings of pip, and the variables that say the same to uv, which does not read pip's."""
FAILURES = [
    (r"No space left|ENOSPC|Errno 28", "the disk is full", "free some space and run this again"),
    (
        r"CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|invalid peer certificate",
        "the certificate of the package index is not trusted",
        "set PIP_CERT and NODE_EXTRA_CA_CERTS to your CA bundle",
    ),
    (
        r"NewConnectionError|Failed to establish|name resolution|Name or service not known|"
        r"nodename nor servname|ConnectTimeout|Read timed out|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|"
        r"ECONNREFUSED|Network is unreachable|ProxyError|MaxRetryError|Connection refused|"
        r"error sending request|dns error|"  # uv
        r"from versions: none",  # all that pip says when it may not try again
        "the package index cannot be reached",
        "check the network and the proxy or mirror settings "
        "(HTTPS_PROXY, PIP_INDEX_URL, npm_config_registry)",
    ),
    (
        r"(?i)hash mismatch|do not match the hashes",
        "a package is not the one that requirements.lock names",
        "a mirror, a proxy or a broken download has changed it: clear the caches and try again",
    ),
    (
        r"No solution found|In `--require-hashes` mode",
        "requirements.lock, pyproject.toml and the package index do not agree",
        "if you changed pyproject.toml, renew the lock: CONTRIBUTING.md has the command",
    ),
    (
        r"Permission denied|EACCES|Errno 13|Failed to initialize cache",
        "no write permission",
        "set UV_CACHE_DIR and npm_config_cache to folders you may write to",
    ),
]
"""What pip, uv and npm print, what it means and what to do about it. The first match counts."""

quiet = False


def say(text: str) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def fail(message: str, hint: str) -> NoReturn:
    print(f"error: {message}\nhint: {hint}", file=sys.stderr)
    sys.exit(1)


def display(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


# ---------------------------------------------------------------- stamps


def digest(paths: Iterable[Path], *more: str) -> str:
    """Hash the files' names and contents and `more`; missing files count as empty."""
    result = hashlib.sha256()
    for text in more:
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


class Runner:
    """Runs commands with their output in a log, and a line of progress every ten seconds."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.env = dict(os.environ)

    def run(self, what: str, *attempts: list[str], cwd: Path = ROOT) -> None:
        """Run the commands until one succeeds, or fail with a sentence about the last one."""
        output = self.attempt(what, *attempts, cwd=cwd)
        if output is not None:
            explain_and_fail(what, output, self.log)

    def attempt(self, what: str, *attempts: list[str], cwd: Path = ROOT) -> str | None:
        """Run the commands until one succeeds; the output of the last one if none does."""
        output = ""
        for command in attempts:
            say(f"  {what} …")
            started = time.monotonic()
            with self.log.open("a") as file:
                print(f"\n$ {' '.join(command)}", file=file, flush=True)
                begin = file.tell()
                try:
                    process = subprocess.Popen(
                        command,
                        cwd=cwd,
                        env=self.env,
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                    )
                except OSError as error:
                    folder = self.log.parent
                    fail(f"{what} failed: {error}.", f"remove {folder} and run this again")
                while process.returncode is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(10)
                        break
                    last = self.log.read_text(errors="replace").splitlines()[-1]
                    say(f"    {time.monotonic() - started:4.0f} s  {last.strip()[:80]}")
            if process.returncode == 0:
                say(f"  {what}: done in {time.monotonic() - started:.0f} s")
                return None
            output = self.log.read_bytes()[begin:].decode(errors="replace")
        return output


def explain_and_fail(what: str, output: str, log: Path) -> NoReturn:
    """Say in one sentence why a step failed, after the last lines of its output."""
    print("\n".join("    " + x for x in output.strip().splitlines()[-15:]), file=sys.stderr)
    for pattern, reason, hint in FAILURES:
        if re.search(pattern, output):
            fail(f"{what} failed: {reason}.", f"{hint}; log: {log}")
    fail(f"{what} failed.", f"the log has more: {log}")


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


def make_environment(venv: Path, runner: Runner) -> Path:
    """The environment's python; created, or kept when it still runs."""
    python = venv / "bin" / "python"
    probe = [str(python), "-c", "import pip"]
    if not python.exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
        runner.run(f"creating {display(venv)}", [sys.executable, "-m", "venv", str(venv)])
    return python


def uv_settings(python: Path) -> dict[str, str]:
    """The index, mirror, proxy and certificate that pip is told to use, as variables of uv."""
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # each overrides those before it
        for name, value in re.findall(rf"^{section}\.([a-z-]+)='(.*)'$", listed, re.MULTILINE):
            parts = value.replace("\\n", " ").split()  # pip prints lists as Python would
            settings[name] = ("," if name == "find-links" else " ").join(parts)
    # As pip does; with all hashes known it does not matter which index has a package first.
    result = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    return result | {UV_SETTINGS[name]: settings[name] for name in UV_SETTINGS if name in settings}


def install_packages(python: Path, runner: Runner, *, torch: str, test: bool) -> None:
    """Install what pyproject.toml asks for, in the versions and with the hashes of the lock."""
    folder = python.parent.parent
    runner.env = uv_settings(python) | os.environ
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):  # else Python compiles what it imports
        runner.env["UV_COMPILE_BYTECODE"] = "1"

    def uv(command: str, *arguments: str) -> list[str]:
        return [str(folder / "bin/uv"), "pip", command, "--python", str(python), *arguments]

    (entry,) = re.findall(r"^uv==.*\n(?:    .*\n)+", LOCK.read_text(), re.MULTILINE)
    (folder / "uv.txt").write_text(entry)
    pip = [str(python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    runner.run("installing uv", [*pip, "--require-hashes", "-r", str(folder / "uv.txt")])

    for information in folder.glob("lib*/python*/site-packages/*.dist-info"):
        if not (information / "INSTALLER").exists():  # written last: this one was interrupted
            shutil.rmtree(information, ignore_errors=True)
    parts = ["--extra=local", "--group=build"]
    parts += ["--extra=train", "--group=torch"] if torch != "skip" else []
    parts += ["--group=test"] if test else []
    (folder / "excluded.txt").write_text("torch\n")
    files = [f"--excludes={folder / 'excluded.txt'}", f"--output-file={folder / 'pins.txt'}"]
    resolve = uv("compile", "-q", "pyproject.toml", *parts, *files, "-c", str(LOCK))
    runner.run("choosing the packages", resolve)
    locked = ["--require-hashes", "-c", str(LOCK), "-r", str(folder / "pins.txt")]
    runner.run("installing the packages", uv("install", *locked))
    # Anew: uv takes one whose pyproject.toml has not changed for the same version.
    checkout = ["--no-deps", "--no-build-isolation", "--reinstall", "--refresh", "-e", "."]
    checkout += [word for part in PARTS for word in ("-e", str(part.parent))]
    runner.run("installing the checkout", uv("install", *checkout))
    if torch != "skip":
        install_torch(python, runner, uv, torch)


def install_torch(python: Path, runner: Runner, uv: Callable[..., list[str]], torch: str) -> None:
    """The CPU build unless asked otherwise: the default Linux build brings gigabytes of CUDA. It is
    what is left where only a mirror of the Python index can be reached."""
    probe = [str(python), "-c", "import importlib.metadata as m; m.version('torch')"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (pin,) = (line for line in groups["torch"] if line.startswith("torch=="))
    what = f"installing PyTorch {pin.removeprefix('torch==')}"
    if torch == "cpu" and sys.platform != "darwin":
        # A mirror or a local wheel folder may have it; only then PyTorch's own index.
        cpu = uv("install", "--no-deps", f"{pin}+cpu")
        own = uv("install", "--no-deps", "--torch-backend=cpu", pin)
        output = runner.attempt(f"{what} (cpu)", cpu, own)
        if output is None:
            return
        if re.search(FAILURES[0][0], output):  # the disk is full
            explain_and_fail(what, output, runner.log)
        say(
            "  PyTorch's own index (download.pytorch.org) does not answer, so the build of the "
            f"configured package index is installed. On Linux it may include CUDA: {CUDA_SIZE}."
        )
    runner.run(what, uv("install", "-c", str(LOCK), pin))


def build_dashboard(python: Path, stamps: Stamps, runner: Runner) -> None:
    frontend = ROOT / "frontend"
    lock = digest([frontend / "package.json", frontend / "package-lock.json"])
    static = ROOT / "server" / "muster_server" / "static" / "index.html"
    runner.env["PATH"] = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    runner.env["PYTHON"] = str(python)
    npm = str(python.with_name("npm"))
    # The stamps belong to this checkout's folders, not to the environment, which may be shared.
    if not (stamps.is_current("npm", lock) and (frontend / "node_modules").is_dir()):
        install = [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        runner.run("installing the dashboard's packages", install, cwd=frontend)
        stamps.write("npm", lock)
    generate = [str(python), str(ROOT / "scripts" / "generate.py")]
    if subprocess.run([*generate, "--check"], check=False).returncode:
        runner.run("making the pages of the reference", generate)
    sources = digest(
        sorted(
            path
            for folder in ("frontend", "docs", "examples")
            for path in files_below(ROOT / folder)
        )
    )
    if not (stamps.is_current("dashboard", sources) and static.exists()):
        runner.run("building the dashboard", [npm, "run", "build"], cwd=frontend)
        stamps.write("dashboard", sources)


def files_below(root: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = {*subfolders} - FRONTEND_OUTPUT
        yield from (Path(folder, name) for name in names if not name.endswith(".tsbuildinfo"))


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
    runner = Runner(venv / "bootstrap.log")
    # Parts record the version that they were installed as, and a server of another one refuses them.
    text = VERSION.read_text() if VERSION.exists() else ""
    version = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    wanted = digest([ROOT / "pyproject.toml", *PARTS, LOCK], torch, str(ROOT), *version)
    # An environment made for the tests also serves to run.
    steps = ["packages-test"] if arguments.test else ["packages", "packages-test"]
    if not any(stamps.is_current(step, wanted) for step in steps):
        check_place(venv)
        say(f"Setting up {display(venv)} (once; the log is {display(runner.log)})")
        with locked(venv):
            python = make_environment(venv, runner)
            install_packages(python, runner, torch=torch, test=arguments.test)
            stamps.write(steps[0], wanted)
    if not arguments.no_dashboard:
        with locked(venv):
            build_dashboard(venv / "bin" / "python", stamps, runner)
    if time.monotonic() - started > 2:
        say(f"Ready after {time.monotonic() - started:.0f} s.")


if __name__ == "__main__":
    main()
