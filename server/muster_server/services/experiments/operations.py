"""Operations on experiments that exist: pause, resume, stop, kill, archive, label.

Each is a check, which says whether it would change anything and refuses where it cannot work, and
the change itself. The same two serve a single request and a bulk one. All of them are harmless to
repeat. What is running is never touched here: these write down what is wanted, and the controller
makes it so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.search import Searcher
from muster_server.domain.states import TERMINAL_EXPERIMENT, TERMINAL_TRIAL
from muster_server.errors import Conflict
from muster_server.services.core.callers import Caller, note

from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from .submission import MAX_LABELS, too_many_labels


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What a label operation does."""

    set: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()

    def applied(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in labels.items() if k not in self.remove}
        return {**kept, **self.set}


@dataclass(frozen=True, kw_only=True)
class ExperimentOperation:
    name: str
    """For the audit trail: "experiments.pause_requested"."""
    check: Callable[[Session, ExperimentRow], bool]
    """Whether it would change anything. Raises Conflict or InvalidRequest."""
    apply: Callable[[Session, ExperimentRow, Caller], None]
    is_end: bool = False
    """Whether it ends the experiment."""


def run(
    session: Session, operation: ExperimentOperation, experiment_id: int, caller: Caller
) -> bool:
    """Do it; whether anything changed. Raises NotFound, Forbidden, Conflict and InvalidRequest."""
    experiment = get_experiment(session, experiment_id)
    require_charge(session, caller.principal, experiment, is_end=operation.is_end)
    if not operation.check(session, experiment):
        return False
    operation.apply(session, experiment, caller)
    note(session, operation.name, experiment_id, caller)
    touch(session, "experiments", f"experiment:{experiment_id}")
    return True


# ---------------------------------------------------------------- pause and resume


def require_managed(experiment: ExperimentRow, verb: str) -> None:
    """Raise Conflict for an experiment that a client outside the cluster runs and reports."""
    if experiment.unmanaged is not None:
        raise Conflict(
            "experiments.unmanaged",
            f"Experiment {experiment.id} runs outside of Muster, which cannot have it {verb}.",
            hint="End it where it runs. If its client is gone, close it.",
        )


def _can_pause(_session: Session, experiment: ExperimentRow) -> bool:
    require_managed(experiment, "paused")
    _require_going_on(experiment, "paused")
    return experiment.desired != "pause"


def _pause(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
    experiment = get_experiment(session, experiment.id, lock=True)
    _require_going_on(experiment, "paused")
    experiment.desired = "pause"
    experiment.reason = f"Pause requested by {caller.principal.name}."
    _tell(session, "experiment.pause_requested", experiment, caller)


def _can_resume(_session: Session, experiment: ExperimentRow) -> bool:
    require_managed(experiment, "resumed")
    _require_going_on(experiment, "resumed", hint="Continue it instead.")
    return experiment.desired == "pause"


def _resume(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
    experiment = get_experiment(session, experiment.id, lock=True)
    _require_going_on(experiment, "resumed", hint="Continue it instead.")
    experiment.desired = "run"
    experiment.reason = f"Resumed by {caller.principal.name}."
    _tell(session, "experiment.resumed", experiment, caller)


def _require_going_on(experiment: ExperimentRow, verb: str, hint: str | None = None) -> None:
    if experiment.state in TERMINAL_EXPERIMENT:
        raise Conflict(
            "experiments.ended",
            f"Experiment {experiment.id} is {experiment.state}; it cannot be {verb} any more.",
            hint=hint,
        )
    if experiment.desired in ("stop", "kill") or experiment.exhausted_reason:
        why = experiment.exhausted_reason or "somebody stopped it"
        raise Conflict(
            "experiments.stopping",
            f"Experiment {experiment.id} is being stopped ({why}); it cannot be {verb} any more.",
            hint="Wait until it has ended, then continue it.",
        )


# ---------------------------------------------------------------- stop and kill


def _can_stop(_session: Session, experiment: ExperimentRow) -> bool:
    require_managed(experiment, "stopped")
    return experiment.state not in TERMINAL_EXPERIMENT and experiment.desired not in (
        "stop",
        "kill",
    )


def _can_kill(_session: Session, experiment: ExperimentRow) -> bool:
    require_managed(experiment, "killed")
    return experiment.state not in TERMINAL_EXPERIMENT and experiment.desired != "kill"


def _end(desired: str, verb: str) -> Callable[[Session, ExperimentRow, Caller], None]:
    def apply(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
        experiment_id, who = experiment.id, caller.principal.name
        # Trials before the experiment: the order in which everybody locks them.
        session.execute(
            update(TrialRow)
            .where(
                TrialRow.experiment_id == experiment_id,
                TrialRow.state.not_in(TERMINAL_TRIAL),
                TrialRow.desired.not_in((desired, "kill")),
            )
            .values(desired=desired, reason=f"{verb} by {who}.")
            .execution_options(synchronize_session=False)
        )
        experiment = get_experiment(session, experiment_id, lock=True)
        if experiment.state in TERMINAL_EXPERIMENT:
            return
        experiment.desired = desired
        experiment.reason = f"{desired.capitalize()} requested by {who}."
        if experiment.search_state is not None:
            searcher = Searcher.from_state(experiment.search_state)
            searcher.close(f"{verb.lower()} by {who}")
            experiment.search_state = searcher.state()
        _tell(session, f"experiment.{desired}_requested", experiment, caller)

    return apply


# ---------------------------------------------------------------- archive and label


def _can_archive(_session: Session, experiment: ExperimentRow) -> bool:
    require_ended(experiment, "archived")
    return experiment.archived_at is None


def _archive(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
    experiment = get_experiment(session, experiment.id, lock=True)
    require_ended(experiment, "archived")
    experiment.archived_at = caller.now


def _unarchive(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
    get_experiment(session, experiment.id, lock=True).archived_at = None


def require_ended(experiment: ExperimentRow, verb: str) -> None:
    """Raises Conflict while it goes on."""
    if experiment.state not in TERMINAL_EXPERIMENT:
        raise Conflict(
            "experiments.not_ended",
            f"Experiment {experiment.id} is {experiment.state}; only one that has ended can be {verb}.",
            hint="Stop it first.",
        )


def label(labels: Labels) -> ExperimentOperation:
    """Set and remove labels; those that are not named stay."""

    def check(_session: Session, experiment: ExperimentRow) -> bool:
        after = labels.applied(experiment.labels)
        if len(after) > MAX_LABELS:
            raise too_many_labels(
                f"Experiment {experiment.id} would have {len(after)} labels; at most {MAX_LABELS} "
                "are possible."
            )
        return after != experiment.labels

    def apply(session: Session, experiment: ExperimentRow, _caller: Caller) -> None:
        experiment = get_experiment(session, experiment.id, lock=True)
        experiment.labels = labels.applied(experiment.labels)

    return ExperimentOperation(name="experiments.labeled", check=check, apply=apply)


def budget(stored: dict[str, Any] | None) -> ExperimentOperation:
    """Replace the budget by what services.quota.budgets.store made of another one."""

    def apply(session: Session, experiment: ExperimentRow, caller: Caller) -> None:
        experiment = get_experiment(session, experiment.id, lock=True)
        experiment.budget = stored
        add_event(
            session,
            "experiment.budget_changed",
            f"{caller.principal.name} changed its budget."
            if stored is not None
            else f"{caller.principal.name} took its budget away.",
            now=caller.now,
            experiment_id=experiment.id,
            data=stored or {},
        )
        touch(session, "loops")

    return ExperimentOperation(
        name="experiments.budget_changed",
        check=lambda _session, experiment: experiment.budget != stored,
        apply=apply,
    )


PAUSE = ExperimentOperation(name="experiments.pause_requested", check=_can_pause, apply=_pause)
RESUME = ExperimentOperation(name="experiments.resumed", check=_can_resume, apply=_resume)
STOP = ExperimentOperation(
    name="experiments.stop_requested",
    check=_can_stop,
    apply=_end("stop", "Stopped"),
    is_end=True,
)
KILL = ExperimentOperation(
    name="experiments.kill_requested",
    check=_can_kill,
    apply=_end("kill", "Killed"),
    is_end=True,
)
ARCHIVE = ExperimentOperation(name="experiments.archived", check=_can_archive, apply=_archive)
UNARCHIVE = ExperimentOperation(
    name="experiments.unarchived",
    check=lambda _session, experiment: experiment.archived_at is not None,
    apply=_unarchive,
)


def _tell(session: Session, kind: str, experiment: ExperimentRow, caller: Caller) -> None:
    add_event(session, kind, experiment.reason, now=caller.now, experiment_id=experiment.id)
    touch(session, "cluster", "loops")
