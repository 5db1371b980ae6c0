"""Secrets of users and projects, encrypted.

Guarded, so that it also runs on a database that has the table.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table("secrets"):
        return
    op.create_table(
        "secrets",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("project_id", BigId, nullable=True),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.Column("changed_by", sa.String(160), nullable=False),
        sa.Column("rotated_at", Timestamp, nullable=True),
        sa.Column("last_used_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_secrets_user_id_users"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_secrets_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_secrets")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_secrets_user_id_name")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_secrets_project_id_name")),
    )


def downgrade() -> None:
    op.drop_table("secrets")
