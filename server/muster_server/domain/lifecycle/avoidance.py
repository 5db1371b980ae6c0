"""Nodes that a trial keeps away from for a while, because they did not fit into its gang.

A pair of nodes that cannot reach each other, or a node with another version of torch, is there the
next time too. So it is left out of the trial's next attempts, for longer each time it fails again.
The first failure of a node costs the trial nothing: leaving it out is what was to be learnt. When
it comes back because no other node would do, and fails once more, that is charged as usual.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..scheduling.resources import Request

AVOID_S = 60.0
"""The first time; doubles with each further one."""
AVOID_MAX_S = 900.0
MAX_AVOIDED = 16
"""Nodes that a trial remembers; the failures of others are charged."""
MAX_REASON_CHARS = 300


@dataclass(frozen=True, kw_only=True)
class Avoided:
    node: str
    """Its name."""
    until: dt.datetime
    times: int
    reason: str
    is_lacking: bool = False
    """It lacks what the trial needs, which does not pass by itself."""


def avoid(
    known: Sequence[Avoided],
    nodes: Iterable[str],
    reason: str,
    *,
    now: dt.datetime,
    are_lacking: bool = False,
    for_long: bool = False,
) -> tuple[tuple[Avoided, ...], bool]:
    """Return what the trial avoids once `nodes` did not fit, and whether one of them is new to it.

    nodes: their names. reason: why, in one sentence. are_lacking: they lack what it needs, so they
    are avoided for AVOID_MAX_S at once. for_long: so are they for another reason. Nothing is new once MAX_AVOIDED are known.
    """
    found = {a.node: a for a in known}
    is_new = False
    for node in nodes:
        times = found[node].times + 1 if node in found else 1
        if times == 1 and len(found) >= MAX_AVOIDED:
            continue
        is_new = is_new or times == 1
        for_s = (
            AVOID_MAX_S
            if are_lacking or for_long
            else min(AVOID_MAX_S, AVOID_S * 2.0 ** min(times - 1, 16))
        )
        found[node] = Avoided(
            node=node,
            until=now + dt.timedelta(seconds=for_s),
            times=times,
            reason=reason[:MAX_REASON_CHARS],
            is_lacking=are_lacking,
        )
    return tuple(found.values()), is_new


def avoiding(
    request: Request, known: Iterable[Avoided], *, now: dt.datetime
) -> tuple[Request, dt.datetime | None]:
    """Return the request without the nodes to avoid now, and the time until which it applies; None
    for good."""
    now_avoided = [a for a in known if a.until > now]
    if not now_avoided:
        return request, None
    last = max(now_avoided, key=lambda a: (a.until, a.node))
    words = f"until {last.until:%H:%M:%S} UTC: {last.reason}"
    names = tuple(sorted(a.node for a in now_avoided))
    return replace(request, avoid_nodes=names, avoid_reason=words), min(
        a.until for a in now_avoided
    )


def to_plain(avoided: Iterable[Avoided]) -> list[dict[str, Any]]:
    return [
        {
            "node": a.node,
            "until": a.until.isoformat(),
            "times": a.times,
            "reason": a.reason,
            "is_lacking": a.is_lacking,
        }
        for a in avoided
    ]


def from_plain(values: Iterable[Mapping[str, Any]]) -> tuple[Avoided, ...]:
    return tuple(
        Avoided(
            node=value["node"],
            until=dt.datetime.fromisoformat(value["until"]),
            times=value["times"],
            reason=value["reason"],
            is_lacking=value.get("is_lacking", False),
        )
        for value in values
    )
