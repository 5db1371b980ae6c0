"""The record stream of allocations: applied once, in order, for a batch of requests at a time.

For all requests of a batch together, their rows are loaded, what they change is decided, and that is
written. States and workers of all allocations share their statements, for a gang's members prepare,
start and end at the same moment. What other records change depends on rows that others change, too
(a trial's summary, its search), so requests that hold them are applied one after another.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import BindParameter, Table, bindparam, select
from sqlalchemy.orm import Session

from muster.wire import (
    CHECKPOINT_DAMAGED,
    NEAR_LIMIT,
    CheckpointRecord,
    EndpointRecord,
    EvaluationRecord,
    GroupRecord,
    MediaDropsRecord,
    MediaRecord,
    MessageRecord,
    MetricsRecord,
    ModelRegistration,
    ModelRegistrationRecord,
    ModelResultRecord,
    NumberedRecord,
    ProfileRecord,
    ProgressRecord,
    Record,
    RecordsReply,
    RecordsRequest,
    SamplesRecord,
    ScheduleRecord,
    ShardPlanRecord,
    ShardsRecord,
    StacksRecord,
    StateRecord,
    TrackedRunRecord,
    WorkerRecord,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    ProcessGroupRow,
    TrialRow,
)
from muster_server.db.raw import columns_of
from muster_server.domain.nodes.reports import (
    Changes,
    Lifecycle,
    NodeClock,
    ReportedAllocation,
    decide,
    in_order,
    runs,
)
from muster_server.domain.states import AllocationState
from muster_server.errors import MusterError, NotFound
from muster_server.parts import NO_REGISTRY
from muster_server.security.principal import Principal

from ..checkpoints import cleaning, continuation, local
from ..checkpoints.lookup import OBJECT_STORE, store_of
from ..core.events import add_event
from ..logs import storage
from ..metrics import ingest
from ..quota.spending import lock_accounts
from ..runtime import (
    endpoints,
    evaluations,
    media,
    model_results,
    pipelines,
    predictions,
    profiles,
    progress,
    tracked_runs,
)
from ..scheduling.allocations import clean
from ..search import events
from .missing_files import explained
from .record_writes import known_workers, write, write_nodes
from .sessions import Fence, NodeIdentity, refusal, require_session

MESSAGE_EVENTS = frozenset({CHECKPOINT_DAMAGED, NEAR_LIMIT})
"""Types of events that a job's message may become."""
MAX_RECORDS = 1000


@dataclass(frozen=True, kw_only=True)
class RecordsCall:
    """One request."""

    agent: Principal
    allocation_id: str
    request: RecordsRequest

    @property
    def shares_rows(self) -> bool:
        """Whether it changes more than its own allocation and workers."""
        records = self.request.records
        return not all(isinstance(numbered.record, Lifecycle) for numbered in records)


@dataclass(frozen=True, kw_only=True)
class StoredRecords:
    reply: RecordsReply
    new: list[NumberedRecord]
    """Records that were not applied before."""


@dataclass(slots=True)
class _ReportingNode(NodeIdentity):
    strikes: int
    clock_offset_ms: float | None
    clock_error_ms: float | None


_ALLOCATIONS = cast(Table, AllocationRow.__table__)
_TRIALS = cast(Table, TrialRow.__table__)
_NODES = cast(Table, NodeRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
# Locked in the order of their ids, as everybody does who locks several.
_LOCK_ALLOCATIONS = (
    select(*columns_of(_ALLOCATIONS, ReportedAllocation))
    .where(_ALLOCATIONS.c.id.in_(_IDS))
    .order_by(_ALLOCATIONS.c.id)
    .with_for_update()
)
# Read after those are locked: what they say of an allocation cannot change under it any more.
_ATTEMPT_NOS = select(_TRIALS.c.id, _TRIALS.c.attempt_no).where(_TRIALS.c.id.in_(_IDS))
_READ_NODES = select(*columns_of(_NODES, _ReportingNode)).where(_NODES.c.id.in_(_IDS))


@dataclass(frozen=True, kw_only=True)
class _Accepted:
    """A request of the present session about an allocation that is its node's."""

    call: RecordsCall
    allocation: ReportedAllocation
    new: list[NumberedRecord]
    is_superseded: bool
    """Nothing of it is shown."""


def store(
    session: Session, calls: Sequence[RecordsCall], *, now: dt.datetime
) -> list[StoredRecords | MusterError]:
    """Store what is new of each request; what its reply acknowledges is durable after the commit.

    Each request is of another allocation. Numbers already applied are skipped. A gap ends a request
    there: the reply says from where to send again. Records of a superseded attempt, or of an
    allocation given up as lost, change nothing and are answered `superseded`. Errors are NotSignedIn,
    Superseded for an older session of the node, and NotFound for an allocation the server does not
    know: its agent should forget it.
    """
    connection = session.connection()
    ids = sorted({call.allocation_id for call in calls})
    assert len(ids) == len(calls), "requests of one allocation are applied one after another"
    allocations = {
        row.id: ReportedAllocation(*row)
        for row in connection.execute(_LOCK_ALLOCATIONS, {"ids": ids})
    }
    trial_ids = sorted({row.trial_id for row in allocations.values()})
    attempt_nos = dict(connection.execute(_ATTEMPT_NOS, {"ids": trial_ids}).all()) if ids else {}
    node_ids = sorted({call.request.node_id for call in calls})
    nodes = {
        row.id: _ReportingNode(*row) for row in connection.execute(_READ_NODES, {"ids": node_ids})
    }
    judged = [_judge(call, allocations, attempt_nos, nodes) for call in calls]
    accepted = [one for one in judged if isinstance(one, _Accepted)]
    freed = _free_ended(session, [one for one in accepted if one.is_superseded], now)
    fresh = [one for one in accepted if one.new and not one.is_superseded]
    applied = _apply(session, fresh, nodes, now)
    with_strikes = {row.id for row in nodes.values() if row.strikes}
    write_nodes(session, applied, with_strikes=with_strikes, freed=freed, now=now)
    return [_stored(one) if isinstance(one, _Accepted) else one for one in judged]


def _judge(
    call: RecordsCall,
    allocations: Mapping[str, ReportedAllocation],
    attempt_nos: Mapping[int, int],
    nodes: Mapping[str, _ReportingNode],
) -> _Accepted | MusterError:
    request = call.request
    node = nodes.get(request.node_id)
    error = refusal(node, call.agent, request.session_epoch)
    if error is not None:
        return error
    allocation = allocations.get(call.allocation_id)
    if (
        allocation is None
        or allocation.node_id != request.node_id
        or allocation.attempt_no != request.attempt_no
    ):
        return _unknown(call.allocation_id)
    is_current = attempt_nos[allocation.trial_id] == allocation.attempt_no
    return _Accepted(
        call=call,
        allocation=allocation,
        new=in_order(request.records[:MAX_RECORDS], allocation.acked_seq),
        is_superseded=not is_current
        or allocation.observed in (AllocationState.LOST, AllocationState.CLEANED),
    )


def _unknown(allocation_id: str) -> NotFound:
    return NotFound("agent.unknown_allocation", f"No allocation {allocation_id[:64]!r} here.")


def _stored(accepted: _Accepted) -> StoredRecords:
    acked_seq = accepted.allocation.acked_seq
    if accepted.is_superseded:
        last = max((n.seq for n in accepted.call.request.records), default=acked_seq)
        reply = RecordsReply(acked_seq=max(last, acked_seq), superseded=True)
        return StoredRecords(reply=reply, new=[])
    if accepted.new:
        acked_seq = accepted.new[-1].seq
    refused = [
        ModelRegistration(no=n.record.no, error=NO_REGISTRY)
        for n in accepted.call.request.records
        if isinstance(n.record, ModelRegistrationRecord) and n.seq <= acked_seq
    ]
    return StoredRecords(reply=RecordsReply(acked_seq=acked_seq, models=refused), new=accepted.new)


def _free_ended(session: Session, superseded: Sequence[_Accepted], now: dt.datetime) -> set[str]:
    """Free the slots of allocations given up as lost that have ended, which is all of them that counts.
    Returns the ids of their nodes."""
    ended = [
        one.allocation
        for one in superseded
        if one.allocation.observed == AllocationState.LOST
        and any(
            isinstance(numbered.record, StateRecord) and numbered.record.observed == "EXITED"
            for numbered in one.call.request.records
        )
    ]
    if not ended:
        return set()
    lock_accounts(session, (allocation.trial_id for allocation in ended))
    return clean(session, [allocation.id for allocation in ended], before="LOST", now=now)


# ---------------------------------------------------------------- applying


def _apply(
    session: Session,
    accepted: Sequence[_Accepted],
    nodes: Mapping[str, _ReportingNode],
    now: dt.datetime,
) -> list[Changes]:
    """Apply the new records of all requests; what remains to be written of it are strikes of nodes."""
    applied: dict[str, list[Changes]] = {}
    batch: list[tuple[_Accepted, list[NumberedRecord]]] = []
    for one in accepted:
        applied[one.allocation.id] = []
        first, *others = runs(one.new)
        if others or not isinstance(first[0].record, Lifecycle):
            applied[one.allocation.id] = _apply_in_turn(session, one, nodes, now)
        else:
            batch.append((one, first))
        touch(session, f"trial:{one.allocation.trial_id}")
    for changes in _apply_lifecycle(session, batch, nodes, now):
        applied[changes.allocation.id].append(changes)
    return [changes for of_one in applied.values() for changes in of_one]


def _apply_in_turn(
    session: Session, one: _Accepted, nodes: Mapping[str, _ReportingNode], now: dt.datetime
) -> list[Changes]:
    """Apply the runs of a request one after another."""
    applied: list[Changes] = []
    allocation = one.allocation
    for run in runs(one.new):
        record = run[0].record
        if isinstance(record, Lifecycle):
            step = dataclasses.replace(one, allocation=allocation)
            (changes,) = _apply_lifecycle(session, [(step, run)], nodes, now)
            allocation = changes.allocation_after
            applied.append(changes)
        elif isinstance(record, MetricsRecord):
            _apply_metrics(session, allocation, run, now)
        elif isinstance(record, MediaRecord):
            items = [n.record for n in run if isinstance(n.record, MediaRecord)]
            media.record(session, allocation, items, now)
        else:
            _apply_other(session, allocation, record, now)
            session.flush()
    acknowledged = Changes(allocation=allocation, values={"acked_seq": one.new[-1].seq})
    write(session, [acknowledged], now=now)
    session.flush()
    session.expunge_all()
    return applied


def _apply_lifecycle(
    session: Session,
    batch: Sequence[tuple[_Accepted, Sequence[NumberedRecord]]],
    nodes: Mapping[str, _ReportingNode],
    now: dt.datetime,
) -> list[Changes]:
    if not batch:
        return []
    records = [
        [record for n in run if isinstance(record := n.record, Lifecycle)] for _, run in batch
    ]
    known = known_workers(
        session,
        (
            one.allocation.id
            for (one, _), some in zip(batch, records, strict=True)
            if any(isinstance(record, WorkerRecord) for record in some)
        ),
    )
    applied: list[Changes] = []
    for (one, run), some in zip(batch, records, strict=True):
        node = nodes[one.allocation.node_id]
        changes = decide(
            one.allocation,
            [
                explained(session, one.allocation.trial_id, record)
                if isinstance(record, StateRecord)
                else record
                for record in some
            ],
            known=known.get(one.allocation.id, {}),
            clock=NodeClock(offset_ms=node.clock_offset_ms, error_ms=node.clock_error_ms),
            now=now,
        )
        changes.values["acked_seq"] = run[-1].seq
        applied.append(changes)
    write(session, applied, now=now)
    return applied


def _apply_metrics(
    session: Session,
    allocation: ReportedAllocation,
    run: Sequence[NumberedRecord],
    now: dt.datetime,
) -> None:
    """Rank by rank: what ranks have reported meanwhile does not depend on the order between them."""
    by_rank: dict[tuple[int, int], list[tuple[int, MetricsRecord]]] = {}
    for numbered in run:
        record = numbered.record
        assert isinstance(record, MetricsRecord)
        by_rank.setdefault((record.rank, record.local_rank), []).append((numbered.seq, record))
    updates: list[ingest.MetricUpdate] = []
    for _, records in sorted(by_rank.items()):
        updates += ingest.ingest_several(session, allocation=allocation, records=records, at=now)
    if updates:
        events.on_metrics(session, session.get_one(TrialRow, allocation.trial_id), updates, now)


def _apply_other(
    session: Session, allocation: ReportedAllocation, record: Record, now: dt.datetime
) -> None:
    match record:
        case GroupRecord():
            _apply_group(session, allocation, record)
        case CheckpointRecord():
            _apply_checkpoint(session, allocation, record, now)
        case EvaluationRecord():
            trial = session.get_one(TrialRow, allocation.trial_id)
            evaluations.record(session, trial, allocation.attempt_no, record, now)
        case SamplesRecord():
            continuation.record(session, allocation, record)
        case ModelResultRecord():
            trial = session.get_one(TrialRow, allocation.trial_id)
            model_results.record(session, trial, allocation.attempt_no, record, now)
        case EndpointRecord():
            endpoints.record(session, allocation, record, now)
        case TrackedRunRecord():
            trial = session.get_one(TrialRow, allocation.trial_id)
            tracked_runs.record(session, trial, allocation.attempt_no, record, now)
        case ModelRegistrationRecord():
            pass  # The part `models` registers it, and answers it, when all is stored.
        case MediaDropsRecord():
            media.record_drops(session, allocation, record)
        case ScheduleRecord():
            pipelines.record(session, allocation, record, now)
        case MessageRecord():
            trial = session.get_one(TrialRow, allocation.trial_id)
            text = record.text or "(empty message)"
            if record.event == CHECKPOINT_DAMAGED and record.resume_step is not None:
                local.fell_back(
                    session,
                    trial,
                    allocation.attempt_no,
                    allocation.node_name,
                    record.resume_step,
                )
            add_event(
                session,
                record.event if record.event in MESSAGE_EVENTS else "trial.message",
                f"{allocation.node_name}: {text}." if record.event == NEAR_LIMIT else text,
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
        case ShardPlanRecord():
            predictions.record_plan(session, allocation, record, now)
        case ShardsRecord():
            predictions.record(session, allocation, record, now)


def _apply_group(session: Session, allocation: ReportedAllocation, record: GroupRecord) -> None:
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


def _apply_checkpoint(
    session: Session,
    allocation: ReportedAllocation,
    record: CheckpointRecord,
    now: dt.datetime,
) -> None:
    trial = session.get_one(TrialRow, allocation.trial_id)
    attempt_no = record.attempt_no or allocation.attempt_no
    if record.is_local:
        storage_id: str | None = None
    elif store_of(session.get_one(ExperimentRow, trial.experiment_id).config):
        storage_id = OBJECT_STORE
    else:
        storage_id = session.scalar(
            select(NodeRow.storage_id).where(NodeRow.id == allocation.node_id)
        )
    row = session.scalar(
        select(CheckpointRow).where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.attempt_no == attempt_no,
            CheckpointRow.step == record.step,
        )
    )
    is_new = row is None or row.state == local.LOCAL
    if row is None:
        if attempt_no != allocation.attempt_no:
            return
        row = CheckpointRow(
            trial_id=trial.id, attempt_no=attempt_no, step=record.step, created_at=now
        )
        session.add(row)
    elif record.is_local and row.state in ("complete", "deleting"):
        return  # What the storage has of this step stays known until it has the new files.
    elif attempt_no != allocation.attempt_no and row.state != local.LOCAL:
        return
    if record.is_local:
        row.state = local.LOCAL
    elif is_new:
        row.state = "complete"
    row.epoch = record.epoch
    row.path = record.path
    row.node_name = allocation.node_name
    row.storage_id = storage_id or ""
    row.size_bytes = record.size_bytes
    row.files = dict(record.files)
    row.metrics = dict(record.metrics)
    session.flush()
    if record.is_local:
        return
    if is_new:
        cleaning.saved_again(session, trial, row)
        local.stored(session, row)
    newest = session.get(CheckpointRow, trial.latest_checkpoint_id or 0)
    is_newest = newest is None or record.step >= newest.step
    if is_newest and not trial.is_abandoned(attempt_no=row.attempt_no, step=row.step):
        trial.latest_checkpoint_id = row.id


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
        raise _unknown(allocation_id)
    if allocation.observed in (AllocationState.LOST, AllocationState.CLEANED):
        return offset + len(data)
    return storage.append(
        session,
        allocation=allocation,
        local_rank=local_rank,
        stream=stream,
        offset=offset,
        data=data,
        now=now,
    )
