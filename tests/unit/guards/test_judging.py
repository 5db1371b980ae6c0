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
    StragglerSection,
)
from muster_server.domain.guards.changes import change
from muster_server.domain.guards.judging import (
    GuardState,
    GuardValue,
    RankTimes,
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


def measured(late, *, ranks=3, ms=1000):
    """One row a step and rank; late: step → the rank for which the others wait 40 of 100 ms."""
    return [
        GuardValue(
            1, step, step * ms, 0.0,
            tuple(RankTimes(r, 10.0 if who in (None, r) else 50.0, 100.0) for r in range(ranks)),
        )
        for step, who in late.items()
    ]  # fmt: skip


NAN = math.nan


class TestConditions:
    def test_the_first_value_that_is_not_finite(self):
        of = guard(not_finite=True)
        (firing,) = judge(of, GuardState(), points([1, 0.9, NAN, NAN, math.inf]))[1]
        assert (firing.step, firing.reason.english) == (3, "train/loss is NaN")
        # The value of step 2 was normal, so what was saved below it is.
        assert firing.before_step == 2

    def test_a_spike_is_a_multiple_of_the_median_of_normal_values(self):
        of = guard(spike=SpikeSection(times=5, window=10), max_times=9)
        values = [2.0] * 8 + [9.9, 13.2, 14.0] + [2.0] * 3
        (firing,) = judge(of, GuardState(), points(values))[1]
        assert firing.step == 10
        assert firing.reason.english == "train/loss 13.2 is 6.6 times the median of 9 values"
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
        assert firing.reason.english == (
            "throughput/samples_per_s has been below 50% of its median 100 for 1 min, and is 40 now"
        )

    def test_a_rank_that_holds_up_the_others(self):
        of = GuardSection(
            straggler=StragglerSection(share=0.2, minutes=1), action="notify", max_times=9
        )
        at = dict.fromkeys(range(1, 61), None) | dict.fromkeys(range(61, 181), 2)
        state, firings = judge(of, GuardState(), measured(at))
        # A second a step: the first stretch is even, and of the second all but its first step is not.
        (firing,) = firings
        assert (firing.step, firing.rank, firing.limit) == (121, 2, 0.2)
        assert (
            firing.reason.english == "rank 2 has held up the others for 40% of the step over 1 min"
        )
        assert firing.value == pytest.approx(0.4)
        assert firing.before_step == 122
        # It acts again when a stretch was even, and on whoever it is then.
        at = dict.fromkeys(range(181, 301), None) | dict.fromkeys(range(301, 421), 0)
        assert [f.rank for f in judge(of, state, measured(at))[1]] == [0]

    def test_who_is_late_by_turns_holds_up_nobody_for_long(self):
        of = GuardSection(straggler=StragglerSection(share=0.2, minutes=1), action="notify")
        values = measured({step: step % 3 for step in range(1, 300)})
        assert judge(of, GuardState(), values)[1] == []

    def test_a_stretch_of_few_steps_is_not_judged(self):
        of = GuardSection(straggler=StragglerSection(minutes=0), action="notify", max_times=9)
        firings = judge(of, GuardState(), measured(dict.fromkeys(range(1, 30), 1)))[1]
        assert [firing.step for firing in firings] == [11]

    def test_a_row_of_many_steps_weighs_as_many(self):
        of = GuardSection(straggler=StragglerSection(share=0.3, minutes=0), action="notify")
        even = tuple(RankTimes(rank, 10.0, 100.0) for rank in (0, 1))
        slow = (RankTimes(0, 90.0, 100.0), RankTimes(1, 10.0, 100.0))
        values = [GuardValue(1, 1, 0, 0.0, even), GuardValue(1, 2, 0, 0.0, slow)]
        assert judge(of, GuardState(), [*values, GuardValue(1, 12, 0, 0.0, even)])[1] == []
        values = [GuardValue(1, 1, 0, 0.0, even), GuardValue(1, 10, 0, 0.0, slow)]
        assert len(judge(of, GuardState(), [*values, GuardValue(1, 12, 0, 0.0, even)])[1]) == 1

    def test_silence(self):
        of = GuardSection(no_step_for_min=10, action="notify", max_times=2)
        state, firing = judge_silence(of, GuardState(), attempt_no=1, step=7, quiet_s=599)
        assert firing is None
        state, firing = judge_silence(of, state, attempt_no=1, step=7, quiet_s=600)
        assert (firing.step, firing.reason.english) == (7, "there has been no step for 10 min")
        _, later = judge_silence(of, GuardState(), attempt_no=1, step=7, quiet_s=613.7)
        assert later.reason.english == "there has been no step for 10.2 min"
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
    GuardSection(straggler=StragglerSection(share=0.1, minutes=0.1), action="notify", max_times=4),
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
            # Rows of ranks do not end at the same steps, and one is late for a while.
            ranks = tuple(
                RankTimes(rank, rng.uniform(0, 20) if rank == attempt_no % 3 else 30.0, 100.0)
                for rank in range(3)
                if rng.random() < 0.7
            )
            found.append(GuardValue(attempt_no, step, time_ms, value, ranks))
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
        (
            {"metric": None, "straggler": StragglerSection(), "action": "restart_elsewhere"},
            "When one worker holds up the others for 25% of the step over 10 min, restart the trial from "
            "its newest checkpoint on other nodes. It acts at most once. If no other node fits, tell "
            "people instead.",
        ),
    ],
)
def test_a_guard_in_words(values, sentence):
    assert explain(guard(**values)) == sentence
