"""What experiments and projects have spent: settled when slots become free, counted while held.

An allocation costs its slots from its reservation until they are free again, or their node is lost
(domain.budgets says why). The settling is part of the transaction that frees the slots, so it happens exactly once.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select, update
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    PoolRow,
    SpendingRow,
    TrialRow,
)
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.budgets import Holding, Spending, slot_seconds, spending


@dataclass(frozen=True)
class Settled:
    """Of allocations that have freed their slots."""

    slot_s: float = 0.0
    cost: float = 0.0


def open_account(session: Session, experiment_id: int, project_id: int) -> None:
    """Begin to count for an experiment. Done again, it changes nothing."""
    session.execute(
        insert_or_ignore(session, SpendingRow),
        {"experiment_id": experiment_id, "project_id": project_id, "slot_s": 0.0, "cost": 0.0},
    )


def price_of(session: Session, pool: str) -> float:
    """Per slot and hour; 0 for a pool nobody has set a price for."""
    price = session.scalar(select(PoolRow.price_per_slot_hour).where(PoolRow.name == pool))
    return price or 0.0


def settle(session: Session, allocation: AllocationRow, *, until: dt.datetime) -> None:
    """Add what an allocation has cost to its experiment. Call it once, when its slots are freed.

    until: that moment, or the one at which its node was lost.
    """
    owner = session.execute(
        select(ExperimentRow.id, ExperimentRow.project_id)
        .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
        .where(TrialRow.id == allocation.trial_id)
    ).one_or_none()
    if owner is None:
        return
    used = slot_seconds(allocation.created_at, until, len(allocation.slots))
    open_account(session, owner.id, owner.project_id)
    session.execute(
        update(SpendingRow)
        .where(SpendingRow.experiment_id == owner.id)
        .values(
            slot_s=SpendingRow.slot_s + used,
            cost=SpendingRow.cost + used / 3600.0 * allocation.price_per_slot_hour,
        )
        .execution_options(synchronize_session=False)
    )


def of_experiments(
    session: Session, experiment_ids: Collection[int], now: dt.datetime
) -> dict[int, Spending]:
    """Experiment → what it has spent until now; every id given is in the answer."""
    settled = {
        row.experiment_id: Settled(row.slot_s, row.cost)
        for row in session.execute(
            select(SpendingRow.experiment_id, SpendingRow.slot_s, SpendingRow.cost).where(
                SpendingRow.experiment_id.in_(experiment_ids)
            )
        )
    }
    held = holdings(session, ExperimentRow.id.in_(experiment_ids))
    return {
        id_: _sum(settled.get(id_, Settled()), held.get(id_, []), now) for id_ in experiment_ids
    }


def of_projects(
    session: Session, project_ids: Collection[int], now: dt.datetime
) -> dict[int, Spending]:
    """Project → what its experiments have spent until now, deleted ones included."""
    rows = session.execute(
        select(SpendingRow.project_id, func.sum(SpendingRow.slot_s), func.sum(SpendingRow.cost))
        .where(SpendingRow.project_id.in_(project_ids))
        .group_by(SpendingRow.project_id)
    )
    settled = {project_id: Settled(slot_s or 0.0, cost or 0.0) for project_id, slot_s, cost in rows}
    held: dict[int, list[Holding]] = defaultdict(list)
    experiments = holdings(session, ExperimentRow.project_id.in_(project_ids))
    if experiments:
        owners = session.execute(
            select(ExperimentRow.id, ExperimentRow.project_id).where(
                ExperimentRow.id.in_(experiments)
            )
        )
        for experiment_id, project_id in owners:
            held[project_id] += experiments[experiment_id]
    return {id_: _sum(settled.get(id_, Settled()), held.get(id_, []), now) for id_ in project_ids}


def holdings(session: Session, about: ColumnElement[bool]) -> dict[int, list[Holding]]:
    """Experiment → the slots held for it now, of experiments that `about` selects."""
    found: dict[int, list[Holding]] = defaultdict(list)
    rows = session.execute(
        select(
            ExperimentRow.id,
            AllocationRow.created_at,
            AllocationRow.slots,
            AllocationRow.price_per_slot_hour,
            case((AllocationRow.observed == "LOST", AllocationRow.ended_at)).label("until"),
        )
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(AllocationRow.observed != "CLEANED", about)
        .order_by(AllocationRow.id)
    )
    for experiment_id, since, slots, price, until in rows:
        found[experiment_id].append(
            Holding(since=since, until=until, slots=len(slots), price_per_slot_hour=price)
        )
    return dict(found)


def _sum(settled: Settled, held: list[Holding], now: dt.datetime) -> Spending:
    return spending(settled.slot_s, settled.cost, held, now)
