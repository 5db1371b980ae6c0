"""Slots that take no new work, and what pools do about devices that others use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "node_slots", sa.Column("problem", sa.String(), nullable=False, server_default="")
    )
    op.add_column(
        "pools",
        sa.Column("foreign_processes", sa.String(8), nullable=False, server_default="wait"),
    )


def downgrade() -> None:
    op.drop_column("pools", "foreign_processes")
    op.drop_column("node_slots", "problem")
