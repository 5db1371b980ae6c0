"""Experiments that start after others, and why one was stopped by other than a user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("experiments", sa.Column("waits_for", Json, nullable=True))
    op.add_column(
        "experiments", sa.Column("stop_reason", sa.String(), nullable=False, server_default="")
    )


def downgrade() -> None:
    op.drop_column("experiments", "stop_reason")
    op.drop_column("experiments", "waits_for")
