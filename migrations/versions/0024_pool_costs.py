"""What pilots cost and may cost, pools whose pilots are for one attempt each, and notices of sites."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    for column in (
        sa.Column("exclusive", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("max_slot_hours", sa.Double(), nullable=True),
        sa.Column("max_cost", sa.Double(), nullable=True),
        sa.Column("spent_slot_hours", sa.Double(), nullable=False, server_default="0"),
        sa.Column("spent_cost", sa.Double(), nullable=False, server_default="0"),
        sa.Column("counted_since", Timestamp, nullable=True),
        sa.Column("notice", sa.String(), nullable=False, server_default=""),
    ):
        op.add_column("pool_providers", column)
    for column in (
        sa.Column("trial_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt_no", sa.Integer(), nullable=True),
        sa.Column("slots", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("walltime_s", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("has_failed", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("pilots", column)
    op.create_index(op.f("ix_pilots_trial_id"), "pilots", ["trial_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_pilots_trial_id"), "pilots")
    for name in (
        "has_failed",
        "started_at",
        "walltime_s",
        "slots",
        "attempt_no",
        "trial_id",
    ):
        op.drop_column("pilots", name)
    for name in (
        "notice",
        "counted_since",
        "spent_cost",
        "spent_slot_hours",
        "max_cost",
        "max_slot_hours",
        "exclusive",
    ):
        op.drop_column("pool_providers", name)
