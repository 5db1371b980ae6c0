"""A search whose trials somebody outside runs: trials are asked for, and their results told.

The same searcher decides, on the same events in the same order, as for trials on the cluster; only
who runs them differs. So rungs, budgets, views and crashes are as everywhere. Both calls let the
searcher decide before they answer, and both may be repeated: a value counts once per rung, an end
once, and an ask with the same Idempotency-Key hands out the same trials.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.searching import Unit
from muster.wire import decode_number, encode_number
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.lifecycle import (
    LifecyclePolicy,
    LifecycleSnapshot,
    LifecycleStep,
    SetTrial,
    TrialView,
    decide,
)
from muster_server.domain.messages import Message
from muster_server.domain.search import PROGRESS, Searcher, SearchSpec
from muster_server.domain.search.failures import nearest_metric
from muster_server.domain.states import TERMINAL_TRIAL, Termination, TrialState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.ask_tell import AskedTrial, AskIn, AskOut, TellIn, TellOut

from ..core import idempotency
from ..core.callers import Caller
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from ..documents import search_spec
from ..lifecycle import apply_step
from ..metrics.external import store_told
from ..metrics.ingest import MetricUpdate
from ..metrics.summaries import add_value
from ..search import decide as search
from ..search import events, notices

_ENDS: Mapping[str, tuple[TrialState, Termination, str]] = {
    "completed": (TrialState.COMPLETED, Termination.SUCCESS, "told that it is complete"),
    "failed": (TrialState.FAILED, Termination.USER_ERROR, "told that it failed"),
    "invalid": (
        TrialState.FAILED,
        Termination.INVALID_HPARAMS,
        "told that its hyperparameters cannot work",
    ),
}


def ask(
    session: Session,
    experiment_id: int,
    body: AskIn,
    caller: Caller,
    *,
    idempotency_key: str | None = None,
) -> AskOut:
    """Hand out trials to run. Raises NotFound, Forbidden, Conflict and search.Raced."""
    request = {"operation": f"ask:{experiment_id}", "body": body.model_dump(mode="json")}
    user_id = caller.principal.user_id
    earlier = idempotency.claim(session, user_id, idempotency_key, request, caller.now)
    if earlier is not None:
        return AskOut.model_validate(earlier.answer)
    experiment = _external(session, experiment_id, caller)
    spec = search_spec(experiment.config)
    _give_up_silent(session, experiment, caller.now)
    search.run_search(session, experiment_id, caller.now)
    answer = _hand_out(session, experiment, spec, body, caller)
    idempotency.settle(session, user_id, idempotency_key, answer=answer.model_dump(mode="json"))
    return answer


def tell(session: Session, experiment_id: int, body: TellIn, caller: Caller) -> TellOut:
    """Take note of values, or of a trial's end, and say how it goes on.

    Raises NotFound, Forbidden, Conflict, InvalidRequest and search.Raced.
    """
    experiment = _external(session, experiment_id, caller)
    spec = search_spec(experiment.config)
    trial = _trial(session, experiment_id, body.no)
    if trial.state in TERMINAL_TRIAL:
        return TellOut(decision="over", reason=trial.reason, state=trial.state)
    if trial.state == TrialState.QUEUED:
        raise Conflict(
            "search.not_handed_out",
            f"Trial {trial.no} was not asked for, so there is nothing to tell of it.",
            hint=f"POST /api/v1/experiments/{experiment_id}/search:ask hands it out.",
        )
    hint = _without_metric(experiment, trial, body)
    if hint and body.state == "completed":
        raise InvalidRequest(
            "search.metric_missing",
            f"Trial {body.no} cannot be complete: {hint}",
            hint="Tell the metric with its end, or that it failed.",
        )
    _note_values(session, trial, spec, body, caller.now)
    if body.state != "running" and trial.state == TrialState.RUNNING:
        after, termination, reason = _ENDS[body.state]
        if body.state != "completed":
            reason = body.reason or reason
        set_state(session, trial, after, reason, termination, caller.now)
    session.flush()
    search.run_search(session, experiment_id, caller.now)
    _settle(session, experiment_id, body.no, caller.now)
    session.flush()
    search.run_search(session, experiment_id, caller.now)
    trial = _trial(session, experiment_id, body.no)
    answer = _answer(trial, is_ended=body.state != "running")
    return answer.model_copy(update={"hint": hint})


def _without_metric(experiment: ExperimentRow, trial: TrialRow, body: TellIn) -> str:
    """Return a hint if a trial's reported values lack the metric that the search compares by; "" if
    they do not."""
    told = {*trial.summary, *body.metrics}
    missing = [n for n in notices.metrics_compared(experiment.config) if n not in told]
    if not missing or not (body.metrics or body.state == "completed"):
        return ""
    near = nearest_metric(missing[0], told)
    meant = f" It was told {near}: tell that as {missing[0]}." if near else ""
    return f"it was told no {missing[0]}, by which this search compares its trials.{meant}"


def _answer(trial: TrialRow, *, is_ended: bool) -> TellOut:
    if trial.state == TrialState.RUNNING:
        return TellOut(decision="continue", reason="", state=trial.state)
    if trial.state in (TrialState.PAUSED, TrialState.QUEUED):
        return TellOut(decision="pause", reason=trial.reason, state=trial.state)
    return TellOut(decision="over" if is_ended else "stop", reason=trial.reason, state=trial.state)


# ---------------------------------------------------------------- asking


def _hand_out(
    session: Session, experiment: ExperimentRow, spec: SearchSpec, body: AskIn, caller: Caller
) -> AskOut:
    session.refresh(experiment)
    searcher = Searcher.from_state(experiment.search_state or {})
    if experiment.desired != "run" or experiment.exhausted_reason:
        is_over = experiment.desired != "pause"
        reason = experiment.exhausted_reason or (
            "stopped by a user" if is_over else "paused by a user"
        )
        return AskOut(trials=[], is_over=is_over, reason=reason)
    ready = _trials(session, experiment.id, TrialState.PAUSED, TrialState.QUEUED)
    # Rather finish than begin.
    ready.sort(key=lambda t: (t.state != TrialState.PAUSED, t.queue_no, t.no))
    given: list[AskedTrial] = []
    for trial in (t for t in ready if t.desired == "run"):
        if len(given) == body.count:
            break
        if trial.state == TrialState.PAUSED:
            set_state(
                session, trial, TrialState.QUEUED, trial.reason or "resumed", None, caller.now
            )
        who = f" to {body.by}" if body.by else ""
        set_state(session, trial, TrialState.RUNNING, f"handed out{who}", None, caller.now)
        trial.progress_at = caller.now
        given.append(_asked(trial, spec))
    return AskOut(
        trials=given,
        is_over=searcher.is_finished and not given,
        reason="" if given else _why_none(searcher),
    )


def _why_none(searcher: Searcher) -> str:
    if searcher.is_finished:
        return searcher.finish_reason
    if searcher.expects_points:
        return "no point was enqueued"
    live, limit = searcher.num_live, searcher.at_once
    return f"{live} trials are being run, and search.concurrent is {limit}"


def _asked(trial: TrialRow, spec: SearchSpec) -> AskedTrial:
    return AskedTrial(
        trial_id=trial.id,
        no=trial.no,
        hparams=trial.hparams,
        seed=trial.seed,
        units=_trained(trial, spec.unit) or 0.0,
        max_units=spec.max_units,
        unit=spec.unit,
        marks=list(spec.marks),
    )


def _trained(trial: TrialRow, unit: Unit | None) -> float | None:
    """Return how far a trial has trained, as reported; None if nothing was reported."""
    if unit in PROGRESS:
        known = trial.summary.get(PROGRESS[unit])
        return None if known is None else float(known["last"])
    return trial.epoch if unit == "epochs" else trial.step


def _give_up_silent(session: Session, experiment: ExperimentRow, now: dt.datetime) -> None:
    """Trials of which nothing was told for too long have failed: who ran them is gone."""
    limit_s = experiment.config.search.tell_within_s
    for trial in _trials(session, experiment.id, TrialState.RUNNING):
        heard_at = trial.progress_at or trial.started_at or trial.created_at
        if (now - heard_at).total_seconds() > limit_s:
            reason = f"nothing was told of it for {limit_s:g} s (search.tell_within_s)"
            set_state(session, trial, TrialState.FAILED, reason, Termination.USER_ERROR, now)
    session.flush()


# ---------------------------------------------------------------- telling


def _note_values(
    session: Session, trial: TrialRow, spec: SearchSpec, body: TellIn, now: dt.datetime
) -> None:
    if body.metrics and spec.unit is not None and body.units is None:
        raise InvalidRequest(
            "search.units_missing",
            "Values of a search with a length need to say after how much training.",
            fields=[
                FieldProblem(
                    "units",
                    Message("field.missing"),
                    f"how many {spec.unit} it has trained so far",
                )
            ],
        )
    trial.progress_at = now
    at = _trained(trial, spec.unit)
    is_repeated = body.units is not None and at == body.units
    goes_back = body.units is not None and at is not None and body.units < at
    values = {name: decode_number(value) for name, value in body.metrics.items()}
    new = {
        name: value
        for name, value in values.items()
        if not is_repeated or trial.summary.get(name, {}).get("last") != encode_number(value)
    }
    if values and not is_repeated and not goes_back:
        trial.step = _next_step(trial, spec, body.units)
    if body.units is not None:
        if spec.unit == "epochs":
            trial.epoch = max(trial.epoch or 0.0, body.units)
        elif spec.unit in PROGRESS:
            told = {PROGRESS[spec.unit]: max(at or 0.0, body.units)}
            trial.summary = _merged(trial.summary, told, trial.step)
        else:
            trial.step = max(trial.step, int(body.units))
    trial.summary = _merged(trial.summary, new, trial.step)
    if new and not goes_back:
        # What is told again of a part that was trained twice is in no curve a second time.
        along: dict[str, float] = {}
        if spec.unit not in (None, "steps") and body.units is not None:
            along[f"progress/{spec.unit}"] = body.units
        store_told(session, trial, step=trial.step, values={**along, **new}, at=now)
    updates = [
        MetricUpdate(
            name=name,
            step=int(body.units or 0) if spec.unit == "steps" else trial.step,
            epoch=body.units if spec.unit == "epochs" else trial.epoch,
            value=value,
            progress={spec.unit: body.units} if spec.unit and body.units is not None else {},
        )
        for name, value in values.items()
    ]
    events.on_metrics(session, trial, updates, now)


def _next_step(trial: TrialRow, spec: SearchSpec, units: float | None) -> int:
    """Return the step at which the next values stand in curves.

    For a search in steps, this is the reported step. Otherwise it is the number of whole units, or
    the step after the last one if that is greater.
    """
    if spec.unit == "steps" and units is not None:
        return int(units)
    return max(trial.step + 1, int(units or 0))


def _merged(
    summary: Mapping[str, object], values: Mapping[str, float], step: int
) -> dict[str, object]:
    """Last, least and greatest of each metric, as trials on the cluster have them."""
    return {**summary, **{n: add_value(summary.get(n), v, step) for n, v in values.items()}}


def _settle(session: Session, experiment_id: int, no: int, now: dt.datetime) -> None:
    """Apply at once what the searcher wants of a trial: an external trial has nothing that must end
    first."""
    trial = _trial(session, experiment_id, no)
    if trial.state != TrialState.RUNNING:
        return
    experiment = get_experiment(session, experiment_id)
    view = TrialView(
        id=trial.id,
        no=trial.no,
        experiment_id=experiment_id,
        state=trial.state,
        desired=trial.desired,
        experiment_desired=experiment.desired,
        exhausted_reason=experiment.exhausted_reason,
    )
    snapshot = LifecycleSnapshot(leader_since=now, trials=(view,))
    reason = trial.reason
    for step in decide(snapshot, now=now, policy=LifecyclePolicy()):
        apply_step(session, step, now=now)
        session.refresh(trial)
        # The searcher's sentence says more than who it was.
        trial.reason = reason if trial.desired in ("early", "pause") else trial.reason


# ---------------------------------------------------------------- rows


def _external(session: Session, experiment_id: int, caller: Caller) -> ExperimentRow:
    experiment = get_experiment(session, experiment_id)
    require_charge(session, caller.principal, experiment)
    if experiment.unmanaged is not None:
        raise Conflict(
            "experiments.unmanaged",
            f"Experiment {experiment_id} is reported by a client of its own, with one trial.",
            hint="Submit an experiment with search.runner: external to ask for trials.",
        )
    if experiment.config.search.runner != "external":
        raise Conflict(
            "search.not_external",
            f"The trials of experiment {experiment_id} run on the cluster.",
            hint="Enqueue points and wait for their results, or submit with search.runner: external.",
        )
    return experiment


def _trials(session: Session, experiment_id: int, *states: str) -> list[TrialRow]:
    """Locked: trials before their experiment, always."""
    return list(
        session.scalars(
            select(TrialRow)
            .where(TrialRow.experiment_id == experiment_id, TrialRow.state.in_(states))
            .order_by(TrialRow.id)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
    )


def _trial(session: Session, experiment_id: int, no: int) -> TrialRow:
    trial = session.scalar(
        select(TrialRow)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.no == no)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if trial is None:
        raise NotFound("trials.not_found", f"Experiment {experiment_id} has no trial {no}.")
    return trial


def set_state(
    session: Session,
    trial: TrialRow,
    after: TrialState,
    reason: str,
    termination: Termination | None,
    now: dt.datetime,
) -> None:
    """Take an external trial, which is locked, to a state. Raises Outdated."""
    session.flush()
    action = SetTrial(
        trial_id=trial.id,
        before=trial.state,
        after=after,
        reason=reason,
        termination=termination,
        logs_complete=after in TERMINAL_TRIAL,
    )
    apply_step(session, LifecycleStep(subject=f"trial:{trial.id}", actions=(action,)), now=now)
    session.refresh(trial)
