"""Nodes that a pool holds for trials that lost one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pools", sa.Column("spares", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("pools", "spares")
