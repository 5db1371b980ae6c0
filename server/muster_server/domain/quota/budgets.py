"""Budgets: what was spent, which alert is due, and what follows when a limit is reached.

An allocation costs its slots from the moment they are reserved for it until they are free again,
also while code is fetched and while the last checkpoint is written, because in all that time nobody
else can have them. On a node that is lost it ends with the loss. Cost is slot-hours times the price its pool had when
the slots were reserved.

An experiment whose own budget is used up ends: what runs is asked to stop with a checkpoint, what
waits never starts, its search keeps the best so far. A project whose budget is used up ends those
of its experiments that run; what waits goes on waiting, and starts when the budget is raised.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.document.running import BudgetSection

from ..messages import AnyMessage, Message
from ..states import TERMINAL_EXPERIMENT, ExperimentState

Measure = Literal["slot_hours", "cost", "deadline"]
SubjectKind = Literal["experiment", "project"]
EXHAUSTED = 1.0
"""The threshold every budget has beside its own."""

AlertKey = tuple[str, str, float]
"""(measure, limit as text, threshold): what an alert is given once for."""


@dataclass(frozen=True, kw_only=True)
class BudgetLimits:
    """Limits, each of which may be absent (None)."""

    slot_hours: float | None = None
    cost: float | None = None
    deadline_at: dt.datetime | None = None
    alert_at: tuple[float, ...] = BudgetSection.alert_at
    """Shares of a limit, above 0 and below 1, at which an event tells of it."""

    @property
    def is_empty(self) -> bool:
        return self.slot_hours is None and self.cost is None and self.deadline_at is None


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Slots that one allocation holds now."""

    since: dt.datetime
    until: dt.datetime | None = None
    """Time when their node was lost; None if it was not."""
    slots: int
    price_per_slot_hour: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What something has cost so far, and what it costs now."""

    slot_s: float = 0.0
    """Slots × seconds."""
    cost: float = 0.0
    slots: int = 0
    """Held at this moment: slot-hours per hour."""
    cost_per_hour: float = 0.0

    @property
    def slot_hours(self) -> float:
        return self.slot_s / 3600.0


@dataclass(frozen=True, kw_only=True)
class BudgetUsage:
    """One limit of a budget and how much of it is gone."""

    measure: Measure
    unit: str
    """"slot-hours", the currency, or "h"."""
    limit: float
    limit_text: str
    """Tells this limit from another one of the same measure."""
    limit_at: dt.datetime | None
    """Time of a deadline; None for other limits."""
    spent: float
    share: float
    """spent / limit; may be above 1."""
    exhausted_at: dt.datetime | None
    """Time at which it would be used up if the slots held now stayed held; None if nothing is held
    or it is used up."""

    @property
    def is_exhausted(self) -> bool:
        return self.share >= EXHAUSTED


def slot_seconds(since: dt.datetime, until: dt.datetime, slots: int) -> float:
    """Return the slots × seconds between two moments; 0 when a clock went backwards in between."""
    return slots * max(0.0, (until - since).total_seconds())


def spending(
    settled_slot_s: float, settled_cost: float, holdings: Iterable[Holding], now: dt.datetime
) -> Spending:
    """Return what ended allocations have cost (settled) plus what the present ones cost until
    now."""
    slot_s, cost, slots, cost_per_hour = settled_slot_s, settled_cost, 0, 0.0
    for held in holdings:
        used = slot_seconds(held.since, held.until or now, held.slots)
        slot_s += used
        cost += used / 3600.0 * held.price_per_slot_hour
        if held.until is not None:
            continue
        slots += held.slots
        cost_per_hour += held.slots * held.price_per_slot_hour
    return Spending(slot_s=slot_s, cost=cost, slots=slots, cost_per_hour=cost_per_hour)


def assess(
    budget: BudgetLimits, spent: Spending, *, since: dt.datetime, now: dt.datetime, currency: str
) -> tuple[BudgetUsage, ...]:
    """Return every limit of a budget. `since` is where the time to the deadline counts from."""
    found: list[BudgetUsage] = []
    if budget.slot_hours is not None:
        found.append(
            _usage(
                "slot_hours", "slot-hours", budget.slot_hours, spent.slot_hours, spent.slots, now
            )
        )
    if budget.cost is not None:
        found.append(_usage("cost", currency, budget.cost, spent.cost, spent.cost_per_hour, now))
    if budget.deadline_at is not None:
        limit = max(0.0, (budget.deadline_at - since).total_seconds() / 3600.0)
        gone = max(0.0, (now - since).total_seconds() / 3600.0)
        is_past = now >= budget.deadline_at
        share = gone / limit if limit > 0 else math.inf
        found.append(
            BudgetUsage(
                measure="deadline",
                unit="h",
                limit=limit,
                limit_text=budget.deadline_at.astimezone(dt.UTC).isoformat(timespec="milliseconds"),
                limit_at=budget.deadline_at,
                spent=gone,
                share=max(share, EXHAUSTED) if is_past else min(share, math.nextafter(1.0, 0.0)),
                exhausted_at=None if is_past else budget.deadline_at,
            )
        )
    return tuple(found)


def _usage(
    measure: Measure, unit: str, limit: float, spent: float, rate_per_h: float, now: dt.datetime
) -> BudgetUsage:
    share = spent / limit if limit > 0 else math.inf
    left_h = (limit - spent) / rate_per_h if rate_per_h > 0 and share < EXHAUSTED else None
    exhausted_at = None
    if left_h is not None and left_h < 24 * 3650:
        exhausted_at = now + dt.timedelta(hours=left_h)
    return BudgetUsage(
        measure=measure,
        unit=unit,
        limit=limit,
        limit_text=repr(float(limit)),
        limit_at=None,
        spent=spent,
        share=share,
        exhausted_at=exhausted_at,
    )


def exhausted_reason(usages: Sequence[BudgetUsage], project: str | None = None) -> Message | None:
    """Return why a budget is used up, naming it, its limit and what was spent; None if it is not.

    project: the name of the project whose budget it is; None for an experiment's own budget.
    """
    for usage in usages:
        if usage.is_exhausted:
            return _exhausted(usage, project)
    return None


def _exhausted(usage: BudgetUsage, project: str | None) -> Message:
    if usage.limit_at is not None:
        at = moment(usage.limit_at)
        if project is None:
            return Message("budget.deadline_passed", at=at)
        return Message("budget.project_deadline_passed", at=at, project=project)
    limit, spent = amount(usage.limit), amount(usage.spent)
    if project is None:
        return Message("budget.used_up", limit=limit, spent=spent, unit=usage.unit)
    return Message(
        "budget.project_used_up", project=project, limit=limit, spent=spent, unit=usage.unit
    )


def waiting_reason(exhausted: AnyMessage) -> Message:
    """Return why a queued trial waits whose project's budget is used up."""
    return Message("all.advised", reason=exhausted, advice=Message("help.budget"))


def amount(value: float) -> str:
    """ "12,345.5", "0.00123": two decimals, or three figures of what is below 1."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = 2 if abs(value) >= 1 else min(9, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


# ---------------------------------------------------------------- what follows


@dataclass(frozen=True, kw_only=True)
class ExperimentBudget:
    """An experiment that has not ended and that some budget is about."""

    id: int
    project_id: int
    state: ExperimentState
    desired: str = "run"
    budget: BudgetLimits | None = None
    spent: Spending = Spending()
    since: dt.datetime
    alerted: frozenset[AlertKey] = frozenset()
    num_active: int = 0
    """Trials with an attempt under way."""
    exhausted_reason: AnyMessage | None = None
    """Set once it was decided that it ends."""


@dataclass(frozen=True, kw_only=True)
class ProjectBudget:
    id: int
    name: str
    budget: BudgetLimits | None = None
    spent: Spending = Spending()
    """Since its count began."""
    since: dt.datetime
    alerted: frozenset[AlertKey] = frozenset()
    exhausted_reason: AnyMessage | None = None
    """Set while nothing of it is placed."""
    untold: tuple[int, ...] = ()
    """Its queued trials that do not say so yet."""


@dataclass(frozen=True, kw_only=True)
class BudgetSnapshot:
    experiments: tuple[ExperimentBudget, ...] = ()
    projects: tuple[ProjectBudget, ...] = ()
    currency: str = "USD"


@dataclass(frozen=True, kw_only=True)
class Alert:
    kind: SubjectKind
    subject_id: int
    measure: Measure
    limit_text: str
    threshold: float
    reason: Message


@dataclass(frozen=True, kw_only=True)
class EndExperiment:
    """Close its search and mark it. The lifecycle then ends its trials: what runs gives up its
    slots after a checkpoint, what waits never starts."""

    experiment_id: int
    reason: Message


@dataclass(frozen=True, kw_only=True)
class SetProject:
    """Keep what waits in a project from being placed, or let it go on (None)."""

    project_id: int
    before: AnyMessage | None
    reason: Message | None


@dataclass(frozen=True, kw_only=True)
class TellWaiting:
    """Write down why queued trials of a project are not placed."""

    project_id: int
    trial_ids: tuple[int, ...]
    reason: Message


Decision = Alert | EndExperiment | SetProject | TellWaiting


def decide_budgets(snapshot: BudgetSnapshot, *, now: dt.datetime) -> list[Decision]:
    """Return everything that follows from the budgets now. Level-triggered: safe to decide
    twice."""
    decisions: list[Decision] = []
    used_up: dict[int, Message] = {}
    for project in snapshot.projects:
        usages = _usages(project.budget, project.spent, project.since, now, snapshot.currency)
        decisions += _alerts(
            "project", project.id, project.budget, usages, project.alerted, project.name
        )
        reason = exhausted_reason(usages, project.name)
        if reason:
            used_up[project.id] = reason
        # The figure in the sentence grows while trials wind down; the first one is kept.
        if bool(reason) != bool(project.exhausted_reason):
            decisions.append(
                SetProject(project_id=project.id, before=project.exhausted_reason, reason=reason)
            )
        if project.untold and (exhausted := project.exhausted_reason or reason):
            decisions.append(
                TellWaiting(
                    project_id=project.id,
                    trial_ids=project.untold,
                    reason=waiting_reason(exhausted),
                )
            )
    for experiment in snapshot.experiments:
        decisions += _decide_experiment(
            experiment, used_up.get(experiment.project_id), now, snapshot.currency
        )
    return decisions


def _decide_experiment(
    experiment: ExperimentBudget, project_reason: Message | None, now: dt.datetime, currency: str
) -> Iterator[Decision]:
    if experiment.state in TERMINAL_EXPERIMENT:
        return
    usages = _usages(experiment.budget, experiment.spent, experiment.since, now, currency)
    yield from _alerts(
        "experiment", experiment.id, experiment.budget, usages, experiment.alerted, None
    )
    if experiment.exhausted_reason or experiment.desired in ("stop", "kill"):
        return  # it is already ending, for this reason or another
    own = exhausted_reason(usages)
    if own:
        yield EndExperiment(experiment_id=experiment.id, reason=own)
    elif project_reason and experiment.num_active:
        yield EndExperiment(experiment_id=experiment.id, reason=project_reason)


def _usages(
    budget: BudgetLimits | None,
    spent: Spending,
    since: dt.datetime,
    now: dt.datetime,
    currency: str,
) -> tuple[BudgetUsage, ...]:
    if budget is None:
        return ()
    return assess(budget, spent, since=since, now=now, currency=currency)


def _alerts(
    kind: SubjectKind,
    subject_id: int,
    budget: BudgetLimits | None,
    usages: Sequence[BudgetUsage],
    alerted: frozenset[AlertKey],
    project: str | None,
) -> Iterator[Alert]:
    for usage in usages:
        for threshold in sorted({*(budget.alert_at if budget else ()), EXHAUSTED}):
            key = (usage.measure, usage.limit_text, threshold)
            if usage.share < threshold or key in alerted:
                continue
            yield Alert(
                kind=kind,
                subject_id=subject_id,
                measure=usage.measure,
                limit_text=usage.limit_text,
                threshold=threshold,
                reason=_alert_reason(usage, threshold, project),
            )


def _alert_reason(usage: BudgetUsage, threshold: float, project: str | None) -> Message:
    if threshold >= EXHAUSTED:
        return _exhausted(usage, project)
    pct = threshold * 100
    if usage.limit_at is not None:
        at = moment(usage.limit_at)
        if project is None:
            return Message("budget.deadline_near", pct=pct, at=at)
        return Message("budget.project_deadline_near", pct=pct, at=at, project=project)
    limit, spent = amount(usage.limit), amount(usage.spent)
    if project is None:
        return Message("budget.share_spent", pct=pct, limit=limit, spent=spent, unit=usage.unit)
    return Message(
        "budget.project_share_spent",
        pct=pct,
        project=project,
        limit=limit,
        spent=spent,
        unit=usage.unit,
    )
