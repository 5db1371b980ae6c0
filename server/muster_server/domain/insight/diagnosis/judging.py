"""The verdict: what of a step could be had back, with its interval, or why that cannot be said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from muster.document.strategy import StrategySection

from ..estimates import IntervalEstimate, StepTimes, mean_of, pooled_mean
from .advice import Advice, advise
from .planning import LeftOut

Verdict = Literal["compute", "communication", "data", "straggler", "inconclusive"]
Avoidable = Literal["communication", "data", "straggler"]
AVOIDABLE: tuple[Avoidable, ...] = ("communication", "data", "straggler")

NOTABLE = 0.1
"""Share of the step from which on something is what a training is bound by …"""
CERTAIN = 0.05
"""… when its whole interval is above this."""
EXCLUDED = 0.2
"""What may cost up to this is not excluded as long as its interval reaches beyond."""
MIN_BLOCKS = 4
"""Minimum number of blocks of measured steps if there are no probes."""


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Shares of the step, 0 to 1, as the ranks measured them."""

    step_ms: float
    data: float
    """What all ranks wait for data: the least of them."""
    transfer: float
    """Exposed communication without waiting for late ranks: mean over ranks."""
    late: Mapping[int, float]
    """Rank → what the others wait for it, negative where it waits. Empty where nobody can be
    compared."""
    cause: str | None
    """The part of its step that is longer than the others', of the rank that stands out."""
    optimizer: float
    bubble: float


@dataclass(frozen=True, kw_only=True)
class ProbeRun:
    """What one probe has measured."""

    probe: str
    """Kind of probe without the number of the repeat, such as "as_is" or "bucket:4"."""
    step_ms: Mapping[int, float]
    """Rank → its step time; not empty."""
    breakdown: Breakdown | None = None
    """Breakdown of the step, for probes whose ranks do a step together."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The step time of one kind of probe."""

    probe: str
    """Kind of probe: "as_is", "no_sync", "synthetic", "alone" or "bucket:4"."""
    step_ms: IntervalEstimate | None
    """Step time of the slowest rank; None with fewer than two repeats."""
    repeats_ms: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    verdict: Verdict
    reason: str
    shares: Mapping[str, IntervalEstimate]
    """communication, data, straggler, compute: of the step, 0 to 1, below 0 by chance. What is not
    there could not be estimated."""
    measured: tuple[Measured, ...]
    culprit_rank: int | None
    """The rank whose lateness is the straggler share."""
    culprit_part: str | None
    efficiency: IntervalEstimate | None
    """The step of one worker alone over that of all: 1 is perfect scaling."""
    spread: float | None
    """How much a repeat differs from the mean, as a share."""
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Late:
    rank: int | None = None
    part: str | None = None
    share: IntervalEstimate | None = None


@dataclass
class _Found:
    """Shares as far as they are known."""

    shares: dict[str, IntervalEstimate] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def judge(
    runs: Sequence[ProbeRun],
    *,
    left_out: Sequence[LeftOut] = (),
    strategy: StrategySection | None,
    prefetch: int,
    slots: int,
    nodes: Mapping[int, str],
    denied: Sequence[str] = (),
    spare: Collection[str] = (),
) -> Diagnosis:
    """Return what the probes say together.

    communication: what a step takes longer than without synchronisation, both of the slowest rank,
    so that waiting for a slow rank does not count; if that cannot be left out, the exposed transfer
    that the ranks measured. data: what it takes longer than with a batch out of memory, less what
    one rank alone waits for its data. straggler: what the others wait for the rank they wait for
    most. compute: the rest.

    strategy, prefetch, slots: of the diagnosed document. nodes: rank → node's name. denied: nodes
    that the document avoids already. spare: nodes without which the cluster could train it.
    """
    times: dict[str, list[float]] = {}
    for run in runs:
        times.setdefault(run.probe, []).append(max(run.step_ms.values()))
    compared = StepTimes(times)
    parts = [r.breakdown for r in runs if r.probe == "as_is" and r.breakdown is not None]
    late = _late(parts, _others(runs))
    found = _Found()
    _communication(found, compared, parts, left_out, slots)
    without = compared.ratio("synthetic", "as_is")
    if without is not None:
        data = without.through(lambda r: 1 - r)
        if late.share is not None and late.part == "time/data_wait_ms":
            data = _less(data, late.share)
        found.shares["data"] = data
    else:
        found.missing["data"] = (
            "fewer than two probes without the data, or as it is, have ended well"
        )
    if late.share is not None:
        found.shares["straggler"] = late.share
    elif slots > 1 and len(parts) < 2:
        found.missing["straggler"] = "fewer than two probes as it is have measured their parts"
    verdict, reason = _verdict(found, late)
    _rest(found)
    alone = compared.ratio("alone", "as_is")
    bucket = next((p for p in times if p.startswith("bucket:")), None)
    advice = advise(
        verdict=verdict,
        shares=found.shares,
        without_sync=compared.ratio("no_sync", "as_is"),
        without_data=without,
        bucket=None if bucket is None else (bucket, compared.ratio(bucket, "as_is")),
        optimizer=statistics.fmean(p.optimizer for p in parts) if parts else 0.0,
        strategy=strategy,
        prefetch=prefetch,
        late=None if late.rank is None else (late.rank, late.part),
        nodes=nodes,
        denied=denied,
        spare=spare,
    )
    return Diagnosis(
        verdict=verdict,
        reason=reason,
        shares=found.shares,
        measured=tuple(
            Measured(probe=name, step_ms=compared.time(name), repeats_ms=tuple(values))
            for name, values in times.items()
        ),
        culprit_rank=late.rank,
        culprit_part=late.part,
        efficiency=alone,
        spread=None if math.isnan(compared.spread) else compared.spread,
        advice=advice,
        notes=tuple(f"{o.probe}: {o.reason}." for o in left_out)
        + tuple(f"{name}: {why}." for name, why in found.missing.items()),
    )


def judge_observed(
    blocks: Sequence[Breakdown], *, slots: int, nodes: Mapping[int, str]
) -> Diagnosis:
    """Return what the always-on measurements say about a training that cannot be probed.

    The shares are those of blocks of consecutive steps, with the interval of their mean. Gains are
    upper bounds, because nothing was left out to measure them.
    """
    found = _Found()
    late = _late(blocks)
    if len(blocks) >= MIN_BLOCKS:
        for name, values in (
            ("communication", [b.transfer for b in blocks]),
            ("data", [b.data for b in blocks]),
        ):
            estimate = mean_of(values)
            if estimate is not None:
                found.shares[name] = estimate
        if late.share is not None:
            found.shares["straggler"] = late.share
        verdict, reason = _verdict(found, late)
    else:
        late = _Late()
        verdict, reason = (
            "inconclusive",
            f"Too few steps were measured with their parts: {len(blocks)} blocks of them, and "
            f"{MIN_BLOCKS} are needed.",
        )
    _rest(found)
    return Diagnosis(
        verdict=verdict,
        reason=reason,
        shares=found.shares,
        measured=(),
        culprit_rank=late.rank,
        culprit_part=late.part,
        efficiency=None,
        spread=None,
        advice=advise(
            verdict=verdict,
            shares=found.shares,
            without_sync=None,
            without_data=None,
            bucket=None,
            optimizer=0.0,
            strategy=None,
            prefetch=0,
            late=None if late.rank is None else (late.rank, late.part),
            nodes=nodes,
        ),
        notes=("What a change would gain is not predicted: no probes were run.",),
    )


def _communication(
    found: _Found,
    times: StepTimes,
    parts: Sequence[Breakdown],
    left_out: Sequence[LeftOut],
    slots: int,
) -> None:
    if slots == 1:
        return
    if any(o.probe == "no_sync" for o in left_out):
        estimate = mean_of([p.transfer for p in parts])
    else:
        ratio = times.ratio("no_sync", "as_is")
        estimate = ratio.through(lambda r: 1 - r) if ratio is not None else None
    if estimate is None:
        found.missing["communication"] = "fewer than two probes that show it have ended well"
    else:
        found.shares["communication"] = estimate


def _others(runs: Sequence[ProbeRun]) -> list[list[Breakdown]]:
    """Breakdowns of the probes that are not as it is, by kind."""
    kinds: dict[str, list[Breakdown]] = {}
    for run in runs:
        if run.probe != "as_is" and run.breakdown is not None:
            kinds.setdefault(run.probe, []).append(run.breakdown)
    return list(kinds.values())


def _late(parts: Sequence[Breakdown], others: Sequence[Sequence[Breakdown]] = ()) -> _Late:
    """Return the rank that the others wait for most over all repeats, and by how much of their
    step.

    others: of other kinds of probes, which tell how much repeats differ.
    """
    ranks = set.intersection(*(set(p.late) for p in parts)) if parts else set()
    if not ranks or len(parts) < 2:
        return _Late()
    rank = max(sorted(ranks), key=lambda r: statistics.fmean(p.late[r] for p in parts))
    share = pooled_mean(
        [p.late[rank] for p in parts],
        [[p.late[rank] for p in kind if rank in p.late] for kind in others],
    )
    if share is None or share.value < NOTABLE:
        return _Late(share=share)
    causes = [p.cause for p in parts]
    return _Late(
        rank=rank, part=max(set(causes), key=lambda c: (causes.count(c), c or "")), share=share
    )


def _less(a: IntervalEstimate, b: IntervalEstimate) -> IntervalEstimate:
    """Return the difference of two estimates that may be dependent: the errors are added."""
    half = max(a.high - a.value, a.value - a.low) + max(b.high - b.value, b.value - b.low)
    value = a.value - b.value
    return IntervalEstimate(value=value, low=value - half, high=value + half, num=min(a.num, b.num))


def _verdict(found: _Found, late: _Late) -> tuple[Verdict, str]:
    known = {name: found.shares[name] for name in AVOIDABLE if name in found.shares}
    if not known:
        why = "; ".join(found.missing.values()) or "nothing was measured"
        return "inconclusive", f"Nothing can be compared: {why}."
    top = max(known, key=lambda name: known[name].value)
    share = known[top]
    if share.value >= NOTABLE and share.low >= CERTAIN:
        return top, _named(top, share, late)
    if share.value >= NOTABLE or any(e.high > EXCLUDED for e in known.values()):
        doubtful = max(known, key=lambda name: known[name].high)
        return (
            "inconclusive",
            f"Repeats differ too much: {doubtful} costs {_pct(known[doubtful])} of the step. "
            "Diagnose again with more repeats, or while the machines do nothing else.",
        )
    if found.missing:
        which = ", ".join(sorted(found.missing))
        return (
            "inconclusive",
            f"What {which} costs is not known: {next(iter(found.missing.values()))}.",
        )
    said = ", ".join(f"{name} {_pct(e)}" for name, e in known.items())
    return "compute", f"Nothing else costs a tenth of the step: {said}."


def _named(top: str, share: IntervalEstimate, late: _Late) -> str:
    if top == "straggler":
        part = f", whose {late.part} is longer" if late.part else ""
        return f"The other ranks wait {_pct(share)} of their step for rank {late.rank}{part}."
    if top == "data":
        return f"Waiting for data costs {_pct(share)} of the step."
    return f"Communication costs {_pct(share)} of the step."


def _rest(found: _Found) -> None:
    known = [found.shares[name] for name in AVOIDABLE if name in found.shares]
    if not known or found.missing:
        return
    value = max(1 - sum(max(e.value, 0.0) for e in known), 0.0)
    half = math.sqrt(sum(((e.high - e.low) / 2) ** 2 for e in known))
    found.shares["compute"] = IntervalEstimate(
        value=value, low=max(value - half, 0.0), high=min(value + half, 1.0),
        num=min(e.num for e in known),
    )  # fmt: skip


def _pct(estimate: IntervalEstimate) -> str:
    """ "22 % (19 to 25 %, n=3)"."""
    e = estimate
    return f"{e.value * 100:.0f} % ({e.low * 100:.0f} to {e.high * 100:.0f} %, n={e.num})"
