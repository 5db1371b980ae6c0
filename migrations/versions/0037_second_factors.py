"""Codes of an authenticator app as a second factor, and recovery codes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def _of_user(table: str) -> sa.Constraint:
    name = op.f(f"fk_{table}_user_id_users")
    return sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=name, ondelete="CASCADE")


def upgrade() -> None:
    op.create_table(
        "second_factors",
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("confirmed_at", Timestamp, nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        _of_user("second_factors"),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_second_factors")),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("code_hash", sa.String(64), nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        _of_user("recovery_codes"),
        sa.PrimaryKeyConstraint("user_id", "code_hash", name=op.f("pk_recovery_codes")),
    )


def downgrade() -> None:
    op.drop_table("recovery_codes")
    op.drop_table("second_factors")
