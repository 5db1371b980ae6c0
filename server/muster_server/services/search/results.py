"""What the trials of a search have come to, in columns: for charts over all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import String, inspect, select, type_coerce
from sqlalchemy.orm import Session

from muster.wire import decode_number
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.search import sampling
from muster_server.domain.search.importance import MIN_TRIALS, importance
from muster_server.domain.search.pareto import front
from muster_server.domain.states import TrialState
from muster_server.schemas.search import (
    ImportanceOut,
    ObjectiveOut,
    ParameterOut,
    SearchResultsOut,
)

from ..core.lookup import get_experiment

IMPORTANCE_TRIALS_MAX = 10_000
"""Importance is computed from the latest so many finished trials."""

_NOT_THERE = object()
_TRIALS = inspect(TrialRow).local_table
_ALL_TRIALS = select(
    _TRIALS.c.id,
    _TRIALS.c.no,
    type_coerce(_TRIALS.c.state, String).label("state"),
    _TRIALS.c.metric,
    _TRIALS.c.step,
    _TRIALS.c.epoch,
    _TRIALS.c.hparams,
    _TRIALS.c.started_at,
    _TRIALS.c.ended_at,
    _TRIALS.c.parent_no,
    _TRIALS.c.generation,
).order_by(_TRIALS.c.no)


def results_out(session: Session, experiment_id: int) -> SearchResultsOut:
    """Return every trial of an experiment in order of number. Raises NotFound."""
    experiment = get_experiment(session, experiment_id)
    parameters, _ = sampling.parse_space(experiment.config.hyperparameters)
    searched = [p for p in parameters if p.kind != "const"]
    # Of ten thousand trials, the mapping of objects would take a third of the time.
    rows = (
        session.connection()
        .execute(_ALL_TRIALS.where(_TRIALS.c.experiment_id == experiment_id))
        .all()
    )
    objectives = _objectives(session, experiment)
    return SearchResultsOut(
        metric_name=experiment.metric_name,
        metric_goal=experiment.metric_goal,
        parameters=[
            ParameterOut(
                name=p.name,
                kind="choice" if p.kind == "choice" else "number",
                log=p.kind == "log" or p.is_log,
                choices=[_text(value) for value in p.values] if p.kind == "choice" else [],
            )
            for p in searched
        ],
        id=[row.id for row in rows],
        no=[row.no for row in rows],
        state=[row.state for row in rows],
        metric=[row.metric for row in rows],
        step=[row.step for row in rows],
        epoch=[row.epoch for row in rows],
        started_at=[row.started_at for row in rows],
        ended_at=[row.ended_at for row in rows],
        parent_no=[row.parent_no for row in rows],
        generation=[row.generation for row in rows],
        objectives=objectives,
        front=_front(objectives, [row.state for row in rows]),
        values=[_column(p, [row.hparams for row in rows]) for p in searched],
    )


def _objectives(session: Session, experiment: ExperimentRow) -> list[ObjectiveOut]:
    wanted = experiment.config.search.objectives
    if not wanted:
        return []
    summaries = session.scalars(
        select(TrialRow.summary)
        .where(TrialRow.experiment_id == experiment.id)
        .order_by(TrialRow.no)
    ).all()
    return [
        ObjectiveOut(
            metric=o.metric,
            goal=o.goal,
            values=[
                decode_number(s[o.metric]["last"]) if o.metric in s else None for s in summaries
            ],
        )
        for o in wanted
    ]


def _front(objectives: Sequence[ObjectiveOut], states: Sequence[str]) -> list[int]:
    if not objectives:
        return []
    rows = [
        row if state == TrialState.COMPLETED else (None,) * len(objectives)
        for state, row in zip(
            states, zip(*(o.values for o in objectives), strict=True), strict=True
        )
    ]
    return front(rows, [o.goal for o in objectives])


def importance_out(session: Session, experiment_id: int) -> ImportanceOut:
    """Return how much of the metric's good values each hyperparameter explains. Raises NotFound."""
    experiment = get_experiment(session, experiment_id)
    parameters, _ = sampling.parse_space(experiment.config.hyperparameters)
    rows = session.execute(
        select(TrialRow.hparams, TrialRow.metric)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.metric.is_not(None))
        .order_by(TrialRow.no.desc())
        .limit(IMPORTANCE_TRIALS_MAX)
    ).all()
    found = importance(
        parameters,
        [(row.hparams, row.metric) for row in reversed(rows)],
        goal="max" if experiment.metric_goal == "max" else "min",
    )
    return ImportanceOut(
        num_trials=len(rows), min_trials=MIN_TRIALS, shares=None if found is None else dict(found)
    )


def _column(
    parameter: sampling.SearchParameter, points: Sequence[Mapping[str, Any]]
) -> list[float | str | None]:
    """Return a parameter's value in each of many points; None where it is not there."""
    if len(parameter.path) == 1:
        (name,) = parameter.path
        found = [point.get(name, _NOT_THERE) for point in points]
    else:
        found = [sampling.value_of(point, parameter.path, _NOT_THERE) for point in points]
    if parameter.kind == "choice":
        return [None if at is _NOT_THERE else _text(at) for at in found]
    return [
        at if isinstance(at, int | float) and not isinstance(at, bool) else None for at in found
    ]


def _text(value: Any) -> str:
    # Databases hand the keys of a mapping back in an order of their own.
    return (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )
