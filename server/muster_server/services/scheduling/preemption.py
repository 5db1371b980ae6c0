"""Ask an attempt to give up its slots: recorded here, told to its members by the lifecycle."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import touch
from muster_server.db.models import AttemptRow, TrialRow
from muster_server.domain.states import AttemptState, YieldKind

from ..core.events import add_event
from ..core.writes import require_one

MAY_YIELD = (AttemptState.PREPARING, AttemptState.STARTING, AttemptState.RUNNING)
"""Attempt states in which it makes sense to ask."""


def ask_to_yield(
    session: Session,
    attempt_id: int,
    *,
    kind: YieldKind,
    reason: str,
    now: dt.datetime,
    before: Collection[str] = MAY_YIELD,
    slots: int | None = None,
) -> None:
    """Record that an attempt is to save a checkpoint and leave.

    reason: the rest of a sentence ("n1 is being drained").
    slots: the world size a resize is for.
    Raises Outdated, and then nothing must be committed, when the attempt is not in one of the
    states `before` any more, was asked already, or is not its trial's current one.
    """
    current = (
        select(TrialRow.id)
        .where(TrialRow.id == AttemptRow.trial_id, TrialRow.attempt_no == AttemptRow.no)
        .exists()
    )
    require_one(
        session,
        update(AttemptRow)
        .where(
            AttemptRow.id == attempt_id,
            AttemptRow.state.in_(before),
            AttemptRow.yield_kind.is_(None),
            current,
        )
        .values(yield_kind=kind.value, yield_reason=reason, yield_slots=slots, yield_at=now)
        .execution_options(synchronize_session=False),
        f"attempt {attempt_id} cannot be asked for its slots any more",
    )
    attempt = session.get_one(AttemptRow, attempt_id, populate_existing=True)
    trial = session.get_one(TrialRow, attempt.trial_id)
    add_event(
        session,
        "attempt.preempted" if kind is YieldKind.PREEMPT else "attempt.yield",
        f"Attempt {attempt.no} was asked to save a checkpoint and give up its slots: {reason}.",
        now=now,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=attempt.no,
        data={"kind": kind.value, "slots": slots},
    )
    touch(session, f"trial:{trial.id}", f"experiment:{trial.experiment_id}", "cluster", "loops")
