"""Maintenance windows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "maintenance_windows",
        sa.Column("id", BigId, nullable=False),
        sa.Column("starts_at", Timestamp, nullable=False),
        sa.Column("ends_at", Timestamp, nullable=True),
        sa.Column("pools", Json, nullable=False),
        sa.Column("nodes", Json, nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("running", sa.String(16), nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("ended_by", sa.String(160), nullable=False),
        sa.Column("announced", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maintenance_windows")),
    )
    op.create_index(op.f("ix_maintenance_windows_ended_at"), "maintenance_windows", ["ended_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_maintenance_windows_ended_at"), table_name="maintenance_windows")
    op.drop_table("maintenance_windows")
