"""Times from which each slot of a group can be counted on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .nodes import GroupNodes, Ints
from .running import GroupRunning, RunningKey
from .views import RunningTrial

Floats = NDArray[np.float64]

FREE = -np.inf
SOON = 0.0
"""It is being given up."""
UNKNOWN = 1e18
"""Nobody knows when; later than any time of the clock."""
NEVER = np.inf
"""There is no such slot."""


class SlotTimes:
    """One row per node with a time per slot (seconds since 1970), ascending; see the constants.

    What is promised to trials that wait takes the earliest slots of a node.
    """

    def __init__(self, nodes: GroupNodes, running: GroupRunning) -> None:
        self.nodes = nodes
        self.promised: Ints = np.zeros(len(nodes), dtype=np.int64)
        self._running = running
        widest = max((node.total for node in nodes.nodes), default=0)
        self._rows: Floats = np.full((len(nodes), widest), NEVER)
        self._num_soon: Ints = np.zeros(len(nodes), dtype=np.int64)
        self._num_known: Ints = np.zeros(len(nodes), dtype=np.int64)
        self._num_open: Ints = np.zeros(len(nodes), dtype=np.int64)
        """Number of slots in each row that are at most SOON, before UNKNOWN, and at most that."""
        self._stale = set(range(len(nodes)))
        self._next_end: dict[int, float] = {}
        """Node → the first expected end there: past it the row has to be made anew."""
        self._asked: dict[RunningKey, RunningTrial] = {}
        self._started: dict[int, list[tuple[float, int]]] = {}
        self._now = 0.0

    def begin(self, now: float) -> None:
        """A new pass: forget what was promised, asked and started during the last one."""
        if now < self._now:  # an overdue end may no longer be overdue
            self._stale.update(range(len(self.nodes)))
        self._stale.update(n for n, end in self._next_end.items() if end <= now)
        self._stale.update(self._started)
        for trial in self._asked.values():
            self.change(trial.shares)
        self._asked.clear()
        self._started.clear()
        self.promised[:] = 0
        self._now = now

    def change(self, node_ids: Iterable[str]) -> None:
        """These nodes, or what runs on them, have changed."""
        ordinal = self.nodes.ordinal
        self._stale.update(ordinal[node_id] for node_id in node_ids if node_id in ordinal)

    def ask(self, trial: RunningTrial) -> None:
        """A trial is asked to give up its slots."""
        self._asked[trial.key] = trial
        self.change(trial.shares)

    def start(self, n: int, num: int, end: float | None) -> None:
        """A trial has been placed on `num` slots of a node; `end` is None when nobody knows it."""
        self._started.setdefault(n, []).append((UNKNOWN if end is None else end, num))
        self._stale.add(n)

    def rows(self) -> Floats:
        for n in self._stale:
            self._rows[n] = NEVER
            row = self._row(n)
            self._rows[n, : len(row)] = row
            self._num_soon[n] = bisect_right(row, SOON)
            self._num_known[n] = bisect_left(row, UNKNOWN)
            self._num_open[n] = len(row)
        self._stale.clear()
        return self._rows

    def at(self, ordinals: Ints, slots: Ints | int) -> Floats:
        """Return when `slots` slots, beside those promised, can be counted on at each of the
        nodes."""
        rows = self.rows()
        width = rows.shape[1]
        column = self.promised[ordinals] + slots - 1
        return np.where(column < width, rows[ordinals, np.minimum(column, width - 1)], NEVER)

    def missing(self, ordinals: Ints, slots: Ints | int) -> Ints:
        """Return how many of `slots` slots, beside those promised, have no known time, per node."""
        self.rows()
        known: Ints = self._num_known[ordinals] - self.promised[ordinals]
        return np.maximum(slots - np.maximum(known, 0), 0)

    def soon(self) -> Ints:
        """Return the slots of each node that are free or being given up, less those promised (may
        be < 0)."""
        self.rows()
        soon: Ints = self._num_soon - self.promised
        return soon

    def num_soon(self) -> int:
        """Return all slots that are being given up, or free, and promised to nobody."""
        return int(np.maximum(self.soon(), 0).sum())

    def by(self, ordinals: Ints, at: float) -> Ints:
        """Return the slots of each node that can be counted on at a time, less those promised (may
        be < 0)."""
        by: Ints = (self.rows()[ordinals] <= at).sum(axis=1) - self.promised[ordinals]
        return by

    def room(self, ordinals: Ints) -> Ints:
        """Return all slots of each node, when it is open, less those promised."""
        self.rows()
        room: Ints = self._num_open[ordinals] - self.promised[ordinals]
        return room

    def distinct(self, ordinals: Ints) -> list[float]:
        """Return the times at which something changes on these nodes, ascending."""
        times: list[float] = np.unique(self.rows()[ordinals]).tolist()
        return [at for at in times if at < NEVER]

    def _row(self, n: int) -> list[float]:
        node = self.nodes[n]
        self._next_end.pop(n, None)
        if node.shut is not None:
            return []
        row = [FREE] * (len(node.free) - int(self.nodes.taken[n]))
        for end, num in self._started.get(n, ()):
            row += [end] * num
        for trial in self._running.on_node.get(node.id, {}).values():
            row += [self._end(trial)] * trial.shares[node.id]
        known = [end for end in row if SOON < end < UNKNOWN]
        if known:
            self._next_end[n] = min(known)
        row += [UNKNOWN] * (node.num_open - len(row))
        return sorted(row)[: node.num_open]

    def _end(self, trial: RunningTrial) -> float:
        if trial.yielding or trial.key in self._asked:
            return SOON
        end = trial.expected_end_at
        if end is None or end.timestamp() <= self._now:  # an overdue end says nothing
            return UNKNOWN
        return end.timestamp()
