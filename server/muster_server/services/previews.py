"""What a document would do, without doing it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy.orm import Session

from muster_server.domain.search import Searcher, SearchSpec, sampling
from muster_server.domain.search.simulate import simulate
from muster_server.schemas.base import FieldError
from muster_server.schemas.experiments import (
    ExperimentIn,
    PlannedTrial,
    PreviewOut,
)

from .documents import search_spec
from .experiments import resolve_submission
from .foresight import Foresight
from .queue import plan_one

SAMPLED_TRIALS = 10
SIMULATED_TRIALS_MAX = 2_000
_SIMULATION_SEED = 20_240_607


def preview_experiment(
    session: Session, body: ExperimentIn, foresight: Foresight, *, now: dt.datetime
) -> PreviewOut:
    """The same checks as a submission, the trials it would create, and where one would run."""
    resolved = resolve_submission(session, body, now=now)
    config = resolved.config
    if config is None:
        return PreviewOut(
            valid=False,
            errors=[
                FieldError(path=p.path, message=p.message, hint=p.hint) for p in resolved.problems
            ],
            config=None,
            origins={},
            num_trials=None,
            num_trials_is_upper_bound=False,
            sampled_trials=[],
            rungs=[],
            plan=[],
            fits_now=False,
            fit_reason="",
            position=None,
            estimated_start_at=None,
            preempts=[],
        )
    spec = search_spec(config)
    planned = plan_one(session, config, foresight, now=now)
    return PreviewOut(
        valid=True,
        errors=[],
        config=config,
        origins=resolved.origins,
        num_trials=spec.trials,
        num_trials_is_upper_bound=False,
        sampled_trials=[PlannedTrial(hparams=h) for h in Searcher(spec).preview(SAMPLED_TRIALS)],
        rungs=expected_rungs(spec),
        plan=list(planned.nodes),
        fits_now=bool(planned.nodes),
        fit_reason=planned.reason,
        position=planned.position,
        estimated_start_at=planned.estimated_start_at,
        preempts=list(planned.preempts),
    )


def expected_rungs(spec: SearchSpec) -> list[dict[str, Any]]:
    """Per rung: its units, how many trials can reach it at most, and how many likely will.

    max_trials is all of them: trials that get better one after the other are never stopped.
    expected_trials comes from playing the search with a random but consistent ranking.
    """
    if not spec.rungs:
        return []
    expected: list[int] = []
    if spec.trials <= SIMULATED_TRIALS_MAX:
        played = simulate(spec, lambda no, _h, _u: sampling.uniform(_SIMULATION_SEED, no))
        expected = played.per_rung
    else:
        expected = [max(spec.trials // spec.divisor**i, 1) for i in range(len(spec.rungs))]
    return [
        {"units": units, "unit": spec.unit, "max_trials": spec.trials, "expected_trials": n}
        for units, n in zip(spec.rungs, expected, strict=True)
    ]
