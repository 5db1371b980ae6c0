"""Tunnels into running jobs that wait for their agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "tunnels",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("node_id", sa.String(32), nullable=False),
        sa.Column("order", Json, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tunnels")),
    )
    op.create_index(op.f("ix_tunnels_node_id"), "tunnels", ["node_id"])


def downgrade() -> None:
    op.drop_table("tunnels")
