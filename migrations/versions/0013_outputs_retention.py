"""When the outputs of a trial were deleted to keep within a limit of age or size, and how much went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "trial_outputs", sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column(
        "trial_outputs",
        sa.Column("deleted_bytes", sa.BigInteger(), nullable=False, server_default="0"),
    )


def downgrade() -> None:
    op.drop_column("trial_outputs", "deleted_bytes")
    op.drop_column("trial_outputs", "deleted_at")
