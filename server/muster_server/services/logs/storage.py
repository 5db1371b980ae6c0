"""Log bytes as they arrive: appended by offset, kept in compressed chunks with a line index.

Reading is in services.logs.reading.
"""

from __future__ import annotations

import datetime as dt
import zlib
from typing import Literal

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from muster.document.roles import member_name
from muster.log_text import visible
from muster.wire import LAUNCHER_LOCAL_RANK
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, LogChunkRow, LogStreamRow, WorkerRow
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.logs.lines import LEVELS, count_levels

CHUNK_BYTES = 65_536
"""Bytes of log per chunk at most: what reading one line has to decompress."""

OPEN_LINE_BYTES = 16_384
"""Maximum number of bytes held of an unfinished line, to judge its level when it ends."""
OPEN_LINE_CHUNKS = 64
"""Pieces that it came in, of those."""

Stream = Literal["stdout", "stderr"]


def append(
    session: Session,
    *,
    allocation: AllocationRow,
    local_rank: int,
    stream: Stream,
    offset: int,
    data: bytes,
    now: dt.datetime,
) -> int:
    """Store `data`, which begins at byte `offset` of the stream; the offset to send from next.

    Only what is new is stored: bytes sent again are passed over, and data beyond a gap is not
    taken. So whatever is sent, and however often, each byte is stored once, and the answer is how
    many are. Concurrent calls for one stream wait for each other.
    """
    row = _locked_stream(session, allocation, local_rank, stream)
    rank = _rank_of(session, allocation, local_rank)
    if row.rank != rank:
        row.rank = rank
    if not row.size_bytes - len(data) < offset <= row.size_bytes:
        return row.size_bytes
    new = memoryview(data)[row.size_bytes - offset :]

    last = session.execute(
        select(
            LogChunkRow.offset,
            LogChunkRow.first_line,
            LogChunkRow.num_newlines,
            LogChunkRow.received_at,
            *(getattr(LogChunkRow, f"num_{level}") for level in LEVELS),
        )
        .where(LogChunkRow.stream_id == row.id)
        .order_by(LogChunkRow.offset.desc())
        .limit(1)
    ).first()
    line = last.first_line + last.num_newlines if last else 0
    # Lines are ordered by this time; a clock that was set back must not reorder them.
    received_at = max(now, last.received_at) if last else now
    position = row.size_bytes
    levels = {level: getattr(last, f"num_{level}") if last else 0 for level in LEVELS}
    is_open = last is not None and row.num_lines > line
    begun = _open_line(session, row.id) if is_open and b"\n" in data else b""
    chunks = []
    for at in range(0, len(new), CHUNK_BYTES):
        piece = bytes(new[at : at + CHUNK_BYTES])
        num_newlines = piece.count(b"\n")
        if num_newlines:
            for level, num in count_levels(visible(begun + piece)).items():
                levels[level] += num
        begun = (b"" if num_newlines else begun) + piece[piece.rfind(b"\n") + 1 :]
        begun = begun[-OPEN_LINE_BYTES:]
        chunks.append(
            {
                "stream_id": row.id,
                "offset": position,
                "length": len(piece),
                "first_line": line,
                "num_newlines": num_newlines,
                **{f"num_{level}": num for level, num in levels.items()},
                "received_at": received_at,
                "data": zlib.compress(piece, 1),
            }
        )
        position += len(piece)
        line += num_newlines
    session.execute(insert(LogChunkRow.__table__), chunks)  # type: ignore[arg-type]
    row.size_bytes = position
    row.num_lines = line + (0 if data.endswith(b"\n") else 1)
    touch(session, f"trial:{allocation.trial_id}:logs")
    return position


def _open_line(session: Session, stream_id: int) -> bytes:
    """Return the end of the stream after its last line end: at most OPEN_LINE_BYTES of
    OPEN_LINE_CHUNKS. A line that came in more pieces is judged by its last ones."""
    chunks = session.execute(
        select(LogChunkRow.data, LogChunkRow.num_newlines)
        .where(LogChunkRow.stream_id == stream_id)
        .order_by(LogChunkRow.offset.desc())
        .limit(OPEN_LINE_CHUNKS)
    )
    begun = b""
    for data, num_newlines in chunks:
        piece = zlib.decompress(data)
        begun = piece[piece.rfind(b"\n") + 1 :] + begun
        if num_newlines or len(begun) >= OPEN_LINE_BYTES:
            break
    return begun[-OPEN_LINE_BYTES:]


def _locked_stream(
    session: Session, allocation: AllocationRow, local_rank: int, stream: Stream
) -> LogStreamRow:
    wanted = (
        select(LogStreamRow)
        .where(
            LogStreamRow.allocation_id == allocation.id,
            LogStreamRow.local_rank == local_rank,
            LogStreamRow.stream == stream,
        )
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    row = session.scalars(wanted).first()
    if row is None:
        session.execute(
            insert_or_ignore(session, LogStreamRow),
            {
                "allocation_id": allocation.id,
                "trial_id": allocation.trial_id,
                "attempt_no": allocation.attempt_no,
                "node_name": allocation.node_name,
                "local_rank": local_rank,
                "rank": _rank_of(session, allocation, local_rank),
                "member": _member_of(allocation, local_rank),
                "stream": stream,
                "size_bytes": 0,
                "num_lines": 0,
                "is_complete": False,
            },
        )
        row = session.scalars(wanted).one()
    return row


def _rank_of(session: Session, allocation: AllocationRow, local_rank: int) -> int:
    if local_rank == LAUNCHER_LOCAL_RANK:
        # The command of a member of a role is all that it is.
        return allocation.rank_offset if allocation.role else -1
    reported = session.scalar(
        select(WorkerRow.rank).where(
            WorkerRow.allocation_id == allocation.id, WorkerRow.local_rank == local_rank
        )
    )
    return allocation.rank_offset + local_rank if reported is None else reported


def _member_of(allocation: AllocationRow, local_rank: int) -> str:
    return (
        member_name(allocation.role, allocation.role_index, local_rank, len(allocation.slots))
        if allocation.role
        else ""
    )
