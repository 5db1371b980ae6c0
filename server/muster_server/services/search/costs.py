"""What a search will take, before it is launched: played with the code that will decide."""

from __future__ import annotations

import dataclasses
import statistics

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster.document.running import BudgetSection
from muster.document.searching import Unit
from muster_server.db.models import AttemptRow, ExperimentRow, PoolRow, ProjectRow, TrialRow
from muster_server.domain.search import PROGRESS, SearchSpec, sampling
from muster_server.domain.search.simulate import Simulation, simulate
from muster_server.domain.states import TrialState
from muster_server.schemas.experiments import SearchCostOut
from muster_server.settings import get_settings

SIMULATED_TRIALS_MAX = 2_000
SIMULATED_MARKS_MAX = 50_000
"""Judgements of trials that are played at most: a preview answers while somebody types."""
MEASURED_TRIALS = 50
"""Number of trials of the latest experiment whose speed is measured."""
_SIMULATION_SEED = 20_240_607


def can_play(spec: SearchSpec) -> bool:
    marks = max((len(bracket.rungs) for bracket in spec.brackets), default=1)
    return (
        spec.max_units is not None
        and spec.trials <= SIMULATED_TRIALS_MAX
        and spec.trials * marks <= SIMULATED_MARKS_MAX
    )


def play(spec: SearchSpec) -> Simulation:
    """Play the whole search with random results that are consistent: who is ahead stays ahead.

    Needs max_units. What is drawn changes nothing of who goes on, so no model is asked for it.
    """
    played = dataclasses.replace(spec, sampler="random", constraints=(), target=None, patience=None)
    return simulate(played, lambda no, _h, _u: sampling.uniform(_SIMULATION_SEED, no))


def expected_cost(
    session: Session, config: ExperimentConfig, spec: SearchSpec
) -> SearchCostOut | None:
    """None where it cannot be told: no length, too large to be played, or run outside."""
    if not can_play(spec) or config.search.runner == "external":
        return None
    assert spec.max_units is not None
    played = play(spec)
    # Every member of a population trains in full, or its successor what is left.
    alike = spec.explore.size if spec.explore is not None else spec.trials
    full_units = alike * spec.max_units
    unit_s, source = _unit_seconds(session, config, spec)
    slots = config.resources.slots
    hours = None if unit_s is None else played.total_units * unit_s * slots / 3600
    pool = session.get(PoolRow, config.resources.pool)
    price = pool.price_per_slot_hour if pool is not None else 0.0
    cost = hours * price if hours is not None and price > 0 else None
    return SearchCostOut(
        total_units=played.total_units,
        full_units=full_units,
        unit=spec.unit or "",
        unit_s=unit_s,
        unit_s_from=source,
        slot_hours=hours,
        full_slot_hours=None if unit_s is None else full_units * unit_s * slots / 3600,
        cost=cost,
        currency=get_settings().currency,
        duration_s=None if unit_s is None else played.length_units * unit_s,
        within_budget=_within(config.budget, hours, cost),
    )


def _within(budget: BudgetSection | None, hours: float | None, cost: float | None) -> bool | None:
    budget = budget or BudgetSection()
    limits = [
        (known, limit)
        for known, limit in ((hours, budget.slot_hours), (cost, budget.cost))
        if known is not None and limit is not None
    ]
    return all(known <= limit for known, limit in limits) if limits else None


def _unit_seconds(
    session: Session, config: ExperimentConfig, spec: SearchSpec
) -> tuple[float | None, str]:
    """Stated, or the median of what trials took that did the same: (seconds, where from).

    The same: of the latest experiment of this project and name with the same slots per trial and unit.
    A trial's time is that of its attempts from their start to their end, start-up included.
    """
    stated = config.search.unit_s
    if stated is not None:
        return stated, "search.unit_s"
    if spec.unit is None:
        return None, ""
    if spec.unit == "seconds":
        return 1.0, "search.max_length"
    experiments = session.execute(
        select(ExperimentRow.id, ExperimentRow.config)
        .join(ProjectRow, ProjectRow.id == ExperimentRow.project_id)
        .where(
            ProjectRow.name == config.project,
            ExperimentRow.name == config.name,
            ExperimentRow.deleting_at.is_(None),
            ExperimentRow.slots_per_trial == config.resources.slots,
        )
        .order_by(ExperimentRow.id.desc())
        .limit(5)
    ).all()
    for experiment_id, earlier in experiments:
        length = earlier.search.max_length
        if length is None or length.unit != spec.unit:
            continue
        per_unit = _measured(session, experiment_id, spec.unit)
        if per_unit:
            return statistics.median(per_unit), f"experiment {experiment_id}"
    return None, ""


def _measured(session: Session, experiment_id: int, unit: Unit) -> list[float]:
    trials = session.execute(
        select(TrialRow.id, TrialRow.step, TrialRow.epoch, TrialRow.summary)
        .where(TrialRow.experiment_id == experiment_id, TrialRow.state == TrialState.COMPLETED)
        .order_by(TrialRow.id.desc())
        .limit(MEASURED_TRIALS)
    ).all()
    trained: dict[int, float | None] = {
        t.id: t.step if unit == "steps" else t.epoch for t in trials
    }
    if unit in PROGRESS:
        trained = {t.id: t.summary.get(PROGRESS[unit], {}).get("last") for t in trials}
    seconds: dict[int, float] = {}
    for attempt in session.execute(
        select(AttemptRow.trial_id, AttemptRow.started_at, AttemptRow.ended_at).where(
            AttemptRow.trial_id.in_(trained)
        )
    ):
        if attempt.started_at is not None and attempt.ended_at is not None:
            took_s = (attempt.ended_at - attempt.started_at).total_seconds()
            seconds[attempt.trial_id] = seconds.get(attempt.trial_id, 0.0) + took_s
    return [seconds[i] / units for i, units in trained.items() if units and seconds.get(i)]
