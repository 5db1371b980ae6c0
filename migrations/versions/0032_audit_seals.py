"""Seals of the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit_log", sa.Column("seal_no", sa.BigInteger(), nullable=True))
    op.add_column(
        "audit_log", sa.Column("digest", sa.String(64), nullable=False, server_default="")
    )
    op.create_index(op.f("ix_audit_log_seal_no"), "audit_log", ["seal_no"], unique=True)
    op.create_table(
        "audit_heads",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("seal_no", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("sealed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_heads")),
    )


def downgrade() -> None:
    op.drop_table("audit_heads")
    op.drop_index(op.f("ix_audit_log_seal_no"), table_name="audit_log")
    op.drop_column("audit_log", "digest")
    op.drop_column("audit_log", "seal_no")
