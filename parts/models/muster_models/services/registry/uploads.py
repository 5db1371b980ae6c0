"""Files of versions that people upload: in pieces, resumed where they were cut off, under their digest.

The bytes lie in the database, so that every API server can serve them. What no version uses is deleted
after a day.
"""

from __future__ import annotations

import datetime as dt
import hashlib

from sqlalchemy import delete, exists, func, select
from sqlalchemy.orm import Session

from muster_models.schemas.registry import ModelBlobOut
from muster_server.db.deleting import ROWS_FIRST
from muster_server.db.engine import Database
from muster_server.db.models import ModelBlobChunkRow, ModelBlobRow, ModelFileRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.errors import Conflict, InvalidRequest, NotFound, TooLarge
from muster_server.services.core import chunks
from muster_server.settings import Settings

CHUNK_BYTES = 1 << 20
UNUSED = dt.timedelta(days=1)


def show(session: Session, sha256: str) -> ModelBlobOut:
    """Return how much of a file has arrived. Raises NotFound."""
    row = session.get(ModelBlobRow, sha256)
    if row is None:
        raise NotFound("models.no_upload", "Nothing of this file has arrived.")
    return ModelBlobOut.from_row(row)


def add_piece(
    database: Database,
    sha256: str,
    *,
    offset: int,
    size_bytes: int,
    data: bytes,
    settings: Settings,
    now: dt.datetime,
) -> ModelBlobOut:
    """Store the next piece of a file; after the last one the digest of the whole is verified.

    offset: where the piece begins. size_bytes: of the whole file. Raises TooLarge, Conflict where the
    piece is not the next one, and InvalidRequest where what arrived is not the file.
    """
    with database.transaction() as session:
        row = _begin(session, sha256, size_bytes, settings, now)
        if row.is_complete:
            return ModelBlobOut.from_row(row)
        _require_next(row, offset, len(data))
        for start in range(0, len(data), CHUNK_BYTES):
            session.add(
                ModelBlobChunkRow(
                    sha256=sha256,
                    idx=(offset + start) // CHUNK_BYTES,
                    data=data[start : start + CHUNK_BYTES],
                )
            )
        row.received_bytes, row.changed_at = offset + len(data), now
        if row.received_bytes < row.size_bytes:
            return ModelBlobOut.from_row(row)
    # Read in short transactions of its own: nobody waits for it.
    digest = hashlib.sha256()
    for piece in stream(database, sha256):
        digest.update(piece)
    with database.transaction() as session:
        found = session.get(ModelBlobRow, sha256, with_for_update=True)
        if found is None:
            raise _vanished()
        if digest.hexdigest() != sha256:
            session.execute(delete(ModelBlobRow).where(ModelBlobRow.sha256 == sha256))
        else:
            found.is_complete, found.changed_at = True, now
            return ModelBlobOut.from_row(found)
    raise InvalidRequest(
        "models.wrong_digest",
        "What arrived does not have the SHA-256 in the address. All of it was dropped.",
        hint="Did the file change while it was sent? Send it again from the beginning.",
    )


def add_small(session: Session, data: bytes, now: dt.datetime) -> str:
    """Store a file that the server has made, of at most CHUNK_BYTES; return its digest."""
    sha256 = hashlib.sha256(data).hexdigest()
    row = session.get(ModelBlobRow, sha256, with_for_update=True)
    if row is None:
        row = ModelBlobRow(sha256=sha256, size_bytes=len(data))
        session.add(row)
    elif not row.is_complete:
        session.execute(delete(ModelBlobChunkRow).where(ModelBlobChunkRow.sha256 == sha256))
    elif row.is_complete:
        row.changed_at = now
        return sha256
    row.received_bytes, row.is_complete, row.changed_at = len(data), True, now
    session.flush()
    session.add(ModelBlobChunkRow(sha256=sha256, idx=0, data=data))
    session.flush()
    return sha256


def stream(database: Database, sha256: str, *, start: int = 0) -> chunks.Pieces:
    """Return the file from a byte on, piece by piece."""
    return chunks.stream(
        database,
        lambda index: select(ModelBlobChunkRow.data).where(
            ModelBlobChunkRow.sha256 == sha256, ModelBlobChunkRow.idx == index
        ),
        start=start,
    )


def delete_unused(session: Session, now: dt.datetime, limit: int = ROWS_FIRST) -> int:
    """Delete uploads that no version has used for a day; return the number of rows deleted."""
    old = session.scalars(
        select(ModelBlobRow.sha256)
        .where(
            ModelBlobRow.changed_at < now - UNUSED,
            ~exists().where(ModelFileRow.blob_sha256 == ModelBlobRow.sha256),
        )
        .with_for_update()
        .limit(1)
    ).first()
    if old is None:
        return 0
    # Whole, so that whoever sends it again meanwhile finds all of it or nothing.
    session.execute(delete(ModelBlobRow).where(ModelBlobRow.sha256 == old))
    return 1


def _begin(
    session: Session, sha256: str, size_bytes: int, settings: Settings, now: dt.datetime
) -> ModelBlobRow:
    row = session.get(ModelBlobRow, sha256, with_for_update=True)
    if row is not None:
        if row.size_bytes != size_bytes:
            raise InvalidRequest(
                "models.wrong_size",
                f"The file has {row.size_bytes:,} bytes by the first piece, and {size_bytes:,} by this "
                "one.",
            )
        return row
    if size_bytes > settings.model_file_max_bytes:
        raise TooLarge(
            "models.file_too_large",
            f"The file has {size_bytes:,} bytes, and an uploaded one may have "
            f"{settings.model_file_max_bytes:,} (MUSTER_MODEL_FILE_MAX_BYTES).",
            hint="Register it from the outputs of a trial: they stay in the storage of the nodes.",
        )
    taken = int(session.scalar(select(func.coalesce(func.sum(ModelBlobRow.size_bytes), 0))) or 0)
    if taken + size_bytes > settings.models_max_bytes:
        raise Conflict(
            "models.no_room",
            f"Uploaded models take {taken:,} bytes, this file has {size_bytes:,}, and "
            f"{settings.models_max_bytes:,} are kept at most (MUSTER_MODELS_MAX_BYTES).",
            hint="Delete versions that nobody needs.",
        )
    session.execute(
        insert_or_ignore(session, ModelBlobRow),
        {
            "sha256": sha256,
            "size_bytes": size_bytes,
            "received_bytes": 0,
            "is_complete": False,
            "changed_at": now,
        },
    )
    return session.get_one(ModelBlobRow, sha256, with_for_update=True)


def _require_next(row: ModelBlobRow, offset: int, num_bytes: int) -> None:
    if offset != row.received_bytes:
        raise Conflict(
            "models.wrong_offset",
            f"The next piece begins at byte {row.received_bytes}, not at {offset}.",
            hint="Ask how much has arrived, and continue there.",
        )
    end = offset + num_bytes
    is_last = end == row.size_bytes
    if end > row.size_bytes or (not is_last and (num_bytes == 0 or num_bytes % CHUNK_BYTES)):
        raise InvalidRequest(
            "models.wrong_piece",
            f"A piece of {num_bytes:,} bytes at {offset:,} does not fit into a file of "
            f"{row.size_bytes:,}: each but the last is a multiple of {CHUNK_BYTES:,} bytes.",
        )


def _vanished() -> Conflict:
    return Conflict("models.no_upload", "The upload was dropped meanwhile.", hint="Send it again.")
