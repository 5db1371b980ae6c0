"""Work of running trials that is in no checkpoint that Muster knows of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from muster_server.db.models import AttemptRow, ExperimentRow, TrialRow
from muster_server.domain.states import AttemptState
from muster_server.schemas.operations import UnsavedOut

IDS_AT_ONCE = 500
"""Experiments asked for in one statement: databases bound the number of parameters."""


def unsaved_work(
    session: Session, experiment_ids: Sequence[int], now: dt.datetime
) -> UnsavedOut | None:
    """Return what running trials without any checkpoint have done so far; None if there are none.

    A forked trial has the checkpoint that it starts from, and one of its script counts like any other.

    Trials of the built-in trainer are not among them: it saves a checkpoint when it is asked to stop.
    """
    begun: list[dt.datetime] = []
    for first in range(0, len(experiment_ids), IDS_AT_ONCE):
        rows = session.execute(
            select(TrialRow.experiment_id, AttemptRow.started_at)
            .join(
                AttemptRow,
                and_(AttemptRow.trial_id == TrialRow.id, AttemptRow.no == TrialRow.attempt_no),
            )
            .where(
                TrialRow.experiment_id.in_(experiment_ids[first : first + IDS_AT_ONCE]),
                TrialRow.latest_checkpoint_id.is_(None),
                TrialRow.source_checkpoint_id.is_(None),
                AttemptRow.state == AttemptState.RUNNING,
            )
        ).all()
        configs = session.execute(
            select(ExperimentRow.id, ExperimentRow.config).where(
                ExperimentRow.id.in_({row.experiment_id for row in rows})
            )
        )
        scripts = {id for id, config in configs if config.trainer is None}
        begun += [row.started_at or now for row in rows if row.experiment_id in scripts]
    if not begun:
        return None
    return UnsavedOut(num_trials=len(begun), longest_s=(now - min(begun)).total_seconds())
