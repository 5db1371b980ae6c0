"""One allocation on this node, as the agent sees it and what the agent does to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import structlog

from muster import wire
from muster.launch import lifeline
from muster_agent.containers import upkeep
from muster_agent.containers.client import EngineFailed
from muster_agent.isolation.containers import Container
from muster_agent.jobs import survivors as survivor_notes
from muster_agent.jobs.exits import survivor_words
from muster_agent.jobs.folder import (
    AllocationFolder,
    ShimOptions,
    ShimState,
    remove_socket_dir,
    shim_identity,
)
from muster_agent.jobs.process import (
    OWNER_VARIABLE,
    SHIM_VARIABLE,
    Cgroup,
    Identity,
    boot_id,
    identify,
    kill_all,
    send_signal,
)
from muster_agent.jobs.programs import Program, Programs
from muster_agent.plan import TERMINAL, Local
from muster_agent.records.logs import tail
from muster_agent.records.masking import Mask
from muster_agent.records.spool import RecordReader, RecordWriter, count_records, last_state
from muster_agent.shim.control import ShimUnreachable, send_command
from muster_agent.tunnels import CannotOpen, Job, job_members

log = structlog.get_logger("muster.agent")

Liveness = Literal["starting", "alive", "dead", "rebooted"]

SHIM_START_TIMEOUT_S = 120.0
"""A shim that has not shown a state after so many seconds is given up."""


class Allocation:
    """An allocation on disk, with or without a living shim."""

    def __init__(
        self,
        folder: AllocationFolder,
        spec: wire.AllocationSpec,
        *,
        inherited: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create the agent's view of an allocation; `inherited` is the part of the agent's
        environment that its shim and its workers see."""
        self.folder = folder
        self.spec = spec
        self._inherited = inherited
        self.reader = RecordReader(folder.records)
        self.acked_seq = 0
        self.log_offsets: dict[tuple[int, str], int] = {}
        self.is_busy = False
        self.is_being_deleted = False
        """Set while its folder is being deleted, possibly under a task that still reads it."""
        self.is_superseded = False
        self.is_delivered = False
        """The server holds every record and log byte, the last record included."""
        self.is_end_reported = False
        """The server is sent the last record, maybe before the shim has shown the state."""
        self.uploads: asyncio.Task[None] | None = None
        self.mask: Mask | None = None if spec.secrets else folder.mask()
        """Hides the job's secrets in its logs; None until the values are known."""
        self._shim: Program | None = None
        self._started_at = time.monotonic()
        self._state: ShimState | None = None
        self._state_mtime_ns = 0
        record = last_state(folder.records)
        self._final: wire.Observed | None = (
            record.observed if record is not None and record.observed in TERMINAL else None
        )

    @property
    def allocation_id(self) -> str:
        return self.folder.allocation_id

    @property
    def observed(self) -> wire.Observed:
        if self._final is not None:
            return self._final
        state = self._read_state()
        return state.observed if state is not None else "ASSIGNED"

    @property
    def has_ended(self) -> bool:
        return self.observed in TERMINAL

    def local(self) -> Local:
        state = self._read_state()
        return Local(
            allocation_id=self.allocation_id,
            observed=self.observed,
            shim=self.liveness(),
            asked=frozenset(state.asked) if state is not None else frozenset(),  # type: ignore[arg-type]
            is_busy=self.is_busy,
            is_superseded=self.is_superseded,
            stacks_no=state.stacks_no if state is not None else 0,
            profile_no=state.profile_no if state is not None else 0,
            shards_no=state.shards_no if state is not None else 0,
        )

    def describe(self) -> wire.RunningAllocation:
        return wire.RunningAllocation(
            allocation_id=self.allocation_id,
            attempt_no=self.spec.attempt_no,
            observed=self.observed,
            num_records=count_records(self.folder.records),
        )

    def accept(self, ack: wire.AckState) -> None:
        """Continue from the position that the server has acknowledged."""
        self.acked_seq = ack.acked_seq
        self.log_offsets = {(item.local_rank, item.stream): item.offset for item in ack.logs}
        self.is_delivered = False

    def liveness(self) -> Liveness:
        is_our_child = self._shim is not None and self._shim.poll() is None
        state = self._read_state()
        if state is not None:
            if state.boot_id != boot_id():
                return "rebooted"
            # A zombie of ours counts as dead; identify() knows that too.
            return "alive" if shim_identity(state) is not None else "dead"
        if is_our_child:
            is_late = time.monotonic() - self._started_at > SHIM_START_TIMEOUT_S
            return "dead" if is_late else "starting"
        if self._shim is None and self.folder.has_options() and self.folder.is_locked():
            return "starting"  # Started by the previous agent, moments before that agent died.
        return "dead"

    # ------------------------------------------------------------ the shim

    def start_shim(
        self,
        options: ShimOptions,
        secrets: Sequence[wire.SecretValue] = (),
        *,
        programs: Programs,
    ) -> None:
        """Start the shim, which does everything else and outlives the agent. Raises OSError.

        secrets: handed over through a pipe, so that no file, argument or variable holds them.
        """
        values = {secret.name: secret.value for secret in secrets}
        self.mask = Mask([*values.values(), options.tracking_token])
        if secrets:
            self.folder.write_secret_versions({s.name: version_of(s) for s in secrets})
        self.folder.write_options(options)
        # The shim sees hardly more than its workers do: if both run as one user, they can read it.
        marks = {SHIM_VARIABLE: self.allocation_id, OWNER_VARIABLE: self.folder.owner}
        environment = {**self._inherited, **marks}
        fd = lifeline.fd_for_children()
        if fd is not None:
            environment[lifeline.VARIABLE] = str(fd)
        module = ["muster_agent.shim", "--dir", str(self.folder.path)]
        with (
            self.folder.shim_log.open("ab") as words,
            Path(os.devnull).open("rb") as nothing,
            _pipe_of(values) as secrets_fd,
        ):
            if secrets_fd is not None:
                module.append(f"--secrets-fd={secrets_fd}")
            self._shim = programs.start(
                module,
                environment=environment,
                folder=self.folder.path,
                stdin=nothing.fileno(),
                stdout=words.fileno(),
                stderr=words.fileno(),
                descriptors=[number for number in (fd, secrets_fd) if number is not None],
                marks=marks,
            )
        self._started_at = time.monotonic()

    async def command(self, command: str, **fields: Any) -> bool:
        """Send a command to the shim; return False if it did not answer (the command is repeated
        later)."""
        state = self._read_state()
        if state is None:
            return False
        try:
            await send_command(state.control_socket, {"command": command, **fields})
        except ShimUnreachable as error:
            log.warning(
                "shim_unreachable",
                allocation_id=self.allocation_id,
                command=command,
                error=str(error),
            )
            return False
        return True

    async def is_signalled(self) -> bool:
        """Return whether the shim has got a SIGTERM; False if it does not answer."""
        state = self._read_state()
        if state is None:
            return False
        try:
            answer = await send_command(state.control_socket, {"command": "status"})
        except ShimUnreachable:
            return False
        return bool(answer.get("is_signalled"))

    async def ask_shim_for_secrets(self) -> bool:
        """Take the mask from a living shim that an earlier agent has started; return whether it
        answered."""
        state = self._read_state()
        if state is None or self.liveness() != "alive":
            return False
        try:
            answer = await send_command(state.control_socket, {"command": "secrets"})
        except ShimUnreachable:
            return False
        self.mask = self.folder.mask(answer["secrets"].values())
        return True

    async def job(self) -> Job:
        """Return what a tunnel into the running job needs. Raises CannotOpen, ShimUnreachable."""
        state = self._read_state()
        if state is None or self.liveness() != "alive":
            raise CannotOpen("The job has no running processes on this node.")
        answer = await send_command(state.control_socket, {"command": "session"})
        session = answer.get("session")
        if session is None:
            raise CannotOpen("The job's processes have not been started yet.")
        isolation = self.folder.read_options().isolation
        if session.get("container") is not None:
            container = wire.load(Container, session["container"])
            if container.engine.is_plain:
                raise CannotOpen("Apptainer cannot start commands in a container that runs.")
            isolation = replace(isolation, container=container)
        return Job(
            environment=session["environment"],
            folder=session["folder"],
            cgroup=state.cgroup,
            isolation=isolation,
            beside=session.get("beside"),
            tmp=session.get("tmp", ""),
            members=job_members(state.cgroup, self.folder.processes),
        )

    async def end_everything(self, *, timeout_s: float) -> int:
        """Kill whatever is left of it, shim included. Return the number of survivors."""
        state = self._read_state()
        if state is not None and self.liveness() == "alive":
            await self.command("kill", reason="the server does not want it any more")
            deadline = time.monotonic() + timeout_s + 10.0
            while self.liveness() == "alive" and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        shim = shim_identity(state) if state is not None else self._own_shim()
        if shim is not None:
            send_signal(shim, signal.SIGKILL)
        return await asyncio.to_thread(self._sweep, state, timeout_s)

    def end_by_ourselves(self, record: wire.StateRecord) -> None:
        """Write the last record in place of a shim that cannot. Does nothing while the shim is
        alive."""
        lock = self.folder.lock()
        if lock is None:
            return  # It is alive after all.
        try:
            previous = last_state(self.folder.records)
            if previous is None or previous.observed not in TERMINAL:
                writer = RecordWriter(self.folder.records)
                writer.append(record)
                writer.close()
                self._final = record.observed
            else:
                self._final = previous.observed
        finally:
            os.close(lock)

    async def declare_lost(
        self, cause: Literal["shim_lost", "node_rebooted"], reason: str, *, timeout_s: float
    ) -> None:
        """Clean up after a dead shim, then write its exit record."""
        survivors = 0
        if cause == "shim_lost":
            survivors = await self.end_everything(timeout_s=timeout_s)
        state = self._read_state()
        if state is not None:
            remove_socket_dir(state.socket_dir)
        site_stop_at_ms = state.site_stop_at_ms if state is not None else 0
        self.end_by_ourselves(
            wire.StateRecord(
                observed="EXITED",
                exit=wire.ExitInfo(
                    cause="stopped" if site_stop_at_ms else cause,
                    site_stop_at_ms=site_stop_at_ms,
                    message=reason + survivor_words(survivors),
                    log_tail=tail(self.folder.shim_log).splitlines()[-10:],
                ),
            )
        )

    def _sweep(self, state: ShimState | None, timeout_s: float) -> int:
        cgroup = Cgroup(Path(state.cgroup)) if state is not None and state.cgroup else None
        if cgroup is not None:
            cgroup.kill()

        def members() -> set[Identity]:
            found = self.folder.processes()
            if cgroup is not None:
                found |= {i for pid in cgroup.pids() if (i := identify(pid)) is not None}
            return found

        survivors = kill_all(members, timeout_s=timeout_s)
        with contextlib.suppress(OSError):  # The disk may be full.
            survivor_notes.note(self.folder.home, self.allocation_id, survivors)
        self._remove_containers()
        if cgroup is not None:
            cgroup.remove()
        return len(survivors)

    def _remove_containers(self) -> None:
        try:
            engine = self.folder.read_options().engine
        except (OSError, ValueError):
            return
        if engine is not None:
            mark = self.folder.owner.partition("@")[0]
            try:
                upkeep.remove(engine, owner=mark, allocation_id=self.allocation_id)
            except EngineFailed as error:  # The sweep for orphans tries again.
                log.warning("container_left", allocation_id=self.allocation_id, error=str(error))

    def _own_shim(self) -> Identity | None:
        if self._shim is None or self._shim.poll() is not None:
            return None
        return identify(self._shim.pid)

    def _read_state(self) -> ShimState | None:
        try:
            mtime_ns = (self.folder.path / "shim.json").stat().st_mtime_ns
        except OSError:
            return None
        if mtime_ns != self._state_mtime_ns:
            self._state = self.folder.read_state()
            self._state_mtime_ns = mtime_ns
        return self._state


def version_of(secret: wire.SecretValue) -> str:
    """Return what tells a value of a secret apart from others: "user:3/2/1767225600000"."""
    return f"{secret.owner}/{secret.version}/{secret.changed_at_ms}"


@contextlib.contextmanager
def _pipe_of(values: Mapping[str, str]) -> Iterator[int | None]:
    """Yield the reading end of a pipe with the values as JSON; None if there are none."""
    if not values:
        yield None
        return
    reading, writing = os.pipe()
    data = json.dumps(values).encode()

    def write() -> None:
        # A pipe holds less than the longest secret, so this waits until the shim reads.
        with contextlib.suppress(OSError), os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    threading.Thread(target=write, daemon=True).start()
    try:
        yield reading
    finally:
        os.close(reading)


def recover(home: Path, *, inherited: Mapping[str, str]) -> list[Allocation]:
    """Return the allocations that an earlier agent left in `home`. Half-made folders are deleted."""
    found = []
    parent = home / "allocations"
    parent.mkdir(parents=True, exist_ok=True)
    for path in sorted(parent.iterdir()):
        try:
            folder = AllocationFolder(home, path.name)
            spec = folder.read_spec()
        except (OSError, ValueError):
            _delete_rest(path)
            continue
        if not folder.has_options() and last_state(folder.records) is None:
            folder.delete()  # The agent died before anything was started.
            continue
        found.append(Allocation(folder, spec, inherited=inherited))
    return found


def _delete_rest(path: Path) -> None:
    import shutil

    if path.name.startswith((".new-", ".old-")):
        shutil.rmtree(path, ignore_errors=True)
    else:
        log.error("allocation_unreadable", path=str(path))
