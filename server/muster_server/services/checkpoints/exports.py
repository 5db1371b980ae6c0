"""The model of a checkpoint, or outputs of a trial, as one file: asked of an agent that can read it,
kept for a while.

Like a deletion of files, an export is part of what a node should do, said again with every answer
until the agent reports on it. The file comes in pieces of 1 MiB; each may come twice. They lie in
the database, so that every API server can serve them, and go when the export expires.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from sqlalchemy import and_, bindparam, func, or_, select, update
from sqlalchemy.orm import Session, undefer

from muster.wire import EXPORT_PIECE_BYTES, Export, ExportReply, ExportResult
from muster_server.db.engine import Database, touch
from muster_server.db.models import (
    CheckpointRow,
    ClusterIdentityRow,
    ExperimentRow,
    ExportChunkRow,
    ExportRow,
    NodeRow,
    TrialRow,
)
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.db.rows import from_row
from muster_server.db.sight import SEES_ALL
from muster_server.domain.states import NodeState
from muster_server.errors import Conflict, NotFound, TooLarge
from muster_server.schemas.base import Page
from muster_server.schemas.exports import ExportOut
from muster_server.settings import Settings

from ..core import chunks
from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_trial
from ..core.output_lists import decode_files, unpack_base64
from ..core.ownership import is_by, require_charge
from ..core.paging import read_page
from .file_deletions import first_online, is_online, storage_nodes, wake_nodes
from .lookup import ADOPTED, OBJECT_STORE, store_of, trial_folder

TAR_ENTRY_BYTES = 4096
"""Most bytes of a tar archive for an entry beside its content and its path."""
TAR_END_BYTES = 20_480
WANTED_AT_ONCE = 4
"""Exports asked of one node at a time; the next ones follow as these are reported."""
MAX_MESSAGE_CHARS = 1000

# ---------------------------------------------------------------- asking for one


def request(
    session: Session, checkpoint_id: int, caller: Caller, *, settings: Settings
) -> ExportOut:
    """Have the model of a checkpoint made into one file; one that is there, or under way, is enough.

    Raises NotFound, and Conflict when it cannot be made, or there is no room for it.
    """
    checkpoint = session.get(CheckpointRow, checkpoint_id, with_for_update=True)
    if checkpoint is None:
        raise NotFound("checkpoints.not_found", f"There is no checkpoint {checkpoint_id}.")
    trial = get_trial(session, checkpoint.trial_id)
    if checkpoint.state != "complete":
        raise Conflict(
            "exports.checkpoint_deleted",
            f"Checkpoint {checkpoint_id} was deleted: nothing is left.",
        )
    if not checkpoint.storage_id:
        raise Conflict(
            "exports.no_storage",
            f"{checkpoint.node_name} never said in which storage checkpoint {checkpoint_id} lies.",
            hint="Use `muster checkpoint export FOLDER FILE` on that node.",
        )
    there = session.scalar(
        select(ExportRow)
        .where(ExportRow.checkpoint_id == checkpoint_id, ExportRow.state != "failed")
        .order_by(ExportRow.id.desc())
        .limit(1)
    )
    if there is not None:
        return _out(session, there)
    if checkpoint.kind == ADOPTED:
        return _ask(session, _adopted(session, checkpoint, trial, caller, settings))
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    # A model is a part of its checkpoint.
    room_bytes = min(checkpoint.size_bytes, settings.export_max_bytes)
    _require_room(session, room_bytes, settings)
    row = ExportRow(
        checkpoint_id=checkpoint.id,
        trial_id=trial.id,
        trial_no=trial.no,
        experiment_id=experiment.id,
        step=checkpoint.step,
        storage_id=checkpoint.storage_id,
        storage_url=store_of(experiment.config) if checkpoint.storage_id == OBJECT_STORE else "",
        path=f"{trial_folder(experiment.id, trial.no)}/{checkpoint.path}",
        node_name=checkpoint.node_name,
        state="pending",
        message="",
        room_bytes=room_bytes,
        requested_by=caller.principal.actor,
        requested_at=caller.now,
        expires_at=caller.now + dt.timedelta(hours=settings.export_hours),
    )
    note(
        session,
        "checkpoints.export_requested",
        experiment.id,
        caller,
        {"checkpoint": checkpoint_id},
    )
    return _ask(session, row)


def _adopted(
    session: Session,
    checkpoint: CheckpointRow,
    trial: TrialRow,
    caller: Caller,
    settings: Settings,
) -> ExportRow:
    """Return what is asked for of a checkpoint that a script saved: its files, as they are."""
    # Of several nodes the first: the others' are at most shards, which are for a fork.
    part = checkpoint.parts[0]
    packed = unpack_base64(part["files"])
    files = decode_files(packed)
    is_one = len(files) == 1 and files[0].state != "link"
    room_bytes = part["size_bytes"]
    if not is_one:
        room_bytes += TAR_END_BYTES + sum(
            TAR_ENTRY_BYTES + 2 * len(file.path.encode()) for file in files
        )
    _require_room(session, room_bytes, settings)
    if room_bytes > settings.export_max_bytes:
        raise Conflict(
            "outputs.too_large",
            f"{checkpoint.path} has {room_bytes:,} bytes, and {settings.export_max_bytes:,} are sent "
            "in one piece.",
            hint="Fork the trial from it, or use `muster outputs get` while the script keeps it.",
        )
    note(
        session,
        "checkpoints.export_requested",
        trial.experiment_id,
        caller,
        {"checkpoint": checkpoint.id},
    )
    name = PurePosixPath(checkpoint.path).name
    return ExportRow(
        checkpoint_id=checkpoint.id,
        trial_id=trial.id,
        trial_no=trial.no,
        experiment_id=trial.experiment_id,
        step=checkpoint.step,
        storage_id=part["storage_id"],
        storage_url=part["storage_url"],
        path=part["path"],
        node_name=part["node_name"],
        files=packed,
        num_files=len(files),
        file_name=(name if is_one else f"{name}.tar")[-255:],
        state="pending",
        message="",
        room_bytes=room_bytes,
        requested_by=caller.principal.actor,
        requested_at=caller.now,
        expires_at=caller.now + dt.timedelta(hours=settings.export_hours),
    )


def request_outputs(session: Session, row: ExportRow, *, settings: Settings) -> ExportOut:
    """Have outputs of a trial made into one file; one of the same files that is there, or under way,
    is enough.

    row: what is wanted, with a `request_key`. Raises Conflict when there is no room for it.
    """
    there = session.scalar(
        select(ExportRow)
        .where(
            ExportRow.trial_id == row.trial_id,
            ExportRow.request_key == row.request_key,
            ExportRow.state != "failed",
        )
        .order_by(ExportRow.id.desc())
        .limit(1)
    )
    if there is not None:
        return _out(session, there)
    _require_room(session, row.room_bytes, settings)
    return _ask(session, row)


def _ask(session: Session, row: ExportRow) -> ExportOut:
    session.add(row)
    session.flush()
    wake_nodes(session, {row.storage_id})
    touch(session, f"trial:{row.trial_id}")
    return _out(session, row)


def _require_room(session: Session, room_bytes: int, settings: Settings) -> None:
    taken = session.scalar(
        select(func.coalesce(func.sum(ExportRow.room_bytes), 0)).where(ExportRow.state != "failed"),
        execution_options=SEES_ALL,
    )
    if int(taken or 0) + room_bytes > settings.exports_max_bytes:
        raise Conflict(
            "exports.no_room",
            f"Exports take {taken:,} bytes, this one may take {room_bytes:,}, and "
            f"{settings.exports_max_bytes:,} are kept at most.",
            hint="Delete one that is not needed, or wait until one expires; a model can also be "
            "exported where its checkpoint lies, with `muster checkpoint export FOLDER FILE`.",
        )


def give_up(session: Session, checkpoint_ids: Collection[int], now: dt.datetime) -> None:
    """These checkpoints are being deleted: exports that wait for them will not come about."""
    session.execute(
        update(ExportRow)
        .where(ExportRow.checkpoint_id.in_(checkpoint_ids), ExportRow.state == "pending")
        .values(state="failed", ended_at=now, message="the checkpoint was deleted before")
        .execution_options(synchronize_session=False)
    )


# ---------------------------------------------------------------- what agents hear and say


_PENDING = (
    select(ExportRow)
    .where(
        ExportRow.state == "pending",
        or_(
            and_(
                ExportRow.storage_id == bindparam("storage_id"),
                # Of several that share the storage one is enough: who wrote it, for it may have what
                # is not collected yet.
                or_(
                    ExportRow.node_name == bindparam("name"),
                    and_(
                        ~is_online(ExportRow.node_name, NodeRow.storage_id == ExportRow.storage_id),
                        bindparam("name")
                        == first_online(NodeRow.storage_id == bindparam("storage_id")),
                    ),
                ),
            ),
            and_(
                ExportRow.storage_id == OBJECT_STORE,
                # Who wrote it has what it takes; when that node is not heard, any other may try.
                or_(
                    ExportRow.node_name == bindparam("name"),
                    and_(~is_online(ExportRow.node_name), bindparam("name") == first_online()),
                ),
            ),
        ),
    )
    .options(undefer(ExportRow.files))
    .order_by(ExportRow.id)
    .limit(WANTED_AT_ONCE)
)
_ANY_PENDING = select(ExportRow.id).where(ExportRow.state == "pending").limit(1)


def are_wanted(session: Session) -> bool:
    """Return whether an export may be assigned to any node now."""
    return session.scalar(_ANY_PENDING) is not None


def wanted_of(session: Session, *, name: str, storage_id: str) -> list[Export]:
    """Return the exports that the node with this name and storage should make now."""
    rows = session.scalars(_PENDING, {"storage_id": storage_id, "name": name}).all()
    if not rows:
        return []
    cluster_id = session.scalars(select(ClusterIdentityRow.id)).one()
    return [
        from_row(
            Export,
            row,
            cluster_id=cluster_id,
            max_bytes=row.room_bytes,
            files=decode_files(row.files) if row.files is not None else [],
        )
        for row in rows
    ]


def take_piece(session: Session, node: NodeRow, export_id: int, idx: int, data: bytes) -> bool:
    """Store a piece of a file; whether it is still wanted. Raises TooLarge."""
    row = _pending_of(session, node, export_id)
    if row is None:
        return False
    if len(data) > EXPORT_PIECE_BYTES or idx * EXPORT_PIECE_BYTES + len(data) > row.room_bytes:
        raise TooLarge(
            "exports.too_large", f"Export {export_id} may have {row.room_bytes:,} bytes at most."
        )
    session.execute(
        insert_or_ignore(session, ExportChunkRow),
        {"export_id": export_id, "idx": idx, "data": data},
    )
    return True


def take_result(
    session: Session, node: NodeRow, result: ExportResult, *, now: dt.datetime
) -> ExportReply:
    """Note what an agent reports. Said twice, or about something settled, it changes nothing."""
    row = _pending_of(session, node, result.id)
    if row is None:
        return ExportReply(taken=False)
    row.ended_at = now
    num, size_bytes = session.execute(
        select(func.count(), func.coalesce(func.sum(func.length(ExportChunkRow.data)), 0)).where(
            ExportChunkRow.export_id == row.id
        )
    ).one()
    if result.outcome == "done" and size_bytes == result.size_bytes:
        row.state, row.size_bytes, row.sha256 = "done", result.size_bytes, result.sha256[:64]
        row.room_bytes = result.size_bytes
    else:
        said = result.message or f"{num} pieces of {size_bytes:,} bytes arrived"
        row.state, row.message = "failed", f"{node.name}: {said[:MAX_MESSAGE_CHARS]}"
    if row.checkpoint_id is not None:
        _tell(session, node, row, now)
    session.flush()
    wake_nodes(session, {row.storage_id})
    touch(session, f"trial:{row.trial_id}", "loops")
    return ExportReply(taken=True)


def _tell(session: Session, node: NodeRow, row: ExportRow, now: dt.datetime) -> None:
    """Add the event of a model that was exported, or was not."""
    is_done = row.state == "done"
    what = "the model" if row.file_name == "" else "the checkpoint"
    add_event(
        session,
        "checkpoint.exported" if is_done else "checkpoint.export_failed",
        f"{node.name} exported {what} of step {row.step}, {row.size_bytes:,} bytes, requested by "
        f"{row.requested_by}."
        if is_done
        else f"{what.capitalize()} of step {row.step} was not exported: {row.message}.",
        now=now,
        level="info" if is_done else "warning",
        experiment_id=row.experiment_id,
        trial_id=row.trial_id,
        data={"export_id": row.id, "checkpoint_id": row.checkpoint_id},
    )


def _pending_of(session: Session, node: NodeRow, export_id: int) -> ExportRow | None:
    row = session.get(ExportRow, export_id, with_for_update=True)
    is_for_it = row is not None and row.storage_id in (node.storage_id, OBJECT_STORE)
    return row if row is not None and is_for_it and row.state == "pending" else None


# ---------------------------------------------------------------- for people


def get_export(session: Session, export_id: int) -> ExportOut:
    """Raises NotFound."""
    return _out(session, _find(session, export_id))


def list_exports(
    session: Session, trial_id: int, *, cursor: str | None, limit: int
) -> Page[ExportOut]:
    """Return one page of the exports of a trial's checkpoints, newest first. Raises NotFound."""
    get_trial(session, trial_id)
    query = select(ExportRow).where(
        ExportRow.trial_id == trial_id, ExportRow.checkpoint_id.is_not(None)
    )
    rows, following = read_page(
        session, query, ExportRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [_out(session, row) for row in rows]
    return Page(items=items, next=following)


def require_done(session: Session, export_id: int) -> ExportOut:
    """Return an export whose file can be fetched. Raises NotFound and Conflict."""
    found = get_export(session, export_id)
    if found.state == "pending":
        raise Conflict(
            "exports.pending",
            f"Export {export_id} is not done yet; it waits for {found.waits_for}.",
            hint="Ask for it again in a moment.",
        )
    if found.state == "failed":
        raise Conflict(
            "exports.failed",
            f"Export {export_id} failed: {found.message}.",
            hint="Ask for another one when that was put right.",
        )
    return found


def stream(database: Database, export_id: int) -> Iterator[bytes]:
    """Return the file piece by piece."""
    return chunks.stream(
        database,
        lambda index: select(ExportChunkRow.data).where(
            ExportChunkRow.export_id == export_id, ExportChunkRow.idx == index
        ),
    )


def delete_export(session: Session, export_id: int, caller: Caller) -> None:
    """Delete its file, or give it up. The checkpoint and the outputs stay.

    Raises NotFound, and Forbidden unless the caller asked for it or may change the experiment.
    """
    row = _find(session, export_id)
    if not is_by(caller.principal, row.requested_by):
        require_charge(session, caller.principal, session.get_one(ExperimentRow, row.experiment_id))
    note(
        session,
        "checkpoints.export_deleted" if row.checkpoint_id else "outputs.export_deleted",
        row.experiment_id,
        caller,
        {"checkpoint": row.checkpoint_id} if row.checkpoint_id else {"file": row.file_name},
    )
    storage_id, trial_id = row.storage_id, row.trial_id
    session.delete(row)
    session.flush()
    wake_nodes(session, {storage_id})
    touch(session, f"trial:{trial_id}")


def _find(session: Session, export_id: int) -> ExportRow:
    row = session.get(ExportRow, export_id)
    if row is None:
        raise NotFound(
            "exports.not_found",
            f"There is no export {export_id}.",
            hint="They are deleted when they expire; ask for another one.",
        )
    return row


def _out(session: Session, row: ExportRow) -> ExportOut:
    waits_for = ""
    if row.state == "pending":
        nodes = storage_nodes(session, row)
        waits_for = next((name for name, state in nodes if state == NodeState.ONLINE), "")
        if not waits_for and nodes:
            names = ", ".join(f"{name} ({state})" for name, state in nodes[:3])
            waits_for = f"a node that has this storage, and none is heard: {names}"
        elif not nodes:
            waits_for = f"{row.node_name}, whose storage no node has any more"
    model = f"experiment-{row.experiment_id}-trial-{row.trial_no}-step-{row.step}.safetensors"
    return ExportOut.from_row(row, waits_for=waits_for, file_name=row.file_name or model)
