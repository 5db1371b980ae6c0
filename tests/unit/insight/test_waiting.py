"""Who is waited for, in how many of the steps, and why: of trainings whose truth was made here."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.insight.bottleneck import Bottleneck, bottleneck
from support.training.made_steps import BASE, MadeSteps, Own, averaged, joined, made


def verdict(training: MadeSteps, bucket_steps: int = 1) -> Bottleneck:
    found = bottleneck(training.analysed(bucket_steps))
    assert found is not None
    return found


def late(rank: int, part: str, ms: float, every: int = 1) -> Callable[[int, int], Own]:
    """One rank that is late in each so many steps."""
    return lambda step, r: {part: ms} if r == rank and step % every == 0 else {}


def test_a_rank_that_is_late_now_and_then_is_waited_for_and_no_communication() -> None:
    """Rank 0 collects garbage for 600 ms in each fifth step."""
    training = made(late(0, "time/other_ms", 600.0, every=5), steps=40)
    found = verdict(training)
    assert (found.kind, found.ms) == ("waiting", pytest.approx(120))
    assert found.headline.english == (
        "Bound by waiting for late ranks: 66% of the step (120 of 183 ms)."
    )
    assert found.reason.english == (
        "Rank 0 is late in 8 of 40 steps; the others wait 600 ms for it in each of these. "
        "Its time outside the model takes 600 ms longer there than that of the others."
    )
    assert {c.kind: c.ms for c in found.costs}["communication"] == pytest.approx(2)


def test_a_rank_that_is_late_in_every_step_is_not_averaged_with_its_own_zero() -> None:
    """Rank 1 sleeps 80 ms after each of its steps."""
    found = verdict(made(late(1, "time/other_idle_ms", 80.0), steps=40))
    assert (found.kind, found.ms) == ("waiting", pytest.approx(80))
    assert "Rank 1 is late in 40 of 40 steps; the others wait 80 ms" in found.reason.english
    assert "Its waiting outside the model takes 80 ms longer" in found.reason.english


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_that_are_late_by_turns_are_named_without_blame(num_ranks: int) -> None:
    def turns(step: int, rank: int) -> Own:
        return {"time/forward_ms": 50.0} if step % num_ranks == rank else {}

    training = made(turns, num_ranks=num_ranks, steps=40)
    found = verdict(training)
    assert training.analysed().culprit is None
    assert (found.kind, found.ms) == ("waiting", pytest.approx(50))
    assert f"is late in {40 // num_ranks} of 40 steps" in found.reason.english
    assert "Its forward pass takes 50 ms longer" in found.reason.english
    assert "by turns" in found.reason.english


def test_two_of_eight_ranks_that_are_late_together_or_by_turns_are_both_named() -> None:
    def slow(step: int, rank: int) -> Own:
        return {"time/data_wait_ms": 40.0 + 10 * (step % 2 == rank)} if rank < 2 else {}

    found = made(slow, num_ranks=8, steps=60).analysed()
    assert {late.rank for late in found.late if late.stands_out} == {0, 1}


def test_a_burst_is_of_the_steps_in_which_it_was() -> None:
    """Slow storage on rank 1 in 20 steps one after another: it explains them, and no verdict is firm
    on one burst."""

    def burst(step: int, rank: int) -> Own:
        return {"time/data_wait_ms": 200.0} if rank == 1 and 30 <= step < 50 else {}

    found = made(burst, steps=100).analysed()
    (first,) = found.late
    assert (first.rank, first.num_late, first.num_buckets) == (1, 20, 100)
    assert (first.part, first.excess_ms) == ("time/data_wait_ms", pytest.approx(200))
    assert not first.stands_out


def test_a_validation_on_one_rank_is_what_the_others_wait_for() -> None:
    found = verdict(made(late(0, "time/validation_ms", 400.0, every=10), steps=100))
    assert (found.kind, found.ms) == ("waiting", pytest.approx(40))
    assert "Its validation takes 400 ms longer there" in found.reason.english
    assert {c.kind: c.ms for c in found.costs}.get("validation", 0.0) == pytest.approx(0)


def test_rows_of_several_steps_are_compared_by_stretches() -> None:
    training = made(late(1, "time/forward_ms", 80.0, every=5), steps=400)
    fast = MadeSteps({r: averaged(rows, 5) for r, rows in training.ranks.items()}, training.step_ms)
    found = verdict(fast, bucket_steps=25)
    assert (found.kind, found.ms) == ("waiting", pytest.approx(16))
    assert "Rank 1 is late in 17 of 17 stretches of 25 steps" in found.reason.english


def test_rows_of_two_steps_between_rows_of_one_lose_no_step() -> None:
    """Quick steps share a row, and not the same ones on both ranks; those in which one is late do not."""

    def bursts(step: int, rank: int) -> Own:
        return {"time/other_idle_ms": 80.0} if rank == 1 and step % 20 >= 12 else {}

    training = made(bursts, steps=121)
    fast = {
        rank: joined(rows, lambda step, rank=rank: step % 20 < 8 and step % 4 == rank)
        for rank, rows in training.ranks.items()
    }
    found = verdict(MadeSteps(fast, training.step_ms))
    true_ms = 80 * sum(step % 20 >= 12 for step in range(1, 121)) / 120
    assert (found.kind, found.ms) == ("waiting", pytest.approx(true_ms, rel=0.03))
    assert "Rank 1 is late in 48 of 120 steps" in found.reason.english


def test_equal_workers_on_a_noisy_machine_are_not_blamed() -> None:
    """Chance makes about a fifth of the step there."""
    blamed = 0
    for seed in range(150):
        training = made(lambda *_: {}, num_ranks=2 + seed % 3, steps=60, noise=0.25, seed=seed)
        found = training.analysed()
        blamed += found.culprit is not None
        cost = {c.kind: c.share for c in verdict(training).costs}
        assert 0.1 < cost["waiting"] < 0.4
    assert blamed == 0


KINDS = {
    "data": "time/data_wait_ms",
    "checkpoint": "time/checkpoint_ms",
    "outside_idle": "time/other_idle_ms",
    "outside_busy": "time/other_ms",
    "without_gradients": "time/no_grad_ms",
    "validation": "time/validation_ms",
    "communication": "comm/exposed_ms",
    "waiting": "time/forward_ms",
}


@settings(max_examples=75, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    ms=st.floats(20, 400),
    num_ranks=st.integers(2, 4),
    steps=st.integers(5, 120),
    every=st.sampled_from([1, 2, 3, 5, 10]),
    by_turns=st.booleans(),
    noise=st.floats(0, 0.03),
    seed=st.integers(0, 10_000),
)
def test_the_planted_cause_is_named_with_its_figure_or_it_is_too_early(
    kind: str,
    ms: float,
    num_ranks: int,
    steps: int,
    every: int,
    by_turns: bool,
    noise: float,
    seed: int,
) -> None:
    chance = random.Random(seed)
    happens = {s for s in range(1, steps + 1) if every == 1 or chance.random() < 1 / every}

    def planted(step: int, rank: int) -> Own:
        last = step % num_ranks if by_turns else 1
        here = step in happens and (kind != "waiting" or rank == last)
        return {KINDS[kind]: ms} if here else {}

    training = made(planted, num_ranks=num_ranks, steps=steps, noise=noise, seed=seed)
    found = verdict(training)
    true_ms = ms * len(happens) / steps + (BASE[KINDS[kind]] if kind == "communication" else 0.0)
    whole_ms = found.step_ms + found.validation_ms
    assert found.kind in (kind, "too_early", "computation", "no_single_cost")
    if steps < 30:
        assert found.kind == "too_early"
    if found.kind == kind:
        assert found.ms == pytest.approx(true_ms, abs=0.05 * whole_ms)
    elif found.kind != "too_early":
        assert true_ms < 0.15 * whole_ms


@settings(max_examples=40, deadline=None)
@given(order=st.permutations(range(4)), seed=st.integers(0, 1000))
def test_another_order_of_the_ranks_changes_nothing_but_their_names(
    order: list[int], seed: int
) -> None:
    training = made(late(2, "time/data_wait_ms", 60.0, every=3), num_ranks=4, noise=0.1, seed=seed)
    renamed = MadeSteps({order[r]: rows for r, rows in training.ranks.items()}, training.step_ms)
    one, other = verdict(training), verdict(renamed)
    assert other.kind == one.kind
    assert (other.ms, other.step_ms) == (pytest.approx(one.ms), pytest.approx(one.step_ms))
    assert [c.kind for c in other.costs] == [c.kind for c in one.costs]
    firsts = training.analysed().culprit, renamed.analysed().culprit
    assert [c and (c.num_late, c.part) for c in firsts[:1]] == [
        c and (c.num_late, c.part) for c in firsts[1:]
    ]
    assert firsts[0] is None or (firsts[1] is not None and firsts[1].rank == order[2])
