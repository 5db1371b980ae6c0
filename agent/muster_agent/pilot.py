"""When a pilot leaves the cluster. Pure.

A pilot is an agent that runs for a limited time, such as one inside a batch job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

END_MARGIN_S = 30.0
"""Before its end, and before the longest stop grace of what runs, a pilot stops by itself. The server
drains it earlier; this is for when the server is out of reach."""
LAST_MARGIN_S = 10.0
"""Time before its end in which a pilot sends what is left and goes."""
LAST_PART = 1 / 3
"""Largest part that this may be of the time between SIGTERM and SIGKILL."""


@dataclass(frozen=True, kw_only=True)
class Tenure:
    """For how long a pilot stays."""

    once: bool = False
    """Whether it leaves when the first allocation has ended."""
    idle_exit_s: float | None = None
    """It leaves after nothing has run for so long; None for never."""
    ends_at_s: float | None = None
    """Unix time at which it is killed at the latest; None if that is not known."""
    margin_s: float = LAST_MARGIN_S
    """Time before that in which nothing of a job runs any more."""

    def told_to_end(self, *, now_s: float, term_grace_s: float) -> Tenure:
        """Return the tenure after a SIGTERM to all of its processes, which are killed so many seconds
        later."""
        ends_at_s = now_s + term_grace_s
        if self.ends_at_s is not None and self.ends_at_s <= ends_at_s:
            return self
        margin_s = min(LAST_MARGIN_S, term_grace_s * LAST_PART)
        return replace(self, ends_at_s=ends_at_s, margin_s=margin_s)


@dataclass(frozen=True, kw_only=True)
class PilotUse:
    """What a pilot knows of itself now."""

    now_s: float
    """Unix time."""
    num_finished: int
    """Allocations that have ended since it started."""
    idle_s: float
    """Time since the last allocation ended, or since it started; 0 while something runs."""
    longest_grace_s: float
    """Longest stop grace of what runs."""


def why_leave_now(tenure: Tenure, use: PilotUse) -> str | None:
    """Return why a pilot must stop what runs and leave; None while it need not."""
    if tenure.ends_at_s is None:
        return None
    left_s = tenure.ends_at_s - use.now_s
    if left_s > END_MARGIN_S + use.longest_grace_s:
        return None
    return "its time is over"


def why_close(tenure: Tenure, use: PilotUse) -> str | None:
    """Return why a pilot takes no new work and leaves once it is empty; None while it goes on."""
    if tenure.once and use.num_finished:
        return "it was started for one allocation, which has ended"
    if tenure.idle_exit_s is not None and use.idle_s >= tenure.idle_exit_s:
        return f"nothing has run on it for {tenure.idle_exit_s:g} s"
    return None


def grace_s(tenure: Tenure, *, now_s: float, wanted_s: float) -> float:
    """Return the time in seconds, 0 or more, that what runs may take to stop: `wanted_s`, or what is
    left until shortly before the end."""
    if tenure.ends_at_s is None:
        return wanted_s
    return max(0.0, min(wanted_s, tenure.ends_at_s - tenure.margin_s - now_s))
