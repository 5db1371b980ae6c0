"""Batch inference: what is predicted, and who computes which shard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("allocations", sa.Column("shards", Json, nullable=True))
    op.create_table(
        "predictions",
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("nodes_heard", Json, nullable=False),
        sa.Column("inputs", Json, nullable=False),
        sa.Column("num_shards", sa.Integer(), nullable=False),
        sa.Column("num_done", sa.Integer(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("rows_done", sa.BigInteger(), nullable=False),
        sa.Column("num_errors", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_predictions_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_predictions")),
    )
    op.create_table(
        "prediction_shards",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("input_no", sa.Integer(), nullable=False),
        sa.Column("first_row", sa.BigInteger(), nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("allocation_id", sa.String(32), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("lease_until", Timestamp, nullable=True),
        sa.Column("num_predicted", sa.BigInteger(), nullable=False),
        sa.Column("num_errors", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("seen_attempt_no", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["predictions.trial_id"],
            name=op.f("fk_prediction_shards_trial_id_predictions"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prediction_shards")),
        sa.UniqueConstraint("trial_id", "no", name=op.f("uq_prediction_shards_trial_id_no")),
    )
    op.create_index("ix_prediction_shards_state", "prediction_shards", ["trial_id", "state", "no"])


def downgrade() -> None:
    op.drop_table("prediction_shards")
    op.drop_table("predictions")
    op.drop_column("allocations", "shards")
