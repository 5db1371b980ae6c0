"""Bounds of media, and the budget that keeps a script within them. Pure."""

from __future__ import annotations

from typing import Literal

INLINE_BYTES = 32 * 1024
"""Content of at most this size travels within its record; larger content is a file of the outputs."""
INLINE_TOTAL_BYTES = 128 * 2**20
"""Bytes of content within the records of one allocation; what comes then is a file, too."""
ITEM_MAX_BYTES = 16 * 2**20
"""Largest content of one item."""
SIDE_MAX_PIXELS = 16_384
"""Largest width and height of an image that is given as an array."""
CAPTION_MAX_CHARS = 500
ITEMS_MAX = 20_000
"""Most items of one attempt on one node."""
FILES_MAX = 5_000
"""Most items of one attempt on one node that are files, so that the script's own files still fit into
the list of outputs."""
ITEMS_PER_S = 20.0
ITEMS_BURST = 1_200
"""Items that may come at once, after a minute without any."""
BYTES_PER_MINUTE = 100 * 2**20

DropReason = Literal["rate", "bytes", "count", "files", "too_large", "queue", "disk", "invalid"]
"""Why an item was left out. rate: more than ITEMS_PER_S. bytes: more than BYTES_PER_MINUTE. count:
more than ITEMS_MAX. files: more than FILES_MAX. too_large: more than ITEM_MAX_BYTES. queue: the
training process logs faster than its thread encodes. disk: the file could not be written. invalid:
it is not what its kind needs."""


class MediaBudget:
    """Counts what is admitted. Not thread-safe."""

    def __init__(self) -> None:
        self._items = float(ITEMS_BURST)
        self._bytes = float(BYTES_PER_MINUTE)
        self._at_s: float | None = None
        self._num_items = self._num_files = 0
        self._inline_bytes = 0

    def fits_inline(self, size_bytes: int) -> bool:
        """Return whether content of this size travels within its record."""
        return size_bytes <= INLINE_BYTES and self._inline_bytes + size_bytes <= INLINE_TOTAL_BYTES

    def admit(self, size_bytes: int, *, now_s: float) -> DropReason | None:
        """Count an item and return None, or return why it is left out.

        size_bytes: size of its content; 0 while that is not known.
        now_s: the time in seconds on any clock that never goes back."""
        if self._at_s is not None:
            passed_s = max(0.0, now_s - self._at_s)
            self._items = min(ITEMS_BURST, self._items + passed_s * ITEMS_PER_S)
            self._bytes = min(BYTES_PER_MINUTE, self._bytes + passed_s * BYTES_PER_MINUTE / 60)
        self._at_s = now_s
        is_file = not self.fits_inline(size_bytes)
        if size_bytes > ITEM_MAX_BYTES:
            return "too_large"
        if self._num_items >= ITEMS_MAX:
            return "count"
        if is_file and self._num_files >= FILES_MAX:
            return "files"
        if self._items < 1:
            return "rate"
        if self._bytes < size_bytes:
            return "bytes"
        self._items -= 1
        self._bytes -= size_bytes
        self._num_items += 1
        self._num_files += is_file
        self._inline_bytes += 0 if is_file else size_bytes
        return None
