"""What ignore files left out of the code of an experiment."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("experiments", sa.Column("left_out", Json, nullable=True))


def downgrade() -> None:
    op.drop_column("experiments", "left_out")
