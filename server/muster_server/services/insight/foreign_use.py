"""Who used the devices of an attempt outside Muster: a possible cause of slower steps."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, EventRow, NodeRow, NodeSlotRow
from muster_server.domain.nodes.availability import USED, on_node

from ..core.slot_problems import DEVICE_SHARED

SHOWN_MAX = 5


def foreign_uses(session: Session, trial_id: int, attempt_no: int) -> list[str]:
    """Return who uses, or has used, the devices of an attempt while it ran, a device each, the latest
    last; SHOWN_MAX at most."""
    found: dict[tuple[str | None, int], str] = {}
    events = (
        select(EventRow.node_id, EventRow.data, EventRow.message)
        .where(
            EventRow.trial_id == trial_id,
            EventRow.attempt_no == attempt_no,
            EventRow.type == DEVICE_SHARED,
        )
        .order_by(EventRow.id)
    )
    for node_id, data, message in session.execute(events):
        found[node_id, data["slot"]] = message.removesuffix(".")
    held = (
        select(NodeSlotRow.idx, NodeRow.id, NodeRow.name, NodeRow.problems)
        .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
        .join(NodeRow, NodeRow.id == NodeSlotRow.node_id)
        .where(AllocationRow.trial_id == trial_id, AllocationRow.attempt_no == attempt_no)
    )
    for slot, node_id, name, problems in session.execute(held):
        for problem in problems:
            if problem["kind"] == USED and problem.get("slot") == slot:
                found[node_id, slot] = on_node(problem["message"], slot=slot, node=name)
    return list(found.values())[-SHOWN_MAX:]
