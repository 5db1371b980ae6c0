"""Projects whose logs and metrics have ages of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

COLUMNS = ("log_retention_days", "metric_retention_days")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("projects", sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("projects", name)
