"""Trials that take the result of another one with the same inputs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("reuse_key", sa.String(64), nullable=True))
    op.add_column("trials", sa.Column("reused_from", sa.BigInteger(), nullable=True))
    op.create_index("ix_trials_reuse_key", "trials", ["reuse_key"])
    op.create_index("ix_trials_reused_from", "trials", ["reused_from"])


def downgrade() -> None:
    for name in ("reused_from", "reuse_key"):
        op.drop_index(f"ix_trials_{name}", "trials")
        op.drop_column("trials", name)
