"""When the leading controller last worked through all of its loops, and which one fails."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("controller_leases", sa.Column("passed_at", Timestamp, nullable=True))
    op.add_column(
        "controller_leases",
        sa.Column("failing_loop", sa.String(length=32), server_default="", nullable=False),
    )


def downgrade() -> None:
    op.drop_column("controller_leases", "failing_loop")
    op.drop_column("controller_leases", "passed_at")
