"""What `measure.py` writes, read with checks, and the costs that follow from it.

Work of these costs waits in `capacity/queues`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

PARTS = ("server", "controller", "database")
CALLS = ("heartbeat", "heartbeat_sampled", "poll", "report", "log")
SIZES = (1, 64)
"""Nodes of a trial."""

NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Used(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Seconds of a processor."""

    server: NotNegative = 0.0
    controller: NotNegative = 0.0
    database: NotNegative = 0.0


class Idle(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """A time in which nobody called."""

    nodes: Annotated[int, msgspec.Meta(ge=0)]
    running: Annotated[int, msgspec.Meta(ge=0)]
    wall_s: Positive
    used: Used


class Observed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Calls of one kind, so many of them under way at once."""

    call: str
    at_once: Count
    calls: Count
    transactions: Annotated[float, msgspec.Meta(gt=0)]
    """Number of transactions that these calls took; fewer than calls where they shared them."""
    wall_s: Positive
    loop_s: NotNegative
    """Part of `used.server` in the thread that reads requests and writes answers."""
    used: Used
    """Above what is used when nobody calls."""
    each_server_s: list[NotNegative] = []
    """Costs of single calls, one after another."""
    each_database_s: list[NotNegative] = []


class Trials(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Trials from submit to end, that do nothing."""

    nodes: Count
    trials: Count
    is_burst: bool
    """Submitted at once; else each after the end of the one before."""
    wall_s: Positive
    used: Used


class Measured(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    machine: str
    load: str
    idle: Annotated[list[Idle], msgspec.Meta(min_length=3)]
    calls: list[Observed]
    trials: list[Trials]


class CallCost(msgspec.Struct, kw_only=True, frozen=True):
    """Seconds of a processor: a transaction of n calls takes n x each + batch."""

    loop: float
    each: float
    batch: float
    database_each: float
    database_batch: float
    controller: float
    spread: tuple[float, ...]
    """Spread of what a call takes in the server, relative to the mean."""
    database_spread: tuple[float, ...]


class TrialCost(msgspec.Struct, kw_only=True, frozen=True):
    alone: Used
    burst: Used
    burst_per_s: float
    """As many as there were in a burst, by the busiest processor."""


class Costs(msgspec.Struct, kw_only=True, frozen=True):
    machine: str
    load: str
    base: Used
    """A second, whatever there is."""
    node: Used
    """A second for each node that says nothing."""
    running: Used
    """A second for each attempt that says nothing."""
    calls: dict[str, CallCost]
    trials: dict[int, TrialCost]


class BadMeasurement(ValueError):
    """The file cannot be used; the message names the field and what would work."""


def read(path: Path) -> Costs:
    """Return the costs of a file of `measure.py`. Raises BadMeasurement."""
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=Measured)
    except OSError as error:
        raise BadMeasurement(f"{path}: {error.strerror}; make it: {_MAKE}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadMeasurement(f"{path}: {error}; make it again: {_MAKE}") from error
    try:
        return costs_of(measured)
    except BadMeasurement as error:
        raise BadMeasurement(f"{path}: {error}; make it again: {_MAKE}") from error


_MAKE = "python bench/capacity/measure.py --out FILE"


def costs_of(measured: Measured) -> Costs:
    base, node, running = _background(measured.idle)
    return Costs(
        machine=measured.machine,
        load=measured.load,
        base=base,
        node=node,
        running=running,
        calls={name: _call_cost(name, measured.calls) for name in CALLS},
        trials={size: _trial_cost(size, measured.trials) for size in SIZES},
    )


def _background(idle: Sequence[Idle]) -> tuple[Used, Used, Used]:
    """Return what a second costs by itself, and for each silent node and attempt."""
    empty = [one for one in idle if not one.nodes and not one.running]
    silent = [one for one in idle if one.nodes and not one.running]
    busy = [one for one in idle if one.nodes and one.running]
    if not (empty and silent and busy):
        raise BadMeasurement(
            "idle: need one without nodes, one with nodes and one with attempts that run, have "
            + ", ".join(f"nodes {one.nodes} running {one.running}" for one in idle)
        )
    if silent[0].nodes != busy[0].nodes:
        raise BadMeasurement(
            f"idle: nodes are {silent[0].nodes} without and {busy[0].nodes} with attempts that "
            "run; need as many in both"
        )

    def rate(one: Idle, part: str) -> float:
        return float(getattr(one.used, part)) / one.wall_s

    base = {part: rate(empty[0], part) for part in PARTS}
    node = {p: max(0.0, rate(silent[0], p) - base[p]) / silent[0].nodes for p in PARTS}
    running = {p: max(0.0, rate(busy[0], p) - rate(silent[0], p)) / busy[0].running for p in PARTS}
    return Used(**base), Used(**node), Used(**running)


def _call_cost(name: str, observed: Sequence[Observed]) -> CallCost:
    mine = sorted((one for one in observed if one.call == name), key=lambda one: one.at_once)
    if len({one.at_once for one in mine}) < 2:
        raise BadMeasurement(
            f"calls: need {name} at two values of at_once, have {[one.at_once for one in mine]}"
        )
    single, many = mine[0], mine[-1]
    if not single.each_server_s or len(single.each_server_s) != len(single.each_database_s):
        raise BadMeasurement(
            f"calls: each_server_s and each_database_s of {name} at_once {single.at_once} have "
            f"{len(single.each_server_s)} and {len(single.each_database_s)} values; need as many, "
            "and at least 1"
        )
    loop = _mean(one.loop_s / one.calls for one in mine)
    each, batch = split(
        [(one.transactions / one.calls, one.used.server / one.calls) for one in (single, many)]
    )
    database_each, database_batch = split(
        [(one.transactions / one.calls, one.used.database / one.calls) for one in (single, many)]
    )
    return CallCost(
        loop=min(loop, each),
        each=each - min(loop, each),
        batch=batch,
        database_each=database_each,
        database_batch=database_batch,
        controller=single.used.controller / single.calls,
        spread=_relative(single.each_server_s),
        database_spread=_relative(single.each_database_s),
    )


SAME = 0.1
"""Two shares of transactions that differ by less say nothing about what one costs."""


def split(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return (cost of a call, cost of a transaction) from two of (transactions a call, cost a call)."""
    (x1, y1), (x2, y2) = points
    if abs(x1 - x2) < SAME:
        return (y1 + y2) / 2, 0.0
    batch = min(max(0.0, (y1 - y2) / (x1 - x2)), y1 / x1)
    return max(0.0, y1 - batch * x1), batch


def _relative(values: Sequence[float]) -> tuple[float, ...]:
    mean = _mean(values)
    return tuple(value / mean for value in values) if mean > 0 else (1.0,)


def _mean(values: object) -> float:
    listed = list(values)  # type: ignore[call-overload]
    return float(sum(listed) / len(listed))


def _trial_cost(size: int, trials: Sequence[Trials]) -> TrialCost:
    kinds: dict[bool, Used] = {}
    per_s = 0.0
    for is_burst in (False, True):
        mine = [one for one in trials if one.nodes == size and one.is_burst == is_burst]
        if not mine:
            how = "at once" if is_burst else "one after another"
            raise BadMeasurement(f"trials: none of {size} node(s) {how}")
        num = sum(one.trials for one in mine)
        kinds[is_burst] = Used(
            **{part: sum(getattr(one.used, part) for one in mine) / num for part in PARTS}
        )
        if is_burst:
            used = kinds[True]
            per_s = 1 / max(used.server, used.controller, used.database, 1e-9)
    return TrialCost(alone=kinds[False], burst=kinds[True], burst_per_s=per_s)
