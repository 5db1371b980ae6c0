"""Files that lie in the database in pieces, numbered from 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

from sqlalchemy import Select

from muster_server.db.engine import Database

Pieces: TypeAlias = Iterator[bytes]
PIECE_BYTES = 1 << 20
"""Size of every piece but the last."""


def stream(database: Database, chunk: Callable[[int], Select[bytes]], *, start: int = 0) -> Pieces:
    """Yield a file piece by piece, each read in a transaction of its own: a client may take its
    time.

    chunk: number → the query of that piece. The file ends before the first one that is not there.
    start: byte from which on it is wanted; only then must pieces have PIECE_BYTES.
    """
    first, skipped = divmod(start, PIECE_BYTES)
    for index in count(first):
        with database.read() as session:
            data = session.scalar(chunk(index))
        if data is None:
            return
        yield data[skipped:] if index == first else data
