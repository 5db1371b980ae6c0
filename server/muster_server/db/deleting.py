"""Deleting rows a bounded number at a time, so that no transaction holds SQLite's lock for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session

from .engine import Database
from .models import Base
from .pace import Pace, paced
from .queries.metrics import table_of

ROWS_MAX = 4096
ROWS_FIRST = 512
ROWS_LEAST = 64
"""First and least number of rows that one transaction deletes."""
PIECE_WEIGHT = 64
"""Number of small rows that take as long as one row with a piece of a file, of up to 1 MiB."""
DATA_WEIGHT = 4
"""Number of small rows that take as long as one row with some KiB."""


class Deleter:
    """Deletes rows until the transaction has done enough.

    Delete what refers to rows before the rows themselves: what a cascade deletes is not counted.
    """

    def __init__(self, session: Session, limit: int = ROWS_FIRST) -> None:
        self._session = session
        self._left = limit
        self.num_deleted = 0

    def delete(self, row: type[Base], *where: Any, weight: int = 1) -> bool:
        """Delete rows of a table. Return False if the transaction has done enough, and some may be
        left."""
        if self._left <= 0:
            return False
        limit = max(1, self._left // weight)
        keys = list(table_of(row).primary_key)
        key: Any = keys[0] if len(keys) == 1 else tuple_(*keys)
        done = self._session.execute(
            delete(row)
            .where(key.in_(select(*keys).where(*where).limit(limit)))
            .execution_options(synchronize_session=False)
        )
        num_deleted: int = done.rowcount  # type: ignore[attr-defined]
        self._left -= num_deleted * weight
        self.num_deleted += num_deleted
        return num_deleted < limit


def delete_all(database: Database, some: Callable[[Session, int], int], *, budget_s: float) -> bool:
    """Call `some(session, limit)`, each time in a transaction of its own, until it deletes nothing
    more. False when the time was up before."""
    pace = Pace(ROWS_MAX, first=ROWS_FIRST, least=ROWS_LEAST)
    deadline = time.monotonic() + budget_s
    while True:
        with paced(database, pace) as session:
            if some(session, pace.size) == 0:
                return True
        if time.monotonic() > deadline:
            return False
