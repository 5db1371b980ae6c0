"""Requests that carry an Idempotency-Key: done once, and answered alike however often they come."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster_server.db.models import IdempotencyRow
from muster_server.errors import Conflict


def claim(
    session: Session,
    user_id: int | None,
    key: str | None,
    request: dict[str, Any],
    now: dt.datetime,
) -> IdempotencyRow | None:
    """Take a key for this request. None: go on, it is the first; else what the first one made.

    Without a user or a key every request is the first. Raises Conflict when the key was used for
    a different request.
    """
    if user_id is None or key is None:
        return None
    request_hash = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    try:
        with session.begin_nested():
            session.add(
                IdempotencyRow(user_id=user_id, key=key, request_hash=request_hash, created_at=now)
            )
        return None
    except IntegrityError:
        row = session.get_one(IdempotencyRow, (user_id, key), populate_existing=True)
    if row.request_hash != request_hash:
        raise Conflict(
            "request.idempotency_key_reused",
            "This Idempotency-Key was used for a different request.",
            hint="Use a new key for a new request.",
        )
    return row


def settle(
    session: Session,
    user_id: int | None,
    key: str | None,
    *,
    experiment_id: int | None = None,
    answer: dict[str, Any] | None = None,
) -> None:
    """Keep what the claimed request made, for its repetitions."""
    if user_id is None or key is None:
        return
    session.execute(
        update(IdempotencyRow)
        .where(IdempotencyRow.user_id == user_id, IdempotencyRow.key == key)
        .values(experiment_id=experiment_id, answer=answer)
    )
