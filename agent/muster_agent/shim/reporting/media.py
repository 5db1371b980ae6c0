"""Media of one allocation: what workers log, and what the shim reads from files of other tools.

Small content travels within its record. Larger content is a file in the work folder, named after its
digest, where it is an output like any other:

muster-outputs/media/<sha256>.png

What is beyond the bounds of muster.media is counted, and the counts are reported.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from muster import media, wire
from muster.media import DropReason
from muster.tracking import TrackingError
from muster_agent.clock import unix_ms
from muster_agent.outputs.work import MEDIA
from muster_agent.records.masking import NO_MASK, Mask
from muster_agent.tracking.artifacts import ArtifactStore

NAME_MAX_CHARS = 200
STEP_MAX = 2**53
DROPS_INTERVAL_S = 2.0
"""Seconds between two reports of what was left out."""


class MediaKeeper:
    """Takes media in, within bounds. Lives in the shim's loop; `add` writes at most one file."""

    def __init__(
        self,
        *,
        record: Callable[[str, bool], None],
        uid: int | None = None,
        min_free_bytes: int = 0,
        mask: Mask = NO_MASK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the keeper; it needs `open` before it takes anything in.

        record: takes the JSON text of a record, and whether it may be dropped when there is no room.
        uid: user that new files belong to; None for that of this process.
        min_free_bytes: bytes that must stay free on the disk.
        mask: hides secrets in captions and in content that is text."""
        self._record = record
        self._uid = uid
        self._min_free_bytes = min_free_bytes
        self._mask = mask
        self._clock = clock
        self._budget = media.MediaBudget()
        self._store: ArtifactStore | None = None
        self._files: Path | None = None
        self._own: dict[int, Counter[str]] = {}
        """Items left out here, by rank."""
        self._reported: dict[int, dict[str, int]] = {}
        """Items that workers have left out themselves, by rank."""
        self._changed: set[int] = set()
        self._report_at = 0.0

    def open(self, files: Path) -> None:
        """Keep files in this folder, the files of the work folder, from now on."""
        self._files = files
        self._store = ArtifactStore(
            files, uid=self._uid, min_free_bytes=self._min_free_bytes, folder=MEDIA
        )

    def add(
        self,
        kind: wire.MediaKind,
        name: str,
        content: bytes,
        mime: str,
        *,
        step: int,
        rank: int = 0,
        time_ms: int | None = None,
        caption: str = "",
        width: int = 0,
        height: int = 0,
    ) -> DropReason | None:
        """Take one item in; return None, or why it was left out. What is left out is counted.

        name: as metrics have them, such as "val/samples".
        content: the bytes of a file, or what a function of muster.media returns for a histogram, a
            table, a curve or a matrix; text is UTF-8.
        mime: one of those that muster.media.KINDS has for the kind.
        time_ms: Unix time in milliseconds; None for now.
        width, height: of an image in pixels; 0 if unknown."""
        if self._mask and mime.startswith(("text/", "application/")):
            content = self._mask.data(content)
        item = wire.MediaRecord(
            kind=kind,
            name=name,
            step=step,
            rank=rank,
            time_ms=unix_ms() if time_ms is None else time_ms,
            mime=mime,
            sha256=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            caption=self._mask.text(caption)[: media.CAPTION_MAX_CHARS],
            width=width,
            height=height,
        )
        if _problem(item):
            return self.left_out(rank, "invalid")
        is_inline = self._budget.fits_inline(len(content))
        if (reason := self._budget.admit(len(content), now_s=self._clock())) is not None:
            return self.left_out(rank, reason)
        if is_inline:
            item = dataclasses.replace(item, data=base64.b64encode(content).decode())
        else:
            try:
                item = dataclasses.replace(item, file=self._write(item, content))
            except (OSError, TrackingError):
                return self.left_out(rank, "disk")
        self._record(wire.dump(item), True)
        return None

    def take(self, item: wire.MediaRecord) -> None:
        """Take in what a worker has logged. Its file, if it has one, is in its place already. Raises
        ValueError for what no SDK sends."""
        if problem := _problem(item):
            raise ValueError(problem)
        if item.data or not item.size_bytes:
            try:
                content = base64.b64decode(item.data, validate=True)
            except (binascii.Error, ValueError):
                raise ValueError("media.data is not base64") from None
            if len(content) > media.INLINE_BYTES:
                raise ValueError(f"media.data has more than {media.INLINE_BYTES} bytes")
            self.add(
                item.kind,
                item.name,
                content,
                item.mime,
                step=item.step,
                rank=item.rank,
                time_ms=item.time_ms,
                caption=item.caption,
                width=item.width,
                height=item.height,
            )
            return
        if item.file != path_of(item.sha256, item.mime):
            raise ValueError("media.file must be named after its SHA-256")
        if self._size_of(item.file) != item.size_bytes:
            self.left_out(item.rank, "disk")
        elif (reason := self._budget.admit(item.size_bytes, now_s=self._clock())) is not None:
            self.left_out(item.rank, reason)
        else:
            item = dataclasses.replace(item, caption=self._mask.text(item.caption))
            self._record(wire.dump(item), True)

    def take_drops(self, rank: int, num: dict[str, int]) -> None:
        """Take in how many items a worker has left out itself since it started, by reason."""
        self._reported[rank] = {
            k[:16]: min(n, STEP_MAX) for k, n in list(num.items())[:16] if n > 0
        }
        self._changed.add(rank)

    def report(self, *, is_due: bool = False) -> None:
        """Report what was left out, if that has changed and the last report is a while ago, or
        `is_due`. Called often."""
        if not self._changed or not (is_due or self._clock() >= self._report_at):
            return
        self._report_at = self._clock() + DROPS_INTERVAL_S
        for rank in sorted(self._changed):
            total = Counter(self._own.get(rank, {})) + Counter(self._reported.get(rank, {}))
            self._record(wire.dump(wire.MediaDropsRecord(rank=rank, num=dict(total))), False)
        self._changed.clear()

    def left_out(self, rank: int, reason: DropReason) -> DropReason:
        """Count an item that is not taken in."""
        self._own.setdefault(rank, Counter())[reason] += 1
        self._changed.add(rank)
        return reason

    def _write(self, item: wire.MediaRecord, content: bytes) -> str:
        """Write a file unless it is there; return its path. Raises OSError, and TrackingError for a
        full disk."""
        path = path_of(item.sha256, item.mime)
        if self._store is None:
            raise FileNotFoundError("the work folder is not known yet")
        if self._size_of(path) != len(content):
            self._store.check_room(len(content))
            with self._store.created([path.rpartition("/")[2]]) as fd:
                view = memoryview(content)
                while view:
                    view = view[os.write(fd, view) :]
        return path

    def _size_of(self, path: str) -> int:
        """Return the size of a file; -1 if there is none."""
        if self._store is None:
            return -1
        with contextlib.suppress(OSError), self._store.opened([path.rpartition("/")[2]]) as fd:
            found = os.fstat(fd)
            return found.st_size if stat.S_ISREG(found.st_mode) else -1
        return -1


def path_of(sha256: str, mime: str) -> str:
    """Return the path of a file, relative to the work folder."""
    return "/".join((*MEDIA, sha256 + media.EXTENSIONS[mime]))


def _problem(item: wire.MediaRecord) -> str:
    """Return what is wrong with an item; "" for nothing."""
    if not 0 < len(item.name) <= NAME_MAX_CHARS or "\0" in item.name:
        return f"media.name must have 1 to {NAME_MAX_CHARS} characters"
    if not 0 <= item.step <= STEP_MAX or not 0 <= item.rank <= STEP_MAX:
        return "media.step and media.rank must be between 0 and 2^53"
    if not 0 <= item.time_ms <= STEP_MAX:
        return "media.time_ms must be between 0 and 2^53"
    if not 0 <= item.width <= 2**31 - 1 or not 0 <= item.height <= 2**31 - 1:
        return "media.width and media.height must be between 0 and 2^31"
    if len(item.sha256) != 64 or item.size_bytes < 0 or item.size_bytes > media.ITEM_MAX_BYTES:
        return f"media.size_bytes must be between 0 and {media.ITEM_MAX_BYTES}"
    if len(item.caption) > media.CAPTION_MAX_CHARS:
        return f"media.caption must have at most {media.CAPTION_MAX_CHARS} characters"
    return media.why_unfit(item.kind, item.mime)
