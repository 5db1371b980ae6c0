"""Rules of metrics: bucket widths, which points of which attempt are visible, summaries.

Pure and made of the standard library. The array code that applies these rules to millions of
points is in db/queries/metrics_codec.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

BLOCK_POINTS = 4096
ROLLUP_BUCKETS = 33
"""Most roll-up buckets of a block: 4,096 points at consecutive steps make 32 or, unaligned, 33."""

SPAN_BLOCKS = 64
"""Blocks that one span rolls up, so that a series of 100,000,000 points is drawn from some 500 rows."""
SPAN_BUCKETS = 129
"""Most buckets of a span: 262,144 points at consecutive steps make 128 or, unaligned, 129."""
SPAN_MIN_WIDTH = 1024
"""No span has narrower buckets: its blocks hold at least half their most points, so it covers at
least 131,072 steps. A picture that is drawn finer need not look for spans."""


MEASURED_GROUPS = ("time/", "comm/", "pipeline/", "throughput/")
"""What Muster measures of steps; of fast ones a value is the mean of several."""


def is_measured(name: str) -> bool:
    """Return whether a metric is measured for steps, not reported by the script."""
    return name.startswith(MEASURED_GROUPS)


_HEADLINES = ("time/", "throughput/", "pipeline/", "staleness/", "progress/")


def is_headline(name: str) -> bool:
    """Return whether the metric summarizes a trial: a loss, or one of Muster's own measurements
    except those of each process group and kind of collective."""
    if name.startswith("comm/"):
        return name.count("/") == 1
    return name.startswith(_HEADLINES) or name.endswith("loss")


_QUANTITIES = tuple(
    re.compile(rf"(?:^|[^a-z])(?:{words})(?:[^a-z]|$)")
    for words in ("[a-z]*loss", "perplexity|[a-z]*error|rmse|mse|mae")
)
_VALIDATION = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|dev)(?:[^a-z]|$)")
_TRAINING = re.compile(r"(?:^|[^a-z])(?:train|training)(?:[^a-z]|$)")


_RUN = re.compile(
    r"(?!(?:train|val|test|eval|dev)[a-z]*[-_. ]?\d)[a-z]{1,40}[-_. ]?(\d{1,9})/(?=.)", re.I
)
"""What a metric of one of several runs begins with: `run-2/loss`, `fold-0/val/loss`."""


@lru_cache(maxsize=4096)
def _number_of_run(name: str) -> int:
    """Return the number of the run that a metric is of; -1 for one of the trial's own."""
    found = _RUN.match(name)
    return int(found[1]) if found else -1


@lru_cache(maxsize=4096)  # lists ask for the same few names again and again
def _rank(name: str) -> tuple[int, int, int, str] | None:
    """Return how a loss or an error ranks, the least first; None for any other metric."""
    text = name.lower()
    for place, quantity in enumerate(_QUANTITIES):
        if quantity.search(text) and not is_measured(text):
            part = 0 if _VALIDATION.search(text) else 1 if _TRAINING.search(text) else 2
            return place, part, len(name), name
    return None


def headline_name(names: Iterable[str]) -> str | None:
    """Return the loss or error that tells most of a training; None if no name is one.

    A loss comes before an error such as `rmse`, one of the validation data before one of the
    training data, and that before any other, such as one of the test data. Libraries write these
    words in many ways: `val/loss`, `train_loss`, `Loss/train`, `validation_0-logloss`.
    """
    ranked = [rank for name in names if (rank := _rank(name)) is not None]
    return min(ranked)[-1] if ranked else None


def is_of_child(name: str, labels: Collection[str]) -> bool:
    """Return whether a metric is one of a further run in the job, whose metrics begin with its label."""
    head, slash, _ = name.partition("/")
    return slash != "" and head in labels


def headline_of(
    steps: Mapping[str, int], compared: str | None, child_runs: Collection[str] = ()
) -> str | None:
    """Return the metric that stands for a trial wherever one value is shown of it; None if there is
    none.

    steps: name → step of the newest value. compared: the metric that its search compares by, which
    is always the one once it was reported. child_runs: what the metrics of its further runs begin
    with. Otherwise it is the first by `headline_name` of the
    losses and errors that still move: those reported in the second half of the steps so far.
    Whatever is reported at regular intervals from the start is among them, however long these are;
    what a script printed once at its beginning is not. Those of further runs in the same job, such as
    `run-2/loss` and `fold-0/val/loss`, stand for a trial only if it has none of its own, and then the
    run of the highest number does.
    """
    if compared in steps:
        return compared
    losses = {name: step for name, step in steps.items() if _rank(name) is not None}
    own = {
        name: step
        for name, step in losses.items()
        if _number_of_run(name) < 0 and not is_of_child(name, child_runs)
    }
    losses = own or losses
    newest = max(losses.values(), default=0)
    moving = [name for name, step in losses.items() if 2 * step >= newest]
    last = max(map(_number_of_run, moving), default=-1)
    return headline_name(name for name in moving if _number_of_run(name) == last)


def bucket_width(first_step: int, last_step: int, max_buckets: int) -> int:
    """Return the least power of two of which at most `max_buckets` anchored buckets cover the
    steps.

    Buckets are [k*width, (k+1)*width). Because borders are multiples of a power of two of the
    step, a wider bucket is a union of narrower ones, and appending changes only the last bucket.
    """
    if max_buckets < 1:
        raise ValueError(f"max_buckets must be at least 1, not {max_buckets}")
    span = last_step - first_step + 1
    # Start one below the answer for an aligned window; at most two doublings follow.
    width = 1 << max(0, (max(1, span // max_buckets)).bit_length() - 2)
    while last_step // width - first_step // width + 1 > max_buckets:
        width *= 2
    return width


def visible_limits(first_steps: Mapping[int, int]) -> dict[int, int | None]:
    """Return, by attempt number, the last step of a series that is visible of it; None means all.

    first_steps: by attempt number, the first step of this series in that attempt. Attempts that did
    not report the series are not in it and hide nothing of it. An attempt supersedes what earlier
    ones reported from its own first step on, wherever the server believes that it resumed: a script
    may resume from a file of its own. So the visible steps of the attempts never overlap, and those
    of a later attempt come after those of an earlier one.
    """
    limits: dict[int, int | None] = {}
    first: int | None = None
    for no in sorted(first_steps, reverse=True):
        limits[no] = None if first is None else first - 1
        first = first_steps[no] if first is None else min(first, first_steps[no])
    return limits


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A series in numbers. Values that are not finite are counted but are never min or max."""

    count: int
    num_non_finite: int
    first_step: int
    last_step: int
    last_time_ms: int
    last: float
    min: float | None
    max: float | None

    def merge(self, later: Summary) -> Summary:
        """Return both summaries together; `last` is that of the higher step, of `later` if they are
        equal."""
        newest = later if later.last_step >= self.last_step else self
        return Summary(
            count=self.count + later.count,
            num_non_finite=self.num_non_finite + later.num_non_finite,
            first_step=min(self.first_step, later.first_step),
            last_step=newest.last_step,
            last_time_ms=newest.last_time_ms,
            last=newest.last,
            min=_least([self.min, later.min]),
            max=_greatest([self.max, later.max]),
        )


def summarize(steps: Sequence[int], times_ms: Sequence[int], values: Sequence[float]) -> Summary:
    """Return the summary of at least one point, in the order they were reported."""
    finite = values if all(map(math.isfinite, values)) else [v for v in values if math.isfinite(v)]
    last_step = max(steps)
    # The last entry of the highest step, because the later value of a step counts.
    at = len(steps) - 1 if steps[-1] == last_step else _last_index(steps, last_step)
    return Summary(
        count=len(values),
        num_non_finite=len(values) - len(finite),
        first_step=min(steps),
        last_step=last_step,
        last_time_ms=times_ms[at],
        last=values[at],
        min=min(finite) if finite else None,
        max=max(finite) if finite else None,
    )


def epoch_at(step: int, *, record_step: int, record_epoch: float | None) -> float | None:
    """Return the epoch at `step`, when a record that ends at `record_step` says it is at
    `record_epoch`.

    One record may hold several short epochs; steps per epoch are taken as constant. Rounded to a
    millionth, so that whole epochs stay whole.
    """
    if record_epoch is None or step == record_step or record_step <= 0:
        return record_epoch
    return round(record_epoch * step / record_step, 6)


def _last_index(steps: Sequence[int], step: int) -> int:
    return len(steps) - 1 - list(reversed(steps)).index(step)


def _least(values: Sequence[float | None]) -> float | None:
    return min((v for v in values if v is not None), default=None)


def _greatest(values: Sequence[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)
