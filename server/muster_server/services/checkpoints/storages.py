"""Where files lie that the database lists and does not contain."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import CheckpointRow, NodeRow, TrialOutputsRow
from muster_server.domain.messages import count

from .lookup import OBJECT_STORE

NODES_NAMED_MAX = 5


def files_elsewhere(session: Session) -> list[str]:
    """Return one sentence for each storage that holds checkpoints or outputs, the largest first: what is
    there, its size in GB as reported when it was written, and the nodes that reach it."""
    parts: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for table, kept, what in (
        (CheckpointRow, CheckpointRow.state == "complete", "checkpoint"),
        (TrialOutputsRow, TrialOutputsRow.deleted_at.is_(None), "outputs folder"),
    ):
        found = select(table.storage_id, func.count(), func.sum(table.size_bytes)).where(kept)
        for storage_id, num, size_bytes in session.execute(found.group_by(table.storage_id)):
            parts[storage_id].append(count(num, what))
            sizes[storage_id] += int(size_bytes)
    nodes: dict[str, list[str]] = defaultdict(list)
    for storage_id, name in session.execute(
        select(NodeRow.storage_id, NodeRow.name).order_by(NodeRow.name)
    ):
        nodes[storage_id].append(name)
    return [
        f"{' and '.join(parts[id])}, {sizes[id] / 1e9:.1f} GB, {_place(id, nodes[id])}"
        for id in sorted(parts, key=lambda id: (-sizes[id], id))
    ]


def _place(storage_id: str, nodes: list[str]) -> str:
    if storage_id == OBJECT_STORE:
        return "in the object stores that documents name"
    if not nodes:
        return "in a storage folder that no node reaches any more"
    more = f" and {len(nodes) - NODES_NAMED_MAX} more" if nodes[NODES_NAMED_MAX:] else ""
    return f"in the storage folder of {', '.join(nodes[:NODES_NAMED_MAX])}{more}"
