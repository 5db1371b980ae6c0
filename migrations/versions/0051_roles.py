"""Members of gangs of several kinds of jobs: role, number within it, and address."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "allocations", sa.Column("role", sa.String(32), nullable=False, server_default="")
    )
    op.add_column(
        "allocations", sa.Column("role_index", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column(
        "allocations", sa.Column("address", sa.String(270), nullable=False, server_default="")
    )
    op.add_column(
        "log_streams", sa.Column("member", sa.String(48), nullable=False, server_default="")
    )


def downgrade() -> None:
    op.drop_column("log_streams", "member")
    op.drop_column("allocations", "address")
    op.drop_column("allocations", "role_index")
    op.drop_column("allocations", "role")
