"""Checkpoints that scripts save under names of their own, and where their files lie."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column(
        "checkpoints",
        sa.Column("kind", sa.String(length=16), nullable=False, server_default="saved"),
    )
    op.add_column("checkpoints", sa.Column("parts", Json, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("checkpoints", "parts")
    op.drop_column("checkpoints", "kind")
