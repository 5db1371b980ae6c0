"""Budgets between the tables and domain.quota.budgets, and as REST shows them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update
from sqlalchemy.orm import Session

from muster.document.running import BudgetSection
from muster_server.db.engine import touch
from muster_server.db.models import (
    BudgetAlertRow,
    ExperimentRow,
    ProjectRow,
    TrialRow,
)
from muster_server.db.queries.metrics import chunked, insert_or_ignore
from muster_server.domain.durations import EXAMPLES, InvalidMoment, is_relative, parse_deadline
from muster_server.domain.messages import AnyMessage, Message, Rendered, from_columns, to_columns
from muster_server.domain.quota.budgets import (
    EXHAUSTED,
    Alert,
    AlertKey,
    BudgetLimits,
    BudgetSnapshot,
    BudgetUsage,
    Decision,
    EndExperiment,
    ExperimentBudget,
    ProjectBudget,
    SetProject,
    Spending,
    TellWaiting,
    assess,
    exhausted_reason,
    waiting_reason,
)
from muster_server.domain.search import Searcher
from muster_server.domain.states import TERMINAL_EXPERIMENT, TrialState
from muster_server.errors import FieldProblem
from muster_server.schemas.base import parts_out
from muster_server.schemas.budgets import BudgetLimitOut, BudgetOut, SpendingOut
from muster_server.settings import get_settings

from ..core.events import add_event
from ..core.writes import Outdated, changed, require_one
from . import spending

ACTIVE = (TrialState.STARTING, TrialState.RUNNING, TrialState.STOPPING)
TOLD_AT_ONCE = 1000
"""Trials whose pending reason is written in one decision; the next ones come with the next pass."""

# ---------------------------------------------------------------- as it is stored


def store(
    section: BudgetSection | None, *, now: dt.datetime, moments_only: bool = False
) -> tuple[dict[str, Any] | None, FieldProblem | None]:
    """Return a document's budget as it is kept, with its deadline as a moment; or what is wrong
    with it.

    A length of time counts from `now`. moments_only: refuse it. A budget without a limit is none.
    """
    if section is None:
        return None, None
    limits = {"slot_hours": section.slot_hours, "cost": section.cost}
    deadline, deadline_at = section.deadline, None
    if deadline is not None:
        if moments_only and is_relative(deadline):
            return None, FieldProblem(
                "budget.deadline",
                "is a length of time, and a project has no beginning it could count from",
                "write a moment with its time zone such as 2026-03-01T18:00Z",
            )
        try:
            deadline_at = parse_deadline(deadline, now)
        except InvalidMoment as error:
            return None, FieldProblem("budget.deadline", error.problem, EXAMPLES)
        if deadline_at <= now:
            return None, FieldProblem("budget.deadline", Message("field.past"), EXAMPLES)
    if deadline_at is None and not any(limits.values()):
        return None, None
    return {
        **limits,
        "deadline": deadline,
        "deadline_at": deadline_at.isoformat() if deadline_at is not None else None,
        "alert_at": sorted(set(section.alert_at)),
    }, None


def read(stored: Mapping[str, Any] | None) -> BudgetLimits | None:
    """Return the budget that `store` wrote; None without one."""
    if stored is None:
        return None
    at = stored.get("deadline_at")
    return BudgetLimits(
        slot_hours=stored.get("slot_hours"),
        cost=stored.get("cost"),
        deadline_at=dt.datetime.fromisoformat(at) if at is not None else None,
        alert_at=tuple(stored.get("alert_at") or ()),
    )


# ---------------------------------------------------------------- as REST shows it


def spending_out(spent: Spending) -> SpendingOut:
    return SpendingOut(
        slot_hours=spent.slot_hours,
        cost=spent.cost,
        currency=get_settings().currency,
        slots_held=spent.slots,
        cost_per_hour=spent.cost_per_hour,
    )


def budget_out(
    session: Session,
    subject: str,
    stored: Mapping[str, Any] | None,
    spent: Spending,
    *,
    since: dt.datetime,
    exhausted: AnyMessage | None,
    now: dt.datetime,
) -> BudgetOut | None:
    """Return every limit with what is gone of it. subject: "experiment:12" or "project:3"."""
    budget = read(stored)
    if budget is None:
        return None
    given = _alerts_given(session, [subject])[subject]
    return BudgetOut(
        limits=[
            BudgetLimitOut.from_row(
                usage,
                alerts_given=sorted(
                    t for m, limit, t in given if (m, limit) == (usage.measure, usage.limit_text)
                ),
                exhausted=usage.is_exhausted,
            )
            for usage in _assess(budget, spent, since, now)
        ],
        alert_at=list(budget.alert_at),
        exhausted_reason=exhausted.english if exhausted is not None else "",
        exhausted_parts=parts_out(exhausted),
    )


def exhausted(
    stored: Mapping[str, Any] | None, spent: Spending, *, since: dt.datetime, now: dt.datetime
) -> Message | None:
    """Return why nothing more may be spent, as a sentence about "its budget"; None while some is
    left."""
    budget = read(stored)
    return exhausted_reason(_assess(budget, spent, since, now)) if budget else None


def _assess(
    budget: BudgetLimits, spent: Spending, since: dt.datetime, now: dt.datetime
) -> tuple[BudgetUsage, ...]:
    return assess(budget, spent, since=since, now=now, currency=get_settings().currency)


# ---------------------------------------------------------------- the loop's two ends


_HAS_BUDGET = or_(ProjectRow.budget.is_not(None), ProjectRow.exhausted_reason != "")
_GOES_ON = and_(
    ExperimentRow.state.not_in(TERMINAL_EXPERIMENT), ExperimentRow.deleting_at.is_(None)
)
ANY_BUDGET = or_(
    exists().where(_HAS_BUDGET), exists().where(_GOES_ON, ExperimentRow.budget.is_not(None))
)
"""Whether there is a budget that may run out, or that has."""


def load_budget_snapshot(session: Session, *, now: dt.datetime) -> BudgetSnapshot:
    """Return everything budgets decide on: nothing at all where there are no budgets."""
    projects = session.scalars(select(ProjectRow).where(_HAS_BUDGET).order_by(ProjectRow.id)).all()
    of_them = ExperimentRow.project_id.in_(select(ProjectRow.id).where(_HAS_BUDGET))
    about = and_(
        _GOES_ON,
        or_(ExperimentRow.budget.is_not(None), of_them) if projects else
        ExperimentRow.budget.is_not(None),
    )  # fmt: skip
    return BudgetSnapshot(
        projects=tuple(_load_projects(session, projects, _HAS_BUDGET, now)),
        experiments=tuple(_load_experiments(session, about, now)),
        currency=get_settings().currency,
    )


def _load_projects(
    session: Session,
    projects: Iterable[ProjectRow],
    about: ColumnElement[bool],
    now: dt.datetime,
) -> list[ProjectBudget]:
    rows = list(projects)
    if not rows:
        return []
    spent = spending.of_projects(session, about, now)
    alerted = _alerts_given(session, [f"project:{row.id}" for row in rows])
    return [
        ProjectBudget(
            id=row.id,
            name=row.name,
            budget=read(row.budget),
            spent=spending.since(spent.get(row.id, Spending()), row.budget_base),
            since=row.budget_since or row.created_at,
            alerted=frozenset(alerted[f"project:{row.id}"]),
            exhausted_reason=from_columns(row.exhausted_reason, row.exhausted_parts),
            untold=_untold(session, row) if row.exhausted_reason else (),
        )
        for row in rows
    ]


def _untold(session: Session, project: ProjectRow) -> tuple[int, ...]:
    return tuple(
        session.scalars(
            select(TrialRow.id)
            .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
            .where(
                ExperimentRow.project_id == project.id,
                TrialRow.state == TrialState.QUEUED,
                TrialRow.pending_reason
                != waiting_reason(Rendered(project.exhausted_reason)).english,
            )
            .order_by(TrialRow.id)
            .limit(TOLD_AT_ONCE)
        )
    )


def _load_experiments(
    session: Session, about: ColumnElement[bool], now: dt.datetime
) -> list[ExperimentBudget]:
    rows = session.execute(
        select(
            ExperimentRow.id,
            ExperimentRow.project_id,
            ExperimentRow.state,
            ExperimentRow.desired,
            ExperimentRow.budget,
            ExperimentRow.exhausted_reason,
            ExperimentRow.exhausted_parts,
            ExperimentRow.created_at,
        )
        .where(about)
        .order_by(ExperimentRow.id)
    ).all()
    if not rows:
        return []
    active = dict(
        session.execute(
            select(TrialRow.experiment_id, func.count())
            .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
            .where(about, TrialRow.state.in_(ACTIVE))
            .group_by(TrialRow.experiment_id)
        ).all()
    )
    spent = spending.of_experiments(session, about, now)
    alerted = _alerts_given(
        session, [f"experiment:{row.id}" for row in rows if row.budget is not None]
    )
    return [
        ExperimentBudget(
            id=row.id,
            project_id=row.project_id,
            state=row.state,
            desired=row.desired,
            budget=read(row.budget),
            spent=spent.get(row.id, Spending()),
            since=row.created_at,
            alerted=frozenset(alerted.get(f"experiment:{row.id}", ())),
            num_active=active.get(row.id, 0),
            exhausted_reason=from_columns(row.exhausted_reason, row.exhausted_parts),
        )
        for row in rows
    ]


def _alerts_given(session: Session, subjects: Iterable[str]) -> dict[str, set[AlertKey]]:
    found: dict[str, set[AlertKey]] = defaultdict(set)
    for some in chunked(list(subjects)):
        for row in session.scalars(select(BudgetAlertRow).where(BudgetAlertRow.subject.in_(some))):
            found[row.subject].add((row.measure, row.limit, row.threshold))
    return found


def apply_decision(session: Session, decision: Decision, *, now: dt.datetime) -> None:
    """Write one decision. Raises Outdated when something else was faster."""
    match decision:
        case Alert():
            _give_alert(session, decision, now)
        case EndExperiment():
            _end_experiment(session, decision, now)
        case SetProject():
            _set_project(session, decision, now)
        case TellWaiting():
            reason, parts = to_columns(decision.reason)
            changed(
                session,
                update(TrialRow)
                .where(TrialRow.id.in_(decision.trial_ids), TrialRow.state == TrialState.QUEUED)
                .values(
                    pending_reason=reason,
                    pending_parts=parts,
                )
                .execution_options(synchronize_session=False),
            )
            touch(session, "cluster", *(f"trial:{id_}" for id_ in decision.trial_ids))


def _give_alert(session: Session, alert: Alert, now: dt.datetime) -> None:
    subject = f"{alert.kind}:{alert.subject_id}"
    key = {
        "subject": subject,
        "measure": alert.measure,
        "limit": alert.limit_text,
        "threshold": alert.threshold,
        "at": now,
    }
    result: Any = session.execute(insert_or_ignore(session, BudgetAlertRow), key)
    if result.rowcount != 1:
        raise Outdated(f"{subject} was told of {alert.threshold} already")
    is_end = alert.threshold >= EXHAUSTED
    is_project = alert.kind == "project"
    add_event(
        session,
        "budget.exhausted" if is_end else "budget.alert",
        f"{alert.reason.english}.",
        now=now,
        level="error" if is_end else "warning",
        experiment_id=None if is_project else alert.subject_id,
        project_id=alert.subject_id if is_project else None,
        data={"measure": alert.measure, "threshold": alert.threshold, "limit": alert.limit_text},
    )
    touch(session, "cluster", "experiments", subject)


def _end_experiment(session: Session, end: EndExperiment, now: dt.datetime) -> None:
    experiment = session.get(
        ExperimentRow, end.experiment_id, with_for_update=True, populate_existing=True
    )
    if (
        experiment is None
        or experiment.state in TERMINAL_EXPERIMENT
        or experiment.desired in ("stop", "kill")
        or experiment.exhausted_reason
    ):
        raise Outdated(f"experiment {end.experiment_id} ends already")
    experiment.exhausted_reason, experiment.exhausted_parts = to_columns(end.reason)
    if experiment.search_state is not None:
        searcher = Searcher.from_state(experiment.search_state)
        searcher.close(end.reason.english)
        experiment.search_state = searcher.state()
    add_event(
        session,
        "experiment.budget_stop",
        f"{end.reason.english}. Its trials save a checkpoint and end.",
        now=now,
        level="error",
        experiment_id=experiment.id,
    )
    touch(session, "experiments", f"experiment:{experiment.id}", "cluster", "loops")


def _set_project(session: Session, action: SetProject, now: dt.datetime) -> None:
    before, _ = to_columns(action.before)
    reason, parts = to_columns(action.reason)
    require_one(
        session,
        update(ProjectRow)
        .where(ProjectRow.id == action.project_id, ProjectRow.exhausted_reason == before)
        .values(exhausted_reason=reason, exhausted_parts=parts)
        .execution_options(synchronize_session=False),
        f"project {action.project_id} was changed meanwhile",
    )
    add_event(
        session,
        "project.blocked" if action.reason else "project.unblocked",
        f"{action.reason.english}. No more trials of the project start."
        if action.reason
        else "Trials of the project may start again.",
        now=now,
        level="warning" if action.reason else "info",
        project_id=action.project_id,
    )
    touch(session, f"project:{action.project_id}", "cluster", "experiments", "loops")
