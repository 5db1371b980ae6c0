"""The search loop: every searcher that has something new to hear decides, one by one."""

from __future__ import annotations

import datetime as dt

import structlog

from muster_server.db.engine import Database
from muster_server.services import search

log = structlog.get_logger(__name__)

EXPERIMENTS_PER_PASS = 200


def search_pass(database: Database, now: dt.datetime) -> list[str]:
    """Run every searcher with unconsumed events, each in a transaction of its own.

    Returns one sentence per decision. Safe to run twice at once: a searcher that another process
    moved on meanwhile is left for the next pass.
    """
    with database.read() as session:
        waiting = search.waiting_experiments(session, EXPERIMENTS_PER_PASS)
    reasons: list[str] = []
    for experiment_id in waiting:
        try:
            with database.transaction() as session:
                reasons += search.run_search(session, experiment_id, now)
        except search.Raced:
            log.info("search_raced", experiment_id=experiment_id)
        except (ValueError, KeyError):
            # A state that cannot be read must not keep every other search from deciding.
            log.exception("search_failed", experiment_id=experiment_id)
    return reasons
