"""Change the order of the queue by hand.

A place is a number (`trials.queue_no`, smaller first). It orders trials that are *equals*: the same
pool, slot type, priority and project. Between others priority decides, then fair share; moving
cannot change that, so it is refused instead of having no effect.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, type_coerce, update
from sqlalchemy.orm import Session

from muster.document.codec import load
from muster.document.running import ResourcesSection
from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, TrialRow
from muster_server.db.models.base import Json
from muster_server.domain.scheduling.queue_places import places_between, spread
from muster_server.domain.scheduling.resources import request_of
from muster_server.domain.states import TrialState
from muster_server.errors import Conflict, NotFound
from muster_server.schemas.cluster import QueueMove, QueueRef
from muster_server.security.principal import Principal

from ..core.events import add_event
from ..core.ownership import require_charge


@dataclass(frozen=True)
class QueuePosition:
    """A trial that waits, as far as its place goes."""

    trial_id: int
    trial_no: int
    experiment_id: int
    project_id: int
    priority: int
    pool: str
    slot_type: str
    queue_no: float

    @property
    def equals(self) -> tuple[object, ...]:
        return (self.pool, self.slot_type, self.priority, self.project_id)

    @property
    def key(self) -> tuple[float, int]:
        return (self.queue_no, self.trial_id)


def move(session: Session, wish: QueueMove, principal: Principal, *, now: dt.datetime) -> list[int]:
    """Move a waiting trial, or all waiting trials of an experiment, which keep their order.

    Returns their ids in the new order. Raises NotFound, Forbidden when it is somebody else's, and
    Conflict when nothing of it waits or when the two ends are no equals.
    """
    waiting = _load_waiting(session)
    moved = _find(session, waiting, QueueRef(
        trial_id=wish.trial_id, experiment_id=wish.experiment_id
    ))  # fmt: skip
    require_charge(session, principal, session.get_one(ExperimentRow, moved[0].experiment_id))
    ids = {w.trial_id for w in moved}
    others = [w for w in waiting if w.equals == moved[0].equals and w.trial_id not in ids]
    index, where = _target(session, wish, waiting, others, moved)
    _write(session, moved, others, index, now)
    _tell(session, wish, moved, where, principal.name, now)
    return [w.trial_id for w in moved]


def _load_waiting(session: Session) -> list[QueuePosition]:
    """Return every trial that has a place, in the order of places."""
    rows = session.execute(
        select(
            TrialRow.id,
            TrialRow.no,
            TrialRow.experiment_id,
            TrialRow.queue_no,
            ExperimentRow.project_id,
            ExperimentRow.priority,
            type_coerce(ExperimentRow.config, Json)["resources"].label("resources"),
        )
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(TrialRow.state.in_((TrialState.QUEUED, TrialState.RETRY_WAIT)))
    )
    return sorted((_waiting(row) for row in rows), key=lambda w: w.key)


def _waiting(row: Row[Any]) -> QueuePosition:
    request = request_of(load(ResourcesSection, row.resources or {}))
    return QueuePosition(
        trial_id=row.id,
        trial_no=row.no,
        experiment_id=row.experiment_id,
        project_id=row.project_id,
        priority=row.priority,
        pool=request.pool,
        slot_type=request.slot_type,
        queue_no=row.queue_no,
    )


def _find(session: Session, waiting: Sequence[QueuePosition], ref: QueueRef) -> list[QueuePosition]:
    """Return the waiting trials that `ref` names. Raises NotFound or Conflict."""
    if ref.trial_id is not None:
        found = [w for w in waiting if w.trial_id == ref.trial_id]
        if not found:
            trial = session.get(TrialRow, ref.trial_id)
            if trial is None:
                raise NotFound("trials.not_found", f"There is no trial {ref.trial_id}.")
            raise Conflict(
                "queue.not_waiting",
                f"Trial {trial.address} is {trial.state}; only trials that wait for slots have a place.",
            )
        return found
    found = [w for w in waiting if w.experiment_id == ref.experiment_id]
    if not found:
        row = session.get(ExperimentRow, ref.experiment_id)
        if row is None:
            raise NotFound("experiments.not_found", f"There is no experiment {ref.experiment_id}.")
        raise Conflict(
            "queue.not_waiting",
            f"Experiment {row.id} is {row.state}; none of its trials waits for slots.",
        )
    return found


def _target(
    session: Session,
    wish: QueueMove,
    waiting: Sequence[QueuePosition],
    others: Sequence[QueuePosition],
    moved: Sequence[QueuePosition],
) -> tuple[int, str]:
    """(index among `others` before which the moved ones go, words for it)."""
    if wish.to is not None:
        return (0 if wish.to == "front" else len(others)), f"to the {wish.to} of the queue"
    ref = wish.before or wish.after
    assert ref is not None, "checked by the schema"
    ids = {w.trial_id for w in moved}
    named = _find(session, waiting, ref)
    targets = [w for w in named if w.trial_id not in ids]
    name = _name(ref, named)
    if not targets:
        raise Conflict("queue.same", f"{name[0].upper()}{name[1:]} is what is moved.")
    _require_equals(moved[0], targets[0], name)
    if wish.before is not None:
        return others.index(targets[0]), f"before {name}"
    return others.index(targets[-1]) + 1, f"behind {name}"


def _require_equals(moved: QueuePosition, target: QueuePosition, name: str) -> None:
    if moved.equals == target.equals:
        return
    hint = None
    if (moved.pool, moved.slot_type) != (target.pool, target.slot_type):
        why = f"{name} waits for {target.slot_type} slots in pool {target.pool}"
    elif moved.priority != target.priority:
        why = f"{name} has priority {target.priority}, this one {moved.priority}"
        hint = "Change the priority first."
    else:
        why = f"{name} belongs to another project, and between projects the fair share decides"
    raise Conflict("queue.no_equals", f"The order cannot be changed: {why}.", hint=hint)


def _write(
    session: Session,
    moved: Sequence[QueuePosition],
    others: Sequence[QueuePosition],
    index: int,
    now: dt.datetime,
) -> None:
    before = others[index - 1].queue_no if index else None
    after = others[index].queue_no if index < len(others) else None
    places = places_between(before, after, len(moved), now_s=now.timestamp())
    if places is not None:
        new = {w.trial_id: place for w, place in zip(moved, places, strict=True)}
    else:  # no room between the two: all of them get new numbers
        order = [*others[:index], *moved, *others[index:]]
        numbers = spread([w.queue_no for w in others], len(order))
        new = {w.trial_id: place for w, place in zip(order, numbers, strict=True)}
    session.execute(update(TrialRow), [{"id": i, "queue_no": no} for i, no in new.items()])


def _tell(
    session: Session,
    wish: QueueMove,
    moved: Sequence[QueuePosition],
    where: str,
    user_name: str,
    now: dt.datetime,
) -> None:
    first = moved[0]
    what = f"Trial {first.trial_no}"
    if wish.experiment_id is not None:
        what = f"Its {len(moved)} waiting trials" if len(moved) > 1 else what
    add_event(
        session,
        "queue.moved",
        f"{what} moved {where} by {user_name}.",
        now=now,
        experiment_id=first.experiment_id,
        trial_id=first.trial_id if len(moved) == 1 else None,
        data={"trial_ids": [w.trial_id for w in moved[:100]], "num_trials": len(moved)},
    )
    touch(session, "cluster", "loops", f"experiment:{first.experiment_id}")


def _name(ref: QueueRef, named: Sequence[QueuePosition]) -> str:
    if ref.trial_id is not None:
        return f"trial {named[0].experiment_id}.{named[0].trial_no}"
    return f"experiment {ref.experiment_id}"
