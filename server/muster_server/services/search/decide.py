"""Letting searchers decide on what they have heard, and carrying it out.

`run_search` consumes the events of `search_events` in order, in one transaction with its effects.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ScalarResult, Table, bindparam, select, update
from sqlalchemy.orm import Session, undefer

from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, SearchEventRow, TrialRow
from muster_server.domain.messages import Message, to_columns
from muster_server.domain.search import (
    Action,
    ContinueTrial,
    CreateTrial,
    Finish,
    PauseTrial,
    ResumeTrial,
    SearchTurn,
    StopTrial,
    TurnTaken,
    action_to_json,
    take_turn,
)
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL, TrialState

from ..core.events import add_event
from . import reuse
from .events import on_trial_paused

EVENTS_PER_RUN = 1_000
_WAITING = (
    select(ExperimentRow.id)
    .where(
        ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
        select(SearchEventRow.seq)
        .where(
            SearchEventRow.experiment_id == ExperimentRow.id,
            SearchEventRow.seq > ExperimentRow.search_seq,
        )
        .exists(),
    )
    .order_by(ExperimentRow.id)
    .limit(bindparam("most"))
)
_events = cast(Table, SearchEventRow.__table__)
_NOTE_ACTIONS = (
    update(_events)
    .where(_events.c.experiment_id == bindparam("key_id"), _events.c.seq == bindparam("key_seq"))
    .values(actions=bindparam("actions", type_=_events.c.actions.type))
)


class Raced(Exception):
    """Somebody else changed the search meanwhile: roll back, the next pass starts afresh."""


def waiting_experiments(session: Session, limit: int) -> list[int]:
    """Return the experiments with events their searcher has not consumed."""
    return list(session.connection().scalars(_WAITING, {"most": limit}))


def run_search(session: Session, experiment_id: int, now: dt.datetime) -> list[str]:
    """Let one searcher consume its events; the reasons of what it decided, for the log.

    Raises Raced when the experiment changed while deciding; the transaction must be rolled back.
    """
    offered = load_turn(session, experiment_id)
    return finish_turn(session, offered, take_turn(offered.turn), now) if offered else []


@dataclass(frozen=True, kw_only=True)
class OfferedTurn:
    """A turn of a search, and what tells whether it is still the next one when it has been taken."""

    experiment_id: int
    search_seq: int
    """The last event that the searcher has heard."""
    seqs: tuple[int, ...]
    """Numbers of the events of the turn."""
    turn: SearchTurn


def load_turn(session: Session, experiment_id: int) -> OfferedTurn | None:
    """Return the next turn of a search; None if there is nothing new to hear."""
    experiment = session.get(
        ExperimentRow,
        experiment_id,
        populate_existing=True,
        options=[undefer(ExperimentRow.search_state)],
    )
    if experiment is None or experiment.search_state is None:
        return None
    rows = session.execute(
        select(SearchEventRow.seq, SearchEventRow.event)
        .where(
            SearchEventRow.experiment_id == experiment_id,
            SearchEventRow.seq > experiment.search_seq,
        )
        .order_by(SearchEventRow.seq)
        .limit(EVENTS_PER_RUN)
    ).all()
    if not rows:
        return None
    return OfferedTurn(
        experiment_id=experiment_id,
        search_seq=experiment.search_seq,
        seqs=tuple(row.seq for row in rows),
        turn=SearchTurn(
            state=experiment.search_state,
            closing=_closing(experiment),
            events=tuple(row.event for row in rows),
        ),
    )


def finish_turn(
    session: Session, offered: OfferedTurn, taken: TurnTaken, now: dt.datetime
) -> list[str]:
    """Carry out what a searcher has decided, and store what it knows now; the reasons, for the log.

    Raises Raced when that turn is not the next one any more; the transaction must be rolled back.
    """
    experiment = session.get(ExperimentRow, offered.experiment_id)
    if (
        experiment is None
        or experiment.search_seq != offered.search_seq
        or _closing(experiment) != offered.turn.closing
    ):
        raise Raced
    session.connection().execute(
        _NOTE_ACTIONS,
        [
            {"key_id": experiment.id, "key_seq": seq, "actions": [action_to_json(a) for a in some]}
            for seq, some in zip(offered.seqs, taken.heard, strict=True)
        ],
    )
    decided = [*taken.closing, *(action for some in taken.heard for action in some)]
    if taken.without_model and any(isinstance(action, CreateTrial) for action in decided):
        add_event(
            session,
            "search.without_model",
            f"The next hyperparameters were drawn at random: {taken.without_model}.",
            now=now,
            level="warning",
            experiment_id=experiment.id,
        )
    carry_out(session, experiment, decided, now)
    save_search(session, experiment, taken.state, offered.seqs[-1])
    return [f"experiment {experiment.id}: {describe(action)}" for action in decided]


def _closing(experiment: ExperimentRow) -> str:
    """Return why a search ends before it hears another event; "" if it goes on."""
    if experiment.desired in ("stop", "kill"):
        return "stopped by a user"
    return experiment.exhausted_reason


def carry_out(
    session: Session, experiment: ExperimentRow, actions: Sequence[Action], now: dt.datetime
) -> None:
    """Make trials and stop requests of a searcher's decisions. Trials are locked first."""
    stops = {a.no: a.reason for a in actions if isinstance(a, StopTrial)}
    if stops:
        _stop_early(session, experiment, stops, now)
    # Of several decisions about a trial the last stands.
    rests = {a.no: a for a in actions if isinstance(a, PauseTrial | ResumeTrial)}
    if rests:
        _pause_and_resume(session, experiment, rests, now)
    again = {a.no: a.reason for a in actions if isinstance(a, ContinueTrial)}
    if again:
        _continue(session, experiment, again, now)
    _create(session, experiment, [a for a in actions if isinstance(a, CreateTrial)], now)
    for action in actions:
        if isinstance(action, Finish):
            add_event(
                session,
                "search.finished",
                f"The search is finished: {action.reason}.",
                now=now,
                experiment_id=experiment.id,
            )
    if actions:
        touch(session, "experiments", f"experiment:{experiment.id}", "cluster", "loops")


def _create(
    session: Session, experiment: ExperimentRow, actions: Sequence[CreateTrial], now: dt.datetime
) -> None:
    """Queue new trials. Where the document says so, those that have been run before take the result."""
    if not actions:
        return
    config = experiment.config
    key_of = reuse.keys_of(config, experiment.blob_sha256)
    new = [_trial_row(experiment, action, key_of, now) for action in actions]
    session.add_all(new)
    session.flush()
    for trial in new:
        source = None
        if config.reuse and experiment.owner_id is not None:
            source = reuse.find(session, trial.reuse_key, config, owner_id=experiment.owner_id)
        if source is not None:
            reuse.take(session, experiment, trial, source, now)
            continue
        if trial.parent_no is not None:
            why = f": a clone of trial {trial.parent_no}"
        else:
            why = ": no finished trial has the same inputs" if config.reuse else ""
        add_event(
            session,
            "trial.created",
            f"Trial {trial.no} is queued{why}.",
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
        )


def save_search(
    session: Session, experiment: ExperimentRow, state: Mapping[str, Any], search_seq: int
) -> None:
    """Store what a searcher knows now, its `state`. Raises Raced when the stored search is not the one read."""
    session.flush()
    result = session.execute(
        update(ExperimentRow)
        .where(
            ExperimentRow.id == experiment.id,
            ExperimentRow.search_seq == experiment.search_seq,
            ExperimentRow.desired == experiment.desired,
            ExperimentRow.exhausted_reason == experiment.exhausted_reason,
        )
        .values(search_state=state, search_seq=search_seq)
        .execution_options(synchronize_session=False)
    )
    if getattr(result, "rowcount", 0) != 1:
        raise Raced


def describe(action: Action) -> str:
    if isinstance(action, CreateTrial):
        return f"create {action.reason}"
    if isinstance(action, StopTrial):
        return f"stop trial {action.no}: {action.reason}"
    if isinstance(action, PauseTrial):
        return f"pause trial {action.no}: {action.reason}"
    if isinstance(action, ResumeTrial):
        return f"send trial {action.no} on: {action.reason}"
    if isinstance(action, ContinueTrial):
        return f"continue trial {action.no}: {action.reason}"
    return f"finish: {action.reason}"


def _locked(
    session: Session, experiment: ExperimentRow, numbers: Iterable[int]
) -> ScalarResult[TrialRow]:
    """Return these trials as they are now, kept so until the transaction ends."""
    return session.scalars(
        select(TrialRow)
        .where(TrialRow.experiment_id == experiment.id, TrialRow.no.in_(numbers))
        .order_by(TrialRow.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def _stop_early(
    session: Session, experiment: ExperimentRow, stops: dict[int, str], now: dt.datetime
) -> None:
    for trial in _locked(session, experiment, stops):
        if trial.state in TERMINAL_TRIAL or trial.desired not in ("run", "pause"):
            continue
        trial.desired = "early"
        trial.reason = f"Stopped early: {stops[trial.no]}."
        add_event(
            session,
            "trial.stopped_early",
            trial.reason,
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )
        touch(session, f"trial:{trial.id}")


def _pause_and_resume(
    session: Session,
    experiment: ExperimentRow,
    actions: dict[int, PauseTrial | ResumeTrial],
    now: dt.datetime,
) -> None:
    """Let trials wait at their rung without slots, or go on from it."""
    for trial in _locked(session, experiment, actions):
        action = actions[trial.no]
        is_resumed = isinstance(action, ResumeTrial)
        if trial.state in TERMINAL_TRIAL:
            continue
        if not is_resumed and trial.state == TrialState.PAUSED:
            # Before the searcher knew that it had reached its rung: nothing is left to wait for.
            on_trial_paused(session, trial, now)
        if trial.desired != ("pause" if is_resumed else "run"):
            continue
        trial.desired = "run" if is_resumed else "pause"
        trial.reason = f"{'Sent on' if is_resumed else 'Paused'}: {action.reason}."
        add_event(
            session,
            "trial.sent_on" if is_resumed else "trial.paused_at_rung",
            trial.reason,
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
        )
        touch(session, f"trial:{trial.id}")


def _continue(
    session: Session, experiment: ExperimentRow, again: dict[int, str], now: dt.datetime
) -> None:
    """Put ended trials back into the queue, behind those that wait already, with fresh restarts."""
    for trial in _locked(session, experiment, again):
        if trial.state not in TERMINAL_TRIAL:
            continue
        before = trial.state
        trial.state, trial.desired = TrialState.QUEUED, "run"
        trial.waiting_since, trial.queue_no = now, now.timestamp()
        trial.num_continued += 1
        trial.guard_reason = ""
        # What it trains from here on differs from what its key says.
        trial.reuse_key = None
        if trial.reused_from is not None:
            trial.reused_from, trial.summary, trial.step, trial.epoch = None, {}, 0, None
        trial.failures_user = trial.failures_infra = trial.no_progress = 0
        trial.not_before = trial.ended_at = trial.termination = None
        trial.pending_reason, trial.logs_complete, trial.flags = "", False, []
        trial.reason = f"continued after it was {before}"
        add_event(
            session,
            "trial.state",
            f"Trial {trial.no} is QUEUED: {trial.reason}.",
            now=now,
            experiment_id=experiment.id,
            trial_id=trial.id,
            attempt_no=trial.attempt_no or None,
            data={"before": before, "after": TrialState.QUEUED},
        )
        touch(session, f"trial:{trial.id}")


def _trial_row(
    experiment: ExperimentRow, action: CreateTrial, key_of: reuse.KeyOf, now: dt.datetime
) -> TrialRow:
    values: dict[str, Any] = {
        "experiment_id": experiment.id,
        "source_checkpoint_id": action.checkpoint_id
        or (experiment.source or {}).get("checkpoint_id"),
        "parent_no": action.parent_no,
        "point": action.point,
        "generation": action.generation,
        "no": action.no,
        "hparams": action.hparams,
        "seed": action.seed,
        "reuse_key": key_of(action.hparams, action.seed),
        "state": TrialState.QUEUED,
        "queued_at": now,
        "created_at": now,
    }
    if experiment.config.search.runner == "external":
        values["is_external"] = True
        waits, advice = Message("pending.external"), Message("help.ask")
        reason = Message("all.advised", reason=waits, advice=advice)
        values["pending_reason"], values["pending_parts"] = to_columns(reason)
    return TrialRow(**values)
