"""When guards act: on which value, how often, and that the pieces in which values come do not matter."""

import json
import math
import random

import pytest

from muster.document.guards import (
    BelowMedianSection,
    GuardSection,
    PlateauSection,
    SpikeSection,
)
from muster_server.domain.guards.changes import change
from muster_server.domain.guards.judging import (
    GuardState,
    GuardValue,
    close_attempt,
    from_plain,
    judge,
    judge_silence,
    to_plain,
)
from muster_server.domain.guards.wording import explain


def guard(**values):
    values = {"metric": "train/loss", "action": "notify"} | values
    return GuardSection(**values)


def points(values, *, attempt_no=1, first=1, every=1, ms=1000):
    return [
        GuardValue(attempt_no, first + i * every, (first + i * every) * ms, float(value))
        for i, value in enumerate(values)
    ]


def steps(of, values, **where):
    return [firing.step for firing in judge(of, GuardState(), points(values, **where))[1]]


NAN = math.nan


class TestConditions:
    def test_the_first_value_that_is_not_finite(self):
        of = guard(not_finite=True)
        (firing,) = judge(of, GuardState(), points([1, 0.9, NAN, NAN, math.inf]))[1]
        assert (firing.step, firing.reason) == (3, "train/loss is NaN")
        # The value of step 2 was normal, so what was saved below it is.
        assert firing.before_step == 2

    def test_a_spike_is_a_multiple_of_the_median_of_normal_values(self):
        of = guard(spike=SpikeSection(times=5, window=10), max_times=9)
        values = [2.0] * 8 + [9.9, 13.2, 14.0] + [2.0] * 3
        (firing,) = judge(of, GuardState(), points(values))[1]
        assert firing.step == 10
        assert firing.reason == "train/loss 13.2 is 6.6 times the median of 9 values"
        assert firing.limit == 10.0
        assert firing.before_step == 9

    def test_no_spike_is_seen_before_half_of_the_window(self):
        of = guard(spike=SpikeSection(times=5, window=10))
        assert steps(of, [1, 1, 1, 1, 100]) == []
        assert steps(of, [1, 1, 1, 1, 1, 100]) == [6]

    def test_a_loss_that_falls_is_no_spike_and_a_negative_one_is(self):
        of = guard(spike=SpikeSection(times=5, window=4))
        assert steps(of, [100 * 0.5**n for n in range(20)]) == []
        assert steps(of, [-1, -1, -1, -1, -60]) == [5]

    def test_above_and_below(self):
        assert steps(guard(above=3.0), [1, 3, 3.1, 5]) == [3]
        assert steps(guard(below=0.5), [1, 0.5, 0.4]) == [3]

    def test_at_a_step_one_value_is_judged(self):
        of = guard(above=2.0, at_step=10)
        assert steps(of, [9] * 9 + [1], first=1) == []
        assert steps(of, [9, 9, 9], first=4, every=4) == [12]
        assert steps(of, [1, 9], first=10) == []

    def test_a_plateau_in_values_and_in_steps(self):
        falling = [1 / n for n in range(1, 9)]
        of = guard(plateau=PlateauSection(values=4, min_change=0.01))
        assert steps(of, falling + [0.1] * 6) == [13]
        by_steps = guard(plateau=PlateauSection(steps=40, min_change=0.01))
        assert steps(by_steps, falling + [0.1] * 6, every=10) == [121]

    def test_throughput_below_its_median_for_a_while(self):
        of = guard(
            metric="throughput/samples_per_s", below_median=BelowMedianSection(share=0.5, minutes=1)
        )
        slow = [100] * 20 + [40] * 5 + [100] + [40] * 20
        (firing,) = judge(of, GuardState(), points(slow, ms=10_000))[1]
        # Ten seconds a value: it was slow from step 27 on.
        assert firing.step == 33
        assert firing.reason == (
            "throughput/samples_per_s has been below 50% of its median 100 for 1 min, and is 40 now"
        )

    def test_silence(self):
        of = GuardSection(no_step_for_min=10, action="notify", max_times=2)
        state, firing = judge_silence(of, GuardState(), attempt_no=1, step=7, quiet_s=599)
        assert firing is None
        state, firing = judge_silence(of, state, attempt_no=1, step=7, quiet_s=600)
        assert (firing.step, firing.reason) == (7, "there has been no step for 10 min")
        _, later = judge_silence(of, GuardState(), attempt_no=1, step=7, quiet_s=613.7)
        assert later.reason == "there has been no step for 10.2 min"
        state, firing = judge_silence(of, state, attempt_no=1, step=7, quiet_s=900)
        assert firing is None
        state, firing = judge_silence(of, state, attempt_no=2, step=7, quiet_s=700)
        assert firing is not None

    def test_a_start_is_no_silence_before_its_grace(self):
        of = GuardSection(no_step_for_min=1, action="notify", max_times=2)
        for quiet_s, fires in ((599, False), (600, True)):
            _, firing = judge_silence(
                of, GuardState(), attempt_no=1, step=0, quiet_s=quiet_s, is_starting=True
            )
            assert (firing is not None) == fires
        start = GuardValue(1, 0, 0, 0.0)
        late = [start, GuardValue(1, 1, 540_000, 1.0), GuardValue(1, 2, 541_000, 1.0)]
        assert judge(of, GuardState(), late)[1] == []
        silent = [*late, GuardValue(1, 3, 700_000, 1.0)]
        assert [firing.step for firing in judge(of, GuardState(), silent)[1]] == [2]

    def test_silence_is_found_in_stored_values(self):
        of = GuardSection(no_step_for_min=1, action="notify")
        values = [*points([1, 1, 1]), GuardValue(1, 4, 90_000, 1.0)]
        (firing,) = judge(of, GuardState(), values)[1]
        assert (firing.step, firing.value) == (3, pytest.approx(1.45))


class TestHowOften:
    def test_once_unless_more_is_allowed(self):
        values = [1, NAN, *[1] * 6, NAN, *[1] * 6, NAN]
        assert steps(guard(not_finite=True), values) == [2]
        assert steps(guard(not_finite=True, max_times=2), values) == [2, 9]

    def test_not_again_before_values_are_normal(self):
        of = guard(above=3.0, max_times=9)
        assert steps(of, [1, 4, 2, 4, 2, 4, *[2] * 5, 4]) == [2, 12]

    def test_not_again_within_the_cooldown(self):
        of = guard(above=3.0, max_times=9, cooldown_steps=20)
        assert steps(of, [1, 4, *[2] * 5, 4, 4, *[2] * 30, 4]) == [2, 40]

    def test_a_new_attempt_is_judged_anew(self):
        of = guard(not_finite=True, max_times=2)
        values = [*points([1, 1, 1, NAN]), *points([1, NAN], attempt_no=2, first=2)]
        firings = judge(of, GuardState(), values)[1]
        assert [(f.attempt_no, f.step, f.before_step) for f in firings] == [(1, 4, 3), (2, 3, 2)]

    def test_a_new_attempt_that_is_bad_at_once_trusts_only_what_is_older(self):
        of = guard(not_finite=True, max_times=2)
        values = [*points([1, 1, 1, NAN]), *points([NAN], attempt_no=2, first=3)]
        assert judge(of, GuardState(), values)[1][1].before_step == 2

    def test_an_attempt_that_is_being_ended_is_not_judged_any_more(self):
        of = guard(not_finite=True, max_times=5)
        state = close_attempt(GuardState(), 1)
        assert judge(of, state, points([NAN]))[1] == []
        assert judge(of, state, points([NAN], attempt_no=2))[1] != []


GUARDS = [
    guard(not_finite=True, max_times=4),
    guard(spike=SpikeSection(times=3, window=8), max_times=4, cooldown_steps=5),
    guard(plateau=PlateauSection(values=6, min_change=0.3), max_times=4),
    guard(plateau=PlateauSection(steps=20, min_change=0.3), max_times=4),
    guard(above=1.2, max_times=4),
    guard(below=0.2, at_step=30, max_times=2),
    guard(below_median=BelowMedianSection(share=0.7, minutes=0.05), max_times=4),
    GuardSection(no_step_for_min=0.1, action="notify", max_times=4),
]


def history(rng):
    """Values of a few attempts, each from somewhere in the one before."""
    found, step, time_ms = [], 0, 0
    for attempt_no in range(1, rng.randint(2, 4)):
        step = rng.randint(0, step)
        for _ in range(rng.randint(1, 60)):
            step += rng.randint(1, 3)
            time_ms += rng.choice([300, 1000, 9000])
            wild = rng.choice([NAN, math.inf, 9.0, -7.0, 0.1])
            value = wild if rng.random() < 0.1 else rng.gauss(1, 0.1)
            found.append(GuardValue(attempt_no, step, time_ms, value))
    return found


@pytest.mark.parametrize("seed", range(100))
def test_how_values_are_cut_into_pieces_does_not_matter(seed):
    rng = random.Random(seed)
    values = history(rng)
    for of in GUARDS:
        at_once, firings = judge(of, GuardState(), values)
        state, found, start = GuardState(), [], 0
        while start < len(values):
            # Pieces of any size, some of them sent again, and a restart of the controller in between.
            end = start + rng.randint(1, 20)
            piece = values[max(0, start - rng.randint(0, 5)) : end]
            state, more = judge(of, state, piece)
            (state,) = from_plain(json.loads(json.dumps(to_plain([state]))), 1)
            found += more
            start = end
        assert repr(found) == repr(firings)  # NaN is not equal to itself
        assert state == at_once


@pytest.mark.parametrize("seed", range(20))
def test_judging_changes_nothing_that_it_was_given(seed):
    values = history(random.Random(seed))
    for of in GUARDS:
        state, _ = judge(of, GuardState(), values[: len(values) // 2])
        before = json.dumps(to_plain([state]))
        judge(of, state, values)
        assert json.dumps(to_plain([state])) == before


class TestChanges:
    def test_factors_and_values(self):
        of = guard(
            action="rollback",
            set_={"lr": "x0.5", "optimizer.warmup": "×2", "batch": 8, "name": "xavier", "no": 1},
        )
        given = {"lr": 0.1, "optimizer": {"warmup": 10}, "batch": 16, "name": "he"}
        changed, differences = change(given, of)
        assert changed == {
            "lr": 0.05, "optimizer": {"warmup": 20}, "batch": 8, "name": "xavier",
        }  # fmt: skip
        assert differences == {
            "lr": [0.1, 0.05], "optimizer.warmup": [10, 20], "batch": [16, 8], "name": ["he", "xavier"],
        }  # fmt: skip
        assert given["optimizer"] == {"warmup": 10}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"not_finite": True, "action": "rollback", "set_": {"lr": "x0.5"}, "max_times": 2},
            "When train/loss is NaN or infinite, restart the trial from the newest checkpoint from "
            "before the trouble with lr × 0.5. It acts at most twice. If no such checkpoint exists, tell "
            "people instead.",
        ),
        (
            {"spike": SpikeSection(), "action": "stop"},
            "When train/loss exceeds 5 times the median of its last 50 normal values, stop the trial at "
            "once. It acts at most once.",
        ),
    ],
)
def test_a_guard_in_words(values, sentence):
    assert explain(guard(**values)) == sentence
