"""What each kind of collective of each process group costs, and what links carry. Pure.

All figures are per step of all measured steps. A kind that some steps do without says in how many rows
it was, and what it takes there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.timeline.ranks import bus_factor

from .cost_model.collectives import moved_as
from .step_rows import RECORDER, RankRows

POINT_TO_POINT = frozenset({"send", "recv", "coalesced", "ps_push", "ps_pull"})


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
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
class PlacedGroup:
    """A group whose members' metrics are at hand."""

    label: str
    name: str
    ranks: tuple[int, ...]
    backend: str


@dataclass(frozen=True, kw_only=True)
class KindTraffic:
    """One kind of collective of one process group: means over its members, and over all measured
    steps, those without one included."""

    group: str
    kind: str
    ranks: tuple[int, ...]
    count: float
    num_bytes: float
    """Payload: the tensor reduced, the output of a gather, the input of a scatter."""
    time_ms: float | None
    """Time during which at least one was in flight; None where collectives are only counted, and then
    so are all other times and rates."""
    num_rows: int
    """Measured rows behind these figures; each is a step where `bucket_steps` is 1."""
    num_rows_with: int
    """Number of rows with at least one; less than `num_rows` if it does not happen in every
    step."""
    time_ms_with: float | None
    """`time_ms` of these rows alone."""
    transfer_ms: float | None
    """Time of the member that joined last, which waited for nobody. None for messages between two
    ranks, and if only one member has measured."""
    wait_ms: float | None
    """Time spent waiting for that member: `time_ms` less `transfer_ms`."""
    algorithm_bytes_per_s: float | None
    """Algorithm bandwidth: `num_bytes` over `transfer_ms`, or over `time_ms` if that is None."""
    bus_bytes_per_s: float | None
    """Bus bandwidth: the algorithm bandwidth times 2(n-1)/n for all_reduce, (n-1)/n for all_gather,
    reduce_scatter and all_to_all, and 1 for broadcast, reduce and messages between two ranks, for n
    members (nccl-tests' PERFORMANCE.md)."""


def placed_groups(
    measured: Mapping[int, RankRows], groups: Sequence[ProcessGroup]
) -> list[PlacedGroup]:
    """Groups that members have measured. One that was not reported is taken to be of all ranks
    that name it."""
    named: dict[str, set[int]] = {}
    for rank, rows in measured.items():
        for name in rows.names:
            parts = name.split("/")
            if parts[0] == "comm" and len(parts) >= 3:
                named.setdefault(parts[1], set()).add(rank)
    placed: list[PlacedGroup] = []
    for label, having in sorted(named.items()):
        found = [g for g in groups if g.label == label and having & set(g.ranks)]
        placed += [
            PlacedGroup(
                label=label,
                name=g.name,
                ranks=tuple(r for r in g.ranks if r in having),
                backend=g.backend,
            )
            for g in found
        ]
        rest = having - {r for g in found for r in g.ranks}
        if rest:
            placed.append(
                PlacedGroup(label=label, name=label, ranks=tuple(sorted(rest)), backend="")
            )
    return placed


def traffic_of(
    groups: Sequence[PlacedGroup], measured: Mapping[int, RankRows]
) -> tuple[KindTraffic, ...]:
    """Return the traffic of every kind with a value among the rows, by group, then by name."""
    found: list[KindTraffic] = []
    for group in groups:
        kinds = sorted(
            {
                kind
                for rank in group.ranks
                for kind in _kinds(measured[rank], f"comm/{group.label}/")
            }
        )
        found += [_kind_traffic(group, kind, measured) for kind in kinds]
    return tuple(found)


def _kinds(rows: RankRows, prefix: str) -> set[str]:
    """Return the kinds of collectives that a rank has timed, or that the recorder has counted."""
    ends = ("/time_ms", "/count") if RECORDER in rows else ("/time_ms",)
    return {
        name.split("/")[2]
        for name in rows.names
        if name.startswith(prefix) and name.endswith(ends) and name.count("/") == 3
    }


def _kind_traffic(group: PlacedGroup, kind: str, measured: Mapping[int, RankRows]) -> KindTraffic:
    prefix = f"comm/{group.label}/{kind}"
    name = f"{prefix}/time_ms"
    members = [measured[rank] for rank in group.ranks if name in measured[rank]]
    if not members:
        return _counted(group, kind, measured)
    most = max(members, key=lambda rows: rows.num_rows_with(name))
    time_ms = _over(members, name)
    num_bytes = _timed_bytes(members, f"{prefix}/bytes")
    transfer = None if kind in POINT_TO_POINT else _of_the_last(members, name)
    moved_in = transfer if transfer is not None else time_ms
    algorithm = num_bytes / (moved_in / 1e3) if moved_in > 0 and num_bytes > 0 else None
    factor = bus_factor(moved_as(kind, group.backend), len(group.ranks))
    if kind in ("gather", "scatter"):
        algorithm = None  # only one rank's part is known, not the whole
    return KindTraffic(
        group=group.name,
        kind=kind,
        ranks=group.ranks,
        count=_over(members, f"{prefix}/count"),
        num_bytes=_over(members, f"{prefix}/bytes"),
        time_ms=time_ms,
        num_rows=len(most.with_comm),
        num_rows_with=most.num_rows_with(name),
        time_ms_with=statistics.fmean(rows.mean_with(name) or 0.0 for rows in members),
        transfer_ms=transfer,
        wait_ms=None if transfer is None else max(time_ms - transfer, 0.0),
        algorithm_bytes_per_s=algorithm,
        bus_bytes_per_s=algorithm * factor if algorithm is not None and factor else None,
    )


def _counted(group: PlacedGroup, kind: str, measured: Mapping[int, RankRows]) -> KindTraffic:
    """Return what torch's flight recorder alone has seen."""
    name = f"comm/{group.label}/{kind}/count"
    members = [measured[rank] for rank in group.ranks if name in measured[rank]]
    most = max(members, key=lambda rows: rows.num_rows_with(name))
    return KindTraffic(
        group=group.name,
        kind=kind,
        ranks=group.ranks,
        count=_over(members, name),
        num_bytes=_over(members, f"comm/{group.label}/{kind}/bytes"),
        time_ms=None,
        num_rows=most.num_rows_with(RECORDER),
        num_rows_with=most.num_rows_with(name),
        time_ms_with=None,
        transfer_ms=None,
        wait_ms=None,
        algorithm_bytes_per_s=None,
        bus_bytes_per_s=None,
    )


def _timed_bytes(members: Sequence[RankRows], name: str) -> float:
    """Return the mean bytes of the steps whose communication was timed."""
    values = [v for rows in members if (v := rows.mean(name, rows.with_comm)) is not None]
    return statistics.fmean(values) if values else 0.0


def _of_the_last(members: Sequence[RankRows], name: str) -> float | None:
    """Return the least time of the members, mean over the buckets that all of them have measured;
    None where fewer than two can be compared."""
    times = [rows.buckets(name) for rows in members]
    common = set.intersection(*map(set, times)) if len(times) > 1 else set()
    return statistics.fmean(min(s[b] for s in times) for b in common) if common else None


def _over(members: Sequence[RankRows], name: str) -> float:
    """Return the mean over members that have it; 0 without any."""
    values = [value for rows in members if (value := rows.mean(name)) is not None]
    return statistics.fmean(values) if values else 0.0
