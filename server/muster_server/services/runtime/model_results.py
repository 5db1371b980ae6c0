"""What came of a version of a model in a job: kept as reported, the newest of each name."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import MODEL_RESULT_BYTES, ModelResultRecord
from muster_server.db.engine import touch
from muster_server.db.models import ModelRow, ModelUseRow, ModelVersionRow, TrialRow
from muster_server.services.core.events import add_event


def record(
    session: Session,
    trial: TrialRow,
    attempt_no: int,
    reported: ModelResultRecord,
    now: dt.datetime,
) -> None:
    """Keep a result in place of an earlier one of the same name. One that cannot be kept is told in
    the trial's events."""
    use = session.scalar(
        select(ModelUseRow).where(
            ModelUseRow.experiment_id == trial.experiment_id,
            ModelUseRow.name == reported.name[:64],
        )
    )
    wrong = "the document names no such version" if use is None else _fault(reported.result)
    if wrong or use is None:
        add_event(
            session,
            "trial.message",
            f"The result for the model {reported.name[:64]!r} was not kept: {wrong}.",
            now=now,
            level="warning",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=attempt_no,
        )
        return
    use.result, use.result_at = reported.result, now
    session.flush()
    model = session.scalar(
        select(ModelRow.name)
        .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
        .where(ModelVersionRow.id == use.version_id)
    )
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}", f"model:{model}")


def _fault(result: dict[str, Any]) -> str:
    """Return why a result cannot be kept; "" if it can."""
    text = json.dumps(result, ensure_ascii=False)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        return "it has half a surrogate pair"
    if size_bytes > MODEL_RESULT_BYTES:
        return f"it has {size_bytes:,} bytes, and {MODEL_RESULT_BYTES:,} are kept"
    return "it has a NUL character" if "\\u0000" in text else ""
