"""One verdict on a training that stands still, from all that is known of it. Pure.

The ranks' counts of collectives name who holds up the others; see `stuck`. What else has been seen names a rank
where the counts name none, and otherwise stands beside them as evidence: the status of NCCL's own
threads, the ranks' stacks, and how busy their devices are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..messages import Message
from .stuck import MAX_NAMED, Blame, RankView, StuckVerdict

BUSY_PCT = 90.0
"""A device that is in use for so large a share of the time runs a kernel."""
IDLE_PCT = 5.0
"""A device that is in use for no more runs nothing."""
MAX_TEXT_CHARS = 64 * 1024
"""Characters of a status or of stacks that are read."""

WitnessName = Literal["counts", "nccl", "devices", "stacks"]

_LAUNCHED = re.compile(
    r"(?P<num>\d{1,6}) ranks? (?:has|have) launched up to operation (?P<op>\d{1,15})(?:: (?P<who>.*))?"
)
_RANK = re.compile(r"\brank (\d{1,6})\b")
_FRAMES = (
    re.compile(r'File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,9}) in (?P<name>\S{1,100})'),
    re.compile(r"(?P<name>\S{1,100}) \((?P<file>[^()\n]{1,500}):(?P<line>\d{1,9})\)"),
)
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/torch/", "/muster/", "/lib/python", "<")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one witness says."""

    witness: WitnessName
    text: Message


@dataclass(frozen=True, kw_only=True)
class Witnesses:
    """What has been seen of an attempt besides what its ranks report."""

    nccl: str = ""
    """Status of NCCL's RAS threads; "" if they were not asked, or do not answer."""
    stacks: Mapping[int, str] = field(default_factory=dict)
    """Stacks by rank, as they were taken last while nothing moved."""
    devices: Mapping[int, float] = field(default_factory=dict)
    """Share of the time in which a kernel ran on the device of a rank, 0 to 100."""


def conclude(
    verdict: StuckVerdict, ranks: Sequence[RankView], seen: Witnesses
) -> tuple[StuckVerdict, tuple[Evidence, ...]]:
    """Return the verdict with the rank that the other witnesses name where the counts name none, and
    what each of them says.

    verdict: of the ranks' counts. One of a training that moves stays as it is, without evidence.
    """
    if verdict.state not in ("still", "over"):
        return verdict, ()
    behind = _behind(seen.nccl, len(ranks))
    blamed = verdict.blamed
    if not blamed:
        blamed = _by_nccl(behind, ranks) or _by_devices(ranks, seen.devices)
        if blamed:
            verdict = dataclasses.replace(
                verdict,
                blamed=blamed[:MAX_NAMED],
                reason=f"{verdict.reason} {' '.join(b.reason for b in blamed[:MAX_NAMED])}",
            )
    shown = [b.rank for b in blamed[:MAX_NAMED]] or [r.rank for r in ranks][:MAX_NAMED]
    return verdict, (
        *_of_counts(verdict, ranks),
        *(_of_nccl(rank, *behind[rank]) for rank in sorted(behind)[:MAX_NAMED]),
        *(found for rank in shown if (found := _of_device(rank, seen.devices)) is not None),
        *(found for rank in shown if (found := _of_stack(rank, seen.stacks)) is not None),
    )


# ---------------------------------------------------------------- counts


def _of_counts(verdict: StuckVerdict, ranks: Sequence[RankView]) -> list[Evidence]:
    found = []
    for blame in verdict.blamed:
        called = {
            r.rank: r.counts[blame.group].num_enqueued for r in ranks if blame.group in r.counts
        }
        most = max(called.values(), default=0)
        own = called.get(blame.rank, 0)
        if blame.group and own < most:
            found.append(
                Evidence(
                    witness="counts",
                    text=Message(
                        "stuck.by_counts", rank=blame.rank, group=blame.group, num=own, most=most
                    ),
                )
            )
    return found


# ---------------------------------------------------------------- NCCL's status


def _behind(status: str, num_ranks: int) -> dict[int, tuple[int, int]]:
    """Return rank → (last operation it has launched, that of the others), of communicators of all ranks:
    in others NCCL counts ranks anew."""
    found: dict[int, tuple[int, int]] = {}
    for part in re.split(r"(?m)^(?=#)", status[:MAX_TEXT_CHARS]):
        launched = [
            (int(match["op"]), int(match["num"]), match["who"] or "")
            for match in _LAUNCHED.finditer(part)
        ]
        if len(launched) < 2 or sum(num for _, num, _ in launched) != num_ranks:
            continue
        most = max(op for op, _, _ in launched)
        for op, _, who in launched:
            if op < most:
                found |= {int(rank): (op, most) for rank in _RANK.findall(who)}
    return {rank: counts for rank, counts in found.items() if rank < num_ranks}


def _by_nccl(behind: Mapping[int, tuple[int, int]], ranks: Sequence[RankView]) -> tuple[Blame, ...]:
    return tuple(
        Blame(
            rank=rank.rank,
            kind="absent",
            group="",
            reason=(
                f"By NCCL's own status, rank {rank.rank} on {rank.node_name} has launched operation "
                f"{behind[rank.rank][0]}, others {behind[rank.rank][1]}."
            ),
        )
        for rank in ranks
        if rank.rank in behind
    )


def _of_nccl(rank: int, own: int, most: int) -> Evidence:
    return Evidence(witness="nccl", text=Message("stuck.by_nccl", rank=rank, num=own, most=most))


# ---------------------------------------------------------------- devices


def _by_devices(ranks: Sequence[RankView], devices: Mapping[int, float]) -> tuple[Blame, ...]:
    """Return the ranks of which nothing runs while the others' kernels wait: a kernel of a collective
    keeps its device busy until all are there."""
    known = {rank.rank: devices[rank.rank] for rank in ranks if rank.rank in devices}
    if len(known) < len(ranks) or len(ranks) < 2:
        return ()
    idle = [rank for rank in ranks if known[rank.rank] <= IDLE_PCT]
    if not idle or any(IDLE_PCT < pct < BUSY_PCT for pct in known.values()):
        return ()
    if len(idle) == len(ranks):
        return ()
    return tuple(
        Blame(
            rank=rank.rank,
            kind="absent",
            group="",
            reason=(
                f"Nothing runs on the device of rank {rank.rank} on {rank.node_name}, while those of the "
                "others are fully in use: it has not launched what they wait for."
            ),
        )
        for rank in idle
    )


def _of_device(rank: int, devices: Mapping[int, float]) -> Evidence | None:
    pct = devices.get(rank)
    if pct is None or IDLE_PCT < pct < BUSY_PCT:
        return None
    return Evidence(
        witness="devices",
        text=Message(
            "stuck.by_idle_device" if pct <= IDLE_PCT else "stuck.by_busy_device",
            rank=rank,
            pct=round(pct),
        ),
    )


# ---------------------------------------------------------------- stacks


def _of_stack(rank: int, stacks: Mapping[int, str]) -> Evidence | None:
    line = line_of(stacks.get(rank, ""))
    if not line:
        return None
    return Evidence(witness="stacks", text=Message("stuck.by_stack", rank=rank, line=line))


def line_of(stacks: str) -> str:
    """Return "file:line in function" of the innermost frame of the main thread that is no library's; ""
    if there is none.

    stacks: as Python's faulthandler or py-spy writes them.
    """
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) )", stacks[-MAX_TEXT_CHARS:])
    marked = [t for t in threads if t.startswith("Current") or '"MainThread"' in t[:200]]
    for thread in (marked or threads)[-1:]:
        for pattern in _FRAMES:
            for frame in pattern.finditer(thread):
                if not any(part in f"/{frame['file']}" for part in _LIBRARIES):
                    file = frame["file"].rpartition("/")[2]
                    return f"{file}:{frame['line']} in {frame['name']}"
    return ""
