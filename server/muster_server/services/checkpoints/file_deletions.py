"""Files nobody keeps: which agent is to delete them, and how that went.

One row per deleted experiment, checkpoint or trial's outputs and storage folder, wanted until an agent that has the storage reports that
it is done. Nothing is asked of an agent by a call: the row is part of what the node should do, and
is said again with every answer until it is reported.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Text, and_, bindparam, cast, exists, func, literal, or_, select, true
from sqlalchemy.orm import Session

from muster.wire import Deletion, DeletionsReply, DeletionsRequest
from muster_server.db.models import (
    CheckpointRow,
    ClusterIdentityRow,
    ExperimentRow,
    ExportRow,
    FileDeletionRow,
    NodeRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.states import TERMINAL_TRIAL, NodeState
from muster_server.errors import Conflict, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.operations import FileDeletionOut

from ..core.assignments import bump_assignments
from ..core.events import add_event
from ..core.paging import read_page
from .lookup import OBJECT_STORE

WANTED_AT_ONCE = 100
"""Deletions asked of one node at a time; the next ones follow as these are reported."""
MAX_MESSAGE_CHARS = 1000


def is_online(name: Any, *where: Any) -> Any:
    return exists().where(NodeRow.name == name, NodeRow.state == NodeState.ONLINE, *where)


def first_online(*where: Any) -> Any:
    """Return the query for the first, by name, of the nodes that are heard."""
    return (
        select(func.min(NodeRow.name))
        .where(NodeRow.state == NodeState.ONLINE, *where)
        .scalar_subquery()
    )


_PENDING = (
    select(FileDeletionRow)
    .where(
        FileDeletionRow.state == "pending",
        or_(
            FileDeletionRow.storage_id == bindparam("storage_id"),
            and_(
                FileDeletionRow.storage_id == OBJECT_STORE,
                # Who wrote it has what it takes; when that node is not heard, any other may try.
                or_(
                    FileDeletionRow.node_name == bindparam("name"),
                    and_(
                        ~is_online(FileDeletionRow.node_name), bindparam("name") == first_online()
                    ),
                ),
            ),
        ),
        # An experiment that can be seen has its files, and so has a checkpoint of it, whatever
        # this table says.
        or_(
            ~exists().where(
                ExperimentRow.id == FileDeletionRow.experiment_id,
                ExperimentRow.deleting_at.is_(None),
            ),
            exists().where(
                CheckpointRow.id == FileDeletionRow.checkpoint_id,
                or_(
                    CheckpointRow.state == "deleting",
                    # A folder of adopted files that is no part of a checkpoint.
                    and_(
                        FileDeletionRow.path.contains("/adopted-"),
                        or_(
                            CheckpointRow.state == "deleted",
                            ~cast(CheckpointRow.parts, Text).contains(FileDeletionRow.path),
                        ),
                    ),
                ),
            ),
            exists()
            .where(
                TrialOutputsRow.storage_id == FileDeletionRow.storage_id,
                TrialOutputsRow.folder == FileDeletionRow.path,
                TrialOutputsRow.deleted_at.is_not(None),
                TrialOutputsRow.trial_id == TrialRow.id,
                TrialRow.experiment_id == FileDeletionRow.experiment_id,
                TrialRow.state.in_(TERMINAL_TRIAL),
            )
            .correlate(FileDeletionRow),
        ),
    )
    .order_by(FileDeletionRow.id)
    .limit(WANTED_AT_ONCE)
)


def wanted_of(session: Session, *, name: str, storage_id: str) -> list[Deletion]:
    """Return the deletions that the node with this name and storage should make now.

    Of several nodes that share a storage folder, only one gets its deletions.
    """
    if not storage_id:
        return []
    rows = session.scalars(_PENDING, {"storage_id": storage_id, "name": name}).all()
    if any(row.storage_id == storage_id for row in rows):
        # Of several that share the storage one is enough: the first by name of those that are heard.
        first = session.scalar(select(first_online(NodeRow.storage_id == storage_id)))
        rows = [row for row in rows if first == name or row.storage_id != storage_id]
    if not rows:
        return []
    cluster_id = session.scalars(select(ClusterIdentityRow.id)).one()
    return [
        Deletion(
            id=row.id,
            storage_id=row.storage_id,
            storage_url=row.storage_url,
            path=row.path,
            cluster_id=cluster_id,
        )
        for row in rows
    ]


def take_results(
    session: Session, node: NodeRow, request: DeletionsRequest, *, now: dt.datetime
) -> DeletionsReply:
    """Note what an agent reports. Said twice, or about something settled, it changes nothing."""
    num_taken = 0
    for result in request.results[:WANTED_AT_ONCE]:
        row = session.get(FileDeletionRow, result.id, with_for_update=True)
        if row is None or row.storage_id not in (node.storage_id, OBJECT_STORE):
            continue
        if row.state != "pending":
            continue
        num_taken += 1
        message = result.message[:MAX_MESSAGE_CHARS]
        if result.outcome == "failed":
            row.message = f"{node.name}: {message}"
            continue
        row.state, row.ended_at = result.outcome, now
        row.message = f"{node.name}: {message}" if message else ""
        row.freed_bytes = max(0, result.freed_bytes)
        is_done = result.outcome == "done"
        where = row.storage_url or "its storage"
        checkpoint = session.get(CheckpointRow, row.checkpoint_id or 0)
        if is_done and checkpoint is not None and checkpoint.state == "deleting":
            checkpoint.state = "deleted"
        add_event(
            session,
            "storage.deleted" if is_done else "storage.deletion_refused",
            f"{node.name} deleted {row.path} of {where}, {row.freed_bytes:,} bytes, requested "
            f"by {row.requested_by}."
            if is_done
            else f"{node.name} refused to delete {row.path} of {where}: {message}.",
            now=now,
            level="info" if is_done else "warning",
            node_id=node.id,
            data={"experiment_id": row.experiment_id, "freed_bytes": row.freed_bytes},
        )
    if num_taken:
        session.flush()
        bump_assignments(session, [node.id])
    return DeletionsReply(num_taken=num_taken)


def wake_nodes(session: Session, storage_ids: set[str]) -> None:
    """Let the nodes that have these storages look at what is wanted now."""
    if storage_ids:
        bump_assignments(
            session,
            session.scalars(
                select(NodeRow.id).where(
                    or_(
                        NodeRow.storage_id.in_(storage_ids),
                        and_(
                            literal(OBJECT_STORE in storage_ids), NodeRow.state == NodeState.ONLINE
                        ),
                    )
                )
            ),
        )


def list_deletions(
    session: Session, *, open_only: bool, cursor: str | None, limit: int
) -> Page[FileDeletionOut]:
    """Newest first."""
    query = select(FileDeletionRow)
    if open_only:
        query = query.where(FileDeletionRow.state.in_(("pending", "refused")))
    rows, following = read_page(
        session, query, FileDeletionRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [_out(session, row) for row in rows]
    return Page(items=items, next=following)


def dismiss(session: Session, deletion_id: int, now: dt.datetime) -> FileDeletionOut:
    """Give up on files that cannot be deleted by an agent; they stay where they are.

    Raises NotFound, and Conflict for one that is done.
    """
    row = session.get(FileDeletionRow, deletion_id, with_for_update=True)
    if row is None:
        raise NotFound("deletions.not_found", f"There is no deletion {deletion_id}.")
    if row.state == "done":
        raise Conflict("deletions.done", f"Deletion {deletion_id} is done.")
    if row.state != "dismissed":
        row.state, row.ended_at = "dismissed", now
        session.flush()
        wake_nodes(session, {row.storage_id})
    return _out(session, row)


def storage_nodes(session: Session, row: FileDeletionRow | ExportRow) -> Sequence[Row[str, str]]:
    """Return name and state of the nodes that reach the files of `row`, the one that wrote them first."""
    of_storage = NodeRow.storage_id == row.storage_id
    return session.execute(
        select(NodeRow.name, NodeRow.state)
        .where(true() if row.storage_id == OBJECT_STORE else of_storage)
        .order_by(NodeRow.name != row.node_name, NodeRow.name)
    ).all()


def _out(session: Session, row: FileDeletionRow) -> FileDeletionOut:
    waits_for = ""
    if row.state == "pending":
        nodes = storage_nodes(session, row)
        if not nodes:
            waits_for = f"no node has this storage any more; it was that of {row.node_name}"
        elif all(state != NodeState.ONLINE for _, state in nodes):
            names = ", ".join(f"{name} ({state})" for name, state in nodes[:3])
            waits_for = f"the nodes that have this storage are not heard: {names}"
        else:
            waits_for = next(name for name, state in nodes if state == NodeState.ONLINE)
    return FileDeletionOut.from_row(row, waits_for=waits_for)
