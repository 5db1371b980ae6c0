"""What the states and workers that an agent reports change about their allocation.

An agent's records are read in order; what becomes of each depends on the ones before. `decide` works
out all the changes of a run of records first, so that those of many allocations can be written at once.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from muster.wire import (
    PACKAGES_MAX,
    ExitInfo,
    JobEnvironment,
    MediaRecord,
    MetricsRecord,
    NodeFacts,
    NumberedRecord,
    StateRecord,
    WorkerExit,
    WorkerRecord,
)

from ..lifecycle.outcomes import on_server_clock
from ..states import ALLOCATION_TRANSITIONS, AllocationState

MAX_MESSAGE_CHARS = 4000

_CAUSES_OF_BLAME: Mapping[str, Literal["not_on_node", "cannot_run"]] = {
    "placement": "not_on_node",
    "document": "cannot_run",
}

TRIAL = "{trial}"
"""Text in a message that whoever writes it down replaces: an allocation does not know how people name
its trial."""


@dataclass(slots=True)
class ReportedAllocation:
    """An allocation as it was before the records that are applied now. Fields are columns."""

    id: str
    attempt_id: int
    trial_id: int
    attempt_no: int
    node_id: str
    node_name: str
    node_rank: int
    slots: Sequence[Any]
    observed: str
    message: str
    acked_seq: int
    role: str


@dataclass(frozen=True, kw_only=True)
class NodeClock:
    """How the node's boot clock stands to the server's; None where that is not measured."""

    offset_ms: float | None
    error_ms: float | None


@dataclass(frozen=True, kw_only=True)
class KnownWorker:
    """What is stored of a worker and outlives a report that does not say it again."""

    slot: int | None
    device: str
    backend: str
    reports: bool


@dataclass(frozen=True, kw_only=True)
class EventDraft:
    """An event of the allocation's node, and of its trial where `is_of_trial`. In the message, TRIAL
    stands for the trial as people name it."""

    type: str
    message: str
    level: Literal["warning", "error"]
    is_of_trial: bool


@dataclass(kw_only=True)
class Changes:
    """What a run of records changes."""

    allocation: ReportedAllocation
    values: dict[str, Any] = field(default_factory=dict)
    """Columns of the allocation."""
    new_workers: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Columns of workers by local rank, first heard of."""
    known_workers: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Columns of workers by local rank that are stored already."""
    exits: list[WorkerExit] = field(default_factory=list)
    ends_workers: bool = False
    """All workers have ended, whether or not an exit says how."""
    completes_logs: bool = False
    facts: NodeFacts | None = None
    environment: JobEnvironment | None = None
    rendezvous: tuple[str, int] | None = None
    """Host and port at which the attempt meets."""
    clears_strikes: bool = False
    """The node could prepare: its earlier failures do not count any more."""
    strike: str | None = None
    """Why the node could not prepare, where that is its own fault."""
    events: list[EventDraft] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """(state before, reported state) of reports that cannot be true."""
    wakes_loops: bool = False

    @property
    def observed(self) -> str:
        """The state after the changes."""
        observed: str = self.values.get("observed", self.allocation.observed)
        return observed

    @property
    def allocation_after(self) -> ReportedAllocation:
        return dataclasses.replace(self.allocation, observed=self.observed, message=self.message)

    @property
    def message(self) -> str:
        message: str = self.values.get("message", self.allocation.message)
        return message


def in_order(records: Sequence[NumberedRecord], acked_seq: int) -> list[NumberedRecord]:
    """Return the records that follow `acked_seq` without a gap; those applied already are skipped."""
    new: list[NumberedRecord] = []
    for numbered in records:
        if numbered.seq == acked_seq + len(new) + 1:
            new.append(numbered)
        elif numbered.seq > acked_seq + len(new):
            break
    return new


Lifecycle = StateRecord | WorkerRecord
"""Records that `decide` reads."""


def runs(records: Sequence[NumberedRecord]) -> list[list[NumberedRecord]]:
    """Split records into runs that can be applied at once, in order.

    A run holds states and workers, or metrics, or media, or one record of another kind. A worker that is
    reported after an exit begins a new run: that exit is not its own.
    """
    found: list[list[NumberedRecord]] = []
    has_exit = False
    for numbered in records:
        record = numbered.record
        last = found[-1][-1].record if found else None
        joins = (
            type(last) is type(record)
            if isinstance(record, MetricsRecord | MediaRecord)
            else isinstance(record, Lifecycle)
            and isinstance(last, Lifecycle)
            and not (has_exit and isinstance(record, WorkerRecord))
        )
        if joins:
            found[-1].append(numbered)
        else:
            found.append([numbered])
            has_exit = False
        has_exit |= isinstance(record, StateRecord) and record.exit is not None
    return found


@functools.cache
def is_reachable(before: str, after: str) -> bool:
    """Return whether legal transitions lead an allocation from `before` to `after`, or whether the
    two are the same.

    An agent may have gone through several states between two records it managed to write.
    """
    seen, todo = {before}, deque([before])
    while todo:
        state = todo.popleft()
        if state == after:
            return True
        for start, end in ALLOCATION_TRANSITIONS:
            # Only the server declares a node LOST; no report of an agent passes through it.
            if (
                start == state
                and end not in seen
                and end not in (AllocationState.LOST, AllocationState.CLEANED)
            ):
                seen.add(end)
                todo.append(end)
    return False


def decide(
    allocation: ReportedAllocation,
    records: Sequence[Lifecycle],
    *,
    known: Mapping[int, KnownWorker],
    clock: NodeClock,
    now: dt.datetime,
) -> Changes:
    """Return what these records change. known: the allocation's stored workers, by local rank."""
    changes = Changes(allocation=allocation)
    for record in records:
        if isinstance(record, WorkerRecord):
            _on_worker(changes, record, known.get(record.local_rank), now)
        else:
            _on_state(changes, record, clock, now)
    return changes


def _on_worker(
    changes: Changes, record: WorkerRecord, known: KnownWorker | None, now: dt.datetime
) -> None:
    values = worker_values(record, changes.allocation.slots)
    rows = changes.new_workers if known is None else changes.known_workers
    before = rows.get(record.local_rank)
    if before is None and known is not None:
        before = dataclasses.asdict(known)
    if before is not None:
        for name in ("device", "backend", "reports"):
            values[name] = values[name] or before[name]
        if before["slot"] is not None:
            values["slot"] = before["slot"]
    if known is None:
        values |= {
            "allocation_id": changes.allocation.id,
            "trial_id": changes.allocation.trial_id,
            "attempt_no": changes.allocation.attempt_no,
            "local_rank": record.local_rank,
            "node_name": changes.allocation.node_name,
            "started_at": now,
        }
    rows[record.local_rank] = values


def worker_values(record: WorkerRecord, slots: Sequence[Any]) -> dict[str, Any]:
    """Return what a worker on these slots reports about itself, as columns of its row."""
    in_range = 0 <= record.local_rank < len(slots)
    return {
        "slot": int(slots[record.local_rank]) if in_range else -1,
        "rank": record.rank,
        "world_size": record.world_size,
        "node_rank": record.node_rank,
        "pid": record.pid,
        "host": record.host[:255],
        "master_addr": record.master_addr[:255],
        "master_port": record.master_port,
        "device": record.device[:128],
        "backend": record.backend[:32],
        "reports": record.reports,
    }


def _on_state(changes: Changes, record: StateRecord, clock: NodeClock, now: dt.datetime) -> None:
    before, name = changes.observed, changes.allocation.node_name
    if not is_reachable(before, record.observed):
        # Acknowledged all the same: refused forever, it would block everything behind it.
        changes.refused.append((before, record.observed))
        changes.events.append(
            EventDraft(
                type="allocation.refused",
                message=f"{name} reported {record.observed} after {before}, which cannot be; "
                "it was ignored.",
                level="error",
                is_of_trial=True,
            )
        )
        return
    changes.wakes_loops = True
    if record.observed != before:
        changes.values |= {"observed": record.observed, "state_since": now}
    if record.message:
        changes.values["message"] = record.message[:MAX_MESSAGE_CHARS]
    if record.exit is not None:
        info = on_server_clock(record.exit, offset_ms=clock.offset_ms, error_ms=clock.error_ms)
        changes.values["exit"] = dataclasses.asdict(info)
        changes.exits += info.workers
        changes.ends_workers |= record.observed != "STOPPING"
    match record.observed:
        case "READY":
            changes.clears_strikes = True
            if record.facts is not None:
                changes.facts = record.facts
            if record.environment is not None and changes.allocation.node_rank == 0:
                packages = record.environment.packages[:PACKAGES_MAX]
                changes.environment = dataclasses.replace(record.environment, packages=packages)
            if record.rendezvous is not None and changes.allocation.role:
                changes.values["address"] = record.rendezvous.address
            elif record.rendezvous is not None and changes.allocation.node_rank == 0:
                changes.rendezvous = (record.rendezvous.host, record.rendezvous.port)
        case "PREPARE_FAILED":
            _on_not_prepared(changes, record)
        case "EXITED":
            changes.values["ended_at"] = now
            changes.completes_logs = True


def _on_not_prepared(changes: Changes, record: StateRecord) -> None:
    allocation = changes.allocation
    changes.events.append(
        EventDraft(
            type="node.prepare_failed",
            message=f"{allocation.node_name} could not prepare {TRIAL}: "
            f"{record.message or 'no reason given'}",
            level="warning",
            is_of_trial=False,
        )
    )
    changes.values["is_node_at_fault"] = record.blames == "node"
    cause = _CAUSES_OF_BLAME.get(record.blames)
    if cause is not None:
        info = ExitInfo(cause=cause, message=changes.message)
        changes.values["exit"] = dataclasses.asdict(info)
    if record.blames == "node" and not record.passes:
        changes.strike = record.message or "of something it did not name"
