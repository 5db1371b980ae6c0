"""A window of torch's profiler, opened on request while the training runs.

The order comes on the reporting thread; the training thread opens the window where a step ends and
closes it so many steps later, because the profiler sees the thread that starts it. Between two
orders all of this costs one attribute test per step. Imports torch only if the script has.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster import wire

VARIABLE = "MUSTER_PROFILES_DIR"
"""Variable with the folder into which a worker writes its trace, for its shim to read."""
WINDOW_TIMEOUT_S = 300.0
"""Seconds from the order to the end of its last step, after which the window is given up with a
reason."""


def file_of(folder: Path, no: int, rank: int) -> Path:
    return folder / f"{no}-{rank}.json.gz"


class ProfileWindow:
    """The one profiler window of this process: at most one order at a time, each carried out once."""

    def __init__(self, *, timeout_s: float = WINDOW_TIMEOUT_S) -> None:
        self.has_timer = False
        """Whether a StepTimer reports the ends of steps; else `muster.log` does."""
        self.rank = 0
        self.answer: Callable[[dict[str, Any]], object] | None = None
        """Function that takes {"type": "profile", ...}, the one answer to each order."""
        self._timeout_s = timeout_s
        self._last_no = 0
        self._since = 0.0
        self._lock = threading.Lock()
        self._order: wire.ProfileOrder | None = None
        # Below: the training thread's.
        self._trace: _Trace | None = None
        self._last_step: int | None = None

    # ------------------------------------------------ the reporting thread's side

    def take(self, control: wire.Control) -> None:
        """Take the latest order of Muster. Orders that were carried out, or are for others, are
        ignored."""
        order = control.profile
        if order is None or order.no <= self._last_no or self.rank not in order.ranks:
            return
        self._last_no = order.no
        self._since = time.monotonic()
        with self._lock:
            self._order = order

    def look(self) -> None:
        """Give up an order that takes too long. Called often."""
        if self._order is not None and time.monotonic() > self._since + self._timeout_s:
            how = (
                "StepTimer.end_step, or its optimizer's step when it is measured from outside"
                if self.has_timer
                else "muster.log with a step"
            )
            self._end(
                problem=f"its steps did not end within {self._timeout_s:g} s; a step ends where this "
                f"rank calls {how}"
            )

    def close(self) -> None:
        """Close the window at the end of the script."""
        self._end(problem="the script ended before the window was complete")

    # ------------------------------------------------ the training thread's side

    @property
    def is_wanted(self) -> bool:
        """Return whether it is open, or about to be."""
        return self._order is not None or self._trace is not None

    def logged(self, step: int) -> None:
        """Note that a row of `step` was logged: that ends a step if there is no StepTimer."""
        if self._order is None and self._trace is None:
            return
        if not self.has_timer and step != self._last_step:
            self._last_step = step
            self.step_ended(step)

    def step_ended(self, step: int) -> None:
        """Open or close the window, if one is requested."""
        order, trace = self._order, self._trace
        if trace is not None:
            if threading.get_ident() == trace.thread:
                self._go_on(trace, order)
        elif order is not None:
            try:
                self._trace = _Trace(order, first_step=step + 1)
            except Exception as error:
                # Another profiler of the script's own, for example: never the training's problem.
                self._end(problem=_said(error))

    def _go_on(self, trace: _Trace, order: wire.ProfileOrder | None) -> None:
        is_wanted = order is trace.order
        if is_wanted and trace.next_step():
            return
        self._trace = None
        try:
            trace.close()
            if not is_wanted:
                return  # given up meanwhile, and said
            folder = os.environ.get(VARIABLE)
            if not folder:
                raise RuntimeError(f"{VARIABLE} is not set: the agent is older than the SDK")
            trace.write(file_of(Path(folder), trace.order.no, self.rank))
        except Exception as error:
            self._end(problem=_said(error))
        else:
            self._end(first_step=trace.first_step, last_step=trace.last_step)

    def _end(self, **said: Any) -> None:
        """Answer the order, once."""
        with self._lock:
            order, self._order = self._order, None
        if order is not None and self.answer is not None:
            self.answer({"type": "profile", "no": order.no, **said})


class _Trace:
    """An open profiler. Created, used and closed by one thread."""

    def __init__(self, order: wire.ProfileOrder, *, first_step: int) -> None:
        """Open the profiler. Raises what torch raises, and LookupError without torch."""
        torch: Any = sys.modules.get("torch")
        if torch is None:
            raise LookupError("the script has not imported torch")
        self.order = order
        self.thread = threading.get_ident()
        self.first_step = self.last_step = first_step
        self._torch = torch
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=kinds, record_shapes=True)
        self._profiler.start()
        self._span = self._begin_span()

    def _begin_span(self) -> Any:
        """Begin a span, so that the steps are visible in the trace."""
        span = self._torch.profiler.record_function(f"step {self.last_step}")
        span.__enter__()
        return span

    def next_step(self) -> bool:
        """Note the end of a step; return False if it was the last one."""
        self._span.__exit__(None, None, None)
        if self.last_step + 1 - self.first_step >= self.order.num_steps:
            return False
        self.last_step += 1
        self._span = self._begin_span()
        return True

    def close(self) -> None:
        self._profiler.stop()

    def write(self, path: Path) -> None:
        """Write the trace atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}")  # torch compresses what is called .gz
        try:
            self._profiler.export_chrome_trace(str(half))
            half.replace(path)
        finally:
            with contextlib.suppress(OSError):
                half.unlink(missing_ok=True)


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, LookupError) else f"{type(error).__name__}: {text}"


window = ProfileWindow()
"""The process's one profiler window."""
