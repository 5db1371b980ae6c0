"""Between a worker and its shim, over a Unix socket.

One JSON object per line. Worker → shim: {"type": "hello", ...WorkerRecord fields}, and the
records metrics, group, checkpoint, evaluation, message, and {"type": "progress", ...fields of
WorkerProgress}, which the shim keeps and tells with those of the others, and {"type": "profile",
...fields of WorkerProfile}. Shim → worker: the Control below, whenever it changes and once after hello.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .work import ProfileOrder


@dataclass(frozen=True, kw_only=True)
class WorkerProfile:
    """What became of a ProfileOrder: the trace lies in the folder agreed on, or there is none."""

    no: int
    first_step: int | None = None
    last_step: int | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Control:
    type: Literal["control"] = "control"
    should_stop: bool
    reason: str = ""
    kind: str = ""
    """One of STOP_KINDS, or empty."""
    deadline_boot_s: float | None = None
    """The shim kills whatever still runs then; by the machine's boot clock (CLOCK_BOOTTIME)."""
    profile: ProfileOrder | None = None
