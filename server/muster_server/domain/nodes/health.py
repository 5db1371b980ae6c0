"""What the checks of a node add up to: whether it is well, and whether it takes new work.

A *problem* is what a check finds now; it goes away by itself when the check finds it gone. A
*quarantine* stays until somebody has looked at the node and releases it, or it reboots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from muster.wire import NodeProblem

from .availability import USED

HealthState = Literal["ok", "degraded", "quarantined"]

QUARANTINE_AFTER = 3
"""Failures in a row to prepare that were the node's own fault."""
MAX_PROBLEMS = 32
MAX_MESSAGE_CHARS = 500


@dataclass(frozen=True, kw_only=True)
class Health:
    state: HealthState
    reason: str
    """One sentence; "" when the node is well."""


def assess(problems: Iterable[NodeProblem], quarantine_reason: str) -> Health:
    """Return the health that results from a node's problems and its quarantine (its reason, "" for
    none). A device that somebody uses is as well as before."""
    words = "; ".join(problem.message for problem in problems if problem.kind != USED)
    if quarantine_reason:
        return Health(
            state="quarantined",
            reason=f"{quarantine_reason}; {words}" if words else quarantine_reason,
        )
    return Health(state="degraded" if words else "ok", reason=words)


def quarantine_after(strikes: int, last: str) -> str:
    """Return why a node that could not prepare `strikes` times in a row is quarantined; "" if it is
    not. last: what went wrong the last time."""
    if strikes < QUARANTINE_AFTER:
        return ""
    return f"it could not prepare {strikes} times in a row, the last time because {last}"


def kinds(problems: Iterable[NodeProblem]) -> frozenset[tuple[str, bool, int | None]]:
    """Return what people are told about when it changes: kinds, whether they block and what, but not
    each new figure."""
    return frozenset((problem.kind, problem.blocks, problem.slot) for problem in problems)


def keeps_off(problems: Iterable[NodeProblem]) -> str:
    """Return what problems keep new work off, as the end of a sentence; "" for nothing."""
    blocking = [problem.slot for problem in problems if problem.blocks]
    if not blocking:
        return ""
    if None in blocking:
        return ", and takes no new work meanwhile"
    slots = sorted({slot for slot in blocking if slot is not None})
    if len(slots) == 1:
        return f", and slot {slots[0]} takes no new work meanwhile"
    return f", and slots {', '.join(map(str, slots))} take no new work meanwhile"


def to_plain(problems: Sequence[NodeProblem]) -> list[dict[str, Any]]:
    return [asdict(problem) for problem in problems]


def from_plain(values: Iterable[Mapping[str, Any]]) -> list[NodeProblem]:
    return [NodeProblem(**value) for value in values]
