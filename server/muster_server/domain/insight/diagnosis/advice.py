"""What to change, and by how much the throughput should grow then."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.document.strategy import StrategySection

from ..estimates import IntervalEstimate

Kind = Literal[
    "accumulate",
    "bucket",
    "prefetch",
    "faster_data",
    "avoid_node",
    "fix_rank",
    "less_sync",
    "compute",
]

FACTORS = (2, 4, 8)
"""Factors by which accumulation is multiplied: the first that brings ENOUGH of the possible
gain."""
ENOUGH = 0.6
WORTH = 0.02
"""A change whose gain is certainly above this is advised whatever the verdict."""
PREFETCH = 2


@dataclass(frozen=True, kw_only=True)
class Advice:
    kind: Kind
    text: str
    overrides: tuple[str, ...]
    """Overrides of the document with which to launch it; empty if a document cannot express it."""
    gain: IntervalEstimate | None
    """Gain in samples per second, 0.22 for 22% more; None if not predicted."""
    is_bound: bool = False
    """The gain is what could be had at most."""
    values: Mapping[str, str | int | float]
    """What the text names."""


def advise(
    *,
    verdict: str,
    shares: Mapping[str, IntervalEstimate],
    without_sync: IntervalEstimate | None,
    without_data: IntervalEstimate | None,
    bucket: tuple[str, IntervalEstimate | None] | None,
    optimizer: float,
    strategy: StrategySection | None,
    prefetch: int,
    late: tuple[int, str | None] | None,
    nodes: Mapping[int, str],
    denied: Sequence[str] = (),
    spare: Collection[str] = (),
) -> tuple[Advice, ...]:
    """Return the advice, the most useful first.

    without_sync, without_data: the step without that over the step as it is. bucket: the probe
    ("bucket:4") and likewise. optimizer: share of the step. late: the rank others wait for, and the
    part of its step that is longer. strategy None: a script of the user's own. spare: nodes that
    the cluster could train it without.
    """
    found: list[Advice] = []
    if verdict == "communication":
        sums_gradients = strategy is not None and strategy.kind in ("ddp", "zero1")
        if strategy is not None and sums_gradients and without_sync is not None:
            found.append(_accumulate(without_sync, strategy.accumulate, optimizer))
        else:
            found.append(_less_sync(shares["communication"]))
    if verdict == "data":
        if without_data is None or prefetch > 0:
            found.append(_faster_data(shares["data"], prefetch))
        else:
            found.append(_prefetch(without_data))
    if verdict == "straggler" and late is not None:
        found.append(
            _straggler(late, shares["straggler"], nodes, denied, spare if strategy else ())
        )
    if bucket is not None and bucket[1] is not None:
        gain = bucket[1].through(lambda r: 1 / r - 1)
        if gain.low >= WORTH:
            size = float(bucket[0].partition(":")[2])
            found.append(
                Advice(
                    kind="bucket",
                    text=f"Send gradients in buckets of {size:g} MB.",
                    overrides=(f"strategy.bucket_mb={size:g}",),
                    gain=gain,
                    values={"mb": size},
                )
            )
    if verdict == "compute":
        found.append(
            Advice(
                kind="compute",
                text="Compute less per sample (strategy.precision: bf16, a smaller model), or give it "
                "more workers: communication leaves room for them.",
                overrides=(),
                gain=None,
                values={},
            )
        )
    return tuple(sorted(found, key=lambda a: -(a.gain.value if a.gain is not None else 0.0)))


def accumulated(without_sync: float, factor: int, optimizer: float) -> float:
    """Gain of throughput when gradients are exchanged, and the optimizer called, once in `factor`
    times as many micro-batches.

    without_sync: the step without synchronisation over the step as it is. A step with `factor`
    times the micro-batches takes factor × (without_sync − optimizer) + optimizer + (1 −
    without_sync), in steps as they are, for `factor` times the samples.
    """
    once = optimizer + 1 - without_sync
    return 1 / (without_sync - optimizer + once / factor) - 1


def _accumulate(without_sync: IntervalEstimate, now: int, optimizer: float) -> Advice:
    optimizer = min(optimizer, without_sync.low / 2)
    most = 1 / (without_sync.value - optimizer) - 1
    factor = next(
        (k for k in FACTORS if accumulated(without_sync.value, k, optimizer) >= ENOUGH * most),
        FACTORS[-1],
    )
    after = now * factor
    return Advice(
        kind="accumulate",
        text=f"Accumulate {after} micro-batches per optimizer step. The global batch grows "
        f"{factor}-fold: look at the learning rate.",
        overrides=(f"strategy.accumulate={after}",),
        gain=without_sync.through(lambda r: accumulated(r, factor, optimizer)),
        values={"accumulate": after, "factor": factor},
    )


def _less_sync(share: IntervalEstimate) -> Advice:
    return Advice(
        kind="less_sync",
        text="Let workers exchange less often or less: more accumulation, a larger batch per slot, "
        "compression, or a faster network.",
        overrides=(),
        gain=_bound(share),
        is_bound=True,
        values={},
    )


def _prefetch(without_data: IntervalEstimate) -> Advice:
    """Fetching beside computing: the step is then the longer of the two."""
    turn = (0.5,) if without_data.low < 0.5 < without_data.high else ()
    return Advice(
        kind="prefetch",
        text=f"Fetch {PREFETCH} batches ahead, during computation.",
        overrides=(f"trainer.prefetch={PREFETCH}",),
        gain=without_data.through(lambda r: 1 / max(r, 1 - r, 0.05) - 1, *turn),
        values={"prefetch": PREFETCH},
    )


def _faster_data(share: IntervalEstimate, prefetch: int) -> Advice:
    already = f"Batches are fetched {prefetch} ahead already, so the" if prefetch > 0 else "The"
    return Advice(
        kind="faster_data",
        text=f"{already} loader itself has to become faster: more of its processes, a faster disk, or "
        "less work per sample.",
        overrides=(),
        gain=_bound(share),
        is_bound=True,
        values={"prefetch": prefetch},
    )


def _straggler(
    late: tuple[int, str | None],
    share: IntervalEstimate,
    nodes: Mapping[int, str],
    denied: Sequence[str],
    spare: Collection[str],
) -> Advice:
    rank, part = late
    node = nodes.get(rank)
    others = {name for name in nodes.values() if name != node}
    if node is not None and node in spare and others:
        return Advice(
            kind="avoid_node",
            text=f"Run it without {node}, where rank {rank} is; that needs slots on another node as "
            "fast as those of the other ranks.",
            overrides=(f"resources.deny_nodes={json.dumps([*denied, node])}",),
            gain=_bound(share),
            values={"node": node, "rank": rank},
        )
    where = f" of its step ({part})" if part is not None else ""
    return Advice(
        kind="fix_rank",
        text=f"See why rank {rank} is slower{where}: another program on {node or 'its node'}, its "
        "share of the data, its device.",
        overrides=(),
        gain=_bound(share),
        is_bound=True,
        values={"rank": rank, "node": node or "", "part": part or ""},
    )


def _bound(share: IntervalEstimate) -> IntervalEstimate:
    """Return the gain if the whole share of the step were saved."""
    return share.through(lambda s: 1 / (1 - min(max(s, 0.0), 0.95)) - 1)
