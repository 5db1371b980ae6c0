"""What MLflow's API does with experiments and runs, wherever they are kept.

`TrackingStore` has the rules of the protocol: what a batch may hold, that a param never changes, which
states a run can have. A subclass keeps the runs: `TrackingBook` in the memory of a job's shim, the
server in its database.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from .errors import TrackingError, invalid, missing
from .runs import IMPORT_TAG, NAME_TAG, STATUSES, RunChange, TrackedExperiment, TrackedRun
from .values import (
    BATCH_ITEMS_MAX,
    BATCH_METRICS_MAX,
    BATCH_PARAMS_MAX,
    BATCH_TAGS_MAX,
    TIME_MIN_MS,
    TrackedPoint,
    items_of,
    pair_of,
    point_of,
    whole_of,
)

PARAMS_MAX = 2_000
TAGS_MAX = 500
"""Most params and tags of one run. Further ones are left out, which `TrackingStore.warn` tells."""
HISTORY_POINTS_MAX = 500_000
"""Most points of a metric that can be read back; the series in Muster has all of them."""
WARNINGS_MAX = 5_000
EARLY_MIN = 3
"""Values at step 0 with times in 1970 after which a script is told."""


class TrackingStore(ABC):
    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._warned: set[str] = set()
        self._num_early: Counter[str] = Counter()
        """Values of each metric at step 0 whose times cannot be right."""

    # ------------------------------------------------------------ what a subclass keeps

    @abstractmethod
    def experiment(self, number: str) -> TrackedExperiment:
        """Return the experiment with this number. Raises TrackingError."""

    @abstractmethod
    def experiment_named(self, name: str) -> TrackedExperiment:
        """Return the experiment of this name. Raises TrackingError."""

    @abstractmethod
    def experiments(self) -> Collection[TrackedExperiment]:
        """Return all experiments, deleted ones too. Raises TrackingError if there are too many."""

    @abstractmethod
    def create_experiment(self, name: str, tags: Mapping[str, str]) -> TrackedExperiment:
        """Create an experiment. Raises TrackingError if the name is taken."""

    @abstractmethod
    def save_experiment(self, experiment: TrackedExperiment) -> None:
        """Keep what was changed of an experiment. Raises TrackingError."""

    @abstractmethod
    def create_run(self, body: Mapping[str, Any], *, rank: int) -> TrackedRun:
        """Start a run for the worker of a rank. Raises TrackingError."""

    @abstractmethod
    def run(self, run_id: str) -> TrackedRun:
        """Return a run. Raises TrackingError."""

    def run_of_values(self, run_id: str) -> TrackedRun:
        """Return what `add_points` needs of a run. Raises TrackingError."""
        return self.run(run_id)

    @abstractmethod
    def runs_of(self, experiment_ids: Collection[str]) -> Iterable[TrackedRun]:
        """Return the runs of these experiments, deleted ones too. Raises TrackingError."""

    @abstractmethod
    def add_points(self, run: TrackedRun, points: Iterable[TrackedPoint]) -> None:
        """Take points, those that a repeated request repeats left out. Raises TrackingError."""

    @abstractmethod
    def history(self, run: TrackedRun, key: str) -> list[TrackedPoint]:
        """Return all points of a metric. Raises TrackingError if there are too many."""

    @abstractmethod
    def changed(self, change: RunChange) -> None:
        """Keep what is new of a run. Raises TrackingError."""

    @abstractmethod
    def warn(self, text: str) -> None:
        """Tell, in a sentence, what was left out; each sentence comes once."""

    def refuse_location(self, location: str) -> None:
        """Refuse to put an experiment's artifacts where a client wants them. Raises TrackingError."""
        raise invalid(
            f"artifact_location cannot be {location[:250]!r}: Muster keeps the artifacts of its runs. "
            "Leave it out"
        )

    # ------------------------------------------------------------ runs

    def update_run(self, body: Mapping[str, Any], run: TrackedRun) -> None:
        status = body.get("status")
        if status not in (None, "", *STATUSES):
            raise invalid(f"status is {status!r}; it must be one of {', '.join(STATUSES)}")
        run.status = status or run.status
        ended = whole_of(body.get("end_time"))
        if ended:
            run.ended_ms = ended
        elif run.status in ("RUNNING", "SCHEDULED"):
            run.ended_ms = None
        tags = {}
        if name := str(body.get("run_name") or "")[:500]:
            run.name = name
            tags = {NAME_TAG: name}
            run.tags.update(tags)
        self.changed(RunChange(run=run, tags=tags))

    def set_stage(self, run: TrackedRun, stage: str) -> None:
        run.stage = stage
        self.changed(RunChange(run=run))

    # ------------------------------------------------------------ values

    def log(self, body: Mapping[str, Any], run: TrackedRun) -> None:
        """Take a batch of metrics, params and tags: all of it, or after an error nothing."""
        metrics = items_of(body, "metrics", BATCH_METRICS_MAX)
        params = items_of(body, "params", BATCH_PARAMS_MAX)
        tags = items_of(body, "tags", BATCH_TAGS_MAX)
        items_of({"items": [*metrics, *params, *tags]}, "items", BATCH_ITEMS_MAX)
        points = self._points_of(metrics)
        new_params = self._checked_params(run, [self.pair(item, "param") for item in params])
        self.set(run, new_params, dict(self.pair(item, "tag") for item in tags))
        self.add_points(run, points)

    def add_values(self, run_id: str, metrics: Iterable[Any]) -> None:
        """Take metrics as requests state them, and nothing else of a run. Raises TrackingError."""
        run = self.run_of_values(run_id)
        self.add_points(run, self._points_of(metrics))

    def _points_of(self, metrics: Iterable[Any]) -> list[TrackedPoint]:
        """Return the points that metrics state; one that cannot be stored is left out and told."""
        now_ms = self.now_ms()
        points = []
        for item in metrics:
            point = point_of(item, on_bad=self._warn_once, now_ms=now_ms)
            if point is None:
                continue
            points.append(point)
            if point.step == 0 and 0 < point.time_ms < TIME_MIN_MS:
                self._num_early[point.key] += 1
                if self._num_early[point.key] == EARLY_MIN:
                    self._warn_once(
                        f"The metric {point.key!r} has several values at step 0, with times in 1970: "
                        "log_metric(run_id, key, value, timestamp, step) takes the time first. Write "
                        "step=…"
                    )
        return points

    def pair(self, item: Any, what: str) -> tuple[str, str]:
        """Return the key and the text of a param or tag; too long a text is cut and told."""
        return pair_of(item, what, on_cut=self._warn_once)

    def log_param(self, body: Mapping[str, Any], run: TrackedRun) -> None:
        self.set(run, self._checked_params(run, [self.pair(body, "param")]), {})

    def set(self, run: TrackedRun, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Keep params and tags, as many as a run may have."""
        params = self._fitting(run, "params", run.params, params, PARAMS_MAX)
        tags = self._fitting(run, "tags", run.tags, tags, TAGS_MAX)
        if not params and not tags:
            return
        run.params.update(params)
        run.tags.update(tags)
        run.name = tags.get(NAME_TAG) or run.name
        self.changed(RunChange(run=run, params=params, tags=tags))

    def delete_tag(self, run: TrackedRun, key: str) -> None:
        if key not in run.tags:
            raise missing(f"No tag with name: {key[:250]} in run with id {run.run_id}")
        del run.tags[key]
        self.changed(RunChange(run=run, removed_tags=(key,)))

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    # ------------------------------------------------------------ helpers

    def _checked_params(self, run: TrackedRun, params: Iterable[tuple[str, str]]) -> dict[str, str]:
        new: dict[str, str] = {}
        for key, value in params:
            before = run.params.get(key, new.get(key))
            if before is not None and before != value and IMPORT_TAG not in run.tags:
                raise invalid(
                    "Changing param values is not allowed. Param with "
                    f"key='{key}' was already logged with value='{before[:250]}' for run "
                    f"ID='{run.run_id}'. Attempted logging new value '{value[:250]}'."
                )
            if before != value:
                new[key] = value
        return new

    def _fitting(
        self,
        run: TrackedRun,
        what: str,
        known: Mapping[str, str],
        new: Mapping[str, str],
        limit: int,
    ) -> dict[str, str]:
        room = limit - len(known)
        found = {}
        for key, value in new.items():
            if key not in known:
                if room <= 0:
                    self._warn_once(
                        f"The run {run.name!r} has more than {limit} {what}: the first {limit} are "
                        "kept."
                    )
                    continue
                room -= 1
            found[key] = value
        return found

    def _warn_once(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < WARNINGS_MAX:
            self._warned.add(text)
            self.warn(text)


def already_exists(name: str) -> TrackingError:
    return TrackingError(
        400, "RESOURCE_ALREADY_EXISTS", f"Experiment(name={name[:250]}) already exists."
    )
