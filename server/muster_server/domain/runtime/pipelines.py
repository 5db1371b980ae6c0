"""One step of a pipeline as its workers noted it, on one clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COMPUTES = ("forward", "backward", "backward_input", "backward_weight")
KINDS = (*COMPUTES, "send_forward", "send_backward", "recv_forward", "recv_backward")
MAX_OPERATIONS = 2_000
"""Maximum number of operations kept per worker and step."""
MAX_SHOWN = 20_000
"""Operations in one answer."""
MAX_STAGE = 65_535
MAX_US = 86_400_000_000
"""A day."""


@dataclass(frozen=True, kw_only=True)
class PipelineOperation:
    """Times are seconds from the beginning of the first worker's step."""

    kind: str
    """One of KINDS."""
    stage: int
    micro_batch: int
    """Index of the micro-batch, from 0."""
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class WorkerTimeline:
    """What one worker did, in order of time."""

    rank: int
    operations: tuple[PipelineOperation, ...]
    num_left_out: int
    """Operations that were not kept."""
    error_s: float | None = 0.0
    """Maximum error of this worker's times relative to the first one's, in seconds. None if nothing
    says how their clocks relate."""


@dataclass(frozen=True, kw_only=True)
class PipelineStep:
    lanes: tuple[WorkerTimeline, ...]
    total_s: float
    """Time from the first computation to the last, in seconds."""
    idle_share: float
    """Share of the workers' time between these two in which they compute nothing, 0 to 1."""


def problem(
    kinds: Sequence[str],
    stages: Sequence[int],
    micro_batches: Sequence[int],
    starts_us: Sequence[int],
    ends_us: Sequence[int],
) -> str | None:
    """Return what is wrong with the columns of a worker's report, as a clause; None if nothing
    is."""
    columns = (kinds, stages, micro_batches, starts_us, ends_us)
    if len({len(column) for column in columns}) != 1:
        return "its columns differ in length"
    if not 1 <= len(kinds) <= MAX_OPERATIONS:
        return f"it has {len(kinds)} operations, not 1 to {MAX_OPERATIONS}"
    if not set(kinds) <= set(KINDS):
        return f"a kind is none of {', '.join(KINDS)}"
    if not all(0 <= n <= MAX_STAGE for column in (stages, micro_batches) for n in column):
        return f"a stage or micro-batch is not between 0 and {MAX_STAGE}"
    if not all(0 <= s <= e <= MAX_US for s, e in zip(starts_us, ends_us, strict=True)):
        return "a time is not between 0 and a day, or ends before it starts"
    return None


def on_one_clock(lanes: Sequence[WorkerTimeline]) -> PipelineStep | None:
    """Return the lanes with the times of all as the first one's clock has them; None: nobody
    computed.

    Clocks are compared by what must come first: a stage goes forward with a micro-batch after the one
    before it, and backward after the one behind it. Between two neighbours that holds both ways, which
    leaves a range; its middle is taken, as if what lies between took as long there as back (as in
    NTP, RFC 5905 §8), and half of the range is the error. Errors add up along the pipeline.
    """
    if not any(o.kind in COMPUTES for lane in lanes for o in lane.operations):
        return None
    shifts: dict[int, tuple[float, float]] = {0: (0.0, 0.0)}
    """Index of a lane → what to add to its times, and the error of that."""
    reached = [0]
    while reached:
        at = reached.pop(0)
        for other in range(len(lanes)):
            found = _shift(lanes[at], lanes[other]) if other not in shifts else None
            if found is not None:
                shift, error = shifts[at]
                shifts[other] = (shift + found[0], error + found[1])
                reached.append(other)
    moved = tuple(_moved(lane, *shifts.get(index, (0.0, None))) for index, lane in enumerate(lanes))
    computing = [o for lane in moved for o in lane.operations if o.kind in COMPUTES]
    total = max(o.end_s for o in computing) - min(o.start_s for o in computing)
    busy = sum(o.end_s - o.start_s for o in computing)
    idle = 1 - busy / (total * len(moved)) if total > 0 else 0.0
    return PipelineStep(lanes=moved, total_s=total, idle_share=max(idle, 0.0))


def _moved(lane: WorkerTimeline, shift: float, error: float | None) -> WorkerTimeline:
    operations = tuple(
        PipelineOperation(
            kind=o.kind, stage=o.stage, micro_batch=o.micro_batch,
            start_s=o.start_s + shift, end_s=o.end_s + shift,
        )
        for o in lane.operations
    )  # fmt: skip
    return WorkerTimeline(
        rank=lane.rank, operations=operations, num_left_out=lane.num_left_out, error_s=error
    )


def _shift(a: WorkerTimeline, b: WorkerTimeline) -> tuple[float, float] | None:
    """Return what to add to the times of `b` to have them on the clock of `a`, and the error of
    that; None if they are not neighbours in both directions."""
    there, back = min(_gaps(a, b), default=None), min(_gaps(b, a), default=None)
    if there is None or back is None:
        return None
    return (back - there) / 2, abs(there + back) / 2


def _gaps(first: WorkerTimeline, second: WorkerTimeline) -> Iterator[float]:
    """Yield the times from what `first` did to what `second` could do only afterwards, each on its
    own clock: from sending to having received where the message was noted, else from the end of one
    computation to the beginning of the other."""
    sent: dict[tuple[str, int, int], float] = {}
    for o in first.operations:
        if o.kind in _GIVES:
            sent.setdefault((_GIVES[o.kind], o.stage, o.micro_batch), o.end_s)
    sent |= {
        (o.kind.removeprefix("send_"), o.stage, o.micro_batch): o.start_s
        for o in first.operations
        if o.kind.startswith("send_")
    }
    needed: dict[tuple[str, int, int], float] = {}
    for o in second.operations:
        if o.kind in _GIVES:
            way = _GIVES[o.kind]
            needed.setdefault((way, o.stage + _FROM[way], o.micro_batch), o.start_s)
    for o in second.operations:
        if o.kind.startswith("recv_"):
            way = o.kind.removeprefix("recv_")
            needed[way, o.stage + _FROM[way], o.micro_batch] = o.end_s
    for key, at in needed.items():
        if key in sent:
            yield at - sent[key]


_GIVES = {"forward": "forward", "backward": "backward", "backward_input": "backward"}
"""What others need it for."""
_FROM = {"forward": -1, "backward": 1}
"""Where what a stage needs comes from."""
