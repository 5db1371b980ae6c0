"""Which checkpoint of a search an alias of a model moves to when the search has ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Goal = Literal["min", "max"]
Outcome = Literal["move", "keep", "refuse"]


@dataclass(frozen=True, kw_only=True)
class PromotionCandidate:
    """A complete checkpoint of the experiment."""

    checkpoint_id: int
    trial_no: int
    step: int
    value: float | None
    """The metric at that step; None if it was not reported there. May be NaN or infinite."""


@dataclass(frozen=True, kw_only=True)
class AliasHolder:
    """The version that the alias names now."""

    number: int
    checkpoint_id: int | None
    value: float | None
    """Value of the same metric in that version; None if it has none. May be NaN or infinite."""


@dataclass(frozen=True, kw_only=True)
class PromotionDecision:
    outcome: Outcome
    reason: str
    candidate: PromotionCandidate | None = None
    """What the alias moves to, or the best there is if it stays; None if nothing can be judged."""


def decide_promotion(
    candidates: Sequence[PromotionCandidate],
    holder: AliasHolder | None,
    *,
    metric: str,
    goal: Goal,
) -> PromotionDecision:
    """Decide about an alias once its experiment has ended.

    The best checkpoint is the one with the best finite value; of equal ones that of the earlier step,
    then of the lower trial. The alias moves only if that value is strictly better than the finite
    value of the version it names now. Checkpoints whose value is missing, NaN or infinite never win.
    """
    if not candidates:
        return PromotionDecision(
            outcome="refuse", reason="the experiment has no complete checkpoint"
        )
    finite = [c for c in candidates if c.value is not None and math.isfinite(c.value)]
    if not finite:
        return PromotionDecision(outcome="refuse", reason=_lack(candidates, metric))
    sign = 1 if goal == "min" else -1
    best = min(finite, key=lambda c: (sign * _number(c.value), c.step, c.trial_no, c.checkpoint_id))
    value = _number(best.value)
    found = f"{metric} is {value:.6g} at step {best.step:,} of trial {best.trial_no}"
    if holder is None:
        return PromotionDecision(
            outcome="move", candidate=best, reason=f"{found}, the best of the experiment"
        )
    if holder.checkpoint_id == best.checkpoint_id:
        return PromotionDecision(
            outcome="keep",
            candidate=best,
            reason=f"version {holder.number} is already the best checkpoint: {found}",
        )
    if holder.value is None or not math.isfinite(holder.value):
        what = "no value of it" if holder.value is None else f"the value {holder.value}"
        return PromotionDecision(
            outcome="move",
            candidate=best,
            reason=f"{found}; version {holder.number} has {what}",
        )
    before = f"{holder.value:.6g} of version {holder.number}"
    if sign * value < sign * holder.value:
        return PromotionDecision(
            outcome="move", candidate=best, reason=f"{found}, better than {before}"
        )
    return PromotionDecision(
        outcome="keep", candidate=best, reason=f"{found}, not better than {before}"
    )


def _lack(candidates: Sequence[PromotionCandidate], metric: str) -> str:
    num = len(candidates)
    which = "the only checkpoint has" if num == 1 else f"none of {num:,} checkpoints has"
    if all(c.value is None for c in candidates):
        none = "no" if num == 1 else "a"
        return f"{which} {none} value of {metric}: was it reported before they were saved?"
    none = "no" if num == 1 else "a"
    return f"{which} {none} finite value of {metric}: all are missing, NaN or infinite"


def _number(value: float | None) -> float:
    assert value is not None, "only finite values are compared"
    return value
