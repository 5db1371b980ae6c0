"""Notifications: rules, targets, inboxes, the outbox, and the history of what was sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", BigId, nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("experiment_id", BigId, nullable=True),
        sa.Column("experiment_name", sa.String(length=256), nullable=True),
        sa.Column("trial_id", BigId, nullable=True),
        sa.Column("trial_no", sa.Integer(), nullable=True),
        sa.Column("node_id", sa.String(length=32), nullable=True),
        sa.Column("node_name", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    op.create_index(op.f("ix_notifications_at"), "notifications", ["at"], unique=False)
    op.create_table(
        "notification_inbox",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("notification_id", BigId, nullable=False),
        sa.Column("is_read", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["notification_id"],
            ["notifications.id"],
            name=op.f("fk_notification_inbox_notification_id_notifications"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_notification_inbox_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_inbox")),
    )
    op.create_index(
        op.f("ix_notification_inbox_notification_id"),
        "notification_inbox",
        ["notification_id"],
        unique=False,
    )
    op.create_index(
        "ix_notification_inbox_user_id_is_read_id",
        "notification_inbox",
        ["user_id", "is_read", "id"],
        unique=False,
    )
    op.create_table(
        "notification_rules",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("owner_project_id", BigId, nullable=True),
        sa.Column("whose", sa.String(length=8), nullable=False),
        sa.Column("project_id", BigId, nullable=True),
        sa.Column("kinds", sa.String(length=512), nullable=False),
        sa.Column("inbox", sa.Boolean(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["owner_project_id"],
            ["projects.id"],
            name=op.f("fk_notification_rules_owner_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_notification_rules_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_notification_rules_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_rules")),
    )
    op.create_index(
        op.f("ix_notification_rules_owner_project_id"),
        "notification_rules",
        ["owner_project_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_notification_rules_project_id"), "notification_rules", ["project_id"], unique=False
    )
    op.create_index(
        op.f("ix_notification_rules_user_id"), "notification_rules", ["user_id"], unique=False
    )
    op.create_table(
        "notification_targets",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("project_id", BigId, nullable=True),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("summary", sa.String(length=256), nullable=False),
        sa.Column("seal_name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("rotated_at", Timestamp, nullable=True),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=512), nullable=False),
        sa.Column("num_dropped", sa.Integer(), nullable=False),
        sa.Column("num_failures", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.String(length=512), nullable=False),
        sa.Column("last_sent_at", Timestamp, nullable=True),
        sa.Column("not_before", Timestamp, nullable=True),
        sa.Column("claimed_by", sa.String(length=64), nullable=True),
        sa.Column("claimed_until", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(length=160), nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.Column("changed_by", sa.String(length=160), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_notification_targets_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_notification_targets_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_targets")),
        sa.UniqueConstraint(
            "project_id", "name", name=op.f("uq_notification_targets_project_id_name")
        ),
        sa.UniqueConstraint("seal_name", name=op.f("uq_notification_targets_seal_name")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_notification_targets_user_id_name")),
    )
    op.create_table(
        "notification_deliveries",
        sa.Column("id", BigId, nullable=False),
        sa.Column("target_id", BigId, nullable=False),
        sa.Column("message_id", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("title", sa.String(length=256), nullable=False),
        sa.Column("num_notifications", sa.Integer(), nullable=False),
        sa.Column("num_tries", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("first_tried_at", Timestamp, nullable=True),
        sa.Column("last_tried_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("error", sa.String(length=512), nullable=False),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["notification_targets.id"],
            name=op.f("fk_notification_deliveries_target_id_notification_targets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_deliveries")),
        sa.UniqueConstraint("message_id", name=op.f("uq_notification_deliveries_message_id")),
    )
    op.create_index(
        "ix_notification_deliveries_target_id_id",
        "notification_deliveries",
        ["target_id", "id"],
        unique=False,
    )
    op.create_table(
        "notification_rule_targets",
        sa.Column("rule_id", BigId, nullable=False),
        sa.Column("target_id", BigId, nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_id"],
            ["notification_rules.id"],
            name=op.f("fk_notification_rule_targets_rule_id_notification_rules"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["notification_targets.id"],
            name=op.f("fk_notification_rule_targets_target_id_notification_targets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("rule_id", "target_id", name=op.f("pk_notification_rule_targets")),
    )
    op.create_index(
        op.f("ix_notification_rule_targets_target_id"),
        "notification_rule_targets",
        ["target_id"],
        unique=False,
    )
    op.create_table(
        "notification_outbox",
        sa.Column("id", BigId, nullable=False),
        sa.Column("target_id", BigId, nullable=False),
        sa.Column("notification_id", BigId, nullable=False),
        sa.Column("delivery_id", BigId, nullable=True),
        sa.ForeignKeyConstraint(
            ["delivery_id"],
            ["notification_deliveries.id"],
            name=op.f("fk_notification_outbox_delivery_id_notification_deliveries"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["notification_id"],
            ["notifications.id"],
            name=op.f("fk_notification_outbox_notification_id_notifications"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["notification_targets.id"],
            name=op.f("fk_notification_outbox_target_id_notification_targets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_outbox")),
    )
    op.create_index(
        op.f("ix_notification_outbox_delivery_id"),
        "notification_outbox",
        ["delivery_id"],
        unique=False,
    )
    op.create_index(
        op.f("ix_notification_outbox_notification_id"),
        "notification_outbox",
        ["notification_id"],
        unique=False,
    )
    op.create_index(
        "ix_notification_outbox_target_id_id",
        "notification_outbox",
        ["target_id", "id"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_table("notification_outbox")
    op.drop_table("notification_rule_targets")
    op.drop_table("notification_deliveries")
    op.drop_table("notification_targets")
    op.drop_table("notification_rules")
    op.drop_table("notification_inbox")
    op.drop_table("notifications")
