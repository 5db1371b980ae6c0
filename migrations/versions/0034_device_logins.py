"""Command lines that wait for somebody to let them in, in a browser."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "device_logins",
        sa.Column("id", BigId, nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("user_code", sa.String(9), nullable=False),
        sa.Column("client", sa.String(128), nullable=False),
        sa.Column("remote_addr", sa.String(64), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_device_logins_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_logins")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_device_logins_secret_hash")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_logins_user_code")),
    )


def downgrade() -> None:
    op.drop_table("device_logins")
