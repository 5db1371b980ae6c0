"""The walls around one allocation: what its job is given, and its processes seen from outside.

One sandbox holds the launcher and all workers. The shim stays outside: bubblewrap is its child, the
job's first process a grandchild of that, and a signal to bubblewrap would never reach the job. Around a
job with an image, the sandbox is a container, and the client of its engine is the shim's child.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import psutil

from muster import wire
from muster.launch.entering import spaces_of
from muster_agent.containers import upkeep
from muster_agent.containers.client import EngineFailed
from muster_agent.containers.upkeep import Fate
from muster_agent.isolation import walls
from muster_agent.isolation.containers import NAME_VARIABLE, Container, helper_of
from muster_agent.isolation.levels import Walls
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.inputs import data_of
from muster_agent.jobs.launch import Command, LaunchContext
from muster_agent.jobs.process import Cgroup, Child, Children, init_of
from muster_agent.records.logs import launcher_log, tail
from muster_agent.shim.failures import PrepareFailed

log = logging.getLogger("muster.shim")

JOB_TMP = "tmp"
"""Folder beside the sockets that stands at /tmp in the job."""


@dataclass(frozen=True, kw_only=True)
class ConfinedLauncher:
    """The program that stands for a launcher."""

    child: Child
    status: IO[bytes] | None
    """Where bubblewrap tells the pid of the first process inside; None for the level `user`."""


class Confinement:
    """The walls around one allocation. `is_on` is False where the node has none."""

    def __init__(
        self, spec: wire.AllocationSpec, options: ShimOptions, folder: AllocationFolder
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._isolation = options.isolation
        self._storage = Path(options.storage_dir)
        self._started: ConfinedLauncher | None = None
        self._inside: Walls | None = None
        self._said = b""
        self._init_pid = 0
        self._num_helpers = 0
        self._engine = options.engine
        self._fate: Fate | None = None

    def use(self, container: Container) -> None:
        """Let everything run in a container from now on."""
        self._isolation = replace(self._isolation, container=container)

    @property
    def container(self) -> Container | None:
        return self._isolation.container

    @property
    def _is_plain(self) -> bool:
        return self.container is not None and self.container.engine.is_plain

    @property
    def is_on(self) -> bool:
        return self._isolation.is_on

    @property
    def uid(self) -> int:
        """Return the user that the workers run as."""
        return os.getuid() if self._isolation.uid is None else self._isolation.uid

    # ------------------------------------------------------------ what the job is given

    def open_sockets(self, sockets: Path) -> None:
        """Let the job's user reach the report socket in `sockets`, and nothing beside it."""
        uid = self._isolation.uid
        if uid is not None:
            os.chown(sockets, uid, uid)
            os.chown(sockets / "report", uid, uid)
            sockets.parent.chmod(0o711)

    def prepare(self, place: LaunchContext) -> Walls:
        """Hand the job its folders and return its walls. Raises OSError."""
        sockets = Path(place.report_socket).parent
        tmp = sockets.parent / JOB_TMP
        tmp.mkdir(mode=0o700, exist_ok=True)
        own = [
            p
            for p in (Path(place.cache_dir), self._folder.logs, *self._own_folders(place))
            if p.exists()
        ]
        walls.make_home(self._isolation)
        uid = self._isolation.uid
        if uid is not None:
            walls.hand_over(own, uid)
            for file in (place.config_file, place.hostfile):
                if file:
                    Path(file).chmod(0o644)
            # What else lies there is of mode 0600.
            walls.open_way(self._isolation, self._folder.path, Path(place.files_dir).parent)
        interpreters: list[Path] = []
        if self.container is None:
            interpreters += walls.prefixes_of(place.python)
            interpreters += walls.prefixes_of(place.base_python)
        else:
            # Outside the storage it is the document's own, which the node allows (see `check`).
            own.append(Path(place.checkpoint_dir))
            if place.base_python:
                interpreters.append(Path(place.python).parent.parent)
        return walls.make_walls(
            self._isolation,
            tmp=tmp,
            read=[*self._named(place), place.config_file, place.sdk_folder, place.attach_path,
                  self._folder.launchers, place.hostfile, *interpreters],
            write=[*own, sockets, self._isolation.home],
        )  # fmt: skip

    def _own_folders(self, place: LaunchContext) -> list[Path]:
        """Return the folders that Muster has made for this trial and its job writes to."""
        found = [Path(place.files_dir)]
        checkpoints = Path(place.checkpoint_dir)
        if checkpoints.is_relative_to(self._storage) or checkpoints.is_relative_to(
            self._folder.path
        ):
            found.append(checkpoints)
        if place.checkpoint_local:
            found.append(Path(place.checkpoint_local))
        return found

    def check(self, place: LaunchContext) -> None:
        """Refuse a checkpoint folder of the document's own that a job in a sandbox may not write.
        Raises PrepareFailed."""
        if self._isolation.level != "sandbox":
            return
        checkpoints = Path(place.checkpoint_dir)
        is_own = checkpoints in self._own_folders(place)
        if not is_own and not any(checkpoints.is_relative_to(f) for f in self._isolation.write):
            raise PrepareFailed(
                f"a job in a sandbox cannot write {place.checkpoint_dir}: name the folder in "
                "MUSTER_AGENT_JOB_WRITES on the node, or let Muster choose where checkpoints go"
            )

    def _named(self, place: LaunchContext) -> list[str]:
        """Return the paths that the document names and that the job reads."""
        # A checkpoint of the trial's own is in a folder that the job has anyway. As a mount of its own
        # it could not be replaced when its step is saved again.
        own = self._own_folders(place)
        found = [
            p
            for p in (place.resume_from, place.weights_from)
            if p and "://" not in p and not any(Path(p).is_relative_to(f) for f in own)
        ]
        for where in (*data_of(self._spec).values(), *place.data.values()):
            if "://" not in where:
                found += [where, str(Path(where).resolve())]
        if place.models_dir:
            found.append(place.models_dir)
        if self._spec.code.kind == "installed":
            found += [self._spec.code.path, str(Path(self._spec.code.path).resolve())]
        return found

    def environment(self, command: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process behind the walls."""
        inside = walls.inside(self._isolation, command, of_user=self._spec.environment)
        if self.container is not None:
            inside[NAME_VARIABLE] = self.container.name
        return inside

    # ------------------------------------------------------------ starting

    def start(
        self,
        children: Children,
        commands: Sequence[Command],
        place: LaunchContext,
        *,
        outputs: Mapping[int, tuple[str, str]],
        stdout: IO[bytes],
        stderr: IO[bytes],
        cgroup: Cgroup | None,
        prefix: Sequence[str] = (),
        file_bytes: int = 0,
    ) -> Child:
        """Start the commands of the allocation in one sandbox and return the process that stands
        for them. Raises OSError.

        outputs: the files of each worker's output, by local rank; empty for a launcher. prefix: the
        command that runs all of it within limits. file_bytes: how far a file may grow in a container,
        which no such command reaches; 0: no limit.
        """
        inside = self.prepare(place)
        processes = []
        for command in commands:
            process: dict[str, object] = {
                "argv": command.argv,
                "environment": {**self.environment(command.environment), **children.marks},
                "folder": place.work_dir,
            }
            if self.container is not None:
                # A client that passed the output on would lose it when it is killed.
                process["outputs"] = [stdout.name, stderr.name]
                process["file_bytes"] = file_bytes
            if command.local_rank in outputs:
                out, err = outputs[command.local_rank]
                process |= {"stdout": out, "stderr": err}
            processes.append(process)
        if self._spec.launcher == "shell":
            processes[0]["lingers"] = True
        return self._start(
            children, inside, processes, stdout=stdout, stderr=stderr, cgroup=cgroup, prefix=prefix
        )

    def hold(
        self,
        children: Children,
        place: LaunchContext,
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        cgroup: Cgroup | None,
    ) -> Child:
        """Build the walls with no process of the job in them, for workers that come from outside;
        return the process that stands for them. Raises OSError."""
        inside = self.prepare(place)
        hold = {"holds": True, "environment": dict(children.marks)}
        return self._start(
            children, inside, [hold], stdout=stdout, stderr=stderr, cgroup=cgroup, prefix=()
        )

    def entrance(self) -> dict[str, Any]:
        """Return what muster.launch.entering needs to come behind the walls; {} while they are not
        ready. Raises OSError."""
        pid = self.launcher_pid()
        if not pid or self._inside is None:
            return {}
        if not self.is_built(pid):
            return {}
        level = self._inside.level
        return {
            "pid": pid,
            "level": level,
            "uid": self._inside.uid,
            "groups": list(self._inside.groups),
            "spaces": spaces_of(pid, level),
            "user_namespaces": self._inside.user_namespaces,
        }

    def is_built(self, pid: int) -> bool:
        """Return whether process `pid` is the job's first one, and no program any more that builds the
        walls in its place. Raises OSError if it is gone."""
        uid = self._inside.uid if self._inside is not None else None
        if uid is None or self.container is not None:
            return True
        return os.stat(f"/proc/{pid}").st_uid == uid  # noqa: PTH116

    def abandon(self) -> None:
        """Tear down the walls of `hold`, and all that is in them."""
        if self._started is not None:
            for pid in {self.launcher_pid(), self._started.child.pid} - {0}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.close()
        self._started, self._inside = None, None
        self._said, self._init_pid = b"", 0

    def _start(
        self,
        children: Children,
        inside: Walls,
        processes: Sequence[Mapping[str, object]],
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        cgroup: Cgroup | None,
        prefix: Sequence[str],
    ) -> Child:
        is_sandbox = self._isolation.is_sandbox
        status_read, status_write = os.pipe() if is_sandbox else (-1, -1)
        try:
            with walls.confined(
                inside, processes, status_fd=status_write if is_sandbox else None
            ) as (argv, fds):
                child, _ = children.start(
                    [*prefix, *argv],
                    environment=walls.outer_environment(self.container),
                    folder=Path("/"),
                    stdout=stdout,
                    stderr=stderr,
                    cgroup=cgroup,
                    pass_fds=(*fds, status_write) if is_sandbox else fds,
                    shields=True,
                )
        finally:
            if is_sandbox:
                os.close(status_write)
        child.tells_signals_as_codes = is_sandbox or self.container is not None
        status = None
        if is_sandbox:
            os.set_blocking(status_read, False)
            status = os.fdopen(status_read, "rb", 0)
        self._started = ConfinedLauncher(child=child, status=status)
        self._inside = inside
        return child

    @contextlib.contextmanager
    def helper(
        self, argv: Sequence[str], environment: Mapping[str, str], place: LaunchContext
    ) -> Iterator[tuple[list[str], dict[str, str], tuple[int, ...]]]:
        """Yield how to start a program of the job that is no worker, behind walls of its own:
        command, environment and descriptors to inherit."""
        inside = self.prepare(place)
        process = {
            "argv": list(argv),
            "environment": self.environment(environment),
            "folder": "/",
        }
        if inside.container is not None:
            self._num_helpers += 1
            name = str(self._num_helpers)
            container = helper_of(inside.container, name, takes_stdin=True)
            inside = replace(inside, container=container, devices=())
        with walls.confined(inside, [process]) as (command, fds):
            yield command, walls.outer_environment(inside.container), fds

    # ------------------------------------------------------------ seen from outside

    def pids(self) -> set[int]:
        """Return the processes that are the sandbox itself: a signal to one of them would end it."""
        if self._started is None or (self._started.status is None and self.container is None):
            return set()
        pid = self.launcher_pid()
        return {self._started.child.pid, self._init_pid} - ({pid} if self._is_plain else set())

    def launcher_pid(self) -> int:
        """Return the pid of the job's first process, as this process sees it; 0 while it is not
        known."""
        if self._started is None:
            return 0
        if self.container is not None:
            if not self._init_pid and not self._started.child.has_ended:
                is_plain = self.container.engine.is_plain
                self._init_pid = init_of(self.container.name, is_plain=is_plain)
            if self.container.engine.is_plain:
                return self._init_pid
        elif self._started.status is None:
            return self._started.child.pid
        elif not self._init_pid:
            self._said += self._started.status.read(4096) or b""
            for line in self._said.splitlines():
                with contextlib.suppress(ValueError):
                    self._init_pid = self._init_pid or int(json.loads(line).get("child-pid", 0))
        try:
            children = psutil.Process(self._init_pid).children() if self._init_pid else []
        except psutil.Error:
            return 0
        # The init of the sandbox collects orphans, which are younger.
        return min(children, key=lambda p: p.create_time()).pid if children else 0

    def close(self) -> None:
        if self._started is not None and self._started.status is not None:
            self._started.status.close()
        if self._engine is not None:
            owner = self._folder.owner.partition("@")[0]
            try:
                upkeep.remove(self._engine, owner=owner, allocation_id=self._spec.allocation_id)
            except EngineFailed as error:
                log.error("%s; the agent will try again", error)

    def kill(self) -> None:
        """Kill what runs in the container, which ending its client does not. Blocks."""
        if self.container is None or self._started is None:
            return
        self._fate = self.fate()  # What comes now is our doing.
        upkeep.kill(self.container)

    def fate(self) -> Fate:
        """Return how the container has ended, as its engine knows; nothing of one that has not failed,
        or not by itself. Blocks."""
        if self.container is None or self._started is None:
            return Fate()
        if self._fate is None and self._started.child.status:
            words = tail(launcher_log(self._folder.logs, "stderr"))
            code = self._started.child.exit_code or 0
            self._fate = upkeep.fate_of(self.container, code, words=words)
        return self._fate or Fate()
