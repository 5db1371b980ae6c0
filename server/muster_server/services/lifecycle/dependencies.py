"""Experiments that wait for others: what the loop reads, and writing what it decided."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from muster.document.experiment import AfterSection
from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, ProjectRow, TrialRow, UserRow
from muster_server.domain.lifecycle.dependencies import (
    CancelDependent,
    Dependency,
    DependencyDecision,
    DependentExperiment,
    ReleaseDependent,
    TellDependent,
    why_never,
)
from muster_server.domain.messages import Message, to_columns
from muster_server.domain.search import Searcher
from muster_server.domain.states import TERMINAL_EXPERIMENT, ExperimentState, TrialState
from muster_server.errors import FieldProblem

from ..core.events import add_event
from ..core.writes import Outdated

_WAITING = (
    select(ExperimentRow.id, ExperimentRow.waits_for)
    .where(
        ExperimentRow.waits_for.is_not(None),
        ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
        ExperimentRow.desired.not_in(("stop", "kill")),
        ExperimentRow.deleting_at.is_(None),
    )
    .order_by(ExperimentRow.id)
)
_OWNERLESS = (
    select(ExperimentRow.id, UserRow.username, TrialRow.pending_reason)
    .join(UserRow, UserRow.id == ExperimentRow.owner_id)
    .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
    .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
    .where(
        UserRow.may_act.is_(False),
        TrialRow.state == TrialState.QUEUED,
        TrialRow.is_external.is_(False),
        # Its trials say what is in the way first.
        ExperimentRow.waits_for.is_(None),
        ProjectRow.exhausted_reason == "",
    )
    .distinct()
)
ANY_DEPENDENT = or_(_WAITING.order_by(None).exists(), _OWNERLESS.exists())
"""Whether an experiment waits for another one, or for its owner's account."""


def load_dependents(session: Session) -> tuple[DependentExperiment, ...]:
    """Return the experiments that wait for others, with the states of those, or for their owner's account."""
    ownerless: dict[tuple[int, str], set[str]] = defaultdict(set)
    for id_, owner, reason in session.execute(_OWNERLESS):
        ownerless[id_, owner].add(reason)
    held = tuple(
        DependentExperiment(id=id_, deactivated_owner=owner, told=frozenset(reasons))
        for (id_, owner), reasons in sorted(ownerless.items())
    )
    rows = session.execute(_WAITING).all()
    if not rows:
        return held
    states = _states(session, [entry["experiment"] for _, waits in rows for entry in waits])
    told: dict[int, set[str]] = defaultdict(set)
    for experiment_id, reason in session.execute(
        select(TrialRow.experiment_id, TrialRow.pending_reason)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(ExperimentRow.waits_for.is_not(None), TrialRow.state == TrialState.QUEUED)
        .distinct()
    ):
        told[experiment_id].add(reason)
    return held + tuple(
        DependentExperiment(
            id=experiment_id,
            dependencies=_dependencies(waits, states),
            told=frozenset(told[experiment_id]),
        )
        for experiment_id, waits in rows
    )


def waiting_for(session: Session, experiment_id: int) -> list[tuple[int, str]]:
    """Return the experiments that wait for one now, oldest first, each with the end it waits for."""
    return [
        (id, entry["when"])
        for id, waits in session.execute(_WAITING)
        for entry in waits
        if entry["experiment"] == experiment_id
    ]


def check_after(session: Session, after: Sequence[AfterSection]) -> list[FieldProblem]:
    """Return what is wrong with the experiments that a document names: they must exist, and it
    must still be possible to start after them."""
    states = _states(session, [entry.experiment for entry in after])
    problems = []
    for index, entry in enumerate(after):
        path = f"after[{index}].experiment"
        if entry.experiment not in states:
            message = Message("field.no_such_experiment", id=entry.experiment)
            problems.append(FieldProblem(path, message))
            continue
        dependency = Dependency(
            experiment_id=entry.experiment, when=entry.when, state=states[entry.experiment]
        )
        if never := why_never([dependency]):
            hint = "write {experiment: …, when: any} to start after it in any case"
            problems.append(FieldProblem(path, f"can never be met: {never}", hint))
    return problems


def waits_of(after: Sequence[AfterSection]) -> list[Any] | None:
    """Return what the column keeps of a document's `after`; None for an experiment that waits for
    no other."""
    return [{"experiment": entry.experiment, "when": entry.when} for entry in after] or None


def apply_dependency(session: Session, decision: DependencyDecision, *, now: dt.datetime) -> None:
    """Write one decision. Raises Outdated when something else was faster."""
    if isinstance(decision, TellDependent):
        reason, parts = to_columns(decision.reason)
        _tell(session, decision.experiment_id, reason, parts)
        touch(session, "cluster", f"experiment:{decision.experiment_id}")
        return
    experiment = session.get(
        ExperimentRow, decision.experiment_id, with_for_update=True, populate_existing=True
    )
    if (
        experiment is None
        or experiment.waits_for is None
        or experiment.state in TERMINAL_EXPERIMENT
        or experiment.desired in ("stop", "kill")
    ):
        raise Outdated(f"experiment {decision.experiment_id} does not wait for others any more")
    experiment.waits_for = None
    if isinstance(decision, ReleaseDependent):
        message = f"It may start: {decision.reason}."
        _tell(session, experiment.id, "", None)
    else:
        message = f"It is canceled: {decision.reason}."
        _cancel(experiment, decision)
    add_event(
        session,
        "experiment.dependency",
        message,
        now=now,
        level="info" if isinstance(decision, ReleaseDependent) else "error",
        experiment_id=experiment.id,
    )
    touch(session, "experiments", f"experiment:{experiment.id}", "cluster", "loops")


def _cancel(experiment: ExperimentRow, decision: CancelDependent) -> None:
    experiment.desired, experiment.stop_reason = "stop", decision.reason
    if experiment.search_state is not None:
        searcher = Searcher.from_state(experiment.search_state)
        searcher.close(decision.reason)
        experiment.search_state = searcher.state()


def _tell(session: Session, experiment_id: int, reason: str, parts: list[Any] | None) -> None:
    session.execute(
        update(TrialRow)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.state == TrialState.QUEUED)
        .values(pending_reason=reason, pending_parts=parts)
        .execution_options(synchronize_session=False)
    )


def _states(session: Session, experiment_ids: Sequence[int]) -> dict[int, ExperimentState]:
    """Return the states of those that exist."""
    ids = sorted(set(experiment_ids))
    found: dict[int, ExperimentState] = {}
    for first in range(0, len(ids), 500):
        found |= dict(
            session.execute(
                select(ExperimentRow.id, ExperimentRow.state).where(
                    ExperimentRow.id.in_(ids[first : first + 500]),
                    ExperimentRow.deleting_at.is_(None),
                )
            ).all()
        )
    return found


def _dependencies(
    waits: Sequence[Any], states: dict[int, ExperimentState]
) -> tuple[Dependency, ...]:
    return tuple(
        Dependency(
            experiment_id=entry["experiment"],
            when=entry["when"],
            state=states.get(entry["experiment"]),
        )
        for entry in waits
    )
