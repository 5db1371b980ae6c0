"""Tell the agents of nodes that their assignments have changed."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, cast

from sqlalchemy import BindParameter, Table, bindparam, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import NodeRow

_NODES = cast(Table, NodeRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_LOCK_NODES = (
    select(_NODES.c.id).where(_NODES.c.id.in_(_IDS)).order_by(_NODES.c.id).with_for_update()
)
_BUMP = (
    update(_NODES)
    .where(_NODES.c.id.in_(_IDS))
    .values(assignments_index=_NODES.c.assignments_index + 1)
)


def bump_assignments(
    session: Session, node_ids: Iterable[str], *, asleep: Set[str] = frozenset()
) -> None:
    """Wake the agents of these nodes, whose assignments changed. Those of `asleep` hear of it with their
    next change, or when the API server next looks for news that nobody was woken for.

    Nodes are locked in the order of their ids, so that two callers never wait for each other.
    """
    ids = sorted(set(node_ids))
    if not ids:
        return
    connection = session.connection()
    if len(ids) > 1 and connection.dialect.name != "sqlite":
        connection.execute(_LOCK_NODES, {"ids": ids}).all()
    connection.execute(_BUMP, {"ids": ids})
    touch(session, *(f"assignments:{node_id}" for node_id in ids if node_id not in asleep))


def lock_nodes(session: Session, node_ids: Iterable[str]) -> None:
    """Lock these nodes until the end of the transaction."""
    session.connection().execute(_LOCK_NODES, {"ids": sorted(set(node_ids))}).all()
