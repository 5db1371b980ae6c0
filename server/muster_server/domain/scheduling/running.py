"""What the running trials of a group hold, and what of it could be taken from whom."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from . import sorting
from .views import QueuedTrial, RunningTrial

RunningKey = tuple[int, int]
"""(trial id, attempt number)"""


class Victim(NamedTuple):
    """A trial that may be asked for its slots. They sort by how much is lost: least first."""

    priority: int
    must_stop: bool
    """False for an elastic one above its least size: it may go on with fewer slots."""
    minus_safe_at: float
    """Minus the time of its newest checkpoint, or of its start."""
    key: RunningKey


def victim_of(trial: RunningTrial) -> Victim:
    shrinkable = trial.request.elastic and trial.slots > trial.request.least_slots
    return Victim(trial.priority, not shrinkable, -trial.safe_at.timestamp(), trial.key)


class GroupRunning:
    """Changed between passes, read during one."""

    def __init__(self) -> None:
        self.trials: dict[RunningKey, RunningTrial] = {}
        self.held: Counter[int] = Counter()
        """Project → slots."""
        self.by_experiment: Counter[int] = Counter()
        """Experiment → slots."""
        self.on_node: dict[str, dict[RunningKey, RunningTrial]] = defaultdict(dict)
        """Node id → key → trial."""
        self.victims: list[Victim] = []
        """Trials that may be preempted, in ascending order."""
        self.elastic: set[RunningKey] = set()
        """Trials that may change their size."""
        self.yielding: set[RunningKey] = set()
        """Trials that are giving up their slots."""
        self.ends: list[tuple[dt.datetime, RunningKey]] = []
        """(expected end, key) of those that have one, ascending."""
        self._starts: dict[int, list[tuple[dt.datetime, RunningKey]]] = defaultdict(list)
        """Project → (start, key), ascending."""

    def update(self, removed: Iterable[RunningTrial], added: Iterable[RunningTrial]) -> set[str]:
        """Returns the ids of the nodes concerned."""
        removed, added = list(removed), list(added)
        for trial in removed:
            del self.trials[trial.key]
            self.elastic.discard(trial.key)
            self.yielding.discard(trial.key)
            self.held[trial.project_id] -= trial.slots
            self.by_experiment[trial.experiment_id] -= trial.slots
            if not self.held[trial.project_id]:
                del self.held[trial.project_id]
            if not self.by_experiment[trial.experiment_id]:
                del self.by_experiment[trial.experiment_id]
            for node_id in trial.shares:
                del self.on_node[node_id][trial.key]
                if not self.on_node[node_id]:
                    del self.on_node[node_id]
        sorting.delete(self.victims, [victim_of(t) for t in removed if _may_be_asked(t)])
        sorting.delete(self.ends, _ends(removed))
        for project_id, starts in _starts(removed).items():
            sorting.delete(self._starts[project_id], starts)
        for trial in added:
            self.trials[trial.key] = trial
            if trial.request.elastic:
                self.elastic.add(trial.key)
            if trial.yielding:
                self.yielding.add(trial.key)
            self.held[trial.project_id] += trial.slots
            self.by_experiment[trial.experiment_id] += trial.slots
            for node_id in trial.shares:
                self.on_node[node_id][trial.key] = trial
        sorting.insert(self.victims, [victim_of(t) for t in added if _may_be_asked(t)])
        sorting.insert(self.ends, _ends(added))
        for project_id, starts in _starts(added).items():
            sorting.insert(self._starts[project_id], starts)
        return {node_id for trial in (*removed, *added) for node_id in trial.shares}

    def started_ahead(self, trial: QueuedTrial, since: dt.datetime) -> bool:
        """Return whether a trial ahead of `trial` in its project has started after `since`."""
        starts = self._starts.get(trial.project_id, [])
        mine = (-trial.priority, trial.place, trial.trial_id)
        for _, key in starts[bisect_right(starts, since, key=lambda start: start[0]) :]:
            other = self.trials[key]
            if (-other.priority, other.place, other.trial_id) < mine:
                return True
        return False

    def lowest_priority(self) -> int | None:
        """Return the lowest priority of the trials that may be preempted; None if there are
        none."""
        return self.victims[0].priority if self.victims else None

    def below(self, priority: int) -> list[Victim]:
        """Return the preemptible trials of lower priority, least loss first."""
        return self.victims[: bisect_left(self.victims, (priority,))]


def _ends(trials: Iterable[RunningTrial]) -> list[tuple[dt.datetime, RunningKey]]:
    return [(t.expected_end_at, t.key) for t in trials if t.expected_end_at is not None]


def _starts(trials: Iterable[RunningTrial]) -> dict[int, list[tuple[dt.datetime, RunningKey]]]:
    starts: dict[int, list[tuple[dt.datetime, RunningKey]]] = defaultdict(list)
    for trial in trials:
        starts[trial.project_id].append((trial.started_at, trial.key))
    return starts


def _may_be_asked(trial: RunningTrial) -> bool:
    return trial.preemptible and not trial.yielding
