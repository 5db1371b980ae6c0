"""Who is notified of what: rules, targets, inboxes, and the outbox of what is not sent yet."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from .base import Base, BigId, belongs_to


class NotificationTargetRow(Base):
    """A place outside Muster that notifications are sent to, of a user or of a project.

    Its address and its secrets are encrypted (security.encryption).
    """

    __tablename__ = "notification_targets"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int | None] = belongs_to("users.id")
    project_id: Mapped[int | None] = belongs_to("projects.id")
    """Exactly one of the two is set: the owner."""
    name: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(16))
    """email | webhook | apprise."""
    summary: Mapped[str] = mapped_column(String(256))
    """What may be shown of the address: recipients, the host of a webhook, the name of a service."""
    seal_name: Mapped[str] = mapped_column(String(64), unique=True)
    """Name that is authenticated with the encrypted value. It never changes."""
    version: Mapped[int]
    """Number of the encrypted value, from 1."""
    key_id: Mapped[str] = mapped_column(String(16))
    nonce: Mapped[bytes] = mapped_column(LargeBinary)
    ciphertext: Mapped[bytes] = mapped_column(LargeBinary)
    rotated_at: Mapped[dt.datetime | None]
    is_enabled: Mapped[bool] = mapped_column(default=True)
    """Nothing is added to the outbox of a disabled target, and nothing is sent from it."""
    disabled_reason: Mapped[str] = mapped_column(String(512), default="")
    """Why Muster disabled it; "" when a person did, or when it is enabled."""
    num_dropped: Mapped[int] = mapped_column(default=0)
    """Number of notifications that were dropped because too many waited."""
    num_failures: Mapped[int] = mapped_column(default=0)
    """Number of failed attempts since the last success."""
    last_error: Mapped[str] = mapped_column(String(512), default="")
    last_sent_at: Mapped[dt.datetime | None]
    not_before: Mapped[dt.datetime | None]
    """Nothing is sent before this time: the pause after a failure or a digest."""
    claimed_by: Mapped[str | None] = mapped_column(String(64))
    claimed_until: Mapped[dt.datetime | None]
    """A sender works on it until this time at the latest: one at a time keeps the order."""
    created_at: Mapped[dt.datetime]
    created_by: Mapped[str] = mapped_column(String(160))
    changed_at: Mapped[dt.datetime]
    changed_by: Mapped[str] = mapped_column(String(160))

    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        UniqueConstraint("project_id", "name"),
    )


class NotificationRuleRow(Base):
    """A rule of a user or of a project: what is notified, and where."""

    __tablename__ = "notification_rules"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int | None] = belongs_to("users.id", index=True)
    owner_project_id: Mapped[int | None] = belongs_to("projects.id", index=True)
    """Exactly one of the two is set: the owner."""
    whose: Mapped[str] = mapped_column(String(8))
    """mine | all: the experiments it is about. A rule of a project has `all`."""
    project_id: Mapped[int | None] = belongs_to("projects.id", index=True)
    """Project that a user's rule is limited to; None for every project."""
    kinds: Mapped[str] = mapped_column(String(512))
    """Kinds of notifications, separated and enclosed by spaces: " trial.failed node.lost "."""
    inbox: Mapped[bool]
    """Whether the user gets it in the inbox of the dashboard."""
    is_enabled: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[dt.datetime]
    changed_at: Mapped[dt.datetime]


class NotificationRuleTargetRow(Base):
    """One of the targets of a rule."""

    __tablename__ = "notification_rule_targets"

    rule_id: Mapped[int] = belongs_to("notification_rules.id", primary_key=True)
    target_id: Mapped[int] = belongs_to("notification_targets.id", primary_key=True, index=True)


class NotificationRow(Base):
    """One notification: a copy of what happened, which outlives the experiment."""

    __tablename__ = "notifications"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[dt.datetime] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(32))
    level: Mapped[str] = mapped_column(String(8))
    """info | warning | error."""
    message: Mapped[str]
    project: Mapped[str | None] = mapped_column(String(128))
    """Name of the project."""
    experiment_id: Mapped[int | None] = mapped_column(BigId)
    experiment_name: Mapped[str | None] = mapped_column(String(256))
    trial_id: Mapped[int | None] = mapped_column(BigId)
    trial_no: Mapped[int | None]
    node_id: Mapped[str | None] = mapped_column(String(32))
    node_name: Mapped[str | None] = mapped_column(String(128))


class InboxRow(Base):
    """A notification in the inbox of a user."""

    __tablename__ = "notification_inbox"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    user_id: Mapped[int] = belongs_to("users.id")
    notification_id: Mapped[int] = belongs_to("notifications.id", index=True)
    is_read: Mapped[bool] = mapped_column(default=False)

    __table_args__ = (
        Index("ix_notification_inbox_user_id_is_read_id", "user_id", "is_read", "id"),
    )


class DeliveryRow(Base):
    """One message to one target: a notification, or a digest of several. It is sent under one id
    until it arrives, and kept as the history of the target."""

    __tablename__ = "notification_deliveries"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    target_id: Mapped[int] = belongs_to("notification_targets.id")
    message_id: Mapped[str] = mapped_column(String(64), unique=True)
    """Id that the receiver sees, the same in every attempt: "msg_…"."""
    state: Mapped[str] = mapped_column(String(8))
    """sending | sent | failed."""
    title: Mapped[str] = mapped_column(String(256))
    num_notifications: Mapped[int]
    num_tries: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[dt.datetime]
    first_tried_at: Mapped[dt.datetime | None]
    last_tried_at: Mapped[dt.datetime | None]
    ended_at: Mapped[dt.datetime | None]
    """When it was sent or given up."""
    error: Mapped[str] = mapped_column(String(512), default="")
    """Why the last attempt failed; "" while one is under way, and after one that did not."""

    __table_args__ = (Index("ix_notification_deliveries_target_id_id", "target_id", "id"),)


class OutboxRow(Base):
    """A notification that a target has not received. It is added in the transaction of the event,
    and deleted when its message was sent or given up."""

    __tablename__ = "notification_outbox"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    target_id: Mapped[int] = belongs_to("notification_targets.id")
    notification_id: Mapped[int] = belongs_to("notifications.id", index=True)
    delivery_id: Mapped[int | None] = belongs_to("notification_deliveries.id", index=True)
    """The message that it is part of; None while it waits for one."""

    __table_args__ = (Index("ix_notification_outbox_target_id_id", "target_id", "id"),)
