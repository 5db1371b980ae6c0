"""What nodes said last of how busy they are, for monitoring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import NodeRow
from muster_server.domain.states import NodeState


@dataclass(frozen=True, kw_only=True)
class NodeFigures:
    """Name and usage of one node that is ONLINE."""

    node: str
    """Its name."""
    usage: Mapping[str, Any]
    """A `wire.NodeUsage`; empty before its first heartbeat with one."""


def figures_of_nodes(session: Session, *, limit: int) -> tuple[list[NodeFigures], int]:
    """(the first `limit` nodes by name, how many are left out). What a node said that is not ONLINE
    is old, so it is not told."""
    is_online = NodeRow.state == NodeState.ONLINE
    rows = session.execute(
        select(NodeRow.name, NodeRow.usage).where(is_online).order_by(NodeRow.name).limit(limit)
    ).all()
    num = len(rows)
    if num == limit:
        num = session.scalar(select(func.count()).select_from(NodeRow).where(is_online)) or 0
    return [NodeFigures(node=name, usage=usage or {}) for name, usage in rows], num - len(rows)
