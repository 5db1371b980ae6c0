"""Sending the outbox: one message of one target at a time, in order, until it arrives.

A message is formed from the oldest waiting notifications and keeps its id and its content over all
attempts, so a receiver that gets it twice can tell. A target is claimed before anything is sent:
two senders never overtake each other. A sender that dies is replaced when its claim has expired.
"""

from __future__ import annotations

import datetime as dt
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from muster_server.db.engine import Database
from muster_server.db.models import (
    DeliveryRow,
    NotificationRow,
    NotificationTargetRow,
    OutboxRow,
    UserRow,
)
from muster_server.domain.notifications import schedule
from muster_server.domain.notifications.messages import title_of
from muster_server.errors import MusterError
from muster_server.schemas.accounts.notifications import TargetConfig
from muster_server.security.encryption import key_ring
from muster_server.settings import Settings

from ..secrets.store import open_row
from .channels import SEND_TIMEOUT_S, OutgoingMessage, SendFailed, send
from .configs import load_config
from .records import notification_of
from .targets import drop_waiting

CLAIM = dt.timedelta(seconds=4 * SEND_TIMEOUT_S)
"""How long a sender may take for one message before another one takes over: longer than an attempt,
name resolution included."""
BUDGET_S = 60.0
"""Seconds after which a task begins no further message of its target."""
DUE_MAX = 500
"""Most targets that one look for due ones finds; the next look finds the others."""

log = logging.getLogger(__name__)

Send = Callable[[TargetConfig, OutgoingMessage, Settings], None]


@dataclass(frozen=True)
class _Attempt:
    delivery_id: int
    message: OutgoingMessage
    config: TargetConfig | None
    problem: str
    """Why the configuration cannot be read; "" when it can."""


def due_targets(session: Session, now: dt.datetime) -> list[int]:
    """Return the ids of the targets that something waits for and that may be tried now."""
    return list(
        session.scalars(
            select(NotificationTargetRow.id)
            .where(*_is_due(now), exists().where(OutboxRow.target_id == NotificationTargetRow.id))
            .order_by(NotificationTargetRow.id)
            .limit(DUE_MAX)
        )
    )


def send_waiting(
    database: Database,
    target_id: int,
    settings: Settings,
    *,
    clock_now: Callable[[], dt.datetime],
    send_one: Send = send,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Send what waits for a target, until nothing waits, an attempt fails or time is up. Return how
    many messages were sent."""
    sender = secrets.token_hex(16)
    deadline = monotonic() + BUDGET_S
    num_sent = 0
    while monotonic() < deadline:
        now = clock_now()
        with database.transaction() as session:
            attempt = _begin(session, target_id, sender, settings, now)
        if attempt is None:
            break
        failure: SendFailed | None = None
        try:
            if attempt.config is None:
                raise SendFailed(attempt.problem)
            send_one(attempt.config, attempt.message, settings)
        except SendFailed as error:
            failure = error
        except Exception as error:  # a fault of a library must not stop the target for ever
            log.exception("a notification was not sent")
            failure = SendFailed(f"{type(error).__name__} while it was sent.")
        with database.transaction() as session:
            _finish(session, target_id, attempt.delivery_id, sender, failure, clock_now())
        if failure is not None:
            break
        num_sent += 1
    return num_sent


# ---------------------------------------------------------------- parts


def _is_due(now: dt.datetime) -> Sequence[ColumnElement[bool]]:
    owner_is_active = or_(
        NotificationTargetRow.user_id.is_(None),
        exists().where(UserRow.id == NotificationTargetRow.user_id, UserRow.may_act),
    )
    return (
        NotificationTargetRow.is_enabled.is_(True),
        or_(NotificationTargetRow.not_before.is_(None), NotificationTargetRow.not_before <= now),
        or_(
            NotificationTargetRow.claimed_until.is_(None),
            NotificationTargetRow.claimed_until <= now,
        ),
        owner_is_active,
    )


def _begin(
    session: Session, target_id: int, sender: str, settings: Settings, now: dt.datetime
) -> _Attempt | None:
    """Claim the target and return the message to send; None if there is nothing to do now."""
    claimed = session.execute(
        update(NotificationTargetRow)
        .where(NotificationTargetRow.id == target_id, *_is_due(now))
        .values(claimed_by=sender, claimed_until=now + CLAIM)
        .execution_options(synchronize_session=False)
    )
    if claimed.rowcount != 1:  # type: ignore[attr-defined]
        return None
    delivery = session.scalar(
        select(DeliveryRow)
        .where(DeliveryRow.target_id == target_id, DeliveryRow.state == "sending")
        .order_by(DeliveryRow.id)
        .limit(1)
    ) or _form(session, target_id, now)
    if delivery is None:
        _release(session, target_id)
        return None
    rows = session.scalars(
        select(NotificationRow)
        .join(OutboxRow, OutboxRow.notification_id == NotificationRow.id)
        .where(OutboxRow.delivery_id == delivery.id)
        .order_by(OutboxRow.id)
    ).all()
    delivery.num_tries += 1
    delivery.first_tried_at = delivery.first_tried_at or now
    delivery.last_tried_at, delivery.error = now, ""
    message = OutgoingMessage(
        id=delivery.message_id, notifications=[notification_of(row) for row in rows], at=now
    )
    target = session.get_one(NotificationTargetRow, target_id)
    try:
        config = load_config(open_row(target, key_ring(settings)))
        return _Attempt(delivery.id, message, config, "")
    except MusterError as error:
        return _Attempt(delivery.id, message, None, f"{error.message} {error.hint or ''}".strip())
    except ValueError:
        return _Attempt(
            delivery.id, message, None, "The stored target cannot be read; set it again."
        )


def _form(session: Session, target_id: int, now: dt.datetime) -> DeliveryRow | None:
    """Form the next message from the oldest waiting notifications; None if none waits."""
    is_waiting = (OutboxRow.target_id == target_id) & OutboxRow.delivery_id.is_(None)
    num_waiting = session.scalar(select(func.count()).select_from(OutboxRow).where(is_waiting)) or 0
    size = schedule.batch_size(num_waiting)
    if size == 0:
        return None
    rows = session.execute(
        select(OutboxRow.id, NotificationRow)
        .join(NotificationRow, NotificationRow.id == OutboxRow.notification_id)
        .where(is_waiting)
        .order_by(OutboxRow.id)
        .limit(size)
    ).all()
    delivery = DeliveryRow(
        target_id=target_id,
        message_id=f"msg_{secrets.token_hex(16)}",
        state="sending",
        title=title_of([notification_of(row) for _, row in rows]),
        num_notifications=len(rows),
        num_tries=0,
        created_at=now,
    )
    session.add(delivery)
    session.flush()
    session.execute(
        update(OutboxRow)
        .where(is_waiting, OutboxRow.id <= rows[-1][0])
        .values(delivery_id=delivery.id)
        .execution_options(synchronize_session=False)
    )
    return delivery


def _finish(
    session: Session,
    target_id: int,
    delivery_id: int,
    sender: str,
    failure: SendFailed | None,
    now: dt.datetime,
) -> None:
    """Note the outcome of an attempt, unless the target was deleted or claimed by another sender."""
    target = session.get(NotificationTargetRow, target_id, populate_existing=True)
    delivery = session.get(DeliveryRow, delivery_id)
    if target is None or delivery is None:
        return
    is_ours = target.claimed_by == sender
    if failure is None:
        _end(session, delivery, "sent", "", now)
        target.last_sent_at, target.last_error, target.num_failures = now, "", 0
        is_digest = delivery.num_notifications > 1
        target.not_before = now + schedule.DIGEST_PAUSE if is_digest else None
    elif is_ours and delivery.state == "sending":
        target.num_failures += 1
        target.last_error = delivery.error = str(failure)
        if failure.is_gone:
            target.is_enabled = False
            target.disabled_reason = f"{failure} It wants no more messages."
            drop_waiting(session, target_id)
        elif failure.is_final or schedule.is_given_up(delivery.first_tried_at or now, now):
            _end(session, delivery, "failed", str(failure), now)
        target.not_before = now + schedule.retry_pause(
            target.num_failures, asked=failure.retry_after
        )
    if is_ours:
        _release(session, target_id)


def _end(session: Session, delivery: DeliveryRow, state: str, error: str, now: dt.datetime) -> None:
    delivery.state, delivery.error, delivery.ended_at = state, error, now
    session.execute(delete(OutboxRow).where(OutboxRow.delivery_id == delivery.id))


def _release(session: Session, target_id: int) -> None:
    session.execute(
        update(NotificationTargetRow)
        .where(NotificationTargetRow.id == target_id)
        .values(claimed_by=None, claimed_until=None)
        .execution_options(synchronize_session=False)
    )
