"""The ledger of one attempt: every slot-second that it held, in exactly one class. Pure.

Time is cut where something is known to have changed: slots reserved, processes started, each row of
measured steps, the end noticed, slots free again. Each piece is multiplied by the slots held in it, so
the classes sum to the slot-seconds allocated by construction; what is not known has a class of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from muster_server.domain.quota.budgets import Holding

Floats = NDArray[np.float64]

STALL_FACTOR = 5.0
"""A step stalled if it took more than so many times the median one, and ..."""
STALL_MIN_S = 5.0
"""... at least so much longer."""
SILENCE_MIN_S = 30.0
"""Time without a step after which an attempt counts as silent, if it is also ten times that of a row."""
BLOCK_ROWS = 512
"""Rows that are judged together."""
_EXCEPTIONAL = 0.5
"""Part of a row's time without gradients from which the row is taken to hold an evaluation."""
_MAX_FIRST = 10
"""Times the steps of the median row that a first row may be of: step numbers may begin anywhere."""
_DAY_S = 86_400.0
_MS = 1e-3


class TimeClass(StrEnum):
    """What a slot-second was spent on. Exactly one class each."""

    PREPARING = "preparing"
    """Environment, image, code and checks, until the processes start."""
    STARTING = "starting"
    """Imports, rendezvous, loading and compiling: until the first step."""
    RESTORING = "restoring"
    """Part of the start that loaded a checkpoint, where it was measured."""
    PRODUCTIVE = "productive"
    """Steps whose progress survived."""
    SAVING = "saving"
    """Training waited for a checkpoint to be saved."""
    EVALUATION = "evaluation"
    REPEATED = "repeated"
    """Steps that a later attempt had to do again."""
    STALLED = "stalled"
    """Beyond the usual time of a step that took far longer than others, then went on."""
    UNDETECTED = "undetected"
    """Time between the last step and the moment the trouble was noticed."""
    FINISHING = "finishing"
    """Time between the last step and the regular exit of the processes."""
    STOPPING = "stopping"
    """Time between the moment the end was noticed and the slots being free."""
    IDLE = "idle"
    """No step measured, and no device of it used."""
    UNMEASURED = "unmeasured"
    """Processes ran, but nothing is known of their steps, or of whether a later attempt used them."""
    ABANDONED = "abandoned"
    """Steps of a trial that failed or was stopped and whose checkpoints nothing used."""


CLASSES = tuple(TimeClass)
LOST = tuple(
    c
    for c in CLASSES
    if c not in (TimeClass.PRODUCTIVE, TimeClass.EVALUATION, TimeClass.UNMEASURED)
)
"""Classes that moved no training forward."""


class ProductivePart(StrEnum):
    """Part of productive time; what is in none of them is other or unknown."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    """Exposed communication, waiting for late ranks included."""
    DATA = "data"
    BUBBLE = "bubble"


PARTS = tuple(ProductivePart)
_NAMES = (*CLASSES, *PARTS)
_AT = {name: at for at, name in enumerate(_NAMES)}

STEP, DATA, NO_GRAD = "time/step_ms", "time/data_wait_ms", "time/no_grad_ms"
CHECKPOINT, VALIDATION = "time/checkpoint_ms", "time/validation_ms"
EXPOSED, BUBBLE, OTHER = "comm/exposed_ms", "pipeline/bubble_ms", "time/other_ms"
RECORDED = "comm/recorded_pct"
READ = (STEP, DATA, NO_GRAD, CHECKPOINT, VALIDATION, EXPOSED, BUBBLE, OTHER, RECORDED)
"""Metrics that the ledger reads."""

Days = Mapping[dt.date, Mapping[str, float]]
"""Day (UTC) → class or part → slot-seconds above 0."""


class End(StrEnum):
    """How an attempt ended, or that it has not."""

    NONE = "none"
    ITSELF = "itself"
    REQUEST = "request"
    FAILURE = "failure"


@dataclass(frozen=True, kw_only=True)
class StepRows:
    """Rows of one rank, in step order; all arrays have the length of `steps`.

    A row is of the steps since the row before. Times are in ms per step, NaN where not measured.
    """

    steps: NDArray[np.int64]
    times_s: Floats
    """Unix time at the end of each row, by the clock of the node."""
    ms: Mapping[str, Floats] = field(default_factory=dict)
    """Any of READ → its values."""

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, name: str) -> Floats:
        """Return a metric, with 0 where it was not measured."""
        values = self.ms.get(name)
        return np.zeros(len(self)) if values is None else np.nan_to_num(values)

    def part(self, first: int, last: int) -> StepRows:
        """Return the rows first..last - 1."""
        ms = {name: values[first:last] for name, values in self.ms.items()}
        return StepRows(steps=self.steps[first:last], times_s=self.times_s[first:last], ms=ms)


class Held:
    """Slots that an attempt held over time."""

    def __init__(self, holdings: Sequence[Holding], now: dt.datetime) -> None:
        """Take what is still held as held until `now`. There is at least one holding."""
        ends = [(h.since.timestamp(), (h.until or now).timestamp(), h.slots) for h in holdings]
        changes: dict[float, int] = {}
        for since, until, slots in ends:
            changes[since] = changes.get(since, 0) + slots
            changes[max(since, until)] = changes.get(max(since, until), 0) - slots
        self._at = np.array(sorted(changes))
        slots_then = np.cumsum([changes[at] for at in self._at])[:-1]
        self._slot_s = np.concatenate([[0.0], np.cumsum(slots_then * np.diff(self._at))])
        self.since, self.until = float(self._at[0]), float(self._at[-1])

    def before(self, times_s: Floats) -> Floats:
        """Return the slot-seconds held until each Unix time."""
        return np.asarray(np.interp(times_s, self._at, self._slot_s))

    def days(self, edges: Floats, shares: Floats) -> dict[dt.date, dict[str, float]]:
        """Return the slot-seconds by day, class and part.

        edges: n + 1 Unix times in order. shares: n × classes and parts, of the time between two.
        """
        first, last = edges[0] // _DAY_S, edges[-1] // _DAY_S
        midnights = np.arange(first + 1, last + 1) * _DAY_S
        cut = np.union1d(edges, midnights)
        slot_s = np.diff(self.before(cut))
        amounts = shares[np.searchsorted(edges, cut[:-1], side="right") - 1] * slot_s[:, None]
        numbers = (cut[:-1] // _DAY_S).astype(np.int64)
        found: dict[dt.date, dict[str, float]] = {}
        for number in np.unique(numbers):
            sums = amounts[numbers == number].sum(axis=0)
            day = dt.datetime.fromtimestamp(float(number) * _DAY_S, dt.UTC).date()
            found[day] = {name: float(sums[at]) for name, at in _AT.items() if sums[at] > 0}
        return found


@dataclass(frozen=True, kw_only=True)
class Usual:
    """Medians of a block of rows, in seconds per step."""

    step_s: float
    no_grad_s: float
    steps_per_row: float


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the rows of an attempt come to, as far as they have been counted."""

    num_rows: int = 0
    begun_s: float | None = None
    """Unix time at which the first step began."""
    last_step: int = 0
    """Step of the last row; before the first one, the step that the attempt goes on from."""
    last_s: float = 0.0
    """Unix time of the last row."""
    usual: Usual | None = None
    """Medians of the last block. A block is judged by the one before it, the first one by itself."""
    days: Days = field(default_factory=dict)


def advance(
    tally: Tally, rows: StepRows, held: Held, *, started_s: float, kept_step: int | None = None
) -> tuple[Tally, Tally]:
    """Count rows that follow those counted.

    Returns the tally after all whole blocks, from which to go on later, and the tally after all rows.
    Blocks are of a fixed number of rows, so how often it is called changes nothing.
    kept_step: only the steps after it are counted.
    """
    first = 0
    while len(rows) - first >= BLOCK_ROWS:
        block = rows.part(first, first + BLOCK_ROWS)
        tally = _count(tally, block, held, started_s, kept_step)
        first += BLOCK_ROWS
    rest = rows.part(first, len(rows))
    return tally, _count(tally, rest, held, started_s, kept_step) if len(rest) else tally


def restart(tally: Tally, rows: StepRows, kept_step: int) -> tuple[Tally, StepRows]:
    """Return where to begin to count the steps after `kept_step` alone, and the rows to begin with.

    tally: after all rows of the attempt. rows: from one at or before `kept_step` on, if there is such.
    """
    num_before = int(np.searchsorted(rows.steps, kept_step, side="right"))
    if not num_before:
        return Tally(last_step=kept_step), rows
    at = num_before - 1
    before = Tally(
        num_rows=1,
        begun_s=tally.begun_s,
        last_step=int(rows.steps[at]),
        last_s=float(rows.times_s[at]),
        usual=tally.usual,
    )
    return before, rows.part(num_before, len(rows))


def productive_of(days: Days) -> Days:
    """Return the productive time of days, and its parts, alone."""
    wanted = (TimeClass.PRODUCTIVE, *PARTS)
    return {day: {n: v for n, v in of.items() if n in wanted} for day, of in days.items()}


def _count(
    tally: Tally, rows: StepRows, held: Held, started_s: float, kept_step: int | None
) -> Tally:
    """Count a block of at least one row."""
    started_s = min(started_s, held.until)  # a clock may have been set back
    times = np.maximum.accumulate(np.clip(rows.times_s, started_s, held.until))
    gaps = np.diff(rows.steps).astype(np.float64)
    typical_gap = float(np.median(gaps)) if len(gaps) else 1.0
    if tally.num_rows:
        begun_s, before_s = tally.begun_s, tally.last_s
        steps = np.diff(rows.steps, prepend=tally.last_step).astype(np.float64)
        times = np.maximum(times, before_s)
    else:
        first = float(rows.steps[0] - tally.last_step)
        steps = np.concatenate(
            [[first if 1.0 <= first <= _MAX_FIRST * typical_gap else typical_gap], gaps]
        )
        step_s = float(rows.of(STEP)[0] + rows.of(VALIDATION)[0]) * _MS
        if not step_s and len(gaps):
            step_s = float(np.median(np.diff(times))) / typical_gap
        before_s = begun_s = max(float(times[0]) - float(steps[0]) * step_s, started_s)
    steps = np.maximum(steps, 1.0)
    took = np.diff(times, prepend=before_s)
    usual, shares = _shares(tally, rows, steps, took, typical_gap)
    if kept_step is not None:
        ends = rows.steps.astype(np.float64)
        shares *= np.clip((ends - kept_step) / steps, 0.0, 1.0)[:, None]
    edges = np.concatenate([[before_s], times])
    return Tally(
        num_rows=tally.num_rows + len(rows),
        begun_s=begun_s,
        last_step=int(rows.steps[-1]),
        last_s=float(times[-1]),
        usual=usual,
        days=added(tally.days, held.days(edges, shares)),
    )


def _shares(
    tally: Tally, rows: StepRows, steps: Floats, took: Floats, typical_gap: float
) -> tuple[Usual, Floats]:
    """Return the medians of a block, and of each row the share of each class and part in its time."""
    recorded = rows.of(RECORDED)
    measured = steps * np.where(recorded > 0, recorded / 100.0, 1.0)
    evaluation = np.minimum(rows.of(VALIDATION) * _MS * steps, took)
    saving = np.minimum(rows.of(CHECKPOINT) * _MS * measured, took - evaluation)
    no_grad = rows.of(NO_GRAD) * _MS * steps
    left = took - evaluation - saving
    mine = Usual(
        step_s=float(np.median(left / steps)),
        no_grad_s=float(np.median(no_grad / steps)),
        steps_per_row=typical_gap,
    )
    usual = tally.usual or mine
    beyond = np.minimum(np.maximum(no_grad - usual.no_grad_s * steps, 0.0), left)
    is_evaluation = (no_grad > _EXCEPTIONAL * took) & (beyond > _EXCEPTIONAL * no_grad)
    evaluation = evaluation + np.where(is_evaluation, beyond, 0.0)
    left = np.maximum(took - evaluation - saving, 0.0)

    over = left - usual.step_s * steps
    is_over = (left > STALL_FACTOR * usual.step_s * steps) & (over > STALL_MIN_S)
    stalled = np.where(is_over, over, 0.0)
    productive = left - stalled

    shares = np.zeros((len(steps), len(_AT)))
    shares[:, _AT[TimeClass.EVALUATION]] = evaluation
    shares[:, _AT[TimeClass.SAVING]] = saving
    shares[:, _AT[TimeClass.PRODUCTIVE]] = productive
    shares[:, _AT[TimeClass.STALLED]] = stalled
    if not tally.num_rows:  # a first step that takes long compiles, or connects
        shares[0, _AT[TimeClass.STARTING]] = shares[0, _AT[TimeClass.STALLED]]
        shares[0, _AT[TimeClass.STALLED]] = 0.0
    for part, value in _parts(rows).items():
        shares[:, _AT[part]] = value * productive
    shares /= np.where(took > 0, took, 1.0)[:, None]
    return mine, shares


def _parts(rows: StepRows) -> dict[ProductivePart, Floats]:
    """Return the share of each part in a step, row by row; 0 where it is unknown."""
    step = rows.of(STEP) - rows.of(CHECKPOINT)
    known = step > 0
    whole = np.where(known, step, 1.0)
    found = {
        part: np.where(known, np.clip(rows.of(name) / whole, 0.0, 1.0), 0.0)
        for part, name in (
            (ProductivePart.COMMUNICATION, EXPOSED),
            (ProductivePart.DATA, DATA),
            (ProductivePart.BUBBLE, BUBBLE),
        )
    }
    other = np.where(known, np.clip(rows.of(OTHER) / whole, 0.0, 1.0), 0.0)
    sums = sum(found.values()) + other
    scale = np.where(sums > 1.0, 1.0 / np.where(sums > 0, sums, 1.0), 1.0)
    values = rows.ms.get(OTHER)
    has_parts = known & (np.isfinite(values) if values is not None else np.zeros(len(rows), bool))
    found[ProductivePart.COMPUTATION] = np.where(has_parts, np.maximum(1.0 - sums, 0.0), 0.0)
    return {
        part: value * (scale if part != ProductivePart.COMPUTATION else 1.0)
        for part, value in found.items()
    }


# ---------------------------------------------------------------- a whole attempt


@dataclass(frozen=True, kw_only=True)
class AttemptHistory:
    """What is stored of one attempt, besides its steps."""

    holdings: Sequence[Holding]
    """Slots of its allocations, at least one; `until` is None while they are held."""
    started_at: dt.datetime | None
    """Start of its first worker; None if none has started."""
    noticed_at: dt.datetime | None
    """When its end was noticed: the first exit of a worker, a request to stop or to release its slots,
    the finding that it is stuck, the loss of a node. None while nothing of it is known to end."""
    end: End
    is_measured: bool
    """Whether its workers report steps, so that time without one is its start."""
    idle_share: float = 0.0
    """Share of the samples, 0 to 1, in which no device of it was used; 0 where none was sampled. It counts
    where no step was measured."""
    restore_s: float = 0.0
    """Seconds in which it loaded a checkpoint before its first step."""
    is_last_step: bool = False
    """It has done all steps that it planned."""


@dataclass(frozen=True)
class Ledger:
    """Where the slot-seconds of an attempt went."""

    days: Days
    until: dt.datetime
    """End of the time it covers: of a running attempt its newest row, unless it has become silent."""


def account(history: AttemptHistory, tally: Tally, *, now: dt.datetime) -> Ledger:
    """Return the ledger of an attempt, all its steps taken as productive.

    tally: after all rows. The classes sum to the slot-seconds held until `until`.
    """
    held = Held(history.holdings, now)
    started = held.until if history.started_at is None else history.started_at.timestamp()
    started = min(max(started, held.since), held.until)
    pieces: list[tuple[float, TimeClass]] = [(started, TimeClass.PREPARING)]
    noticed = held.until if history.noticed_at is None else history.noticed_at.timestamp()
    if history.started_at is None:
        pieces = [(min(max(noticed, held.since), held.until), TimeClass.PREPARING)]
    elif not tally.num_rows:
        noticed = min(max(noticed, started), held.until)
        unknown = TimeClass.STARTING if history.is_measured else TimeClass.UNMEASURED
        pieces.append((noticed - history.idle_share * (noticed - started), unknown))
        pieces.append((noticed, TimeClass.IDLE))
    else:
        begun = tally.begun_s or started
        pieces.append((max(started, begun - history.restore_s), TimeClass.STARTING))
        pieces.append((begun, TimeClass.RESTORING))
        days = _from_pieces(held, held.since, pieces)
        days = added(days, tally.days)
        noticed = min(max(noticed, tally.last_s), held.until)
        silent = noticed - tally.last_s
        step_s = tally.usual.step_s * tally.usual.steps_per_row if tally.usual else 0.0
        is_silent = silent > max(SILENCE_MIN_S, 10 * step_s)
        tail = _tail(history, is_silent=is_silent)
        if tail is None:
            return Ledger(days, dt.datetime.fromtimestamp(tally.last_s, dt.UTC))
        rest = [(noticed, tail), (held.until, TimeClass.STOPPING)]
        days = added(days, _from_pieces(held, tally.last_s, rest))
        return Ledger(days, dt.datetime.fromtimestamp(held.until, dt.UTC))
    pieces.append((held.until, TimeClass.STOPPING))
    days = _from_pieces(held, held.since, pieces)
    return Ledger(days, dt.datetime.fromtimestamp(held.until, dt.UTC))


def _tail(history: AttemptHistory, *, is_silent: bool) -> TimeClass | None:
    """Return the class of the time between the last step and the moment the end was noticed, or now;
    None: the next row will tell."""
    match history.end:
        case End.ITSELF:
            return TimeClass.FINISHING
        case End.FAILURE:
            return TimeClass.UNDETECTED
        case End.REQUEST:
            return TimeClass.UNDETECTED if is_silent else TimeClass.STOPPING
        case End.NONE if history.is_last_step:
            return TimeClass.FINISHING
        case End.NONE:
            return TimeClass.UNDETECTED if is_silent else None


def _from_pieces(held: Held, begin: float, pieces: Sequence[tuple[float, TimeClass]]) -> Days:
    """Return the days of consecutive times, each of one class until its end."""
    edges, shares = [begin], []
    for end, kind in pieces:
        if end > edges[-1]:
            edges.append(end)
            shares.append(np.eye(len(_AT))[_AT[kind]])
    if not shares:
        return {}
    return held.days(np.array(edges), np.array(shares))


def lose(days: Days, repeated: Days) -> Days:
    """Return the days with the productive time of `repeated`, of `productive_of`, as repeated."""
    found = {day: dict(of) for day, of in days.items()}
    for day, of in repeated.items():
        mine = found.setdefault(day, {})
        for name, value in of.items():
            moved = min(value, mine.get(name, 0.0))
            mine[name] = mine.get(name, 0.0) - moved
            if name == TimeClass.PRODUCTIVE:
                mine[TimeClass.REPEATED] = mine.get(TimeClass.REPEATED, 0.0) + moved
    return found


def abandon(days: Days) -> Days:
    """Return the days with all productive time as abandoned."""
    return _moved(days, TimeClass.ABANDONED)


def doubt(days: Days) -> Days:
    """Return the days with all productive time as unmeasured: nobody knows whether it survived."""
    return _moved(days, TimeClass.UNMEASURED)


def _moved(days: Days, to: TimeClass) -> Days:
    productive = (TimeClass.PRODUCTIVE, *PARTS)
    return {
        day: {
            **{name: value for name, value in of.items() if name not in productive},
            to: of.get(to, 0.0) + of.get(TimeClass.PRODUCTIVE, 0.0),
        }
        for day, of in days.items()
    }


def added(left: Days, right: Days) -> Days:
    """Return the sums of two, day by day and name by name."""
    return {day: summed([left.get(day, {}), right.get(day, {})]) for day in {**left, **right}}


def summed(many: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of mappings, name by name."""
    found: dict[str, float] = {}
    for one in many:
        for name, value in one.items():
            found[name] = found.get(name, 0.0) + value
    return found


def allocated_s(totals: Mapping[str, float]) -> float:
    """Return the slot-seconds of all classes."""
    return sum(value for name, value in totals.items() if name in CLASSES)
