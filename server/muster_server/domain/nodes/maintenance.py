"""Maintenance windows: when nothing new starts on some nodes, and what becomes of what runs there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster_server.domain.messages import Message, shortened

from .periods import Period

Running = Literal["keep", "checkpoint"]
"""What happens to running trials at the start: they go on, or save a checkpoint and give up their
slots."""

RUNNING_NOW: Mapping[Running, str] = {
    "keep": "Running trials go on; nothing new starts there.",
    "checkpoint": "Running trials save a checkpoint and continue afterwards; nothing new starts there.",
}
RUNNING_THEN: Mapping[Running, str] = {
    "keep": "Running trials will go on; nothing new will start there.",
    "checkpoint": "Running trials will save a checkpoint and continue afterwards.",
}


@dataclass(frozen=True, kw_only=True)
class Window(Period):
    """A time during which nothing new starts in its scope."""

    reason: str
    running: Running
    pools: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    """Names. Without pools and nodes the window concerns the whole cluster."""

    @property
    def is_whole(self) -> bool:
        return not (self.pools or self.nodes)

    def covers(self, *, node: str, pool: str) -> bool:
        """Return whether the node is in the scope."""
        return self.is_whole or pool in self.pools or node in self.nodes

    @property
    def place(self) -> str:
        """What it concerns, as names that read the same in every language; "" for the cluster."""
        return shortened([*self.pools, *self.nodes])

    @property
    def label(self) -> str:
        """Its place and span: "gpu, 2026-12-01 18:00–19:00 UTC"."""
        return ", ".join(filter(None, (self.place, self.span)))

    @property
    def planned(self) -> str:
        return f"Maintenance is planned ({self.label}): {self.reason}. {RUNNING_THEN[self.running]}"

    @property
    def started(self) -> str:
        return f"Maintenance has started ({self.label}): {self.reason}. {RUNNING_NOW[self.running]}"

    @property
    def ended(self) -> str:
        return f"Maintenance has ended ({self.label}): {self.reason}."

    @property
    def called_off(self) -> str:
        return f"Planned maintenance was called off ({self.label}): {self.reason}."

    def reached_by(self, limit_s: float) -> Message:
        """Return that a time limit, in seconds, would reach into it."""
        limit = describe_s(limit_s)
        return Message(
            "pending.maintenance_ahead", limit=limit, window=self.label, reason=self.reason
        )


@dataclass(frozen=True, kw_only=True)
class NodeMaintenance:
    """The windows that decide what may be placed on a node."""

    active: Window | None = None
    """The active one that ends last; None: the node takes work, as far as windows decide."""
    ahead: Window | None = None
    """The planned one that starts first. What is sure to run into it is not placed on the node."""


NO_MAINTENANCE = NodeMaintenance()


class Schedule:
    """The windows that have not ended, at one moment."""

    def __init__(self, windows: Iterable[Window], now: dt.datetime) -> None:
        """Sort the windows into active and planned ones; those that have ended are left out."""
        self._now = now
        left = [w for w in windows if w.ends_at is None or now < w.ends_at]
        self.active = sorted((w for w in left if w.is_active(now)), key=_last_to_end)
        self.planned = sorted(
            (w for w in left if now < w.starts_at), key=lambda w: (w.starts_at, w.id)
        )

    def of_node(self, *, node: str, pool: str) -> NodeMaintenance:
        """Return the windows that concern a node. Equal for two moments as long as nothing changes."""
        if not (self.active or self.planned):
            return NO_MAINTENANCE
        return NodeMaintenance(
            active=_first(self.active, node, pool), ahead=_first(self.planned, node, pool)
        )

    def why_stopped(self, *, node: str, pool: str) -> str:
        """Return why the trials on a node are asked for their slots, as the end of a sentence; "" if no
        active window asks them."""
        window = _first([w for w in self.active if w.running == "checkpoint"], node, pool)
        return "" if window is None else f"maintenance ({window.label}: {window.reason})"

    def keeps_off(self, pool: str, *, limit_s: float) -> Message | None:
        """Return why a trial starts on no node of a pool, those to come included; None if it may.

        limit_s: time in seconds that it may run; 0 for no limit.
        """
        active = next((w for w in self.active if w.is_whole or pool in w.pools), None)
        if active is not None:
            return Message("pending.maintenance_pilots", window=active.label, reason=active.reason)
        ahead = next((w for w in self.planned if w.is_whole or pool in w.pools), None)
        if ahead is None or self._now + dt.timedelta(seconds=limit_s) <= ahead.starts_at:
            return None
        return ahead.reached_by(limit_s)


def describe_s(seconds: float) -> str:
    """Return "4 h", "1 h 30 min", "45 s": the same in every language."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    units = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{num} {unit}" for num, unit in units if num) or "0 s"


def _first(windows: Sequence[Window], node: str, pool: str) -> Window | None:
    return next((w for w in windows if w.covers(node=node, pool=pool)), None)


def _last_to_end(window: Window) -> tuple[bool, float, int]:
    end = window.ends_at
    return end is not None, 0.0 if end is None else -end.timestamp(), window.id
