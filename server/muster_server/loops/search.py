"""The search loop: every searcher that has something new to hear decides, one by one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import structlog

from muster_server.db.engine import Database
from muster_server.db.leases import Lease
from muster_server.domain.search import take_turn
from muster_server.services.search import concurrency, decide

from .search_worker import SearchWorker

log = structlog.get_logger(__name__)

EXPERIMENTS_PER_PASS = 200
ROOM_EVERY_S = 5.0
"""Seconds after which a search notices slots that came or went."""


def search_pass(
    database: Database, now: dt.datetime, worker: SearchWorker | None = None
) -> list[str]:
    """Run every searcher with unconsumed events, each in a transaction of its own.

    Returns one sentence per decision. Safe to run twice at once: a searcher that another process
    moved on meanwhile is left for the next pass. worker: takes the turns of searches with a costly
    model, whose decisions a later pass carries out.
    """
    with database.read() as session:
        waiting = decide.waiting_experiments(session, EXPERIMENTS_PER_PASS)
    reasons: list[str] = []
    if worker is not None:
        reasons += _carry_out_taken(database, worker, now)
    for experiment_id in waiting:
        if worker is not None and worker.has(experiment_id):
            continue
        try:
            with database.transaction() as session:
                offered = decide.load_turn(session, experiment_id)
                is_for_worker = worker is not None and offered is not None and offered.turn.is_slow
                if offered is not None and not is_for_worker:
                    reasons += decide.finish_turn(session, offered, take_turn(offered.turn), now)
        except decide.Raced:
            log.info("search_raced", experiment_id=experiment_id)
        except (ValueError, KeyError):
            # A state that cannot be read must not keep every other search from deciding.
            log.exception("search_failed", experiment_id=experiment_id)
        else:
            if worker is not None and offered is not None and is_for_worker:
                worker.ask(offered)
    return reasons


def _carry_out_taken(database: Database, worker: SearchWorker, now: dt.datetime) -> list[str]:
    """Carry out what the worker's turn has come to, if it has ended."""
    try:
        ended = worker.collect()
    except (ValueError, KeyError):
        log.exception("search_failed")
        return []
    if ended is None:
        return []
    offered, taken = ended
    try:
        with database.transaction() as session:
            return decide.finish_turn(session, offered, taken, now)
    except decide.Raced:
        log.info("search_raced", experiment_id=offered.experiment_id)
        return []


class SearchLoop:
    """`search_pass` among the other loops."""

    name = "search"
    occasion = None

    def __init__(self, database: Database) -> None:
        self._database = database
        self.worker = SearchWorker(self._wake)

    def rest(self) -> None: ...

    def run(self, *, lease: Lease, now: dt.datetime) -> int:
        return len(search_pass(self._database, now, self.worker))

    def _wake(self) -> None:
        """Have the loops look at once: a turn has been taken."""
        if self._database.on_commit is not None:
            self._database.on_commit(frozenset({"loops"}))


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
