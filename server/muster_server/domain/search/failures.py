"""What trials that failed have in common, and what one that ended did not report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.nearest import nearest
from muster.sdk.metrics import MEASURED

FIRST_FAILURES = 3
"""The first so many trials that fail alike before any has reported end a search, unless its
`max_failures` says how many."""
CAUSE_CHARS = 500
NAMES_LISTED = 5
"""Metrics named of those that a trial has reported."""

_WHO = re.compile(r"^rank \d+ on [^\s:]+(:| exited with code \d+:)? ", re.IGNORECASE)
_WHAT_FOLLOWED = re.compile(
    r"; (no restart is left|not restarted|it was being stopped)\b.*$", re.DOTALL
)
"""What restarts and stops add to a reason."""
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)


def alike(reason: str) -> str:
    """Return a reason without who it was of and without its numbers: equal for failures of one
    cause."""
    return _NUMBER.sub("#", sentence(reason))


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What most of the failed trials failed of."""

    reason: str
    """Reason as the first of the trials states it, without what identifies that trial or a final
    full stop."""
    numbers: tuple[int, ...]
    """Numbers of the trials that failed for this reason, ascending."""


def common_cause(failed: Iterable[tuple[int, str]]) -> Cause | None:
    """Return the most frequent cause of (trial number, reason) pairs; None if there are none.

    Of equally frequent causes, the earliest wins.
    """
    groups: dict[str, list[tuple[int, str]]] = {}
    for no, reason in sorted(failed):
        groups.setdefault(alike(reason), []).append((no, reason))
    if not groups:
        return None
    most = max(groups.values(), key=len)  # the first of equally large groups
    return Cause(reason=sentence(most[0][1]), numbers=tuple(no for no, _ in most))


def sentence(reason: str) -> str:
    """Return a reason without who it was of and what followed, without a full stop."""
    return _WHAT_FOLLOWED.sub("", _WHO.sub("", reason.strip())).rstrip(".")[:CAUSE_CHARS]


def nearest_metric(metric: str, reported: Iterable[str]) -> str | None:
    """Return the name that was meant by `metric`, of what a trial has reported by itself."""
    return nearest(metric, own_metrics(reported))


def own_metrics(reported: Iterable[str]) -> Sequence[str]:
    """Return the metrics that a script has reported, without those that Muster measures, by
    name."""
    return sorted(name for name in reported if not name.startswith(MEASURED))
