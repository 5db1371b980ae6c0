"""The commit of an experiment's code, and what its jobs ran with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("experiments", sa.Column("code_version", Json, nullable=True))
    op.add_column("allocations", sa.Column("environment", Json, nullable=True))


def downgrade() -> None:
    op.drop_column("allocations", "environment")
    op.drop_column("experiments", "code_version")
