"""Experiments that start at the times of a cron expression."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "cron_schedules",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("submission", Json, nullable=False),
        sa.Column("blob_sha256", sa.String(64), nullable=True),
        sa.Column("cron", sa.String(120), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("overlap", sa.String(16), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("next_at", Timestamp, nullable=True),
        sa.Column("last_at", Timestamp, nullable=True),
        sa.Column("last_experiment_id", sa.Integer(), nullable=True),
        sa.Column("last_reason", sa.String(), nullable=False),
        sa.Column("last_reason_parts", Json, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_cron_schedules_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_cron_schedules_owner_id_users"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cron_schedules")),
    )
    for name in ("next_at", "project_id"):
        op.create_index(op.f(f"ix_cron_schedules_{name}"), "cron_schedules", [name])


def downgrade() -> None:
    op.drop_table("cron_schedules")
