"""Pools: what their slots cost, and what is in them. Nodes make a pool by naming it."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict

from sqlalchemy import func, select, union
from sqlalchemy.orm import Session

from muster.document.codec import dump, load
from muster.document.running import WasteSection
from muster_server.db.engine import touch
from muster_server.db.models import NodeRow, NodeSlotRow, PoolProviderRow, PoolRow
from muster_server.domain.scheduling.resources import is_isolated
from muster_server.domain.states import NodeState
from muster_server.errors import Conflict, InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.budgets import PoolIn, PoolOut
from muster_server.settings import get_settings

from ..core.paging import decode_cursor, encode_cursor
from ..core.slot_problems import hold_back


def list_pools(session: Session, *, cursor: str | None, limit: int) -> Page[PoolOut]:
    """Return one page of the pools that have nodes or settings, by name."""
    names = union(
        select(NodeRow.pool.label("name")), select(PoolRow.name), select(PoolProviderRow.pool)
    ).subquery()
    query = select(names.c.name).order_by(names.c.name).limit(limit + 1)
    key = decode_cursor(cursor, str)
    if key is not None:
        query = query.where(names.c.name > key[0])
    found = list(session.scalars(query))
    items = _show(session, found[:limit])
    return Page(items=items, next=encode_cursor(items[-1].name) if found[limit:] else None)


def get_pool(session: Session, name: str) -> PoolOut:
    """Raises NotFound."""
    known = (
        session.get(PoolRow, name) is not None
        or session.get(PoolProviderRow, name) is not None
        or session.scalar(select(NodeRow.id).where(NodeRow.pool == name).limit(1))
    )
    if not known:
        raise NotFound("pools.not_found", f"There is no pool {name[:64]!r}.")
    return _show(session, [name])[0]


def change_pool(session: Session, name: str, changes: PoolIn, now: dt.datetime) -> None:
    """Set what the changes name, for what is placed from now on. A pool without nodes may have
    settings as well. Raises InvalidRequest."""
    if changes.spares and session.get(PoolProviderRow, name) is not None:
        raise InvalidRequest(
            "pools.no_spares",
            f"spares is {changes.spares}, but a provider supplies the nodes of pool {name}, which come and "
            "go with the queue: only nodes that stay can be held.",
            hint="Set it to 0; min_pilots of the provider keeps nodes ready.",
        )
    row = session.get(PoolRow, name, with_for_update=True)
    if row is None:
        row = PoolRow(name=name)
        session.add(row)
    for field, value in changes.model_dump(exclude_none=True, exclude={"waste"}).items():
        setattr(row, field, value)
    if changes.waste is not None:
        row.waste = dump(changes.waste)
    row.changed_at = now
    session.flush()
    if changes.foreign_processes is not None:
        for node in session.scalars(select(NodeRow).where(NodeRow.pool == name)):
            hold_back(session, node)
    if changes.foreign_processes is not None or changes.spares is not None:
        touch(session, "loops")
    touch(session, "cluster")


def delete_pool(session: Session, name: str) -> None:
    """Forget what was set for a pool that has no nodes any more. Raises NotFound and Conflict."""
    row = session.get(PoolRow, name)
    num_nodes = session.scalar(
        select(func.count()).select_from(NodeRow).where(NodeRow.pool == name)
    )
    if num_nodes:
        raise Conflict(
            "pools.in_use",
            f"Pool {name!r} has {num_nodes:,} nodes.",
            hint="Remove them, or let them join another pool.",
        )
    if row is None:
        raise NotFound("pools.not_found", f"There is no pool {name[:64]!r}.")
    session.delete(row)
    touch(session, "cluster")


def _show(session: Session, names: list[str]) -> list[PoolOut]:
    settings = {
        row.name: row for row in session.scalars(select(PoolRow).where(PoolRow.name.in_(names)))
    }
    providers: dict[str, str] = {
        row.pool: row.kind
        for row in session.execute(
            select(PoolProviderRow.pool, PoolProviderRow.kind).where(
                PoolProviderRow.pool.in_(names)
            )
        )
    }
    nodes: dict[str, Counter[str]] = defaultdict(Counter)
    too_weak: Counter[str] = Counter()
    level = NodeRow.inventory["isolation"].as_string()
    for pool, state, isolation, num in session.execute(
        select(NodeRow.pool, NodeRow.state, level, func.count())
        .where(NodeRow.pool.in_(names))
        .group_by(NodeRow.pool, NodeRow.state, level)
    ):
        nodes[pool][state] += num
        if pool in settings and not is_isolated(isolation, settings[pool].min_isolation):
            too_weak[pool] += num
    slots: dict[str, dict[str, int]] = defaultdict(dict)
    used: dict[str, int] = defaultdict(int)
    for pool, slot_type, num, num_used in session.execute(
        select(
            NodeRow.pool,
            NodeSlotRow.slot_type,
            func.count(),
            func.count(NodeSlotRow.allocation_id),
        )
        .join(NodeRow, NodeRow.id == NodeSlotRow.node_id)
        .where(NodeRow.pool.in_(names))
        .group_by(NodeRow.pool, NodeSlotRow.slot_type)
    ):
        slots[pool][slot_type] = num
        used[pool] += num_used
    return [
        PoolOut(
            name=name,
            price_per_slot_hour=settings[name].price_per_slot_hour if name in settings else 0.0,
            currency=get_settings().currency,
            min_isolation=settings[name].min_isolation if name in settings else "none",
            provider=providers.get(name),
            requires_containers=name in settings and settings[name].requires_containers,
            allowed_images=settings[name].allowed_images if name in settings else [],
            foreign_processes=settings[name].foreign_processes if name in settings else "wait",
            waste=load(WasteSection, (name in settings and settings[name].waste) or {}),
            spares=settings[name].spares if name in settings else 0,
            num_nodes=sum(nodes[name].values()),
            num_nodes_online=nodes[name].get(NodeState.ONLINE, 0),
            num_nodes_too_weak=too_weak[name],
            num_slots=slots[name],
            num_slots_used=used[name],
            changed_at=settings[name].changed_at if name in settings else None,
        )
        for name in names
    ]
