"""What a training's step is bound by, in one sentence. Pure.

The page, the command line and REST all say what is said here. Costs are what a step could do without:
waiting for a late rank, communication, for other stages of a pipeline, for data, writing checkpoints, and
whatever else is no part of the training. The largest is named where it takes BOUND_SHARE of the step. The
optimizer's step is work, and named where it takes OPTIMIZER_SHARE.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..messages import AnyMessage, Message, Scalar, sentences
from .steps import Culprit, RankSteps, StepAnalysis

BottleneckKind = Literal[
    "straggler",
    "communication",
    "bubble",
    "data",
    "optimizer",
    "checkpoint",
    "other",
    "computation",
]

BOUND_SHARE = 0.1
"""Share of the step from which on a cost is what the step is bound by."""
OPTIMIZER_SHARE = 0.25
"""Share of the step from which the optimizer is named; it is higher because every training needs
one."""
IMBALANCE = 0.2
"""Imbalance from which uneven stages are named as a cause of a bubble."""
MAX_ACCUMULATE = 64


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    kind: BottleneckKind
    ms: float
    """Per step; of computation, forward and backward."""
    share: float
    """Share of the step, 0..1."""
    step_ms: float
    """Mean over the ranks; without the one that the others wait for, where one is named."""
    num_rows: int
    """Number of rows of the rank that has the fewest."""
    reason: AnyMessage
    """What it is and what helps."""


def bottleneck(found: StepAnalysis) -> Bottleneck | None:
    """Return what the step is bound by; None if nothing was measured."""
    culprit = found.culprit
    # Only ranks that wait: the step of the culprit shows why it is late, which is reported there.
    ranks = [r for r in found.ranks if culprit is None or r.rank != culprit.rank] or found.ranks
    step_ms = statistics.fmean(r.step_ms for r in ranks) if ranks else 0.0
    if step_ms <= 0:
        return None
    costs = _costs(ranks, culprit)
    kind = max(costs, key=lambda k: costs[k])
    computing = _mean(ranks, "time/forward_ms", "time/backward_ms")
    if costs[kind] < BOUND_SHARE * step_ms:
        kind = "computation"
    optimizer = _mean(ranks, "time/optimizer_ms")
    if optimizer >= OPTIMIZER_SHARE * step_ms and optimizer > costs.get(kind, 0.0):
        kind = "optimizer"
    ms = costs | {"computation": computing, "optimizer": optimizer}
    share = min(ms[kind] / step_ms, 1.0)
    return Bottleneck(
        kind=kind,
        ms=ms[kind],
        share=share,
        step_ms=step_ms,
        num_rows=min(r.num_rows for r in ranks),
        reason=sentences(*_reasons(kind, ms[kind], step_ms, found), _unmeasured(ranks)),
    )


def _costs(ranks: Sequence[RankSteps], culprit: Culprit | None) -> dict[BottleneckKind, float]:
    """Kind → ms per step, of what a step could do without."""
    held_up = culprit.held_up_ms if culprit is not None else 0.0
    return {
        "straggler": held_up,
        # Waiting for a late rank is not communication.
        "communication": max(_mean(ranks, "comm/exposed_ms") - held_up, 0.0),
        "bubble": _mean(ranks, "pipeline/bubble_ms"),
        "data": _mean(ranks, "time/data_wait_ms", "time/host_to_device_ms"),
        "checkpoint": _mean(ranks, "time/checkpoint_ms"),
        "other": _mean(ranks, "time/other_ms"),
    }


def _mean(ranks: Sequence[RankSteps], *parts: str) -> float:
    return statistics.fmean(sum(r.parts.get(part, 0.0) for part in parts) for r in ranks)


# ---------------------------------------------------------------- messages


def _reasons(kind: BottleneckKind, ms: float, step_ms: float, found: StepAnalysis) -> list[Message]:
    took: dict[str, Scalar] = {
        "ms": _short(ms),
        "step_ms": _short(step_ms),
        "pct": round(100 * ms / step_ms),
    }
    if kind == "straggler" and found.culprit is not None:
        return _straggler(took, found.culprit)
    match kind:
        case "communication":
            return [_communication(took, ms, step_ms)]
        case "bubble":
            return _bubble(took, found.imbalance or 0.0)
        case "data":
            return [Message("bound.data", **took)]
        case "checkpoint":
            return [Message("bound.checkpoint", **took)]
        case "optimizer":
            return [Message("bound.optimizer", **took)]
        case "other":
            return [Message("bound.other", **took)]
    return [Message("bound.computation", **took)]


def _short(ms: float) -> float:
    """Three digits are what such a figure is good for; all of those before the point."""
    return round(ms) if ms >= 100 else float(f"{ms:.3g}")


def _communication(took: Mapping[str, Scalar], ms: float, step_ms: float) -> Message:
    """Accumulated over k micro-batches it is paid once per k: its share is then
    c / (c + k (step - c)). k is the smallest, of at least 2, that brings it below BOUND_SHARE."""
    rest = max(step_ms - ms, 1e-9)
    k = min(max(math.ceil(ms * (1 / BOUND_SHARE - 1) / rest), 2), MAX_ACCUMULATE)
    left = round(100 * ms / (ms + k * rest))
    return Message("bound.communication", **took, k=k, left=left)


def _bubble(took: Mapping[str, Scalar], imbalance: float) -> list[Message]:
    bubble = Message("bound.bubble", **took)
    if imbalance < IMBALANCE:
        return [bubble]
    return [bubble, Message("bound.imbalance", imbalance_pct=round(100 * imbalance))]


def _straggler(took: Mapping[str, Scalar], culprit: Culprit) -> list[Message]:
    straggler = Message("bound.straggler", **took, rank=culprit.rank, group=culprit.group)
    if culprit.part is None:
        return [straggler, Message("bound.unexplained")]
    late = Message("bound.late", part=culprit.part, excess_ms=_short(culprit.excess_ms))
    return [straggler, late]


def _unmeasured(ranks: Sequence[RankSteps]) -> Message | None:
    """A cost that nobody measured is not absent."""
    if len(ranks) < 2 or any("comm/exposed_ms" in r.parts for r in ranks):
        return None
    return Message("bound.unmeasured")
