"""Requests to stop: why, by when, and whether the trial continues later."""

from __future__ import annotations

import time
from dataclasses import dataclass

from muster.wire import STOP_KINDS, Control

CONTINUING = frozenset({"preempt", "resize", "pause", "drain", "guard"})
_KINDS = ("", *STOP_KINDS)


@dataclass(frozen=True, kw_only=True)
class StopNotice:
    """The result of `should_stop` when this worker is to save a checkpoint and exit with 0."""

    kind: str
    """One of `wire.STOP_KINDS`: user, early, preempt, resize, pause, drain, budget, gang,
    superseded, node, signal, time_limit. Empty if unknown; a newer server may send others."""
    reason: str
    """One sentence part for people: "trial 3 of experiment 12 (priority 80) needs its slots"."""
    deadline_boot_s: float | None = None
    """Time of the machine's boot clock at which remaining processes are killed; None if unknown."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds until remaining processes are killed, at least 0; None if unknown."""
        if self.deadline_boot_s is None:
            return None
        return max(0.0, self.deadline_boot_s - _boot_clock())

    @property
    def continues(self) -> bool:
        """Whether the trial goes on later, from its newest checkpoint."""
        return self.kind in CONTINUING


def from_control(control: Control) -> StopNotice | None:
    if not control.should_stop:
        return None
    return StopNotice(
        kind=control.kind,
        reason=control.reason or "asked to stop",
        deadline_boot_s=control.deadline_boot_s,
    )


def as_vote(notice: StopNotice | None) -> int:
    """Return a number that ranks can agree on by its maximum: 0 for nothing, else the kind."""
    if notice is None:
        return 0
    return 1 + (_KINDS.index(notice.kind) if notice.kind in _KINDS else 0)


def from_vote(vote: int, own: StopNotice | None) -> StopNotice | None:
    """Return this rank's notice for the agreed vote: its own, or that of another rank."""
    if vote <= 0 or own is not None:
        return own
    return StopNotice(kind=_KINDS[vote - 1], reason="another worker was asked to stop")


def _boot_clock() -> float:
    # The clock of the shim that set the deadline.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
