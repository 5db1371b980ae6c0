"""What a training's step is bound by, in one sentence. Pure.

The page, the command line and REST all say what is said here. Costs are what a step could do without:
waiting for a late rank, communication, for other stages of a pipeline, for data, writing checkpoints, and
whatever else is no part of the training. The largest is named where it takes BOUND_SHARE of the step. The
optimizer's step is work, and named where it takes OPTIMIZER_SHARE.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .saying import Said, say
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
"""The same of the optimizer: every training needs it."""
IMBALANCE = 0.2
"""From which on uneven stages are named as a cause of a bubble."""
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
    reason: Said
    """What it is and what helps."""


def bottleneck(found: StepAnalysis) -> Bottleneck | None:
    """What the step is bound by; None when nothing was measured."""
    culprit = found.culprit
    # Of the ranks that wait: the culprit's own step shows why it is late, and that is told of it.
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
        reason=_said(kind, ms[kind], step_ms, found) + _unmeasured(ranks),
    )


def _costs(ranks: Sequence[RankSteps], culprit: Culprit | None) -> dict[BottleneckKind, float]:
    """Kind → ms per step, of what a step could do without."""
    held_up = culprit.held_up_ms if culprit is not None else 0.0
    return {
        "straggler": held_up,
        # What is waited for a late rank is no communication.
        "communication": max(_mean(ranks, "comm/exposed_ms") - held_up, 0.0),
        "bubble": _mean(ranks, "pipeline/bubble_ms"),
        "data": _mean(ranks, "time/data_wait_ms", "time/host_to_device_ms"),
        "checkpoint": _mean(ranks, "time/checkpoint_ms"),
        "other": _mean(ranks, "time/other_ms"),
    }


def _mean(ranks: Sequence[RankSteps], *parts: str) -> float:
    return statistics.fmean(sum(r.parts.get(part, 0.0) for part in parts) for r in ranks)


# ---------------------------------------------------------------- words


def _said(kind: BottleneckKind, ms: float, step_ms: float, found: StepAnalysis) -> Said:
    took = {"ms": _short(ms), "step_ms": _short(step_ms), "pct": round(100 * ms / step_ms)}
    of = f"takes {took['ms']:g} ms of each step of {took['step_ms']:g} ms ({took['pct']}%)."
    if kind == "communication":
        return _communication(of, took, ms, step_ms)
    if kind == "bubble":
        return _bubble(of, took, found.imbalance or 0.0)
    if kind == "straggler" and found.culprit is not None:
        return _straggler(took, found.culprit)
    if kind == "data":
        return say(
            "bound.data",
            f"Waiting for data {of} The workers are faster than the input: more loader workers or a "
            "cache help.",
            **took,
        )
    if kind == "checkpoint":
        return say(
            "bound.checkpoint",
            f"Writing checkpoints {of} Write them less often (checkpoints.every).",
            **took,
        )
    if kind == "optimizer":
        return say(
            "bound.optimizer",
            f"The optimizer {of} A fused or sharded optimizer (strategy zero1, fsdp) and "
            "gradient accumulation make it cheaper.",
            **took,
        )
    if kind == "other":
        return say(
            "bound.other",
            f"What lies between the phases {of} That is Python, logging and metrics: a trace of a few "
            "steps shows which.",
            **took,
        )
    return say(
        "bound.computation",
        f"Forward and backward: computing {of} Nothing else that a step could do without takes a tenth "
        "of it.",
        **took,
    )


def _short(ms: float) -> float:
    """Three digits are what such a figure is good for; all of those before the point."""
    return round(ms) if ms >= 100 else float(f"{ms:.3g}")


def _communication(of: str, took: dict[str, float], ms: float, step_ms: float) -> Said:
    """Accumulated over k micro-batches it is paid once per k: its share is then
    c / (c + k (step - c)). k is the smallest, of at least 2, that brings it below BOUND_SHARE."""
    rest = max(step_ms - ms, 1e-9)
    k = min(max(math.ceil(ms * (1 / BOUND_SHARE - 1) / rest), 2), MAX_ACCUMULATE)
    left = round(100 * ms / (ms + k * rest))
    return say(
        "bound.communication",
        f"Communication that nothing hides {of} Accumulating gradients over {k} micro-batches "
        f"(strategy.accumulate) would bring it to {left}%. Larger batches per worker help as well.",
        **took,
        k=k,
        left=left,
    )


def _bubble(of: str, took: dict[str, float], imbalance: float) -> Said:
    said = say(
        "bound.bubble",
        f"Waiting for other stages of the pipeline {of} More micro-batches (strategy.accumulate) fill "
        "it; the schedules interleaved and zero_bubble leave less of it.",
        **took,
    )
    if imbalance < IMBALANCE:
        return said
    pct = round(100 * imbalance)
    return (
        said
        + " "
        + say(
            "bound.imbalance",
            f"The slowest stage computes {pct}% longer than the mean: give it fewer blocks "
            "(strategy.blocks_per_stage).",
            imbalance_pct=pct,
        )
    )


def _straggler(took: dict[str, float], culprit: Culprit) -> Said:
    of = f"{took['ms']:g} ms of each step of {took['step_ms']:g} ms ({took['pct']}%)"
    said = say(
        "bound.straggler",
        f"The other ranks of {culprit.group} wait {of} for rank {culprit.rank}.",
        **took,
        rank=culprit.rank,
        group=culprit.group,
    )
    if culprit.part is None:
        return (
            said
            + " "
            + say(
                "bound.unexplained",
                "No part of its own step explains it: look at its node, and at what else runs there.",
            )
        )
    excess = _short(culprit.excess_ms)
    return (
        said
        + " "
        + say(
            "bound.late",
            f"Its {culprit.part} is {excess:g} ms longer than theirs.",
            part=culprit.part,
            excess_ms=excess,
        )
    )


def _unmeasured(ranks: Sequence[RankSteps]) -> Said:
    """A cost that nobody measured is not absent."""
    if len(ranks) < 2 or any("comm/exposed_ms" in r.parts for r in ranks):
        return Said()
    return Said(" ") + say(
        "bound.unmeasured",
        "Communication of these ranks is not measured, so what they wait for it is within the other "
        "parts: a diagnosis tells how much.",
    )
