"""What happened, one sentence each, for people to read beside an experiment, trial or node."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from muster_server.db.models import EventRow
from muster_server.domain.messages import AnyMessage, english, parts
from muster_server.domain.notifications.kinds import kind_of

from .outbox import notify

MAX_MESSAGE_CHARS = 4000
# Not as an object: nobody asks for its number, and telling it costs as much as the rest.
_ADD = insert(EventRow.__table__).inline()  # type: ignore[arg-type]

Level = Literal["info", "warning", "error"]


def add_event(
    session: Session,
    type: str,
    message: AnyMessage | str,
    *,
    now: dt.datetime,
    level: Level = "info",
    experiment_id: int | None = None,
    trial_id: int | None = None,
    attempt_no: int | None = None,
    node_id: str | None = None,
    project_id: int | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    """Append one event, and notify those whose rules match it. `type` is stable ("trial.state"); a
    long message is cut. The parts of one that can be translated are in the data."""
    text = english(message)[:MAX_MESSAGE_CHARS]
    if said := parts(message):
        data = {**(data or {}), "parts": list(said)}
    session.connection().execute(
        _ADD,
        {
            "at": now,
            "level": level,
            "type": type,
            "message": text,
            "experiment_id": experiment_id,
            "trial_id": trial_id,
            "attempt_no": attempt_no,
            "node_id": node_id,
            "project_id": project_id,
            "data": data or {},
        },
    )
    kind = kind_of(type, data)
    if kind is not None:
        notify(
            session,
            kind,
            text,
            now=now,
            level=level,
            experiment_id=experiment_id,
            trial_id=trial_id,
            node_id=node_id,
            project_id=project_id,
        )


def was_told(session: Session, type: str, *, node_id: str, since: dt.datetime) -> bool:
    """Return whether an event of this type was added for the node at or after `since`."""
    query = (
        select(EventRow.id)
        .where(EventRow.node_id == node_id, EventRow.type == type, EventRow.at >= since)
        .limit(1)
    )
    return session.scalar(query) is not None
