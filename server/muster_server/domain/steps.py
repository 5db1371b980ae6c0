"""What the measured steps of all ranks say together: who waits for whom, and what links carry.

Ranks measure with clocks of their own and nothing here compares clocks. A collective ends for all of
its members at about the same time, so the one that joined last was in it for the shortest: its time
is the transfer, and what another member has above it is time that member waited.

All times are milliseconds per step. NaN is not expected: rows without a value are left out before.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cost_model.collectives import moved_as

PARTS = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "comm/exposed_ms", "pipeline/bubble_ms", "time/optimizer_ms", "time/checkpoint_ms",
    "time/other_ms",
)  # fmt: skip
"""They sum to time/step_ms within 2 %."""
WORK = (
    "time/data_wait_ms", "time/host_to_device_ms", "time/forward_ms", "time/backward_ms",
    "time/optimizer_ms", "time/checkpoint_ms", "time/other_ms",
)  # fmt: skip
"""What a rank may be late because of."""
POINT_TO_POINT = frozenset({"send", "recv", "ps_push", "ps_pull"})

MIN_BUCKETS = 10
"""Buckets of steps that all members must have measured before a rank is blamed."""
MIN_SHARE = 0.1
"""Of the step that others must wait for a rank before it is blamed: less is what chance does."""
MIN_SHARE_UNEXPLAINED = 0.25
"""The same where no part of its own step is longer: in short runs of equal workers that share a
machine, chance made 0.11 to 0.21 of it in 5 of 205."""

Rows = Mapping[str, Mapping[int, float]]
"""Metric → step → value, of one rank."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A process group by its global ranks. Slices of a mesh are called `dimension@first rank`."""

    name: str
    ranks: tuple[int, ...]
    backend: str = ""
    """"gloo", "nccl"; "" is not known."""

    @property
    def label(self) -> str:
        """How its members name it in their metrics."""
        return self.name.rpartition("@")[0] or self.name


@dataclass(frozen=True, kw_only=True)
class RankSteps:
    """Means over the rows of one rank that have parts."""

    rank: int
    num_rows: int
    step_ms: float
    parts: dict[str, float]
    overlapped_ms: float | None
    interference_ms: float | None
    wait_ms: float | None
    """Waited for late members of its groups; None where no group can be compared."""
    held_up_ms: float | None
    """Made the others wait: mean over them, of the buckets in which this rank was last."""
    stage: int | None


@dataclass(frozen=True, kw_only=True)
class KindTraffic:
    """One kind of collective of one group, means over its members."""

    group: str
    kind: str
    ranks: tuple[int, ...]
    count: float
    num_bytes: float
    time_ms: float
    transfer_ms: float | None
    """Of the member that joined last, mean over buckets; None for messages between two ranks."""
    wait_ms: float | None
    """`time_ms` less `transfer_ms`."""
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """A rank that the others wait for, again and again."""

    rank: int
    group: str
    held_up_ms: float
    """Median over buckets of how much longer the others were in the group's collectives."""
    share: float
    """Of their step, 0..1."""
    part: str | None
    """Which part of its step is longer than the others', by most; None: none explains it."""
    excess_ms: float
    num_buckets: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline, means over the ranks that hold it."""

    stage: int
    ranks: tuple[int, ...]
    compute_ms: float
    """Forward and backward."""
    bubble_ms: float
    step_ms: float


@dataclass(frozen=True, kw_only=True)
class StepAnalysis:
    ranks: tuple[RankSteps, ...]
    traffic: tuple[KindTraffic, ...]
    culprit: Culprit | None
    stages: tuple[Stage, ...]
    imbalance: float | None
    """Of the stages: the slowest one's computing over the mean, less 1. None without a pipeline."""


def analyse(
    ranks: Mapping[int, Rows], groups: Sequence[Group], *, bucket_steps: int = 1
) -> StepAnalysis:
    """Put the rows of all ranks together.

    ranks: rank → its rows in a window of steps. Ranks without parts are left out of the answer.
    bucket_steps: rows of different ranks are compared within buckets of so many steps; 1 where
        every step is a row.
    """
    ranks = {rank: rows for rank, rows in ranks.items() if rows.get("time/forward_ms")}
    buckets = {rank: _bucketed(rows, bucket_steps) for rank, rows in ranks.items()}
    placed = _placed(buckets, groups)
    waits: dict[int, float] = {}
    held_up: dict[int, float] = {}
    suspects: list[Culprit] = []
    for group in placed:
        _share_out(group, buckets, waits, held_up)
        suspect = _suspect(group, buckets, ranks)
        if suspect is not None:
            suspects.append(suspect)
    described = tuple(
        _rank_steps(rank, rows, waits.get(rank), held_up.get(rank))
        for rank, rows in sorted(ranks.items())
    )
    stages = _stages(described)
    return StepAnalysis(
        ranks=described,
        traffic=_traffic(placed, buckets),
        culprit=max(suspects, key=lambda c: c.share, default=None),
        stages=stages,
        imbalance=_imbalance(stages),
    )


def lateness(
    ranks: Mapping[int, Rows], groups: Sequence[Group], *, bucket_steps: int = 1
) -> dict[int, float]:
    """Rank → ms of the others' step that they wait for it, negative where it waits for them: the
    median over buckets, in the largest group that can be compared. Empty without one.

    A signed figure of every rank, where a culprit is one that stands out: chance makes it as often
    negative as positive.
    """
    ranks = {rank: rows for rank, rows in ranks.items() if rows.get("time/forward_ms")}
    buckets = {rank: _bucketed(rows, bucket_steps) for rank, rows in ranks.items()}
    for group in sorted(_placed(buckets, groups), key=lambda g: -len(g.ranks)):
        exposed = _exposed(group, buckets)
        if exposed:
            return {rank: _held_up(rank, exposed) for rank in group.ranks}
    return {}


def bus_factor(kind: str, size: int) -> float | None:
    """What bus bandwidth is of algorithm bandwidth, in a group of `size` ranks; None where there is
    no such figure.

    As in nccl-tests' PERFORMANCE.md: the traffic of the slowest link over the payload, so that the
    figure can be compared with what a link can do, whatever the number of ranks.
    """
    if kind == "all_reduce":
        return 2 * (size - 1) / size
    if kind in ("all_gather", "reduce_scatter", "all_to_all"):
        return (size - 1) / size
    if kind in ("broadcast", "reduce") or kind in POINT_TO_POINT:
        return 1.0
    return None


# ---------------------------------------------------------------- of one rank


def _bucketed(rows: Rows, width: int) -> dict[str, dict[int, float]]:
    """Metric → bucket → mean of its values there."""
    found: dict[str, dict[int, float]] = {}
    for name, values in rows.items():
        if width <= 1:
            found[name] = dict(values)
            continue
        members: dict[int, list[float]] = {}
        for step, value in values.items():
            members.setdefault(step // width, []).append(value)
        found[name] = {bucket: statistics.fmean(v) for bucket, v in members.items()}
    return found


def _mean(rows: Rows, name: str, of: Mapping[int, float] | None = None) -> float | None:
    """Over the steps that are also in `of`; None when there is none."""
    values = rows.get(name, {})
    chosen = [v for step, v in values.items() if of is None or step in of]
    return statistics.fmean(chosen) if chosen else None


def _rank_steps(rank: int, rows: Rows, wait: float | None, held_up: float | None) -> RankSteps:
    with_parts = rows["time/forward_ms"]
    stage = _mean(rows, "pipeline/stage")
    return RankSteps(
        rank=rank,
        num_rows=len(with_parts),
        step_ms=_mean(rows, "time/step_ms", with_parts) or 0.0,
        parts={
            name: value for name in PARTS if (value := _mean(rows, name, with_parts)) is not None
        },
        overlapped_ms=_mean(rows, "comm/overlapped_ms"),
        interference_ms=_mean(rows, "comm/interference_ms"),
        wait_ms=wait,
        held_up_ms=held_up,
        stage=None if stage is None else round(stage),
    )


# ---------------------------------------------------------------- of a group


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """A group whose members' metrics are at hand."""

    label: str
    name: str
    ranks: tuple[int, ...]
    backend: str


def _placed(buckets: Mapping[int, Rows], groups: Sequence[Group]) -> list[_Placed]:
    """Groups that members have measured. One that was not reported is taken to be of all ranks
    that name it."""
    named: dict[str, set[int]] = {}
    for rank, rows in buckets.items():
        for name in rows:
            parts = name.split("/")
            if parts[0] == "comm" and len(parts) >= 3:
                named.setdefault(parts[1], set()).add(rank)
    placed: list[_Placed] = []
    for label, having in sorted(named.items()):
        found = [g for g in groups if g.label == label and having & set(g.ranks)]
        placed += [
            _Placed(
                label=label,
                name=g.name,
                ranks=tuple(r for r in g.ranks if r in having),
                backend=g.backend,
            )
            for g in found
        ]
        rest = having - {r for g in found for r in g.ranks}
        if rest:
            placed.append(_Placed(label=label, name=label, ranks=tuple(sorted(rest)), backend=""))
    return placed


def _exposed(group: _Placed, buckets: Mapping[int, Rows]) -> list[dict[int, float]]:
    """Rank → exposed time in the group, of each bucket that all its members have."""
    name = f"comm/{group.label}/exposed_ms"
    series = {rank: buckets[rank].get(name, {}) for rank in group.ranks}
    common = set.intersection(*(set(s) for s in series.values())) if len(series) > 1 else set()
    return [{rank: s[bucket] for rank, s in series.items()} for bucket in sorted(common)]


def _share_out(
    group: _Placed,
    buckets: Mapping[int, Rows],
    waits: dict[int, float],
    held_up: dict[int, float],
) -> None:
    """Add what each member waited in this group, and what the last one of each bucket cost them."""
    exposed = _exposed(group, buckets)
    for at_once in exposed:
        last = min(at_once, key=lambda rank: at_once[rank])
        above = {rank: value - at_once[last] for rank, value in at_once.items()}
        for rank, wait in above.items():
            waits[rank] = waits.get(rank, 0.0) + wait / len(exposed)
            held_up.setdefault(rank, 0.0)
        held_up[last] += sum(above.values()) / (len(above) - 1) / len(exposed)


def _suspect(
    group: _Placed, buckets: Mapping[int, Rows], ranks: Mapping[int, Rows]
) -> Culprit | None:
    """The member that the others regularly wait for, by at least MIN_SHARE of their step; by
    MIN_SHARE_UNEXPLAINED where no part of its own step says why.

    Medians over buckets: a rank that is late once by a lot is no culprit, and two that take turns,
    as on a busy machine, are none either.
    """
    exposed = _exposed(group, buckets)
    if len(exposed) < MIN_BUCKETS:
        return None
    median = {rank: statistics.median(b[rank] for b in exposed) for rank in group.ranks}
    rank = min(median, key=lambda r: median[r])
    others = [r for r in group.ranks if r != rank]
    held_up = _held_up(rank, exposed)
    step_ms = statistics.median(
        value for r in others for value in ranks[r].get("time/step_ms", {}).values()
    )
    if step_ms <= 0 or held_up < MIN_SHARE * step_ms:
        return None
    excess = {part: _excess(part, rank, others, buckets) for part in WORK}
    part = max(excess, key=lambda name: excess[name])
    explained = excess[part] >= held_up / 2
    share = held_up / step_ms
    if not explained and share < MIN_SHARE_UNEXPLAINED:
        return None
    return Culprit(
        rank=rank,
        group=group.name,
        held_up_ms=held_up,
        share=share,
        part=part if explained else None,
        excess_ms=excess[part],
        num_buckets=len(exposed),
        reason=(
            f"The other ranks of {group.name} wait {held_up:.1f} ms of each step of {step_ms:.1f} ms "
            f"({share:.0%}) for rank {rank}"
            + (
                f", whose {part} is {excess[part]:.1f} ms longer than theirs."
                if explained
                else "; no part of its own step explains it."
            )
        ),
    )


def _held_up(rank: int, exposed: Sequence[Mapping[int, float]]) -> float:
    """How much longer the others are in the collectives than `rank`: the median over buckets."""
    return statistics.median(
        statistics.fmean(v for r, v in bucket.items() if r != rank) - bucket[rank]
        for bucket in exposed
    )


def _excess(part: str, rank: int, others: Sequence[int], buckets: Mapping[int, Rows]) -> float:
    """How much longer this part is on `rank` than on the median of the others, in ms."""
    mine = buckets[rank].get(part, {})
    theirs = [statistics.median(v) for r in others if (v := buckets[r].get(part, {}).values())]
    if not mine or not theirs:
        return 0.0
    return statistics.median(mine.values()) - statistics.median(theirs)


# ---------------------------------------------------------------- communication


def _traffic(groups: Sequence[_Placed], buckets: Mapping[int, Rows]) -> tuple[KindTraffic, ...]:
    found: list[KindTraffic] = []
    for group in groups:
        prefix = f"comm/{group.label}/"
        kinds = sorted(
            {
                name.split("/")[2]
                for rank in group.ranks
                for name, series in buckets[rank].items()
                if name.startswith(prefix) and name.endswith("/time_ms") and name.count("/") == 3
                if series  # of what is past there may be none among the rows that were read
            }
        )
        found += [_kind_traffic(group, kind, buckets) for kind in kinds]
    return tuple(found)


def _kind_traffic(group: _Placed, kind: str, buckets: Mapping[int, Rows]) -> KindTraffic:
    prefix = f"comm/{group.label}/{kind}"
    times = {
        rank: series for rank in group.ranks if (series := buckets[rank].get(f"{prefix}/time_ms"))
    }
    time_ms = statistics.fmean(statistics.fmean(s.values()) for s in times.values())
    num_bytes = _over_ranks(group, buckets, f"{prefix}/bytes")
    transfer = None
    if kind not in POINT_TO_POINT and len(times) > 1:
        common = set.intersection(*(set(s) for s in times.values()))
        if common:
            transfer = statistics.fmean(min(s[b] for s in times.values()) for b in common)
    moved_in = transfer if transfer is not None else time_ms
    algorithm = num_bytes / (moved_in / 1e3) if moved_in > 0 and num_bytes > 0 else None
    factor = bus_factor(moved_as(kind, group.backend), len(group.ranks))
    if kind in ("gather", "scatter"):
        algorithm = None  # what is known is one rank's part, not the whole
    return KindTraffic(
        group=group.name,
        kind=kind,
        ranks=group.ranks,
        count=_over_ranks(group, buckets, f"{prefix}/count"),
        num_bytes=num_bytes,
        time_ms=time_ms,
        transfer_ms=transfer,
        wait_ms=None if transfer is None else max(time_ms - transfer, 0.0),
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=algorithm * factor if algorithm is not None and factor else None,
    )


def _over_ranks(group: _Placed, buckets: Mapping[int, Rows], name: str) -> float:
    """The mean over members that have it; 0 without any."""
    values = [
        statistics.fmean(series.values())
        for rank in group.ranks
        if (series := buckets[rank].get(name))
    ]
    return statistics.fmean(values) if values else 0.0


# ---------------------------------------------------------------- pipelines


def _stages(ranks: Sequence[RankSteps]) -> tuple[Stage, ...]:
    members: dict[int, list[RankSteps]] = {}
    for rank in ranks:
        if rank.stage is not None:
            members.setdefault(rank.stage, []).append(rank)
    return tuple(
        Stage(
            stage=stage,
            ranks=tuple(r.rank for r in having),
            compute_ms=statistics.fmean(
                r.parts.get("time/forward_ms", 0.0) + r.parts.get("time/backward_ms", 0.0)
                for r in having
            ),
            bubble_ms=statistics.fmean(r.parts.get("pipeline/bubble_ms", 0.0) for r in having),
            step_ms=statistics.fmean(r.step_ms for r in having),
        )
        for stage, having in sorted(members.items())
    )


def _imbalance(stages: Sequence[Stage]) -> float | None:
    computing = [s.compute_ms for s in stages]
    if len(computing) < 2 or sum(computing) <= 0:
        return None
    return max(computing) / statistics.fmean(computing) - 1
