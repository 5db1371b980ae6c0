"""Files of metrics in an object store, and which trials have all of theirs there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "metric_files",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_points", sa.BigInteger(), nullable=False),
        sa.Column("group_rows", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("stored_at", Timestamp, nullable=True),
        sa.Column("finished_at", Timestamp, nullable=True),
        sa.Column("retired_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric_files")),
    )
    op.create_index(op.f("ix_metric_files_trial_id"), "metric_files", ["trial_id"])
    op.add_column("trials", sa.Column("cold_at", Timestamp, nullable=True))


def downgrade() -> None:
    op.drop_column("trials", "cold_at")
    op.drop_index(op.f("ix_metric_files_trial_id"), table_name="metric_files")
    op.drop_table("metric_files")
