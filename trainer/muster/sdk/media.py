"""Logging of media: a call takes a snapshot, and a thread makes the content and hands it over.

Training never waits: a queue of bounded length and size lies between, and what does not fit is counted
and reported. Content that is too large for a report is written into the folder of outputs first.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from muster import media, wire
from muster.media import DropReason
from muster.sdk import encoding
from muster.sdk.encoding import Snapshot
from muster.sdk.sinks import NullSink, Sink, warn
from muster.series_rules import clean_name

if TYPE_CHECKING:
    from muster.sdk.reporter import Reporter

QUEUED_MAX = 256
"""Items that wait for their content to be made."""
QUEUED_BYTES_MAX = 256 * 2**20
"""Memory of what waits."""
REPORTS_MAX = 200
"""Reports that wait for the shim when no further item is handed over."""
DROPS_INTERVAL_S = 2.0
WARNINGS_MAX = 20
FOLDER = "media"
"""Folder within the outputs."""


class _WaitingItem(NamedTuple):
    function: str
    kind: wire.MediaKind
    name: str
    step: int
    time_ms: int
    caption: str
    snapshot: Snapshot


class MediaQueue:
    """Items on their way to the sink. The thread starts with the first one."""

    def __init__(self, sink: Sink, *, rank: int, output_dir: str) -> None:
        """Create the queue; `output_dir` is the folder of outputs, "" for none."""
        self._sink = sink
        self._rank = rank
        self._folder = Path(output_dir) / FOLDER if output_dir else None
        self._budget = media.MediaBudget()
        self._condition = threading.Condition()
        # Below: guarded by the condition.
        self._waiting: deque[_WaitingItem] = deque()
        self._waiting_bytes = 0
        self._num_busy = 0
        self._is_closing = False
        self._dropped: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        # Below: the thread's own.
        self._num_reported = 0
        self._report_at = 0.0
        self._warned: set[str] = set()

    def put(
        self,
        kind: wire.MediaKind,
        name: str,
        step: Any,
        caption: str,
        take: Callable[[], Snapshot],
        *,
        function: str,
    ) -> None:
        """Take a snapshot and return; or count what does not fit. Never raises."""
        if isinstance(self._sink, NullSink):
            return
        with self._condition:
            is_full = len(self._waiting) >= QUEUED_MAX or self._waiting_bytes >= QUEUED_BYTES_MAX
        if is_full:
            self._drop("queue")
            return
        try:
            at_step = _checked_step(step)
            snapshot = take()
        except Exception as error:
            self._refuse(function, name, error)
            return
        item = _WaitingItem(
            function,
            kind,
            clean_name(name),
            at_step,
            time.time_ns() // 1_000_000,
            caption[: media.CAPTION_MAX_CHARS],
            snapshot,
        )
        with self._condition:
            self._waiting.append(item)
            self._waiting_bytes += snapshot.size_bytes
            self._start()
            self._condition.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all items are handed over to the sink. Return False on a timeout."""
        deadline = time.monotonic() + timeout_s
        with self._condition:
            while self._waiting or self._num_busy:
                left = deadline - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._condition.wait(min(left, 0.1))
        self._report_drops(is_due=True)
        return True

    def close(self) -> None:
        """End the thread. What still waits is counted as left out."""
        with self._condition:
            self._is_closing = True
            self._dropped["queue"] += len(self._waiting)
            self._waiting.clear()
            self._condition.notify_all()
        self._report_drops(is_due=True)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="muster-media", daemon=True)
            self._thread.start()

    def _drop(self, reason: DropReason) -> None:
        with self._condition:
            self._dropped[reason] += 1
            self._start()
            self._condition.notify_all()

    def _refuse(self, function: str, name: str, error: Exception) -> None:
        """Warn of bad input, once for each name, and count it."""
        with contextlib.suppress(Exception):
            key = f"{function}({name!r})"
            if key not in self._warned and len(self._warned) < WARNINGS_MAX:
                self._warned.add(key)
                said = str(error) if isinstance(error, ValueError) else repr(error)
                warn(f"{key}: {said[:500]} (reported once; the item is left out)")
        self._drop("invalid")

    # ------------------------------------------------ the thread's side

    def _loop(self) -> None:
        while True:
            with self._condition:
                if not self._waiting and not self._is_closing:
                    self._condition.wait(DROPS_INTERVAL_S)
                if self._is_closing:
                    return
                item = self._waiting.popleft() if self._waiting else None
                self._num_busy = int(item is not None)
            try:
                if item is not None:
                    self._hand_over(item)
                self._report_drops()
            except Exception as error:
                # The top of the thread: whatever it is, training goes on.
                self._refuse(item.function if item else "log", item.name if item else "", error)
            finally:
                with self._condition:
                    if item is not None:
                        self._waiting_bytes -= item.snapshot.size_bytes
                    self._num_busy = 0
                    self._condition.notify_all()
                del item

    def _hand_over(self, item: _WaitingItem) -> None:
        try:
            made = item.snapshot.encode()
        except Exception as error:
            self._refuse(item.function, item.name, error)
            return
        size = len(made.content)
        is_inline = self._budget.fits_inline(size)
        reason = self._budget.admit(size, now_s=time.monotonic())
        if reason is None and not is_inline and self._folder is None:
            reason = "disk"
        if reason is not None:
            self._drop(reason)
            return
        sha256 = hashlib.sha256(made.content).hexdigest()
        data = file = ""
        if is_inline:
            data = base64.b64encode(made.content).decode()
        else:
            try:
                file = self._write(made.content, sha256, media.EXTENSIONS[made.mime])
            except OSError as error:
                self._refuse_disk(item, error)
                return
        while self._sink.num_waiting >= REPORTS_MAX and not self._is_closing:
            time.sleep(0.05)
        self._sink.record(
            wire.MediaRecord(
                kind=item.kind,
                name=item.name,
                step=item.step,
                rank=self._rank,
                time_ms=item.time_ms,
                mime=made.mime,
                sha256=sha256,
                size_bytes=size,
                caption=item.caption,
                width=made.width,
                height=made.height,
                data=data,
                file=file,
            )
        )

    def _refuse_disk(self, item: _WaitingItem, error: OSError) -> None:
        if "disk" not in self._warned:
            self._warned.add("disk")
            warn(f"{item.function}({item.name!r}): the file cannot be written: {error}")
        self._drop("disk")

    def _write(self, content: bytes, sha256: str, extension: str) -> str:
        """Write a file that appears under its name when complete; return its path in the work folder.
        Raises OSError."""
        assert self._folder is not None
        name = sha256 + extension
        path = self._folder / name
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = self._folder / f".draft-{secrets.token_hex(6)}"
            try:
                draft.write_bytes(content)
                draft.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    draft.unlink()
                raise
        return f"{self._folder.parent.name}/{FOLDER}/{name}"

    def _report_drops(self, *, is_due: bool = False) -> None:
        with self._condition:
            dropped = dict(self._dropped)
            total = sum(dropped.values())
            if total == self._num_reported:
                return
            if not (is_due or time.monotonic() >= self._report_at):
                return
            self._num_reported = total
            self._report_at = time.monotonic() + DROPS_INTERVAL_S
        self._sink.record(wire.MediaDropsRecord(rank=self._rank, num=dropped))


class MediaMethods:
    """The methods of a Run that log media. None of them raises or waits; one warning names what is
    wrong with an argument."""

    reporter: Reporter

    def log_image(
        self, name: str, image: Any, *, step: int | None = None, caption: str = ""
    ) -> None:
        """Log an image.

        image: bytes or the path of a PNG, JPEG, GIF, WebP or SVG file; a picture of Pillow; or an
            array or tensor of shape (H, W), (H, W, C) or (C, H, W). Floats lie between 0 and 1,
            integers between 0 and 255. A batch, (N, H, W, C) or (N, C, H, W), becomes one picture
            of its first 64 images.
        step: optimizer step; without it, that of the last `log`. So for all these methods.
        """
        self._put("image", name, step, caption, lambda: encoding.image(image), "log_image")

    def log_figure(
        self, name: str, figure: Any, *, step: int | None = None, caption: str = ""
    ) -> None:
        """Log a figure of matplotlib or plotly, or any image.

        A figure of matplotlib is drawn before the call returns, because matplotlib is not
        thread-safe: that takes as long as its `savefig`. One of plotly is kept as JSON.
        """
        self._put("figure", name, step, caption, lambda: encoding.figure(figure), "log_figure")

    def log_histogram(
        self,
        name: str,
        values: Any = None,
        *,
        bins: int = 64,
        counts: Sequence[float] | None = None,
        edges: Sequence[float] | None = None,
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log the distribution of values: of an array or tensor, in `bins` equal bins; or `counts` of
        bins between `edges`, of which there is one more. Of more than a million values an evenly
        spaced sample is taken."""

        def take() -> Snapshot:
            if (values is None) == (counts is None):
                raise ValueError("values: give either values, or counts and edges")
            if values is not None:
                return encoding.histogram(values, bins)
            return encoding.counted_histogram(counts, edges)

        self._put("histogram", name, step, caption, take, "log_histogram")

    def log_text(
        self,
        name: str,
        text: str,
        *,
        markdown: bool = False,
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log text, such as a sample of what a model writes."""
        take = lambda: encoding.text(text, is_markdown=markdown)  # noqa: E731
        self._put("text", name, step, caption, take, "log_text")

    def log_table(
        self,
        name: str,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log a table: a data frame of pandas or polars, a list of dicts, or a list of rows with the
        names of their `columns`. The first 10,000 rows are kept, and the number of all."""
        self._put("table", name, step, caption, lambda: encoding.table(data, columns), "log_table")

    def log_audio(
        self,
        name: str,
        audio: Any,
        *,
        sample_rate: int | None = None,
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log a sound: bytes or the path of a WAV, MP3, OGG or FLAC file, or an array or tensor of
        samples with its `sample_rate` in Hz, floats between -1 and 1."""
        take = lambda: encoding.audio(audio, sample_rate)  # noqa: E731
        self._put("audio", name, step, caption, take, "log_audio")

    def log_video(
        self,
        name: str,
        video: Any,
        *,
        fps: float = 8.0,
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log a video: bytes or the path of an MP4, WebM or GIF file, or frames of shape (T, H, W, C)
        or (T, C, H, W), which become an animated PNG with `fps` frames per second."""
        self._put("video", name, step, caption, lambda: encoding.video(video, fps), "log_video")

    def log_pr_curve(
        self, name: str, labels: Any, scores: Any, *, step: int | None = None, caption: str = ""
    ) -> None:
        """Log a precision-recall curve.

        labels: 1 for each positive sample, 0 for each other.
        scores: score of each sample; the higher, the more likely positive.
        """
        take = lambda: encoding.pr_curve(labels, scores)  # noqa: E731
        self._put("pr_curve", name, step, caption, take, "log_pr_curve")

    def log_confusion_matrix(
        self,
        name: str,
        counts: Any,
        *,
        classes: Sequence[Any] = (),
        step: int | None = None,
        caption: str = "",
    ) -> None:
        """Log a confusion matrix: [true class][predicted class] → number of samples, of at most 128
        classes, with their names."""
        take = lambda: encoding.confusion_matrix(counts, classes)  # noqa: E731
        self._put("confusion_matrix", name, step, caption, take, "log_confusion_matrix")

    def _put(
        self,
        kind: wire.MediaKind,
        name: str,
        step: int | None,
        caption: str,
        take: Callable[[], Snapshot],
        function: str,
    ) -> None:
        with contextlib.suppress(Exception):
            at = max(0, self.reporter.next_step - 1) if step is None else step
            self.reporter.media.put(kind, str(name), at, str(caption), take, function=function)


def _checked_step(step: Any) -> int:
    """Return the step as an integer. Raises ValueError."""
    with contextlib.suppress(TypeError, ValueError):
        if 0 <= (found := int(step)) <= 2**53:
            return found
    raise ValueError(f"step: {step!r} is not between 0 and 2^53")
