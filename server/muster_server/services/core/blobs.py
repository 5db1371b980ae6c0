"""Uploaded code bundles: checked, kept in the database in pieces of 1 MiB, streamed to agents."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import IO, Any, cast

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from muster.code.archive import ArchiveMember, RefusedArchive, check_archive
from muster_server.db.deleting import ROWS_FIRST
from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    BlobChunkRow,
    BlobRow,
    CronScheduleRow,
    ExperimentRow,
    LayerTableRow,
    TrialRow,
)
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.states import AllocationState
from muster_server.errors import InvalidRequest, MusterError, NotFound, TooLarge

from . import chunks

CHUNK_BYTES = 1 << 20
_OVER = (
    AllocationState.EXITED,
    AllocationState.PREPARE_FAILED,
    AllocationState.CLEANED,
    AllocationState.LOST,
)
"""Allocations that nothing will be unpacked for any more."""
UNUSED_DAYS = 7
"""A bundle that no experiment or schedule refers to is deleted when it is this old."""


def put(
    session: Session, *, sha256: str, size_bytes: int, body: IO[bytes], now: dt.datetime
) -> None:
    """Store a bundle whose digest and content were checked. One that is there stays as it is."""
    inserted = session.execute(
        insert_or_ignore(session, BlobRow),
        {"sha256": sha256, "size_bytes": size_bytes, "created_at": now},
    )
    if cast(Any, inserted).rowcount != 1:
        return
    body.seek(0)
    index = 0
    while chunk := body.read(CHUNK_BYTES):
        session.execute(
            insert_or_ignore(session, BlobChunkRow),
            {"sha256": sha256, "idx": index, "data": chunk},
        )
        index += 1


def get_for_node(session: Session, sha256: str, node_id: str) -> BlobRow:
    """Return the bundle, for a node that runs it or is asked for the layers of its model. Raises
    NotFound, also for one that others run: code is not for every machine that has joined."""
    runs_it = (
        select(AllocationRow.id)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            AllocationRow.node_id == node_id,
            AllocationRow.observed.not_in(_OVER),
            ExperimentRow.blob_sha256 == sha256,
        )
    )
    lists_its_layers = select(LayerTableRow.id).where(
        LayerTableRow.node_id == node_id,
        LayerTableRow.state == "wanted",
        LayerTableRow.question["code"]["sha256"].as_string() == sha256,
    )
    if session.scalar(runs_it.limit(1)) is None and session.scalar(lists_its_layers) is None:
        raise NotFound("blobs.not_found", "There is no such bundle for this node.")
    return get(session, sha256)


def get(session: Session, sha256: str) -> BlobRow:
    """Raises NotFound."""
    row = session.get(BlobRow, sha256)
    if row is None:
        raise NotFound("blobs.not_found", "There is no such bundle.")
    return row


def stream(database: Database, sha256: str) -> Iterator[bytes]:
    """Return the bundle piece by piece."""
    return chunks.stream(
        database,
        lambda index: select(BlobChunkRow.data).where(
            BlobChunkRow.sha256 == sha256, BlobChunkRow.idx == index
        ),
    )


def list_members(
    session: Session, sha256: str, *, read: Collection[str] = ()
) -> list[ArchiveMember]:
    """Return the files and links of a stored bundle, in archive order; those of `read` with their
    content. Raises NotFound."""
    row = get(session, sha256)
    body = io.BufferedReader(_StoredBlob(session, sha256, row.size_bytes), CHUNK_BYTES)
    return check_bundle(body, read=read)


def check_bundle(body: IO[bytes], *, read: Collection[str] = ()) -> list[ArchiveMember]:
    """Return the files and links of a tar.gz that every agent can unpack (muster.code.archive).
    Raises InvalidRequest or TooLarge."""
    try:
        return check_archive(body, read=read)
    except RefusedArchive as error:
        raise _REFUSALS[error.kind](error) from None


def delete_unused(session: Session, now: dt.datetime, limit: int = ROWS_FIRST) -> int:
    """Delete a bundle that is older than UNUSED_DAYS and that no experiment or schedule refers to; the rows
    deleted.

    It is deleted whole, so that one that is submitted again meanwhile is there or is not: some
    hundred pieces at most.
    """
    old = session.scalar(
        select(BlobRow.sha256)
        .where(
            BlobRow.created_at < now - dt.timedelta(days=UNUSED_DAYS),
            ~exists().where(ExperimentRow.blob_sha256 == BlobRow.sha256),
            ~exists().where(CronScheduleRow.blob_sha256 == BlobRow.sha256),
        )
        .limit(1)
    )
    if old is None:
        return 0
    session.execute(delete(BlobChunkRow).where(BlobChunkRow.sha256 == old))
    session.execute(delete(BlobRow).where(BlobRow.sha256 == old))
    return 1


class Upload:
    """Counts and digests what is written to it. Raises TooLarge past the limit."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self.size_bytes = 0
        self._file = file
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.size_bytes += len(data)
        if self.size_bytes > self._max_bytes:
            raise TooLarge(
                "blobs.too_large",
                f"A bundle may have {self._max_bytes:,} bytes at most.",
                hint="Leave out data and environments with .musterignore.",
            )
        self._digest.update(data)
        self._file.write(data)

    def check(self, sha256: str) -> None:
        """Raises InvalidRequest unless what was written has this digest."""
        if self._digest.hexdigest() != sha256:
            raise InvalidRequest(
                "blobs.wrong_digest", "What arrived does not have the SHA-256 in the address."
            )


def _unsafe(error: RefusedArchive) -> MusterError:
    return InvalidRequest("blobs.unsafe_member", f"The bundle is refused: {error}.")


def _unreadable(error: RefusedArchive) -> MusterError:
    return InvalidRequest("blobs.not_a_bundle", f"The bundle is refused: {error}.")


def _too_many(error: RefusedArchive) -> MusterError:
    return TooLarge(
        "blobs.too_many_files",
        f"The bundle is refused: {error}.",
        hint="Leave out data and environments with .musterignore.",
    )


def _unpacks_too_large(error: RefusedArchive) -> MusterError:
    return TooLarge("blobs.unpacks_too_large", f"The bundle is refused: {error}.")


_REFUSALS: Mapping[str, Callable[[RefusedArchive], MusterError]] = {
    "unsafe": _unsafe,
    "unreadable": _unreadable,
    "too_many": _too_many,
    "too_large": _unpacks_too_large,
}


class _StoredBlob(io.RawIOBase):
    """A stored bundle as a file."""

    def __init__(self, session: Session, sha256: str, size: int) -> None:
        self._session = session
        self._sha256 = sha256
        self._size = size
        self._position = 0
        self._chunk: tuple[int, bytes] = (-1, b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._position >= self._size:
            return 0
        index, start = divmod(self._position, CHUNK_BYTES)
        if self._chunk[0] != index:
            data = self._session.scalar(
                select(BlobChunkRow.data).where(
                    BlobChunkRow.sha256 == self._sha256, BlobChunkRow.idx == index
                )
            )
            self._chunk = (index, data or b"")
        piece = self._chunk[1][start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)
