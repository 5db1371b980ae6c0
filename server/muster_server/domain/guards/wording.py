"""Guards in words."""

from __future__ import annotations

import math

from muster.document.guards import GuardSection

from .changes import factor_of

_ACTIONS = {
    "notify": "tell people",
    "stop": "stop the trial at once",
    "checkpoint_and_stop": "save a checkpoint and stop the trial",
    "restart_elsewhere": "restart the trial from its newest checkpoint on other nodes",
}


def explain(guard: GuardSection) -> str:
    """Return what a guard does, in one sentence."""
    if guard.action == "rollback":
        does = "restart the trial from the newest checkpoint from before the trouble"
        if guard.set_:
            does += f" with {' and '.join(_change(*item) for item in guard.set_.items())}"
        if guard.skip_samples:
            does += ", behind the samples of the steps since"
    else:
        does = _ACTIONS[guard.action]
    times = {1: "once", 2: "twice"}.get(guard.max_times, f"{guard.max_times} times")
    if guard.cooldown_steps and guard.max_times > 1:
        times += f", at least {guard.cooldown_steps:,} steps apart"
    sentence = f"When {_condition(guard)}, {does}. It acts at most {times}."
    if guard.action in ("rollback", "restart_elsewhere"):
        why = "no such checkpoint exists" if guard.action == "rollback" else "no other node fits"
        sentence += f" If {why}, {_ACTIONS[guard.otherwise]} instead."
    return sentence


def _condition(guard: GuardSection) -> str:
    name = guard.metric
    if guard.no_step_for_min is not None:
        return f"there is no step for {number(guard.no_step_for_min)} min"
    if guard.straggler is not None:
        late = guard.straggler
        return (
            f"one worker holds up the others for {percent(late.share)} of the step over "
            f"{number(late.minutes)} min"
        )
    if guard.not_finite:
        return f"{name} is NaN or infinite"
    if guard.spike is not None:
        spike = guard.spike
        return (
            f"{name} exceeds {number(spike.times)} times the median of its last {spike.window} normal "
            "values"
        )
    if guard.plateau is not None:
        plateau = guard.plateau
        length = (
            f"{plateau.steps:,} steps"
            if plateau.steps is not None
            else f"{plateau.values:,} values"
        )
        return f"{name} changes by less than {number(plateau.min_change)} within {length}"
    if guard.below_median is not None:
        below = guard.below_median
        return f"{name} stays below {percent(below.share)} of its median for {number(below.minutes)} min"
    side, limit = ("above", guard.above) if guard.above is not None else ("below", guard.below)
    at = f" at step {guard.at_step:,}" if guard.at_step is not None else ""
    return f"{name} is {side} {number(limit or 0.0)}{at}"


def _change(name: str, value: float | str | bool) -> str:
    factor = factor_of(value)
    return f"{name} = {value}" if factor is None else f"{name} × {factor:g}"


def number(value: float) -> str:
    """Return "13.2", "0.0004", "1,240", "NaN" or "infinite"."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.6g}"


def percent(share: float) -> str:
    return f"{share * 100:g}%"
