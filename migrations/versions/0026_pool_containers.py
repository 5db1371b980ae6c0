"""Pools that require containers, and the images that they allow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column(
        "pools",
        sa.Column("requires_containers", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.add_column("pools", sa.Column("allowed_images", Json, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("pools", "allowed_images")
    op.drop_column("pools", "requires_containers")
