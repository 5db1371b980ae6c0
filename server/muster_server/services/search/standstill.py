"""A search or a single training that stands still: nothing of it runs or is queued, and it is not over."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import AttemptRow, EventRow, ExperimentRow, SearchEventRow, TrialRow
from muster_server.domain.messages import AnyMessage, Message, sentences
from muster_server.domain.search import Searcher
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import TERMINAL_TRIAL, ExperimentState, TrialState

LEAST_S = 60.0
"""Seconds that a search may stand still however short its trials are: the loops take some."""
ATTEMPTS_READ = 1_000
"""Attempts that are looked at for how long a trial of the search runs, the newest."""
AT_REST = (*TERMINAL_TRIAL, TrialState.PAUSED)


def standstill(
    session: Session, experiment: ExperimentRow, by_state: Mapping[str, int], now: dt.datetime
) -> AnyMessage | None:
    """Return why an experiment has stood still for longer than any of its trials ran; None if it moves,
    if a user paused it, or if it is somebody else's turn.

    by_state: number of its trials in each state.
    """
    is_going_on = experiment.state == ExperimentState.RUNNING and experiment.desired == "run"
    is_search = method_of(experiment.config.search.method).is_search
    # A rung pauses trials of a search; that of a single training was paused by somebody.
    if not is_going_on or (not is_search and TrialState.PAUSED in by_state):
        return None
    if experiment.search_state is None or any(state not in AT_REST for state in by_state):
        return None
    if Searcher.from_state(experiment.search_state).expects_points:
        return None
    still_s = (now - _last_moved(session, experiment)).total_seconds()
    if still_s <= max(LEAST_S, _longest_s(session, experiment.id)):
        return None
    minutes, num_unheard = int(still_s // 60), _num_unheard(session, experiment)
    if not is_search:
        reason = Message("experiment.still_open", minutes=minutes)
        advice = Message("help.stop_and_continue")
        if num_unheard:
            advice = Message("help.controller_log")
    elif num_unheard:
        reason = Message("search.still_undecided", minutes=minutes, events=num_unheard)
        advice = Message("help.controller_log")
    else:
        num_paused = by_state.get(TrialState.PAUSED, 0)
        reason = Message("search.still_waiting", minutes=minutes, paused=num_paused)
        advice = Message("help.stop_and_continue")
    return sentences(reason, advice)


def _last_moved(session: Session, experiment: ExperimentRow) -> dt.datetime:
    """Return when anything of a search last happened."""
    found = [
        session.scalar(
            select(func.max(EventRow.at)).where(EventRow.experiment_id == experiment.id)
        ),
        session.scalar(
            select(func.max(SearchEventRow.at)).where(SearchEventRow.experiment_id == experiment.id)
        ),
    ]
    return max([experiment.created_at, *(at for at in found if at is not None)])


def _longest_s(session: Session, experiment_id: int) -> float:
    """Return how many seconds the longest attempt of a search took."""
    attempts = session.execute(
        select(AttemptRow.started_at, AttemptRow.ended_at)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(TrialRow.experiment_id == experiment_id, AttemptRow.started_at.is_not(None))
        .order_by(AttemptRow.id.desc())
        .limit(ATTEMPTS_READ)
    )
    took = ((end - start).total_seconds() for start, end in attempts if start and end)
    return max(took, default=0.0)


def _num_unheard(session: Session, experiment: ExperimentRow) -> int:
    """Return the number of events of which the searcher has not heard."""
    query = select(func.count()).where(
        SearchEventRow.experiment_id == experiment.id, SearchEventRow.seq > experiment.search_seq
    )
    return session.scalar(query) or 0
