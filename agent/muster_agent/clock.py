"""Clocks that cannot be set, and the offset between this node's clock and the server's.

Whatever is stamped here counts on from one look at the wall clock, made when the process began, by
the boot clock. So two stamps of one process differ by what really passed between them, whatever
happens to the wall clock meanwhile.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from muster.wire import ClockReading

DRIFT = 1e-4
"""Largest relative drift between two clocks: the error of a sample grows by this many seconds per
second."""
SAMPLES_KEPT = 120


def boot_clock() -> float:
    """Return seconds since boot, including suspended time: a lease must not survive a closed lid."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_UNIX_AT_BOOT_MS = time.time_ns() / 1e6 - boot_clock() * 1000


def unix_ms() -> int:
    """Return Unix time in milliseconds. Never jumps within a process."""
    return round(boot_clock() * 1000 + _UNIX_AT_BOOT_MS)


def unix_at_boot_ms() -> float:
    """Return `unix_ms` minus the boot clock in milliseconds: constant for every timestamp of this
    process."""
    return _UNIX_AT_BOOT_MS


class ClockSync:
    """Offset between the server's clock and this node's, measured by heartbeats.

    A server's time that came in the middle of a round trip is right to within half of it, so the
    quickest of the last samples counts.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """Create an empty estimate; `wall` is this node's wall clock in Unix seconds."""
        self._wall = wall
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=SAMPLES_KEPT)

    def add(self, *, sent_boot_s: float, received_boot_s: float, server_time_ms: float) -> None:
        """Add one round trip; both times are by the boot clock."""
        middle_ms = (sent_boot_s + received_boot_s) / 2 * 1000
        error_ms = (received_boot_s - sent_boot_s) / 2 * 1000
        self._samples.append((received_boot_s, server_time_ms - middle_ms, error_ms))

    def read(self, boot_s: float) -> ClockReading | None:
        """Return the best estimate at this time of the boot clock; None before the first sample."""
        if not self._samples:
            return None
        error_ms, offset_ms = min(
            (error_ms + (boot_s - at_s) * DRIFT * 1000, offset_ms)
            for at_s, offset_ms, error_ms in self._samples
        )
        skew_s = self._wall() - (boot_s * 1000 + offset_ms) / 1000
        return ClockReading(offset_ms=offset_ms, error_ms=error_ms, skew_s=skew_s)
