"""Whether a node takes new work: what every count of free slots rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster_server.domain.states import NodeState


def why_unavailable(*, state: str, scheduling: str, health: str, is_blocked: bool) -> str | None:
    """Return why nothing is placed on a node now, in a word; None when it takes work.

    The word is its state in lower case, `cordoned`, `draining`, `quarantined` or `unhealthy`.
    is_blocked: a problem keeps new work away (`is_blocked_by`).
    """
    if state != NodeState.ONLINE:
        return state.lower()
    if scheduling != "open":
        return scheduling
    if health == "quarantined":
        return health
    return "unhealthy" if is_blocked else None


def is_blocked_by(problems: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of a node's problems (`NodeRow.problems`) keeps new work away."""
    return any(problem["blocks"] for problem in problems)
