"""How far the ranks of a trial are, and where."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from .base import Output


class GroupCountOut(Output):
    """Collectives of one process group on one rank. Messages between two ranks do not count."""

    group: str
    kind: str
    """Of the last one enqueued."""
    num_enqueued: int
    num_completed: int


class RankProgressOut(Output):
    rank: int
    node_name: str
    reports: bool
    """It uses the SDK; otherwise only `process` is known."""
    process: Literal["", "runs", "sleeps", "blocked", "stopped"]
    """By the operating system; blocked: in a system call that nothing can interrupt."""
    moved_at: dt.datetime | None
    """When its step, phase or counts were last seen to have changed."""
    step: int | None
    phase: str
    """Of the step; empty without a StepTimer."""
    groups: list[GroupCountOut]
    waits_for: int | None
    """The rank at the other end of a message that it waits for."""


class BlameOut(Output):
    """A rank that holds up the others."""

    rank: int
    kind: Literal["stopped", "unheard", "absent", "mismatch", "cycle", "data", "busy"]
    group: str
    """In which the others wait for it; empty when in none."""
    reason: str


class ProgressOut(Output):
    trial_id: int
    attempt_no: int
    state: Literal["moving", "still", "unknown", "over"]
    """still: nothing has moved for 30 s. over: no rank lives."""
    still_s: float | None
    """Since any rank moved."""
    blamed: list[BlameOut]
    """At most 16. Empty when all is well, and when nobody can be named."""
    reason: str
    ranks: list[RankProgressOut]
    """Those that live, in order."""


class RankStacksOut(Output):
    rank: int
    node_name: str
    text: str
    """Of all its threads, as Python's faulthandler or py-spy writes them; at most 64 KiB."""
    problem: str
    """Why there is no text."""
    is_cut: bool
    """The beginning is missing."""
    at: dt.datetime


class StacksOut(Output):
    trial_id: int
    attempt_no: int
    no: int
    """Which time it was asked for; 0 when never."""
    kept: list[int]
    """The times of which something is kept: the last five."""
    num_expected: int
    """Ranks that live now, and will answer if `no` is the last."""
    ranks: list[RankStacksOut]
