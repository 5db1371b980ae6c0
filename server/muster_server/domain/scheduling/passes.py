"""A pass over all groups, from scratch or from what changed since the last one."""

from __future__ import annotations

import datetime as dt
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from operator import attrgetter
from typing import Generic, TypeVar

from muster_server.domain.messages import Message
from muster_server.domain.scheduling.resources import NodeView, Request

from .decisions import Decision, NodeShare, Placement, Preempt, Resize, Wait
from .group import SchedulingGroup
from .group_pass import GroupPass, WaitingTrial
from .nodes import Node
from .views import (
    GroupKey,
    ProjectView,
    QueuedTrial,
    RunningTrial,
    SchedulerPolicy,
    SchedulerSnapshot,
)

ItemT = TypeVar("ItemT")


def schedule(
    snapshot: SchedulerSnapshot, *, now: dt.datetime, policy: SchedulerPolicy
) -> list[Decision]:
    """Return what to do now, and one Wait for every other trial.

    Decisions that change something come first, then the waits, the front of each queue first. The
    same input gives the same output, in whatever order it lists nodes and trials.
    """
    decided = Scheduler().run(snapshot, now=now, policy=policy)
    return [*decided.actions, *decided.waits()]


def plan(request: Request, nodes: Iterable[NodeView]) -> tuple[tuple[NodeShare, ...], Message]:
    """Return the shares and the reason of one gang if the queue were empty; no shares if it would
    wait."""
    trial = QueuedTrial(
        trial_id=0,
        trial_no=0,
        experiment_id=0,
        priority=0,
        queued_at=dt.datetime.fromtimestamp(0, dt.UTC),
        request=request,
    )
    snapshot = SchedulerSnapshot(nodes=tuple(nodes), queue=(trial,))
    (decision,) = schedule(snapshot, now=trial.queued_at, policy=SchedulerPolicy())
    assert isinstance(decision, Placement | Wait), "nothing runs that could give up slots"
    return (decision.shares if isinstance(decision, Placement) else ()), decision.reason


class Decided:
    """The outcome of a pass."""

    def __init__(self, passes: Sequence[GroupPass]) -> None:
        self.actions: list[Placement | Preempt | Resize] = [a for p in passes for a in p.actions]
        self._passes = passes

    def waiting(self) -> Iterator[WaitingTrial]:
        """Yield the waiting trials, the first of every group first. Valid only until the next pass
        begins."""
        return heapq.merge(*(p.waiting() for p in self._passes), key=attrgetter("position"))

    def waits(self, *, first: int = 0, most: int | None = None) -> Iterator[Wait]:
        """Yield why each of them waits: at most `most` per group, after its first `first`."""
        last = None if most is None else first + most
        groups = (islice(p.waiting(), first, last) for p in self._passes)
        return (w.tell() for w in heapq.merge(*groups, key=attrgetter("position")))


class Scheduler:
    """`schedule` with a memory: a pass costs what changed, not what there is.

    It decides exactly as `schedule` does. What has changed is found by comparing objects by
    identity, so whoever makes the snapshots uses the same object for what is the same as before.
    """

    def __init__(self) -> None:
        self._groups: dict[GroupKey, SchedulingGroup] = {}
        self._nodes = _Known[NodeView]()
        self._queue = _Known[QueuedTrial]()
        self._running = _Known[RunningTrial]()
        self._projects: dict[int, ProjectView] = {}
        self._members: dict[GroupKey, dict[str, NodeView]] = defaultdict(dict)

    def run(
        self, snapshot: SchedulerSnapshot, *, now: dt.datetime, policy: SchedulerPolicy
    ) -> Decided:
        self._take_projects(snapshot.projects)
        self._take_nodes(snapshot.nodes)
        removed, added = self._running.take(snapshot.running)
        for key, (gone, new) in _by_group(removed, added).items():
            self._group(key).update_running(gone, new)
        queue_removed, queue_added = self._queue.take(snapshot.queue)
        for key, (gone_q, new_q) in _by_group(queue_removed, queue_added).items():
            self._group(key).update_queue(gone_q, new_q)
        self._groups = {key: group for key, group in self._groups.items() if not group.is_empty}
        return Decided(
            [
                GroupPass(
                    self._groups[key],
                    self._projects,
                    supplies=snapshot.supplies,
                    now=now,
                    policy=policy,
                )
                for key in sorted(self._groups)
            ]
        )

    def _group(self, key: GroupKey) -> SchedulingGroup:
        if key not in self._groups:
            self._groups[key] = SchedulingGroup(key, self._quotas(key))
        return self._groups[key]

    def _quotas(self, key: GroupKey) -> dict[int, int]:
        return {p.id: p.quotas[key] for p in self._projects.values() if key in p.quotas}

    def _take_projects(self, projects: Iterable[ProjectView]) -> None:
        views = {project.id: project for project in projects}
        if views != self._projects:
            self._projects = views
            for key, group in self._groups.items():
                group.set_quotas(self._quotas(key))

    def _take_nodes(self, views: Sequence[NodeView]) -> None:
        removed, added = self._nodes.take(views)
        new = {view.id: view for view in added}
        rebuild: set[GroupKey] = set()
        for view in removed:
            for key in _keys(view):
                del self._members[key][view.id]
                if view.id not in new or key not in _keys(new[view.id]):
                    rebuild.add(key)
        for view in added:
            for key in _keys(view):
                self._members[key][view.id] = view
                if key in rebuild:
                    continue
                group = self._group(key)
                is_known = view.id in group.nodes.ordinal
                if not is_known or not group.replace_node(Node.of(view, key[1])):
                    rebuild.add(key)
        for key in rebuild:
            members = self._members[key].values()
            self._group(key).set_nodes(Node.of(view, key[1]) for view in members)


class _Known(Generic[ItemT]):
    """The items of the last snapshot, to tell what is new in the next one."""

    def __init__(self) -> None:
        self._items: Set[ItemT] = frozenset()

    def take(self, items: Iterable[ItemT]) -> tuple[Set[ItemT], Set[ItemT]]:
        """Return the items that are gone and the items that are new; a changed item is in both."""
        old, self._items = self._items, frozenset(items)
        return old - self._items, self._items - old


GroupedT = TypeVar("GroupedT", QueuedTrial, RunningTrial)


def _by_group(
    removed: Iterable[GroupedT], added: Iterable[GroupedT]
) -> Mapping[GroupKey, tuple[list[GroupedT], list[GroupedT]]]:
    groups: dict[GroupKey, tuple[list[GroupedT], list[GroupedT]]] = defaultdict(lambda: ([], []))
    for trial in removed:
        groups[trial.group][0].append(trial)
    for trial in added:
        groups[trial.group][1].append(trial)
    return groups


def _keys(view: NodeView) -> set[GroupKey]:
    return {(view.pool, slot.slot_type) for slot in view.slots}
