"""What is built for documents once per content and kept on the node: Python environments, and data sets.

What an environment consists of is in muster_agent.environments.builder, which runs behind the walls
of the job. It is built where it stays, since the programs in it hold their own path. It is complete
when its marker exists, which lies beside it, where nothing of the job can write.

A shared lock is held for as long as a job uses an environment. The lock is inherited by the
programs that build, so a builder that is killed leaves no environment that somebody else repairs
while its uv still writes.

On top of an image, everything happens in a container of it, by the same program: the interpreter is
the image's, and the name of an environment includes the image.

A data set is what a command of a document has written. It is kept in the same manner, in a folder of
its own.

Where jobs are isolated, each project has a cache of its own: commands and builds of packages
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
from muster_agent.environments.builder import STEP_TIMEOUT_S, BuildRequest, DataRequest
from muster_agent.environments.cleaning import UV_CACHE, collect, marker_of, remove, size_on_disk
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
class Built:
    """What a job may use while `lock` is open."""

    path: Path
    lock: int
    """Descriptor that holds the shared lock."""

    @property
    def python(self) -> str:
        """Path of the interpreter of an environment."""
        return str(self.path / "bin" / "python")


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


class BuildCache:
    """What is built for the jobs of one agent, or of one project on a node that isolates jobs. Several
    processes may use one folder at the same time."""

    def __init__(
        self,
        folder: Path,
        *,
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
        self._limit_bytes = limit_bytes

    def _open(self, build: _Build) -> tuple[Built, bool]:
        """Return what is wanted, built if it does not exist, and whether it was. Blocks. Raises BuildFailed
        and BuildCanceled."""
        container = self._walls.isolation.container
        if container is not None:
            build.request = dataclasses.replace(
                build.request, image_id=container.image, log=str(build.log)
            )
        path = self._folder / build.key()
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        build.request = dataclasses.replace(build.request, path=path, lock=lock)
        has_built = False
        try:
            while not self._share(build):
                build.wait_for_lock(fcntl.LOCK_EX)
                if not marker_of(path).exists():
                    self._make_room(build)
                    build.run()
                    has_built = True
        except BaseException:
            os.close(lock)
            raise
        return Built(path=path, lock=lock), has_built

    def _make_room(self, build: _Build) -> None:
        """Delete what nobody uses until the disk has room for a build. Raises BuildFailed."""
        wanted = build.wanted_bytes
        for limit_bytes in (max(0, self._limit_bytes - wanted), 0):
            if shutil.disk_usage(self._folder).free < wanted:
                collect(self._top, limit_bytes=limit_bytes)
        free = shutil.disk_usage(self._folder).free
        if free < wanted:
            raise BuildFailed(
                f"the {build.name} needs {wanted / 1e9:,.1f} GB, and only {free / 1e9:,.1f} GB are free "
                f"for it at {self._top} on this node",
                fault="node",
            )

    def _make_folders(self, *own: Path) -> None:
        """Make the cache's folder, and those in it that belong to the project's jobs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for folder in own:
            folder.mkdir(exist_ok=True)
        uid = self._walls.isolation.uid
        if uid is not None:
            for folder in own:
                os.chown(folder, uid, uid)
            for folder in (self._top, self._folder):
                folder.chmod(0o711)  # The way to it.

    def _share(self, build: _Build) -> bool:
        """Take the shared lock. Return whether what is wanted is complete."""
        build.wait_for_lock(fcntl.LOCK_SH)
        try:
            os.utime(marker_of(build.request.path))
        except OSError:
            return False
        return True


class EnvironmentCache(BuildCache):
    """Environments, and the packages that uv keeps for them."""

    def open(
        self,
        wanted: EnvironmentSection,
        *,
        uv: str,
        python: str,
        code: Path,
        code_id: str,
        environment: Mapping[str, str],
        log: Path,
        builder_environment: Mapping[str, str] | None = None,
        is_canceled: Callable[[], bool] = lambda: False,
    ) -> Built:
        """Return the environment that a document asks for, building it if it does not exist. Blocks.

        uv: path of it; "" if the node has none.
        python: the interpreter below it.
        code: folder with the files named in `requirements`, in which setup commands run.
        code_id: identifies the content of `code`; "" if that may change without notice.
        environment: variables of uv and of the setup commands.
        builder_environment: variables of our own program that starts them; by default the same.
        log: file to which the progress is appended.
        Raises BuildFailed and BuildCanceled.
        """
        if not uv:
            raise BuildFailed(
                "environment.requirements and environment.setup need uv, and this node's agent has "
                "none: install it beside the agent (`pip install uv`)",
                fault="node",
            )
        cache = self._folder / UV_CACHE
        self._make_folders(cache)
        built, is_new = self._open(
            _Build(
                name="environment",
                request=BuildRequest(
                    wanted=wanted,
                    python=python,
                    code=code,
                    code_id=code_id,
                    uv=uv,
                    path=self._folder,
                    lock=-1,
                    environment={"UV_CACHE_DIR": str(cache), **environment},
                ),
                walls=self._walls,
                own=(cache,),
                environment=environment if builder_environment is None else builder_environment,
                log=log,
                is_canceled=is_canceled,
            )
        )
        if is_new:
            for folder in collect(self._top, limit_bytes=self._limit_bytes):
                self._free_cache(folder, uv)
        return built

    def _free_cache(self, folder: Path, uv: str) -> None:
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
                [uv, "cache", command, "--quiet"],
                environment={**os.environ, "UV_CACHE_DIR": str(cache)},
                folder="/",
                read=[uv],
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


class DataCache(BuildCache):
    """Data sets that commands have made. Jobs only read them."""

    def open(
        self,
        wanted: DataRequest,
        *,
        wanted_bytes: int,
        python: str,
        code: Path,
        environment: Mapping[str, str],
        builder_environment: Mapping[str, str],
        log: Path,
        is_canceled: Callable[[], bool] = lambda: False,
    ) -> Built:
        """Return the folder of a data set, which is made if it does not exist. Blocks.

        wanted_bytes: how much of the disk must be free to make it.
        For the rest, see EnvironmentCache.open. Raises BuildFailed and BuildCanceled.
        """
        self._make_folders()
        built, is_new = self._open(
            _Build(
                name=f"data set {wanted.name}",
                request=BuildRequest(
                    data=wanted,
                    python=python,
                    code=code,
                    code_id="",
                    uv="",
                    path=self._folder,
                    lock=-1,
                    environment=dict(environment),
                ),
                walls=self._walls,
                wanted_bytes=wanted_bytes,
                environment=builder_environment,
                log=log,
                is_canceled=is_canceled,
            )
        )
        if is_new:
            collect(self._top, limit_bytes=self._limit_bytes)
        return built


@dataclass(kw_only=True)
class _Build:
    name: str
    """What is built, without an article."""
    request: BuildRequest
    walls: BuildWalls
    own: tuple[Path, ...] = ()
    """Further folders that a build writes, which belong to the project's jobs."""
    wanted_bytes: int = 0
    """How much of the disk must be free."""
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
                    self._say(f"waiting for the same {self.name}, which another job is building")
                has_told = True
                time.sleep(POLL_S)

    def key(self) -> str:
        """Return the name of what is built. Raises BuildFailed and BuildCanceled."""
        key = self._start("key", own=[]).get("key", "")
        if not _KEY.fullmatch(key):
            raise BuildFailed(f"the interpreter {self.request.python} does not run", fault="node")
        return key

    def run(self) -> None:
        """Build it from nothing. The exclusive lock is held."""
        began = time.monotonic()
        path = self.request.path
        uid = self.walls.isolation.uid
        is_data = self.request.data is not None
        what = f"making the {self.name}" if is_data else "building an environment"
        self._say(f"{what} for {self.request.python}" if not is_data else what)
        try:
            remove(path)
            path.mkdir(mode=0o755)
            path.chmod(0o755)
            if uid is not None:
                os.chown(path, uid, uid)
            self._start("build", own=[path, *self.own])
            if uid is not None:
                hand_over([path], os.geteuid(), of=uid)  # Jobs of the project read it.
            if is_data:
                _refuse_ways_out(path)
            marker_of(path).write_text(json.dumps({"size_bytes": size_on_disk(path)}))
        except OSError as error:
            remove(path)
            raise BuildFailed(
                f"the {self.name} cannot be written: {error}", fault="node"
            ) from error
        except (BuildFailed, BuildCanceled) as error:
            remove(path)
            self._say(f"failed: {error}" if isinstance(error, BuildFailed) else "canceled")
            raise
        self._say(f"the {self.name} is ready after {time.monotonic() - began:.1f} s")

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
            read = [*self.walls.read]
            if self.request.uv:
                read.append(Path(self.request.uv))
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
                raise BuildFailed(f"building the {self.name} did not end", fault="node")
        if self.is_canceled():  # Then somebody else may have collected the exit code.
            raise BuildCanceled
        return code

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError), self.log.open("a") as log:
            log.write(f"[setup] {text}\n")


def _refuse_ways_out(folder: Path) -> None:
    """Raise BuildFailed for a data set with a link to elsewhere: what is read there is not the data set."""
    top = folder.resolve()
    for parent, folders, files in os.walk(folder):
        for link in (Path(parent, name) for name in (*folders, *files)):
            if link.is_symlink() and not link.resolve().is_relative_to(top):
                name = link.relative_to(folder)
                raise BuildFailed(
                    f"the command has left a link, {name}, that leads out of the data set",
                    fault="document",
                )


def _understood(said: str, code: int) -> dict[str, str]:
    """Return the answer of a builder, in whose place code of the job may have answered. Raises
    BuildFailed."""
    try:
        answer = json.loads(said)
        answer = {str(name): str(value) for name, value in answer.items()}
    except (ValueError, AttributeError):
        how = f"code {code}" if code >= 0 else f"signal {-code}"
        raise BuildFailed(
            f"the program that builds ended with {how}; its log says more",
            fault="node",
        ) from None
    if "failed" in answer:
        is_documents = answer.get("fault") == "document"
        raise BuildFailed(answer["failed"], fault="document" if is_documents else "node")
    return answer
