"""Nodes that leave the cluster with their agent, and what submits them to a batch system."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "nodes", sa.Column("is_pilot", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("nodes", sa.Column("ends_at", Timestamp, nullable=True))
    op.add_column(
        "nodes", sa.Column("provider_ref", sa.String(255), nullable=False, server_default="")
    )
    op.create_table(
        "pool_providers",
        sa.Column("pool", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("options", Json, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("slot_type", sa.String(16), nullable=False),
        sa.Column("min_pilots", sa.Integer(), nullable=False),
        sa.Column("max_pilots", sa.Integer(), nullable=False),
        sa.Column("walltime_s", sa.Integer(), nullable=False),
        sa.Column("idle_s", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before", Timestamp, nullable=True),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("listed_at", Timestamp, nullable=True),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("pool", name=op.f("pk_pool_providers")),
    )
    op.create_table(
        "pilots",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("pool", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", Timestamp, nullable=False),
        sa.Column("ref", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("expected_at", Timestamp, nullable=True),
        sa.Column("missing_since", Timestamp, nullable=True),
        sa.Column("was_up", sa.Boolean(), nullable=False),
        sa.Column("asked_at", Timestamp, nullable=False),
        sa.Column("acted_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pilots")),
    )
    op.create_index(op.f("ix_pilots_pool"), "pilots", ["pool"])
    op.create_index(op.f("ix_pilots_state"), "pilots", ["state"])


def downgrade() -> None:
    op.drop_table("pilots")
    op.drop_table("pool_providers")
    op.drop_column("nodes", "provider_ref")
    op.drop_column("nodes", "ends_at")
    op.drop_column("nodes", "is_pilot")
