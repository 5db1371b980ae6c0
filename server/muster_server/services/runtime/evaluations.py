"""What a trial's model was found to be worth: kept as reported, the newest of each name."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.inference.scores import class_scores
from muster.wire import EvaluationRecord
from muster_server.db.engine import touch
from muster_server.db.models import EvaluationRow, TrialRow
from muster_server.domain.runtime.evaluations import problem
from muster_server.schemas.experiments import EvaluationOut
from muster_server.services.core.events import add_event
from muster_server.services.core.lookup import get_trial
from muster_server.services.core.texts import storable

MAX_METRICS = 1_000
MAX_STEP = 2**53
MAX_NAME_CHARS = 128
MAX_EVALUATIONS = 50
"""Maximum number of evaluations with different names per trial."""


def record(
    session: Session,
    trial: TrialRow,
    attempt_no: int,
    reported: EvaluationRecord,
    now: dt.datetime,
) -> None:
    """Keep an evaluation in place of an earlier one of the same name. One that cannot be kept is
    told in the trial's events."""
    names = [storable(name, MAX_NAME_CHARS) for name in reported.classes]
    name = storable(reported.name, 64)
    rows = {row.name: row for row in _rows(session, trial.id)}
    wrong = problem(names, reported.confusion)
    if wrong is None and len(reported.metrics) > MAX_METRICS:
        wrong = f"{len(reported.metrics)} metrics are more than the {MAX_METRICS} that are kept"
    if wrong is None and not 0 <= reported.step <= MAX_STEP:
        wrong = f"its step {reported.step} is not between 0 and 2^53"
    if wrong is None and name not in rows and len(rows) >= MAX_EVALUATIONS:
        wrong = f"there are {MAX_EVALUATIONS} evaluations of other names"
    if wrong is not None:
        add_event(
            session,
            "trial.message",
            f"The evaluation {name!r} was not kept: {wrong}.",
            now=now,
            level="warning",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=attempt_no,
        )
        return
    row = rows.get(name)
    if row is None:
        row = EvaluationRow(trial_id=trial.id, name=name)
        session.add(row)
    row.attempt_no, row.step, row.at = attempt_no, reported.step, now
    row.metrics = {storable(k, MAX_NAME_CHARS): v for k, v in reported.metrics.items()}
    row.classes = names
    row.confusion = [list(counts) for counts in reported.confusion]
    session.flush()
    touch(session, f"trial:{trial.id}")


def list_evaluations(session: Session, trial_id: int) -> list[EvaluationOut]:
    """Return the evaluations of one trial, by name. Raises NotFound."""
    get_trial(session, trial_id)
    return [_out(row) for row in _rows(session, trial_id)]


def _rows(session: Session, trial_id: int) -> list[EvaluationRow]:
    query = select(EvaluationRow).where(EvaluationRow.trial_id == trial_id)
    return list(session.scalars(query.order_by(EvaluationRow.name)))


def _out(row: EvaluationRow) -> EvaluationOut:
    return EvaluationOut.from_row(row, classes=class_scores(row.classes, row.confusion))
