"""When the trials at the front of a queue should start, as far as that can be said honestly.

A simulation: time goes from one expected end to the next, and each waiting trial starts, in order,
as soon as it fits. Nobody overtakes, so a trial may well start earlier. What has no expected end
never ends in it. As soon as a trial finds no time, those behind it have none either. Slots that are
being given up come free at their trial's expected end, if it has one.
"""

from __future__ import annotations

import datetime as dt
import heapq
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from muster_server.domain.scheduling.fitting import Shares

from .group import SchedulingGroup
from .nodes import fit_in
from .order import Candidate
from .queue import Kind
from .spares import Spares
from .views import SchedulerPolicy

MAX_ENDS = 2000
"""Expected ends looked at; what would start after them has no estimate."""


def estimate(
    group: SchedulingGroup,
    waiting: Iterable[Candidate],
    *,
    started: Iterable[tuple[dt.datetime, Shares[int]]],
    now: dt.datetime,
    policy: SchedulerPolicy,
) -> dict[int, dt.datetime]:
    """Return the start by trial ID, for those that have one, of the first `policy.max_estimates`
    waiting.

    waiting: those that could start, in order. started: expected end and slots of trials placed in
    this pass. Leaves the nodes as they were.
    """
    ends = _EndTimes(group, started, now)
    found: dict[int, dt.datetime] = {}
    at = now
    spares = Spares(group.nodes)
    with group.nodes.imagined():
        for n in np.flatnonzero(group.nodes.kept).tolist():
            group.nodes.keep(n, -int(group.nodes.kept[n]))  # in order, nothing needs to be kept
        for candidate in islice(waiting, policy.max_estimates):
            spares.hold()
            kind = candidate.entry.kind
            while (shares := _fit(group, kind, spares)) is None and (
                next_end := ends.next()
            ) is not None:
                at = next_end
                for ended in ends.pop(at):
                    _give(group, ended, 1)
                spares.hold()
            if shares is None:
                break
            spares.release(shares)
            found[candidate.entry.trial_id] = at
            _give(group, shares, -1)
            if kind.expected_s is not None:
                ends.add(at + dt.timedelta(seconds=kind.expected_s), shares)
    return found


class _EndTimes:
    """Expected ends to come: of what runs, of what starts in this pass, of what starts later."""

    def __init__(
        self,
        group: SchedulingGroup,
        started: Iterable[tuple[dt.datetime, Shares[int]]],
        now: dt.datetime,
    ) -> None:
        self._group = group
        self._running = group.running.ends
        self._at = bisect_right(self._running, now, key=lambda end: end[0])
        self._numbers = itertools.count()
        self._others: list[tuple[dt.datetime, int, Shares[int]]] = []
        for at, shares in started:
            self.add(at, shares)
        self._left = MAX_ENDS

    def add(self, at: dt.datetime, shares: Shares[int]) -> None:
        heapq.heappush(self._others, (at, next(self._numbers), shares))

    def next(self) -> dt.datetime | None:
        """Return the earliest end left; None when there is none that is looked at."""
        ends = [self._others[0][0]] if self._others else []
        if self._at < len(self._running):
            ends.append(self._running[self._at][0])
        return min(ends) if ends and self._left > 0 else None

    def pop(self, at: dt.datetime) -> Iterator[Shares[int]]:
        """Yield the slots that come free at this time."""
        while self._at < len(self._running) and self._running[self._at][0] == at:
            yield self._group.shares_of(self._group.running.trials[self._running[self._at][1]])
            self._at += 1
            self._left -= 1
        while self._others and self._others[0][0] == at:
            yield heapq.heappop(self._others)[2]
            self._left -= 1


def _fit(group: SchedulingGroup, kind: Kind, spares: Spares) -> Shares[int] | None:
    with spares.offered(kind.lost_slots is not None):
        return fit_in(group.nodes, kind.request, lambda s: s.offer, at_most=kind.most_slots)


def _give(group: SchedulingGroup, shares: Shares[int], sign: int) -> None:
    for n, num in shares.items():
        group.nodes.give(n, sign * num)
