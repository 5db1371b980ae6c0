"""Which nodes a gang will get that does not fit now, and from when on.

A gang is promised the nodes whose slots can be counted on earliest. Where that time is unknown, it
is promised those where it needs the fewest slots of unknown time: as trials end that number only
falls, so the choice stays. A free slot counts the same as one with a known end. Otherwise a trial
with a known end that gives up a slot for somebody behind the gang would move the promise there, and
could start again itself at once. Free slots that are promised are kept. A trial behind may start on
them only if its own end is expected before the promised time; without such an expectation it never
does (conservative backfill).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from muster_server.domain.scheduling.fitting import Shares, fit, node_counts
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import Request

from .nodes import GroupNodes, Ints, NodeSection, places_for
from .times import NEVER, SOON, UNKNOWN, SlotTimes
from .views import QueuedTrial


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Slots that are promised to a trial that waits."""

    trial: QueuedTrial
    shares: Shares[int]
    at: float
    """Seconds since 1970, or times.SOON, or times.UNKNOWN."""
    kept: Shares[int]
    """Free slots that are kept for it."""

    @property
    def num_kept(self) -> int:
        return sum(self.kept.values())

    @property
    def is_timed(self) -> bool:
        return SOON < self.at < UNKNOWN


class Reservations:
    """Reservations of one group in one pass."""

    def __init__(self, nodes: GroupNodes, times: SlotTimes) -> None:
        self.all: list[Reservation] = []
        self._nodes = nodes
        self._times = times

    def add(self, trial: QueuedTrial, shares: Shares[int], at: float) -> Reservation:
        """Promise `shares` to `trial`, and keep what is free of them."""
        kept: Shares[int] = {}
        for n, share in shares.items():
            num = min(share, self._nodes.offered(n))
            if num > 0:
                kept[n] = num
                self._nodes.keep(n, num)
            self._times.promised[n] += share
        reservation = Reservation(trial=trial, shares=shares, at=at, kept=kept)
        self.all.append(reservation)
        return reservation

    def open_until(self, end: float) -> list[Reservation]:
        """Return the reservations whose kept slots are open to a trial that ends by `end`."""
        return [r for r in self.all if r.is_timed and r.at >= end]

    def find(self, request: Request) -> tuple[Shares[int], float] | None:
        """Return where, and from what time, slots for a gang of the least size can be counted on.

        None if the open nodes cannot hold it beside what is already promised. The earliest time
        wins; if it is unknown, the fewest slots of unknown time, then the fewest nodes.
        """
        best: tuple[tuple[float, int, int], Shares[int]] | None = None
        for section, local in places_for(request, self._nodes):
            for shares in self._options(local, section):
                where = np.fromiter(shares, dtype=np.int64)
                slots = np.fromiter(shares.values(), dtype=np.int64)
                at = max(SOON, float(self._times.at(where, slots).max()))
                missing = int(self._times.missing(where, slots).sum()) if at >= UNKNOWN else 0
                key = (at, missing, len(shares))
                if at < NEVER and (best is None or key < best[0]):
                    best = (key, shares)
        return None if best is None else (best[1], best[0][0])

    def _options(self, request: Request, section: NodeSection) -> Iterator[Shares[int]]:
        """Yield the best even division per possible number of nodes, and an uneven one if
        allowed."""
        least = request.least_slots
        if section.room.total < least:
            return
        for num_nodes in node_counts(request, least):
            if num_nodes <= len(section.ordinals):
                share = least // num_nodes
                chosen = self._earliest(section.ordinals, share, num_nodes)
                if chosen is not None:
                    yield dict.fromkeys(chosen, share)
        if request.uneven or request.members:
            times = self._times.distinct(section.ordinals)
            first = bisect_left(
                times, True, key=lambda at: self._fit_by(request, section, at) is not None
            )
            if first < len(times):
                shares = self._fit_by(request, section, times[first])
                assert shares is not None
                yield shares

    def _fit_by(self, request: Request, section: NodeSection, at: float) -> Shares[int] | None:
        """Return where the request fits on slots that can be counted on by `at`; None if
        nowhere."""
        by = self._times.by(section.ordinals, at)
        offer = Offer.of(dict(zip(section.ordinals.tolist(), by.tolist(), strict=True)))
        return fit(request, offer, at_most=request.least_slots)

    def _earliest(self, ordinals: Ints, share: int, num: int) -> list[int] | None:
        """Return the `num` nodes on which `share` slots can be counted on first, or None."""
        at = self._times.at(ordinals, share)
        last = np.partition(at, num - 1)[num - 1]
        if last == NEVER:
            return None
        sure, tied = np.flatnonzero(at < last), np.flatnonzero(at == last)
        left = num - len(sure)
        if left < len(tied):
            # If the time is unknown, the fewest slots of unknown time; then the tightest node, then
            # the first by name.
            nodes = ordinals[tied]
            missing = self._times.missing(nodes, share) * (last >= UNKNOWN)
            order = np.lexsort((nodes, self._times.room(nodes), missing))
            tied = tied[order[:left]]
        chosen: list[int] = ordinals[np.concatenate((sure, tied))].tolist()
        return sorted(chosen)
