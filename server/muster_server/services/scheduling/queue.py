"""The queue as people see it, and where a trial of a document would stand in it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import ExperimentRow, ProjectRow, TrialRow, UserRow
from muster_server.domain.messages import AnyMessage, Message, Rendered, from_columns
from muster_server.domain.scheduling import (
    Decided,
    NodeShare,
    Placement,
    Preempt,
    QueuedTrial,
    Resize,
    Wait,
    WaitingTrial,
)
from muster_server.domain.scheduling.unsatisfiable import is_impossible
from muster_server.domain.states import TrialState
from muster_server.schemas.base import parts_out
from muster_server.schemas.cluster import QueueItem
from muster_server.schemas.experiments import PlannedNode

from ..core.periods import load_reservations, numbers_for
from ..documents import planned_command
from .placement_preview import Foresight
from .rows import Wish

PLANNED_TRIAL_ID = -1
"""ID of a planned trial that does not exist yet. No row has a negative ID."""


def list_queue(
    session: Session,
    foresight: Foresight,
    *,
    now: dt.datetime,
    cursor: int,
    limit: int,
    project: str | None = None,
) -> tuple[list[QueueItem], int | None]:
    """Waiting trials in the scheduler's order (from `cursor`, 0 is the first), and where the next
    page starts: the scheduler's own decisions on what is true now, so that what is shown is what
    will happen. Then come trials whose project has used up its budget or whose experiment starts
    after others, and last those that wait to restart, soonest first. `project` leaves out those of others, and changes neither position nor
    estimate.
    """
    others = [*session.scalars(_NOT_YET), *session.scalars(_RESTARTING)]
    mine = None if project is None else set(session.scalars(_waiting_of(project)))
    with foresight.ask(now) as foreseen:
        order = chain(_order(foreseen.decided), ((trial_id, None) for trial_id in others))
        chosen = (each for each in order if mine is None or each[0] in mine)
        window = list(islice(chosen, cursor, cursor + limit + 1))
        decisions = {trial_id: _told(what) for trial_id, what in window[:limit]}
    items = _items(session, list(decisions), decisions)
    return items, cursor + limit if len(window) > limit else None


def _order(decided: Decided) -> Iterator[tuple[int, Placement | WaitingTrial | None]]:
    """Yield the trials with a decision: first those that start."""
    for action in decided.actions:
        if isinstance(action, Placement):
            yield action.trial_id, action
    for waiting in decided.waiting():
        yield waiting.trial_id, waiting


def _told(what: Placement | WaitingTrial | None) -> Placement | Wait | None:
    return what.tell() if isinstance(what, WaitingTrial) else what


_NOT_YET = (
    select(TrialRow.id)
    .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
    .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
    .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
    .where(
        TrialRow.state == TrialState.QUEUED,
        TrialRow.is_external.is_(False),
        ExperimentRow.desired == "run",
        or_(
            ProjectRow.exhausted_reason != "",
            ExperimentRow.waits_for.is_not(None),
            UserRow.may_act.is_(False),
        ),
    )
    .order_by(TrialRow.id)
)
_RESTARTING = (
    select(TrialRow.id)
    .where(TrialRow.state == TrialState.RETRY_WAIT)
    .order_by(TrialRow.not_before, TrialRow.id)
)


def _waiting_of(project: str) -> Select[int]:
    return (
        select(TrialRow.id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .where(
            TrialRow.state.in_((TrialState.QUEUED, TrialState.RETRY_WAIT)),
            ProjectRow.name == project,
        )
    )


def queue_item(
    session: Session, foresight: Foresight, trial_id: int, *, now: dt.datetime
) -> QueueItem | None:
    """Return one waiting trial as `list_queue` shows it; None when it does not wait."""
    with foresight.ask(now) as foreseen:
        decision = _decision(foreseen.decided, trial_id)
    items = _items(session, [trial_id], {trial_id: decision})
    return items[0] if items else None


def _decision(decided: Decided, trial_id: int) -> Placement | Wait | None:
    return next((_told(what) for found, what in _order(decided) if found == trial_id), None)


def _items(
    session: Session, trial_ids: list[int], decisions: Mapping[int, Placement | Wait | None]
) -> list[QueueItem]:
    rows = session.execute(
        select(TrialRow, ExperimentRow, UserRow.username, ProjectRow.name)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .outerjoin(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(
            TrialRow.id.in_(trial_ids),
            TrialRow.state.in_((TrialState.QUEUED, TrialState.RETRY_WAIT)),
        )
    )
    items = {
        trial.id: _item(trial, experiment, owner, project, decisions.get(trial.id))
        for trial, experiment, owner, project in rows
    }
    return [items[i] for i in trial_ids if i in items]


def _item(
    trial: TrialRow,
    experiment: ExperimentRow,
    owner: str | None,
    project: str,
    decision: Placement | Wait | None,
) -> QueueItem:
    wish = Wish.of(experiment.config)
    position, estimate, reason = None, None, _restart_reason(trial)
    if isinstance(decision, Wait):
        position, estimate = decision.position, decision.estimated_start_at
        reason = _provider_reason(trial) or decision.reason
    elif isinstance(decision, Placement):
        reason = Message("placed.next", placement=decision.reason)
    return QueueItem(
        position=position,
        trial_id=trial.id,
        trial_no=trial.no,
        experiment_id=experiment.id,
        experiment_name=experiment.name,
        project=project,
        owner=owner,
        priority=experiment.priority,
        preemptible=wish.preemptible,
        num_slots=wish.request.slots,
        min_slots=wish.request.least_slots,
        slot_type=wish.request.slot_type,
        pool=wish.request.pool,
        state=trial.state,
        queued_at=trial.queued_at,
        waiting_since=trial.waiting_since,
        estimated_start_at=estimate,
        pending_reason=reason.english,
        pending_parts=parts_out(reason),
        is_impossible=is_impossible(reason.parts),
    )


def _provider_reason(trial: TrialRow) -> AnyMessage | None:
    """Return what the controller has noted of the provider of a trial's pool, which only it knows; None if
    the trial waits for something else."""
    if not any(str(part["code"]).startswith("pilots.") for part in trial.pending_parts or ()):
        return None
    return from_columns(trial.pending_reason, trial.pending_parts)


def _restart_reason(trial: TrialRow) -> AnyMessage:
    if trial.state == TrialState.RETRY_WAIT and trial.not_before is not None:
        at = f"{trial.not_before.astimezone(dt.UTC):%H:%M:%S} UTC"
        reason = Message("pending.restarts", at=at, reason=trial.reason)
        return Message("all.advised", reason=reason, advice=Message("help.restarts"))
    # QUEUED, and not for the scheduler to decide on: the budget of its project is used up, or its
    # experiment starts after others.
    return from_columns(trial.pending_reason, trial.pending_parts) or Rendered(trial.reason)


# ---------------------------------------------------------------- the plan of a preview


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planned:
    """What the scheduler would do with one trial of a document, were it submitted now."""

    nodes: tuple[PlannedNode, ...] = ()
    """Empty when it would wait."""
    reason: Message
    position: int | None = None
    estimated_start_at: dt.datetime | None = None
    preempts: tuple[int, ...] = ()
    """Running trials that would be asked to make room for it, by preemption or by shrinking."""


def plan_one(
    session: Session,
    config: ExperimentConfig,
    foresight: Foresight,
    *,
    supplies_of: Callable[[Sequence[QueuedTrial]], Mapping[int, Message]],
    user_id: int | None,
    now: dt.datetime,
) -> Planned:
    """Return the scheduler's decision on a trial that does not exist, behind everything that
    waits.

    supplies_of: returns what providers of pools do for trials that wait, by trial.
    """
    project_id = session.scalar(select(ProjectRow.id).where(ProjectRow.name == config.project))
    numbers = numbers_for(
        load_reservations(session, now=now), user_id=user_id, project_id=project_id
    )
    trial = QueuedTrial(
        trial_id=PLANNED_TRIAL_ID,
        trial_no=1,
        experiment_id=PLANNED_TRIAL_ID,
        project_id=project_id if project_id is not None else PLANNED_TRIAL_ID,
        priority=config.resources.priority,
        queued_at=now,
        request=Wish.of(config, reservations=numbers).request,
    )
    with foresight.ask(now) as (snapshot, without):
        starting = {a.trial_id for a in without.actions if isinstance(a, Placement)}
        waiting = [t for t in snapshot.queue if t.trial_id not in starting]
        supplies = supplies_of([*(t for t in waiting if t.group == trial.group), trial])
        changed = dataclasses.replace(snapshot, queue=(*snapshot.queue, trial), supplies=supplies)
        decided = foresight.ask_about(changed, now)
        decision = _decision(decided, PLANNED_TRIAL_ID)
    if isinstance(decision, Placement):
        return Planned(nodes=_planned_nodes(config, decision.shares), reason=decision.reason)
    assert decision is not None, "the scheduler decides on every trial"
    return Planned(
        reason=decision.reason,
        position=decision.position,
        estimated_start_at=decision.estimated_start_at,
        preempts=tuple(sorted(_asked(decided) - _asked(without))),
    )


def _asked(decided: Decided) -> set[int]:
    return {d.trial_id for d in decided.actions if isinstance(d, Preempt | Resize)}


def _planned_nodes(
    config: ExperimentConfig, shares: tuple[NodeShare, ...]
) -> tuple[PlannedNode, ...]:
    return tuple(
        PlannedNode(
            node_name=share.node_name,
            num_slots=len(share.slots),
            command=planned_command(
                config,
                num_nodes=len(shares),
                node_rank=share.node_rank,
                num_local=len(share.slots),
                role=share.member.role if share.member else "",
            ),
        )
        for share in shares
    )
