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

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.document.running import EnvironmentSection, is_requirements_file
from muster_agent.environments.base import BaseInterpreter, link_programs, read_base
from muster_agent.environments.cleaning import COMPLETE, USED, UV_CACHE, collect, size_on_disk
from muster_agent.environments.content import key_of
from muster_agent.environments.failures import BuildCanceled, BuildFailed
from muster_agent.environments.interpreters import activated
from muster_agent.environments.locks import why_outdated

BUILD_TIMEOUT_S = 7200.0
"""Seconds for one step of a build: flash-attn compiles for an hour."""
POLL_S = 0.1
MAX_MESSAGE_CHARS = 1500
BUILT_WITH_TORCH = ("causal-conv1d", "deepspeed", "flash-attn", "mamba-ssm", "xformers")
"""Packages whose builds import torch, which uv otherwise builds without the environment."""
_NODES_FAULT = re.compile(
    r"error sending request|dns error|timed out|[Cc]onnection (refused|reset)|tcp connect|"
    r"Failed to (fetch|download)|No space left|Permission denied|Disk quota|Read-only file system"
)


@dataclass(frozen=True, kw_only=True)
class BuiltEnvironment:
    """An environment that a job may use while `lock` is open."""

    python: str
    lock: int
    """Descriptor that holds the shared lock."""


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
        base = read_base(python)
        key = key_of(wanted, base, code=code, code_id=code_id, environment=environment)
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
    base: BaseInterpreter
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
            link_programs(self.base, self.path)
            self._set_up()
            size_bytes = size_on_disk(self.path)
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
        command = "clean" if size_on_disk(cache) > limit_bytes // 2 else "prune"
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
        if outdated := why_outdated(lock):
            self._say(outdated)
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
