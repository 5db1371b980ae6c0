"""Which rank holds up the others of a training that does not move on.

Every member of a process group calls the same collectives in the same order, so those who have
called fewer are the ones that the others wait in vain for. Who waits for whom is followed across
groups and messages to the ranks that wait for nobody. Nothing here compares clocks of nodes: how
long a rank has not moved is counted by the server from the last report in which it had.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster_server.domain.insight.step_traffic import ProcessGroup

STILL_AFTER_S = 30.0
"""Nobody is named before nothing has moved for so long. Nodes report every ten seconds."""
MAX_NAMED = 16
"""Ranks named in one answer; the reason says how many more there are."""

QUIET_AFTER_S = 120.0
"""A trial that prints nothing and makes no step for so long is said to be quiet."""
STACKS_WITHIN_S = 15.0
"""Before a stuck attempt is ended, its ranks have so long to say where they are."""

State = Literal["moving", "still", "unknown", "over"]
Kind = Literal["stopped", "unheard", "absent", "mismatch", "cycle", "data", "busy"]
_SAYS = {
    "data_wait": "it waits for its data loader",
    "host_to_device": "it copies a batch to the device",
    "forward": "it is in its forward pass",
    "backward": "it is in its backward pass",
    "optimizer": "it is in its optimizer's step",
    "no_grad": "it runs a model without gradients",
    "checkpoint": "it saves a checkpoint",
    "other": "it is outside the model and the optimizer",
}


@dataclass(frozen=True, kw_only=True)
class Count:
    """Collectives of one process group on one rank."""

    kind: str
    """Kind of the collective enqueued last, or of the one that `source` has called."""
    num_enqueued: int
    num_completed: int
    source: str = ""
    """Line of the script that called it; "" if unknown."""

    @property
    def is_waiting(self) -> bool:
        return self.num_enqueued > self.num_completed


@dataclass(frozen=True, kw_only=True)
class RankView:
    """How far a rank is, as last heard."""

    rank: int
    node_name: str
    is_heard: bool
    """Its node is ONLINE: what it says is as of now."""
    reports: bool
    """It uses the SDK; otherwise only `process` is known."""
    process: str
    """wire.ProcessState."""
    moved_at: dt.datetime
    """When its step, phase or counts were last seen to have changed, by the server's clock."""
    step: int | None
    phase: str
    counts: Mapping[str, Count]
    """Counts by process group."""
    waits_for: int | None
    waits_kind: str

    @property
    def is_stopped(self) -> bool:
        return self.process == "stopped"


@dataclass(frozen=True, kw_only=True)
class Blame:
    """A rank that holds up the others."""

    rank: int
    kind: Kind
    group: str
    """Group in which the other ranks wait for it; empty if in none."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class StuckVerdict:
    state: State
    still_s: float | None
    """Since any rank moved; None while nothing is known."""
    blamed: tuple[Blame, ...]
    """Ranks that hold up the others; empty if none can be named or all is well."""
    reason: str


def judge(
    ranks: Sequence[RankView], groups: Sequence[ProcessGroup], *, now: dt.datetime
) -> StuckVerdict:
    """Return who holds up the others.

    ranks: those that are alive and have been heard of. groups: with their members; a group that is
    not among them is taken to consist of all the ranks that count in it.
    """
    known = [r for r in ranks if r.reports]
    stopped = [r for r in ranks if r.is_stopped]
    if not known and not stopped:
        return StuckVerdict(
            state="unknown",
            still_s=None,
            blamed=(),
            reason="No rank has said how far it is: that takes a first step of a torch optimizer, or "
            "muster.init() in the script.",
        )
    still_s = max(0.0, (now - max(r.moved_at for r in known or stopped)).total_seconds())
    if still_s < STILL_AFTER_S:
        return StuckVerdict(
            state="moving",
            still_s=still_s,
            blamed=(),
            reason=f"Something moved {still_s:.0f} s ago. Who holds up the others is said once nothing "
            f"has moved for {STILL_AFTER_S:.0f} s.",
        )
    blamed = _blame(ranks, groups)
    reasons = " ".join(b.reason for b in blamed[:MAX_NAMED])
    if len(blamed) > MAX_NAMED:
        reasons += f" And {len(blamed) - MAX_NAMED} more."
    if not blamed:
        reasons = _nobody(known)
    return StuckVerdict(
        state="still",
        still_s=still_s,
        blamed=blamed[:MAX_NAMED],
        reason=f"Nothing has moved for {still_s:.0f} s. {reasons}",
    )


def judge_end(ranks: Sequence[RankView], groups: Sequence[ProcessGroup]) -> StuckVerdict | None:
    """Return who held up the others when an attempt ended; None if that is not known.

    ranks: of the attempt that has ended. It is known only from a standstill: of ranks that moved,
    each was heard of at another moment.
    """
    if not any(c.source for r in ranks for c in r.counts.values()):
        return None
    blamed = _blame(ranks, groups)[:MAX_NAMED]
    if not blamed:
        return None
    reasons = " ".join(b.reason for b in blamed)
    return StuckVerdict(
        state="over",
        still_s=None,
        blamed=blamed,
        reason=f"No rank is alive. When the attempt ended, its ranks stood still. {reasons}",
    )


def _blame(ranks: Sequence[RankView], groups: Sequence[ProcessGroup]) -> tuple[Blame, ...]:
    by_rank = {r.rank: r for r in ranks}
    absent = {r.rank: _absent_from(r, by_rank, groups) for r in ranks}
    outside = [_outside(r, absent[r.rank]) for r in ranks if r.is_stopped or not r.is_heard]
    if outside:
        # A process that does not run needs no other cause, and explains the others.
        return tuple(outside)
    mismatch = _mismatch(by_rank, groups)
    if mismatch:
        return mismatch
    waits = _waits(by_rank, groups)
    awaited = {rank for targets in waits.values() for rank in targets}
    roots = sorted(rank for rank in awaited if not waits.get(rank))
    if roots:
        return tuple(_absent(by_rank[rank], absent[rank]) for rank in roots if rank in by_rank)
    if awaited:
        return _cycle(waits, by_rank)
    if any(c.is_waiting for r in ranks for c in r.counts.values()):
        return ()
    return tuple(
        Blame(
            rank=r.rank,
            kind="data" if r.phase == "data_wait" else "busy",
            group="",
            reason=f"Rank {r.rank} on {r.node_name} is in no collective: {_says(r)}.",
        )
        for r in ranks
        if r.reports and r.phase and (r.phase == "data_wait" or len(ranks) == 1)
    )


def _members(
    name: str, by_rank: Mapping[int, RankView], groups: Sequence[ProcessGroup]
) -> list[int]:
    """Return the members of a group of which something is known."""
    for group in groups:
        if group.name == name:
            return [rank for rank in group.ranks if rank in by_rank and by_rank[rank].reports]
    return [rank for rank, r in by_rank.items() if name in r.counts]


def _names(by_rank: Mapping[int, RankView]) -> list[str]:
    return sorted({name for r in by_rank.values() for name in r.counts})


def _num(rank: RankView, name: str) -> int:
    count = rank.counts.get(name)
    return count.num_enqueued if count is not None else 0


@dataclass(frozen=True)
class _Absence:
    group: str
    kind: str
    no: int
    """Number of the collective that the others are in and that it has not called."""
    num_waiting: int
    source: str
    """Line that the others are in; "" if unknown."""
    last_source: str
    """Line that the rank itself has called last."""


def _absent_from(
    rank: RankView, by_rank: Mapping[int, RankView], groups: Sequence[ProcessGroup]
) -> _Absence | None:
    """Return the collective in which most others wait for it."""
    found = []
    for name in _names(by_rank):
        members = _members(name, by_rank, groups)
        if rank.rank not in members:
            continue
        ahead = [
            by_rank[other]
            for other in members
            if _num(by_rank[other], name) > _num(rank, name)
            and by_rank[other].counts[name].is_waiting
        ]
        if ahead:
            sources = [r.counts[name].source for r in ahead if r.counts[name].source]
            own = rank.counts.get(name)
            found.append(
                _Absence(
                    group=name,
                    kind=ahead[0].counts[name].kind,
                    no=_num(rank, name) + 1,
                    num_waiting=len(ahead),
                    source=sources[0] if sources else "",
                    last_source=own.source if own is not None else "",
                )
            )
    return max(found, key=lambda a: a.num_waiting, default=None)


def _waits(by_rank: Mapping[int, RankView], groups: Sequence[ProcessGroup]) -> dict[int, set[int]]:
    """Rank → those it waits for: members that have not called the collective it is in, and the
    other end of a message."""
    waits: dict[int, set[int]] = {}
    for name in _names(by_rank):
        members = _members(name, by_rank, groups)
        for rank in members:
            count = by_rank[rank].counts.get(name)
            if count is None or not count.is_waiting:
                continue
            # The first unfinished collective, which the others must have called.
            late = {o for o in members if _num(by_rank[o], name) <= count.num_completed}
            if late:
                waits.setdefault(rank, set()).update(late - {rank})
    for rank, r in by_rank.items():
        if r.waits_for is not None and r.waits_for in by_rank and r.waits_for != rank:
            waits.setdefault(rank, set()).add(r.waits_for)
    return waits


def _mismatch(by_rank: Mapping[int, RankView], groups: Sequence[ProcessGroup]) -> tuple[Blame, ...]:
    """Members that called another kind of collective than most, as the same one in the order."""
    for name in _names(by_rank):
        counts = {
            rank: count
            for rank in _members(name, by_rank, groups)
            if (count := by_rank[rank].counts.get(name)) is not None and count.is_waiting
        }
        if len(counts) < 2 or len({c.num_enqueued for c in counts.values()}) > 1:
            continue
        kinds = [c.kind for c in counts.values()]
        usual = max(sorted(set(kinds)), key=kinds.count)
        others = [rank for rank, c in sorted(counts.items()) if c.kind != usual]
        if others:
            no = counts[others[0]].num_enqueued
            return tuple(
                Blame(
                    rank=rank,
                    kind="mismatch",
                    group=name,
                    reason=(
                        f"Rank {rank} on {by_rank[rank].node_name} calls {counts[rank].kind}"
                        f"{_at(counts[rank].source)} as collective {no} of {name}, where others call "
                        f"{usual}{_at(next(c.source for c in counts.values() if c.kind == usual))}."
                    ),
                )
                for rank in others
            )
    return ()


def _outside(rank: RankView, absence: _Absence | None) -> Blame:
    """Return the blame of a rank whose process or node does nothing."""
    what = (
        "its process is stopped, by SIGSTOP or a debugger"
        if rank.is_stopped
        else "its node is not heard"
    )
    return Blame(
        rank=rank.rank,
        kind="stopped" if rank.is_stopped else "unheard",
        group=absence.group if absence is not None else "",
        reason=f"Rank {rank.rank} on {rank.node_name} holds up the others: {what}.",
    )


def _absent(rank: RankView, absence: _Absence | None) -> Blame:
    says = _says(rank)
    if absence is None:
        reason = f"Rank {rank.rank} on {rank.node_name} is waited for by others: {says}."
        return Blame(rank=rank.rank, kind="absent", group="", reason=reason)
    last = f"; the last one it called is at {absence.last_source}" if absence.last_source else ""
    article = "an" if absence.kind.startswith("a") else "a"
    others = "1 other waits" if absence.num_waiting == 1 else f"{absence.num_waiting} others wait"
    return Blame(
        rank=rank.rank,
        kind="data" if rank.phase == "data_wait" else "absent",
        group=absence.group,
        reason=(
            f"Rank {rank.rank} on {rank.node_name} has not called collective {absence.no} of "
            f"{absence.group}, {article} {absence.kind} in which {others}"
            f"{_at(absence.source)}: {says}{last}."
        ),
    )


def _at(source: str) -> str:
    return f" at {source}" if source else ""


def _cycle(waits: Mapping[int, set[int]], by_rank: Mapping[int, RankView]) -> tuple[Blame, ...]:
    """Ranks that wait for each other. Follows the first edge until a rank comes up again."""
    path = [min(waits)]
    while (after := min(waits[path[-1]])) not in path:
        path.append(after)
    ring = path[path.index(after) :]
    return tuple(
        Blame(
            rank=rank,
            kind="cycle",
            group=next((n for n, c in by_rank[rank].counts.items() if c.is_waiting), ""),
            reason=(
                f"Rank {rank} on {by_rank[rank].node_name} waits{_where(by_rank[rank])} for rank "
                f"{min(waits[rank])}, which waits for it in turn."
            ),
        )
        for rank in ring
    )


def _where(rank: RankView) -> str:
    for name, count in rank.counts.items():
        if count.is_waiting:
            return f" in collective {count.num_completed + 1} of {name}{_at(count.source)}"
    return f" for a message ({rank.waits_kind})" if rank.waits_for is not None else ""


def _says(rank: RankView) -> str:
    if rank.process == "blocked":
        return "it is in a system call that cannot be interrupted, as of a disk that is lost"
    return _SAYS.get(rank.phase, "it does not say what it does")


def _nobody(known: Sequence[RankView]) -> str:
    waiting = [n for r in known for n, c in r.counts.items() if c.is_waiting]
    if waiting:
        return (
            f"All members of {max(set(waiting), key=waiting.count)} are in the same collective: "
            "the network between them, or sizes that differ."
        )
    return "No rank is in a collective, and none can be named."


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """What follows for an attempt that does not move."""

    is_new: bool
    """It is to be said, and its stacks are to be taken; once per attempt."""
    is_over: bool
    """It is to be ended."""
    reason: str


def decide_stuck(
    verdict: StuckVerdict,
    *,
    noted_at: dt.datetime | None,
    say_after_s: float,
    end_after_s: float | None,
    now: dt.datetime,
) -> Stuck | None:
    """Return whether to say that an attempt is stuck, and whether to end it; None for neither.

    noted_at: when it was said, and stacks were requested. end_after_s: what the document says; None
    if it is never ended for that. The stacks come first, because they show why.
    """
    if verdict.state != "still" or verdict.still_s is None:
        return None
    limit_s = say_after_s if end_after_s is None else min(say_after_s, end_after_s)
    is_new = noted_at is None and verdict.still_s >= limit_s
    is_over = (
        end_after_s is not None
        and verdict.still_s >= end_after_s
        and noted_at is not None
        and (now - noted_at).total_seconds() >= STACKS_WITHIN_S
    )
    if is_over:
        said = verdict.reason[:1].lower() + verdict.reason[1:].rstrip(".")
        reason = f"{said} (restarts.stuck_after_s is {end_after_s:g} s)"
        return Stuck(is_new=False, is_over=True, reason=reason)
    if not is_new:
        return None
    follows = (
        "it goes on as it is."
        if end_after_s is None
        else f"once nothing has moved for {end_after_s:g} s it is ended and starts again."
    )
    return Stuck(
        is_new=True, is_over=False, reason=f"{verdict.reason} Its stacks are kept; {follows}"
    )


def is_worth_saying(quiet_s: float, *, num_said: int) -> bool:
    """Return whether to say that a trial is quiet.

    quiet_s: seconds for which it has been so. num_said: how often it was said in this attempt; each
    silence must be twice as long as the one before, so that a job that is quiet by nature is left
    alone.
    """
    return quiet_s >= QUIET_AFTER_S * float(1 << min(num_said, 16))
