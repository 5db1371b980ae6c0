"""What a training's step is bound by, in a headline and what helps. Pure.

The page, the command line and REST all say what is said here. A cost is what a step could do without:
waiting for a late rank, communication, for other stages of a pipeline, for data, writing checkpoints,
validation, and whatever else is no part of the training. The optimizer's step is work, and a cost only
where it takes OPTIMIZER_SHARE.

A step is *bound by* what takes more than half of it. A smaller cost of at least NOTABLE_SHARE is the
largest avoidable one, beside what computing takes. Nothing is said firmly of fewer than MIN_STEPS steps,
in which what happens now and then may not have happened yet, nor where the difference between the two
that are largest may be chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..messages import AnyMessage, Message, Scalar, sentences
from .costs import KINDS, CostKind
from .steps import RankSteps, StepAnalysis
from .waiting import LateRank

BottleneckKind = CostKind | Literal["communication_or_waiting", "no_single_cost", "too_early"]

BOUND_SHARE = 0.5
"""Share of the step above which it is bound by something."""
NOTABLE_SHARE = 0.1
"""Share of the step from which on a cost is named."""
OPTIMIZER_SHARE = 0.25
"""Share of the step from which the optimizer is named; it is higher because every training needs
one."""
MIN_STEPS = 30
"""Three periods of what happens in one step of ten."""
MIN_BUCKETS = 5
"""Fewer say little of how much they differ."""
IMBALANCE = 0.2
"""Imbalance from which uneven stages are named as a cause of a bubble."""
MAX_ACCUMULATE = 64
MAX_LATE = 3
"""Late ranks that are named."""

CAUSES: Mapping[BottleneckKind, str] = {
    "waiting": "waiting for late ranks",
    "communication": "communication",
    "communication_or_waiting": "communication, or waiting for other ranks",
    "bubble": "the pipeline bubble",
    "data": "data loading",
    "checkpoint": "writing checkpoints",
    "outside": "time outside the model",
    "outside_idle": "waiting outside the model",
    "outside_busy": "work outside the model",
    "without_gradients": "passes without gradients",
    "validation": "validation",
    "optimizer": "the optimizer",
    "computation": "computation",
}
"""Kind → what sentences call it."""
PART_NAMES = {
    "time/data_wait_ms": "data wait",
    "time/host_to_device_ms": "copy to the device",
    "time/forward_ms": "forward pass",
    "time/backward_ms": "backward pass",
    "time/no_grad_ms": "time without gradients",
    "time/optimizer_ms": "optimizer step",
    "time/checkpoint_ms": "saving of checkpoints",
    "time/other_ms": "time outside the model",
    "time/other_idle_ms": "waiting outside the model",
    "time/validation_ms": "validation",
}
"""Part of a rank's step → what sentences call it."""
WHOLE = ("step", "step and its validation")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One of the costs that a step is made of."""

    kind: CostKind
    ms: float
    """Time per step."""
    share: float
    """Share of the step and the validation beside it, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    kind: BottleneckKind
    ms: float
    """Per step; of computation, forward and backward; of `too_early`, what is largest so far."""
    share: float
    """Share of the step and the validation beside it, 0..1."""
    step_ms: float
    """Mean over the ranks."""
    validation_ms: float
    """Validation beside the step, per step."""
    num_rows: int
    """Number of rows of the rank that has the fewest."""
    num_steps: int
    """Number of steps that they are of."""
    costs: tuple[Cost, ...]
    """What the step is spent on, the largest first."""
    headline: Message
    """What the step is bound by."""
    reason: AnyMessage
    """What that is and what helps."""


def bottleneck(found: StepAnalysis) -> Bottleneck | None:
    """Return what the step is bound by; None if nothing was measured."""
    ranks = found.ranks
    step_ms = statistics.fmean(r.step_ms for r in ranks) if ranks else 0.0
    validation_ms = statistics.fmean(r.validation_ms or 0.0 for r in ranks) if ranks else 0.0
    if step_ms <= 0:
        return None
    whole_ms = step_ms + validation_ms
    costs = [
        Cost(kind=kind, ms=ms, share=min(ms / whole_ms, 1.0))
        for kind in KINDS
        if (ms := found.costs.mean(kind)) > 0 or kind == "computation"
    ]
    costs.sort(key=lambda cost: -cost.ms)
    said = _decide(found, costs)
    kind: BottleneckKind = said.kind or said.cost.kind
    if kind == "communication" and (found.bucket_steps > 1 or _is_of_messages(found)):
        kind = "communication_or_waiting"
    whole = _Whole(ms=whole_ms, name=WHOLE[validation_ms > 0], costs={c.kind: c for c in costs})
    return Bottleneck(
        kind=kind,
        ms=said.cost.ms,
        share=said.cost.share,
        step_ms=step_ms,
        validation_ms=validation_ms,
        num_rows=min(r.num_rows for r in ranks),
        num_steps=found.num_steps,
        costs=tuple(costs),
        headline=_headline(kind, said, found, whole),
        reason=sentences(*_reasons(kind, said, found, whole), _unmeasured(ranks)),
    )


# ---------------------------------------------------------------- decisions


@dataclass(frozen=True, kw_only=True)
class _Decision:
    kind: BottleneckKind | None
    """Where it is not that of the cost."""
    cost: Cost
    next: Cost | None
    """What it is compared with."""
    is_bound: bool = False
    has_enough: bool = True


def _decide(found: StepAnalysis, costs: Sequence[Cost]) -> _Decision:
    """Return what is said of these costs, of which the first is the largest and one is computation."""
    if found.num_steps < MIN_STEPS or len(found.costs.buckets) < MIN_BUCKETS:
        following = costs[1] if len(costs) > 1 else None
        return _Decision(kind="too_early", cost=costs[0], next=following, has_enough=False)
    computing = next(cost for cost in costs if cost.kind == "computation")
    avoidable = [
        cost
        for cost in costs
        if cost is not computing and (cost.kind != "optimizer" or cost.share >= OPTIMIZER_SHARE)
    ]
    top, following = (*avoidable, None, None)[:2]
    if top is None or top.share < NOTABLE_SHARE:
        if computing.share <= BOUND_SHARE:
            return _Decision(kind="no_single_cost", cost=top or computing, next=None)
        # A cost below a tenth is far from more than half, whatever chance does.
        return _Decision(kind=None, cost=computing, next=top, is_bound=True)
    if not _is_above(found, top, following):
        return _Decision(kind="too_early", cost=top, next=following)
    is_bound = top.share > BOUND_SHARE and _is_above(found, top, computing)
    return _Decision(kind=None, cost=top, next=following, is_bound=is_bound)


def _is_above(found: StepAnalysis, cost: Cost, other: Cost | None) -> bool:
    """Return whether the whole interval of their difference is above 0."""
    if other is None:
        return True
    difference = found.costs.difference(cost.kind, other.kind)
    return difference is not None and difference.low > 0


# ---------------------------------------------------------------- messages


@dataclass(frozen=True, kw_only=True)
class _Whole:
    """What shares are of."""

    ms: float
    name: str
    costs: Mapping[CostKind, Cost]

    def percent(self, kind: CostKind) -> int:
        return _percent(self.costs.get(kind))


def _headline(kind: BottleneckKind, said: _Decision, found: StepAnalysis, whole: _Whole) -> Message:
    cause = CAUSES[kind if kind in CAUSES else said.cost.kind]
    took: dict[str, Scalar] = {
        "cause": cause,
        "pct": _percent(said.cost),
        "whole": whole.name,
        "whole_ms": _short(whole.ms),
    }
    computing_pct = whole.percent("computation")
    if kind == "no_single_cost":
        return Message("bound.none", **took, computing_pct=computing_pct)
    if kind == "too_early":
        following = said.next or said.cost
        beside: dict[str, Scalar] = {
            "next": CAUSES[following.kind],
            "next_pct": _percent(following),
            "steps": found.num_steps,
        }
        if not said.has_enough:
            return Message("bound.too_early", **took, **beside)
        return Message("bound.undecided", **took, **beside)
    ms = _short(said.cost.ms)
    if said.is_bound:
        return Message("bound.most", **took, ms=ms)
    return Message("bound.largest", **took, ms=ms, computing_pct=computing_pct)


def _reasons(
    kind: BottleneckKind, said: _Decision, found: StepAnalysis, whole: _Whole
) -> list[AnyMessage]:
    match kind:
        case "waiting":
            return _waiting(found)
        case "communication":
            return [_communication(said.cost.ms, whole.ms)]
        case "communication_or_waiting":
            if _is_of_messages(found):
                return [Message("bound.messages")]
            rows = min(rank.num_rows for rank in found.ranks)
            return [Message("bound.averaged", steps=round(found.num_steps / max(rows, 1), 1))]
        case "bubble":
            return _bubble(found.imbalance or 0.0)
        case "data":
            return [Message("bound.data")]
        case "checkpoint":
            return [Message("bound.checkpoint")]
        case "outside":
            return [Message("bound.outside")]
        case "outside_idle":
            return [Message("bound.outside_idle")]
        case "outside_busy":
            return [Message("bound.outside_busy")]
        case "without_gradients":
            return [Message("bound.without_gradients")]
        case "validation":
            return [Message("bound.validation")]
        case "optimizer":
            return [Message("bound.optimizer")]
        case "computation":
            following = said.next
            if following is None:
                return [Message("bound.computation")]
            cause, pct = CAUSES[following.kind], _percent(following)
            return [Message("bound.computation"), Message("bound.next", cause=cause, pct=pct)]
        case "no_single_cost":
            return [Message("bound.many")]
        case "too_early":
            pass
    return [Message("bound.not_firm")]


def late_reason(late: LateRank, bucket_steps: int) -> AnyMessage:
    """Return in how many of the steps the others wait for a rank, how long, and what it does
    meanwhile."""
    was: dict[str, Scalar] = {
        "rank": late.rank,
        "late": late.num_late,
        "num": late.num_buckets,
        "ms": _short(late.late_ms),
    }
    if bucket_steps > 1:
        sentence = Message("bound.late_stretches", **was, width=bucket_steps)
    else:
        sentence = Message("bound.late_steps", **was)
    if late.part is None:
        return sentences(sentence, Message("bound.unexplained"))
    part, excess_ms = PART_NAMES[late.part], _short(late.excess_ms)
    return sentences(sentence, Message("bound.late_part", part=part, excess_ms=excess_ms))


def _waiting(found: StepAnalysis) -> list[AnyMessage]:
    blamed = [late for late in found.late if late.stands_out]
    named = [late_reason(late, found.bucket_steps) for late in (blamed or found.late)[:MAX_LATE]]
    return named if blamed else [*named, Message("bound.by_turns")]


def _communication(ms: float, step_ms: float) -> Message:
    """Accumulated over k micro-batches it is paid once per k: its share is then
    c / (c + k (step - c)). k is the smallest, of at least 2, that brings it below NOTABLE_SHARE."""
    rest = max(step_ms - ms, 1e-9)
    k = min(max(math.ceil(ms * (1 / NOTABLE_SHARE - 1) / rest), 2), MAX_ACCUMULATE)
    left = round(100 * ms / (ms + k * rest))
    return Message("bound.communication", k=k, left=left)


def _is_of_messages(found: StepAnalysis) -> bool:
    """Return whether most communication is messages between two ranks. Who receives one also waits
    until the other sends it, which only a pipeline that marks its stages tells from moving data."""
    if found.stages:
        return False
    in_all = math.fsum(kind.time_ms or 0.0 for kind in found.traffic)
    return (
        math.fsum(
            k.time_ms or 0.0 for k in found.traffic if k.kind in ("send", "recv", "coalesced")
        )
        > in_all / 2
    )


def _bubble(imbalance: float) -> list[AnyMessage]:
    bubble = Message("bound.bubble")
    if imbalance < IMBALANCE:
        return [bubble]
    return [bubble, Message("bound.imbalance", imbalance_pct=round(100 * imbalance))]


def _unmeasured(ranks: Sequence[RankSteps]) -> Message | None:
    """A cost that nobody measured is not absent."""
    if len(ranks) < 2 or any("comm/exposed_ms" in r.parts for r in ranks):
        return None
    return Message("bound.unmeasured")


def _percent(cost: Cost | None) -> int:
    return round(100 * cost.share) if cost is not None else 0


def _short(ms: float) -> float:
    """Three digits are what such a figure is good for; all of those before the point."""
    return round(ms) if ms >= 100 else float(f"{ms:.3g}")
