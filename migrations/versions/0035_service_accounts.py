"""Service accounts, tokens that are limited to projects, and sessions that can be listed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COLUMNS = {
    "users": {"kind": (16, "person"), "description": (200, "")},
    "sessions": {"remote_addr": (64, ""), "user_agent": (200, "")},
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for name, (length, default) in columns.items():
            column = sa.Column(name, sa.String(length), nullable=False, server_default=default)
            op.add_column(table, column)
    op.add_column(
        "api_tokens",
        sa.Column("is_limited", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "api_token_projects",
        sa.Column("token_id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        _refers("token_id", "api_tokens"),
        _refers("project_id", "projects"),
        sa.PrimaryKeyConstraint("token_id", "project_id", name=op.f("pk_api_token_projects")),
    )
    op.create_index(op.f("ix_api_token_projects_project_id"), "api_token_projects", ["project_id"])


def downgrade() -> None:
    # Without their limits these tokens would see everything.
    op.execute("DELETE FROM api_tokens WHERE is_limited")
    op.drop_table("api_token_projects")
    op.drop_column("api_tokens", "is_limited")
    for table, columns in COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)


def _refers(column: str, target: str) -> sa.Constraint:
    name = op.f(f"fk_api_token_projects_{column}_{target}")
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=name, ondelete="CASCADE")
