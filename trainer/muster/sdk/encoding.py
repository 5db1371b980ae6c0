"""Content of media from what scripts have: arrays, tensors, pictures and figures.

numpy and Pillow are used if the script has them. Everything here raises ValueError with the argument
in front, such as "image: …"; the functions of numpy, Pillow and matplotlib may raise what they like.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muster import media

VALUES_MAX = 1_000_000
"""Values of a histogram or of a precision-recall curve that are looked at; of more, an evenly spaced
sample is taken."""
GRID_MAX = 64
"""Most images of a batch that are put into one picture."""
FRAMES_MAX = 1_000
"""Most frames of a video that is given as an array."""
CURVE_POINTS = 201
"""Points of a precision-recall curve made from scores."""
_PNG = b"\x89PNG\r\n\x1a\n"


class Encoded(NamedTuple):
    """Content of an item."""

    content: bytes
    mime: str
    width: int = 0
    height: int = 0


Encode = Callable[[], Encoded]


class Snapshot(NamedTuple):
    """A value that the script may change from now on."""

    encode: Encode
    """Makes the content; called on another thread."""
    size_bytes: int
    """Memory that is held until then."""


# ---------------------------------------------------------------- taking values


def copied(value: Any, argument: str) -> tuple[Callable[[], Any], int]:
    """Return a function that returns `value` as a numpy array, as it is now, and the bytes that it
    holds. A tensor on an accelerator is copied there, and nobody waits for it here.

    Raises ValueError if it is no array of numbers, or numpy is not installed."""
    if hasattr(value, "detach"):
        copy = value.detach().clone()
        event = None
        if getattr(copy, "is_cuda", False):
            # The thread's stream knows nothing of the one this copy is made on.
            event = sys.modules["torch"].cuda.Event()
            event.record()
        size = int(copy.numel()) * int(copy.element_size())

        def array() -> Any:
            if event is not None:
                event.synchronize()
            found = copy.cpu()
            if str(found.dtype) in ("torch.bfloat16", "torch.float16"):
                found = found.float()
            return found.numpy()

        _numpy(argument)
        return array, size
    numpy = _numpy(argument)
    try:
        found = numpy.array(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument}: not an array of numbers: {error}") from None
    if found.dtype.kind not in "buif":
        raise ValueError(f"{argument}: {_what(value)} is not an array of numbers")
    return (lambda: found), int(found.nbytes)


def _sampled(value: Any, argument: str) -> tuple[Callable[[], Any], int, int]:
    """Return at most about VALUES_MAX values as `copied` does, and how many there are."""
    if hasattr(value, "detach"):
        value = value.detach().reshape(-1)
        total = int(value.numel())
    else:
        value = _numpy(argument).asarray(value).reshape(-1)
        total = int(value.size)
    array, size = copied(value[:: -(-total // VALUES_MAX) or 1], argument)
    return array, size, total


def _numpy(argument: str) -> Any:
    try:
        import numpy
    except ImportError:
        raise ValueError(f"{argument}: numpy is needed for arrays, and is not installed") from None
    return numpy


def _what(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# ---------------------------------------------------------------- files


def from_file(value: Any, kind: str, argument: str) -> Snapshot | None:
    """Return the content of a file, given as bytes or as a path; None for anything else. Raises
    ValueError for a file that the kind cannot have."""
    if isinstance(value, bytes | bytearray | memoryview):
        content = bytes(value)
        encoded = _recognized(content, kind, argument)
        return Snapshot(lambda: encoded, len(content))
    if not isinstance(value, str | Path):
        return None
    path = Path(value)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ValueError(f"{argument}: {path} cannot be read: {error.strerror}") from None
    if size > media.ITEM_MAX_BYTES:
        raise ValueError(
            f"{argument}: {path} has {size:,} bytes; {media.ITEM_MAX_BYTES:,} are kept at most"
        )
    encoded = _recognized(path.read_bytes(), kind, argument)
    return Snapshot(lambda: encoded, size)


def _recognized(content: bytes, kind: str, argument: str) -> Encoded:
    mime = mime_of(content)
    if not mime or media.why_unfit(kind, mime):
        known = ", ".join(media.EXTENSIONS[m].lstrip(".").upper() for m in media.KINDS[kind])
        raise ValueError(f"{argument}: these bytes are no {kind} file that is shown: {known}")
    width, height = struct.unpack(">II", content[16:24]) if content.startswith(_PNG) else (0, 0)
    return Encoded(content, mime, width, height)


def mime_of(content: bytes) -> str:
    """Return the media type that the first bytes of a file tell; "" for one that is not shown."""
    head = content[:64]
    if head.startswith(_PNG):
        return "image/apng" if b"acTL" in content[:256] else "image/png"
    for start, mime in (
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"ID3", "audio/mpeg"),
        (b"\xff\xfb", "audio/mpeg"),
        (b"\x1aE\xdf\xa3", "video/webm"),
    ):
        if head.startswith(start):
            return mime
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    if head[4:8] == b"ftyp":
        return "video/mp4"
    start_of_text = content[:1024].lstrip()
    if start_of_text.startswith((b"<svg", b"<?xml")) and b"<svg" in content[:1024]:
        return "image/svg+xml"
    return ""


# ---------------------------------------------------------------- images


def image(value: Any, kind: str = "image", argument: str = "image") -> Snapshot:
    """Take an image: bytes or the path of a file, a picture of Pillow, or an array or tensor of
    shape (H, W), (H, W, C), (C, H, W), or of a batch of those, which becomes one picture."""
    if (found := from_file(value, kind, argument)) is not None:
        return found
    if hasattr(value, "save") and hasattr(value, "mode"):
        picture = value.copy()
        width, height = picture.size
        _check_sides(width, height, argument)

        def encode() -> Encoded:
            file = io.BytesIO()
            if picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
                picture.convert("RGB").save(file, "PNG")
            else:
                picture.save(file, "PNG")
            return Encoded(file.getvalue(), "image/png", width, height)

        return Snapshot(encode, width * height * 4)
    _check_shape(value, (2, 3, 4), argument)
    array, size = copied(value, argument)
    is_tensor = hasattr(value, "detach")

    def encode_array() -> Encoded:
        pixels = _pixels(array(), argument, channels_first=is_tensor)
        if pixels.ndim == 4:
            pixels = _grid(pixels)
        height, width = pixels.shape[:2]
        return Encoded(png(pixels), "image/png", width, height)

    return Snapshot(encode_array, size)


def _check_shape(value: Any, dimensions: Sequence[int], argument: str) -> None:
    shape = getattr(value, "shape", None)
    if shape is None:
        return
    if len(shape) not in dimensions or 0 in shape:
        raise ValueError(
            f"{argument}: shape {tuple(shape)} is not one of an image or a batch of them"
        )


def _check_sides(width: int, height: int, argument: str) -> None:
    if not 0 < max(width, height) <= media.SIDE_MAX_PIXELS:
        raise ValueError(
            f"{argument}: {width} × {height} pixels; a side has at most {media.SIDE_MAX_PIXELS:,}"
        )


def _pixels(array: Any, argument: str, *, channels_first: bool) -> Any:
    """Return uint8 pixels of shape (H, W, C) or (N, H, W, C) with 1, 3 or 4 channels.

    Floats are taken to lie between 0 and 1 and are cut there; NaN becomes 0.
    channels_first: whether (C, H, W) is meant where both orders are possible."""
    numpy = _numpy(argument)
    if array.ndim not in (2, 3, 4):
        raise ValueError(f"{argument}: shape {array.shape} is not one of an image")
    if array.ndim == 2:
        array = array[:, :, None]
    first, last = array.shape[-3] in (1, 3, 4), array.shape[-1] in (1, 3, 4)
    if not (first or last):
        raise ValueError(f"{argument}: shape {array.shape} has no dimension of 1, 3 or 4 channels")
    if first and (channels_first or not last):
        array = numpy.moveaxis(array, -3, -1)
    _check_sides(array.shape[-2], array.shape[-3], argument)
    if array.dtype == bool:
        array = array.astype(numpy.uint8) * 255
    elif array.dtype.kind == "f":
        array = numpy.clip(numpy.nan_to_num(array.astype(numpy.float32)), 0, 1) * 255
        array = numpy.rint(array).astype(numpy.uint8)
    elif array.dtype != numpy.uint8:
        array = numpy.clip(array, 0, 255).astype(numpy.uint8)
    return array


def _grid(batch: Any) -> Any:
    """Put the first GRID_MAX images of a batch beside each other, one pixel apart."""
    numpy = _numpy("image")
    batch = batch[:GRID_MAX]
    num, height, width, channels = batch.shape
    columns = math.ceil(math.sqrt(num))
    rows = -(-num // columns)
    canvas = numpy.zeros(
        (rows * (height + 1) - 1, columns * (width + 1) - 1, channels), dtype=numpy.uint8
    )
    for no in range(num):
        top, left = no // columns * (height + 1), no % columns * (width + 1)
        canvas[top : top + height, left : left + width] = batch[no]
    _check_sides(canvas.shape[1], canvas.shape[0], "image")
    return canvas


def png(pixels: Any) -> bytes:
    """Return a PNG of uint8 pixels of shape (H, W, C)."""
    return b"".join(
        (_PNG, *_head(pixels), _chunk(b"IDAT", _scanlines(pixels)), _chunk(b"IEND", b""))
    )


def apng(frames: Any, fps: float) -> bytes:
    """Return an animated PNG of uint8 frames of shape (N, H, W, C), which repeats for ever."""
    num, height, width = frames.shape[:3]
    parts = [_PNG, *_head(frames[0]), _chunk(b"acTL", struct.pack(">II", num, 0))]
    number = 0
    for no in range(num):
        delay = struct.pack(">HH", round(1000 / fps), 1000)
        control = struct.pack(">IIIII", number, width, height, 0, 0) + delay + b"\0\0"
        parts.append(_chunk(b"fcTL", control))
        number += 1
        data = _scanlines(frames[no])
        if no == 0:
            parts.append(_chunk(b"IDAT", data))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return b"".join((*parts, _chunk(b"IEND", b"")))


def _head(pixels: Any) -> Iterable[bytes]:
    height, width, channels = pixels.shape
    color = {1: 0, 3: 2, 4: 6}[channels]
    yield _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0))


def _scanlines(pixels: Any) -> bytes:
    """Return the compressed rows, each as its difference to the one above, which suits pictures."""
    numpy = _numpy("image")
    height, width, channels = pixels.shape
    rows = numpy.ascontiguousarray(pixels).reshape(height, width * channels)
    lines = numpy.empty((height, width * channels + 1), dtype=numpy.uint8)
    lines[:, 0] = 2
    lines[0, 1:] = rows[0]
    lines[1:, 1:] = rows[1:] - rows[:-1]
    return zlib.compress(lines.tobytes(), 6)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# ---------------------------------------------------------------- sound and moving pictures


def audio(value: Any, sample_rate: int | None) -> Snapshot:
    """Take a sound: bytes or the path of a file, or samples of shape (frames,), (frames, channels) or
    (channels, frames). Floats are taken to lie between -1 and 1, and become 16 bits."""
    if (found := from_file(value, "audio", "audio")) is not None:
        return found
    if sample_rate is None or not 1 <= int(sample_rate) <= 768_000:
        raise ValueError(
            f"sample_rate: {sample_rate!r}; an array needs 1 to 768,000 samples per second"
        )
    rate = int(sample_rate)
    array, size = copied(value, "audio")

    def encode() -> Encoded:
        return Encoded(_wav(array(), rate), "audio/wav")

    return Snapshot(encode, size)


def _wav(samples: Any, rate: int) -> bytes:
    import wave

    numpy = _numpy("audio")
    if samples.ndim == 1:
        samples = samples[:, None]
    if samples.ndim != 2 or samples.size == 0:
        raise ValueError(f"audio: shape {samples.shape} is not one of a sound")
    if samples.shape[0] <= 16 < samples.shape[1]:
        samples = samples.T
    if samples.shape[1] > 16:
        raise ValueError(f"audio: shape {samples.shape} has more than 16 channels")
    if samples.dtype.kind == "f":
        samples = numpy.clip(numpy.nan_to_num(samples), -1, 1) * 32767
    samples = numpy.clip(samples, -32768, 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(samples.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples.tobytes())
    return file.getvalue()


def video(value: Any, fps: float) -> Snapshot:
    """Take a video: bytes or the path of an MP4, WebM or GIF file, or frames of shape (T, H, W, C) or
    (T, C, H, W), which become an animated PNG."""
    if (found := from_file(value, "video", "video")) is not None:
        return found
    if not 0.1 <= fps <= 120:
        raise ValueError(f"fps: {fps!r}; a video has 0.1 to 120 frames per second")
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) != 4 or 0 in shape or shape[0] > FRAMES_MAX:
        raise ValueError(
            f"video: {_what(value)} of shape {None if shape is None else tuple(shape)} is not frames "
            f"of shape (T, H, W, C) or (T, C, H, W) with at most {FRAMES_MAX:,} frames"
        )
    array, size = copied(value, "video")
    is_tensor = hasattr(value, "detach")

    def encode() -> Encoded:
        frames = _pixels(array(), "video", channels_first=is_tensor)
        return Encoded(apng(frames, fps), "image/apng", frames.shape[2], frames.shape[1])

    return Snapshot(encode, size)


# ---------------------------------------------------------------- figures


def figure(value: Any) -> Snapshot:
    """Take a figure of matplotlib, which is drawn here because matplotlib is not made for threads;
    one of plotly; or what `image` takes."""
    if hasattr(value, "gcf"):  # matplotlib.pyplot itself
        value = value.gcf()
    if hasattr(value, "get_figure") and not hasattr(value, "savefig"):  # axes
        value = value.get_figure()
    if hasattr(value, "savefig"):
        file = io.BytesIO()
        value.savefig(file, format="png", bbox_inches="tight")
        content = file.getvalue()
        width, height = struct.unpack(">II", content[16:24])
        return Snapshot(lambda: Encoded(content, "image/png", width, height), len(content))
    if hasattr(value, "to_plotly_json"):
        content = value.to_json().encode()
        return Snapshot(lambda: Encoded(content, media.PLOTLY), len(content))
    return image(value, "figure", "figure")


# ---------------------------------------------------------------- numbers


def histogram(values: Any, bins: int) -> Snapshot:
    """Take the distribution of the values of an array, a tensor or a sequence."""
    if not 1 <= bins <= 512:
        raise ValueError(f"bins: {bins}; a histogram has 1 to 512 bins")
    array, size, total = _sampled(values, "values")
    if total == 0:
        raise ValueError("values: there are none")

    def encode() -> Encoded:
        numpy = _numpy("values")
        found = array()
        finite = found[numpy.isfinite(found)] if found.dtype.kind == "f" else found
        if finite.size == 0:
            raise ValueError("values: none of them is finite")
        counts, edges = numpy.histogram(finite.astype(numpy.float64), bins=bins)
        content = media.histogram_content(
            counts.tolist(),
            edges.tolist(),
            num_values=total if total > found.size else None,
            num_non_finite=int(found.size - finite.size),
        )
        return Encoded(content, "application/json")

    return Snapshot(encode, size)


def counted_histogram(counts: Any, edges: Any) -> Snapshot:
    """Take a histogram that has been counted already."""
    content = media.histogram_content(_floats(counts, "counts"), _floats(edges, "edges"))
    return Snapshot(lambda: Encoded(content, "application/json"), len(content))


def text(value: Any, *, is_markdown: bool) -> Snapshot:
    if not isinstance(value, str):
        raise ValueError(f"text: {_what(value)} is not text")
    content = value.encode("utf-8", "replace")
    mime = "text/markdown" if is_markdown else "text/plain"
    return Snapshot(lambda: Encoded(content, mime), len(content))


def table(data: Any, columns: Sequence[Any] | None) -> Snapshot:
    """Take the first rows of a data frame of pandas or polars, of a sequence of dicts, or of rows with
    the names of their columns."""
    total = len(data)
    rows: list[Any]
    if hasattr(data, "itertuples"):  # pandas
        names = list(data.columns)
        rows = list(data.head(media.ROWS_MAX).itertuples(index=False, name=None))
    elif hasattr(data, "iter_rows"):  # polars
        names, rows = list(data.columns), list(data.head(media.ROWS_MAX).iter_rows())
    else:
        rows = list(data[: media.ROWS_MAX])
        if columns is None and rows and all(isinstance(row, dict) for row in rows):
            names = list(dict.fromkeys(name for row in rows for name in row))
            rows = [[row.get(name) for name in names] for row in rows]
        elif columns is None:
            raise ValueError("columns: rows need the names of their columns")
        else:
            names, rows = list(columns), [list(row) for row in rows]

    def encode() -> Encoded:
        return Encoded(media.table_content(names, rows, num_rows=total), "application/json")

    return Snapshot(encode, 64 * len(names) * len(rows))


def pr_curve(labels: Any, scores: Any) -> Snapshot:
    """Take a precision-recall curve.

    labels: 1 or True for positive samples, 0 or False for others.
    scores: of the same samples; the higher, the more likely positive."""
    truth, size, num = _sampled(labels, "labels")
    score, more, num_scores = _sampled(scores, "scores")
    if num != num_scores:
        raise ValueError(f"scores: {num_scores} values for {num} labels")

    def encode() -> Encoded:
        return Encoded(_curve(truth(), score()), "application/json")

    return Snapshot(encode, size + more)


def _curve(labels: Any, scores: Any) -> bytes:
    numpy = _numpy("labels")
    if not numpy.isin(labels, (0, 1)).all():
        raise ValueError("labels: every label must be 0 or 1")
    if not numpy.isfinite(scores).all():
        raise ValueError("scores: every score must be finite")
    order = numpy.argsort(-scores, kind="stable")
    ordered, hits = scores[order], numpy.cumsum(labels[order])
    # A threshold takes in all samples of its score, so only the last of equal ones is a point.
    last = numpy.append(numpy.nonzero(numpy.diff(ordered))[0], ordered.size - 1)
    if hits[-1] == 0:
        raise ValueError("labels: there is no positive sample, so recall is undefined")
    recall, precision = hits[last] / hits[-1], hits[last] / (last + 1)
    if last.size > CURVE_POINTS:
        along = recall.tolist()
        kept = {bisect.bisect_left(along, no / (CURVE_POINTS - 1)) for no in range(CURVE_POINTS)}
        chosen = sorted({0, last.size - 1} | {at for at in kept if at < last.size})
        recall, precision, last = recall[chosen], precision[chosen], last[chosen]
    return media.pr_curve_content(precision.tolist(), recall.tolist(), ordered[last].tolist())


def confusion_matrix(counts: Any, classes: Sequence[Any]) -> Snapshot:
    """Take a confusion matrix: [true class][predicted class] → number of samples."""
    rows = counts.tolist() if hasattr(counts, "tolist") else [list(row) for row in counts]
    names = list(classes) if len(classes) else list(range(len(rows)))
    content = media.confusion_matrix_content(names, rows)
    return Snapshot(lambda: Encoded(content, "application/json"), len(content))


def _floats(values: Any, argument: str) -> list[float]:
    with contextlib.suppress(TypeError, ValueError):
        return [
            float(value) for value in (values.tolist() if hasattr(values, "tolist") else values)
        ]
    raise ValueError(f"{argument}: {_what(values)} is not a list of numbers")
