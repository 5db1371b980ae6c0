"""What experiments and projects have spent: settled when slots become free, counted while held.

An allocation costs its slots from its reservation until they are free again, or their node is lost
(domain.quota.budgets says why). The settling is part of the transaction that frees the slots, so it happens exactly once.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sqlalchemy import ColumnElement, Table, bindparam, case, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    PoolRow,
    ProjectRow,
    SpendingRow,
    TrialRow,
)
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.quota.budgets import Holding, Spending, spending
from muster_server.domain.states import AllocationState

_trials, _experiments = cast(Table, TrialRow.__table__), cast(Table, ExperimentRow.__table__)
_spending = cast(Table, SpendingRow.__table__)
_PRICE = select(PoolRow.price_per_slot_hour).where(PoolRow.name == bindparam("of"))
_OWNER = (
    select(_experiments.c.id, _experiments.c.project_id)
    .join(_trials, _trials.c.experiment_id == _experiments.c.id)
    .where(_trials.c.id == bindparam("of"))
)
_SPEND = (
    update(_spending)
    .where(_spending.c.experiment_id == bindparam("of"))
    .values(
        slot_s=_spending.c.slot_s + bindparam("more_s"), cost=_spending.c.cost + bindparam("more")
    )
)
_LOCK = (
    select(_spending.c.experiment_id)
    .where(
        _spending.c.experiment_id.in_(
            select(_trials.c.experiment_id).where(
                _trials.c.id.in_(bindparam("ids", expanding=True))
            )
        )
    )
    .order_by(_spending.c.experiment_id)
    .with_for_update()
)


@dataclass(frozen=True)
class Settled:
    """Total use of allocations that have freed their slots."""

    slot_s: float = 0.0
    cost: float = 0.0


def open_account(session: Session, experiment_id: int, project_id: int) -> None:
    """Begin to count for an experiment. Done again, it changes nothing."""
    session.execute(
        insert_or_ignore(session, SpendingRow),
        {"experiment_id": experiment_id, "project_id": project_id, "slot_s": 0.0, "cost": 0.0},
    )


def price_of(session: Session, pool: str) -> float:
    """Return the price per slot and hour; 0 for a pool nobody has set a price for."""
    price = session.connection().scalar(_PRICE, {"of": pool})
    return price or 0.0


@dataclass(frozen=True)
class Used:
    """Use of one allocation, from its reservation until its slots were freed."""

    slot_s: float
    price_per_slot_hour: float


def lock_accounts(session: Session, trial_ids: Iterable[int]) -> None:
    """Nobody else settles for the experiments of these trials until the end of the transaction."""
    session.connection().execute(_LOCK, {"ids": sorted(set(trial_ids))}).all()


def settle(session: Session, trial_id: int, used: Sequence[Used]) -> None:
    """Add what allocations of a trial have cost to its experiment. Call it once for each, when its
    slots are freed."""
    connection = session.connection()
    owner = connection.execute(_OWNER, {"of": trial_id}).one_or_none()
    if owner is None:
        return
    more = {
        "of": owner.id,
        "more_s": sum(u.slot_s for u in used),
        "more": sum(u.slot_s / 3600.0 * u.price_per_slot_hour for u in used),
    }
    if connection.execute(_SPEND, more).rowcount == 0:
        open_account(session, owner.id, owner.project_id)
        connection.execute(_SPEND, more)


def of_experiments(
    session: Session, about: ColumnElement[bool], now: dt.datetime
) -> dict[int, Spending]:
    """Experiment → what it has spent until now, of those that `about` selects.

    One that is not in the answer has spent nothing.
    """
    rows = session.execute(
        select(SpendingRow.experiment_id, SpendingRow.slot_s, SpendingRow.cost)
        .join(ExperimentRow, ExperimentRow.id == SpendingRow.experiment_id)
        .where(about)
    )
    settled = {row.experiment_id: Settled(row.slot_s, row.cost) for row in rows}
    held: dict[int, list[Holding]] = defaultdict(list)
    for experiment_id, _, holding in _holdings(session, about):
        held[experiment_id].append(holding)
    return {
        experiment_id: _sum(settled.get(experiment_id, Settled()), held.get(experiment_id, []), now)
        for experiment_id in sorted(settled.keys() | held.keys())
    }


def of_experiment(session: Session, experiment_id: int, now: dt.datetime) -> Spending:
    """Return what one experiment has spent until `now`."""
    found = of_experiments(session, ExperimentRow.id == experiment_id, now)
    return found.get(experiment_id, Spending())


def of_projects(
    session: Session, about: ColumnElement[bool], now: dt.datetime
) -> dict[int, Spending]:
    """Project → what its experiments have spent in all, deleted ones included."""
    rows = session.execute(
        select(SpendingRow.project_id, func.sum(SpendingRow.slot_s), func.sum(SpendingRow.cost))
        .join(ProjectRow, ProjectRow.id == SpendingRow.project_id)
        .where(about)
        .group_by(SpendingRow.project_id)
    )
    settled = {project_id: Settled(slot_s, cost) for project_id, slot_s, cost in rows}
    held: dict[int, list[Holding]] = defaultdict(list)
    mine = select(ProjectRow.id).where(about)
    for _, project_id, holding in _holdings(session, ExperimentRow.project_id.in_(mine)):
        held[project_id].append(holding)
    return {
        project_id: _sum(settled.get(project_id, Settled()), held.get(project_id, []), now)
        for project_id in sorted(settled.keys() | held.keys())
    }


def since(spent: Spending, base: dict[str, float] | None) -> Spending:
    """Return what was spent since a moment whose total was `base` (see `as_base`); None: since the
    start."""
    if base is None:
        return spent
    return replace(
        spent,
        slot_s=max(0.0, spent.slot_s - base["slot_s"]),
        cost=max(0.0, spent.cost - base["cost"]),
    )


def as_base(spent: Spending) -> dict[str, float]:
    """To be kept, for counting from now on."""
    return {"slot_s": spent.slot_s, "cost": spent.cost}


def _holdings(session: Session, about: ColumnElement[bool]) -> Iterator[tuple[int, int, Holding]]:
    """(experiment, project, the slots held for it now) of experiments that `about` selects."""
    rows = session.execute(
        select(
            ExperimentRow.id,
            ExperimentRow.project_id,
            AllocationRow.created_at,
            AllocationRow.slots,
            AllocationRow.price_per_slot_hour,
            case((AllocationRow.observed == AllocationState.LOST, AllocationRow.ended_at)).label(
                "until"
            ),
        )
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(AllocationRow.observed != AllocationState.CLEANED, about)
        .order_by(AllocationRow.id)
    )
    for experiment_id, project_id, begun, slots, price, until in rows:
        held = Holding(since=begun, until=until, slots=len(slots), price_per_slot_hour=price)
        yield experiment_id, project_id, held


def _sum(settled: Settled, held: list[Holding], now: dt.datetime) -> Spending:
    return spending(settled.slot_s, settled.cost, held, now)
