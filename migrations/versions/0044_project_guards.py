"""Guards that a project gives to the experiments submitted to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("guards", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("projects", "guards")
