"""What the scheduler looks at, out of the tables: nodes, trials that run, trials that wait."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, case, func, or_, select
from sqlalchemy.orm import Session, aliased

from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    PilotRow,
    ProjectRow,
    TrialOutputsRow,
    TrialRow,
    UserRow,
)
from muster_server.db.raw import RawQuery, RawRow
from muster_server.domain.nodes.reservations import NodeReservation, on_nodes
from muster_server.domain.scheduling import (
    QueuedTrial,
    RunningTrial,
    SchedulerPolicy,
    SchedulerSnapshot,
)
from muster_server.domain.scheduling.resources import NodeView, Owner
from muster_server.domain.scheduling.spares import lost_member
from muster_server.domain.states import (
    TERMINAL_ATTEMPT,
    AllocationState,
    AttemptState,
    ExperimentState,
    NodeState,
    TrialState,
)
from muster_server.settings import Settings

from ..checkpoints.lookup import ADOPTED
from ..core.periods import load_reservations, load_schedule, numbers_for
from ..quota.projects import load_projects
from .rows import NODES, Wish, node_view, queued_trial, running_trial

OPEN_ATTEMPT = tuple(s.value for s in AttemptState if s.value not in TERMINAL_ATTEMPT)
FILES_WAIT_S = 120.0
"""Longest wait in seconds for the last files of an attempt: as a rule no more work than that is lost
without them (`outputs.every_s`)."""
RETURNING_S = 120.0
"""Longest time in seconds for which slots are reserved for a trial that lost a node before it waits for
them: it still stops, or waits to restart."""
IDS_PER_QUERY = 500
"""A list of thousands of ids is more than some databases take in a statement."""


def scheduler_policy(settings: Settings) -> SchedulerPolicy:
    """Return the rules by which the controller places trials, and by which others foresee it."""
    return SchedulerPolicy(
        preempt=settings.scheduler_preempt, grow_after_s=settings.scheduler_grow_after_s
    )


def load_scheduler_snapshot(session: Session, *, now: dt.datetime) -> SchedulerSnapshot:
    """Return the nodes with their slots, the trials that hold them, every trial that may be placed
    now, and whose they are."""
    return SnapshotLoader().load(session, now=now)


# ---------------------------------------------------------------- what is read

_SLOTS = (
    select(
        NodeSlotRow.node_id,
        NodeSlotRow.idx,
        NodeSlotRow.slot_type,
        NodeSlotRow.allocation_id,
        NodeSlotRow.free_since,
        NodeSlotRow.problem,
    )
    .where(NodeSlotRow.is_gone.is_(False))  # nobody gets them again, whoever holds them now
    .order_by(NodeSlotRow.node_id, NodeSlotRow.idx)
)  # fmt: skip


def load_nodes(session: Session) -> list[NodeView]:
    """Return every node with its slots, by name."""
    slots: dict[str, list[Any]] = defaultdict(list)
    for slot in session.connection().execute(_SLOTS):
        slots[slot.node_id].append(slot)
    return [node_view(node, slots[node.id]) for node in session.connection().execute(NODES)]


_MAY_RUN = and_(
    ExperimentRow.desired == "run",
    ExperimentRow.exhausted_reason == "",
    ExperimentRow.waits_for.is_(None),
    ExperimentRow.state.in_((ExperimentState.QUEUED, ExperimentState.RUNNING)),
)
_OPEN = (
    select(
        ExperimentRow.id,
        ExperimentRow.created_at,
        ExperimentRow.num_continued,
        ExperimentRow.project_id,
        ExperimentRow.priority,
        ExperimentRow.owner_id,
    )
    .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
    .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
    .where(_MAY_RUN, ProjectRow.exhausted_reason == "", UserRow.may_act.is_not(False))
)
"""Experiments whose trials may be placed: not those of a project whose budget is used up, nor of somebody whose
account is deactivated."""

_IS_QUEUED = and_(
    TrialRow.state == TrialState.QUEUED, TrialRow.desired == "run", TrialRow.is_external.is_(False)
)
_HAS_PAST = or_(
    TrialRow.attempt_no > 0,
    TrialRow.latest_checkpoint_id.is_not(None),
    TrialRow.source_checkpoint_id.is_not(None),
)
_WAITING = select(
    TrialRow.id,
    TrialRow.experiment_id,
    case((_HAS_PAST, 1), else_=0).label("has_past"),
    TrialRow.no,
    TrialRow.queued_at,
    TrialRow.queue_no,
    TrialRow.waiting_since,
    TrialRow.promised_since,
    TrialRow.avoided,
)
_QUEUED = _WAITING.where(_IS_QUEUED)

_lies = aliased(CheckpointRow)  # where its next attempt starts from, of its own or its source
_wrote = aliased(NodeRow)  # where its first node's work folder lies
_PAST = (
    select(
        TrialRow.id,
        TrialRow.num_steps_planned,
        TrialRow.epoch,
        TrialRow.step,
        TrialRow.progress_at,
        func.coalesce(NodeRow.hostname, _wrote.hostname).label("hostname"),
        CheckpointRow.step.label("checkpoint_step"),
        AttemptRow.state.label("attempt_state"),
        AttemptRow.yield_slots,
        AttemptRow.started_at,
        AttemptRow.resume_step,
    )
    .select_from(TrialRow)
    .outerjoin(
        AttemptRow, and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no)
    )
    .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
    .outerjoin(
        _lies,
        _lies.id == func.coalesce(TrialRow.latest_checkpoint_id, TrialRow.source_checkpoint_id),
    )
    .outerjoin(NodeRow, NodeRow.name == _lies.node_name)
    .outerjoin(
        TrialOutputsRow,
        and_(TrialOutputsRow.trial_id == TrialRow.id, TrialOutputsRow.node_rank == 0),
    )
    .outerjoin(_wrote, _wrote.id == TrialOutputsRow.node_id)
    .where(_IS_QUEUED, _HAS_PAST)
)

_FILES = (
    select(
        TrialRow.id,
        NodeRow.name,
        case(
            (and_(TrialOutputsRow.id.is_(None), NodeRow.state == NodeState.ONLINE), 1), else_=0
        ).label("is_awaited"),
    )
    .select_from(TrialRow)
    .join(
        AttemptRow, and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no)
    )
    .join(AllocationRow, AllocationRow.attempt_id == AttemptRow.id)
    .join(NodeRow, NodeRow.id == AllocationRow.node_id)
    .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
    .outerjoin(
        TrialOutputsRow,
        and_(
            TrialOutputsRow.trial_id == TrialRow.id,
            TrialOutputsRow.node_rank == AllocationRow.node_rank,
            TrialOutputsRow.attempt_no == TrialRow.attempt_no,
            TrialOutputsRow.is_final,
        ),
    )
    .where(
        _IS_QUEUED,
        AttemptRow.started_at.is_not(None),
        AttemptRow.ended_at > bindparam("since", type_=AttemptRow.ended_at.type),
        # What goes on from a checkpoint of Muster's needs no file that a script wrote.
        or_(CheckpointRow.id.is_(None), CheckpointRow.kind == ADOPTED),
    )
    .order_by(TrialRow.id, AllocationRow.node_rank)
)
"""Nodes of the last attempt of trials that go on from their files, and whether those of each are
awaited."""

_HAS_FAILED = AttemptRow.state.in_((AttemptState.FAILED, AttemptState.LOST))
_RETURNING = _WAITING.join(
    AttemptRow, and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no)
).where(
    TrialRow.desired == "run",
    TrialRow.state.in_((TrialState.STARTING, TrialState.RUNNING, TrialState.RETRY_WAIT)),
    _HAS_FAILED,
)
"""Trials that may be queued soon, after their last attempt failed."""
_FAILED = (
    select(
        TrialRow.id,
        AttemptRow.world_size,
        AttemptRow.termination,
        AllocationRow.slots,
        TrialRow.experiment_id,
        NodeRow.state,
        NodeRow.health,
        NodeRow.problems,
    )
    .select_from(TrialRow)
    .join(
        AttemptRow, and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no)
    )
    .join(AllocationRow, AllocationRow.attempt_id == AttemptRow.id)
    .outerjoin(NodeRow, NodeRow.id == AllocationRow.node_id)
    .where(
        TrialRow.desired == "run",
        TrialRow.state.in_(
            (TrialState.STARTING, TrialState.RUNNING, TrialState.RETRY_WAIT, TrialState.QUEUED)
        ),
        _HAS_FAILED,
    )
    .order_by(TrialRow.id)
)
"""Nodes of the last attempt of trials that may go on after it failed."""

_OWNERS = (
    select(PilotRow.trial_id, PilotRow.attempt_no)
    .join(TrialRow, TrialRow.id == PilotRow.trial_id)
    .join(NodeRow, NodeRow.name == PilotRow.id)
    .where(PilotRow.attempt_no == TrialRow.attempt_no + 1)
)
"""Attempts to come that nodes belong to, in exclusive pools."""
_RUNNING = (
    select(
        AttemptRow.id,
        ExperimentRow.id.label("experiment_id"),
        ExperimentRow.created_at.label("experiment_created_at"),
        ExperimentRow.num_continued,
        ExperimentRow.project_id,
        ExperimentRow.priority,
        AttemptRow.no,
        AttemptRow.state,
        AttemptRow.created_at,
        AttemptRow.started_at,
        AttemptRow.ended_at,
        AttemptRow.resume_step,
        AttemptRow.yield_at,
        TrialRow.id.label("trial_id"),
        TrialRow.no.label("trial_no"),
        TrialRow.state.label("trial_state"),
        TrialRow.queue_no,
        TrialRow.step,
        TrialRow.epoch,
        TrialRow.num_steps_planned,
        TrialRow.progress_at,
        CheckpointRow.created_at.label("checkpoint_at"),
        ExperimentRow.owner_id,
    )
    .select_from(AttemptRow)
    .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
    .outerjoin(CheckpointRow, CheckpointRow.id == TrialRow.latest_checkpoint_id)
    .where(
        or_(
            AttemptRow.state.in_(OPEN_ATTEMPT),
            AttemptRow.id.in_(
                select(AllocationRow.attempt_id).where(
                    AllocationRow.observed != AllocationState.CLEANED
                )
            ),
        )
    )
)
"""Attempts that may hold slots."""
_HOLDERS = select(AllocationRow.id, AllocationRow.attempt_id).where(
    AllocationRow.id.in_(select(NodeSlotRow.allocation_id))
)


class _Node(NamedTuple):
    row: RawRow
    slots: list[RawRow]
    held: Mapping[str, int]
    """Allocation → slots."""
    view: NodeView


class _Queued(NamedTuple):
    row: RawRow
    experiment: RawRow
    past: RawRow | None
    until: dt.datetime
    trial: QueuedTrial


class _Running(NamedTuple):
    row: RawRow
    until: dt.datetime
    trial: RunningTrial


_Version = tuple[RawRow, tuple[int, ...]]


class _KnownRows(NamedTuple):
    """A document, by what tells it from an earlier one of the experiment, or of another, and the
    reservations that are for it."""

    version: _Version
    wish: Wish


class SnapshotLoader:
    """`load_scheduler_snapshot` with a memory: what is as it was is the same object as last time.

    All rows are read each time and compared with those of the last time, which needs nothing of
    those who write them. Not thread-safe.
    """

    def __init__(self) -> None:
        self._slots_query, self._nodes_query = RawQuery(_SLOTS), RawQuery(NODES)
        self._open_query, self._queued_query = RawQuery(_OPEN), RawQuery(_QUEUED)
        self._past_query, self._running_query = RawQuery(_PAST), RawQuery(_RUNNING)
        self._holders_query, self._owners_query = RawQuery(_HOLDERS), RawQuery(_OWNERS)
        self._files_query = RawQuery(_FILES)
        self._nodes: dict[str, _Node] = {}
        self._queued: dict[int, _Queued] = {}
        self._running: dict[int, _Running] = {}
        self._wishes: dict[int, _KnownRows] = {}
        self._loaded_at: dt.datetime | None = None

    def load(self, session: Session, *, now: dt.datetime) -> SchedulerSnapshot:
        """Return a snapshot of the current state. The cached rows stay consistent even if a load
        fails midway."""
        # Experiments first: where a statement sees what was committed meanwhile, a trial without
        # its experiment is left to the next pass.
        opened = {row[0]: row for row in self._open_query.fetch(session)}
        reservations = load_reservations(session, now=now)
        self._load_nodes(session, reservations, now)
        has_spares = any(node.view.pool_spares for node in self._nodes.values())
        returning = self._fetch_returning(session, now) if has_spares else []
        queued = [row for row in self._queued_query.fetch(session) + returning if row[1] in opened]
        running = self._running_query.fetch(session)

        def version(facts: RawRow, project_id: int, owner_id: int | None) -> _Version:
            return facts, numbers_for(reservations, user_id=owner_id, project_id=project_id)

        versions = {row[1]: version(row[1:4], row[4], row[-1]) for row in running}
        for experiment_id in {row[1] for row in queued}:
            experiment = opened[experiment_id]
            versions[experiment_id] = version(experiment[:3], experiment[3], experiment[5])
        self._load_wishes(session, versions)
        lost = self._load_lost(session) if has_spares else {}
        self._load_queued(session, queued, opened, now, lost, {row[0] for row in returning})
        self._load_running(session, running, now)
        self._loaded_at = now
        return SchedulerSnapshot(
            nodes=tuple(node.view for node in self._nodes.values()),
            queue=tuple(known.trial for known in self._queued.values()),
            running=tuple(known.trial for known in self._running.values()),
            projects=load_projects(session),
        )

    def _load_wishes(self, session: Session, versions: Mapping[int, _Version]) -> None:
        known = {
            experiment_id: self._wishes[experiment_id]
            for experiment_id, version in versions.items()
            if experiment_id in self._wishes and self._wishes[experiment_id].version == version
        }
        missing = [experiment_id for experiment_id in versions if experiment_id not in known]
        for first in range(0, len(missing), IDS_PER_QUERY):
            ids = missing[first : first + IDS_PER_QUERY]
            for experiment_id, config in session.execute(
                select(ExperimentRow.id, ExperimentRow.config).where(ExperimentRow.id.in_(ids))
            ):
                version = versions[experiment_id]
                wish = Wish.of(config, reservations=version[1])
                known[experiment_id] = _KnownRows(version, wish)
        self._wishes = known

    def _load_nodes(
        self, session: Session, reservations: Sequence[NodeReservation], now: dt.datetime
    ) -> None:
        schedule = load_schedule(session, now=now)
        reserved = on_nodes(reservations)
        slots: dict[str, list[RawRow]] = defaultdict(list)
        for slot in self._slots_query.fetch(session):
            slots[slot[0]].append(slot)
        known, self._nodes = self._nodes, {}
        for row in self._nodes_query.fetch(session):
            node_id = row[0]
            node = known.get(node_id)
            maintenance = schedule.of_node(node=row[1], pool=row[2])
            if (
                node is None
                or node.row != row
                or node.slots != slots[node_id]
                or node.view.maintenance != maintenance
                or node.view.reservations != reserved.get(row[1], ())
            ):
                view = node_view(
                    self._nodes_query.convert(row),
                    [self._slots_query.convert(slot) for slot in slots[node_id]],
                    maintenance,
                    reserved.get(row[1], ()),
                )
                held = Counter(slot[3] for slot in slots[node_id] if slot[3] is not None)
                node = _Node(row, slots[node_id], held, view)
            self._nodes[node_id] = node

    def _load_queued(
        self,
        session: Session,
        rows: Sequence[RawRow],
        opened: Mapping[int, RawRow],
        now: dt.datetime,
        lost: Mapping[int, int],
        returning: Set[int],
    ) -> None:
        pasts: dict[int, RawRow] = {}
        files: dict[int, tuple[str, ...]] = {}
        if any(row[2] for row in rows):
            pasts = {row[0]: row for row in self._past_query.fetch(session)}
            files = self._load_files(session, now)
        owners: dict[int, Owner] = {
            row[0]: (row[0], row[1]) for row in self._owners_query.fetch(session)
        }
        experiments: dict[int, Any] = {}
        old, self._queued = self._queued, {}
        for row in rows:
            trial_id, experiment_id, has_past = row[:3]
            experiment, past = opened[experiment_id], pasts.get(trial_id)
            is_returning = trial_id in returning
            if is_returning and trial_id not in lost:
                continue
            is_away = has_past and past is None and not is_returning
            if is_away or experiment_id not in self._wishes:
                continue  # it has just left the queue, or was deleted
            known = old.get(trial_id)
            wish = self._wishes[experiment_id].wish
            files_on = files.get(trial_id, ()) if wish.keeps_files else ()
            if (
                known is None
                or known.row != row
                or known.experiment != experiment
                or known.past != past
                or known.trial.request.owner != owners.get(trial_id)
                or known.trial.request.reservations != wish.request.reservations
                or known.trial.files_on != files_on
                or known.trial.lost_slots != lost.get(trial_id)
                or known.trial.is_returning != is_returning
                or now >= known.until
            ):
                if experiment_id not in experiments:
                    experiments[experiment_id] = self._open_query.convert(experiment)
                trial, until = queued_trial(
                    self._queued_query.convert(row),
                    experiments[experiment_id],
                    None if past is None else self._past_query.convert(past),
                    wish,
                    now,
                    owners.get(trial_id),
                    files_on,
                    lost.get(trial_id),
                    is_returning,
                )
                known = _Queued(row, experiment, past, until, trial)
            self._queued[trial_id] = known

    def _load_files(self, session: Session, now: dt.datetime) -> dict[int, tuple[str, ...]]:
        """Trial → nodes of its last attempt by rank, where the last files of one are awaited."""
        since = now - dt.timedelta(seconds=FILES_WAIT_S)
        nodes: dict[int, list[str]] = defaultdict(list)
        awaited: set[int] = set()
        for trial_id, name, is_awaited in self._files_query.fetch(session, since=since):
            nodes[trial_id].append(name)
            if is_awaited:
                awaited.add(trial_id)
        return {trial_id: tuple(nodes[trial_id]) for trial_id in awaited}

    def _fetch_returning(self, session: Session, now: dt.datetime) -> list[RawRow]:
        until = now + dt.timedelta(seconds=RETURNING_S)
        at = TrialRow.not_before
        return self._queued_query.fetch(session, _RETURNING.where(or_(at.is_(None), at <= until)))

    def _load_lost(self, session: Session) -> dict[int, int]:
        """Trial → slots of its last attempt, of those that lost a node of a pool with spares."""
        pools = {node.view.pool for node in self._nodes.values() if node.view.pool_spares}
        rows = session.execute(_FAILED).mappings()
        attempts = groupby(rows, key=itemgetter("id", "experiment_id", "world_size", "termination"))
        return {
            trial_id: world_size
            for (trial_id, experiment_id, world_size, termination), members in attempts
            if experiment_id in self._wishes
            and self._wishes[experiment_id].wish.request.pool in pools
            and lost_member(
                termination, [({**row} if row["state"] else None, row["slots"]) for row in members]
            )
        }

    def _load_running(self, session: Session, rows: Iterable[RawRow], now: dt.datetime) -> None:
        attempt_of: dict[str, int] = dict(self._holders_query.fetch(session))
        shares: dict[int, dict[str, int]] = defaultdict(dict)
        for node_id, node in self._nodes.items():
            for allocation_id, num in node.held.items():
                if (attempt_id := attempt_of.get(allocation_id)) is not None:
                    on_node = shares[attempt_id]
                    on_node[node_id] = on_node.get(node_id, 0) + num
        is_later = self._loaded_at is not None and now >= self._loaded_at
        old, self._running = self._running, {}
        for row in rows:
            attempt_id, experiment_id = row[:2]
            if attempt_id not in shares or experiment_id not in self._wishes:
                continue
            known = old.get(attempt_id)
            wish = self._wishes[experiment_id].wish
            if known is not None and (
                known.row != row
                or known.trial.shares != shares[attempt_id]
                or known.trial.request.reservations != wish.request.reservations
            ):
                known = None
            if known is None or not (is_later and now < known.until):
                trial, until = running_trial(
                    self._running_query.convert(row),
                    wish,
                    shares[attempt_id],
                    now,
                )
                if known is not None and known.trial.expected_end_at == trial.expected_end_at:
                    trial = known.trial
                known = _Running(row, until, trial)
            self._running[attempt_id] = known
