"""Runs that tracking clients report from outside a job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("experiments", sa.Column("unmanaged", sa.String(16), nullable=True))
    op.add_column("trials", sa.Column("heard_at", Timestamp, nullable=True))
    op.create_table(
        "tracking_experiments",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_tracking_experiments_owner_id_users"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tracking_experiments")),
        sa.UniqueConstraint("name", name=op.f("uq_tracking_experiments_name")),
    )
    op.create_table(
        "unmanaged_runs",
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("tracking_experiment_id", BigId, nullable=True),
        sa.Column("user", sa.String(250), nullable=False),
        sa.Column("latest", Json, nullable=False),
        sa.Column("datasets", Json, nullable=False),
        sa.Column("models", Json, nullable=False),
        sa.Column("num_artifacts", sa.Integer(), nullable=False),
        sa.Column("artifact_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_unmanaged_runs_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_unmanaged_runs")),
        sa.UniqueConstraint("run_id", name=op.f("uq_unmanaged_runs_run_id")),
    )
    op.create_index(
        op.f("ix_unmanaged_runs_tracking_experiment_id"),
        "unmanaged_runs",
        ["tracking_experiment_id"],
    )
    op.create_table(
        "logged_models",
        sa.Column("id", BigId, nullable=False),
        sa.Column("model_id", sa.String(64), nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("tracking_experiment_id", BigId, nullable=True),
        sa.Column("model", Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_logged_models_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_logged_models")),
        sa.UniqueConstraint("model_id", name=op.f("uq_logged_models_model_id")),
    )
    op.create_index(op.f("ix_logged_models_trial_id"), "logged_models", ["trial_id"])
    op.create_index(
        op.f("ix_logged_models_tracking_experiment_id"),
        "logged_models",
        ["tracking_experiment_id"],
    )
    op.create_table(
        "run_artifacts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("path", sa.String(1000), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_run_artifacts_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_artifacts")),
        sa.UniqueConstraint("trial_id", "path", name=op.f("uq_run_artifacts_trial_id_path")),
    )
    op.create_table(
        "run_artifact_chunks",
        sa.Column("artifact_id", BigId, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["artifact_id"],
            ["run_artifacts.id"],
            name=op.f("fk_run_artifact_chunks_artifact_id_run_artifacts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("artifact_id", "idx", name=op.f("pk_run_artifact_chunks")),
    )


def downgrade() -> None:
    for table in (
        "run_artifact_chunks",
        "run_artifacts",
        "logged_models",
        "unmanaged_runs",
        "tracking_experiments",
    ):
        op.drop_table(table)
    op.drop_column("trials", "heard_at")
    op.drop_column("experiments", "unmanaged")
