"""Progress of the ranks of a trial, and where they are."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from muster_server.domain.runtime.stuck import Blame

from ..base import Output, PartOut


class GroupCountOut(Output):
    """Collectives of one process group on one rank. Messages between two ranks do not count."""

    group: str
    kind: str
    """Kind of the collective enqueued last; where nothing moves and `source` is known, of the first
    unfinished one."""
    num_enqueued: int
    """Sequence number of the collective enqueued last."""
    num_completed: int
    source: str
    """Line of the script that called it, such as `train.py:42 in step`; empty if unknown."""


class RankProgressOut(Output):
    rank: int
    node_name: str
    reports: bool
    """Whether the rank uses the SDK; otherwise only `process` is known."""
    process: Literal["", "runs", "sleeps", "blocked", "stopped"]
    """State of the process according to the operating system; `blocked` means inside a system call
    that nothing can interrupt."""
    moved_at: dt.datetime | None
    """Last time its step, phase or counts were seen to change."""
    step: int | None
    phase: str
    """Phase of the step; empty without a StepTimer."""
    groups: list[GroupCountOut]
    waits_for: int | None
    """Rank at the other end of a message that this rank waits for; null if there is none."""


class EvidenceOut(Output):
    """What one witness says of a trial that stands still."""

    witness: Literal["counts", "nccl", "devices", "stacks"]
    """`counts`: of collectives, by each rank; `nccl`: NCCL's own status; `devices`: how busy they are;
    `stacks`: the line of the script at which a rank stands."""
    text: str
    text_parts: list[PartOut]


class ProgressOut(Output):
    trial_id: int
    attempt_no: int
    state: Literal["moving", "still", "unknown", "over"]
    """State of the trial. `still`: nothing has moved for 30 s. `over`: no rank is alive; if the attempt ended while it stood still, `blamed` says
    who held up the others then."""
    still_s: float | None
    """Time in seconds since any rank moved."""
    blamed: list[Blame]
    """Ranks that hold up the others, at most 16. Empty if all is well or no rank can be blamed."""
    reason: str
    evidence: list[EvidenceOut]
    """What the verdict rests on, and what else has been seen; empty while something moves."""
    ranks: list[RankProgressOut]
    """Ranks that are alive, in ascending order; once none is, those of an attempt that ended while it
    stood still."""


class RankStacksOut(Output):
    rank: int
    node_name: str
    text: str
    """Stacks of all threads, as written by Python's faulthandler or py-spy; at most 64 KiB."""
    problem: str
    """Why there is no text."""
    is_cut: bool
    """Whether the beginning was cut off."""
    at: dt.datetime


class StacksOut(Output):
    trial_id: int
    attempt_no: int
    no: int
    """Number of the request for stacks; 0 if there was none."""
    kept: list[int]
    """Numbers of the requests with stored stacks, at most the last five."""
    num_expected: int
    """Number of ranks that are alive now and will answer if `no` is the last request."""
    ranks: list[RankStacksOut]
