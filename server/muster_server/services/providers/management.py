"""Providers as people set and read them."""

from __future__ import annotations

import dataclasses
import datetime as dt

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import PilotRow, PoolProviderRow, PoolRow
from muster_server.domain.providers import PilotState, options_of, slot_hours
from muster_server.domain.providers.options import InvalidOption
from muster_server.errors import InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.providers import PilotOut, ProviderIn, ProviderOut
from muster_server.settings import get_settings

from ..core.paging import read_page
from .costs import price_of, reserved_slot_hours, spending


def set_provider(session: Session, pool: str, wanted: ProviderIn, *, now: dt.datetime) -> None:
    """Set the provider of a pool, for pilots that are submitted from now on. A back-off ends. Raises
    InvalidRequest."""
    try:
        options = options_of(wanted.options, wanted.kind)
    except InvalidOption as error:
        raise InvalidRequest(
            "pools.bad_option", f"options.{error.name}: {error.problem}."
        ) from None
    _require_sensible(session, pool, wanted)
    if spares := session.scalar(select(PoolRow.spares).where(PoolRow.name == pool)):
        raise InvalidRequest(
            "pools.no_spares",
            f"spares of pool {pool} is {spares}, and the nodes that a provider supplies cannot be held.",
            hint=f"Set it to 0: muster pool spares {pool} 0",
        )
    row = session.get(PoolProviderRow, pool, with_for_update=True)
    if row is None:
        row = PoolProviderRow(pool=pool, spent_slot_hours=0.0, spent_cost=0.0)
        session.add(row)
    for field, value in wanted.model_dump(exclude={"options", "restart_count"}).items():
        setattr(row, field, value)
    if wanted.restart_count or row.counted_since is None:
        row.counted_since, row.spent_slot_hours, row.spent_cost = now, 0.0, 0.0
    row.options = {k: v for k, v in dataclasses.asdict(options).items() if v}
    row.failures, row.not_before, row.problem = 0, None, ""
    row.changed_at = now
    session.flush()
    touch(session, "cluster", "loops")


def _require_sensible(session: Session, pool: str, wanted: ProviderIn) -> None:
    if wanted.min_pilots > wanted.max_pilots:
        raise InvalidRequest(
            "pools.bad_range",
            f"min_pilots is {wanted.min_pilots}, which is more than max_pilots, {wanted.max_pilots}.",
        )
    if wanted.exclusive and wanted.min_pilots:
        raise InvalidRequest(
            "pools.bad_range",
            f"min_pilots is {wanted.min_pilots}, but pilots of an exclusive pool are never kept: set it to 0.",
        )
    per_pilot = slot_hours(wanted.slots, wanted.walltime_s)
    if wanted.max_slot_hours is not None and wanted.max_slot_hours < per_pilot:
        raise InvalidRequest(
            "pools.bad_cost",
            f"max_slot_hours is {wanted.max_slot_hours:g}, but one pilot may use {per_pilot:g} in its wall "
            "time: raise it, or lower walltime_s.",
        )
    if wanted.max_cost is None:
        return
    price = price_of(session, pool)
    if not price:
        raise InvalidRequest(
            "pools.bad_cost",
            f"max_cost is {wanted.max_cost:g}, but slots of pool {pool} have no price.",
            hint=f"Set one: muster pool price {pool} PRICE",
        )
    if wanted.max_cost < per_pilot * price:
        raise InvalidRequest(
            "pools.bad_cost",
            f"max_cost is {wanted.max_cost:g}, but one pilot may cost {per_pilot * price:g} in its wall "
            "time: raise it, or lower walltime_s.",
        )


def remove_provider(session: Session, pool: str, *, now: dt.datetime) -> None:
    """Submit no more pilots for a pool: those that wait are canceled, those that run leave once they
    are idle, and the provider goes with the last of them. Raises NotFound."""
    row = _row(session, pool)
    row.min_pilots = row.max_pilots = 0
    row.changed_at = now
    for before, after in (
        (PilotState.WANTED, PilotState.ENDED),
        (PilotState.SUBMITTING, PilotState.ENDING),
        (PilotState.PENDING, PilotState.ENDING),
        (PilotState.STARTING, PilotState.ENDING),
    ):
        ended_at = now if after is PilotState.ENDED else None
        session.execute(
            update(PilotRow)
            .where(PilotRow.pool == pool, PilotRow.state == before)
            .values(state=after, since=now, reason="its provider was removed", ended_at=ended_at)
        )
    drop_if_empty(session, pool)
    touch(session, "cluster", "loops")


def drop_if_empty(session: Session, pool: str) -> None:
    """Delete a provider that was removed, once none of its pilots is left."""
    row = session.get(PoolProviderRow, pool)
    if row is not None and row.max_pilots == 0 and not _num_by_state(session, pool):
        session.delete(row)


def get_provider(session: Session, pool: str, *, now: dt.datetime) -> ProviderOut:
    """Raises NotFound."""
    row = _row(session, pool)
    hours, cost = spending(session, row, now=now)
    num_failed = session.scalar(
        select(func.count())
        .select_from(PilotRow)
        .where(
            PilotRow.pool == pool,
            PilotRow.has_failed.is_(True),
            PilotRow.asked_at > now - dt.timedelta(days=1),
        )
    )
    return ProviderOut.from_row(
        row,
        name=options_of(row.options, row.kind).name,
        num_pilots=_num_by_state(session, pool),
        num_failed=num_failed or 0,
        spent_slot_hours=hours,
        spent_cost=cost,
        reserved_slot_hours=reserved_slot_hours(session, pool),
        price_per_slot_hour=price_of(session, pool),
        currency=get_settings().currency,
    )


def list_pilots(session: Session, pool: str, *, cursor: str | None, limit: int) -> Page[PilotOut]:
    """Return the pilots of a pool, those that were asked for last first, ended ones included."""
    query = select(PilotRow).where(PilotRow.pool == pool)
    rows, following = read_page(
        session, query, PilotRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    return Page(items=[PilotOut.from_row(row) for row in rows], next=following)


def _num_by_state(session: Session, pool: str) -> dict[str, int]:
    session.flush()
    return {
        str(state): num
        for state, num in session.execute(
            select(PilotRow.state, func.count())
            .where(PilotRow.pool == pool, PilotRow.state != PilotState.ENDED)
            .group_by(PilotRow.state)
        )
    }


def _row(session: Session, pool: str) -> PoolProviderRow:
    row = session.get(PoolProviderRow, pool)
    if row is None:
        raise NotFound(
            "pools.no_provider",
            f"The pool {pool[:64]!r} has no provider.",
            hint="Set one: muster pool create NAME --provider …",
        )
    return row
