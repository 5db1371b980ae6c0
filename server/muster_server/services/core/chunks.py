"""Files that lie in the database in pieces, numbered from 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from sqlalchemy import Select

from muster_server.db.engine import Database


def stream(database: Database, chunk: Callable[[int], Select[bytes]]) -> Iterator[bytes]:
    """Yield a file piece by piece, each read in a transaction of its own: a client may take its
    time.

    chunk: number → the query of that piece. The file ends before the first one that is not there.
    """
    for index in count():
        with database.read() as session:
            data = session.scalar(chunk(index))
        if data is None:
            return
        yield data
