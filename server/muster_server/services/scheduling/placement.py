"""Make the scheduler's decisions real, each in one transaction, or not at all: a gang gets all its
slots, an attempt is asked for its own."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from sqlalchemy import (
    BindParameter,
    Boolean,
    Table,
    bindparam,
    case,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session

from muster.wire import LocalCheckpoint, WorkSource
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ClusterIdentityRow,
    ExperimentRow,
    NodeReservationRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
)
from muster_server.db.raw import columns_of
from muster_server.domain.messages import shortened, to_columns
from muster_server.domain.scheduling import NodeShare, Placement, Preempt, Resize, Wait
from muster_server.domain.states import (
    AllocationState,
    AttemptState,
    NodeState,
    TrialState,
    YieldKind,
)

from ..checkpoints import local
from ..checkpoints.lookup import OBJECT_STORE, StartCheckpoint, start_of
from ..core.assignments import bump_assignments
from ..core.events import add_event
from ..core.periods import load_reservations, load_schedule
from ..core.writes import Outdated
from ..outputs.sources import work_sources
from ..quota.spending import price_of
from .allocations import CodeFacts, PlacedExperiment, PlacedTrial, build_member, build_spec
from .preemption import ask_to_yield

MAX_REASONS_PER_PASS = 1000
"""Pending reasons rewritten in one pass; the front of the queue comes first."""


# Statements are written down once: putting them together takes longer than carrying them out.

_trials, _experiments = cast(Table, TrialRow.__table__), cast(Table, ExperimentRow.__table__)
_nodes, _slots = cast(Table, NodeRow.__table__), cast(Table, NodeSlotRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_START = (
    update(_trials)
    .where(
        _trials.c.id == bindparam("trial_id"),
        _trials.c.state == TrialState.QUEUED,
        _trials.c.desired == "run",
        # Nobody has paused or stopped its experiment meanwhile.
        select(_experiments.c.id)
        .where(
            _experiments.c.id == _trials.c.experiment_id,
            _experiments.c.desired == "run",
            _experiments.c.exhausted_reason == "",
            _experiments.c.waits_for.is_(None),
        )
        .exists(),
    )
    .values(
        state=TrialState.STARTING,
        attempt_no=_trials.c.attempt_no + 1,
        not_before=None,
        pending_reason="",
        estimated_start_at=None,
        promised_since=None,
        reason=bindparam("new_reason"),
    )
)
_NOTE = (
    update(_trials)
    .where(_trials.c.id == bindparam("trial_id"), _trials.c.state == TrialState.QUEUED)
    .values(
        pending_reason=bindparam("new_reason"),
        pending_parts=bindparam("new_parts", type_=_trials.c.pending_parts.type),
        estimated_start_at=bindparam("new_estimate", type_=_trials.c.estimated_start_at.type),
        promised_since=case(
            (
                bindparam("is_promised", type_=Boolean),
                func.coalesce(
                    _trials.c.promised_since,
                    bindparam("now", type_=_trials.c.promised_since.type),
                ),
            )
        ),
    )
)
_TRIAL = select(*columns_of(_trials, PlacedTrial)).where(_trials.c.id == bindparam("trial_id"))
_EXPERIMENT = select(*columns_of(_experiments, PlacedExperiment)).where(
    _experiments.c.id == bindparam("experiment_id")
)
_CODE = select(
    _experiments.c.code_version["commit"].as_string(),
    _experiments.c.code_version["version"].as_string(),
).where(_experiments.c.id == bindparam("experiment_id"))
_ADD_ATTEMPT = insert(cast(Table, AttemptRow.__table__)).returning(AttemptRow.__table__.c.id)
_ADD_ALLOCATIONS = insert(cast(Table, AllocationRow.__table__))
_CLUSTER = select(ClusterIdentityRow.__table__.c.id)
_OPEN_NODES = (
    select(_nodes.c.id)
    .where(_nodes.c.id.in_(_IDS), _nodes.c.state == NodeState.ONLINE, _nodes.c.scheduling == "open")
    .order_by(_nodes.c.id)
    .with_for_update()
)
_TAKE = (
    update(_slots)
    .where(
        _slots.c.node_id == bindparam("slot_node_id"),
        _slots.c.idx == bindparam("slot_idx"),
        _slots.c.allocation_id.is_(None),
        _slots.c.is_gone.is_(False),
        _slots.c.problem == "",
    )
    .values(allocation_id=bindparam("new_allocation_id"), free_since=None)
)
_HELD = (
    select(_slots.c.allocation_id, func.count())
    .where(_slots.c.allocation_id.in_(_IDS))
    .group_by(_slots.c.allocation_id)
)


def place(
    session: Session, decision: Placement, *, controller_epoch: int, now: dt.datetime
) -> None:
    """Reserve the slots and create the attempt with its allocations, PREPARING.

    Raises Outdated, and then nothing must be committed, when the trial, a node or a slot is not
    any more as the decision assumed.
    """
    session.flush()
    connection = session.connection()
    placed = connection.execute(
        _START, {"trial_id": decision.trial_id, "new_reason": f"placed: {decision.reason.english}"}
    )
    if placed.rowcount != 1:
        raise Outdated(f"trial {decision.trial_id} is not queued any more")
    trial = PlacedTrial(*connection.execute(_TRIAL, {"trial_id": decision.trial_id}).one())
    experiment = PlacedExperiment(
        *connection.execute(_EXPERIMENT, {"experiment_id": trial.experiment_id}).one()
    )
    code = CodeFacts(*connection.execute(_CODE, {"experiment_id": trial.experiment_id}).one())
    start = planned = start_of(session, experiment, trial)
    here: list[LocalCheckpoint] = []
    if experiment.config.checkpoints.local:
        nodes = [share.node_name for share in decision.shares]
        planned, here = local.start_on(
            session,
            trial.id,
            start,
            nodes,
            is_exchanged=experiment.config.built_in_module is not None,
        )
    world_size = sum(len(share.slots) for share in decision.shares)
    attempt_id = connection.execute(
        _ADD_ATTEMPT,
        {
            **_attempt(trial, decision, planned, now),
            "world_size": world_size,
            "controller_epoch": controller_epoch,
        },
    ).scalar_one()
    cluster_id = connection.execute(_CLUSTER).scalar_one()
    # Of all members, but for what is `own`: taking it apart costs more than the rest of a member.
    common = msgspec.to_builtins(
        build_spec(
            experiment,
            trial,
            attempt_id=attempt_id,
            attempt_no=trial.attempt_no,
            allocation_id="",
            share=decision.shares[0],
            num_nodes=len(decision.shares),
            world_size=world_size,
            start=start,
            here=here,
            cluster_id=cluster_id,
            code=code,
            gang_key=secrets.token_hex(16) if len(decision.shares) > 1 else "",
        )
    )
    taken = {f"a{secrets.token_hex(10)}": share for share in decision.shares}
    of_attempt = {
        "attempt_id": attempt_id,
        "trial_id": trial.id,
        "attempt_no": trial.attempt_no,
        "desired": "prepare",
        "observed": AllocationState.ASSIGNED,
        "price_per_slot_hour": price_of(session, experiment.config.resources.pool),
        "created_at": now,
        "state_since": now,
    }
    sources = work_sources(
        session,
        trial.id,
        source_checkpoint_id=trial.source_checkpoint_id,
        num_members=len(decision.shares),
        is_of_roles=bool(experiment.config.roles),
        cluster_id=cluster_id,
    )
    members = [
        _member(
            allocation_id,
            share,
            common
            if share.member is None
            else {
                **common,
                **build_member(experiment.config, share.member, common, len(share.slots)),
            },
            msgspec.to_builtins(sources.get(share.node_rank, [])),
        )
        for allocation_id, share in taken.items()
    ]
    connection.execute(_ADD_ALLOCATIONS, [{**of_attempt, **member} for member in members])
    reserved = _reserved_for_others(session, experiment, decision.shares, now)
    _take(session, taken, now)
    add_event(
        session,
        now=now,
        type="trial.placed",
        message=_sentence(trial, decision, planned)
        + _of_work_folder(session, decision, sources)
        + reserved,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no,
    )
    about = (f"experiment:{trial.experiment_id}", f"trial:{trial.id}")
    touch(session, "cluster", "experiments", *about)


def _attempt(
    trial: PlacedTrial, decision: Placement, start: StartCheckpoint | None, now: dt.datetime
) -> dict[str, Any]:
    """Return the columns of a new attempt that follow from its trial and its placement."""
    return {
        "trial_id": trial.id,
        "no": trial.attempt_no,
        "state": AttemptState.PREPARING,  # PLANNED until this very commit, which reserves the slots
        "num_nodes": len({share.node_id for share in decision.shares}),
        "resume_checkpoint_id": start.checkpoint.id if start is not None else None,
        "resume_step": start.step if start is not None else 0,
        "reason": f"placed: {decision.reason.english}",
        "root_log_tail": [],
        "created_at": now,
    }


def _member(
    allocation_id: str, share: NodeShare, common: Mapping[str, Any], work_from: list[Any]
) -> dict[str, Any]:
    """Return the columns of one allocation of a gang. common: what the specs of all members share."""
    own = {
        "node_rank": share.node_rank,
        "slots": list(share.slots),
        "rank_offset": share.rank_offset,
    }
    return {
        **own,
        "id": allocation_id,
        "node_id": share.node_id,
        "node_name": share.node_name,
        "role": share.member.role if share.member else "",
        "role_index": share.member.index if share.member else 0,
        "spec": {**common, **own, "allocation_id": allocation_id, "work_from": work_from},
    }


def preempt(session: Session, decision: Preempt, *, now: dt.datetime) -> None:
    """Ask a running attempt for its slots. Raises Outdated, and then nothing must be committed,
    when it is not as the decision assumed, or what needs them does not need them any more."""
    _require_reserved(session, decision.for_reservation)
    if decision.for_trial_id is not None:
        _require_waiting(session, decision.for_trial_id)
    ask_to_yield(
        session,
        _attempt_id(session, decision.trial_id, decision.attempt_no),
        kind=YieldKind.PREEMPT,
        reason=decision.reason.english,
        now=now,
    )


def _require_waiting(session: Session, trial_id: int) -> None:
    needed = session.scalar(
        select(TrialRow.id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            TrialRow.id == trial_id,
            TrialRow.state == TrialState.QUEUED,
            TrialRow.desired == "run",
            ExperimentRow.desired == "run",
        )
    )
    if needed is None:
        raise Outdated(f"trial {trial_id} does not wait for slots any more")


def _require_reserved(session: Session, number: int | None) -> None:
    is_open = NodeReservationRow.id == number, NodeReservationRow.ended_at.is_(None)
    if number is not None and session.scalar(select(exists().where(*is_open))) is not True:
        raise Outdated(f"reservation {number} was cancelled")


def resize(session: Session, decision: Resize, *, now: dt.datetime) -> None:
    """Ask a running elastic attempt to come back with another world size. Raises Outdated like
    `preempt`."""
    _require_reserved(session, decision.for_reservation)
    ask_to_yield(
        session,
        _attempt_id(session, decision.trial_id, decision.attempt_no),
        kind=YieldKind.RESIZE,
        reason=decision.reason.english,
        slots=decision.slots,
        now=now,
    )


def note_waits(session: Session, waits: Sequence[Wait], *, now: dt.datetime) -> None:
    """Store what trials wait for, until when, and since when slots are promised to them, of the
    first MAX_REASONS_PER_PASS given."""
    noted = waits[:MAX_REASONS_PER_PASS]
    if not noted:
        return
    session.flush()
    rows = []
    for wait in noted:
        reason, parts = to_columns(wait.reason)
        rows.append(
            {
                "trial_id": wait.trial_id,
                "new_reason": reason,
                "new_parts": parts,
                "new_estimate": wait.estimated_start_at,
                "is_promised": wait.is_promised,
                "now": now,
            }
        )
    session.connection().execute(_NOTE, rows)
    touch(session, "cluster", *(f"trial:{wait.trial_id}" for wait in noted))


def _attempt_id(session: Session, trial_id: int, attempt_no: int) -> int:
    """The fence: of this very attempt, wherever its trial is by now."""
    found = session.scalar(
        select(AttemptRow.id).where(AttemptRow.trial_id == trial_id, AttemptRow.no == attempt_no)
    )
    if found is None:
        raise Outdated(f"trial {trial_id} has no attempt {attempt_no} any more")
    return found


def _take(session: Session, shares: Mapping[str, NodeShare], now: dt.datetime) -> None:
    """Reserve the slots of every allocation, and let its node's agent hear of it."""
    nodes = sorted({share.node_id for share in shares.values()})
    connection = session.connection()
    # Rows of nodes are always locked in the order of their ids.
    found = connection.scalars(_OPEN_NODES, {"ids": nodes}).all()
    if len(found) != len(nodes):
        names = [s.node_name for s in shares.values() if s.node_id not in found]
        raise Outdated(f"not open any more: {', '.join(names)}")
    _refuse_in_maintenance(session, shares.values(), now)
    bump_assignments(session, nodes)
    connection.execute(
        _TAKE,
        [
            {"slot_node_id": share.node_id, "slot_idx": slot, "new_allocation_id": allocation_id}
            for allocation_id, share in shares.items()
            for slot in share.slots
        ],
    )
    # Counted and not believed: drivers say different things of many updates at once.
    held = connection.execute(_HELD, {"ids": list(shares)})
    num: dict[str, int] = dict(held.all())
    for allocation_id, share in shares.items():
        if num.get(allocation_id) != len(share.slots):
            raise Outdated(f"a slot of {share.node_name} is taken already")


def _refuse_in_maintenance(session: Session, shares: Iterable[NodeShare], now: dt.datetime) -> None:
    """Raise Outdated where a window has been opened since the snapshot was taken."""
    schedule = load_schedule(session, now=now)
    if not schedule.active:
        return
    nodes = select(NodeRow.name, NodeRow.pool).where(NodeRow.id.in_([s.node_id for s in shares]))
    for node in session.execute(nodes):
        if schedule.of_node(node=node.name, pool=node.pool).active is not None:
            raise Outdated(f"{node.name} is in maintenance")


def _reserved_for_others(
    session: Session, experiment: PlacedExperiment, shares: Iterable[NodeShare], now: dt.datetime
) -> str:
    """Return until when a gang has a node that is reserved for others later; "" if none is. Raises
    Outdated where a reservation has been made since the snapshot was taken."""
    names = {share.node_name for share in shares}
    reservations = [
        one
        for one in load_reservations(session, now=now)
        if names & {*one.nodes}
        and not one.is_for(user_id=experiment.owner_id, project_id=experiment.project_id)
    ]
    if not reservations:
        return ""
    first = reservations[0]
    taken = shortened(sorted(names & {*first.nodes}))
    if first.starts_at <= now:
        raise Outdated(f"reservation {first.id} has {taken}")
    return f" Reservation {first.id} takes {taken} from it: {first.label}."


def _sentence(trial: PlacedTrial, decision: Placement, start: StartCheckpoint | None) -> str:
    words = f"Attempt {trial.attempt_no} got {decision.reason.english}"
    if start is None:
        return f"{words}."
    checkpoint = start.checkpoint
    verb = "starts with the weights of" if start.weights_only else "continues from"
    words += f"; {verb} the checkpoint of step {checkpoint.step:,}"
    if checkpoint.state == local.LOCAL:
        disks = (
            "disks of its nodes" if len(decision.shares) > 1 else f"disk of {checkpoint.node_name}"
        )
        return f"{words} on the {disks}."
    if not start.is_own:
        words += f" of trial {start.trial}"
    if checkpoint.storage_id != OBJECT_STORE and checkpoint.node_name not in {
        share.node_name for share in decision.shares
    }:
        words += f", which {checkpoint.node_name} wrote: both must share their storage"
    return f"{words}."


def _of_work_folder(
    session: Session, decision: Placement, sources: Mapping[int, Sequence[WorkSource]]
) -> str:
    """Return what becomes of the files of earlier attempts where a node is not the one that has them;
    "" where every node has its own."""
    fork = next((found[0].source for found in sources.values() if found), "")
    if fork:
        return f" Its work folder begins with the files of {fork}."
    moved = [
        (share, found[0])
        for share in decision.shares
        if (found := sources.get(share.node_rank)) and found[0].node_id != share.node_id
    ]
    if not moved:
        return ""
    ids = {share.node_id for share, _ in moved} | {source.node_id for _, source in moved}
    nodes = {
        row.id: row
        for row in session.execute(
            select(NodeRow.id, NodeRow.name, NodeRow.storage_id).where(NodeRow.id.in_(ids))
        )
    }
    share, source = next(
        (
            (share, source)
            for share, source in moved
            if not source.storage_url and nodes[share.node_id].storage_id != source.storage_id
        ),
        moved[0],
    )
    wrote = nodes[source.node_id].name if source.node_id in nodes else "a node that was removed"
    if source.storage_url or nodes[share.node_id].storage_id == source.storage_id:
        return f" Its work folder is restored from the storage; {wrote} wrote it."
    return (
        f" Its work folder is in the storage of {wrote}, which {share.node_name} does not have: it "
        "starts without those files."
    )
