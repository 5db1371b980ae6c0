"""What earlier searches have found, as far as it fits into a new one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.search import Warmed, sampling
from muster_server.domain.search.constraints import Constraint
from muster_server.domain.search.rungs import score
from muster_server.domain.states import TrialState
from muster_server.errors import FieldProblem

KNOWN_MAX = 1_000
"""Trials a sampler is told of; of more, the best."""


@dataclass(frozen=True)
class Found:
    event: Warmed
    sentence: str
    """How much of what there was is used, and why not the rest."""


def find(session: Session, config: ExperimentConfig) -> Found | FieldProblem | None:
    """Return the points that `search.warm_start` of a resolved configuration provides; None if it
    is not set, or a problem if they cannot be used.

    Only completed trials with a finite value of the metric count. A point is used if it has a valid
    value, within the bounds, for every hyperparameter of the new space. Constants are those of the
    new space, and hyperparameters unknown to it are left out.
    """
    search = config.search
    warm = search.warm_start
    if warm is None:
        return None
    where = "search.warm_start.experiments"
    parameters, _ = sampling.parse_space(config.hyperparameters)
    constraints = [Constraint(text) for text in search.constraints]
    usable: list[tuple[dict[str, Any], float, str]] = []
    num_seen = 0
    for experiment_id in dict.fromkeys(warm.experiments):
        row = session.get(ExperimentRow, experiment_id)
        if row is None or row.deleting_at is not None:
            return FieldProblem(where, f"experiment {experiment_id} does not exist", None)
        if (row.metric_name, row.metric_goal) != (search.metric, search.goal):
            theirs = f"{row.metric_name} ({row.metric_goal})" if row.metric_name else "no metric"
            return FieldProblem(
                where,
                f"experiment {experiment_id} compares by {theirs}, this search by "
                f"{search.metric} ({search.goal})",
                "name experiments with the same metric and goal",
            )
        for no, hparams, value in session.execute(
            select(TrialRow.no, TrialRow.hparams, TrialRow.metric)
            .where(
                TrialRow.experiment_id == experiment_id,
                TrialRow.state == TrialState.COMPLETED,
                TrialRow.metric.is_not(None),
            )
            .order_by(TrialRow.no)
        ):
            num_seen += 1
            point = fitting(parameters, constraints, hparams)
            if point is not None and math.isfinite(value):
                usable.append((point, value, f"experiment-{experiment_id}-trial-{no}"))
    if not usable:
        hint = "trials count that ran to their end and lie within this space"
        return FieldProblem(where, f"none of their {num_seen} trials can be used", hint)
    best = sorted(usable, key=lambda one: score(one[1], search.goal or "min"))
    known = best[:KNOWN_MAX] if warm.history else []
    first = best[: warm.top]
    event = Warmed(
        known=tuple((point, value) for point, value, _ in known),
        first=tuple((point, name) for point, _, name in first),
    )
    sentence = (
        f"Warm start: {len(usable)} of {num_seen} earlier trials fit into this space; "
        f"{len(first)} are tried first, and the sampler is told of {len(known)}."
    )
    return Found(event, sentence)


def fitting(
    parameters: list[sampling.SearchParameter],
    constraints: Sequence[Constraint],
    hparams: dict[str, Any],
) -> dict[str, Any] | None:
    """Return an earlier trial's point in this space; None: it has no place there."""
    missing = object()
    values: dict[tuple[str, ...], Any] = {}
    for p in parameters:
        value = p.values[0] if p.kind == "const" else sampling.value_of(hparams, p.path, missing)
        if value is missing:
            if not p.when:
                return None
            value = p.draw(0.5)  # dropped again unless its condition is met
        values[p.path] = value
    point = sampling.active(parameters, values)
    for p in parameters:
        value = sampling.value_of(point, p.path, missing)
        if value is missing or p.kind == "const":
            continue
        if sampling.value_of(hparams, p.path, missing) is missing:
            return None
        if p.kind == "choice":
            if value not in p.values:
                return None
        elif (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not p.lo <= value <= p.hi
            or (p.kind == "int" and value != int(value))
        ):
            return None
    if sampling.outside(parameters, point) or not all(c.holds(point) for c in constraints):
        return None
    return point
