"""Runs that scripts have started with a tracking client."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "tracked_runs",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("label", sa.String(128), nullable=False),
        sa.Column("parent_run_id", sa.String(64), nullable=False),
        sa.Column("folder", sa.String(255), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("started_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("params", Json, nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_tracked_runs_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tracked_runs")),
        sa.UniqueConstraint("trial_id", "run_id", name=op.f("uq_tracked_runs_trial_id_run_id")),
    )


def downgrade() -> None:
    op.drop_table("tracked_runs")
