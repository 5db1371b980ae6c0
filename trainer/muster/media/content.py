"""Kinds of media, their types, and the JSON of those that are numbers rather than files."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

from muster.wire import encode_number

PLOTLY = "application/vnd.plotly.v1+json"
_JSON = "application/json"
_RASTER = ("image/png", "image/jpeg", "image/gif", "image/webp")

KINDS: dict[str, tuple[str, ...]] = {
    "image": (*_RASTER, "image/svg+xml"),
    "figure": (*_RASTER, "image/svg+xml", PLOTLY),
    "histogram": (_JSON,),
    "text": ("text/plain", "text/markdown"),
    "table": (_JSON,),
    "pr_curve": (_JSON,),
    "confusion_matrix": (_JSON,),
    "audio": ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"),
    "video": ("video/mp4", "video/webm", "image/gif", "image/apng"),
}
"""Kinds of media, each with the media types its content may have."""
EXTENSIONS: dict[str, str] = {
    "image/png": ".png",
    "image/apng": ".apng",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    _JSON: ".json",
    PLOTLY: ".json",
}
"""File name extension of each media type."""

BINS_MAX = 512
"""Most bins of a histogram."""
COLUMNS_MAX = 200
ROWS_MAX = 10_000
"""Most rows of a table that are kept; the content says how many there were."""
CELL_MAX_CHARS = 2_000
CURVE_POINTS_MAX = 2_000
CLASSES_MAX = 128


def why_unfit(kind: str, mime: str) -> str:
    """Return why a kind of media cannot have content of this type, as one clause; "" if it can."""
    if kind not in KINDS:
        return f"kind {kind!r} is none of {', '.join(KINDS)}"
    if mime not in KINDS[kind]:
        return f"{kind} cannot be {mime!r}: it can be {', '.join(KINDS[kind])}"
    return ""


def histogram_content(
    counts: Sequence[float],
    edges: Sequence[float],
    *,
    num_values: int | None = None,
    num_non_finite: int = 0,
) -> bytes:
    """Return the content of a histogram.

    counts: number of values in each bin, at most BINS_MAX, none negative.
    edges: borders of the bins, one more than there are bins, finite and ascending.
    num_values: number of values of which those in the bins are a sample; None if they are all.
    num_non_finite: number of values that are NaN or infinite, which are in no bin.
    Raises ValueError, naming the argument.
    """
    counts, edges = [float(n) for n in counts], [float(x) for x in edges]
    if not 0 < len(counts) <= BINS_MAX:
        raise ValueError(f"counts: {len(counts)} bins; a histogram has 1 to {BINS_MAX}")
    if len(edges) != len(counts) + 1:
        raise ValueError(f"edges: {len(edges)} borders; {len(counts)} bins have {len(counts) + 1}")
    if not all(math.isfinite(n) and n >= 0 for n in counts):
        raise ValueError("counts: every count must be a finite number of at least 0")
    if not all(math.isfinite(x) for x in edges) or any(
        low > high for low, high in itertools.pairwise(edges)
    ):
        raise ValueError("edges: the borders of the bins must be finite and ascending")
    content: dict[str, Any] = {"counts": [_short(n) for n in counts], "edges": edges}
    if num_values is not None:
        content["num_values"] = num_values
    if num_non_finite:
        content["num_non_finite"] = num_non_finite
    return _dumped(content)


def table_content(
    columns: Sequence[Any], rows: Sequence[Sequence[Any]], *, num_rows: int | None = None
) -> bytes:
    """Return the content of a table: the first ROWS_MAX rows, and how many there are.

    num_rows: number of rows of which `rows` are the first; None if they are all. A cell is a number, a truth value, None or text, of which the first CELL_MAX_CHARS characters are
    kept; anything else becomes its `str`. Raises ValueError, naming the argument.
    """
    names = [str(name)[:CELL_MAX_CHARS] for name in columns]
    if not 0 < len(names) <= COLUMNS_MAX:
        raise ValueError(f"columns: {len(names)} columns; a table has 1 to {COLUMNS_MAX}")
    kept = []
    for no, row in enumerate(rows[:ROWS_MAX]):
        if len(row) != len(names):
            raise ValueError(f"rows[{no}]: {len(row)} cells; the table has {len(names)} columns")
        kept.append([_cell(value) for value in row])
    return _dumped({"columns": names, "rows": kept, "num_rows": num_rows or len(rows)})


def pr_curve_content(
    precision: Sequence[float], recall: Sequence[float], thresholds: Sequence[float] = ()
) -> bytes:
    """Return the content of a precision-recall curve: points of one length, at most
    CURVE_POINTS_MAX, with values from 0 to 1. `thresholds` are the scores from which on a sample
    counted as positive; () if unknown. Raises ValueError, naming the argument."""
    points = {"precision": precision, "recall": recall}
    if not 0 < len(precision) <= CURVE_POINTS_MAX:
        raise ValueError(f"precision: {len(precision)} points; a curve has 1 to {CURVE_POINTS_MAX}")
    if len(recall) != len(precision):
        raise ValueError(f"recall: {len(recall)} points; precision has {len(precision)}")
    if len(thresholds) not in (0, len(precision), len(precision) - 1):
        raise ValueError(f"thresholds: {len(thresholds)} values for {len(precision)} points")
    for name, values in points.items():
        # NaN is what precision is where nothing was found.
        if not all(math.isnan(value) or -1e-6 <= value <= 1 + 1e-6 for value in map(float, values)):
            raise ValueError(f"{name}: every value must be between 0 and 1")
    return _dumped(
        {
            **{name: [encode_number(float(v)) for v in values] for name, values in points.items()},
            "thresholds": [encode_number(float(v)) for v in thresholds],
        }
    )


def confusion_matrix_content(classes: Sequence[Any], counts: Sequence[Sequence[int]]) -> bytes:
    """Return the content of a confusion matrix: [true class][predicted class] → number of samples, for
    at most CLASSES_MAX classes. Raises ValueError, naming the argument."""
    names = [str(name)[:128] for name in classes]
    if not 0 < len(names) <= CLASSES_MAX:
        raise ValueError(f"classes: {len(names)} classes; there are 1 to {CLASSES_MAX}")
    rows = [[int(n) for n in row] for row in counts]
    if len(rows) != len(names) or any(len(row) != len(names) for row in rows):
        raise ValueError(f"counts: must have {len(names)} rows and columns, one for each class")
    if any(n < 0 for row in rows for n in row):
        raise ValueError("counts: a number of samples cannot be negative")
    return _dumped({"classes": names, "counts": rows})


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    item = getattr(value, "item", None)
    if item is not None and not isinstance(value, str):  # numpy's and torch's scalars
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError):
            value = str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float):
        return encode_number(value)
    return str(value)[:CELL_MAX_CHARS]


def _short(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def _dumped(value: Any) -> bytes:
    # Half a surrogate pair has no place in UTF-8.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode("utf-8", "replace")
