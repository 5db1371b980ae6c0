"""Times that nobody can set, and how this node's clocks stand to the server's.

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
"""How much two clocks may drift apart in a second, at most: a sample's error grows by this."""
SAMPLES_KEPT = 120


def boot_clock() -> float:
    """Seconds since boot, suspended time included: a lease must not survive a closed lid."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_UNIX_AT_BOOT_MS = time.time_ns() / 1e6 - boot_clock() * 1000


def unix_ms() -> int:
    """Unix time in milliseconds. Never jumps within a process."""
    return round(boot_clock() * 1000 + _UNIX_AT_BOOT_MS)


def unix_at_boot_ms() -> float:
    """Of every stamp of this process: `unix_ms` minus the boot clock, in milliseconds."""
    return _UNIX_AT_BOOT_MS


class ClockSync:
    """The server's clock against ours, from the answers to heartbeats.

    A server's time that came in the middle of a round trip is right to within half of it, so the
    quickest of the last samples counts.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """wall: this node's wall clock, Unix seconds."""
        self._wall = wall
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=SAMPLES_KEPT)

    def add(self, *, sent_boot_s: float, received_boot_s: float, server_time_ms: float) -> None:
        """One round trip; both times by the boot clock."""
        middle_ms = (sent_boot_s + received_boot_s) / 2 * 1000
        error_ms = (received_boot_s - sent_boot_s) / 2 * 1000
        self._samples.append((received_boot_s, server_time_ms - middle_ms, error_ms))

    def read(self, boot_s: float) -> ClockReading | None:
        """The best of what is known at this boot clock; None before the first sample."""
        if not self._samples:
            return None
        error_ms, offset_ms = min(
            (error_ms + (boot_s - at_s) * DRIFT * 1000, offset_ms)
            for at_s, offset_ms, error_ms in self._samples
        )
        skew_s = self._wall() - (boot_s * 1000 + offset_ms) / 1000
        return ClockReading(offset_ms=offset_ms, error_ms=error_ms, skew_s=skew_s)
