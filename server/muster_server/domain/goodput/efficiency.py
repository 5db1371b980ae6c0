"""What a run asked for, what it used, and what to change: its efficiency card. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from muster_server.domain.messages import Message

from .ledger import LOST, TimeClass, allocated_s

SAMPLES_MIN = 20
"""Samples below which nothing is concluded from them: five minutes of one node."""
_BUSY_PCT = 50.0
"""Use of the GPUs, on median, below which fewer slots are worth a try."""
_START_SHARE = 0.1
"""Share of the slot time from which a start is worth a sentence."""


@dataclass(frozen=True, kw_only=True)
class RunSample:
    """How busy a node of a run was at one time; None is what was not measured."""

    cpu_pct: float | None = None
    """Use of the whole node; None where other runs share it, as is `memory_bytes`."""
    memory_bytes: float | None = None
    gpu_pct: float | None = None
    """Mean use of the run's GPUs there."""
    gpu_memory_pct: float | None = None
    """Memory in use on the fullest of them."""


@dataclass(frozen=True, kw_only=True)
class UseFigure:
    """What a run used of one thing."""

    name: str
    """A field of RunSample."""
    median: float
    peak: float
    num_samples: int


@dataclass(frozen=True, kw_only=True)
class EfficiencyCard:
    """What a run asked for, used and lost."""

    slots: int
    memory_bytes: int | None
    """Memory asked for on each node; None if none was."""
    used: tuple[UseFigure, ...]
    lost: str | None
    """Class of the largest loss; None if nothing was lost."""
    lost_share: float
    """Share of the slot time that it took, 0 to 1."""
    advice: tuple[Message, ...]
    """What to change; empty if nothing is known that would."""


def efficiency(
    *,
    slots: int,
    memory_bytes: int | None,
    samples: Sequence[RunSample],
    classes: Mapping[str, float],
) -> EfficiencyCard:
    """Return the card of a run.

    classes: slot-seconds by class. Advice about its size needs SAMPLES_MIN samples.
    """
    used = []
    for name in ("cpu_pct", "memory_bytes", "gpu_pct", "gpu_memory_pct"):
        values = [value for one in samples if (value := getattr(one, name)) is not None]
        if values:
            used.append(
                UseFigure(
                    name=name, median=median(values), peak=max(values), num_samples=len(values)
                )
            )
    whole = allocated_s(classes)
    lost = max(LOST, key=lambda kind: classes.get(kind, 0.0))
    lost_s = classes.get(lost, 0.0)
    enough = next(
        (use for use in used if use.name == "gpu_pct" and use.num_samples >= SAMPLES_MIN), None
    )
    return EfficiencyCard(
        slots=slots,
        memory_bytes=memory_bytes,
        used=tuple(used),
        lost=str(lost) if lost_s > 0 else None,
        lost_share=lost_s / whole if whole > 0 else 0.0,
        advice=tuple(_advice(slots, enough, classes, whole)),
    )


def _advice(
    slots: int, gpu: UseFigure | None, classes: Mapping[str, float], whole: float
) -> Iterator[Message]:
    if gpu is not None and gpu.median < _BUSY_PCT:
        pct = f"{gpu.median:.0f}"
        if slots > 1:
            used = f"{slots * gpu.median / 100.0:.2g}"
            yield Message("efficiency.slots", slots=slots, used=used, pct=pct, num=gpu.num_samples)
        else:
            yield Message("efficiency.slot", pct=pct, num=gpu.num_samples)
    parts = {kind: classes.get(kind, 0.0) for kind in _STARTS}
    slowest = max(parts, key=lambda kind: parts[kind])
    start_s = sum(parts.values())
    if whole > 0 and start_s / whole >= _START_SHARE:
        yield _STARTS[slowest](
            f"{100.0 * start_s / whole:.0f}", f"{100.0 * parts[slowest] / start_s:.0f}"
        )


_STARTS: Mapping[TimeClass, Callable[[str, str], Message]] = {
    TimeClass.PREPARING: lambda pct, part: Message("efficiency.preparing", pct=pct, part=part),
    TimeClass.STARTING: lambda pct, part: Message("efficiency.starting", pct=pct, part=part),
    TimeClass.RESTORING: lambda pct, part: Message("efficiency.restoring", pct=pct, part=part),
}
