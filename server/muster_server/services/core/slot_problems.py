"""What keeps new work off single slots, noted where every count of free slots sees it."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import NodeRow, NodeSlotRow, PoolRow
from muster_server.domain.nodes.availability import slots_held_back

DEVICE_SHARED = "attempt.device_shared"
"""Type of the event of a trial one of whose devices somebody began to use outside Muster."""


def hold_back(session: Session, node: NodeRow) -> None:
    """Note at each slot of a node what keeps new work off it, by the node's problems and its pool."""
    setting = session.scalar(select(PoolRow.foreign_processes).where(PoolRow.name == node.pool))
    held_back = slots_held_back(node.problems, foreign_processes=setting or "wait")
    for slot in session.scalars(select(NodeSlotRow).where(NodeSlotRow.node_id == node.id)):
        slot.problem = held_back.get(slot.idx, "")
    session.flush()
