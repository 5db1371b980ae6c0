"""Python environments that documents ask for, built by uv once per content and kept on the node.

What an environment consists of is in muster_agent.environments.builder, which runs behind the walls
of the job. It is built where it stays, since the programs in it hold their own path. It is complete
when its marker exists, which lies beside it, where nothing of the job can write.

A shared lock is held for as long as a job uses an environment. The lock is inherited by the
programs that build, so a builder that is killed leaves no environment that somebody else repairs
while its uv still writes.

On top of an image, everything happens in a container of it, by the same program: the interpreter is
the image's, and the name of an environment includes the image.

Where jobs are isolated, each project has a cache of its own: setup commands and builds of packages
are code of the project, and what they leave, also in uv's cache, is used by later builds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import packaging

import muster
import muster_agent
from muster.document.running import EnvironmentSection
from muster_agent.environments.builder import STEP_TIMEOUT_S, BuildRequest
from muster_agent.environments.cleaning import UV_CACHE, collect, marker_of, size_on_disk
from muster_agent.environments.failures import BuildCanceled, BuildFailed
from muster_agent.isolation.walls import Isolation, hand_over, program

POLL_S = 0.1
END_S = 5.0
"""Seconds that a builder is given to end what it has started."""
MAX_ANSWER_BYTES = 16_384
_PACKAGES = [Path(package.__path__[0]) for package in (muster, muster_agent, packaging)]
"""What the builder imports, for a container."""
_KEY = re.compile(r"[0-9a-f]{24}")


@dataclass(frozen=True, kw_only=True)
class BuiltEnvironment:
    """An environment that a job may use while `lock` is open."""

    python: str
    lock: int
    """Descriptor that holds the shared lock."""


@dataclass(frozen=True, kw_only=True)
class BuildWalls:
    """What a build may touch."""

    isolation: Isolation
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    """Folders that belong to the user of the project's jobs already."""


def needs_building(environment: EnvironmentSection) -> bool:
    """Return whether a document asks for packages or for setup commands."""
    return bool(environment.requirements or environment.setup)


def find_uv() -> str:
    """Return the path of uv: of the package that is installed with the agent, else on PATH; "" if
    there is none."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv") or ""


class EnvironmentCache:
    """The environments of one agent, or of one project on a node that isolates jobs. Several
    processes may use one folder at the same time."""

    def __init__(
        self,
        folder: Path,
        *,
        uv: str,
        limit_bytes: int,
        project_id: int = 0,
        walls: BuildWalls | None = None,
    ) -> None:
        """Create the cache below `folder`; `limit_bytes` counts all that is built there.

        project_id: counts only where `walls` isolate.
        """
        self._top = folder
        self._walls = walls or BuildWalls(isolation=Isolation())
        is_shared = not self._walls.isolation.is_on
        self._folder = folder if is_shared else folder / f"project-{project_id}"
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
        builder_environment: Mapping[str, str] | None = None,
        is_canceled: Callable[[], bool] = lambda: False,
    ) -> BuiltEnvironment:
        """Return the environment that a document asks for, building it if it does not exist. Blocks.

        python: the interpreter below it.
        code: folder with the files named in `requirements`, in which setup commands run.
        code_id: identifies the content of `code`; "" if that may change without notice.
        environment: variables of uv and of the setup commands.
        builder_environment: variables of our own program that starts them; by default the same.
        log: file to which the progress is appended.
        Raises BuildFailed and BuildCanceled.
        """
        if not self._uv:
            raise BuildFailed(
                "environment.requirements and environment.setup need uv, and this node's agent has "
                "none: install it beside the agent (`pip install uv`)",
                fault="node",
            )
        self._make_folders()
        build = _Build(
            request=BuildRequest(
                wanted=wanted,
                python=python,
                code=code,
                code_id=code_id,
                uv=self._uv,
                path=self._folder,
                lock=-1,
                environment={"UV_CACHE_DIR": str(self._folder / UV_CACHE), **environment},
            ),
            walls=self._walls,
            environment=environment if builder_environment is None else builder_environment,
            log=log,
            is_canceled=is_canceled,
        )
        container = self._walls.isolation.container
        if container is not None:
            build.request = dataclasses.replace(
                build.request, image_id=container.image, log=str(log)
            )
        path = self._folder / build.key()
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        build.request = dataclasses.replace(build.request, path=path, lock=lock)
        has_built = False
        try:
            while not self._share(build):
                build.wait_for_lock(fcntl.LOCK_EX)
                if not marker_of(path).exists():
                    build.run()
                    has_built = True
        except BaseException:
            os.close(lock)
            raise
        if has_built:
            for folder in collect(self._top, limit_bytes=self._limit_bytes):
                self._free_cache(folder)
        return BuiltEnvironment(python=str(path / "bin" / "python"), lock=lock)

    def _make_folders(self) -> None:
        cache = self._folder / UV_CACHE
        cache.mkdir(parents=True, exist_ok=True)
        uid = self._walls.isolation.uid
        if uid is not None:
            os.chown(cache, uid, uid)
            for folder in (self._top, self._folder):
                folder.chmod(0o711)  # The way to it.

    def _share(self, build: _Build) -> bool:
        """Take the shared lock. Return whether the environment is complete."""
        build.wait_for_lock(fcntl.LOCK_SH)
        try:
            os.utime(marker_of(build.request.path))
        except OSError:
            return False
        return True

    def _free_cache(self, folder: Path) -> None:
        """Delete what uv keeps for environments of this folder that are gone: their files are freed
        only then."""
        cache = folder / UV_CACHE
        isolation = self._walls.isolation if folder != self._top else Isolation()
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if isolation.uid is not None:
                isolation = dataclasses.replace(isolation, uid=cache.stat().st_uid)
            command = "clean" if size_on_disk(cache) > self._limit_bytes // 2 else "prune"
            with program(
                isolation,
                [self._uv, "cache", command, "--quiet"],
                environment={**os.environ, "UV_CACHE_DIR": str(cache)},
                folder="/",
                read=[self._uv],
                own=[cache],
            ) as started:
                subprocess.run(
                    started.argv,
                    env=started.environment,
                    cwd=started.folder,
                    pass_fds=started.fds,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=STEP_TIMEOUT_S,
                    check=False,
                )


@dataclass(kw_only=True)
class _Build:
    request: BuildRequest
    walls: BuildWalls
    environment: Mapping[str, str]
    log: Path
    is_canceled: Callable[[], bool]

    def wait_for_lock(self, kind: int) -> None:
        has_told = False
        while True:
            try:
                fcntl.flock(self.request.lock, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self.is_canceled():
                    raise BuildCanceled from None
                if not has_told:
                    self._say("waiting for the same environment, which another job is building")
                has_told = True
                time.sleep(POLL_S)

    def key(self) -> str:
        """Return the name of the environment. Raises BuildFailed and BuildCanceled."""
        key = self._start("key", own=[]).get("key", "")
        if not _KEY.fullmatch(key):
            raise BuildFailed(f"the interpreter {self.request.python} does not run", fault="node")
        return key

    def run(self) -> None:
        """Build the environment from nothing. The exclusive lock is held."""
        began = time.monotonic()
        path = self.request.path
        uid = self.walls.isolation.uid
        self._say(f"building an environment for {self.request.python}")
        try:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(mode=0o755)
            path.chmod(0o755)
            if uid is not None:
                os.chown(path, uid, uid)
            self._start("build", own=[path, Path(self.request.environment["UV_CACHE_DIR"])])
            if uid is not None:
                hand_over([path], os.geteuid(), of=uid)  # Jobs of the project read it.
            marker_of(path).write_text(json.dumps({"size_bytes": size_on_disk(path)}))
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)
            raise BuildFailed(
                f"the environment cannot be written: {error}", fault="node"
            ) from error
        except (BuildFailed, BuildCanceled) as error:
            shutil.rmtree(path, ignore_errors=True)
            self._say(f"failed: {error}" if isinstance(error, BuildFailed) else "canceled")
            raise
        self._say(f"the environment is ready after {time.monotonic() - began:.1f} s")

    def _start(self, what: str, *, own: list[Path]) -> dict[str, str]:
        """Run the builder and return its answer. Raises BuildFailed, BuildCanceled and OSError."""
        lock = self.request.lock
        isolation = self.walls.isolation
        container = isolation.container
        with contextlib.ExitStack() as held:
            answer = held.enter_context(tempfile.NamedTemporaryFile(dir=self.log.parent))
            question = held.enter_context(tempfile.TemporaryFile())
            # Opened for reading, too: the builder reads there what uv has said.
            log = held.enter_context(self.log.open("a+b"))
            python, result, request = sys.executable, str(answer.fileno()), self.request
            environment = dict(self.environment)
            read = [Path(self.request.uv), *self.walls.read]
            written = [path for path in (*own, *self.walls.write) if path.exists()]
            if container is not None:
                # It can write these files, and not replace what they are outside.
                python, result = container.python, answer.name
                request = dataclasses.replace(request, lock=-1)
                files = [Path(answer.name), self.log]
                if isolation.uid is not None:
                    for file in files:
                        os.chown(file, isolation.uid, isolation.uid)
                written += files
                read += _PACKAGES
                environment["PYTHONPATH"] = ":".join(
                    dict.fromkeys(str(folder.parent) for folder in _PACKAGES)
                )
            question.write(request.to_json().encode())
            question.seek(0)
            builder = [python, "-P", "-m", "muster_agent.environments.builder"]
            started = held.enter_context(
                program(
                    isolation,
                    [*builder, what, result],
                    environment=environment,
                    folder="/",
                    read=read,
                    own=written,
                    takes_stdin=True,
                )
            )
            process = subprocess.Popen(
                started.argv,
                env=started.environment,
                cwd=started.folder,
                stdin=question,
                stdout=log,
                stderr=log,
                pass_fds=[*started.fds, answer.fileno(), *([lock] if lock >= 0 else [])],
            )
            code = self._wait(process)
            answer.seek(0)
            said = answer.read(MAX_ANSWER_BYTES).decode(errors="replace")
        return _understood(said, code)

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Return the exit code of the builder, or minus the signal."""
        num_steps = 3 + len(self.request.wanted.setup)
        deadline = time.monotonic() + num_steps * STEP_TIMEOUT_S
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_S)
                break
            if self.is_canceled() or time.monotonic() > deadline:
                process.terminate()
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                if self.is_canceled():
                    raise BuildCanceled
                raise BuildFailed("building the environment did not end", fault="node")
        if self.is_canceled():  # Then somebody else may have collected the exit code.
            raise BuildCanceled
        return code

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError), self.log.open("a") as log:
            log.write(f"[setup] {text}\n")


def _understood(said: str, code: int) -> dict[str, str]:
    """Return the answer of a builder, in whose place code of the job may have answered. Raises
    BuildFailed."""
    try:
        answer = json.loads(said)
        answer = {str(name): str(value) for name, value in answer.items()}
    except (ValueError, AttributeError):
        how = f"code {code}" if code >= 0 else f"signal {-code}"
        raise BuildFailed(
            f"the program that builds environments ended with {how}; its log says more",
            fault="node",
        ) from None
    if "failed" in answer:
        is_documents = answer.get("fault") == "document"
        raise BuildFailed(answer["failed"], fault="document" if is_documents else "node")
    return answer
