"""Calls that let a searcher decide, while other callers may do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.errors import Conflict
from muster_server.services.core.writes import Outdated
from muster_server.services.search.decide import Raced

T = TypeVar("T")
RACED_TRIES = 20
"""Attempts of a call while other callers advance the same searcher."""


def raced(db: Database, do: Callable[[Session], T]) -> T:
    """Return what `do` returns, done in a transaction that nobody was faster than.

    Raises Conflict after RACED_TRIES attempts.
    """
    for _ in range(RACED_TRIES):
        try:
            with db.transaction() as session:
                return do(session)
        except (Raced, Outdated):
            continue
    raise Conflict(
        "search.busy", "The search was changed by others all the time.", hint="Try again."
    )
