"""The sentence of a failure, completed when the missing file was left out of the uploaded code."""

from __future__ import annotations

import dataclasses
from typing import cast

from sqlalchemy import Table, bindparam, select
from sqlalchemy.orm import Session

from muster.wire import StateRecord
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.domain.nodes.left_out import missing_path, with_hint

_EXPERIMENTS = cast(Table, ExperimentRow.__table__)
_TRIALS = cast(Table, TrialRow.__table__)
_LEFT_OUT = (
    select(_EXPERIMENTS.c.left_out)
    .join(_TRIALS, _TRIALS.c.experiment_id == _EXPERIMENTS.c.id)
    .where(_TRIALS.c.id == bindparam("trial_id"))
)


def explained(session: Session, trial_id: int, record: StateRecord) -> StateRecord:
    """Return the record with the hint in its exit. Asks the database only for an exit that names a
    missing file."""
    if record.exit is None or missing_path(record.exit) is None:
        return record
    left_out = session.connection().scalar(_LEFT_OUT, {"trial_id": trial_id}) or ()
    return dataclasses.replace(record, exit=with_hint(record.exit, left_out))
