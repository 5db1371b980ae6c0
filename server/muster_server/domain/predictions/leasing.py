"""Which worker computes which shard of a batch inference, and whose result counts.

A shard is free, leased or done. Every lease has a number of its own, the token, and a commit counts only
while the shard is leased under the token that it carries. A worker that was stopped, cut off or replaced
may compute a shard as often as it likes: the shard becomes done once.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from muster.counting import counted

HELD_MIN = 2
"""Shards that a worker holds at least: one that it computes, and the next one."""
HELD_MAX = 16
"""Shards that a worker holds at most."""
HELD_S = 4.0
"""Seconds of work that a worker should hold, so that it never waits for the next shard."""

ShardState = Literal["free", "leased", "done"]


@dataclass(frozen=True, kw_only=True)
class ShardOwner:
    """A worker of one attempt."""

    allocation_id: str
    rank: int


@dataclass(frozen=True, kw_only=True)
class ShardView:
    no: int
    num_rows: int
    state: ShardState
    token: int
    """Number of its last lease; 0 before the first."""
    attempt_no: int
    """Attempt of its last lease."""
    owner: ShardOwner | None
    """Holder while it is leased."""
    until: dt.datetime | None
    """End of the lease."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    no: int
    token: int


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """What a worker of the current attempt says."""

    owner: ShardOwner
    attempt_no: int
    done: Sequence[Commit]
    rows_per_s: float
    """0 if unknown."""
    takes_none: bool = False
    """Whether it gives back what it holds."""


@dataclass(kw_only=True)
class Leasing:
    """What a report changes."""

    committed: list[Commit] = field(default_factory=list)
    refused: list[Commit] = field(default_factory=list)
    """Commits of leases that are over."""
    renewed: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    leased: list[Commit] = field(default_factory=list)
    """New leases, with their tokens."""


def decide(
    report: WorkerReport,
    shards: Sequence[ShardView],
    *,
    num_free: int,
    num_workers: int,
    now: dt.datetime,
) -> Leasing:
    """Return which commits of a report count, and what its worker holds from now on.

    shards: by number; at least those that the report names, all that are leased, and the first
        HELD_MAX that are free.
    num_free: number of all free shards.

    What other workers hold is taken from them when their lease or their attempt is over. The worker gets
    enough for HELD_S seconds, but no more than its share of half of what is left, so that all end at about
    the same time.
    """
    changes = Leasing()
    by_no = {shard.no: shard for shard in shards}
    done: set[int] = set()
    for commit in dict.fromkeys(report.done):
        shard = by_no.get(commit.no)
        is_held = shard is not None and shard.state == "leased" and shard.token == commit.token
        if is_held:
            changes.committed.append(commit)
            done.add(commit.no)
        elif shard is None or shard.state != "done" or shard.token != commit.token:
            changes.refused.append(commit)  # One that was taken before is only said again.
    held: list[ShardView] = []
    available: list[ShardView] = []
    for shard in shards:
        if shard.no in done or shard.state == "done":
            continue
        if shard.state == "leased" and shard.attempt_no == report.attempt_no:
            if shard.owner == report.owner:
                held.append(shard)
                continue
            if shard.until is not None and shard.until > now:
                continue
        available.append(shard)
    if report.takes_none:
        changes.freed = [shard.no for shard in held]
        return changes
    changes.renewed = [shard.no for shard in held]
    num_taken_over = sum(shard.state == "leased" for shard in available)
    wanted = _num_wanted(
        report.rows_per_s,
        available,
        num_held=len(held),
        num_available=num_free + num_taken_over,
        num_workers=num_workers,
    )
    for shard in available[:wanted]:
        changes.leased.append(Commit(no=shard.no, token=shard.token + 1))
    return changes


def _num_wanted(
    rows_per_s: float,
    available: Sequence[ShardView],
    *,
    num_held: int,
    num_available: int,
    num_workers: int,
) -> int:
    if not available:
        return 0
    mean_rows = sum(shard.num_rows for shard in available) / len(available)
    enough = math.ceil(HELD_S * rows_per_s / max(1.0, mean_rows))
    fair = max(1, num_available // (2 * max(1, num_workers)))
    hold = max(1, min(max(enough, HELD_MIN), HELD_MAX, fair))
    return max(0, min(hold - num_held, num_available))


def find_missing(
    committed: Sequence[ShardView], *, attempt_no: int, present: Collection[tuple[int, int]]
) -> list[int]:
    """Return the shards that are to be computed again, because the part that counts is on no node of the
    attempt and was not collected.

    committed: shards that are done.
    present: numbers and tokens of the parts that were found. Parts of the attempt itself need not be.
    """
    return [
        shard.no
        for shard in committed
        if shard.attempt_no < attempt_no and (shard.no, shard.token) not in present
    ]


def explain_errors(num_errors: int, num_rows: int, *, max_errors: float) -> str:
    """Return why a job ends for its rows in error; "" while they are within the allowed share.

    max_errors: share of all rows, 0 to 1.
    """
    if num_errors <= max_errors * num_rows:
        return ""
    rows = counted(num_errors, "row")
    return (
        f"{rows} of {num_rows:,} could not be predicted, more than predict.max_errors "
        f"({max_errors:g}) allows; errors-*.jsonl in the outputs name them"
    )
