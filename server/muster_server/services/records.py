"""The record stream of an allocation: applied once, in order, in one transaction per request."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from muster.wire import (
    CheckpointRecord,
    EvaluationRecord,
    ExitInfo,
    GroupRecord,
    MessageRecord,
    MetricsRecord,
    NumberedRecord,
    ProfileRecord,
    ProgressRecord,
    RecordsReply,
    RecordsRequest,
    ScheduleRecord,
    StacksRecord,
    StateRecord,
    WorkerRecord,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    LogStreamRow,
    NodeRow,
    ProcessGroupRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.outcomes import on_server_clock
from muster_server.domain.states import ALLOCATION_TRANSITIONS, Transitions
from muster_server.errors import NotFound
from muster_server.services import (
    checkpoint_cleaning,
    evaluations,
    logs,
    metrics,
    node_health,
    pipelines,
    profiles,
    progress,
    search_events,
)

from .agents import Fence, require_session
from .allocations import bump_assignments, clean
from .checkpoints import OBJECT_STORE, store_of
from .events import add_event

log = structlog.get_logger(__name__)

MAX_RECORDS = 1000
MAX_MESSAGE_CHARS = 4000


def apply_records(
    session: Session,
    allocation_id: str,
    request: RecordsRequest,
    *,
    now: dt.datetime,
    applied: list[NumberedRecord] | None = None,
) -> RecordsReply:
    """Store what is new of `request`; what it acknowledges is durable after the commit.

    applied: gets what was new, for whoever counts it once it is committed.
    Numbers already applied are skipped. A gap ends the request there: the reply says from where to
    send again. Records of a superseded attempt, or of an allocation given up as lost, change
    nothing and are answered `superseded`. Raises Superseded for an older session of the node and
    NotFound for an allocation the server does not know: its agent should forget it.
    """
    require_session(session, request.node_id, request.session_epoch)
    allocation = session.get(AllocationRow, allocation_id, with_for_update=True)
    if (
        allocation is None
        or allocation.node_id != request.node_id
        or allocation.attempt_no != request.attempt_no
    ):
        raise NotFound("agent.unknown_allocation", f"No allocation {allocation_id[:64]!r} here.")
    trial = session.get_one(TrialRow, allocation.trial_id)
    if trial.attempt_no != allocation.attempt_no or allocation.observed in ("LOST", "CLEANED"):
        return _refuse(session, allocation, request, now)
    before = allocation.acked_seq
    fresh = in_order(request.records[:MAX_RECORDS], before)
    for run in _runs(fresh):
        if isinstance(run[0].record, MetricsRecord):
            _apply_metrics(session, allocation, trial, run, now)
        else:
            _apply(session, allocation, trial, run[0], now)
        allocation.acked_seq = run[-1].seq
    if applied is not None:
        applied.extend(fresh)
    if allocation.acked_seq != before:
        touch(session, f"trial:{trial.id}")
    return RecordsReply(acked_seq=allocation.acked_seq)


def _refuse(
    session: Session, allocation: AllocationRow, request: RecordsRequest, now: dt.datetime
) -> RecordsReply:
    """Nothing of it is shown. Only that it has ended counts: then its slots can be freed."""
    has_ended = any(
        isinstance(n.record, StateRecord) and n.record.observed == "EXITED" for n in request.records
    )
    if has_ended and allocation.observed == "LOST":
        bump_assignments(session, clean(session, [allocation.id], before="LOST", now=now))
    last = max((n.seq for n in request.records), default=allocation.acked_seq)
    return RecordsReply(acked_seq=max(last, allocation.acked_seq), superseded=True)


def in_order(records: Sequence[NumberedRecord], acked_seq: int) -> list[NumberedRecord]:
    """What follows `acked_seq` without a gap."""
    fresh: list[NumberedRecord] = []
    for numbered in records:
        if numbered.seq == acked_seq + len(fresh) + 1:
            fresh.append(numbered)
        elif numbered.seq > acked_seq + len(fresh):
            break
    return fresh


def _runs(records: Sequence[NumberedRecord]) -> Iterator[list[NumberedRecord]]:
    """Consecutive records of metrics together, every other record by itself."""
    for is_metrics, run in groupby(records, lambda n: isinstance(n.record, MetricsRecord)):
        if is_metrics:
            yield list(run)
        else:
            yield from ([numbered] for numbered in run)


def _apply_metrics(
    session: Session,
    allocation: AllocationRow,
    trial: TrialRow,
    run: Sequence[NumberedRecord],
    now: dt.datetime,
) -> None:
    """Rank by rank: what ranks have reported meanwhile does not depend on the order between them."""
    by_rank: dict[tuple[int, int], list[tuple[int, MetricsRecord]]] = {}
    for numbered in run:
        record = numbered.record
        assert isinstance(record, MetricsRecord)
        by_rank.setdefault((record.rank, record.local_rank), []).append((numbered.seq, record))
    updates: list[metrics.MetricUpdate] = []
    for _, records in sorted(by_rank.items()):
        updates += metrics.ingest_several(session, allocation=allocation, records=records, at=now)
    if updates:
        search_events.on_metrics(session, trial, updates, now)


def _apply(
    session: Session,
    allocation: AllocationRow,
    trial: TrialRow,
    numbered: NumberedRecord,
    now: dt.datetime,
) -> None:
    record = numbered.record
    match record:
        case MetricsRecord():
            _apply_metrics(session, allocation, trial, [numbered], now)
        case WorkerRecord():
            _apply_worker(session, allocation, record, now)
        case GroupRecord():
            _apply_group(session, allocation, record)
        case CheckpointRecord():
            _apply_checkpoint(session, allocation, trial, record, now)
        case EvaluationRecord():
            evaluations.record(session, trial, allocation.attempt_no, record, now)
        case ScheduleRecord():
            pipelines.record(session, allocation, record, now)
        case MessageRecord():
            add_event(
                session,
                "trial.message",
                record.text or "(empty message)",
                now=now,
                level=record.level,
                experiment_id=trial.experiment_id,
                trial_id=trial.id,
                attempt_no=allocation.attempt_no,
            )
        case ProgressRecord():
            progress.record(session, allocation, record, now)
        case StacksRecord():
            progress.keep_stacks(session, allocation, record, now)
        case ProfileRecord():
            profiles.keep(session, allocation, record, now)
        case StateRecord():
            _apply_state(session, allocation, trial, record, now)


def _apply_worker(
    session: Session, allocation: AllocationRow, record: WorkerRecord, now: dt.datetime
) -> None:
    row = session.scalar(
        select(WorkerRow).where(
            WorkerRow.allocation_id == allocation.id, WorkerRow.local_rank == record.local_rank
        )
    )
    if row is None:
        row = WorkerRow(
            allocation_id=allocation.id,
            trial_id=allocation.trial_id,
            attempt_no=allocation.attempt_no,
            local_rank=record.local_rank,
            node_name=allocation.node_name,
            started_at=now,
        )
        session.add(row)
    values = worker_values(record, allocation.slots)
    for name in ("device", "backend", "reports"):
        values[name] = values[name] or getattr(row, name) or values[name]
    if row.slot is not None:
        del values["slot"]
    for name, value in values.items():
        setattr(row, name, value)
    session.flush()


def worker_values(record: WorkerRecord, slots: Sequence[Any]) -> dict[str, Any]:
    """What a worker on these slots says of itself, as columns of its row."""
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


def _apply_group(session: Session, allocation: AllocationRow, record: GroupRecord) -> None:
    name = record.name[:128]
    row = session.scalar(
        select(ProcessGroupRow).where(
            ProcessGroupRow.trial_id == allocation.trial_id,
            ProcessGroupRow.attempt_no == allocation.attempt_no,
            ProcessGroupRow.name == name,
        )
    )
    if row is None:
        row = ProcessGroupRow(
            trial_id=allocation.trial_id, attempt_no=allocation.attempt_no, name=name
        )
        session.add(row)
    row.kind, row.backend, row.ranks = record.kind[:32], record.backend[:32], list(record.ranks)
    session.flush()


def _apply_checkpoint(
    session: Session,
    allocation: AllocationRow,
    trial: TrialRow,
    record: CheckpointRecord,
    now: dt.datetime,
) -> None:
    if store_of(session.get_one(ExperimentRow, trial.experiment_id).config):
        storage_id: str | None = OBJECT_STORE
    else:
        storage_id = session.scalar(
            select(NodeRow.storage_id).where(NodeRow.id == allocation.node_id)
        )
    row = session.scalar(
        select(CheckpointRow).where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.attempt_no == allocation.attempt_no,
            CheckpointRow.step == record.step,
        )
    )
    is_new = row is None
    if row is None:
        row = CheckpointRow(
            trial_id=trial.id,
            attempt_no=allocation.attempt_no,
            step=record.step,
            created_at=now,
            state="complete",
        )
        session.add(row)
    row.epoch = record.epoch
    row.path = record.path
    row.node_name = allocation.node_name
    row.storage_id = storage_id or ""
    row.size_bytes = record.size_bytes
    row.files = dict(record.files)
    row.metrics = dict(record.metrics)
    session.flush()
    if is_new:
        checkpoint_cleaning.saved_again(session, trial, row)
    newest = session.get(CheckpointRow, trial.latest_checkpoint_id or 0)
    if newest is None or record.step >= newest.step:
        trial.latest_checkpoint_id = row.id


# ---------------------------------------------------------------- states


def _apply_state(
    session: Session,
    allocation: AllocationRow,
    trial: TrialRow,
    record: StateRecord,
    now: dt.datetime,
) -> None:
    before = allocation.observed
    if not reachable(ALLOCATION_TRANSITIONS, before, record.observed):
        # Acknowledged all the same: refused for ever, it would block everything behind it.
        log.error(
            "illegal_transition", allocation_id=allocation.id, before=before, after=record.observed
        )
        add_event(
            session,
            "allocation.refused",
            f"{allocation.node_name} reported {record.observed} after {before}, which cannot be; "
            "it was ignored.",
            now=now,
            level="error",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=allocation.attempt_no,
            node_id=allocation.node_id,
        )
        return
    if record.observed != before:
        allocation.observed, allocation.state_since = record.observed, now
    if record.message:
        allocation.message = record.message[:MAX_MESSAGE_CHARS]
    if record.exit is not None:
        node = session.get_one(NodeRow, allocation.node_id)
        info = on_server_clock(
            record.exit, offset_ms=node.clock_offset_ms, error_ms=node.clock_error_ms
        )
        allocation.exit = dataclasses.asdict(info)
        _note_exits(session, allocation, info, now, is_over=record.observed != "STOPPING")
    if record.observed == "READY":
        _note_ready(session, allocation, record)
    if record.observed == "PREPARE_FAILED":
        _note_not_prepared(session, allocation, record, now)
    if record.observed == "EXITED":
        allocation.ended_at = now
        session.execute(
            update(LogStreamRow)
            .where(LogStreamRow.allocation_id == allocation.id)
            .values(is_complete=True)
        )
        touch(session, f"trial:{trial.id}:logs")
    session.flush()
    touch(session, "loops", "cluster")


def reachable(transitions: Transitions, before: str, after: str) -> bool:
    """Whether a path of legal edges leads from `before` to `after` (or they are the same).

    An agent may have gone through several states between two records it managed to write.
    """
    seen, todo = {before}, deque([before])
    while todo:
        state = todo.popleft()
        if state == after:
            return True
        for start, end in transitions:
            # LOST is what the server says of a node; no report of an agent goes through it.
            if start == state and end not in seen and end not in ("LOST", "CLEANED"):
                seen.add(end)
                todo.append(end)
    return False


def _note_ready(session: Session, allocation: AllocationRow, record: StateRecord) -> None:
    session.execute(
        update(NodeRow)
        .where(NodeRow.id == allocation.node_id, NodeRow.strikes > 0)
        .values(strikes=0, strike_reason="")
    )
    if record.facts is not None:
        node = session.get_one(NodeRow, allocation.node_id)
        is_cuda = allocation.spec.get("slot_type") == "cuda"
        driver = str(node.inventory.get("driver_version", "")) if is_cuda else ""
        allocation.facts = dataclasses.asdict(
            dataclasses.replace(record.facts, driver_version=driver)
        )
    if record.rendezvous is not None and allocation.node_rank == 0:
        session.execute(
            update(AttemptRow)
            .where(AttemptRow.id == allocation.attempt_id)
            .values(rendezvous_host=record.rendezvous.host, rendezvous_port=record.rendezvous.port)
        )


_CAUSES_OF_BLAME: Mapping[str, Literal["not_on_node", "cannot_run"]] = {
    "placement": "not_on_node",
    "document": "cannot_run",
}


def _note_not_prepared(
    session: Session, allocation: AllocationRow, record: StateRecord, now: dt.datetime
) -> None:
    add_event(
        session,
        "node.prepare_failed",
        f"{allocation.node_name} could not prepare trial {allocation.trial_id}: "
        f"{record.message or 'no reason given'}",
        now=now,
        level="warning",
        trial_id=None,
        node_id=allocation.node_id,
    )
    allocation.is_node_at_fault = record.blames == "node"
    cause = _CAUSES_OF_BLAME.get(record.blames)
    if cause is not None:
        allocation.exit = dataclasses.asdict(ExitInfo(cause=cause, message=allocation.message))
    if record.blames == "node" and not record.passes:
        reason = record.message or "of something it did not name"
        node_health.note_strike(session, allocation.node_id, reason, now=now)


def _note_exits(
    session: Session,
    allocation: AllocationRow,
    info: ExitInfo,
    now: dt.datetime,
    *,
    is_over: bool,
) -> None:
    """is_over: all its workers have ended, whether or not `info` says how."""
    exits = {worker.local_rank: worker for worker in info.workers}
    for row in session.scalars(select(WorkerRow).where(WorkerRow.allocation_id == allocation.id)):
        end = exits.get(row.local_rank)
        if end is not None:
            row.exit_code, row.signal = end.exit_code, end.signal
            row.exit_message = end.message
        if end is not None or is_over:
            row.ended_at = row.ended_at or now


# ---------------------------------------------------------------- logs


def append_log(
    session: Session,
    allocation_id: str,
    fence: Fence,
    *,
    attempt_no: int,
    local_rank: int,
    stream: Literal["stdout", "stderr"],
    offset: int,
    data: bytes,
    now: dt.datetime,
) -> int:
    """Append log bytes; the offset to go on from. Raises Superseded and NotFound like records.

    Bytes of an allocation given up as lost are taken and dropped: nobody will read them.
    """
    require_session(session, fence.node_id, fence.session_epoch)
    allocation = session.get(AllocationRow, allocation_id, with_for_update=True)
    if (
        allocation is None
        or allocation.node_id != fence.node_id
        or allocation.attempt_no != attempt_no
    ):
        raise NotFound("agent.unknown_allocation", f"No allocation {allocation_id[:64]!r} here.")
    if allocation.observed in ("LOST", "CLEANED"):
        return offset + len(data)
    return logs.append(
        session,
        allocation=allocation,
        local_rank=local_rank,
        stream=stream,
        offset=offset,
        data=data,
        now=now,
    )
