"""Nodes that leave the cluster with their agent, such as those inside batch jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "nodes", sa.Column("is_pilot", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("nodes", sa.Column("ends_at", Timestamp, nullable=True))
    op.add_column(
        "nodes", sa.Column("provider_ref", sa.String(255), nullable=False, server_default="")
    )


def downgrade() -> None:
    op.drop_column("nodes", "provider_ref")
    op.drop_column("nodes", "ends_at")
    op.drop_column("nodes", "is_pilot")
