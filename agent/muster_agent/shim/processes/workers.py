"""The workers of any script, with or without the SDK: find them, and watch them end.

torchrun tells nobody which processes it started, but each carries its place in the gang in its
environment. What a worker reports about itself (hello) takes precedence over what is found here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psutil

from muster.wire import WorkerRecord
from muster_agent.clock import unix_ms
from muster_agent.jobs.exits import WorkerEnd
from muster_agent.jobs.process import Child, Identity, identify, is_alive
from muster_agent.shim.processes.exit_watch import uncollected_status, watch_end


@dataclass
class Worker:
    record: WorkerRecord
    identity: Identity | None
    child: Child | None = None
    """Set if the shim is its parent and so receives its exit status itself."""
    gone_at_ms: int = 0
    """Unix time in milliseconds at which it was first seen gone; 0 while it lives."""
    status: int | None = None
    """Exit code, or minus the signal, once it has ended and that is known."""

    @property
    def has_failed(self) -> bool:
        return self.status is not None and self.status != 0


@dataclass
class Workers:
    """The workers of one allocation by local rank."""

    num_expected: int
    is_open: bool = False
    """Whether workers may come and go, as those of a shell script with several commands do; then
    they may be anywhere below the launcher."""
    rank_base: int = 0
    """Added to the ranks that workers know; see wire.AllocationSpec.rank_base."""
    on_end: Callable[[], None] = lambda: None
    """Called when a worker has ended."""
    by_local_rank: dict[int, Worker] = field(default_factory=dict)

    @property
    def are_all_known(self) -> bool:
        return not self.is_open and len(self.by_local_rank) >= self.num_expected

    def deciding(self) -> dict[int, Worker]:
        """Return the workers whose end decides, by local rank: those that the shim has started, if
        there are any. What these start themselves is theirs, and a failure of it may be handled."""
        own = {n: w for n, w in self.by_local_rank.items() if w.child is not None}
        return own or self.by_local_rank

    def alive(self) -> list[Worker]:
        return [w for w in self.by_local_rank.values() if w.gone_at_ms == 0]

    def add_child(self, child: Child, environment: Mapping[str, str]) -> WorkerRecord:
        """Add a worker that the shim started itself."""
        record = self._record_of(child.pid, environment)
        self.by_local_rank[record.local_rank] = Worker(record, identify(child.pid), child)
        return record

    def discover(self, launcher_pid: int) -> list[WorkerRecord]:
        """Find workers below the launcher that were not known before."""
        found = []
        try:
            below = psutil.Process(launcher_pid).children(recursive=self.is_open)
        except psutil.Error:
            return []
        ranked: set[int] = set()
        """Workers, and what they have started, which inherits their environment."""
        for process in below:  # parents come before their children
            try:
                if process.ppid() in ranked:
                    ranked.add(process.pid)
                    continue
                # Between fork and exec a child still shows the launcher's environment.
                record = self._record_of(process.pid, process.environ())
            except (psutil.Error, OSError, KeyError, ValueError):
                continue
            ranked.add(process.pid)
            if self._is_new(record):
                self._add(record, identify(process.pid))
                found.append(record)
        return found

    def discover_ended(
        self, launcher_pid: int, environments: Sequence[Mapping[str, str]]
    ) -> list[WorkerRecord]:
        """Find workers that ended before they were seen, and that their parent does not collect
        before all have ended. Their own environment went with them.

        environments: those of all workers, in the order in which the parent starts them.
        """
        try:
            below = psutil.Process(launcher_pid).children()
        except psutil.Error:
            return []
        if len(below) != len(environments):
            return []
        found = []
        for process, environment in zip(
            sorted(below, key=lambda p: (p.create_time(), p.pid)), environments, strict=True
        ):
            record = self._record_of(process.pid, environment)
            status = uncollected_status(process.pid)
            if status is None or record.local_rank in self.by_local_rank:
                continue
            worker = self.by_local_rank[record.local_rank] = Worker(record, None)
            worker.gone_at_ms, worker.status = unix_ms(), status
            found.append(record)
        return found

    def _record_of(self, pid: int, environment: Mapping[str, str]) -> WorkerRecord:
        """Return the worker from its environment. Raises KeyError or ValueError if that is not a
        worker's."""
        record = _record_of(pid, environment)
        return replace(record, rank=record.rank + self.rank_base)

    def _is_new(self, record: WorkerRecord) -> bool:
        """Return whether this is an unknown worker, or one that has taken the place of one that
        ended."""
        known = self.by_local_rank.get(record.local_rank)
        if known is None:
            return True
        return self.is_open and known.gone_at_ms > 0 and known.record.pid != record.pid

    def _add(self, record: WorkerRecord, identity: Identity | None) -> None:
        """Add a worker that another process started."""
        worker = self.by_local_rank[record.local_rank] = Worker(record, identity)

        def ended(status: int | None) -> None:
            worker.gone_at_ms = worker.gone_at_ms or unix_ms()
            worker.status = status
            self.on_end()

        if identity is not None:
            watch_end(identity, ended)

    def replace(self, record: WorkerRecord) -> None:
        """Take over what a worker reported about itself. Its pid counts only if the worker was
        unknown: a child process of a worker may have taken over the connection."""
        if self._is_new(record):
            self._add(record, identify(record.pid))
        else:
            self.by_local_rank[record.local_rank].record = record

    def observe(self) -> None:
        """Note the workers that have ended since the last look."""
        for worker in self.by_local_rank.values():
            if worker.gone_at_ms:
                continue
            if worker.child is not None:
                worker.gone_at_ms = worker.child.ended_at_ms
                worker.status = worker.child.status
            elif worker.identity is None or not is_alive(worker.identity):
                worker.gone_at_ms = unix_ms()

    def has_failed(self) -> bool:
        """Return whether a worker is known to have failed."""
        return any(worker.has_failed for worker in self.deciding().values())

    def ends(self) -> list[WorkerEnd]:
        """Return how the workers ended, as far as the shim itself knows."""
        return [
            WorkerEnd(
                local_rank=local_rank,
                rank=worker.record.rank,
                pid=worker.record.pid,
                exit_code=worker.status if (worker.status or 0) >= 0 else None,
                signal=-worker.status if (worker.status or 0) < 0 and worker.status else None,
                at_ms=worker.gone_at_ms,
            )
            for local_rank, worker in sorted(self.deciding().items())
        ]


def _record_of(pid: int, environment: Mapping[str, str]) -> WorkerRecord:
    """Return the worker from its environment. Raises KeyError or ValueError if that is not a
    worker's."""
    return WorkerRecord(
        local_rank=int(environment["LOCAL_RANK"]),
        rank=int(environment["RANK"]),
        world_size=int(environment["WORLD_SIZE"]),
        node_rank=int(environment.get("GROUP_RANK", "0")),
        pid=pid,
        host=socket.gethostname(),
        master_addr=environment.get("MASTER_ADDR", ""),
        master_port=int(environment.get("MASTER_PORT", "0")),
    )
