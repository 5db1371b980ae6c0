"""The processes of one allocation: start them (by torchrun, directly or from a warm parent), find
all of them again, and end them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, Literal

from muster import wire
from muster_agent.clock import unix_ms
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.launch import (
    Command,
    build_commands,
    build_warm,
    build_warm_launcher,
    session_environment,
    with_values,
    worker_log_dir,
)
from muster_agent.jobs.process import (
    OWNER_VARIABLE,
    TOKEN_VARIABLE,
    Cgroup,
    Child,
    Children,
    Identity,
    descendants,
    identify,
    is_alive,
    is_of_user,
    kill_all,
    num_system_oom_kills,
)
from muster_agent.records.logs import launcher_log
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.limits import Exceeded, LimitWatch, limits_of, memory_words
from muster_agent.shim.preparation.checks import Prepared
from muster_agent.shim.processes.confinement import JOB_TMP, Confinement
from muster_agent.shim.processes.ports import NoPortFree, PortLease, lease_port
from muster_agent.shim.processes.rendezvous import RendezvousHost
from muster_agent.shim.processes.warm import Keeper, NoWarmWorkers, start_keeper
from muster_agent.shim.processes.workers import Workers

MAX_FILES_SEEN = 2_000
"""Files that are looked at to tell whether a job has written one."""
_LONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
"""Place of a process that has none in its environment (launcher "plain")."""
FIND_AGAIN_S = 1.0
"""Seconds between two searches for the workers of a script; each reads all of /proc."""

LAUNCHER_WAIT_S = 1.0
"""Seconds to wait for a warm parent to fork torchrun, which a new one takes not much longer for."""
WALLS_TIMEOUT_S = 20.0
"""Seconds for walls to be built."""

log = logging.getLogger("muster.shim")


class Processes:
    """The processes of one allocation. Calls `on_end` when a child or a worker has ended, and
    `record` for each worker started."""

    def __init__(
        self,
        spec: wire.AllocationSpec,
        options: ShimOptions,
        folder: AllocationFolder,
        *,
        on_end: Callable[[], None],
        record: Callable[[wire.WorkerRecord], object],
    ) -> None:
        self.spec = spec
        self.options = options
        self.folder = folder
        self.children = Children({TOKEN_VARIABLE: spec.allocation_id, OWNER_VARIABLE: folder.owner})
        self.is_script = spec.launcher == "shell"
        """Whether a command of the user starts the workers: nobody knows how many there will be, and
        what it means when one of them fails."""
        num_expected = 1 if spec.launcher == "plain" else len(spec.slots)
        self.workers = Workers(
            num_expected=num_expected,
            is_open=self.is_script,
            rank_base=spec.rank_base,
            on_end=on_end,
        )
        mark = folder.owner.partition("@")[0]
        # A container has a cgroup of its engine's.
        is_contained = options.engine is not None
        self.cgroup = None if is_contained else Cgroup.create(f"{mark}-{spec.allocation_id}")
        self.confinement = Confinement(spec, options, folder)
        self.limits = LimitWatch(
            limits_of(spec, memory_share_bytes=options.memory_share_bytes),
            cgroup=self.cgroup,
            roots=self._roots,
            folders=lambda: self._written,
        )
        self._written: list[Path] = []
        """Folders whose size counts as the job's disk."""
        self.run_dir = ""
        """Folder in which the job runs; "" before it is known."""
        self._tmp = ""
        """Folder that stands at /tmp behind walls."""
        self.launcher: Child | None = None
        self.keeper: Keeper | None = None
        """Parent of the workers in place of a launcher, if they are forked from a warm parent."""
        self.rendezvous_host = RendezvousHost(spec, options, folder)
        self._member_lease: PortLease | None = None
        """Port of a member of a role, held until this process ends."""
        self._address = ""
        """Host and port of that member."""
        self._session: dict[str, Any] | None = None
        """Environment and folder for a command inside the job; None before its start."""
        self._on_end = on_end
        self._record = record
        self._find_again_at = 0.0
        self._hosted: list[dict[str, str]] = []
        """Environments of the workers that one program behind walls starts."""
        self._is_lone_hidden = False
        """Whether launcher "plain" has started its process behind walls, where it is not seen yet."""
        self._num_oom_kills_before = num_system_oom_kills()
        self._is_killed = False

    # ------------------------------------------------------------ starting

    async def open_rendezvous(
        self, prepared: Prepared, *, wait: Callable[[float], Awaitable[bool]]
    ) -> wire.Rendezvous | None:
        """Open the rendezvous on node 0 of a gang that spans nodes, bound before its address is
        announced.

        `wait(seconds)` answers False when nobody wants it any more. Raises PrepareFailed.
        """
        spec = self.spec
        if spec.role:
            return self._lease_member_port()
        if spec.num_nodes == 1 or spec.node_rank != 0:
            return None
        if spec.launcher != "torchrun":
            try:
                return self.rendezvous_host.lease(self.options.node_address)
            except NoPortFree as error:
                raise PrepareFailed(str(error), blames="node") from error
        self.rendezvous_host.start_store(
            prepared.place, self.children, self.cgroup, self.confinement
        )
        while (rendezvous := self.rendezvous_host.find_store()) is None:
            if not await wait(0.02):
                return None
        return rendezvous

    def _lease_member_port(self) -> wire.Rendezvous:
        """Lease the port on which the others find this member. Raises PrepareFailed."""
        host = self.options.node_address
        try:
            self._member_lease = lease_port(host)
        except NoPortFree as error:
            raise PrepareFailed(str(error), blames="node") from error
        found = wire.Rendezvous(host=host, port=self._member_lease.port, run_id=self.spec.member)
        self._address = found.address
        return found

    async def start_warm(
        self,
        prepared: Prepared,
        rendezvous: wire.Rendezvous | None,
        *,
        wait: Callable[[asyncio.Task[Keeper]], Awaitable[bool]],
    ) -> bool:
        """Fork the workers, or their torchrun, from a process that has already imported torch.

        `wait` comes back when the task is done, or answers False when nobody wants it any more.
        False, with the reason in our log, when nothing was started.
        """
        if self.options.forks_launcher:
            command = build_warm_launcher(self.spec, prepared.place, rendezvous)
        else:
            run_id = f"muster-{self.spec.allocation_id}"
            command = build_warm(self.spec, prepared.place, run_id=run_id)
        inside = {**command.shared, **command.own}
        for name in command.unset:
            del inside[name]
        if self.confinement.is_on:
            inside = self.confinement.environment(inside)
        folders = [
            launcher_log(self.folder.logs, "stdout").parent
            if command.launcher
            else Path(worker_log_dir(str(self.folder.logs), local_rank))
            for local_rank in range(len(command.workers))
        ]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        request: dict[str, Any] = {
            "shared": command.shared,
            "own": {
                name: value
                for name, value in inside.items()
                if name in command.own or command.shared.get(name) != value
            }
            | self.children.marks,
            "unset": sorted(command.shared.keys() - inside.keys()),
            "workers": [
                {
                    "variables": variables,
                    "stdout": str(folder / "stdout.log"),
                    "stderr": str(folder / "stderr.log"),
                }
                for folder, variables in zip(folders, command.workers, strict=True)
            ],
            "folder": prepared.place.work_dir,
            "entrypoint": command.launcher or with_values(self.spec, inside).entrypoint,
            "is_launcher": bool(command.launcher),
            "num_held": len(self.spec.slots) if self.options.forks_workers_of_launcher else 0,
            "cgroup": str(self.cgroup.path) if self.cgroup is not None else "",
        }
        starting = asyncio.create_task(self._fork_behind_walls(request, prepared))
        if not await wait(starting):
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, NoWarmWorkers):
                (await starting).close()
            return False
        try:
            keeper = starting.result()
        except NoWarmWorkers as error:
            log.warning("starting with torchrun, because %s", error)
            self.confinement.abandon()
            return False
        self.keeper, self.launcher = keeper, keeper.child
        self._open_to_sessions(inside, prepared.place.work_dir)
        self._note_folders(prepared)
        if command.launcher:
            return True  # Its workers are found as those of any torchrun.
        for child, variables in zip(keeper.workers, command.workers, strict=True):
            variables["MASTER_PORT"] = str(keeper.port)
            self._record(self.workers.add_child(child, variables))
        return True

    async def _fork_behind_walls(self, request: Mapping[str, Any], prepared: Prepared) -> Keeper:
        """Fork the workers, behind walls where jobs have some. Raises NoWarmWorkers."""
        walls = await self._hold(prepared) if self.confinement.is_on else None
        return await start_keeper(
            self.options.warm_socket,
            {**request, "walls": walls},
            timeout_s=LAUNCHER_WAIT_S if self.options.forks_launcher else self.options.warm_wait_s,
            on_end=self._on_end,
            bound=self.limits.bound,
        )

    async def _hold(self, prepared: Prepared) -> dict[str, Any]:
        """Build the walls and return how to come behind them. Raises NoWarmWorkers."""
        launcher = Command(local_rank=wire.LAUNCHER_LOCAL_RANK, rank=-1, argv=[], environment={})
        give_up_at = time.monotonic() + WALLS_TIMEOUT_S
        try:
            with self._outputs(launcher) as (stdout, stderr):
                child = self.confinement.hold(
                    self.children, prepared.place, stdout=stdout, stderr=stderr, cgroup=self.cgroup
                )
            while not (entrance := self.confinement.entrance()):
                self.children.reap()
                if child.has_ended or time.monotonic() > give_up_at:
                    raise NoWarmWorkers("the walls were not built")
                await asyncio.sleep(0.005)
        except OSError as error:
            raise NoWarmWorkers(f"the walls were not built: {error}") from error
        return entrance

    def start(self, prepared: Prepared, rendezvous: wire.Rendezvous | None) -> None:
        """Start the launcher, or the workers themselves. Raises OSError, ValueError and NoPortFree."""
        if self.spec.launcher in ("direct", "shell") and rendezvous is None:
            rendezvous = self.rendezvous_host.lease("127.0.0.1")
        self._num_oom_kills_before = num_system_oom_kills()
        if self.spec.role:
            prepared = replace(prepared, place=replace(prepared.place, address=self._address))
        commands = build_commands(self.spec, prepared.place, rendezvous=rendezvous)
        self._note_folders(prepared)
        if self.confinement.is_on:
            self._start_confined(commands, prepared)
            return
        for command in commands:
            with self._outputs(command) as (stdout, stderr):
                child, _ = self.children.start(
                    [*self.limits.prefix, *command.argv],
                    environment=command.environment,
                    folder=Path(prepared.place.work_dir),
                    stdout=stdout,
                    stderr=stderr,
                    cgroup=self.cgroup,
                )
            self.limits.bound(child.pid)
            self._open_to_sessions(command.environment, prepared.place.work_dir)
            if command.local_rank == wire.LAUNCHER_LOCAL_RANK:
                self.launcher = child
            else:
                self._record(self.workers.add_child(child, _LONE | command.environment))

    def _open_to_sessions(self, environment: Mapping[str, str], work_dir: str) -> None:
        self._session = {
            "environment": {**session_environment(environment), **self.children.marks},
            "folder": work_dir,
        }

    def session(self) -> dict[str, Any] | None:
        """Return what a command inside the job needs; None while the job does not run."""
        if self._session is None or not self.confinement.is_on:
            return self._session
        pid = self.confinement.launcher_pid()
        container = self.confinement.container
        inner = {} if container is None else {"container": asdict(container), "tmp": self._tmp}
        return {**self._session, "beside": pid, **inner} if pid else None

    def _start_confined(self, commands: Sequence[Command], prepared: Prepared) -> None:
        """Start the commands behind walls, where one program stands for all of them."""
        is_lone = self.spec.launcher == "plain"
        outputs = {}
        for command in commands:
            with self._outputs(command) as (stdout, stderr):
                if command.local_rank != wire.LAUNCHER_LOCAL_RANK and not is_lone:
                    outputs[command.local_rank] = (stdout.name, stderr.name)
        first = commands[0]
        inside = self.confinement.environment(first.environment)
        self._open_to_sessions(inside, prepared.place.work_dir)
        if not is_lone:
            first = replace(first, local_rank=wire.LAUNCHER_LOCAL_RANK)
        with self._outputs(first) as (stdout, stderr):
            child = self.confinement.start(
                self.children,
                commands,
                prepared.place,
                outputs=outputs,
                stdout=stdout,
                stderr=stderr,
                cgroup=self.cgroup,
                prefix=self.limits.prefix if self.confinement.container is None else (),
                file_bytes=self.limits.limits.disk_bytes,
            )
        if self.confinement.container is None:
            self.limits.bound(child.pid)
        if is_lone:
            self.workers.add_child(child, _LONE | first.environment)
            # A signal to the program that stands for it would end it without a word.
            self.workers.by_local_rank[0].identity = None
            self._is_lone_hidden = True
        else:
            self.launcher = child
            self._hosted = [command.environment for command in commands] if outputs else []

    @contextlib.contextmanager
    def _outputs(self, command: Command) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        if command.local_rank == wire.LAUNCHER_LOCAL_RANK:
            base = launcher_log(self.folder.logs, "stdout").parent
        else:
            base = Path(worker_log_dir(str(self.folder.logs), command.local_rank))
        base.mkdir(parents=True, exist_ok=True)
        with (base / "stdout.log").open("ab") as out, (base / "stderr.log").open("ab") as err:
            yield out, err

    # ------------------------------------------------------------ while they run

    def find(self) -> list[wire.WorkerRecord]:
        """Find workers of the launcher that were not known before."""
        if self._is_lone_hidden:
            return self._find_lone()
        if self.launcher is None or self.workers.are_all_known:
            return []
        if self.is_script:
            if time.monotonic() < self._find_again_at:
                return []
            self._find_again_at = time.monotonic() + FIND_AGAIN_S
        pid = self.launcher_pid()
        if not pid:
            return []
        found = self.workers.discover(pid)
        with contextlib.suppress(OSError):
            # Until then its children are programs that build the walls, and end at once.
            if self.confinement.is_built(pid):
                found += self.workers.discover_ended(pid, self._hosted)
        return found

    def _find_lone(self) -> list[wire.WorkerRecord]:
        """Find the one process behind the walls, which until then is known by what stands for it."""
        identity = identify(self.confinement.launcher_pid())
        worker = self.workers.by_local_rank[0]
        if identity is None or worker.gone_at_ms:
            return []
        self._is_lone_hidden = False
        worker.identity = identity
        worker.record = replace(worker.record, pid=identity.pid)
        return [worker.record]

    def launcher_pid(self) -> int:
        """Return the pid of the process that starts the workers; 0 if there is none yet."""
        if self.keeper is not None and self.options.forks_launcher:
            return self.keeper.workers[0].pid
        if self.confinement.is_on:
            return self.confinement.launcher_pid()
        return self.launcher.pid if self.launcher is not None else 0

    @property
    def launcher_name(
        self,
    ) -> Literal["torchrun", "direct", "plain", "shell", "the workers' keeper"]:
        """Return what starts the workers, in words."""
        is_replaced = self.keeper is not None and not self.options.forks_launcher
        return "the workers' keeper" if is_replaced else self.spec.launcher

    @property
    def has_ended(self) -> bool:
        """Return whether the launcher has ended; without one, every worker that was started."""
        if self.launcher is not None:
            return self.launcher.has_ended
        known = self.workers.deciding().values()
        return all(w.child is not None and w.child.has_ended for w in known)

    @property
    def is_gone(self) -> bool:
        """Return whether everything has ended that may use the time it is given to stop. A shell
        ends at once; what it has started may still be saving."""
        return self.has_ended and not (self.is_script and self.members())

    def to_terminate(self) -> list[Identity]:
        """Return what a request to stop is sent to if no worker is known: the launcher while it
        lives. Of a script, its whole process group."""
        if self.launcher is None:
            return []
        if self.is_script:
            walls = self.confinement.pids()
            members = [i for i in self.members() if i.pid not in walls]
            group = self.launcher.pid
            if self.confinement.container is not None and (pid := self.launcher_pid()):
                group = _group_of(pid)
            return [i for i in members if _group_of(i.pid) == group]
        pid = self.launcher_pid()
        identity = identify(pid) if pid else None
        return [identity] if identity is not None else []

    def exceeded(self) -> Exceeded | None:
        """Return the limit that was exceeded, with what the kernel has counted at the end.

        Podman does not always know why the kernel has killed a process of a container that has a
        limit of memory. It was for that limit if the kernel has killed for memory meanwhile.
        """
        found = self.limits.close()
        container = self.confinement.container
        if found is not None or self._is_killed or container is None or not container.memory_bytes:
            return found
        _, num_oom_kills = self.num_oom_kills()
        is_killed = any(w.status == -signal.SIGKILL for w in self.workers.by_local_rank.values())
        if self.confinement.fate().is_out_of_memory or (is_killed and num_oom_kills):
            words = memory_words(self.limits.limits, None)
            self.limits.exceeded = Exceeded(words=words, at_ms=unix_ms())
        return self.limits.exceeded

    def num_oom_kills(self) -> tuple[int, int]:
        """Return the out-of-memory kills since the start: (in the own cgroup, where known; on the
        node)."""
        here = self.cgroup.num_oom_kills() if self.cgroup else 0
        return here, num_system_oom_kills() - self._num_oom_kills_before

    def own_ports(self) -> set[int]:
        """Return the ports that were chosen for the workers, by us or by our torchrun."""
        ports = {self.rendezvous_host.leased_port}
        if self._member_lease is not None:
            ports.add(self._member_lease.port)
        if self.spec.launcher == "torchrun":
            ports |= {w.record.master_port for w in self.workers.by_local_rank.values()}
        return ports - {0}

    # ------------------------------------------------------------ ending

    def _note_folders(self, prepared: Prepared) -> None:
        tmp = Path(prepared.place.report_socket).parent.parent / JOB_TMP
        self._written = [Path(prepared.place.files_dir), tmp]
        self.run_dir = prepared.place.work_dir
        self._tmp = str(tmp)

    def has_written(self, *, since: float) -> bool:
        """Return whether a file of the job's folders is newer than this, in seconds since the epoch, or
        there are too many to look at."""
        folders = {*self._written, Path(self.run_dir)}
        entries = (entry for folder in folders for entry in folder.rglob("*"))
        for num_seen, path in enumerate(entries):
            with contextlib.suppress(OSError):
                if num_seen >= MAX_FILES_SEEN or path.lstat().st_ctime > since:
                    return True
        return False

    def _roots(self) -> set[int]:
        if self.confinement.container is not None:
            return self.confinement.pids() - {0}  # Not what watches it, which is the engine's.
        keeper = self.keeper.child.pid if self.keeper is not None else 0
        return {os.getpid(), keeper} - {0}

    def members(self) -> set[Identity]:
        """Return everything that runs for this allocation except this process."""
        found = descendants(os.getpid()) | self.folder.processes()
        if self.cgroup is not None:
            found |= {i for pid in self.cgroup.pids() if (i := identify(pid)) is not None}
        keeper = self.keeper.identity if self.keeper is not None else None
        if keeper is not None and is_alive(keeper):
            # It is killed last: orphans become its children meanwhile, and so are found.
            found = (found | descendants(keeper.pid)) - {keeper} or {keeper}
        return {identity for identity in found if identity.pid != os.getpid()}

    def num_leftovers(self) -> int:
        """Return the number of processes that the workers left behind, once they have ended. In a
        container the kernel ends them with its first process."""
        if self.confinement.container is not None:
            return 0
        store_pid = self.rendezvous_host.store_pid
        walls = {*self.confinement.pids(), self.confinement.launcher_pid()}
        ours = {
            *(walls if self.keeper is not None else ()),
            store_pid,
            self.keeper.child.pid if self.keeper is not None else 0,
            *(identity.pid for identity in (descendants(store_pid) if store_pid else ())),
        }
        left = [identity for identity in self.members() if identity.pid not in ours]
        return len([identity for identity in left if not is_of_user(identity)])

    async def kill(self) -> set[Identity]:
        """Kill the whole tree. Return the processes that would not die."""

        def kill() -> set[Identity]:
            self._is_killed = True
            self.confinement.kill()
            if self.cgroup is not None:
                self.cgroup.kill()
            return kill_all(
                self.members, timeout_s=self.options.kill_wait_s, reap=self.children.reap
            )

        self.rendezvous_host.close()
        survivors = await asyncio.to_thread(kill)
        self.children.reap()
        return survivors

    async def clear(self) -> bool:
        """Kill what is left, so that the workers can be started again. Return whether all is gone."""
        if await self.kill():
            return False
        self.confinement.abandon()
        self.workers.by_local_rank.clear()
        self.launcher, self._session, self._hosted = None, None, []
        self._is_lone_hidden = self._is_killed = False
        self.rendezvous_host = RendezvousHost(self.spec, self.options, self.folder)
        return True

    def close(self) -> None:
        """Release everything after the end."""
        self.confinement.close()
        if self.cgroup is not None:
            self.cgroup.remove()


def _group_of(pid: int) -> int:
    """Return the process group of a process; 0 if it is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0
