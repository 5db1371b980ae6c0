"""What the pilots of a pool cost, out of the tables."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Float, cast, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import PilotRow, PoolProviderRow, PoolRow
from muster_server.domain.providers import CostLimit, PilotState, slot_hours
from muster_server.settings import get_settings


def cost_limits(session: Session, row: PoolProviderRow) -> tuple[CostLimit, ...]:
    """Return the limits of a provider; empty if it has none."""
    if row.max_slot_hours is None and row.max_cost is None:
        return ()
    reserved = reserved_slot_hours(session, row.pool)
    per_pilot = slot_hours(row.slots, row.walltime_s)
    price = price_of(session, row.pool)
    limits = []
    if row.max_slot_hours is not None:
        limits.append(
            CostLimit(
                currency="",
                limit=row.max_slot_hours,
                used=row.spent_slot_hours,
                reserved=reserved,
                per_pilot=per_pilot,
            )
        )
    if row.max_cost is not None:
        limits.append(
            CostLimit(
                currency=get_settings().currency,
                limit=row.max_cost,
                used=row.spent_cost,
                reserved=reserved * price,
                per_pilot=per_pilot * price,
            )
        )
    return tuple(limits)


def reserved_slot_hours(session: Session, pool: str) -> float:
    """Return what the pilots of a pool that have not ended count for: their whole wall time."""
    seconds = session.scalar(
        select(func.sum(cast(PilotRow.slots, Float) * PilotRow.walltime_s)).where(
            PilotRow.pool == pool, PilotRow.state != PilotState.ENDED
        )
    )
    return float(seconds or 0) / 3600


def num_affordable(session: Session, row: PoolProviderRow) -> int:
    """Return how many more pilots the limits of a provider allow, at most `max_pilots`."""
    found = [limit.num_affordable() for limit in cost_limits(session, row)]
    return int(min([row.max_pilots, *found]))


def price_of(session: Session, pool: str) -> float:
    """Return what a slot of the pool costs per hour, in the server's currency; 0 if no price is set."""
    price = session.scalar(select(PoolRow.price_per_slot_hour).where(PoolRow.name == pool))
    return price or 0.0


def add_spending(session: Session, pilot: PilotRow, *, now: dt.datetime) -> None:
    """Count what a pilot that has ended cost, from when its job ran, at the present price of its pool."""
    row = session.get(PoolProviderRow, pilot.pool, with_for_update=True)
    if row is None or pilot.started_at is None:
        return
    begun = max(pilot.started_at, row.counted_since or pilot.started_at)
    hours = slot_hours(pilot.slots, (now - begun).total_seconds())
    row.spent_slot_hours += hours
    row.spent_cost += hours * price_of(session, pilot.pool)


def spending(session: Session, row: PoolProviderRow, *, now: dt.datetime) -> tuple[float, float]:
    """Return what the pilots of a provider have cost until now, in slot-hours and in money."""
    running = session.execute(
        select(PilotRow.slots, PilotRow.started_at).where(
            PilotRow.pool == row.pool,
            PilotRow.state != PilotState.ENDED,
            PilotRow.started_at.is_not(None),
        )
    )
    hours = 0.0
    for slots, started_at in running:
        if started_at is not None:
            begun = max(started_at, row.counted_since or started_at)
            hours += slot_hours(slots, (now - begun).total_seconds())
    return row.spent_slot_hours + hours, row.spent_cost + hours * price_of(session, row.pool)
