"""Of which steps collectives are recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.measure.sampling import (
    BUDGET,
    CHECK_EVERY_STEPS,
    MAX_EVERY,
    NUM_FIRST_STEPS,
    StepSampling,
)

STEP_NS = 10_000_000


def settled(cost_ns: int, sampling: StepSampling | None = None, steps: int = 400) -> StepSampling:
    sampling = sampling or StepSampling()
    for no in range(steps):
        sampling.add(STEP_NS, cost_ns if sampling.is_recorded(no) else None)
    return sampling


@given(st.integers(0, 10 * STEP_NS))
def test_recording_stays_within_its_budget_or_is_as_rare_as_can_be(cost_ns: int) -> None:
    sampling = settled(cost_ns)
    assert cost_ns / sampling.every <= BUDGET * STEP_NS or sampling.every == MAX_EVERY
    if sampling.every > 1:  # and is no rarer than it has to be, but for what is spared
        assert cost_ns / (sampling.every / 2) > 0.75 * BUDGET * STEP_NS


def test_the_first_steps_pay_for_connections_and_decide_nothing() -> None:
    sampling = StepSampling()
    for _ in range(NUM_FIRST_STEPS):
        sampling.add(STEP_NS, STEP_NS)
    for _ in range(CHECK_EVERY_STEPS):
        assert sampling.every == 1
        sampling.add(STEP_NS, 0)
    assert sampling.every == 1


def test_more_steps_are_recorded_again_once_that_costs_little() -> None:
    costly = settled(STEP_NS)
    assert costly.every == MAX_EVERY
    assert settled(1_000, costly, steps=5_000).every == 1


@pytest.mark.parametrize("every", [2, 8, MAX_EVERY])
def test_ranks_that_record_more_have_the_steps_of_those_that_record_fewer(every: int) -> None:
    few, more = StepSampling(), StepSampling()
    few.every, more.every = every, every // 2
    steps = range(20_000)
    assert {no for no in steps if few.is_recorded(no)} < {
        no for no in steps if more.is_recorded(no)
    }


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8, 16])
def test_steps_that_exchange_now_and_then_are_recorded_as_often_as_others(period: int) -> None:
    """Local SGD: one step in `period` communicates."""
    sampling = StepSampling()
    sampling.every = 4
    recorded = [no for no in range(4_000) if sampling.is_recorded(no)]
    of_them = sum(no % period == 0 for no in recorded)
    assert len(recorded) == pytest.approx(1_000, rel=0.02)
    assert of_them == pytest.approx(len(recorded) / period, rel=0.15)
