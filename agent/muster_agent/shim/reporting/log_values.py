"""Metrics that a script only prints: the patterns of its document, applied to its log while it writes.

Reading happens in a thread beside the shim's loop and never holds up a worker, which writes into a
file. Values wait a moment before they are recorded: one that comes in by a better route as well is
then known and left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from muster.document.codec import load
from muster.document.running import LogPatternSection, MeasureSection, MetricsSection
from muster_agent.clock import unix_ms
from muster_agent.records.logs import LogFile, find_logs, read_cut
from muster_agent.records.masking import Mask
from muster_agent.records.points import MetricPoint, NameRoutes, Route, metrics_record

if TYPE_CHECKING:
    from muster.log_values import LogPattern, LogScanner, LogValue

POLL_S = 1.0
HOLD_S = 3.0
"""Seconds that a value waits for a better route to report its name."""
BYTES_PER_POLL = 4 * 2**20
"""Most bytes read of all logs together in one poll."""
LAST_BYTES_MAX = 64 * 2**20
"""Most bytes that are read of all logs together after the processes have ended."""
NAMES_SHOWN = 8
_WITHOUT_LIMIT = 2**62

Say = Callable[[Literal["info", "warning"], str], None]


@dataclass
class _Followed:
    """A log that is being read."""

    file: LogFile
    local_rank: int
    rank: int
    scanner: LogScanner
    offset: int = 0


@dataclass(frozen=True)
class _WaitingValue:
    """A value on its way."""

    due_at: float
    local_rank: int
    rank: int
    time_ms: int
    value: LogValue
    is_auto: bool


class LogValues:
    def __init__(
        self,
        config: dict[str, Any],
        logs: Path,
        *,
        place_of: Callable[[LogFile], tuple[int, int] | None],
        names: NameRoutes,
        record: Callable[[str, bool], None],
        say: Say,
        mask: Mask,
    ) -> None:
        """Create the reader of a job's logs; it reads from `start` to `close`.

        config: resolved document.
        place_of: returns local rank and rank of what a log says; None for one to pass over.
        record: takes the JSON text of a record, and whether it holds metrics.
        say: takes the level and text of a message for the trial's events."""
        self._sections = load(MetricsSection, config.get("metrics") or {}).from_log
        self._captures = bool(load(MeasureSection, config.get("measure") or {}).capture)
        self._logs = logs
        self._place_of = place_of
        self._names = names
        self._record = record
        self._say = say
        self._mask = mask
        self._patterns: list[LogPattern] = []
        self._auto: list[LogPattern] = []
        self._followed: dict[Path, list[_Followed]] = {}
        self._held: deque[_WaitingValue] = deque()
        self._taken: set[str] = set()
        self._left_out: set[str] = set()
        self._num_unread = 0
        self._can_read: bool | None = None
        """Whether there are patterns to apply; None until they are compiled."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Read from now on, if there is any pattern."""
        if self._sections and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Read what is left and record what waits; every better route has reported all it has."""
        if self._task is None:
            return
        self._closing.set()
        await self._task
        if not await self._is_ready():
            return
        left = LAST_BYTES_MAX
        while left > 0 and (num := await asyncio.to_thread(self._read, is_last=False)):
            left -= num
        self._num_unread += 0 if left > 0 else self._num_bytes_left()
        await asyncio.to_thread(self._read, is_last=True)
        self._emit(is_last=True)
        self._report_end()

    async def _run(self) -> None:
        while not await self._closes_within(POLL_S):
            if not await self._is_ready():
                return
            await asyncio.to_thread(self._read, is_last=False)
            self._emit(is_last=False)

    async def _closes_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        return self._closing.is_set()

    async def _is_ready(self) -> bool:
        """Return whether there are patterns. They are compiled at first, which imports RE2: not before
        the job has started, which must not wait for it."""
        if self._can_read is None:
            self._can_read = await asyncio.to_thread(self._compile)
        return self._can_read

    def _compile(self) -> bool:
        try:
            from muster.log_values import BadLogPattern, LogPattern
        except ImportError as error:
            self._warn(f"Metrics are not read from the log: this node's agent lacks {error.name}.")
            return False
        for section in self._sections:
            try:
                pattern = LogPattern(section.pattern, name=section.name, line=section.line)
            except BadLogPattern as error:  # Of a newer server, which knows more presets.
                self._warn(f"A pattern of metrics.from_log, {_shown(section)}, {error}.")
                continue
            if not pattern.is_auto:
                self._patterns.append(pattern)
            elif self._captures:
                self._auto.append(pattern)
        return bool(self._patterns or self._auto)

    # ------------------------------------------------------------ reading, in a thread

    def _read(self, *, is_last: bool) -> int:
        """Read what is new, at most BYTES_PER_POLL. Return the number of bytes."""
        num_read = 0
        for followed in self._find():
            num_wanted = BYTES_PER_POLL - num_read
            if num_wanted <= 0:
                break
            first = followed[0]
            try:
                data = read_cut(
                    first.file.path,
                    first.offset,
                    limit_bytes=_WITHOUT_LIMIT,
                    max_bytes=num_wanted,
                    mask=self._mask,
                    is_final=is_last,
                )
            except OSError:
                continue
            num_read += len(data)
            if data.startswith(b"\0") and not data.strip(b"\0"):
                self._num_unread += len(data)  # Freed past the limit of the log.
                data = b"\n"
            for each in followed:
                each.offset = first.offset + len(data)
                self._hold(each, each.scanner.feed(data, is_last=is_last))
        return num_read

    def _find(self) -> Iterable[list[_Followed]]:
        from muster.log_values import LogScanner

        for file in find_logs(self._logs):
            if file.path in self._followed:
                continue
            place = self._place_of(file)
            if place is None:
                continue
            local_rank, rank = place
            # Patterns of the document speak for themselves; what is tried by itself stays apart.
            groups = [self._patterns, self._auto if rank == 0 else []]
            self._followed[file.path] = [
                _Followed(file, local_rank, rank, LogScanner(group)) for group in groups if group
            ]
        return [followed for followed in self._followed.values() if followed]

    def _hold(self, source: _Followed, values: Iterable[LogValue]) -> None:
        now, now_ms = time.monotonic(), unix_ms()
        is_auto = not self._is_of_document(source)
        for value in values:
            self._held.append(
                _WaitingValue(now + HOLD_S, source.local_rank, source.rank, now_ms, value, is_auto)
            )

    def _is_of_document(self, source: _Followed) -> bool:
        return bool(self._patterns) and source is self._followed[source.file.path][0]

    def _num_bytes_left(self) -> int:
        left = 0
        for followed in self._followed.values():
            for each in followed[:1]:
                with contextlib.suppress(OSError):
                    left += max(0, each.file.path.stat().st_size - each.offset)
        return left

    # ------------------------------------------------------------ recording

    def _emit(self, *, is_last: bool) -> None:
        """Record the values whose time has come, and those of the better routes' names never."""
        now = time.monotonic()
        due: list[_WaitingValue] = []
        while self._held and (is_last or self._held[0].due_at <= now):
            due.append(self._held.popleft())
        taken = [held for held in due if self._is_taken(held)]
        new = sorted({held.value.name for held in taken} - self._taken)
        for (local_rank, rank, epoch), group in itertools.groupby(
            taken, key=lambda held: (held.local_rank, held.rank, held.value.epoch)
        ):
            points = [
                MetricPoint(h.value.name, h.value.step, h.time_ms, h.value.value) for h in group
            ]
            self._record(
                metrics_record(points, rank=rank, local_rank=local_rank, epoch=epoch), True
            )
        if new and not self._taken:
            is_auto = all(held.is_auto for held in taken)
            self._say(
                "info",
                f"Values are read from the log: {_listed(new)}. "
                + (
                    "metrics.from_log: [] switches it off."
                    if is_auto
                    else "metrics.from_log says how."
                ),
            )
        self._taken.update(new)

    def _is_taken(self, held: _WaitingValue) -> bool:
        name = held.value.name
        if self._names.allows(name, Route.LOG):
            return True
        if name not in self._left_out:
            self._left_out.add(name)
            if name in self._taken:
                self._say(
                    "info",
                    f"{name} is reported by the script or a library from here on: its curve goes on "
                    "with those values, and what the log says of it is left out.",
                )
            elif not held.is_auto:
                self._say(
                    "info",
                    f"{name} is reported by the script or a library: what the log says of it is left "
                    "out.",
                )
        return False

    def _report_end(self) -> None:
        scanners = [f.scanner for each in self._followed.values() for f in each]
        refused = sum(scanner.num_refused for scanner in scanners)
        if self._patterns and refused:
            first = next(scanner.refused for scanner in scanners if scanner.refused)
            self._warn(f"metrics.from_log: {refused} matches in the log are no values. {first}.")
        if self._patterns and not self._taken and not self._left_out and not refused:
            shown = ", ".join(_shown(section) for section in self._sections)
            self._warn(f"metrics.from_log found no value in the log: {shown}.")
        if self._num_unread and (self._patterns or self._taken):
            self._warn(
                f"{self._num_unread} bytes of the log were not searched for values: it grew faster "
                "than it was read."
            )

    def _warn(self, text: str) -> None:
        self._say("warning", text)


def _shown(section: LogPatternSection) -> str:
    return repr(section.pattern[:100])


def _listed(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
