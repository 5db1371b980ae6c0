"""MLflow's tracking API over the database: each run is an unmanaged experiment of one trial."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster.run_names import shown_name
from muster.series_rules import clean_name
from muster.tracking import (
    BATCH_ITEMS_MAX,
    DEFAULT_EXPERIMENT,
    HISTORY_POINTS_MAX,
    IMPORT_TAG,
    NAME_TAG,
    PARENT_TAG,
    TIME_MIN_MS,
    RunChange,
    TrackedExperiment,
    TrackedPoint,
    TrackedRun,
    TrackingError,
    TrackingStore,
    already_exists,
    invalid,
    items_of,
    missing,
    series_name,
    whole_of,
)
from muster.wire import decode_number
from muster_server.db.engine import touch
from muster_server.db.models import (
    ExperimentRow,
    TrackedRunRow,
    TrackingExperimentRow,
    TrialRow,
    UnmanagedRunRow,
)
from muster_server.db.sight import is_hidden
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.errors import Forbidden
from muster_server.security.principal import Principal

from ..core.callers import Caller
from ..core.events import add_event
from ..core.ownership import is_in_charge, require_charge
from ..core.texts import storable
from ..experiments.submission import MAX_LABELS
from ..metrics.export import stored_points
from . import run_points, unmanaged
from .run_points import KeptRun, MetricProgress

RUNS_SEARCHED_MAX = 20_000
"""Most runs that one search looks at."""
EXPERIMENTS_MAX = 10_000
CLIENT_TAG = "muster.client"
"""Client that the run comes from, where it is not MLflow's own."""
PROJECT_TAG = "muster.project"
"""Tag of an experiment: the project of its runs."""
EXPERIMENT_LABEL = "mlflow.experiment"
NOTE_TAG = "mlflow.note.content"
NOTES_MAX_CHARS = 100_000
_OWN_TAGS = ("mlflow.", "muster.")
_CLIENTS = ("mlflow", "wandb")
_LABEL_KEY_MAX, _LABEL_MAX, _NAME_MAX = 64, 256, 200
_AT_MAX_MS = 253_402_300_799_000


@dataclass
class _Rows:
    """What is kept of one run."""

    run: UnmanagedRunRow
    tracked: TrackedRunRow
    trial: TrialRow
    experiment: ExperimentRow


class DatabaseStore(TrackingStore):
    """The runs that users' clients report, within the caller's transaction."""

    def __init__(self, session: Session, caller: Caller, *, writes: bool) -> None:
        """Create the store for one request.

        writes: whether the request changes anything; runs it names are then locked, and must be the
        caller's own."""
        super().__init__(clock=caller.now.timestamp)
        self._session = session
        self._caller = caller
        self._writes = writes
        self._rows: dict[str, _Rows] = {}
        self._kept: dict[str, KeptRun | None] = {}
        self._warnings: list[str] = []

    # ------------------------------------------------------------ experiments

    def experiment(self, number: str) -> TrackedExperiment:
        if number.isdecimal() and len(number) <= 18:
            row = self._session.get(TrackingExperimentRow, int(number))
            if row is not None:
                return _experiment(row)
        if number == "0":
            return _default()
        raise missing(f"No Experiment with id={number[:40]} exists")

    def experiment_named(self, name: str) -> TrackedExperiment:
        query = select(TrackingExperimentRow).where(TrackingExperimentRow.name == name)
        row = self._session.scalars(query).one_or_none()
        if row is not None:
            return _experiment(row)
        if name == DEFAULT_EXPERIMENT:
            return self.experiment("0")
        raise missing(f"Could not find experiment with name '{name[:250]}'")

    def experiments(self) -> Collection[TrackedExperiment]:
        query = select(TrackingExperimentRow).limit(EXPERIMENTS_MAX + 1)
        found = [_experiment(row) for row in self._session.scalars(query)]
        if all(experiment.experiment_id != "0" for experiment in found):
            found.append(_default())
        return found

    def create_experiment(self, name: str, tags: Mapping[str, str]) -> TrackedExperiment:
        if name == DEFAULT_EXPERIMENT:
            raise already_exists(name)
        if len(self.experiments()) > EXPERIMENTS_MAX:
            raise invalid(f"there can be at most {EXPERIMENTS_MAX} experiments")
        row = TrackingExperimentRow(
            name=name,
            owner_id=self._caller.principal.user_id,
            stage="active",
            tags=dict(tags),
            created_at=self._caller.now,
            updated_at=self._caller.now,
        )
        try:
            with self._session.begin_nested():
                self._session.add(row)
        except IntegrityError:
            raise already_exists(name) from None
        return _experiment(row)

    def save_experiment(self, experiment: TrackedExperiment) -> None:
        number = int(experiment.experiment_id)
        row = self._session.get(TrackingExperimentRow, number, with_for_update=True)
        if number == 0 and (experiment.stage == "deleted" or experiment.name != DEFAULT_EXPERIMENT):
            raise invalid(f"The experiment {DEFAULT_EXPERIMENT} can be neither deleted nor renamed")
        if row is None:
            row = TrackingExperimentRow(id=number, owner_id=None, created_at=self._caller.now)
            self._session.add(row)
        elif number != 0 and not is_in_charge(self._caller.principal, row.owner_id):
            raise _not_yours(self._caller.principal, experiment.name)
        row.stage, row.tags = experiment.stage, dict(experiment.tags)
        row.updated_at = self._caller.now
        try:
            with self._session.begin_nested():
                row.name = experiment.name
        except IntegrityError:
            raise already_exists(experiment.name) from None

    # ------------------------------------------------------------ runs

    def create_run(self, body: Mapping[str, Any], *, rank: int) -> TrackedRun:
        experiment = self.experiment(str(body.get("experiment_id") or "0"))
        if experiment.stage != "active":
            raise invalid(
                f"The experiment {experiment.experiment_id} must be in the 'active' state. Current "
                f"state is {experiment.stage}."
            )
        tags = dict(self.pair(tag, "tag") for tag in items_of(body, "tags", BATCH_ITEMS_MAX))
        if PARENT_TAG in tags and self._load(tags[PARENT_TAG]) is not None:
            self.run(tags[PARENT_TAG])  # One of another user is refused, one elsewhere is not.
        imported = tags.get(IMPORT_TAG)
        run_id = uuid.uuid4().hex
        if imported is not None:
            whose = f"muster:import/{self._caller.principal.user_id}/{imported}"
            run_id = uuid.uuid5(uuid.NAMESPACE_URL, whose).hex
            if self._load(run_id) is not None:
                return self.run(run_id)
        given = str(body.get("run_name") or tags.get(NAME_TAG) or "")[:500]
        name = given or f"run-{run_id[:8]}"
        run = TrackedRun(
            run_id=run_id,
            experiment_id=experiment.experiment_id,
            label="",
            folder="",
            name=name,
            user=str(body.get("user_id") or "")[:250],
            started_ms=whole_of(body.get("start_time")) or self.now_ms(),
            tags={**tags, NAME_TAG: name},
        )
        labels = (
            {} if experiment.name == DEFAULT_EXPERIMENT else {EXPERIMENT_LABEL: experiment.name}
        )
        client = tags.get(CLIENT_TAG, "")
        trial = unmanaged.create(
            self._session,
            name=_one_line(name),
            project=experiment.tags.get(PROJECT_TAG, "default"),
            labels=_labels(labels),
            notes="",
            client=client if client in _CLIENTS else "mlflow",
            caller=self._caller,
        )
        started_at = _at(run.started_ms, self._caller.now)
        trial.started_at = started_at
        whole = self._session.get_one(ExperimentRow, trial.experiment_id)
        whole.started_at = started_at
        row = UnmanagedRunRow(
            trial_id=trial.id,
            run_id=run_id,
            tracking_experiment_id=int(experiment.experiment_id) or None,
            user=run.user,
            latest={},
            datasets=[],
            models=[],
            num_artifacts=0,
            artifact_bytes=0,
        )
        tracked = TrackedRunRow(
            trial_id=trial.id,
            run_id=run_id,
            attempt_no=0,
            label="",
            folder="",
            name=storable(name),
            parent_run_id="",
            status="RUNNING",
            started_at=started_at,
            params={},
            tags={},
        )
        self._session.add_all([row, tracked])
        self._rows[run_id] = _Rows(row, tracked, trial, whole)
        self.changed(RunChange(run=run, is_new=True, tags=run.tags))
        return run

    def run(self, run_id: str) -> TrackedRun:
        rows = self._load(run_id)
        if rows is None:
            raise _no_run(run_id)
        if self._writes:
            require_charge(self._session, self._caller.principal, rows.experiment)
            rows.trial.heard_at = self._caller.now
        return _run(rows.run, rows.tracked, rows.experiment)

    def run_of_values(self, run_id: str) -> TrackedRun:
        kept = self._kept[run_id] = run_points.locked(self._session, run_id)
        if kept is None or is_hidden(kept.experiment.project_id):
            raise _no_run(run_id)
        require_charge(self._session, self._caller.principal, kept.experiment)
        return TrackedRun(
            run_id=run_id,
            experiment_id="",
            label="",
            folder="",
            name="",
            user="",
            started_ms=kept.started_ms,
            stage=_stage(kept.archived_at),
        )

    def rows_of(self, run_id: str) -> tuple[UnmanagedRunRow, TrialRow]:
        """Return the rows of a run. Raises TrackingError, and Forbidden to write to another's."""
        self.run(run_id)
        return self._rows[run_id].run, self._rows[run_id].trial

    def runs_of(self, experiment_ids: Collection[str]) -> Iterable[TrackedRun]:
        wanted = [int(n) for n in experiment_ids if n.isdecimal() and len(n) <= 18]
        number = func.coalesce(UnmanagedRunRow.tracking_experiment_id, 0)
        rows = self._session.execute(
            _query().where(number.in_(wanted)).order_by(UnmanagedRunRow.trial_id.desc())
            .limit(RUNS_SEARCHED_MAX + 1)
        ).all()  # fmt: skip
        if len(rows) > RUNS_SEARCHED_MAX:
            raise invalid(
                f"these experiments have more than {RUNS_SEARCHED_MAX:,} runs, more than one search "
                "looks at: name fewer experiments"
            )
        return [_run(run, tracked, experiment) for run, tracked, _, experiment in rows]

    def changed(self, change: RunChange) -> None:
        run, rows = change.run, self._rows[change.run.run_id]
        tracked, trial, experiment = rows.tracked, rows.trial, rows.experiment
        before = "RUNNING" if change.is_new else tracked.status
        tracked.name, tracked.status = storable(run.name), run.status
        tracked.parent_run_id = run.parent_id[:64]
        tracked.ended_at = None
        if run.status in unmanaged.ENDS:
            tracked.ended_at = _at(run.ended_ms or self.now_ms(), self._caller.now)
        if change.is_new or change.params:
            tracked.params = _cleaned(run.params)
            new = {key: parsed(value) for key, value in _cleaned(change.params).items()}
            trial.hparams = {**trial.hparams, **new}
        if change.is_new or change.tags or change.removed_tags:
            tracked.tags = _cleaned(run.tags)
            experiment.name = _one_line(run.name)
            experiment.labels = self._relabeled(experiment.labels, change)
            if NOTE_TAG in change.tags:
                experiment.notes = storable(change.tags[NOTE_TAG], NOTES_MAX_CHARS)
        rows.run.datasets, rows.run.models = list(run.datasets), list(run.models)
        is_deleted = run.stage == "deleted"
        if is_deleted != (experiment.archived_at is not None):
            experiment.archived_at = self._caller.now if is_deleted else None
        self._session.flush()
        if run.status != before:
            self._set_status(rows, run)
        topics = ("experiments", f"experiment:{experiment.id}", f"trial:{trial.id}")
        touch(self._session, *topics)

    def _set_status(self, rows: _Rows, run: TrackedRun) -> None:
        is_over = rows.trial.state in TERMINAL_TRIAL
        if run.status in unmanaged.ENDS:
            if is_over:
                unmanaged.reopen(self._session, rows.trial, self._caller.now)
            unmanaged.end(self._session, rows.trial, run.status, self._caller.now)
            self._session.refresh(rows.trial)
            rows.trial.ended_at = max(
                rows.tracked.ended_at or self._caller.now, rows.trial.started_at or self._caller.now
            )
        elif is_over:
            unmanaged.reopen(self._session, rows.trial, self._caller.now)

    def _relabeled(self, labels: Mapping[str, Any], change: RunChange) -> dict[str, Any]:
        """Return labels with what is new of the tags; those that somebody set here stay."""
        kept = {key: value for key, value in labels.items() if key not in change.removed_tags}
        new = {k: v for k, v in change.tags.items() if not k.startswith(_OWN_TAGS)}
        for key, value in _labels(_cleaned(new)).items():
            if key in kept or len(kept) < MAX_LABELS:
                kept[key] = value
        return kept

    # ------------------------------------------------------------ values

    def add_points(self, run: TrackedRun, points: Iterable[TrackedPoint]) -> None:
        if run.stage == "deleted":
            raise invalid(
                f"The run {run.run_id} must be in the 'active' state. Current state is deleted."
            )
        kept = self._kept.get(run.run_id)
        if kept is None:
            self._session.flush()
            kept = self._kept[run.run_id] = run_points.locked(self._session, run.run_id)
        if kept is None:
            raise _no_run(run.run_id)
        run_points.store(self._session, kept, points, at=self._caller.now, warn=self.warn)

    def history(self, run: TrackedRun, key: str) -> list[TrackedPoint]:
        rows = self._rows[run.run_id]
        if key not in rows.run.latest:
            return []
        progress, name = MetricProgress.of(rows.run.latest[key]), series_name("", key)
        trial = rows.trial
        runs = [
            clean_name(shown_name(name, progress.owner, number))
            for number in range(progress.owner, progress.number + 1)
        ]
        count = sum(trial.summary.get(name, {}).get("count", 0) for name in runs)
        if count > HISTORY_POINTS_MAX:
            raise invalid(
                f"{key!r} has {count:,} points, and at most {HISTORY_POINTS_MAX:,} can be read this "
                f"way: GET /api/v1/trials/{trial.id}/series.jsonl returns all of them"
            )
        return [
            TrackedPoint(key, *row)
            for name in runs
            if name in trial.summary
            for part in stored_points(self._session, trial.id, name)
            for row in run_points.rows_of(part)
        ]

    def warn(self, text: str) -> None:
        self._warnings.append(text)

    def close(self) -> None:
        """Tell what was left out, as events of the trial that the request was about."""
        about = [(rows.trial.experiment_id, rows.trial.id) for rows in self._rows.values()]
        about += [(kept.experiment.id, kept.trial_id) for kept in self._kept.values() if kept]
        if not about:
            return
        experiment_id, trial_id = about[-1]
        for text in self._warnings:
            add_event(
                self._session,
                "trial.message",
                text,
                now=self._caller.now,
                level="warning",
                experiment_id=experiment_id,
                trial_id=trial_id,
            )

    # ------------------------------------------------------------ rows

    def _load(self, run_id: str) -> _Rows | None:
        if run_id in self._rows:
            return self._rows[run_id]
        if self._writes:
            # The trial first: the order in which everybody locks.
            trial_id = self._session.scalar(
                select(UnmanagedRunRow.trial_id).where(UnmanagedRunRow.run_id == run_id)
            )
            if trial_id is not None:
                self._session.get(TrialRow, trial_id, with_for_update=True)
        found = self._session.execute(
            _query().where(UnmanagedRunRow.run_id == run_id)
        ).one_or_none()
        if found is None:
            return None
        self._rows[run_id] = _Rows(*found)
        return self._rows[run_id]


def parsed(text: str) -> int | float | bool | str:
    """Return the value of a param as hyperparameters have it: numbers as such, so that charts can
    use them, and any other text as it is."""
    if text in ("True", "False"):
        return text == "True"
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        return number if abs(number) < 2**53 else text
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def _query() -> Select[UnmanagedRunRow, TrackedRunRow, TrialRow, ExperimentRow]:
    return (
        select(UnmanagedRunRow, TrackedRunRow, TrialRow, ExperimentRow)
        .join(TrackedRunRow, TrackedRunRow.trial_id == UnmanagedRunRow.trial_id)
        .join(TrialRow, TrialRow.id == UnmanagedRunRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(ExperimentRow.deleting_at.is_(None))
    )


def _run(row: UnmanagedRunRow, tracked: TrackedRunRow, experiment: ExperimentRow) -> TrackedRun:
    return TrackedRun(
        run_id=row.run_id,
        experiment_id=str(row.tracking_experiment_id or 0),
        label="",
        folder="",
        name=tracked.name,
        user=row.user,
        status=tracked.status,
        stage=_stage(experiment.archived_at),
        started_ms=_ms(tracked.started_at),
        ended_ms=None if tracked.ended_at is None else _ms(tracked.ended_at),
        params=dict(tracked.params),
        tags=dict(tracked.tags),
        latest={
            key: TrackedPoint(key, int(step), int(time_ms), decode_number(value))
            for key, (step, time_ms, value, *_) in row.latest.items()
        },
        datasets=list(row.datasets),
        models=list(row.models),
    )


def _experiment(row: TrackingExperimentRow) -> TrackedExperiment:
    return TrackedExperiment(
        experiment_id=str(row.id),
        name=row.name,
        created_ms=_ms(row.created_at),
        updated_ms=_ms(row.updated_at),
        stage=row.stage,
        tags=dict(row.tags),
    )


def _default() -> TrackedExperiment:
    return TrackedExperiment(experiment_id="0", name=DEFAULT_EXPERIMENT, created_ms=0, updated_ms=0)


def _no_run(run_id: str) -> TrackingError:
    return missing(f"Run with id={run_id[:64]} not found")


def _stage(archived_at: dt.datetime | None) -> str:
    return "active" if archived_at is None else "deleted"


def _not_yours(principal: Principal, name: str) -> Forbidden:
    return Forbidden(
        "experiments.not_yours",
        f"The experiment {name[:250]!r} was not created by {principal.name}; its owner and "
        "administrators may change it.",
    )


def _labels(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that can be labels: what is longer stays a tag."""
    return {k: v for k, v in tags.items() if len(k) <= _LABEL_KEY_MAX and len(v) <= _LABEL_MAX}


def _one_line(name: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in storable(name)).strip()
    return shown[:_NAME_MAX].strip() or "run"


def _cleaned(pairs: Mapping[str, str]) -> dict[str, str]:
    return {storable(key): storable(value) for key, value in pairs.items()}


def _at(unix_ms: int, now: dt.datetime) -> dt.datetime:
    if not TIME_MIN_MS <= unix_ms <= _AT_MAX_MS:
        return now
    return dt.datetime.fromtimestamp(unix_ms / 1000, dt.UTC)


def _ms(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)
