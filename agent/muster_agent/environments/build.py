"""Python environments that documents ask for, built by uv once per content and kept on the node.

An environment is laid over the interpreter of the node: what is installed there, torch above all,
is used and not installed again. A `.pth` file adds the base's packages, and copies of their
metadata let uv see them; see `_overlay`. It is built where it stays, since the programs in it hold
their own path, and is complete when its marker exists.

A shared lock is held for as long as a job uses an environment. The lock is inherited by the
programs that build, so a builder that is killed leaves no environment that somebody else repairs
while its uv still writes.
"""

from __future__ import annotations

import configparser
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from muster.document.running import EnvironmentSection, is_requirements_file
from muster_agent.environments.interpreters import activated

BUILD_TIMEOUT_S = 7200.0
"""Seconds for one step of a build: flash-attn compiles for an hour."""
POLL_S = 0.1
MAX_MESSAGE_CHARS = 1500
COMPLETE = ".complete"
USED = ".used"
UV_CACHE = "uv-cache"
_TORCH = re.compile(r"(torch|torchvision|torchaudio|triton|nvidia[-_].*)", re.IGNORECASE)
"""Packages of the base that an environment must not install in another version beside it."""
BUILT_WITH_TORCH = ("causal-conv1d", "deepspeed", "flash-attn", "mamba-ssm", "xformers")
"""Packages whose builds import torch, which uv otherwise builds without the environment."""
_INCLUDED = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)", re.MULTILINE)
_EDITABLE = re.compile(r"^\s*(?:-e|--editable)\b", re.MULTILINE)
_LOCAL = re.compile(r"^\s*(?:\.{0,2}/|file:)|@\s*(?:\.{0,2}/|file:)", re.MULTILINE)
_NODES_FAULT = re.compile(
    r"error sending request|dns error|timed out|[Cc]onnection (refused|reset)|tcp connect|"
    r"Failed to (fetch|download)|No space left|Permission denied|Disk quota|Read-only file system"
)
_BASE_FACTS = """
import json, os, site, sys, sysconfig
paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
sites = [p for p in dict.fromkeys(paths) if os.path.isdir(p)]
print(json.dumps({"version": sys.version, "sites": sites, "platform": sysconfig.get_platform()}))
"""

Fault = Literal["document", "node"]


class BuildFailed(Exception):
    """The environment cannot be built; the message is one sentence for people."""

    def __init__(self, message: str, *, fault: Fault) -> None:
        """Create the error; fault: "node" if it may succeed on another node, or later."""
        super().__init__(message)
        self.fault = fault


class BuildCanceled(Exception):
    """Nobody wants the environment any more."""


@dataclass(frozen=True, kw_only=True)
class BuiltEnvironment:
    """An environment that a job may use while `lock` is open."""

    python: str
    lock: int
    """Descriptor that holds the shared lock."""


@dataclass(frozen=True, kw_only=True)
class _Base:
    python: str
    version: str
    platform: str
    sites: tuple[str, ...]
    """Folders of installed packages."""

    def metadata(self) -> Iterator[Path]:
        """Yield the metadata folder of each package; the first of several versions counts."""
        seen = set()
        for site in self.sites:
            for folder in sorted(Path(site).glob("*.dist-info")):
                name = folder.name.partition("-")[0].lower()
                if name not in seen:
                    seen.add(name)
                    yield folder

    def constraints(self) -> list[str]:
        """Return the versions of torch and what belongs to it, as requirements."""
        found = []
        for folder in self.metadata():
            name, _, version = folder.name.removesuffix(".dist-info").partition("-")
            if _TORCH.fullmatch(name):
                found.append(f"{name.replace('_', '-')}=={version}")
        return found


def needs_building(environment: EnvironmentSection) -> bool:
    """Return whether a document asks for packages or for setup commands."""
    return bool(environment.requirements or environment.setup)


def find_uv() -> str:
    """Return the path of uv: of the package that is installed with the agent, else on PATH; "" if
    there is none."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv") or ""


class EnvironmentCache:
    """The environments of one agent. Several processes may use one folder at the same time."""

    def __init__(self, folder: Path, *, uv: str, limit_bytes: int) -> None:
        self._folder = folder
        self._uv = uv
        self._limit_bytes = limit_bytes

    def open(
        self,
        wanted: EnvironmentSection,
        *,
        python: str,
        code: Path,
        code_id: str,
        environment: Mapping[str, str],
        log: Path,
        is_canceled: Callable[[], bool] = lambda: False,
    ) -> BuiltEnvironment:
        """Return the environment that a document asks for, building it if it does not exist. Blocks.

        python: the interpreter below it.
        code: folder with the files named in `requirements`, in which setup commands run.
        code_id: identifies the content of `code`; "" if that may change without notice.
        environment: variables of uv and of the setup commands.
        log: file to which the progress is appended.
        Raises BuildFailed and BuildCanceled.
        """
        if not self._uv:
            raise BuildFailed(
                "environment.requirements and environment.setup need uv, and this node's agent has "
                "none: install it beside the agent (`pip install uv`)",
                fault="node",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        base = _describe(python)
        key = _key(wanted, base, code=code, code_id=code_id, environment=environment)
        path = self._folder / key
        lock = os.open(self._folder / f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        build = _Build(
            wanted=wanted,
            base=base,
            path=path,
            code=code,
            uv=self._uv,
            log=log,
            lock=lock,
            is_canceled=is_canceled,
            environment={"UV_CACHE_DIR": str(self._folder / UV_CACHE), **environment},
        )
        has_built = False
        try:
            while not self._share(lock, path, build):
                build.wait_for_lock(fcntl.LOCK_EX)
                if not (path / COMPLETE).exists():
                    build.run()
                    has_built = True
        except BaseException:
            os.close(lock)
            raise
        if has_built and collect(self._folder, limit_bytes=self._limit_bytes):
            build.free_cache(self._limit_bytes)
        return BuiltEnvironment(python=str(path / "bin" / "python"), lock=lock)

    def _share(self, lock: int, path: Path, build: _Build) -> bool:
        """Take the shared lock. Return whether the environment is complete."""
        build.wait_for_lock(fcntl.LOCK_SH)
        try:
            (path / COMPLETE).stat()
            (path / USED).touch()
        except OSError:
            return False
        return True


@dataclass(frozen=True, kw_only=True)
class _Build:
    wanted: EnvironmentSection
    base: _Base
    path: Path
    code: Path
    uv: str
    log: Path
    lock: int
    is_canceled: Callable[[], bool]
    environment: Mapping[str, str]

    def wait_for_lock(self, kind: int) -> None:
        has_told = False
        while True:
            try:
                fcntl.flock(self.lock, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self.is_canceled():
                    raise BuildCanceled from None
                if not has_told:
                    self._say("waiting for the same environment, which another job is building")
                has_told = True
                time.sleep(POLL_S)

    def run(self) -> None:
        """Build the environment from nothing. The exclusive lock is held."""
        began = time.monotonic()
        self._say(f"building an environment for {self.base.python}")
        try:
            shutil.rmtree(self.path, ignore_errors=True)
            self._overlay()
            self._install()
            _link_programs(self.base, self.path)
            self._set_up()
            size_bytes = _size(self.path)
            (self.path / COMPLETE).write_text(json.dumps({"size_bytes": size_bytes}))
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
            raise BuildFailed(
                f"the environment cannot be written: {error}", fault="node"
            ) from error
        except (BuildFailed, BuildCanceled) as error:
            shutil.rmtree(self.path, ignore_errors=True)
            self._say(f"failed: {error}" if isinstance(error, BuildFailed) else "canceled")
            raise
        self._say(f"the environment is ready after {time.monotonic() - began:.1f} s")

    def free_cache(self, limit_bytes: int) -> None:
        """Delete what uv keeps for environments that are gone: their files are freed only then."""
        cache = Path(self.environment["UV_CACHE_DIR"])
        command = "clean" if _size(cache) > limit_bytes // 2 else "prune"
        with contextlib.suppress(BuildCanceled, BuildFailed):
            self._uv("cache", command, "--quiet")

    def _overlay(self) -> None:
        """Create an environment in which the packages of the base exist.

        The metadata of each is copied with a RECORD that lists the copy alone, so uv counts it as
        installed, and replaces it without touching the base.
        """
        python = os.path.realpath(shutil.which(self.base.python) or self.base.python)
        self._uv("venv", "--quiet", "--python", python, str(self.path))
        if self.wanted.torch == "own":
            return
        (site,) = self.path.glob("lib/python3*/site-packages")
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in self.base.sites]
        (site / "zz_muster_base.pth").write_text("".join(lines))
        for source in self.base.metadata():
            target = site / source.name
            target.mkdir()
            for name in ("METADATA", "WHEEL", "entry_points.txt"):
                if (source / name).exists():
                    shutil.copy(source / name, target / name)
            (target / "INSTALLER").write_text("muster-base")
            files = [*sorted(file.name for file in target.iterdir()), "RECORD"]
            record = "".join(f"{source.name}/{file},,\n" for file in files)
            (target / "RECORD").write_text(record)

    def _install(self) -> None:
        arguments = []
        packages = []
        for item in self.wanted.requirements:
            if Path(item).name == "uv.lock":
                arguments += ["-r", str(self._export_lock(self.code / item))]
            elif is_requirements_file(item):
                arguments += ["-r", str(self.code / item)]
            else:
                packages.append(item)
        if packages:
            listed = self.path / "muster-requirements.txt"
            listed.write_text("".join(f"{package}\n" for package in packages))
            arguments += ["-r", str(listed)]
        if not arguments:
            return
        if self.wanted.torch != "own":
            constraints = self.path / "muster-constraints.txt"
            constraints.write_text("".join(f"{line}\n" for line in self.base.constraints()))
            arguments += ["-c", str(constraints)]
        for name in BUILT_WITH_TORCH:
            arguments += ["--no-build-isolation-package", name]
        python = str(self.path / "bin" / "python")
        self._uv("pip", "install", "--python", python, *arguments)

    def _export_lock(self, lock: Path) -> Path:
        """Return the requirements of a uv.lock. Never locks again: a node is not the place."""
        target = self.path / "muster-lock.txt"
        arguments = ["--frozen", "--no-hashes", "--no-emit-workspace", "--no-header", "--quiet"]
        if self.wanted.torch != "own":
            arguments += ["--prune", "torch"]
        self._uv("export", "--project", str(lock.parent), *arguments, "-o", str(target))
        return target

    def _set_up(self) -> None:
        environment = activated(self._variables(), str(self.path / "bin" / "python"))
        for line in self.wanted.setup:
            self._say(f"$ {line}")
            code, words = self._run(["/bin/sh", "-c", line], environment, folder=self.code)
            if code != 0:
                how = f"exited with code {code}" if code > 0 else f"was killed by signal {-code}"
                last = words.strip().splitlines()[-1:] or ["no output"]
                raise BuildFailed(
                    f"the setup command `{line}` {how}: {last[0]}"[:MAX_MESSAGE_CHARS],
                    fault="document" if code > 0 else "node",
                )

    def _uv(self, *arguments: str) -> None:
        environment = self._variables()
        environment.pop("VIRTUAL_ENV", None)
        environment.pop("CONDA_PREFIX", None)
        code, words = self._run([self.uv, *arguments], environment, folder=self.code)
        if code == 0:
            return
        message = _explain(words) or f"uv {arguments[0]} exited with code {code}"
        if any(name in message for name in self.base.constraints()):
            message += "; the node's torch is used, and environment.torch: own installs another one"
        is_nodes = code < 0 or _NODES_FAULT.search(words) is not None
        raise BuildFailed(
            f"the environment cannot be built: {message}"[:MAX_MESSAGE_CHARS],
            fault="node" if is_nodes else "document",
        )

    def _variables(self) -> dict[str, str]:
        return {
            **self.environment,
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            "NO_COLOR": "1",
        }

    def _run(
        self, argv: Sequence[str], environment: Mapping[str, str], *, folder: Path
    ) -> tuple[int, str]:
        """Run a command with its output in the log. Return its exit code, or minus the signal, and
        its output."""
        deadline = time.monotonic() + BUILD_TIMEOUT_S
        with self.log.open("ab") as output:
            start = output.tell()
            process = subprocess.Popen(
                argv,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(self.lock,),  # It stays locked while this runs, whatever becomes of us.
            )
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(POLL_S)
                    break
                if self.is_canceled() or time.monotonic() > deadline:
                    process.kill()
                    process.wait()
                    if self.is_canceled():
                        raise BuildCanceled
                    raise BuildFailed(
                        f"`{shlex.join(argv[:3])} …` did not end within {BUILD_TIMEOUT_S:.0f} s",
                        fault="node",
                    )
        if self.is_canceled():  # Then somebody else may have collected the exit code.
            raise BuildCanceled
        with self.log.open("rb") as written:
            written.seek(start)
            return code, written.read(200_000).decode("utf-8", "replace")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError), self.log.open("a") as log:
            log.write(f"[setup] {text}\n")


def collect(folder: Path, *, limit_bytes: int) -> int:
    """Delete the least recently used environments until the rest fits, except those in use, and what
    is left of builds. Return the number of environments deleted."""
    for rest in folder.glob(".old-*"):
        shutil.rmtree(rest, ignore_errors=True)
    for path in folder.iterdir():
        is_left = path.is_dir() and path.name != UV_CACHE and not (path / COMPLETE).exists()
        if is_left:  # By a builder that was killed; one that builds holds the lock.
            _delete(path)
    found: list[tuple[float, int, Path]] = []
    for marker in folder.glob(f"*/{COMPLETE}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            size_bytes = int(json.loads(marker.read_text())["size_bytes"])
            found.append(((marker.parent / USED).stat().st_mtime, size_bytes, marker.parent))
    total, num_deleted = 0, 0
    for _, size_bytes, path in sorted(found, reverse=True):
        total += size_bytes
        if total > limit_bytes and _delete(path):
            total -= size_bytes
            num_deleted += 1
    return num_deleted


def _delete(path: Path) -> bool:
    """Delete an environment unless somebody uses it."""
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trash = path.with_name(f".old-{path.name}")
        path.rename(trash)
    except OSError:
        return False
    finally:
        os.close(lock)
    shutil.rmtree(trash, ignore_errors=True)
    return True


def _describe(python: str) -> _Base:
    try:
        done = subprocess.run(
            [python, "-c", _BASE_FACTS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=True,
            cwd="/",
        )
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BuildFailed(
            f"the interpreter {python} does not run: {error}", fault="node"
        ) from error
    return _Base(
        python=python,
        version=facts["version"],
        platform=facts["platform"],
        sites=tuple(facts["sites"]),
    )


def _key(
    wanted: EnvironmentSection,
    base: _Base,
    *,
    code: Path,
    code_id: str,
    environment: Mapping[str, str],
) -> str:
    """Return a name that differs whenever the environment could. Raises BuildFailed."""
    texts: dict[str, str] = {}
    for item in wanted.requirements:
        if is_requirements_file(item):
            _read(code / item, code, texts)
            if Path(item).name == "uv.lock":
                _read((code / item).with_name("pyproject.toml"), code, texts)
        else:
            texts[item] = ""
    if code_id and any(_EDITABLE.search(text) for text in texts.values()):
        raise BuildFailed(
            "environment.requirements has an editable package (-e), whose folder belongs to one "
            "trial; leave -e out, or use code.installed",
            fault="document",
        )
    is_of_code = bool(wanted.setup) or any(
        _LOCAL.search(f"{name}\n{text}") for name, text in texts.items()
    )
    content = {
        "requirements": texts,
        "torch": wanted.torch,
        "setup": wanted.setup,
        "code": (code_id or str(code)) if is_of_code else "",
        "base": [os.path.realpath(base.python), base.version, base.platform, base.sites],
        "packages": [folder.name for folder in base.metadata()],
        "indexes": {
            name: value
            for name, value in sorted(environment.items())
            if name.startswith("UV_") and name not in ("UV_CACHE_DIR", "UV_OFFLINE")
        },
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _read(path: Path, code: Path, texts: dict[str, str]) -> None:
    """Read a requirements file and what it includes into `texts`. Raises BuildFailed."""
    name = os.path.relpath(path, code)
    if name in texts:
        return
    try:
        text = texts[name] = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BuildFailed(
            f"environment.requirements: {name} cannot be read in the code folder: {reason}",
            fault="document",
        ) from error
    if path.suffix == ".txt":
        for included in _INCLUDED.findall(text):
            if "://" not in included:
                _read(path.parent / included, code, texts)


def _link_programs(base: _Base, path: Path) -> None:
    """Write the console scripts of the base's packages that the environment has not replaced: those
    of the base run in the base, without what is installed here."""
    python = path / "bin" / "python"
    for metadata in path.glob("lib/python3*/site-packages/*.dist-info"):
        installer = metadata / "INSTALLER"
        if not installer.exists() or installer.read_text() != "muster-base":
            continue
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
        with contextlib.suppress(OSError, configparser.Error):
            parser.read(metadata / "entry_points.txt")
        if not parser.has_section("console_scripts"):
            continue
        for name, value in parser.items("console_scripts"):
            module, _, function = value.partition("[")[0].strip().partition(":")
            program = path / "bin" / name
            if program.exists() or not function or "/" in name:
                continue
            first = function.partition(".")[0]
            program.write_text(
                f"#!/bin/sh\n'''exec' {shlex.quote(str(python))} \"$0\" \"$@\"\n' '''\n"
                f"import sys\nfrom {module} import {first}\nsys.exit({function}())\n"
            )
            program.chmod(0o755)


def _explain(output: str) -> str:
    """Return what uv says about a failure, on one line, without hints and progress."""
    lines = [line.strip() for line in output.splitlines()]
    start = next(
        (i for i, line in enumerate(lines) if line.startswith(("error:", "×", "x ", "hint:"))), None
    )
    if start is None:
        return " ".join(lines[-3:]).strip()
    kept = [re.sub(r"^(error:|×|╰─▶|├─▶|cause:|x )\s*", "", line) for line in lines[start:]]
    return " ".join(line for line in kept if line and not line.startswith("hint:"))


def _size(path: Path) -> int:
    """Return the bytes that deleting a folder frees. Files shared with uv's cache count in part."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118
                total += found.st_blocks * 512 // max(found.st_nlink, 1)
    return total
