"""Images, histograms, text, hyperparameters, curves and sound of event files, as plain data."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from muster_agent.event_files.events import (
    BadEvent,
    EventValue,
    data_of,
    fields,
    read_tensor,
    signed,
    text,
    view_of,
)

BINS_MAX = 512
"""Most bins of a histogram; of more, neighbours are added up."""
IMAGES_MAX = 16
"""Most images of one value."""
TEXT_SUFFIX = "/text_summary"
"""End that writers add to the tags of texts."""
HPARAMS = "_hparams_/session_start_info"
"""Tag under which a writer leaves the hyperparameters of a run."""
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


@dataclass
class EventMedia:
    """An item: bytes of a type, or numbers."""

    kind: Literal["image", "audio", "text", "histogram", "pr_curve", "table"]
    data: bytes = b""
    """Content of an image, sound (WAV) or text (UTF-8, Markdown)."""
    mime: str = ""
    width: int = 0
    height: int = 0
    """Size of an image in pixels; 0 if unknown."""
    counts: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    """Borders of a histogram's bins, ascending and finite, one more than there are counts."""
    precision: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    rows: list[tuple[str, str | float | bool]] = field(default_factory=list)
    """Names and values of a table."""


def media_of(value: EventValue, plugin: str) -> list[EventMedia]:
    """Return the items of a value; none for what is not known here, such as meshes. Raises
    BadEvent.

    plugin: that of the value's tag."""
    try:
        return _media_of(value, plugin)
    except (ValueError, IndexError, TypeError, struct.error, OverflowError) as error:
        raise BadEvent(str(error)) from None


def _media_of(value: EventValue, plugin: str) -> list[EventMedia]:
    if value.image is not None:
        return [_image(value.image)]
    if value.audio is not None:
        return [_sound(value.audio)]
    if value.histogram is not None:
        return [_histogram(value.histogram)]
    if plugin == "hparams" and value.tag == HPARAMS:
        return [EventMedia("table", rows=_hyperparameters(value.plugin_data))]
    if value.tensor is None:
        return []
    match plugin:
        case "images":
            width, height, *images = read_tensor(value.tensor).texts
            return [_image_of(data, int(width), int(height)) for data in images[:IMAGES_MAX]]
        case "audio":
            sounds = read_tensor(value.tensor).texts
            return [_sound_of(data) for data in sounds if data.startswith(b"RIFF")][:IMAGES_MAX]
        case "text":
            data = b"\n\n".join(read_tensor(value.tensor).texts)
            return [EventMedia("text", data.decode("utf-8", "replace").encode(), "text/markdown")]
        case "histograms":
            numbers = read_tensor(value.tensor).numbers
            rows = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
            if not rows:
                return []
            return [_bins([row[2] for row in rows], [rows[0][0], *(row[1] for row in rows)])]
        case "pr_curves":
            return _curve(read_tensor(value.tensor).numbers)
    return []


def _image(data: memoryview) -> EventMedia:
    encoded, sizes = b"", {1: 0, 2: 0}
    for number, value in fields(data):
        if number == 4:
            encoded = data_of(value)
        elif number in sizes:
            sizes[number] = signed(value)
    return _image_of(encoded, sizes[2], sizes[1])


def _image_of(data: bytes, width: int, height: int) -> EventMedia:
    for signature, mime in _SIGNATURES.items():
        if data.startswith(signature):
            return EventMedia("image", data, mime, width, height)
    raise ValueError("an image that is neither PNG, JPEG nor GIF")


def _sound(data: memoryview) -> EventMedia:
    return _sound_of(next((data_of(v) for number, v in fields(data) if number == 4), b""))


def _sound_of(data: bytes) -> EventMedia:
    if not data.startswith(b"RIFF"):
        raise ValueError("sound that is not WAV")
    return EventMedia("audio", data, "audio/wav")


def _histogram(data: memoryview) -> EventMedia:
    low = high = 0.0
    limits: list[float] = []
    counts: list[float] = []
    for number, value in fields(data):
        match number:
            case 1:
                (low,) = struct.unpack("<d", view_of(value))
            case 2:
                (high,) = struct.unpack("<d", view_of(value))
            case 6 | 7:
                found = view_of(value)
                numbers = struct.unpack(f"<{len(found) // 8}d", found)
                (limits if number == 6 else counts).extend(numbers)
    # The outermost limits are infinite or nearly so, and most bins beside the values are empty.
    edges = [min(max(edge, low), high) for edge in (low, *limits)]
    return _bins(counts, edges)


def _bins(counts: Sequence[float], edges: Sequence[float]) -> EventMedia:
    """Return a histogram without the empty bins at its ends, of at most BINS_MAX bins. Raises
    ValueError."""
    if len(edges) != len(counts) + 1 or not all(map(math.isfinite, [*counts, *edges])):
        raise ValueError("a histogram whose bins have no borders")
    filled = [no for no, count in enumerate(counts) if count]
    if not filled:
        raise ValueError("a histogram without values")
    counts = list(counts[filled[0] : filled[-1] + 1])
    edges = list(edges[filled[0] : filled[-1] + 2])
    while len(counts) > BINS_MAX:
        counts = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
        edges = [*edges[:-1:2], edges[-1]]
    return EventMedia("histogram", counts=counts, edges=edges)


def _curve(numbers: Sequence[float]) -> list[EventMedia]:
    """Return a curve from the rows of its tensor: true and false positives, true and false negatives,
    precision, recall. Thresholds are spread evenly from 0 to 1."""
    num = len(numbers) // 6
    if num < 2 or len(numbers) % 6:
        raise ValueError("a curve without six rows of equal length")
    return [
        EventMedia(
            "pr_curve",
            precision=list(numbers[4 * num : 5 * num]),
            recall=list(numbers[5 * num :]),
            thresholds=[no / (num - 1) for no in range(num)],
        )
    ]


def _hyperparameters(data: bytes) -> list[tuple[str, str | float | bool]]:
    found: list[tuple[str, str | float | bool]] = []
    for number, info in fields(memoryview(data)):
        if number != 3:  # Of the plugin's message, the one about a session's start.
            continue
        for inner, entry in fields(view_of(info)):
            if inner == 1:
                pair = dict(fields(view_of(entry)))
                found.append((text(pair[1]), _plain(view_of(pair[2]))))
    return sorted(found, key=lambda row: row[0])


def _plain(data: memoryview) -> str | float | bool:
    """Return a `google.protobuf.Value`."""
    for number, value in fields(data):
        match number:
            case 2:
                return float(struct.unpack("<d", view_of(value))[0])
            case 3:
                return text(value)
            case 4:
                return bool(value)
    return ""
