"""The runs of one script, as MLflow's API shows them.

The first run without a parent stands for the trial; every other one is a child of it. A child has a
label, the beginning of its metrics' names: its run name, made unique among the runs of one attempt.
Ids follow from the trial and the label, so that an attempt that starts a run of the same name goes on
with the same one, and a script can resume a run whose id it has saved.
"""

from __future__ import annotations

import re
import time
import uuid
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from muster.wire import encode_number

from .errors import invalid, missing
from .runs import (
    DEFAULT_EXPERIMENT,
    NAME_TAG,
    PARENT_TAG,
    RunChange,
    TrackedExperiment,
    TrackedRun,
)
from .store import HISTORY_POINTS_MAX, TrackingStore, already_exists
from .values import BATCH_ITEMS_MAX, TrackedPoint, items_of, whole_of

RUNS_MAX = 5_000
"""Most runs of one attempt."""
RECENT_POINTS_MAX = 20_000
"""Number of points within which a repeated request is recognized."""
LABEL_MAX_CHARS = 80

_UNFIT = re.compile(r"[^\w.\-]+")


class TrackingBook(TrackingStore):
    def __init__(
        self,
        *,
        trial: str,
        points: Callable[[TrackedRun, list[TrackedPoint]], None],
        changed: Callable[[RunChange], None],
        warn: Callable[[str], None],
        trial_name: str,
        recall: Callable[[str], TrackedRun | None] = lambda run_id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create an empty book.

        trial: what no other trial is called, for the ids of runs.
        points: takes new points of a run.
        changed: takes what is new of a run.
        warn: takes a sentence about what was left out; each is told once.
        trial_name: name of a run without one.
        recall: returns a run of an earlier attempt by its id.
        """
        super().__init__(clock=clock)
        self._trial = uuid.uuid5(uuid.NAMESPACE_URL, f"muster:{trial}")
        self._points = points
        self._changed = changed
        self._tell = warn
        self._trial_name = trial_name
        self._recall = recall
        self._folders: set[str] = set()
        self._labels: set[str] = set()
        self._history: dict[tuple[str, str], tuple[array[int], array[int], array[float]]] = {}
        self._num_history = 0
        # A dict would look for its first key among all those deleted before.
        self._recent: OrderedDict[tuple[str, str, int, int, float | int | str], None] = (
            OrderedDict()
        )
        self._runs: dict[str, TrackedRun] = {}
        self._experiments: dict[str, TrackedExperiment] = {}
        self._created = {DEFAULT_EXPERIMENT}
        self.experiment_named(DEFAULT_EXPERIMENT)

    # ------------------------------------------------------------ experiments

    def experiment_named(self, name: str) -> TrackedExperiment:
        """Return the experiment of this name: every name is one of the same trial."""
        is_default = name == DEFAULT_EXPERIMENT
        number = "0" if is_default else str(uuid.uuid5(self._trial, name).int % 10**15)
        return self._experiment(number, name)

    def experiment(self, number: str) -> TrackedExperiment:
        if number not in self._experiments and not (number.isdecimal() and len(number) <= 18):
            raise missing(f"No Experiment with id={number[:40]} exists")
        return self._experiment(number, f"experiment {number}")

    def experiments(self) -> Collection[TrackedExperiment]:
        return self._experiments.values()

    def create_experiment(self, name: str, tags: Mapping[str, str]) -> TrackedExperiment:
        experiment = self.experiment_named(name)
        if name in self._created:
            raise already_exists(name)
        self._created.add(name)
        experiment.tags.update(tags)
        return experiment

    def refuse_location(self, location: str) -> None:
        """Warn only: a script that was written for another server runs unchanged."""
        self._warn_once(
            f"Artifacts are not stored in {location[:250]!r}, the artifact_location of the script: "
            "they are among the trial's outputs."
        )

    def save_experiment(self, experiment: TrackedExperiment) -> None:
        """Do nothing: it is the one that is kept."""

    def _experiment(self, number: str, name: str) -> TrackedExperiment:
        if number not in self._experiments:
            if len(self._experiments) >= RUNS_MAX:
                raise invalid(f"a job can have at most {RUNS_MAX} experiments")
            now_ms = self.now_ms()
            self._experiments[number] = TrackedExperiment(
                experiment_id=number, name=name, created_ms=now_ms, updated_ms=now_ms
            )
        return self._experiments[number]

    # ------------------------------------------------------------ runs

    def create_run(self, body: Mapping[str, Any], *, rank: int) -> TrackedRun:
        if len(self._runs) >= RUNS_MAX:
            raise invalid(f"a job can have at most {RUNS_MAX} runs in one attempt")
        experiment = self.experiment(str(body.get("experiment_id") or "0"))
        tags = dict(self.pair(tag, "tag") for tag in items_of(body, "tags", BATCH_ITEMS_MAX))
        name = str(body.get("run_name") or tags.get(NAME_TAG) or "")[:500]
        # A parent that this job does not have is at another server.
        has_parent = PARENT_TAG in tags and self._find(tags[PARENT_TAG]) is not None
        stands_for_trial = (
            rank == 0 and not has_parent and all(run.label for run in self._runs.values())
        )
        label = "" if stands_for_trial else self._new_label(name, rank)
        name = name or label or self._trial_name
        run = TrackedRun(
            run_id=self._id_of(label),
            experiment_id=experiment.experiment_id,
            label=label,
            folder=self._new_folder(label or name),
            name=name,
            rank=rank,
            user=str(body.get("user_id") or "")[:250],
            started_ms=whole_of(body.get("start_time")) or self.now_ms(),
            tags={**tags, NAME_TAG: name},
        )
        self._runs[run.run_id] = run
        self.changed(RunChange(run=run, is_new=True, tags=run.tags))
        return run

    def run(self, run_id: str) -> TrackedRun:
        """Return a run, of this attempt or an earlier one. Raises TrackingError."""
        found = self._find(run_id)
        if found is None:
            raise missing(f"Run with id={run_id[:64]} not found")
        return found

    def _find(self, run_id: str) -> TrackedRun | None:
        found = self._runs.get(run_id)
        if found is None and (found := self._recall(run_id) or self._resumed(run_id)) is not None:
            self._runs[run_id] = found
            self._folders.add(found.folder)
            self._labels.add(found.label)
            self.changed(RunChange(run=found))
        return found

    def runs_of(self, experiment_ids: Collection[str]) -> Iterable[TrackedRun]:
        return [run for run in self._runs.values() if run.experiment_id in experiment_ids]

    def changed(self, change: RunChange) -> None:
        self._changed(change)

    def warn(self, text: str) -> None:
        self._tell(text)

    # ------------------------------------------------------------ values

    def add_points(self, run: TrackedRun, points: Iterable[TrackedPoint]) -> None:
        new = []
        for point in points:
            value = encode_number(point.value)  # NaN is not equal to itself.
            mark = (run.run_id, point.key, point.step, point.time_ms, value)
            if mark in self._recent:
                continue
            self._recent[mark] = None
            new.append(point)
            before = run.latest.get(point.key)
            if before is None or point[1:3] >= before[1:3]:
                run.latest[point.key] = point
            self._remember(run, point)
        while len(self._recent) > RECENT_POINTS_MAX:
            self._recent.popitem(last=False)
        if new:
            self._points(run, new)

    def history(self, run: TrackedRun, key: str) -> list[TrackedPoint]:
        """Return all points of a metric, in the order they came."""
        if (run.run_id, key) not in self._history:
            return [run.latest[key]] if key in run.latest else []
        if self._num_history >= HISTORY_POINTS_MAX:
            raise invalid(
                f"a job can read back its first {HISTORY_POINTS_MAX} points only; the trial's "
                "series in Muster have all of them"
            )
        columns = self._history[run.run_id, key]
        return [TrackedPoint(key, *row) for row in zip(*columns, strict=True)]

    # ------------------------------------------------------------ helpers

    def _id_of(self, label: str) -> str:
        return uuid.uuid5(self._trial, f"run {label}").hex

    def _resumed(self, run_id: str) -> TrackedRun | None:
        """Return the trial's own run, empty, where nothing is left of it: a script that resumes it
        may be on another node now."""
        if run_id != self._id_of(""):
            return None
        return TrackedRun(
            run_id=run_id,
            experiment_id="0",
            label="",
            folder=self._new_folder(self._trial_name),
            name=self._trial_name,
            started_ms=self.now_ms(),
            tags={NAME_TAG: self._trial_name},
        )

    def _remember(self, run: TrackedRun, point: TrackedPoint) -> None:
        if self._num_history >= HISTORY_POINTS_MAX:
            return
        self._num_history += 1
        steps, times_ms, values = self._history.setdefault(
            (run.run_id, point.key), (array("q"), array("q"), array("d"))
        )
        steps.append(point.step)
        times_ms.append(point.time_ms)
        values.append(point.value)

    def _new_label(self, name: str, rank: int) -> str:
        own = _UNFIT.sub("-", name).strip("-.")[:LABEL_MAX_CHARS]
        if rank:
            own = f"rank-{rank}-{own}" if own and f"rank-{rank}" in self._labels else f"rank-{rank}"
        if not own:
            own = f"run-{len(self._labels) + 1}"
        label = _unused(own, self._labels)
        self._labels.add(label)
        return label

    def _new_folder(self, name: str) -> str:
        own = _UNFIT.sub("-", name).strip("-.")[:LABEL_MAX_CHARS] or "run"
        folder = _unused(own, self._folders)
        self._folders.add(folder)
        return folder


def _unused(name: str, used: set[str]) -> str:
    found, no = name, 1
    while found in used:
        no += 1
        found = f"{name}-{no}"
    return found
