"""The search loop: every searcher that has something new to hear decides, one by one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import structlog

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.services.search import concurrency, decide

log = structlog.get_logger(__name__)

EXPERIMENTS_PER_PASS = 200
ROOM_EVERY_S = 5.0
"""Seconds after which a search notices slots that came or went."""


def search_pass(database: Database, now: dt.datetime) -> list[str]:
    """Run every searcher with unconsumed events, each in a transaction of its own.

    Returns one sentence per decision. Safe to run twice at once: a searcher that another process
    moved on meanwhile is left for the next pass.
    """
    with database.read() as session:
        waiting = decide.waiting_experiments(session, EXPERIMENTS_PER_PASS)
    reasons: list[str] = []
    for experiment_id in waiting:
        try:
            with database.transaction() as session:
                reasons += decide.run_search(session, experiment_id, now)
        except decide.Raced:
            log.info("search_raced", experiment_id=experiment_id)
        except (ValueError, KeyError):
            # A state that cannot be read must not keep every other search from deciding.
            log.exception("search_failed", experiment_id=experiment_id)
    return reasons


class SearchLoop:
    """`search_pass` among the other loops."""

    name = "search"
    occasion = None

    def __init__(self, database: Database) -> None:
        self._database = database

    def rest(self) -> None: ...

    def run(self, *, lease: Lease, now: dt.datetime) -> int:
        return len(search_pass(self._database, now))


class RoomLoop:
    """Notifies searches that depend on free slots when these have changed."""

    def __init__(self, database: Database, monotonic: Callable[[], float]) -> None:
        self._database = database
        self._monotonic = monotonic
        self._looked_at: float | None = None
        self._after = 0

    def run(self, now: dt.datetime) -> int:
        """Run one pass; return the number of notified searches; 0 within ROOM_EVERY_S of the last
        look."""
        at = self._monotonic()
        if self._looked_at is not None and at - self._looked_at < ROOM_EVERY_S:
            return 0
        self._looked_at = at
        with self._database.read() as session:
            changed, self._after = concurrency.find_changes(
                session, after=self._after, limit=EXPERIMENTS_PER_PASS, now=now
            )
        num_told = 0
        for experiment_id, room in changed.items():
            with self._database.transaction() as session:
                num_told += concurrency.tell(session, experiment_id, room, now)
        return num_told
