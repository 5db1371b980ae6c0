"""What workers tell of the samples that they were given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("workers", sa.Column("samples", Json, nullable=True))


def downgrade() -> None:
    op.drop_column("workers", "samples")
