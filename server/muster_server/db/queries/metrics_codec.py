"""Points as bytes and as arrays: batch bodies (L0), blocks with roll-ups (L1), buckets.

All columns are little-endian; every body starts with a codec byte, so that another codec can come
later beside the stored ones.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster_server.domain.metrics import (
    BLOCK_POINTS,
    ROLLUP_BUCKETS,
    SPAN_BUCKETS,
    bucket_width,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ENTRY = np.dtype(
    [
        ("step", "<i8"),
        ("time_ms", "<i8"),
        ("min", "<f8"),
        ("max", "<f8"),
        ("sum", "<f8"),
        ("last", "<f8"),
        ("count", "<u4"),
        ("num_finite", "<u4"),
    ]
)
"""One point or one bucket. step, time_ms, last: of its last point. min and max are NaN, and sum is
over nothing, when no value in it is finite."""

Entries = NDArray[np.void]

_BATCH = struct.Struct("<BI")
_BLOCK = struct.Struct("<BI")
_ROLLUP = struct.Struct("<BxxxxxxxQ")
_CODEC_RAW = 1
_CODEC_SHUFFLE_ZLIB = 1
_CODEC_DOWNSAMPLED = 2
"""Codec of a block that holds only the points that `downsample` has kept."""
_CODEC_COLD = 3
_CODEC_COLD_DOWNSAMPLED = 4
"""Codecs of blocks whose points are in a file of cold metrics."""
COLD_CODECS = (bytes([_CODEC_COLD]), bytes([_CODEC_COLD_DOWNSAMPLED]))
_COLD = struct.Struct("<BIQQ")


@dataclass(frozen=True)
class Points:
    """Columns of equal length."""

    steps: Ints
    times_ms: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def between(self, first_step: int, last_step: int) -> Points:
        """Return the points of the steps from..to, both included."""
        keep = (self.steps >= first_step) & (self.steps <= last_step)
        return self if keep.all() else self.only(keep)

    def only(self, keep: NDArray[np.bool_]) -> Points:
        """Return the points at which `keep` is true."""
        return Points(self.steps[keep], self.times_ms[keep], self.values[keep])


def concat(parts: Sequence[Points]) -> Points:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Points(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    return Points(
        np.concatenate([p.steps for p in parts]),
        np.concatenate([p.times_ms for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def in_order(points: Points) -> Points:
    """Sorted by step; of several points of one step the last written wins."""
    if len(points) < 2 or bool((np.diff(points.steps) > 0).all()):
        return points
    order = np.argsort(points.steps, kind="stable")
    steps = points.steps[order]
    keep = np.append(steps[1:] != steps[:-1], True)
    order = order[keep]
    return Points(points.steps[order], points.times_ms[order], points.values[order])


# ---------------------------------------------------------------- L0: the body of one record


def encode_batch(
    series: Sequence[tuple[str, int]], steps: Ints, times: Ints, values: Floats
) -> bytes:
    """`series`: (name, number of points), in the order in which the columns hold their points."""
    header = json.dumps(series, separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join(
        (
            _BATCH.pack(_CODEC_RAW, len(header)),
            header,
            steps.tobytes(),
            times.tobytes(),
            values.tobytes(),
        )
    )


def decode_batch(body: bytes, names: Collection[str] | None = None) -> dict[str, Points]:
    """Return the points by name, in the order they were reported. `names`: only those (None:
    all)."""
    codec, header_bytes = _BATCH.unpack_from(body)
    if codec != _CODEC_RAW:
        raise ValueError(f"unknown batch codec {codec}")
    start = _BATCH.size + header_bytes
    header: list[tuple[str, int]] = json.loads(body[_BATCH.size : start])
    total = sum(n for _, n in header)
    found: dict[str, Points] = {}
    at = 0
    for name, n in header:
        if names is None or name in names:
            points = Points(
                np.frombuffer(body, "<i8", n, start + 8 * at),
                np.frombuffer(body, "<i8", n, start + 8 * (total + at)),
                np.frombuffer(body, "<f8", n, start + 8 * (2 * total + at)),
            )
            found[name] = concat([found[name], points]) if name in found else points
        at += n
    return found


# ---------------------------------------------------------------- L1: blocks


def encode_block(points: Points, *, is_downsampled: bool = False) -> bytes:
    """Delta steps, delta times and values, each byte-shuffled, together under zlib level 1.

    About 5 bytes per point for typical curves. Values keep their bits, NaN payloads included.
    is_downsampled: they are not all points of the block, which its roll-up tells of.
    """
    codec = _CODEC_DOWNSAMPLED if is_downsampled else _CODEC_SHUFFLE_ZLIB
    n = len(points)
    columns = b"".join(
        np.ascontiguousarray(column).view(np.uint8).reshape(n, 8).T.tobytes()
        for column in (_delta(points.steps), _delta(points.times_ms), points.values.astype("<f8"))
    )
    return _BLOCK.pack(codec, n) + zlib.compress(columns, 1)


def is_downsampled(data: bytes) -> bool:
    """Return whether an encoded block has lost points to retention."""
    return data[0] in (_CODEC_DOWNSAMPLED, _CODEC_COLD_DOWNSAMPLED)


class ColdPlace(NamedTuple):
    """Where the points of a cold block are."""

    file_id: int
    first_row: int
    """Row of the file, counted from 0."""
    num_rows: int


def encode_cold(place: ColdPlace, *, is_downsampled: bool) -> bytes:
    """Return the data of a block whose points are in a file."""
    codec = _CODEC_COLD_DOWNSAMPLED if is_downsampled else _CODEC_COLD
    return _COLD.pack(codec, place.num_rows, place.file_id, place.first_row)


def cold_place(data: bytes) -> ColdPlace | None:
    """Return where the points of a block are; None if `data` has them."""
    if data[0] not in (_CODEC_COLD, _CODEC_COLD_DOWNSAMPLED):
        return None
    _, num_rows, file_id, first_row = _COLD.unpack(data)
    return ColdPlace(file_id, first_row, num_rows)


def downsample(points: Points, width: int, cut_after: int | None = None) -> Points:
    """Return the points of ordered ones that show what the curve did, for each anchored bucket of
    `width` steps: the first and the last, the first with the least and with the greatest finite
    value, and the first that is not finite. At most five a bucket, so never more than there were.

    cut_after: a step at which one more bucket ends, because what follows it is not visible."""
    if len(points) == 0:
        return points
    keys = 2 * (points.steps // width) + (
        points.steps > (cut_after if cut_after is not None else -1)
    )
    starts = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1))
    ends = np.append(starts[1:], len(points))
    finite = np.isfinite(points.values)
    keep = np.zeros(len(points), np.bool_)
    keep[starts] = keep[ends - 1] = True
    bucket = np.repeat(np.arange(len(starts)), ends - starts)
    low = np.minimum.reduceat(np.where(finite, points.values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, points.values, -np.inf), starts)
    for wanted in (
        finite & (points.values == low[bucket]),
        finite & (points.values == high[bucket]),
        ~finite,
    ):
        at = np.flatnonzero(wanted)
        _, firsts = np.unique(bucket[at], return_index=True)
        keep[at[firsts]] = True
    return points.only(keep)


def decode_block(data: bytes) -> Points:
    """Return all points of a block, or those that retention has kept: `is_downsampled` tells
    which."""
    codec, n = _BLOCK.unpack_from(data)
    if codec not in (_CODEC_SHUFFLE_ZLIB, _CODEC_DOWNSAMPLED):
        raise ValueError(f"unknown block codec {codec}")
    raw = np.frombuffer(zlib.decompress(memoryview(data)[_BLOCK.size :]), np.uint8)
    columns = np.ascontiguousarray(raw.reshape(3, 8, n).transpose(0, 2, 1))
    ints = columns[:2].view("<i8").reshape(2, n)
    return Points(np.cumsum(ints[0]), np.cumsum(ints[1]), columns[2].view("<f8").reshape(n))


def encode_rollup(points: Points) -> bytes:
    """Anchored buckets of an ordered, non-empty block: enough to draw it without its points."""
    width = bucket_width(int(points.steps[0]), int(points.steps[-1]), ROLLUP_BUCKETS)
    return _rollup(as_entries(points), width)


def add_to_rollup(rollup: bytes, points: Points) -> bytes:
    """Return the roll-up with ordered points added. A step that it holds already counts twice: what
    it was of is not there any more."""
    old = decode_rollups([rollup])
    entries = np.concatenate([old, as_entries(points)])
    entries = entries[np.argsort(entries["step"], kind="stable")]
    first, last = int(entries["step"][0]), int(entries["step"][-1])
    return _rollup(entries, max(rollup_width(rollup), bucket_width(first, last, ROLLUP_BUCKETS)))


def merge_rollups(rollups: Sequence[bytes], first_step: int, last_step: int) -> bytes:
    """Return the roll-up of a span, from those of its blocks in step order.

    The span's buckets are at least as wide as every block's: a bucket cannot be taken apart.
    """
    width = bucket_width(first_step, last_step, SPAN_BUCKETS)
    return _rollup(decode_rollups(rollups), max(width, *map(rollup_width, rollups)))


def _rollup(entries: Entries, width: int) -> bytes:
    return _ROLLUP.pack(_CODEC_RAW, width) + bucketed(entries, width).tobytes()


def rollup_width(rollup: bytes) -> int:
    """Step width of its buckets: a coarser picture can be made from it, a finer one cannot."""
    codec, width = _ROLLUP.unpack_from(rollup)
    if codec != _CODEC_RAW:
        raise ValueError(f"unknown roll-up codec {codec}")
    return int(width)


def decode_rollups(rollups: Iterable[bytes]) -> Entries:
    """Return the buckets of several blocks, one after the other."""
    return np.frombuffer(b"".join(r[_ROLLUP.size :] for r in rollups), ENTRY)


def split_blocks(points: Points) -> list[Points]:
    return [
        Points(
            points.steps[at : at + BLOCK_POINTS],
            points.times_ms[at : at + BLOCK_POINTS],
            points.values[at : at + BLOCK_POINTS],
        )
        for at in range(0, len(points), BLOCK_POINTS)
    ]


def split_evenly(points: Points) -> list[Points]:
    """Blocks that are about equally full: at least half of BLOCK_POINTS when there are more."""
    num = -(-len(points) // BLOCK_POINTS)
    borders = [len(points) * i // num for i in range(num + 1)]
    return [
        Points(points.steps[a:b], points.times_ms[a:b], points.values[a:b])
        for a, b in pairwise(borders)
    ]


# ---------------------------------------------------------------- buckets


def as_entries(points: Points) -> Entries:
    entries = np.empty(len(points), ENTRY)
    finite = np.isfinite(points.values)
    entries["step"] = points.steps
    entries["time_ms"] = points.times_ms
    entries["min"] = entries["max"] = np.where(finite, points.values, np.nan)
    entries["sum"] = np.where(finite, points.values, 0.0)
    entries["last"] = points.values
    entries["count"] = 1
    entries["num_finite"] = finite
    return entries


def bucketed(entries: Entries, width: int) -> Entries:
    """Entries in step order, none wider than `width`, put together into anchored buckets of it."""
    if len(entries) == 0:
        return entries
    keys = entries["step"] // width
    starts = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1))
    ends = np.append(starts[1:], len(entries)) - 1
    result: Entries = entries[ends]
    # fmin and fmax pass over NaN, which stands for "nothing finite here".
    result["min"] = np.fmin.reduceat(entries["min"], starts)
    result["max"] = np.fmax.reduceat(entries["max"], starts)
    with np.errstate(over="ignore", invalid="ignore"):
        result["sum"] = np.add.reduceat(entries["sum"], starts)
    result["count"] = np.add.reduceat(entries["count"], starts)
    result["num_finite"] = np.add.reduceat(entries["num_finite"], starts)
    return result


def means(entries: Entries) -> Floats:
    """Mean of the finite values of each bucket, NaN where there are none; within [min, max]."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = entries["sum"] / entries["num_finite"]
        # Rounding, or a sum beyond the range of float64, must not leave the envelope.
        clipped: Floats = np.fmin(np.fmax(mean, entries["min"]), entries["max"])
        return clipped


def _delta(column: Ints) -> Ints:
    return np.diff(column.astype("<i8"), prepend=np.int64(0))
