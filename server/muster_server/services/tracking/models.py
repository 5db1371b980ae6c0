"""Models that clients of MLflow 3 log for unmanaged runs."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.tracking import LoggedModel, ModelShelf, invalid
from muster_server.db.models import ExperimentRow, LoggedModelRow, TrialRow

from .artifacts import remove_model
from .store import DatabaseStore

MODELS_PER_RUN_MAX = 1_000
MODELS_SEARCHED_MAX = 20_000


class DatabaseShelf(ModelShelf):
    def __init__(self, session: Session, store: DatabaseStore) -> None:
        super().__init__(store.run, trial="")
        self._session = session
        self._store = store

    def find(self, model_id: str) -> LoggedModel | None:
        row = self._row(model_id)
        return None if row is None else LoggedModel(**row.model)

    def source_of(self, body: Mapping[str, Any], name: str) -> str:
        """Return the run of a model; one that was logged without gets a run of its own, which ends
        at once."""
        if source := super().source_of(body, name):
            return source
        asked = {"experiment_id": body.get("experiment_id"), "run_name": name}
        run = self._store.create_run(asked, rank=0)
        self._store.update_run({"status": "FINISHED", "end_time": self._store.now_ms()}, run)
        return run.run_id

    def place(self, name: str, source_run_id: str) -> tuple[str, str]:
        _, trial = self._store.rows_of(source_run_id)
        query = select(func.count()).where(LoggedModelRow.trial_id == trial.id)
        if (self._session.scalar(query) or 0) >= MODELS_PER_RUN_MAX:
            raise invalid(f"a run can log at most {MODELS_PER_RUN_MAX:,} models")
        model_id = f"m-{uuid.uuid4().hex}"
        return model_id, f"models/{model_id}"

    def keep(self, model: LoggedModel) -> None:
        # A model is its run's, and only who may change that may change it.
        _, trial = self._store.rows_of(model.source_run_id)
        row = self._row(model.model_id)
        if row is None:
            row = LoggedModelRow(
                model_id=model.model_id,
                trial_id=trial.id,
                tracking_experiment_id=int(self._store.run(model.source_run_id).experiment_id)
                or None,
            )
            self._session.add(row)
        row.model = dataclasses.asdict(model)

    def remove(self, model: LoggedModel) -> None:
        run, _ = self._store.rows_of(model.source_run_id)
        remove_model(self._session, run, model.model_id)
        self._session.delete(self._row(model.model_id))

    def of(self, experiment_ids: Collection[str]) -> list[LoggedModel]:
        wanted = [int(n) for n in experiment_ids if n.isdecimal() and len(n) <= 18]
        number = func.coalesce(LoggedModelRow.tracking_experiment_id, 0)
        rows = self._session.scalars(
            select(LoggedModelRow)
            .join(TrialRow, TrialRow.id == LoggedModelRow.trial_id)
            .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
            .where(number.in_(wanted), ExperimentRow.deleting_at.is_(None))
            .order_by(LoggedModelRow.id)
            .limit(MODELS_SEARCHED_MAX + 1)
        ).all()
        if len(rows) > MODELS_SEARCHED_MAX:
            raise invalid(
                f"these experiments have more than {MODELS_SEARCHED_MAX:,} models, more than one "
                "search looks at: name fewer experiments"
            )
        return [LoggedModel(**row.model) for row in rows]

    def _row(self, model_id: str) -> LoggedModelRow | None:
        query = select(LoggedModelRow).where(LoggedModelRow.model_id == model_id)
        return self._session.scalars(query).one_or_none()
