"""The order of the queue: priority, then fair share between projects, then place in the project.

**Fair share.** Within a priority the trial with the smallest *share* goes first:

    share = (slots its project holds in the group + slots of the project's trials ahead of it)
            ÷ the project's weight

which is progressive filling, the way to the weighted max-min fair division: whoever has least for
its weight is offered the next slots, and what a project does not ask for goes to the others. Ties
go to the lower place in the queue. Trials ahead count as if they had started (an elastic one with
the fewest slots it can start with), so the order depends on nothing but what is held and what
waits. A trial that no combination of open nodes could hold counts nothing.

**Ageing.** Fair share alone would let a project that holds one slot for ever, and wants a large gang
beside it, wait for ever. So the first waiting trial of a project and priority goes ahead of those
with any share once it has waited for `policy.age_after_s` without a trial ahead of it in its project
having started. As every such start begins the time anew, shares still follow the weights in a busy
cluster.

First of all in their priority go trials that come back from a resize, then those to which slots are
promised: shares change with every start and end, and slots that have been collected for a gang must
not be given away and collected anew each time.
"""

from __future__ import annotations

import datetime as dt
import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from .queue import Entry, GroupQueue, QueueLine, Turn
from .running import GroupRunning
from .views import ProjectView, SchedulerPolicy

AGED = -1.0
"""In place of the share of a trial that has waited too long."""


class Rank(NamedTuple):
    """The sort key of the order of a group."""

    importance: int
    """Minus the priority."""
    turn: Turn
    share: float
    queue_no: float
    trial_id: int


class Candidate(NamedTuple):
    rank: Rank
    entry: Entry
    claimed: int
    """Slots that its project holds, or will when all of its trials ahead of this one have started."""
    lane: Lane


class Lane:
    """One line within the order: where its trials stand among those of the other lines."""

    def __init__(self, line: QueueLine, *, claimed: int, weight: float) -> None:
        self.line = line
        self.claimed = claimed
        """Slots its project holds, plus those of the project's lines before this one."""
        self.weight = weight
        self.num_aged = 0
        """How many of its first trials have aged."""
        self.next_of_kind = line.firsts()

    def candidate(self, entry: Entry) -> Candidate:
        return self._at(self.line.index(entry), entry)

    def _at(self, index: int, entry: Entry) -> Candidate:
        claimed = self.claimed + self.line.before()[index]
        key = self.line.key
        share = AGED if index < self.num_aged else claimed / self.weight
        if key.turn is not Turn.SHARED:
            share = 0.0
        rank = Rank(key.importance, key.turn, share, entry.queue_no, entry.trial_id)
        return Candidate(rank, entry, claimed, self)

    def all(self) -> Iterator[Candidate]:
        for index, entry in enumerate(self.line.entries):
            yield self._at(index, entry)


class QueueOrder:
    """The order of one group in one pass, walked one kind of trial at a time."""

    def __init__(
        self,
        queue: GroupQueue,
        running: GroupRunning,
        projects: Mapping[int, ProjectView],
        *,
        now: dt.datetime,
        policy: SchedulerPolicy,
    ) -> None:
        claimed: dict[int, int] = defaultdict(int, running.held)
        self.lanes: list[Lane] = []
        for line_key in sorted(queue.lines):
            line = queue.lines[line_key]
            project = projects.get(line_key.project_id)
            lane = Lane(
                line,
                claimed=claimed[line_key.project_id],
                weight=project.weight if project is not None else 1.0,
            )
            if line_key.turn is Turn.SHARED:
                lane.num_aged = _num_aged(line, running, now, policy)
            claimed[line_key.project_id] += line.before()[-1]
            self.lanes.append(lane)
        self._heap: list[Candidate] = []
        for lane in self.lanes:
            self._advance(lane)

    def peek(self) -> Candidate | None:
        """Return what `pop` would return."""
        return self._heap[0] if self._heap else None

    def pop(self) -> Candidate | None:
        """Return the next trial of a kind that has not been dropped; None at the end.

        Its kind is dropped for its line, unless `keep` is called with it.
        """
        if not self._heap:
            return None
        candidate = heappop(self._heap)
        self._advance(candidate.lane)
        return candidate

    def keep(self, candidate: Candidate) -> None:
        """Go on with the next trial of the same kind and line, at its turn."""
        lane = candidate.lane
        following = lane.line.following(candidate.entry)
        if following is None:
            return
        # The lane's next candidate may come after this one.
        heappush(lane.next_of_kind, following)
        if lane.next_of_kind[0] is following:
            heappush(self._heap, lane.candidate(heappop(lane.next_of_kind)))

    def _advance(self, lane: Lane) -> None:
        if lane.next_of_kind:
            heappush(self._heap, lane.candidate(heappop(lane.next_of_kind)))

    def everyone(self) -> Iterator[Candidate]:
        """Return all waiting trials in order, whatever has been popped."""
        return heapq.merge(*(lane.all() for lane in self.lanes))


def _num_aged(
    line: QueueLine, running: GroupRunning, now: dt.datetime, policy: SchedulerPolicy
) -> int:
    """Return the number of aged trials at the front: 0, or those up to the first that could
    start."""
    first = bisect_right(line.before(), 0) - 1
    if first == len(line.entries):
        return 0
    trial = line.entries[first].trial
    since = now - dt.timedelta(seconds=policy.age_after_s)
    if trial.waits_since > since or running.started_ahead(trial, since):
        return 0
    return first + 1
