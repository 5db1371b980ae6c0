"""Messages between a worker and its shim, over a Unix socket. One JSON object per line.

One JSON object per line. Worker → shim: {"type": "hello", ...WorkerRecord fields}, and the
records metrics, group, checkpoint, evaluation, shard_plan, shards, message, and {"type": "progress", ...fields of
WorkerProgress}, which the shim keeps and tells with those of the others, and {"type": "profile",
...fields of WorkerProfile}. Shim → worker: the Control below, whenever it changes and once after hello.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .predictions import ShardOrders
from .work import ProfileOrder


@dataclass(frozen=True, kw_only=True)
class WorkerProfile:
    """Result of a ProfileOrder: the trace lies in the folder agreed on, or there is none."""

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
    """Kind of the stop request: one of STOP_KINDS, or empty."""
    deadline_boot_s: float | None = None
    """Boot clock (CLOCK_BOOTTIME) of the machine at which the shim kills whatever still runs."""
    profile: ProfileOrder | None = None
    shards: ShardOrders | None = None
    """Latest orders of batch inference, for all workers of the node."""
