"""Which of the trials that wait at rungs goes on next: the promotion and the synchronous rule."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence

from .rungs import Bracket, Ladder, quota
from .spec import SearchSpec

Key = tuple[float, int]
"""(score, trial number)"""


class WaitingAtRungs:
    """Trials that have reached a rung and were not sent on from it.

    Rungs are numbered through all brackets. A trial that ends while it waits is forgotten: it can
    not go on, but its entry stays on the rung.
    """

    def __init__(self, spec: SearchSpec, ladders: Sequence[Ladder]) -> None:
        self.spec = spec
        self.at: dict[int, int] = {}
        """Trial number → the rung it waits at."""
        self.sent_on: list[int] = [0] * len(ladders)
        """Per rung, how many went on from it."""
        self.left: list[int] = [0] * len(ladders)
        """Per rung, how many of those on their way to it will never reach it, failed ones aside."""
        self.closed: list[int | None] = [None] * len(ladders)
        """Number of trials that go on from each rung, known once everybody is there
        (`synchronous`); None until then."""
        self.promoted: list[int] = []
        """Trials promoted by a user. They go on as soon as there is room, before all others."""
        self._ladders = ladders
        self._heaps: list[list[Key]] = [[] for _ in ladders]
        self._first = first_rungs(spec.brackets)

    def __len__(self) -> int:
        return len(self.at)

    def add(self, trial_no: int, rung: int, score: float) -> None:
        self.at[trial_no] = rung
        heapq.heappush(self._heaps[rung], (score, trial_no))

    def next(self) -> tuple[int, int] | None:
        """Return the trial that is promoted next and the rung it leaves; None if none can be.

        Higher rungs go first, counted from the top of each bracket, earlier brackets before later
        ones; on one rung the best, then the lower number. Trials that a user promotes precede all.
        """
        if self.promoted:
            return self.promoted[0], self.at[self.promoted[0]]
        tops = [
            (first + len(b.rungs) - 2, first)
            for first, b in zip(self._first, self.spec.brackets, strict=True)
        ]
        depth = max((top - first + 1 for top, first in tops), default=0)
        for down in range(depth):
            for top, first in tops:
                rung = top - down
                if rung >= first and (found := self._best(rung)) is not None:
                    return found[1], rung
        return None

    def last_resort(self) -> tuple[int, int] | None:
        """Return (trial, its rung) of the trial to promote when no other is eligible and nothing
        else is left to do; None if there is none.

        It is the best trial of the highest rung that has waiting trials, in a bracket whose top
        nobody has reached. Without this, a search with few trials could end before any trained to
        its end.
        """
        for first, bracket in zip(self._first, self.spec.brackets, strict=True):
            top = first + len(bracket.rungs) - 1
            if len(self._ladders[top]):
                continue
            for rung in range(top - 1, first - 1, -1):
                here = [key for key in self._heaps[rung] if self.at.get(key[1]) == rung]
                if here:
                    return min(here)[1], rung
        return None

    def send_on(self, trial_no: int) -> int:
        """Take a trial off its rung; returns which one that was. Raises KeyError."""
        rung = self._take(trial_no)
        self.sent_on[rung] += 1
        return rung

    def forget(self, trial_no: int) -> None:
        """It ended while it waited. Raises KeyError when it does not wait."""
        rung = self._take(trial_no)
        if self.closed[rung] is not None:
            self.left[rung + 1] += 1  # it was among those that may go on

    def kept(self, rung: int) -> int:
        """Return how many trials of a rung may go on from it now, including those that already
        have."""
        if self.spec.rule in ("synchronous", "population"):
            return self.closed[rung] or 0
        return len(self._ladders[rung]) // self.spec.divisor

    def close_full(self, expected_first: Sequence[int]) -> list[tuple[int, int]]:
        """Close every rung that no more trials are on the way to (`synchronous`).

        expected_first: number of trials per bracket that set out for its first rung. Returns
        (trial, rung) of those that wait there and are not among the best, in order of trial
        number.
        """
        losers: list[tuple[int, int]] = []
        for first, bracket, expected in zip(
            self._first, self.spec.brackets, expected_first, strict=True
        ):
            for rung in range(first, first + len(bracket.rungs) - 1):
                if rung > first:
                    below = self.closed[rung - 1]
                    # Some of those that may go on have not been promoted yet.
                    if below is None:
                        break
                    expected = max(below, self.sent_on[rung - 1])
                if len(self._ladders[rung]) + self.left[rung] < expected:
                    break
                if self.closed[rung] is None:
                    here = sorted(key for key in self._heaps[rung] if self.at.get(key[1]) == rung)
                    best = quota(len(self._ladders[rung]), self.spec.divisor)
                    out = [no for _, no in here[best:] if no not in self.promoted]
                    self.closed[rung] = self.sent_on[rung] + len(here) - len(out)
                    losers += [(no, rung) for no in out]
        for no, _ in losers:
            del self.at[no]
        return sorted(losers)

    def _take(self, trial_no: int) -> int:
        rung = self.at.pop(trial_no)
        if trial_no in self.promoted:
            self.promoted.remove(trial_no)
        return rung

    def close(self, rung: int, losers: Collection[int]) -> None:
        """Close a rung that every member has reached (`population`); all but `losers` go on."""
        for no in losers:
            self.at.pop(no, None)
        num_here = sum(at == rung for at in self.at.values())
        self.closed[rung] = self.sent_on[rung] + num_here

    def _best(self, rung: int) -> Key | None:
        heap = self._heaps[rung]
        while heap and self.at.get(heap[0][1]) != rung:
            heapq.heappop(heap)
        if not heap:
            return None
        if self.spec.rule in ("synchronous", "population"):
            may = self.sent_on[rung] < self.kept(rung)
        else:
            may = self._ladders[rung].rank(*heap[0]) < self.kept(rung)
        return heap[0] if may and math.isfinite(heap[0][0]) else None


def first_rungs(brackets: Sequence[Bracket]) -> list[int]:
    """Return, per bracket, the number of its first rung when all rungs are counted through."""
    firsts, at = [], 0
    for bracket in brackets:
        firsts.append(at)
        at += len(bracket.rungs)
    return firsts
