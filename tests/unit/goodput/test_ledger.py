"""The ledger of an attempt against histories whose true ledger is known: it closes, and each class is
what was injected."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.goodput.ledger import (
    CHECKPOINT,
    CLASSES,
    DATA,
    EXPOSED,
    NO_GRAD,
    OTHER,
    STEP,
    VALIDATION,
    AttemptHistory,
    End,
    Held,
    Ledger,
    ProductivePart,
    StepRows,
    Tally,
    TimeClass,
    abandon,
    account,
    advance,
    allocated_s,
    lose,
    productive_of,
    restart,
    summed,
)
from muster_server.domain.quota.budgets import Holding

START = dt.datetime(2026, 5, 4, 22, 0, tzinfo=dt.UTC)


@dataclass
class SimulatedAttempt:
    """An attempt played in virtual time; `truth` has the seconds of each class."""

    rng: random.Random
    begin_s: float = START.timestamp()
    resume_step: int = 0
    slots: Sequence[int] = (4,)
    step_s: float = 0.2
    now_s: float = 0.0
    truth: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, float]] = field(default_factory=list)
    step: int = 0
    seconds_of_step: dict[int, float] = field(default_factory=dict)
    saved_step: int = 0

    def __post_init__(self) -> None:
        self.now_s, self.step = self.begin_s, self.resume_step
        self.pending: dict[str, float] = {}
        self.num_pending = 0

    def spend(self, kind: str, seconds: float) -> None:
        self.truth[kind] = self.truth.get(kind, 0.0) + seconds
        self.now_s += seconds

    def train(
        self,
        num_steps: int,
        *,
        save_every: int = 50,
        save_s: float = 0.3,
        evaluate_every: int = 70,
        evaluate_s: float = 2.0,
        stall_at: int | None = None,
        stall_s: float = 60.0,
        slow_data_at: int | None = None,
        data: float = 0.1,
        comm: float = 0.2,
        compile_s: float = 0.0,
    ) -> None:
        for no in range(1, num_steps + 1):
            self.step += 1
            took = self.step_s * self.rng.uniform(0.9, 1.1)
            seconds = {STEP: took, DATA: data * took, EXPOSED: comm * took, OTHER: 0.05 * took}
            self.spend("productive", took)
            self.seconds_of_step[self.step] = took
            if no == 1 and compile_s:
                self.spend("starting", compile_s)
                seconds[STEP] += compile_s
            if no == stall_at:
                self.spend("stalled", stall_s)
                seconds[STEP] += stall_s
                seconds[OTHER] += stall_s
            if no == slow_data_at:
                self.spend("stalled", 30.0)
                seconds[STEP] += 30.0
                seconds[DATA] += 30.0
            if self.step % save_every == 0:
                self.spend("saving", save_s)
                seconds[STEP] += save_s
                seconds[CHECKPOINT] = save_s
                self.saved_step = self.step
            if self.step % evaluate_every == 0:
                self.spend("evaluation", evaluate_s)
                seconds[VALIDATION] = evaluate_s
            for name, value in seconds.items():
                self.pending[name] = self.pending.get(name, 0.0) + value
            self.num_pending += 1
            if self.num_pending * self.step_s >= 0.05 and self.rng.random() < 0.95:
                self.flush()
        self.flush()

    def flush(self) -> None:
        if self.num_pending:
            means = {name: 1e3 * v / self.num_pending for name, v in self.pending.items()}
            self.rows.append({"step": self.step, "time": self.now_s, **means})
        self.pending, self.num_pending = {}, 0

    def step_rows(self) -> StepRows:
        names = {name for row in self.rows for name in row} - {"step", "time"}
        return StepRows(
            steps=np.array([row["step"] for row in self.rows], np.int64),
            times_s=np.array([row["time"] for row in self.rows], np.float64),
            ms={name: np.array([row.get(name, np.nan) for row in self.rows]) for name in names},
        )


def at(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def count(
    rows: StepRows, held: Held, started_s: float, cuts: Sequence[int] = (), resume_step: int = 0
) -> Tally:
    """Count all rows in pieces, as updates of a running attempt do."""
    committed = tally = Tally(last_step=resume_step)
    counted = 0
    for end in [*sorted(cuts), len(rows)]:
        committed, tally = advance(committed, rows.part(counted, end), held, started_s=started_s)
        counted = committed.num_rows
    return tally


def play(rng: random.Random) -> tuple[SimulatedAttempt, Ledger, Tally, Held, float]:
    """Play an attempt with faults of many kinds; return its ledger as the server would keep it."""
    attempt = SimulatedAttempt(
        rng,
        resume_step=rng.choice([0, 0, 100, 5000]),
        slots=rng.choice([(1,), (4,), (8, 8), (2, 1, 1)]),
        step_s=rng.choice([0.02, 0.2, 1.5]),
    )
    attempt.spend("preparing", rng.uniform(0, 200))
    started_s = attempt.now_s
    attempt.spend("starting", rng.uniform(0.5, 60))
    restore_s = rng.choice([0.0, rng.uniform(0.1, 40)])
    attempt.spend("restoring", restore_s)
    num_steps = rng.randrange(60, 400)
    attempt.train(
        num_steps,
        save_every=rng.choice([20, 50, 1000]),
        save_s=rng.choice([0.05, 1.0, 8.0]),
        evaluate_every=rng.choice([40, 90]),
        stall_at=rng.choice([None, rng.randrange(10, 60)]),
        slow_data_at=rng.choice([None, rng.randrange(10, 60)]),
        data=rng.choice([0.0, 0.1, 0.6]),
        comm=rng.choice([0.0, 0.2]),
        compile_s=rng.choice([0.0, 45.0]),
    )
    end = rng.choice([End.ITSELF, End.REQUEST, End.FAILURE])
    kinds = {End.ITSELF: "finishing", End.FAILURE: "undetected"}
    hung_s = rng.choice([0.5, 5.0, 3600.0 * 40])
    is_long = hung_s > max(30.0, 50 * attempt.step_s)
    kind = kinds.get(end, "undetected" if is_long else "stopping")
    attempt.spend(kind, hung_s)
    noticed_s = attempt.now_s
    attempt.spend("stopping", rng.uniform(0.1, 20))
    holdings = [Holding(since=START, until=at(attempt.now_s), slots=n) for n in attempt.slots]
    held = Held(holdings, at(attempt.now_s))
    rows = attempt.step_rows()
    cuts = [rng.randrange(len(rows) + 1) for _ in range(rng.randrange(4))]
    tally = count(rows, held, started_s, cuts, attempt.resume_step)
    history = AttemptHistory(
        holdings=holdings,
        started_at=at(started_s),
        noticed_at=at(noticed_s),
        end=end,
        is_measured=True,
        restore_s=restore_s,
    )
    return attempt, account(history, tally, now=at(attempt.now_s)), tally, held, started_s


def assert_true(
    found: Mapping[str, float],
    truth: Mapping[str, float],
    slots: int,
    allocated: float,
    within_s: float = 1.0,
) -> None:
    """Each class is within 2 % of itself or 1 s of what was injected; the sum closes to 0.5 %."""
    assert allocated_s(found) == pytest.approx(allocated, rel=5e-3)
    for kind in CLASSES:
        injected = truth.get(kind, 0.0) * slots
        assert found.get(kind, 0.0) == pytest.approx(injected, rel=0.02, abs=within_s * slots), kind


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=500, deadline=None)
def test_the_ledger_of_any_history_closes_and_is_true(seed: int) -> None:
    attempt, ledger, tally, held, started_s = play(random.Random(seed))
    slots = sum(attempt.slots)
    allocated = slots * (attempt.now_s - attempt.begin_s)
    assert_true(summed(ledger.days.values()), attempt.truth, slots, allocated)

    kept = attempt.saved_step or attempt.resume_step
    rows = attempt.step_rows()
    near = max(int(np.searchsorted(rows.steps, kept)) - 3, 0)
    before, rows = restart(tally, rows.part(near, len(rows)), kept)
    later = advance(before, rows, held, started_s=started_s, kept_step=kept)[1]
    days = lose(ledger.days, productive_of(later.days))
    redone = sum(s for step, s in attempt.seconds_of_step.items() if step > kept)
    truth = {
        **attempt.truth,
        "repeated": redone,
        "productive": attempt.truth["productive"] - redone,
    }
    # The steps of one row cannot be told apart.
    ends = [(attempt.resume_step, started_s), *((r["step"], r["time"]) for r in attempt.rows)]
    split_s = [b[1] - a[1] for a, b in pairwise(ends) if a[0] < kept < b[0]]
    assert_true(summed(days.values()), truth, slots, allocated, within_s=max([1.0, *split_s]))

    given_up = summed(abandon(days).values())
    assert TimeClass.PRODUCTIVE not in given_up
    assert not set(ProductivePart) & set(given_up)
    assert allocated_s(given_up) == pytest.approx(allocated, rel=5e-3)
    productive = summed(days.values()).get(TimeClass.PRODUCTIVE, 0.0)
    assert given_up[TimeClass.ABANDONED] == pytest.approx(productive, abs=1e-6)


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=40, deadline=None)
def test_how_often_a_running_attempt_is_looked_at_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    attempt = SimulatedAttempt(rng, step_s=0.05)
    attempt.spend("preparing", 1.0)
    attempt.train(1500, stall_at=700)
    held = Held([Holding(since=START, slots=2)], at(attempt.now_s))
    rows = attempt.step_rows()
    cuts = [rng.randrange(len(rows) + 1) for _ in range(12)]
    once = count(rows, held, attempt.begin_s + 1)
    assert count(rows, held, attempt.begin_s + 1, cuts) == once


def test_a_day_gets_what_was_spent_in_it_and_no_more() -> None:
    attempt = SimulatedAttempt(random.Random(1), step_s=60.0, slots=(1,))
    attempt.train(240, save_every=10_000, evaluate_every=10_000)
    held = [Holding(since=START, until=at(attempt.now_s), slots=3)]
    tally = count(attempt.step_rows(), Held(held, at(attempt.now_s)), attempt.begin_s)
    history = AttemptHistory(
        holdings=held,
        started_at=START,
        noticed_at=at(attempt.now_s),
        end=End.ITSELF,
        is_measured=True,
    )
    ledger = account(history, tally, now=at(attempt.now_s))
    assert allocated_s(ledger.days[dt.date(2026, 5, 4)]) == pytest.approx(3 * 2 * 3600)
    rest = attempt.now_s - dt.datetime(2026, 5, 5, tzinfo=dt.UTC).timestamp()
    assert allocated_s(ledger.days[dt.date(2026, 5, 5)]) == pytest.approx(3 * rest)


def test_a_member_that_ends_later_holds_its_own_slots_alone() -> None:
    holdings = [
        Holding(since=START, until=START + dt.timedelta(seconds=100), slots=8),
        Holding(since=START, until=START + dt.timedelta(seconds=160), slots=2),
    ]
    history = AttemptHistory(
        holdings=holdings,
        started_at=START + dt.timedelta(seconds=10),
        noticed_at=START + dt.timedelta(seconds=90),
        end=End.FAILURE,
        is_measured=False,
    )
    found = summed(account(history, Tally(), now=START + dt.timedelta(hours=1)).days.values())
    assert found == pytest.approx(
        {"preparing": 100.0, "unmeasured": 800.0, "stopping": 100.0 + 2 * 60.0}
    )


def test_a_clock_that_was_set_back_makes_no_time() -> None:
    """Its worker started, and stepped, after its slots were free."""
    attempt = SimulatedAttempt(random.Random(4), slots=(1,))
    attempt.spend("preparing", 100.0)
    attempt.train(50)
    freed = START + dt.timedelta(seconds=60)
    holdings = [Holding(since=START, until=freed, slots=2)]
    started_s = attempt.begin_s + 100.0
    tally = count(attempt.step_rows(), Held(holdings, freed), started_s)
    history = AttemptHistory(
        holdings=holdings,
        started_at=at(started_s),
        noticed_at=at(attempt.now_s),
        end=End.ITSELF,
        is_measured=True,
    )
    found = summed(account(history, tally, now=at(attempt.now_s)).days.values())
    assert found == pytest.approx({"preparing": 120.0})


@pytest.mark.parametrize(
    ("silent_s", "is_last_step", "expected"),
    [(5.0, False, {}), (900.0, False, {"undetected": 900.0}), (900.0, True, {"finishing": 900.0})],
)
def test_a_running_attempt_is_charged_until_its_last_step_or_as_silent(
    silent_s: float, is_last_step: bool, expected: dict[str, float]
) -> None:
    attempt = SimulatedAttempt(random.Random(2), slots=(1,))
    attempt.train(100)
    now = at(attempt.now_s + silent_s)
    held = [Holding(since=START, slots=1)]
    history = AttemptHistory(
        holdings=held,
        started_at=START,
        noticed_at=None,
        end=End.NONE,
        is_measured=True,
        is_last_step=is_last_step,
    )
    tally = count(attempt.step_rows(), Held(held, now), attempt.begin_s)
    ledger = account(history, tally, now=now)
    found = summed(ledger.days.values())
    assert {k: found[k] for k in ("undetected", "finishing") if k in found} == pytest.approx(
        expected
    )
    charged = silent_s if expected else 0.0
    assert (ledger.until - START).total_seconds() == pytest.approx(
        attempt.now_s - attempt.begin_s + charged, abs=1e-3
    )


def test_an_evaluation_without_gradients_is_no_part_of_a_step() -> None:
    """A plain script evaluates now and then under no_grad; a teacher does so in each step."""
    attempt = SimulatedAttempt(random.Random(3), slots=(1,))
    attempt.train(100, save_every=10_000, evaluate_every=10_000)
    for at_row, row in enumerate(attempt.rows):
        row[NO_GRAD] = 50.0  # a teacher
        if at_row == 60:
            row[NO_GRAD] += 20_000.0
            row[STEP] += 20_000.0
        if at_row >= 60:
            row["time"] += 20.0
    now = at(attempt.now_s + 20)
    held = Held([Holding(since=START, slots=1)], now)
    found = summed(count(attempt.step_rows(), held, attempt.begin_s).days.values())
    assert found[TimeClass.EVALUATION] == pytest.approx(20.0, rel=0.02)
    assert TimeClass.STALLED not in found
    assert found[ProductivePart.COMPUTATION] > 0.5 * found[TimeClass.PRODUCTIVE]
