"""Experiments that start after others: the decision."""

from __future__ import annotations

import pytest

from muster_server.domain.lifecycle.dependencies import (
    CancelDependent,
    Dependency,
    DependentExperiment,
    ReleaseDependent,
    TellDependent,
    decide_dependencies,
)
from muster_server.domain.states import ExperimentState as S


def after(*states: tuple[str, S | None], told: tuple[str, ...] = ("",)) -> DependentExperiment:
    """Experiment 99, which waits for experiments 1, 2, …."""
    return DependentExperiment(
        id=99,
        dependencies=tuple(
            Dependency(experiment_id=no, when=when, state=state)  # type: ignore[arg-type]
            for no, (when, state) in enumerate(states, 1)
        ),
        told=frozenset(told),
    )


@pytest.mark.parametrize(
    "states",
    [
        [("success", S.COMPLETED)],
        [("any", S.FAILED)],
        [("any", S.CANCELED), ("any", None), ("success", S.COMPLETED)],
    ],
)
def test_it_may_start_when_all_of_them_have_ended_as_asked(
    states: list[tuple[str, S | None]],
) -> None:
    (decision,) = decide_dependencies([after(*states)])
    assert isinstance(decision, ReleaseDependent)
    assert decision.experiment_id == 99


@pytest.mark.parametrize(
    ("state", "words"),
    [(S.FAILED, "is FAILED"), (S.CANCELED, "is CANCELED"), (None, "was deleted")],
)
def test_it_is_canceled_as_soon_as_one_cannot_succeed(state: S | None, words: str) -> None:
    (decision,) = decide_dependencies([after(("success", S.RUNNING), ("success", state))])
    assert isinstance(decision, CancelDependent)
    assert decision.reason == f"experiment 2, which must be COMPLETED first (`after`), {words}"


@pytest.mark.parametrize("state", [S.QUEUED, S.RUNNING, S.PAUSED, S.STOPPING])
def test_until_then_its_trials_say_what_they_wait_for(state: S) -> None:
    waiting = after(("success", state), ("any", S.RUNNING), ("any", S.FAILED))
    (decision,) = decide_dependencies([waiting])
    assert isinstance(decision, TellDependent)
    text = decision.reason.english
    assert text == (
        f"Starts after other experiments: experiment 1 must be COMPLETED (it is {state}) and "
        "experiment 2 must have ended (it is RUNNING). Starts automatically; there is nothing to do."
    )
    again = after(("success", state), ("any", S.RUNNING), ("any", S.FAILED), told=(text,))
    assert decide_dependencies([again]) == []
    assert decide_dependencies([after(("success", state), told=())]) == []


def test_of_many_only_the_first_are_named() -> None:
    (decision,) = decide_dependencies([after(*[("any", S.RUNNING)] * 5)])
    assert isinstance(decision, TellDependent)
    assert "experiment 3 must have ended (it is RUNNING) and 2 other experiments" in (
        decision.reason.english
    )
