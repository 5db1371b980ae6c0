"""Reservations of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "node_reservations",
        sa.Column("id", BigId, nullable=False),
        sa.Column("starts_at", Timestamp, nullable=False),
        sa.Column("ends_at", Timestamp, nullable=False),
        sa.Column("nodes", Json, nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("project_id", BigId, nullable=True),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("ended_by", sa.String(160), nullable=False),
        sa.Column("announced", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_node_reservations_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_node_reservations_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node_reservations")),
    )
    for name in ("ended_at", "project_id", "user_id"):
        op.create_index(op.f(f"ix_node_reservations_{name}"), "node_reservations", [name])


def downgrade() -> None:
    op.drop_table("node_reservations")
