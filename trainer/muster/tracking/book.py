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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.wire import decode_number, encode_number

from .errors import TrackingError, invalid, missing
from .values import (
    BATCH_ITEMS_MAX,
    BATCH_METRICS_MAX,
    BATCH_PARAMS_MAX,
    BATCH_TAGS_MAX,
    TrackedPoint,
    items_of,
    pair_of,
    point_of,
    whole_of,
)

RUNS_MAX = 5_000
"""Most runs of one attempt."""
PARAMS_MAX = 2_000
TAGS_MAX = 500
"""Most params and tags of one run. Further ones are left out, which `TrackingBook.warn` tells."""
HISTORY_POINTS_MAX = 500_000
"""Most points in memory for reading back in the job; the trial's series have all of them."""
RECENT_POINTS_MAX = 20_000
"""Number of points within which a repeated request is recognized."""
LABEL_MAX_CHARS = 80
DATASETS_MAX = 100
STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")

PARENT_TAG = "mlflow.parentRunId"
NAME_TAG = "mlflow.runName"
MODELS_TAG = "mlflow.log-model.history"

_UNFIT = re.compile(r"[^\w.\-]+")


@dataclass(kw_only=True)
class TrackedRun:
    run_id: str
    experiment_id: str
    label: str
    """Beginning of its metrics' names; "" for the run that stands for the trial."""
    folder: str
    """Folder of its artifacts, relative to that of all runs."""
    name: str
    rank: int = 0
    user: str = ""
    status: str = "RUNNING"
    stage: str = "active"
    started_ms: int = 0
    ended_ms: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    latest: dict[str, TrackedPoint] = field(default_factory=dict)
    datasets: list[Any] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)

    @property
    def parent_id(self) -> str:
        return self.tags.get(PARENT_TAG, "")

    @property
    def artifact_uri(self) -> str:
        return f"mlflow-artifacts:/{self.experiment_id}/{self.run_id}/artifacts"

    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run_id": self.run_id,
            "run_uuid": self.run_id,
            "run_name": self.name,
            "experiment_id": self.experiment_id,
            "user_id": self.user,
            "status": self.status,
            "start_time": self.started_ms,
            "artifact_uri": self.artifact_uri,
            "lifecycle_stage": self.stage,
        }
        return found if self.ended_ms is None else {**found, "end_time": self.ended_ms}

    def shown(self) -> dict[str, Any]:
        return {
            "info": self.info(),
            "data": {
                "metrics": [_metric(point) for point in self.latest.values()],
                "params": _pairs(self.params),
                "tags": _pairs(self.tags),
            },
            "inputs": {"dataset_inputs": self.datasets},
            "outputs": {"model_outputs": self.models},
        }


@dataclass(frozen=True, kw_only=True)
class RunChange:
    """What is new of a run since the last change."""

    run: TrackedRun
    is_new: bool = False
    """Whether it starts afresh: nothing that was known of a run with this id holds any more."""
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    removed_tags: tuple[str, ...] = ()


class TrackingBook:
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
        warn: takes a sentence about what was left out; each is told once.
        trial_name: name of a run without one.
        recall: returns a run of an earlier attempt by its id.
        """
        self._trial = uuid.uuid5(uuid.NAMESPACE_URL, f"muster:{trial}")
        self._points = points
        self._changed = changed
        self._warn = warn
        self._warned: set[str] = set()
        self._trial_name = trial_name
        self._recall = recall
        self._clock = clock
        self._folders: set[str] = set()
        self._labels: set[str] = set()
        self._history: dict[tuple[str, str], tuple[array[int], array[int], array[float]]] = {}
        self._num_history = 0
        # A dict would look for its first key among all those deleted before.
        self._recent: OrderedDict[tuple[str, str, int, int, float | int | str], None] = (
            OrderedDict()
        )
        self.runs: dict[str, TrackedRun] = {}
        self.experiments: dict[str, dict[str, Any]] = {}
        self._created: set[str] = set()
        self.experiment_of("Default")

    # ------------------------------------------------------------ experiments

    def experiment_of(self, name: str) -> dict[str, Any]:
        """Return the experiment of this name: every name is one of the same trial."""
        number = "0" if name == "Default" else str(uuid.uuid5(self._trial, name).int % 10**15)
        return self._experiment(number, name)

    def experiment_by_id(self, number: str) -> dict[str, Any]:
        """Return the experiment with this number. Raises TrackingError."""
        if number not in self.experiments and not (number.isdecimal() and len(number) <= 18):
            raise missing(f"No Experiment with id={number[:40]} exists")
        return self._experiment(number, f"experiment {number}")

    def create_experiment(self, name: str, tags: Iterable[Any]) -> str:
        """Create an experiment and return its number. Raises TrackingError if it was created."""
        experiment = self.experiment_of(name)
        if name in self._created or name == "Default":
            raise TrackingError(
                400, "RESOURCE_ALREADY_EXISTS", f"Experiment(name={name}) already exists."
            )
        self._created.add(name)
        experiment["tags"] += [{"key": k, "value": v} for k, v in (pair_of(t, "tag") for t in tags)]
        return str(experiment["experiment_id"])

    def _experiment(self, number: str, name: str) -> dict[str, Any]:
        if number not in self.experiments:
            if len(self.experiments) >= RUNS_MAX:
                raise invalid(f"a job can have at most {RUNS_MAX} experiments")
            now_ms = self.now_ms()
            self.experiments[number] = {
                "experiment_id": number,
                "name": name,
                "artifact_location": f"mlflow-artifacts:/{number}",
                "lifecycle_stage": "active",
                "creation_time": now_ms,
                "last_update_time": now_ms,
                "tags": [],
            }
        return self.experiments[number]

    # ------------------------------------------------------------ runs

    def create_run(self, body: Mapping[str, Any], *, rank: int) -> TrackedRun:
        """Start a run for the worker of a rank. Raises TrackingError."""
        if len(self.runs) >= RUNS_MAX:
            raise invalid(f"a job can have at most {RUNS_MAX} runs in one attempt")
        experiment = self.experiment_by_id(str(body.get("experiment_id") or "0"))
        tags = dict(self.pair(tag, "tag") for tag in items_of(body, "tags", BATCH_ITEMS_MAX))
        name = str(body.get("run_name") or tags.get(NAME_TAG) or "")[:500]
        stands_for_trial = (
            rank == 0 and PARENT_TAG not in tags and all(run.label for run in self.runs.values())
        )
        if PARENT_TAG in tags:
            self.run(tags[PARENT_TAG])
        label = "" if stands_for_trial else self._new_label(name, rank)
        name = name or label or self._trial_name
        run = TrackedRun(
            run_id=self._id_of(label),
            experiment_id=str(experiment["experiment_id"]),
            label=label,
            folder=self._new_folder(label or name),
            name=name,
            rank=rank,
            user=str(body.get("user_id") or "")[:250],
            started_ms=whole_of(body.get("start_time")) or self.now_ms(),
            tags={**tags, NAME_TAG: name},
        )
        self.runs[run.run_id] = run
        self._changed(RunChange(run=run, is_new=True, tags=run.tags))
        return run

    def run(self, run_id: str) -> TrackedRun:
        """Return a run, of this attempt or an earlier one. Raises TrackingError."""
        found = self.runs.get(run_id)
        if found is None and (found := self._recall(run_id) or self._resumed(run_id)) is not None:
            self.runs[run_id] = found
            self._folders.add(found.folder)
            self._labels.add(found.label)
            self._changed(RunChange(run=found))
        if found is None:
            raise missing(f"Run with id={run_id[:64]} not found")
        return found

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
        self._changed(RunChange(run=run, tags=tags))

    def set_stage(self, run: TrackedRun, stage: str) -> None:
        run.stage = stage
        self._changed(RunChange(run=run))

    # ------------------------------------------------------------ values

    def log(self, body: Mapping[str, Any], run: TrackedRun) -> None:
        """Take a batch of metrics, params and tags: all of it, or after an error nothing."""
        metrics = items_of(body, "metrics", BATCH_METRICS_MAX)
        params = items_of(body, "params", BATCH_PARAMS_MAX)
        tags = items_of(body, "tags", BATCH_TAGS_MAX)
        items_of({"items": [*metrics, *params, *tags]}, "items", BATCH_ITEMS_MAX)
        points = [point_of(item) for item in metrics]
        new_params = self._checked_params(run, [self.pair(item, "param") for item in params])
        self.set(run, new_params, dict(self.pair(item, "tag") for item in tags))
        self.add_points(run, points)

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
        self._changed(RunChange(run=run, params=params, tags=tags))

    def delete_tag(self, run: TrackedRun, key: str) -> None:
        if key not in run.tags:
            raise missing(f"No tag with name: {key[:250]} in run with id {run.run_id}")
        del run.tags[key]
        self._changed(RunChange(run=run, removed_tags=(key,)))

    def add_points(self, run: TrackedRun, points: Iterable[TrackedPoint]) -> None:
        """Take points, those that a repeated request repeats left out."""
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

    def history(self, run: TrackedRun, key: str) -> list[dict[str, Any]]:
        """Return all points of a metric, in the order they came."""
        if (run.run_id, key) not in self._history:
            return [_metric(run.latest[key])] if key in run.latest else []
        if self._num_history >= HISTORY_POINTS_MAX:
            raise invalid(
                f"a job can read back its first {HISTORY_POINTS_MAX} points only; the trial's "
                "series in Muster have all of them"
            )
        columns = self._history[run.run_id, key]
        return [_metric(TrackedPoint(key, *row)) for row in zip(*columns, strict=True)]

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

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

    def _checked_params(self, run: TrackedRun, params: Iterable[tuple[str, str]]) -> dict[str, str]:
        new: dict[str, str] = {}
        for key, value in params:
            before = run.params.get(key, new.get(key))
            if before is not None and before != value:
                raise invalid(
                    "Changing param values is not allowed. Param with "
                    f"key='{key}' was already logged with value='{before[:250]}' for run "
                    f"ID='{run.run_id}'. Attempted logging new value '{value[:250]}'."
                )
            if before is None:
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
        if text not in self._warned and len(self._warned) < RUNS_MAX:
            self._warned.add(text)
            self._warn(text)

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


def run_to_json(run: TrackedRun) -> dict[str, Any]:
    """Return what a later attempt needs to go on with a run."""
    shown = {k: v for k, v in vars(run).items() if k != "latest"}
    latest = [[p.key, p.step, p.time_ms, encode_number(p.value)] for p in run.latest.values()]
    return {**shown, "latest": latest}


def run_from_json(value: Mapping[str, Any]) -> TrackedRun:
    """Return the run of `run_to_json`. Raises ValueError, KeyError and TypeError."""
    latest = {
        str(key): TrackedPoint(str(key), int(step), int(at), decode_number(number))
        for key, step, at, number in value["latest"]
    }
    run = TrackedRun(**{**value, "latest": latest})
    texts = (run.run_id, run.experiment_id, run.label, run.folder, run.name, run.user, run.status)
    if not all(isinstance(text, str) for text in texts) or run.status not in STATUSES:
        raise ValueError("not a run")
    for pairs in (run.params, run.tags):
        if not all(isinstance(v, str) for pair in pairs.items() for v in pair):
            raise ValueError("not params and tags")
    return run


def _unused(name: str, used: set[str]) -> str:
    found, no = name, 1
    while found in used:
        no += 1
        found = f"{name}-{no}"
    return found


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _metric(point: TrackedPoint) -> dict[str, Any]:
    return {
        "key": point.key,
        "value": encode_number(point.value),
        "timestamp": point.time_ms,
        "step": point.step,
    }
