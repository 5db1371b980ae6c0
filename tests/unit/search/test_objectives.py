"""Several objectives: the front, what NSGA-II learns from, and a Gaussian process."""

from __future__ import annotations

import json
import math
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.search import (
    Searcher,
    SearchSpec,
    Started,
    TrialEnded,
    model_based,
    sampling,
)
from muster_server.domain.search.events import event_from_json, event_to_json
from muster_server.domain.search.model_based import GENERATION, propose
from muster_server.domain.search.pareto import front
from muster_server.domain.search.proposals import Observations, observations

SPACE = {"x": {"uniform": [0.0, 1.0]}, "y": {"uniform": [0.0, 1.0]}}


def spec(sampler: str, **changes: Any) -> SearchSpec:
    given: dict[str, Any] = {
        "method": "random",
        "space": SPACE,
        "seed": 3,
        "trials": 60,
        "concurrent": 4,
        "metric": "loss",
        "sampler": sampler,
        "objectives": (("loss", "min"), ("accuracy", "max")),
    }
    return SearchSpec(**{**given, **changes})


def measured(hparams: dict[str, Any]) -> tuple[float, float]:
    """Both are best on the line from (0, 0.5) to (1, 0.5), at its opposite ends."""
    off = (hparams["y"] - 0.5) ** 2
    return hparams["x"] + off, hparams["x"] - off


def play(searcher: Searcher, until: int, *, restarts: bool = False) -> list[dict[str, Any]]:
    """Hyperparameters of the trials, which end one after the other."""
    found: list[dict[str, Any]] = []
    todo = list(searcher.apply(Started()))
    while todo and len(found) < until:
        hparams = getattr(todo.pop(0), "hparams", None)
        if hparams is None:
            continue
        found.append(hparams)
        values = measured(hparams)
        event = TrialEnded(trial_no=len(found), outcome="completed", value=values[0], values=values)
        todo += searcher.apply(event_from_json(json.loads(json.dumps(event_to_json(event)))))
        if restarts:
            searcher = Searcher.from_state(json.loads(json.dumps(searcher.state())))
    return found


# ---------------------------------------------------------------- the front


def test_a_trial_is_on_the_front_unless_another_is_as_good_in_all_and_better_in_one() -> None:
    rows = [(1.0, 0.5), (0.5, 0.4), (0.5, 0.4), (1.0, 0.6), (0.7, 0.3)]
    assert front(rows, ["min", "max"]) == [1, 2, 3]
    assert front([(None, 1.0), (math.nan, 9.0), (2.0, math.inf)], ["min", "max"]) == []
    assert front([], ["min", "max"]) == []


@settings(max_examples=60)
@given(
    rows=st.integers(2, 4).flatmap(
        lambda n: st.lists(st.tuples(*[st.integers(0, 5)] * n), min_size=1, max_size=30)
    )
)
def test_the_front_is_what_comparing_all_with_all_finds(rows: list[tuple[int, ...]]) -> None:
    def beaten(row: tuple[int, ...]) -> bool:
        return any(
            other != row and all(a <= b for a, b in zip(other, row, strict=True)) for other in rows
        )

    expected = [i for i, row in enumerate(rows) if not beaten(row)]
    assert front(rows, ["min"] * len(rows[0])) == expected
    negated = [tuple(-v for v in row) for row in rows]
    assert front(negated, ["max"] * len(rows[0])) == expected


# ---------------------------------------------------------------- what is learned


def test_nsga2_breeds_from_the_best_of_whole_generations() -> None:
    parameters, _ = sampling.parse_space(SPACE)
    # Nobody beats anybody of the first generation, and everybody of the second is beaten.
    best = [
        ({"x": i / GENERATION, "y": 0.5}, (i / GENERATION, -i / GENERATION))
        for i in range(GENERATION)
    ]
    beaten = [({"x": 0.9, "y": 1.0}, (2.0, 2.0))] * GENERATION
    known = Observations(known=(*best, *beaten), pending=({"x": 0.0, "y": 0.0},))
    children = [propose(spec("nsga2"), parameters, known, no=no) for no in range(41, 61)]
    # A child has its parents' values but where it is mutated.
    assert sum(child["y"] == 0.5 for child in children) > GENERATION / 4
    assert not any(child["y"] == 1.0 for child in children)


def test_a_restart_changes_no_point_that_is_learned() -> None:
    found = play(Searcher(spec("nsga2")), 26)
    assert play(Searcher(spec("nsga2")), 26, restarts=True) == found


def test_a_trial_that_failed_counts_as_worst_in_every_objective() -> None:
    searcher = Searcher(spec("nsga2"))
    searcher.apply(Started())
    searcher.apply(TrialEnded(trial_no=1, outcome="completed", value=1.0, values=(1.0, 0.5)))
    searcher.apply(TrialEnded(trial_no=2, outcome="failed"))
    searcher.apply(TrialEnded(trial_no=3, outcome="completed", value=2.0, values=(2.0, math.nan)))
    known = observations(searcher.history, searcher.spec, 2).known
    assert [scores for _, scores in known] == [(1.0, -0.5), (2.0, -0.5), (2.0, -0.5)]


@pytest.mark.torch
def test_a_gaussian_process_looks_where_values_were_good() -> None:
    parameters, _ = sampling.parse_space(SPACE)
    points = [{"x": (i * 7 % 12) / 12, "y": i / 12} for i in range(12)]
    scores = [(p["x"] - 0.3) ** 2 + (p["y"] - 0.7) ** 2 for p in points]
    known = Observations(
        known=tuple((p, (s,)) for p, s in zip(points, scores, strict=True)),
        pending=({"x": 0.9, "y": 0.9},),
    )
    found = propose(spec("gp", objectives=()), parameters, known, no=13)
    score = (found["x"] - 0.3) ** 2 + (found["y"] - 0.7) ** 2
    assert score < sorted(scores)[len(scores) // 2]


@pytest.mark.torch
def test_the_gaussian_process_draws_what_optunas_own_does(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, _ = sampling.parse_space(SPACE)
    points = [sampling.sample(parameters, seed=3, trial_no=no, attempt=0) for no in range(1, 16)]
    seen = Observations(
        known=tuple((p, (measured(p)[0],)) for p in points), pending=({"x": 0.9, "y": 0.9},)
    )
    found = propose(spec("gp", objectives=()), parameters, seen, no=21)
    monkeypatch.setattr(model_based, "_GaussianProcess", optuna.samplers.GPSampler)
    assert propose(spec("gp", objectives=()), parameters, seen, no=21) == found
