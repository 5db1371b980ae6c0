"""Accounts and groups that SCIM manages, and accounts that their OpenID provider has refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("users", sa.Column("provider_refused_at", Timestamp, nullable=True))
    op.create_table(
        "scim_users",
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("user_name", sa.String(254), nullable=False),
        sa.Column("name_key", sa.String(254), nullable=False),
        sa.Column("external_id", sa.String(255), nullable=True),
        _refers("scim_users", "user_id", "users"),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_scim_users")),
        sa.UniqueConstraint("name_key", name=op.f("uq_scim_users_name_key")),
        sa.UniqueConstraint("external_id", name=op.f("uq_scim_users_external_id")),
    )
    op.create_table(
        "scim_groups",
        sa.Column("group_id", BigId, nullable=False),
        sa.Column("name_key", sa.String(200), nullable=False),
        sa.Column("external_id", sa.String(255), nullable=True),
        _refers("scim_groups", "group_id", "groups"),
        sa.PrimaryKeyConstraint("group_id", name=op.f("pk_scim_groups")),
        sa.UniqueConstraint("name_key", name=op.f("uq_scim_groups_name_key")),
    )
    op.create_index(op.f("ix_scim_groups_external_id"), "scim_groups", ["external_id"])


def downgrade() -> None:
    # Without the column, whom the provider has refused could use their tokens again.
    op.execute("UPDATE users SET is_active = false WHERE provider_refused_at IS NOT NULL")
    op.drop_table("scim_groups")
    op.drop_table("scim_users")
    op.drop_column("users", "provider_refused_at")


def _refers(table: str, column: str, target: str) -> sa.Constraint:
    name = op.f(f"fk_{table}_{column}_{target}")
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=name, ondelete="CASCADE")
