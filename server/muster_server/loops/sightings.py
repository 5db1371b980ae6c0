"""When each node was last heard, by this process's own clock.

Heartbeats are stamped by the clock of whichever API server took them. That of the controller's
machine may differ by minutes, and either may be set at any time; measured with them, a jump would
declare every node lost. So the controller does not compare the two: it notes, by a clock that
nobody can set, when it saw a heartbeat's stamp change, and silence is what has passed since.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from muster_server.domain.lifecycle import NodeLease


class Sightings:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """monotonic: seconds, from any beginning."""
        self._monotonic = monotonic
        self._seen: dict[str, tuple[dt.datetime, float]] = {}
        self._leading: tuple[int, float] | None = None

    def leading_since(self, epoch: int, now: dt.datetime) -> dt.datetime:
        """When this epoch of leadership was first asked about, on `now`'s clock."""
        at = self._monotonic()
        if self._leading is None or self._leading[0] != epoch:
            self._leading = (epoch, at)
        return now - dt.timedelta(seconds=at - self._leading[1])

    def put_on_our_clock(self, nodes: Iterable[NodeLease], now: dt.datetime) -> list[NodeLease]:
        """The nodes with the `last_seen_at` they would have, had `now`'s clock stamped it.

        It is late by at most the time between two calls. What is seen for the first time counts as
        heard this very moment, which gives every node a fresh lease after a take-over.
        """
        at = self._monotonic()
        before, self._seen = self._seen, {}
        found = []
        for node in nodes:
            stamp, first_at = before.get(node.id, (node.last_seen_at, at))
            if stamp != node.last_seen_at:
                first_at = at
            self._seen[node.id] = (node.last_seen_at, first_at)
            found.append(replace(node, last_seen_at=now - dt.timedelta(seconds=at - first_at)))
        return found
