"""Time of the last heartbeat of each node and the server that took it, by this process's own clock.

Heartbeats are stamped by the clock of whichever API server took them. That of the controller's
machine may differ by minutes, and either may be set at any time; measured with them, a jump would
declare every node lost. So the controller does not compare the two: it notes, by a clock that
nobody can set, when it saw a stamp change, and silence is what has passed since. Which silence counts
is for domain.lifecycle.silence to say; what it needs to know of the past is remembered here.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from muster_server.domain.lifecycle import LifecycleSnapshot, NodeLease, ServerLease


@dataclass(slots=True)
class _Server:
    """One API server. Times are those of the monotonic clock; None means never."""

    stamp: dt.datetime | None = None
    stamped_s: float | None = None
    heard_s: float | None = None
    """Time at which a node was last heard by it."""
    returned_s: float | None = None
    num_left: int = 0

    @property
    def proven_s(self) -> float | None:
        """Return when it last proved that it can hear."""
        moments = [moment_s for moment_s in (self.stamped_s, self.heard_s) if moment_s is not None]
        return max(moments, default=None)


class Sightings:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Create the record; `monotonic` returns seconds from any beginning."""
        self._monotonic = monotonic
        self._seen: dict[str, tuple[dt.datetime, float, str]] = {}
        self._servers: dict[str, _Server] = {}
        self._leading: tuple[int, float] | None = None
        self._heard_s: float | None = None
        self._hearing_since_s: float | None = None

    def leading_since(self, epoch: int, now: dt.datetime) -> dt.datetime:
        """Return when this epoch of leadership was first asked about, on `now`'s clock."""
        at = self._monotonic()
        if self._leading is None or self._leading[0] != epoch:
            self._leading = (epoch, at)
        return now - dt.timedelta(seconds=at - self._leading[1])

    def put_on_our_clock(
        self, snapshot: LifecycleSnapshot, now: dt.datetime, *, away_after_s: float
    ) -> LifecycleSnapshot:
        """Return the snapshot with the `last_seen_at` and `stamped_at` that it would have, had
        `now`'s clock stamped them, and with the remembered absences.

        They are late by at most the time between two calls. What is seen for the first time counts as
        heard this very moment, which gives every node a fresh lease after a take-over.

        away_after_s: who is silent for longer has been away when it is heard again.
        """
        at = self._monotonic()

        def on_our_clock(moment_s: float | None) -> dt.datetime | None:
            return None if moment_s is None else now - dt.timedelta(seconds=at - moment_s)

        nodes, heard, left = self._see_nodes(snapshot.nodes, at, now)
        if heard:
            if _is_gap(self._heard_s, at, away_after_s):
                self._hearing_since_s = at
            self._heard_s = at
        stamps = {server.name: server.stamped_at for server in snapshot.servers}
        names = sorted({*stamps, *(node.heard_by for node in nodes)})
        before, self._servers = self._servers, {}
        servers = []
        for name in names:
            server = self._servers[name] = before.get(name) or _Server()
            _see(server, stamps.get(name), at, away_after_s, is_known=name in before)
            if name in heard:
                if _is_gap(server.heard_s, at, away_after_s):
                    server.returned_s = at
                server.heard_s, server.num_left = at, 0
            else:
                server.num_left += left[name]
            servers.append(
                ServerLease(
                    name=name,
                    stamped_at=on_our_clock(server.stamped_s),
                    returned_at=on_our_clock(server.returned_s),
                    num_left=server.num_left,
                )
            )
        return replace(
            snapshot,
            hearing_since=on_our_clock(self._hearing_since_s),
            nodes=tuple(nodes),
            servers=tuple(servers),
        )

    def silence_ended_at(self, now: dt.datetime, *, away_after_s: float) -> dt.datetime | None:
        """Return when the control plane, or a part of it, last began to hear again; `now` while
        nobody is heard, None if it has always heard."""
        at = self._monotonic()
        if self._heard_s is not None and at - self._heard_s > away_after_s:
            return now
        moments = [self._hearing_since_s, *(s.returned_s for s in self._servers.values())]
        moments += [
            at
            for server in self._servers.values()
            if server.stamped_s is not None and _is_gap(server.proven_s, at, away_after_s)
        ]
        last_s = max((moment_s for moment_s in moments if moment_s is not None), default=None)
        return None if last_s is None else now - dt.timedelta(seconds=at - last_s)

    def _see_nodes(
        self, nodes: Iterable[NodeLease], at: float, now: dt.datetime
    ) -> tuple[list[NodeLease], set[str], Counter[str]]:
        """Return the nodes on our clock, the servers that have heard any, and how many have left
        each."""
        before, self._seen = self._seen, {}
        found: list[NodeLease] = []
        heard: set[str] = set()
        left: Counter[str] = Counter()
        for node in nodes:
            stamp, seen_s, heard_by = before.get(node.id, (None, at, node.heard_by))
            if stamp != node.last_seen_at:
                seen_s = at
                heard.add(node.heard_by)
                if heard_by != node.heard_by:
                    left[heard_by] += 1
            self._seen[node.id] = (node.last_seen_at, seen_s, node.heard_by)
            found.append(replace(node, last_seen_at=now - dt.timedelta(seconds=at - seen_s)))
        return found, heard, left


def _see(
    server: _Server, stamp: dt.datetime | None, at: float, away_after_s: float, *, is_known: bool
) -> None:
    """Note a stamp; `stamp` is that of its row, None if it has none."""
    if stamp is None:
        server.stamp = server.stamped_s = None
    elif stamp != server.stamp:
        has_come_back = is_known and server.stamped_s is None
        if has_come_back or _is_gap(server.proven_s, at, away_after_s):
            server.returned_s = at
        server.stamp, server.stamped_s = stamp, at


def _is_gap(before_s: float | None, at: float, away_after_s: float) -> bool:
    return before_s is not None and at - before_s > away_after_s
