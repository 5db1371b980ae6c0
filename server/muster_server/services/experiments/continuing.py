"""Going on with an experiment that has ended: longer, or once more from where it broke off.

The same trials go on in new attempts from their newest checkpoints, so their curves and their
history stay one. What they are trained with stays as well; for other hyperparameters, another
search or other code there is fork.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.codec import dump
from muster.document.common import Length
from muster.document.experiment import ExperimentConfig
from muster.document.searching import SearchLength
from muster_server.db.engine import touch
from muster_server.db.models import CheckpointRow, ExperimentRow, TrialRow
from muster_server.domain.durations import parse_duration
from muster_server.domain.lifecycle.time_limit import ran_for
from muster_server.domain.messages import Message
from muster_server.domain.search import Searcher, SearchSpec
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import TERMINAL_TRIAL, ExperimentState, TrialState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest
from muster_server.schemas.experiments import ExperimentIn
from muster_server.schemas.operations import ContinueIn

from ..checkpoints import holds, lookup
from ..core import idempotency
from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from ..documents import resolve, search_spec
from ..lifecycle.run_times import load_run_times
from ..quota import budgets, spending
from ..search import concurrency
from ..search.decide import carry_out
from .model_uses import kept_models
from .operations import require_ended, require_managed
from .submission import invalid_document, resolve_submission

CHANGEABLE = (
    "entrypoint",
    "launcher",
    "launcher_help",
    "data",
    "trainer.epochs",
    "trainer.steps",
    "search.max_length",
    "search.trials",
    "search.concurrent",
    "max_concurrent",
    "resources",
    "restarts",
    "checkpoints",
    "guards",
    "waste",
    "environment",
    "budget",
    "on_disconnect",
    "stop_grace_s",
    "measure",
    "log_limit_mb",
)
"""What of a document may be another one when its experiment goes on."""
_FORK = "fork it: `muster fork` makes a new experiment from a changed document"


def check(session: Session, experiment: ExperimentRow) -> bool:
    """Return True if the experiment can continue as it is. Raises Conflict if it cannot."""
    require_managed(experiment, "continued")
    require_ended(experiment, "continued")
    holds.require_outputs_unused(session, experiment.id)
    _plan(session, experiment, ContinueIn(), list(_ended_trials(session, experiment)))
    return True


def continue_experiment(
    session: Session,
    experiment_id: int,
    body: ContinueIn,
    caller: Caller,
    *,
    idempotency_key: str | None = None,
) -> None:
    """Let an ended experiment go on. Raises NotFound, Forbidden, Conflict and InvalidRequest."""
    request = {"operation": f"continue:{experiment_id}", "body": body.model_dump(mode="json")}
    user_id = caller.principal.user_id
    if idempotency.claim(session, user_id, idempotency_key, request, caller.now) is not None:
        return
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    require_managed(experiment, "continued")
    require_ended(experiment, "continued")
    holds.require_outputs_unused(session, experiment.id)
    overrides = [*_length_overrides(experiment, body), *body.overrides]
    config = _resolve(session, experiment, overrides, caller)
    if any(o.partition("=")[0].strip().split(".")[0] == "budget" for o in overrides):
        experiment.budget, problem = budgets.store(config.budget, now=caller.now)
        assert problem is None, "checked with the document"
    _require_budget(session, experiment, caller)
    trials = list(_ended_trials(session, experiment))
    is_longer = _is_longer(experiment.config, config)
    experiment.config = config
    experiment.overrides = [*experiment.overrides, *overrides]
    searcher, nos = _plan(session, experiment, body, trials, is_longer=is_longer)
    _require_time(session, config, [t for t in trials if t.no in nos], now=caller.now)
    experiment.search_room = concurrency.room_now(
        session, config, experiment.id, user_id=experiment.owner_id, now=caller.now
    )
    searcher.room = experiment.search_room or 0
    actions = searcher.reopen(search_spec(config), nos)
    before = experiment.state
    experiment.search_state = searcher.state()
    experiment.state, experiment.desired = ExperimentState.QUEUED, "run"
    experiment.ended_at = experiment.archived_at = experiment.termination = None
    experiment.exhausted_reason = experiment.stop_reason = ""
    experiment.waits_for = None
    experiment.num_continued += 1
    experiment.num_guards = len(config.guards)
    experiment.priority = config.resources.priority
    experiment.slots_per_trial = config.resources.slots
    experiment.reason = f"Continued by {caller.principal.name} after it was {before}."
    add_event(
        session,
        "experiment.state",
        f"The experiment is QUEUED: continued by {caller.principal.name} after it was {before}"
        + (f", with {', '.join(overrides)}." if overrides else "."),
        now=caller.now,
        experiment_id=experiment.id,
        data={"before": before, "after": ExperimentState.QUEUED, "overrides": overrides},
    )
    session.flush()
    carry_out(session, experiment, actions, caller.now)
    note(session, "experiments.continued", experiment.id, caller, {"overrides": overrides})
    idempotency.settle(session, user_id, idempotency_key, experiment_id=experiment.id)
    touch(session, "experiments", f"experiment:{experiment.id}", "cluster", "loops")


# ---------------------------------------------------------------- which trials


def _plan(
    session: Session,
    experiment: ExperimentRow,
    body: ContinueIn,
    trials: Sequence[TrialRow],
    *,
    is_longer: bool = False,
) -> tuple[Searcher, list[int]]:
    """Return the searcher, and the trials that go on. Raises Conflict when there is nothing to
    do."""
    if experiment.search_state is None:
        raise Conflict("experiments.nothing_to_continue", "This experiment has no search.")
    searcher = Searcher.from_state(experiment.search_state)
    spec = search_spec(experiment.config)
    chosen = _chosen(body.trials, trials, searcher, spec, is_longer=is_longer)
    if not chosen and searcher.num_created >= spec.trials:
        raise Conflict(
            "experiments.nothing_to_continue",
            f"Every trial of experiment {experiment.id} has run to its end.",
            hint="Give it more length (`--epochs` or `--steps`), name trials, or fork it.",
        )
    for trial in chosen:
        _require_start(session, trial)
    if (
        not method_of(spec.method).is_search
        and experiment.config.trainer is not None
        and not is_longer
        and chosen[0].state == TrialState.COMPLETED
    ):
        raise Conflict(
            "experiments.nothing_to_continue",
            f"Experiment {experiment.id} has trained for all of its length.",
            hint="Give it more length (`--epochs` or `--steps`), or fork it.",
        )
    return searcher, [trial.no for trial in chosen]


def _chosen(
    wanted: Sequence[int] | None,
    trials: Sequence[TrialRow],
    searcher: Searcher,
    spec: SearchSpec,
    *,
    is_longer: bool,
) -> list[TrialRow]:
    if wanted is not None:
        by_no = {trial.no: trial for trial in trials}
        missing = [no for no in wanted if no not in by_no]
        if missing:
            raise _invalid("trials", f"there is no trial {missing[0]} that has ended")
        chosen = [by_no[no] for no in sorted(set(wanted))]
        ranked = {e.trial_no for entries in searcher.rungs for e in entries if e.value is None}
        if spec.rungs and (failed := [t.no for t in chosen if t.no in ranked]):
            raise _invalid("trials", f"trial {failed[0]} failed on a rung and counts as last there")
        return chosen
    if not method_of(spec.method).is_search:
        return list(trials)
    if spec.rungs:
        # Only what was stopped together with the search: it has judged the others.
        open_ones = searcher.unfinished
        return [t for t in trials if t.no in open_ones and t.state == TrialState.CANCELED]
    again = {TrialState.FAILED, TrialState.CANCELED}
    return [t for t in trials if is_longer or t.state in again]


def _ended_trials(session: Session, experiment: ExperimentRow) -> Iterable[TrialRow]:
    return session.scalars(
        select(TrialRow)
        .where(TrialRow.experiment_id == experiment.id, TrialRow.state.in_(TERMINAL_TRIAL))
        .order_by(TrialRow.no)
    )


def _require_start(session: Session, trial: TrialRow) -> None:
    """Raise Conflict if a forked trial without a checkpoint of its own has lost the one it starts
    from."""
    if trial.source_checkpoint_id is None or lookup.newest(session, trial.id) is not None:
        return
    source = session.get(CheckpointRow, trial.source_checkpoint_id)
    if source is None or source.state != "complete":
        raise Conflict(
            "experiments.source_gone",
            f"Trial {trial.no} has no checkpoint of its own, and the one it started from is deleted.",
            hint="Fork it from another checkpoint.",
        )


# ---------------------------------------------------------------- what changes


def _length_overrides(experiment: ExperimentRow, body: ContinueIn) -> list[str]:
    if body.length is None:
        return []
    config = experiment.config
    wanted = body.length.model_dump(exclude_none=True)
    if len(wanted) != 1:
        raise _invalid(
            "length", "needs steps or epochs, one of the two, or samples or seconds of a search"
        )
    ((unit, number),) = wanted.items()
    if unit in config.hyperparameters:
        raise _invalid(f"length.{unit}", f"{unit} is a hyperparameter, which goes before it", _FORK)
    trainer, full = config.trainer, config.search.max_length
    if full is not None:
        if full.unit != unit or full.units is None:
            raise _invalid(f"length.{unit}", f"the length of this search is in {full.unit}")
        _require_more(unit, number, full.units)
        # The trainer takes its length from there unless it was given one of its own.
        mine = [f"trainer.{unit}={number}"] if _is_set(experiment, f"trainer.{unit}") else []
        return [f"search.max_length={json.dumps({unit: number})}", *mine]
    if trainer is None:
        raise _invalid(
            "length",
            "this experiment's own code decides how long it trains",
            "change its arguments: --set 'entrypoint=train.py --epochs 6'",
        )
    present = SearchLength(steps=trainer.steps, epochs=trainer.epochs)
    if present.unit != unit or present.units is None:
        raise _invalid(f"length.{unit}", f"the length of this training is in {present.unit}")
    _require_more(unit, number, present.units)
    return [f"trainer.{unit}={number}"]


def _is_set(experiment: ExperimentRow, path: str) -> bool:
    """Return whether the document or an override sets this value."""
    origins = resolve(experiment.document, experiment.overrides).origins
    return origins.get(path) in ("document", "override")


def _require_more(unit: str, number: int, present: int) -> None:
    if number < present:
        raise _invalid(f"length.{unit}", f"is {number}, less than the present {present}")


def _is_longer(before: ExperimentConfig, after: ExperimentConfig) -> bool:
    """Return whether completed trials have something left to do."""
    return _lengths(before) != _lengths(after)


def _lengths(config: ExperimentConfig) -> tuple[Any, ...]:
    """Return all that decides how long a trial trains."""
    trainer = config.trainer or Length()
    return config.entrypoint, config.search.max_length, trainer.epochs, trainer.steps


def _resolve(
    session: Session, experiment: ExperimentRow, overrides: list[str], caller: Caller
) -> ExperimentConfig:
    """Return the configuration it goes on with. Raises InvalidRequest."""
    if not overrides:
        return experiment.config
    before = [*experiment.overrides]
    source = experiment.config.from_
    if source is not None:
        # Resolved once, to one checkpoint; "the latest" may be another one by now.
        given = {"checkpoint": source.checkpoint, "load": source.load}
        before.append(f"from={json.dumps(given)}")
    submission = ExperimentIn(
        document=experiment.document,
        overrides=[*before, *_without_late_deadline(experiment, overrides)],
        blob_sha256=experiment.blob_sha256,
    )
    resolved = resolve_submission(
        session, submission, user_id=experiment.owner_id, role=caller.principal.role, now=caller.now
    )
    if resolved.config is None:
        raise invalid_document(resolved.problems)
    config = kept_models(experiment.config, replace(resolved.config, from_=source))
    # Not what is stored: a newer version of Muster may have other defaults.
    present = resolve(experiment.document, before).config or experiment.config
    problems = [
        FieldProblem(path, Message("field.fixed"), _FORK)
        for path in _changed_paths(
            dump(replace(present, from_=source, models=experiment.config.models)), dump(config)
        )
        if not any(path == c or path.startswith(f"{c}.") for c in CHANGEABLE)
    ]
    stored, name = experiment.config.search, config.search.method
    method = method_of(name)
    if config.search.trials != stored.trials and not method.may_grow:
        problems.append(
            FieldProblem("search.trials", Message("field.fixed_for_method", method=name), _FORK)
        )
    if method.has_rungs and config.search.max_length != stored.max_length:
        problems.append(
            FieldProblem("search.max_length", f"decides where the rungs of {name} are", _FORK)
        )
    if problems:
        raise invalid_document(problems)
    return config


def _without_late_deadline(experiment: ExperimentRow, overrides: list[str]) -> list[str]:
    """A moment in the document that has passed is no mistake of whoever continues."""
    touches = any(o.partition("=")[0].strip() in ("budget", "budget.deadline") for o in overrides)
    budget = experiment.config.budget
    if touches or budget is None or not budget.deadline:
        return overrides
    return ["budget.deadline=null", *overrides]


def _changed_paths(before: Any, after: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            changed
            for key in sorted(before.keys() | after.keys())
            for changed in _changed_paths(
                before.get(key), after.get(key), f"{path}.{key}" if path else key
            )
        ]
    return [] if before == after else [path]


def _require_budget(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
    spent = spending.of_experiment(session, experiment.id, caller.now)
    reason = budgets.exhausted(
        experiment.budget, spent, since=experiment.created_at, now=caller.now
    )
    if reason:
        raise Conflict(
            "budgets.exhausted",
            f"Experiment {experiment.id} cannot go on. {reason.english}.",
            hint="Raise it: `muster budget`, or `--set budget.slot_hours=…`.",
        )


def _require_time(
    session: Session, config: ExperimentConfig, trials: Sequence[TrialRow], *, now: dt.datetime
) -> None:
    """Raise InvalidRequest if a trial has run for as long as the document allows: it would be stopped
    at once."""
    written = config.resources.max_duration
    if written is None:
        return
    run_times = load_run_times(session, [trial.id for trial in trials])
    for trial in trials:
        if ran_for(run_times.get(trial.id, ()), now=now) >= parse_duration(written):
            raise _invalid(
                "resources.max_duration",
                f"trial {trial.address} has run for {written} already, all attempts together",
                "raise it: `--set resources.max_duration=…`",
            )


def _invalid(path: str, message: str, hint: str | None = None) -> InvalidRequest:
    return InvalidRequest(
        "experiments.cannot_continue",
        "The experiment cannot go on like that.",
        fields=[FieldProblem(path, message, hint)],
    )
