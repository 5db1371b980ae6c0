"""Whether a guard acts: a fold over the values of its metric.

Values come in the order of attempts and steps, in pieces of any size; the result does not depend on how
they are cut. So the same values, read again, give the same firings.

A guard acts on the first value that its condition holds for, and then not again until REARM_AFTER normal
values in a row, or a new attempt.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster.document.guards import GuardSection, StragglerSection
from muster_server.domain.insight.waiting import MIN_BUCKETS
from muster_server.domain.messages import Message

from .late import late_rank
from .wording import number, percent

REARM_AFTER = 5
"""Normal values in a row after which a guard may act again."""
MEDIAN_WINDOW = 200
"""Normal values whose median `below_median` compares with."""
MEDIAN_MIN = 10
"""Normal values without which there is no such median."""
START_GRACE_MIN = 10.0
"""Minutes that the first step of an attempt may take at least: imports, rendezvous and compiling are no
standstill."""
SUMMABLE = 1e290
"""Sums of smaller values stay finite."""
LAST_STEP = 1 << 53
"""Later than any step."""


class RankTimes(NamedTuple):
    """What a rank has measured of the steps since its row before, as means per step."""

    rank: int
    exposed_ms: float
    """Time in communication that nothing hides."""
    step_ms: float


class GuardValue(NamedTuple):
    """A value of a guard's metric."""

    attempt_no: int
    step: int
    time_ms: int
    value: float
    ranks: tuple[RankTimes, ...] = ()
    """For `straggler`: the rows that end at this step, in the order of ranks."""


class RankSums(NamedTuple):
    """Sums over a rank's steps in the stretch that `straggler` is reading."""

    rank: int
    step: int
    """Last step that it has measured."""
    num_steps: int = 0
    exposed_ms: float = 0.0
    step_ms: float = 0.0


@dataclass(kw_only=True)
class GuardState:
    """What a guard remembers between two pieces. Functions return another one."""

    attempt_no: int = 0
    step: int = -1
    """Values up to here have been judged."""
    normal_step: int | None = None
    """Step of the last normal value of this curve."""
    window: tuple[tuple[int, float], ...] = ()
    """(step, value) of the last normal values, for medians."""
    since_ms: int | None = None
    """Since when all values have been too low; for `no_step_for_min`, when the last step was made;
    for `straggler`, the start of the stretch."""
    is_armed: bool = True
    num_normal: int = 0
    """Normal values in a row since it acted."""
    num_fired: int = 0
    fired_step: int | None = None
    judged_at_step: bool = False
    """The one value that `at_step` is about has come."""
    half: tuple[int, int, float] | None = None
    """(first step or value, number of values, their sum) of the half that `plateau` is reading."""
    half_mean: float | None = None
    """Mean of the half before."""
    num_values: int = 0
    ranks: tuple[RankSums, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A guard's condition holds."""

    attempt_no: int
    step: int
    value: float
    limit: float | None
    """What the value was compared with."""
    reason: Message
    """One sentence without its full stop."""
    before_step: int | None
    """Checkpoints below this step are from before the trouble: a later value was normal. None: none
    is known to be."""
    rank: int | None = None
    """The rank that the others wait for."""


def judge(
    guard: GuardSection, state: GuardState, points: Iterable[GuardValue]
) -> tuple[GuardState, list[Firing]]:
    """Return the state after these points, and where the guard acts. Points that were judged before
    are left out."""
    fold = _Fold(guard, state)
    firings = [firing for point in points if (firing := fold.take(point)) is not None]
    return fold.state(), firings


def judge_silence(
    guard: GuardSection,
    state: GuardState,
    *,
    attempt_no: int,
    step: int,
    quiet_s: float,
    is_starting: bool = False,
) -> tuple[GuardState, Firing | None]:
    """Judge `no_step_for_min` of an attempt that made its last step `quiet_s` seconds ago: it acts
    once per attempt.

    is_starting: it has made no step yet; `quiet_s` is the time since its workers started.
    """
    state = dataclasses.replace(state)
    if attempt_no > state.attempt_no:
        state.attempt_no, state.is_armed = attempt_no, True
    limit = _silence_limit(guard.no_step_for_min or math.inf, is_starting=is_starting)
    if quiet_s < limit * 60 or not _may_fire(guard, state, step):
        return state, None
    _note_fired(state, step)
    return state, _silence(guard, attempt_no, step, quiet_s)


def close_attempt(state: GuardState, attempt_no: int) -> GuardState:
    """Return the state in which all of an attempt counts as judged, because it is being ended."""
    return dataclasses.replace(state, attempt_no=attempt_no, step=LAST_STEP)


def to_plain(states: Sequence[GuardState]) -> list[dict[str, Any]]:
    return [dict(vars(state)) for state in states]


def from_plain(plain: Sequence[Mapping[str, Any]], num: int) -> list[GuardState]:
    """Return the states of `num` guards; those that are not there yet are new."""
    names = {field.name for field in dataclasses.fields(GuardState)}
    states = []
    for one in plain[:num]:
        given = {name: value for name, value in one.items() if name in names}
        given["window"] = tuple((int(step), value) for step, value in given.get("window", ()))
        if (half := given.get("half")) is not None:
            given["half"] = tuple(half)
        given["ranks"] = tuple(RankSums(*sums) for sums in given.get("ranks", ()))
        states.append(GuardState(**given))
    return [*states, *(GuardState() for _ in range(num - len(states)))]


def _may_fire(guard: GuardSection, state: GuardState, step: int) -> bool:
    is_cool = state.fired_step is None or step - state.fired_step >= guard.cooldown_steps
    return state.is_armed and state.num_fired < guard.max_times and is_cool


def _note_fired(state: GuardState, step: int) -> None:
    state.is_armed, state.num_normal = False, 0
    state.num_fired, state.fired_step = state.num_fired + 1, step


def _silence_limit(limit_min: float, *, is_starting: bool) -> float:
    return max(limit_min, START_GRACE_MIN) if is_starting else limit_min


def _silence(guard: GuardSection, attempt_no: int, step: int, quiet_s: float) -> Firing:
    return Firing(
        attempt_no=attempt_no,
        step=step,
        value=quiet_s / 60,
        limit=guard.no_step_for_min,
        reason=Message("guard.silent", minutes=number(round(quiet_s / 60, 1))),
        before_step=step + 1,
    )


@dataclass(frozen=True)
class _Verdict:
    is_normal: bool
    limit: float | None = None
    reason: Message | None = None
    """None where it is normal, or there was a gap between two steps."""
    is_recent: bool = False
    """What holds is not a fault of the values before, so the newest checkpoint is as good as any."""
    rank: int | None = None
    value: float | None = None
    """What was judged, where that is not the point's own value."""


class _Fold:
    """A state while points are added to it."""

    def __init__(self, guard: GuardSection, state: GuardState) -> None:
        self._guard = guard
        self._name = guard.metric or ""
        self._state = dataclasses.replace(state)
        self._steps = [step for step, _ in state.window]
        self._values = [value for _, value in state.window]
        self._sorted = sorted(self._values)

    def state(self) -> GuardState:
        window = tuple(zip(self._steps, self._values, strict=True))
        return dataclasses.replace(self._state, window=window)

    def take(self, point: GuardValue) -> Firing | None:
        state = self._state
        if (point.attempt_no, point.step) <= (state.attempt_no, state.step):
            return None
        if point.attempt_no > state.attempt_no:
            self._begin_attempt(point)
        previous, state.step = state.step, point.step
        verdict = self._verdict(point)
        if verdict is None:
            return None
        if verdict.is_normal:
            state.normal_step = point.step
            state.num_normal += 1
            needed = 1 if self._guard.plateau or self._guard.straggler else REARM_AFTER
            state.is_armed = state.is_armed or state.num_normal >= needed
            return None
        state.num_normal = 0
        is_gap = self._guard.no_step_for_min is not None
        step = max(previous, 0) if is_gap else point.step
        if not _may_fire(self._guard, state, step):
            return None
        _note_fired(state, step)
        if verdict.reason is None:
            return _silence(self._guard, point.attempt_no, step, (verdict.limit or 0.0) * 60)
        return Firing(
            attempt_no=point.attempt_no,
            step=step,
            value=point.value if verdict.value is None else verdict.value,
            limit=verdict.limit,
            reason=verdict.reason,
            before_step=step + 1 if verdict.is_recent else state.normal_step,
            rank=verdict.rank,
        )

    def _begin_attempt(self, first: GuardValue) -> None:
        """Forget what the new attempt does again, and be ready to act."""
        keep = bisect_left(self._steps, first.step)
        del self._steps[keep:], self._values[keep:]
        self._sorted = sorted(self._values)
        state, at_step = self._state, self._guard.at_step

        def earlier(step: int | None) -> int | None:
            return None if step is None else min(step, first.step - 1)

        state.attempt_no, state.step = first.attempt_no, -1
        state.normal_step, state.fired_step = earlier(state.normal_step), earlier(state.fired_step)
        state.is_armed, state.num_normal = True, 0
        state.since_ms = state.half = state.half_mean = None
        state.ranks = ()
        state.judged_at_step = state.judged_at_step and first.step > (at_step or 0)

    def _remember(self, point: GuardValue, value: float, most: int) -> None:
        self._steps.append(point.step)
        self._values.append(value)
        insort(self._sorted, value)
        if len(self._values) > most:
            del self._sorted[bisect_left(self._sorted, self._values[0])]
            del self._steps[0], self._values[0]

    def _median(self) -> float:
        middle = len(self._sorted) // 2
        if len(self._sorted) % 2:
            return self._sorted[middle]
        return (self._sorted[middle - 1] + self._sorted[middle]) / 2

    def _verdict(self, point: GuardValue) -> _Verdict | None:
        """Return whether a value is normal; None for one that says nothing."""
        guard, value = self._guard, point.value
        if guard.no_step_for_min is not None:
            return self._judge_gap(point, guard.no_step_for_min)
        if guard.straggler is not None:
            return self._judge_straggler(point, guard.straggler)
        if guard.not_finite:
            if math.isfinite(value):
                return _Verdict(True)
            reason = Message(
                "guard.nan" if math.isnan(value) else "guard.infinite", metric=self._name
            )
            return _Verdict(False, None, reason)
        if math.isnan(value):
            return None
        if guard.spike is not None:
            return self._judge_spike(point, guard.spike.times, guard.spike.window)
        if guard.below_median is not None:
            return self._judge_share(point)
        if guard.plateau is not None:
            return self._judge_plateau(point)
        return self._judge_bound(point)

    def _judge_gap(self, point: GuardValue, limit_min: float) -> _Verdict | None:
        before = self._state.since_ms
        self._state.since_ms = point.time_ms
        if before is None:
            self._state.num_values = 0
            return None
        self._state.num_values += 1
        # The first point is the start of the workers where that is known.
        limit_min = _silence_limit(limit_min, is_starting=self._state.num_values == 1)
        quiet_min = (point.time_ms - before) / 60_000
        return _Verdict(quiet_min < limit_min, quiet_min)

    def _judge_straggler(self, point: GuardValue, limit: StragglerSection) -> _Verdict | None:
        """Judge stretches of time that follow each other. The first step of each rank is left out: what
        begins there is not over all of it."""
        state = self._state
        sums = {one.rank: one for one in state.ranks}
        for rank, exposed, step_ms in point.ranks:
            if rank not in sums:
                sums[rank] = RankSums(rank, point.step)
                continue
            _, before, num, *of = sums[rank]
            n = point.step - before
            more = (total + n * ms for total, ms in zip(of, (exposed, step_ms), strict=True))
            sums[rank] = RankSums(rank, point.step, num + n, *more)
        state.ranks = tuple(sums[rank] for rank in sorted(sums))
        if not point.ranks or point.ranks[0].rank != state.ranks[0].rank:
            return None  # Time is read on one clock.
        state.since_ms = point.time_ms if state.since_ms is None else state.since_ms
        is_over = point.time_ms - state.since_ms >= limit.minutes * 60_000
        if not is_over or min(one.num_steps for one in state.ranks) < MIN_BUCKETS:
            return None
        late = late_rank(
            {one.rank: one.exposed_ms / one.num_steps for one in state.ranks},
            {one.rank: one.step_ms / one.num_steps for one in state.ranks},
        )
        state.since_ms = point.time_ms
        state.ranks = tuple(RankSums(one.rank, one.step) for one in state.ranks)
        if late is None:
            return None
        rank, share = late
        reason = Message(
            "guard.straggler",
            rank=rank,
            share=percent(round(share, 3)),
            minutes=number(limit.minutes),
        )
        is_normal = not share > limit.share
        return _Verdict(is_normal, limit.share, reason, is_recent=True, rank=rank, value=share)

    def _judge_spike(self, point: GuardValue, times: float, window: int) -> _Verdict:
        size = abs(point.value)
        median = self._median() if 2 * len(self._values) >= window else 0.0
        if median > 0 and size > times * median:
            reason = Message(
                "guard.spike",
                metric=self._name,
                value=number(point.value),
                times=number(size / median),
                num=len(self._values),
            )
            return _Verdict(False, times * median, reason)
        if math.isfinite(size):
            self._remember(point, size, window)
        return _Verdict(True)

    def _judge_share(self, point: GuardValue) -> _Verdict | None:
        below = self._guard.below_median
        assert below is not None
        median = self._median() if len(self._values) >= MEDIAN_MIN else -math.inf
        limit = below.share * median
        if not point.value < limit:
            self._state.since_ms = None
            if math.isfinite(point.value):
                self._remember(point, point.value, MEDIAN_WINDOW)
            return _Verdict(True)
        since = self._state.since_ms if self._state.since_ms is not None else point.time_ms
        self._state.since_ms = since
        if point.time_ms - since < below.minutes * 60_000:
            return None
        reason = Message(
            "guard.below_median",
            metric=self._name,
            share=percent(below.share),
            median=number(median),
            minutes=number(below.minutes),
            value=number(point.value),
        )
        return _Verdict(False, limit, reason, is_recent=True)

    def _judge_plateau(self, point: GuardValue) -> _Verdict | None:
        """Compare the means of halves that follow each other."""
        plateau = self._guard.plateau
        assert plateau is not None
        if abs(point.value) >= SUMMABLE:
            return None
        place = self._state.num_values
        length = plateau.values or 0
        if plateau.steps is not None:
            place, length = point.step, plateau.steps
        half = max(length // 2, 1)
        self._state.num_values = self._state.num_values + 1
        first, num, total = self._state.half or (place, 0, 0.0)
        verdict = None
        if place - first >= half:
            mean, before = total / num, self._state.half_mean
            if before is not None:
                change = abs(mean - before)
                reason = Message(
                    "guard.plateau_steps" if plateau.steps is not None else "guard.plateau_values",
                    metric=self._name,
                    change=number(change),
                    length=length,
                    limit=number(plateau.min_change),
                )
                is_normal = change >= plateau.min_change
                verdict = _Verdict(is_normal, plateau.min_change, reason, is_recent=True)
            self._state.half_mean = mean
            first, num, total = place, 0, 0.0
        self._state.half = (first, num + 1, total + point.value)
        return verdict

    def _judge_bound(self, point: GuardValue) -> _Verdict | None:
        guard, value = self._guard, point.value
        if guard.at_step is not None:
            if point.step < guard.at_step or self._state.judged_at_step:
                return None
            self._state.judged_at_step = True
        is_above = guard.above is not None and value > guard.above
        limit = guard.above if is_above else guard.below
        if limit is None or not (is_above or value < limit):
            return _Verdict(True)
        reason = Message(
            "guard.above" if is_above else "guard.below",
            metric=self._name,
            value=number(value),
            limit=number(limit),
        )
        return _Verdict(False, limit, reason, is_recent=guard.at_step is not None)
