"""Changing a search while it goes on: its limits, a point of one's own, a trial sent on.

Each is an event its searcher hears in order with all others, so that what follows from it is decided
in one place and survives a crash like everything else.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, SearchEventRow, TrialRow
from muster_server.domain.search import (
    Closed,
    Enqueued,
    Event,
    Limited,
    Promoted,
    Roomed,
    Searcher,
    sampling,
)
from muster_server.domain.search.methods import WAITING, method_of
from muster_server.domain.states import TERMINAL_EXPERIMENT
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.ask_tell import PointOut
from muster_server.schemas.operations import EnqueueIn, SearchLimitsIn

from ..core.callers import Caller, note
from ..core.lookup import get_experiment, get_trial
from ..core.ownership import require_charge
from ..documents import search_spec
from ..search import concurrency, events

ENQUEUED_MAX = 1_000
"""Points that may wait to be tried."""
POINT_KEY = "point:"
"""Before a point's name: the key of the event by which it was enqueued."""


def set_limits(session: Session, experiment_id: int, body: SearchLimitsIn, caller: Caller) -> None:
    """Raises NotFound, Forbidden, Conflict and InvalidRequest."""
    experiment, searcher = _going_on(session, experiment_id, caller)
    config, search = experiment.config, experiment.config.search
    if body.trials is not None and body.trials != searcher.spec.trials:
        _require_trials(searcher, body.trials)
        search = replace(search, trials=body.trials)
        if searcher.spec.rule in ("stopping", "promotion"):
            # More trials make room for more rungs; those of a search that goes on stay.
            search = replace(search, rungs=len(searcher.spec.rungs))
        if search_spec(replace(config, search=search)).rungs != searcher.spec.rungs:
            raise _invalid(
                "trials",
                f"of {body.trials} would leave rungs without trials",
                "stop the search, or lower concurrent",
            )
    follows = body.concurrent == "auto"
    if follows and search.runner == "external":
        raise _invalid("concurrent", "cannot go by slots: its trials are run outside", "a number")
    if body.concurrent is not None:
        search = replace(search, concurrent=None if body.concurrent == "auto" else body.concurrent)
        config = replace(config, search=search)
        experiment.search_room = concurrency.room_now(
            session, config, experiment_id, user_id=experiment.owner_id, now=caller.now
        )
    experiment.config = replace(config, search=search)
    if follows:
        _tell(session, experiment, Roomed(room=experiment.search_room or 0), caller)
    concurrent = None if body.concurrent == "auto" else body.concurrent
    event = Limited(trials=body.trials, concurrent=concurrent, follows=follows)
    _tell(session, experiment, event, caller)
    note(session, "search.limits_set", experiment_id, caller, body.model_dump(exclude_none=True))


def enqueue(session: Session, experiment_id: int, body: EnqueueIn, caller: Caller) -> str:
    """Return the point's name. Raises NotFound, Forbidden, Conflict and InvalidRequest."""
    point = body.point or secrets.token_hex(8)
    if _is_known(session, experiment_id, point, body.hparams):
        return point
    experiment, searcher = _going_on(session, experiment_id, caller)
    is_external = searcher.spec.sampler == "external"
    if not method_of(searcher.spec.method).is_counted_by_document and not is_external:
        raise Conflict(
            "search.fixed",
            f"A search by {searcher.spec.method} makes the trials it makes, and no others.",
            hint="Submit the point as an experiment of its own, or fork this one.",
        )
    waiting = searcher.num_enqueued + _num_unheard(session, experiment)
    if waiting >= ENQUEUED_MAX:
        raise Conflict(
            "search.too_many_enqueued", f"{ENQUEUED_MAX} points are waiting to be tried already."
        )
    if is_external and searcher.num_created + waiting >= searcher.spec.trials:
        raise Conflict(
            "search.all_points_given",
            f"All {searcher.spec.trials} trials of this search have their points.",
            hint="Raise search.trials: PUT …/search/limits.",
        )
    parameters, _ = sampling.parse_space(searcher.spec.space)
    problems = sampling.outside(parameters, body.hparams)
    if problems:
        raise InvalidRequest(
            "search.invalid_point",
            "This point is not one of the search's space.",
            fields=[FieldProblem(f"hparams.{p.path}", p.message, p.hint) for p in problems],
        )
    hparams = sampling.with_constants(parameters, body.hparams)
    event = Enqueued(hparams=hparams, point=point)
    _tell(session, experiment, event, caller, key=f"{POINT_KEY}{point}")
    note(session, "search.trial_enqueued", experiment_id, caller, {"hparams": hparams})
    return point


def close(session: Session, experiment_id: int, caller: Caller) -> None:
    """Let no more trials be created: those there are run to their end, and the search with them.

    Of a search that is over already nothing changes. Raises NotFound, Forbidden and Conflict.
    """
    experiment = get_experiment(session, experiment_id)
    state = experiment.search_state
    if state is not None and Searcher.from_state(state).is_finished:
        return
    experiment, searcher = _going_on(session, experiment_id, caller)
    if not method_of(searcher.spec.method).may_close and searcher.spec.sampler != "external":
        raise Conflict(
            "search.fixed",
            f"A search by {searcher.spec.method} makes the trials it makes, and no fewer.",
            hint="Stop the experiment instead.",
        )
    _tell(session, experiment, Closed(), caller, key=f"closed:{experiment.num_continued}")
    note(session, "search.closed", experiment_id, caller, {})


def find_point(session: Session, experiment_id: int, point: str) -> PointOut:
    """Raises NotFound."""
    get_experiment(session, experiment_id)
    key = f"{POINT_KEY}{point}"
    known = select(SearchEventRow.seq).where(
        SearchEventRow.experiment_id == experiment_id, SearchEventRow.key == key
    )
    if session.scalar(known) is None:
        raise NotFound(
            "search.no_such_point", f"Experiment {experiment_id} has no point {point!r}."
        )
    trial = session.scalar(
        select(TrialRow).where(TrialRow.experiment_id == experiment_id, TrialRow.point == point)
    )
    if trial is None:
        return PointOut(
            point=point, trial_id=None, trial_no=None, state=None, metric=None, reason=""
        )
    return PointOut(
        point=point,
        trial_id=trial.id,
        trial_no=trial.no,
        state=trial.state,
        metric=trial.metric,
        reason=trial.reason,
    )


def _is_known(session: Session, experiment_id: int, point: str, hparams: dict[str, Any]) -> bool:
    """Return whether this point was enqueued before.

    Raises Conflict if the name was given to a point with other hyperparameters.
    """
    event = session.scalar(
        select(SearchEventRow.event).where(
            SearchEventRow.experiment_id == experiment_id,
            SearchEventRow.key == f"{POINT_KEY}{point}",
        )
    )
    if event is None:
        return False
    if any(event["hparams"].get(name) != value for name, value in hparams.items()):
        raise Conflict(
            "search.point_exists",
            f"Point {point} of experiment {experiment_id} has other hyperparameters.",
            hint="Give the new one another name.",
        )
    return True


def _num_unheard(session: Session, experiment: ExperimentRow) -> int:
    """Return the number of enqueued points of which the searcher has not heard yet."""
    query = select(func.count()).where(
        SearchEventRow.experiment_id == experiment.id,
        SearchEventRow.seq > experiment.search_seq,
        SearchEventRow.key.startswith(POINT_KEY),
    )
    return session.scalar(query) or 0


def promote(session: Session, trial_id: int, caller: Caller) -> None:
    """Send a trial on that waits at its rung. Raises NotFound, Forbidden and Conflict."""
    trial = get_trial(session, trial_id)
    experiment, searcher = _going_on(session, trial.experiment_id, caller)
    if trial.no not in searcher.waiting or searcher.spec.rule not in WAITING:
        raise Conflict(
            "search.not_waiting",
            f"Trial {trial.no} does not wait at a rung: it is {trial.state}.",
            hint="Only searches with `variant: promotion`, and hyperband, let trials wait.",
        )
    _tell(session, experiment, Promoted(trial_no=trial.no), caller)
    trial.reason = (
        f"Sent on by {caller.principal.name}: goes on when the search has a place for it."
    )
    touch(session, f"trial:{trial.id}")
    note(session, "search.trial_promoted", experiment.id, caller, {"trial_no": trial.no})


def _going_on(
    session: Session, experiment_id: int, caller: Caller
) -> tuple[ExperimentRow, Searcher]:
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    searcher = Searcher.from_state(experiment.search_state) if experiment.search_state else None
    if (
        searcher is None
        or searcher.is_finished
        or experiment.state in TERMINAL_EXPERIMENT
        or experiment.desired in ("stop", "kill")
    ):
        raise Conflict(
            "search.finished",
            f"The search of experiment {experiment_id} is over.",
            hint="Continue the experiment with more trials, or fork it.",
        )
    return experiment, searcher


def _require_trials(searcher: Searcher, trials: int) -> None:
    spec = searcher.spec
    if spec.has_fixed_trials:
        brackets = " with several brackets" if len(spec.brackets) > 1 else ""
        raise _invalid(
            "trials", f"of a search by {spec.method}{brackets} follow from its document", "fork it"
        )
    if trials < searcher.num_created:
        raise _invalid(
            "trials",
            f"is {trials}, and there are {searcher.num_created} already",
            f"{searcher.num_created} creates no more of them",
        )


def _tell(
    session: Session,
    experiment: ExperimentRow,
    event: Event,
    caller: Caller,
    *,
    key: str | None = None,
) -> None:
    """Record an event of the search.

    key: identifies an event that counts only once, however often it is requested; None makes each
    request count.
    """
    key = key or f"user:{secrets.token_hex(8)}"
    events.append(session, experiment.id, key, event, caller.now)
    touch(session, f"experiment:{experiment.id}", "loops")


def _invalid(path: str, message: str, hint: str) -> InvalidRequest:
    fields: list[Any] = [FieldProblem(path, message, hint)]
    return InvalidRequest("search.invalid_limits", "The search cannot change so.", fields=fields)
