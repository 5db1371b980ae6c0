"""The hyperparameters of the next trial: drawn, counted off a grid or a sequence, or learned."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.wire import Number, decode_number, encode_number

from . import sampling
from .constraints import Constraint
from .methods import method_of
from .observations import Observations
from .population import perturb
from .rungs import score
from .spec import SearchSpec

REDRAWS_MAX = 10_000
"""How often a point that breaks a constraint is drawn again before the search gives up."""
LEARNED_FROM_BEST = 200
LEARNED_FROM_LATEST = 800
"""Maximum number of trials that a model is fitted to: asking takes longer with each."""


@dataclass
class SearchHistory:
    """What a model-based sampler learns from. Empty for the others: they need none."""

    points: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Trial number → hyperparameters, in order of creation."""
    reports: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """Units → (trial number, value), in order of arrival."""
    finals: list[tuple[int, float | None]] = field(default_factory=list)
    """Trials that have ended, as (trial number, best value); None if the trial failed without a
    value."""
    ends: list[tuple[int, tuple[float, ...] | None]] = field(default_factory=list)
    """Trials that have ended, as (trial number, its objectives), if there are several objectives;
    None if the trial failed without values."""
    gone: set[int] = field(default_factory=set)
    """Trials that have ended, canceled ones included."""

    def add(self, no: int, hparams: dict[str, Any]) -> None:
        self.points[no] = hparams

    def report(self, no: int, units: int, value: float) -> None:
        self.reports.setdefault(units, []).append((no, value))

    def end(
        self, no: int, value: float | None, outcome: str, values: tuple[float, ...] | None = None
    ) -> None:
        self.gone.add(no)
        if value is not None or outcome == "failed":
            self.finals.append((no, value))
        if values is not None or outcome == "failed":
            self.ends.append((no, values))

    def to_json(self) -> dict[str, Any]:
        return {
            "points": [[no, hparams] for no, hparams in self.points.items()],
            "reports": [
                [units, [[no, encode_number(v)] for no, v in pairs]]
                for units, pairs in self.reports.items()
            ],
            "finals": [[no, _number(v)] for no, v in self.finals],
            "ends": [
                [no, None if values is None else [encode_number(v) for v in values]]
                for no, values in self.ends
            ],
            "gone": sorted(self.gone),
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> SearchHistory:
        return cls(
            points=dict(plain["points"]),
            reports={
                units: [(no, decode_number(v)) for no, v in pairs]
                for units, pairs in plain["reports"]
            },
            finals=[(no, None if v is None else decode_number(v)) for no, v in plain["finals"]],
            ends=[
                (no, None if values is None else tuple(decode_number(v) for v in values))
                for no, values in plain.get("ends", ())
            ],
            gone=set(plain["gone"]),
        )


def observations(history: SearchHistory, spec: SearchSpec, num_parameters: int) -> Observations:
    """Return one value per trial: of the highest rung that has at least parameters + 2 of them.

    With fewer on every rung, that of the rung with most; without rungs, the trial's best value.
    Values of different training lengths are never mixed (Falkner et al. 2018, BOHB). Trials that
    failed, and values that are not finite, count as the worst finite one.
    """
    values: Sequence[tuple[int, float | None]] = history.finals
    if spec.objectives:
        return _observations_of_several(history, spec)
    if spec.rungs and spec.rule != "median":
        enough = [u for u, r in history.reports.items() if len(r) >= num_parameters + 2]
        fullest = max(history.reports, key=lambda u: (len(history.reports[u]), -u), default=None)
        units = max(enough, default=fullest)
        failed = [(no, None) for no, value in history.finals if value is None]
        values = [*(history.reports[units] if units is not None else ()), *failed]
    scores = {no: score(value, spec.goal) for no, value in values}
    finite = [s for s in scores.values() if math.isfinite(s)]
    if not finite:
        scores = {}
    worst = max(finite, default=0.0)
    ordered = list(scores)
    if len(ordered) > LEARNED_FROM_BEST + LEARNED_FROM_LATEST:
        best = sorted(ordered, key=lambda no: (scores[no], no))[:LEARNED_FROM_BEST]
        kept = {*best, *ordered[-LEARNED_FROM_LATEST:]}
        ordered = [no for no in ordered if no in kept]
    return Observations(
        known=tuple((history.points[no], (min(scores[no], worst),)) for no in ordered),
        pending=_pending(history, scores),
    )


def _observations_of_several(history: SearchHistory, spec: SearchSpec) -> Observations:
    """Return the latest trials that have ended, with a score for each objective."""
    latest = history.ends[-(LEARNED_FROM_BEST + LEARNED_FROM_LATEST) :]
    goals = [goal for _, goal in spec.objectives]
    rows = [
        (
            no,
            tuple(
                score(v, goal) for v, goal in zip(values or [None] * len(goals), goals, strict=True)
            ),
        )
        for no, values in latest
    ]
    worst: list[float] = []
    for column in range(len(goals)):
        finite = [scores[column] for _, scores in rows if math.isfinite(scores[column])]
        if not finite:
            rows = []
        worst.append(max(finite, default=0.0))
    return Observations(
        known=tuple(
            (history.points[no], tuple(min(s, w) for s, w in zip(scores, worst, strict=True)))
            for no, scores in rows
        ),
        pending=_pending(history, ()),
    )


def _pending(history: SearchHistory, scored: Collection[int]) -> tuple[dict[str, Any], ...]:
    return tuple(
        hparams
        for no, hparams in history.points.items()
        if no not in scored and no not in history.gone
    )


class Proposer:
    """Proposes a search's points: a function of its spec, the trial's number and the history."""

    def __init__(self, spec: SearchSpec) -> None:
        self.spec = spec
        self._parameters, problems = sampling.parse_space(spec.space)
        if problems:
            raise ValueError(f"invalid space: {problems[0].path}: {problems[0].message}")
        self._constraints = [Constraint(text) for text in spec.constraints]
        self._grid: Sequence[int] | None = None

    def propose(
        self, no: int, history: SearchHistory, *, has_model: bool = True
    ) -> dict[str, Any] | None:
        """Return hyperparameters for trial `no`; None if no point that satisfies the constraints
        was found. has_model: False to draw a point at random where a model would be asked."""
        for hparams in self._candidates(no, history, has_model):
            if all(constraint.holds(hparams) for constraint in self._constraints):
                return hparams
        return None

    def perturb(self, parent: dict[str, Any], no: int) -> dict[str, Any]:
        """Return hyperparameters for trial `no`, a clone of a trial with those of `parent`."""
        assert self.spec.explore is not None, "a search without a population has no clones"
        return perturb(
            self.spec.explore,
            self._parameters,
            self._constraints,
            parent,
            seed=self.spec.seed,
            no=no,
        )

    def _candidates(
        self, no: int, history: SearchHistory, has_model: bool
    ) -> Iterator[dict[str, Any]]:
        spec, parameters = self.spec, self._parameters
        if method_of(spec.method).walks_grid:
            if self._grid is None:
                self._grid = sampling.grid_indices(parameters, self._constraints)
            if no <= len(self._grid):
                yield sampling.grid_point(parameters, self._grid[no - 1])
            return
        if spec.learns and has_model:
            from . import model_based  # takes a second to import, needed only for these searches

            yield model_based.propose(
                spec, parameters, observations(history, spec, len(parameters)), no=no
            )
        elif spec.sampler in ("sobol", "halton"):
            from . import quasi_random

            point = quasi_random.point(spec.sampler, spec.seed, no, len(parameters))
            yield sampling.at(parameters, point)
        for attempt in range(REDRAWS_MAX):
            yield sampling.sample(parameters, seed=spec.seed, trial_no=no, attempt=attempt)


def _number(value: float | None) -> Number | None:
    return None if value is None else encode_number(value)
