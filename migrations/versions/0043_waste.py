"""Waste: what pools do about slots that do nothing, notices of it, and weekly summaries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
Timestamp = sa.DateTime(timezone=True)
COLUMNS = (
    ("pools", "waste", Json),
    ("attempts", "waste", Json),
    ("trials", "keep_until", Timestamp),
    ("users", "summarized_at", Timestamp),
)


def upgrade() -> None:
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, name, _ in COLUMNS:
        op.drop_column(table, name)
