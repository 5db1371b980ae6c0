"""The rank that slows a training down, as far as its ranks have measured it. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping


def late_rank(
    exposed_ms: Mapping[int, float], step_ms: Mapping[int, float]
) -> tuple[int, float] | None:
    """Return the rank that the others wait for most, and the share of their step for which they do;
    None where there are no two ranks to compare.

    All ranks leave a collective at about the same time, so the one that came last was in it for the
    shortest. exposed_ms: time per step of each rank in communication that nothing hides. step_ms: of
    its step.
    """
    ranks = [rank for rank in exposed_ms if step_ms.get(rank, 0.0) > 0]
    if len(ranks) < 2:
        return None
    late = min(ranks, key=lambda rank: exposed_ms[rank])
    waited = [
        (exposed_ms[rank] - exposed_ms[late]) / step_ms[rank] for rank in ranks if rank != late
    ]
    return late, statistics.fmean(waited)
