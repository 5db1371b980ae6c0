"""Who users are for an OpenID provider, and the groups that it fills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "user_identities",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("issuer", sa.String(512), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("last_login_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_user_identities_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_identities")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_user_identities_issuer_subject")),
    )
    op.create_index(op.f("ix_user_identities_user_id"), "user_identities", ["user_id"])
    op.create_table(
        "openid_sessions",
        sa.Column("session_hash", sa.String(64), nullable=False),
        sa.Column("identity_id", BigId, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("checked_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["session_hash"],
            ["sessions.secret_hash"],
            name=op.f("fk_openid_sessions_session_hash_sessions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["identity_id"],
            ["user_identities.id"],
            name=op.f("fk_openid_sessions_identity_id_user_identities"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("session_hash", name=op.f("pk_openid_sessions")),
    )
    for column in ("identity_id", "checked_at"):
        op.create_index(op.f(f"ix_openid_sessions_{column}"), "openid_sessions", [column])
    op.add_column("groups", sa.Column("provider_group", sa.String(200), nullable=True))
    op.create_index(op.f("ix_groups_provider_group"), "groups", ["provider_group"], unique=True)


def downgrade() -> None:
    op.drop_index(op.f("ix_groups_provider_group"), table_name="groups")
    op.drop_column("groups", "provider_group")
    op.drop_table("openid_sessions")
    op.drop_table("user_identities")
