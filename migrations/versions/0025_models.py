"""Models with versions and aliases, uploaded files of them, and digests of logged artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def _refers(table: str, column: str, target: str, ondelete: str | None = None) -> sa.Constraint:
    name = op.f(f"fk_{table}_{column}_{target.split('.')[0]}")
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete=ondelete)


def upgrade() -> None:
    op.add_column(
        "run_artifacts", sa.Column("sha256", sa.String(64), nullable=False, server_default="")
    )
    op.create_table(
        "model_blobs",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_model_blobs")),
    )
    op.create_table(
        "model_blob_chunks",
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        _refers("model_blob_chunks", "sha256", "model_blobs.sha256", "CASCADE"),
        sa.PrimaryKeyConstraint("sha256", "idx", name=op.f("pk_model_blob_chunks")),
    )
    op.create_table(
        "models",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("last_number", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        _refers("models", "project_id", "projects.id"),
        _refers("models", "owner_id", "users.id", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", name=op.f("uq_models_name")),
    )
    op.create_index(op.f("ix_models_project_id"), "models", ["project_id"])
    op.create_table(
        "model_versions",
        sa.Column("id", BigId, nullable=False),
        sa.Column("model_id", BigId, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("source_uri", sa.String(1000), nullable=False),
        sa.Column("checkpoint_id", BigId, nullable=True),
        sa.Column("trial_id", BigId, nullable=True),
        sa.Column("experiment_id", BigId, nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("lineage", Json, nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("signature", Json, nullable=True),
        sa.Column("tags", Json, nullable=False),
        sa.Column("notes", sa.String(), nullable=False),
        sa.Column("num_files", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        _refers("model_versions", "model_id", "models.id"),
        _refers("model_versions", "checkpoint_id", "checkpoints.id"),
        _refers("model_versions", "trial_id", "trials.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_versions")),
        sa.UniqueConstraint("model_id", "number", name=op.f("uq_model_versions_model_id_number")),
    )
    for column in ("state", "checkpoint_id", "trial_id", "experiment_id"):
        op.create_index(f"ix_model_versions_{column}", "model_versions", [column])
    op.create_table(
        "model_files",
        sa.Column("id", BigId, nullable=False),
        sa.Column("version_id", BigId, nullable=False),
        sa.Column("path", sa.String(500), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("place", Json, nullable=True),
        sa.Column("blob_sha256", sa.String(64), nullable=True),
        sa.Column("artifact_id", BigId, nullable=True),
        _refers("model_files", "version_id", "model_versions.id", "CASCADE"),
        _refers("model_files", "blob_sha256", "model_blobs.sha256"),
        _refers("model_files", "artifact_id", "run_artifacts.id"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_files")),
        sa.UniqueConstraint("version_id", "path", name=op.f("uq_model_files_version_id_path")),
    )
    op.create_index(op.f("ix_model_files_blob_sha256"), "model_files", ["blob_sha256"])
    op.create_index(op.f("ix_model_files_artifact_id"), "model_files", ["artifact_id"])
    op.create_table(
        "model_aliases",
        sa.Column("model_id", BigId, nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("version_id", BigId, nullable=False),
        sa.Column("moved_at", Timestamp, nullable=False),
        sa.Column("moved_by", sa.String(160), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        _refers("model_aliases", "model_id", "models.id", "CASCADE"),
        _refers("model_aliases", "version_id", "model_versions.id"),
        sa.PrimaryKeyConstraint("model_id", "name", name=op.f("pk_model_aliases")),
    )
    op.create_index(op.f("ix_model_aliases_version_id"), "model_aliases", ["version_id"])
    op.create_table(
        "model_alias_moves",
        sa.Column("id", BigId, nullable=False),
        sa.Column("model_id", BigId, nullable=False),
        sa.Column("alias", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("previous", sa.Integer(), nullable=True),
        sa.Column("at", Timestamp, nullable=False),
        sa.Column("by", sa.String(160), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        _refers("model_alias_moves", "model_id", "models.id", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_alias_moves")),
    )
    op.create_index(op.f("ix_model_alias_moves_model_id"), "model_alias_moves", ["model_id"])
    op.create_table(
        "model_promotions",
        sa.Column("id", BigId, nullable=False),
        sa.Column("model_id", BigId, nullable=False),
        sa.Column("experiment_id", BigId, nullable=False),
        sa.Column("alias", sa.String(32), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("goal", sa.String(4), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("version_id", BigId, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("decided_at", Timestamp, nullable=True),
        _refers("model_promotions", "model_id", "models.id", "CASCADE"),
        _refers("model_promotions", "experiment_id", "experiments.id", "CASCADE"),
        _refers("model_promotions", "version_id", "model_versions.id", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_promotions")),
        sa.UniqueConstraint(
            "model_id",
            "experiment_id",
            "alias",
            name=op.f("uq_model_promotions_model_id_experiment_id_alias"),
        ),
    )
    op.create_index("ix_model_promotions_state", "model_promotions", ["state"])
    op.create_index(
        op.f("ix_model_promotions_experiment_id"), "model_promotions", ["experiment_id"]
    )


def downgrade() -> None:
    for table in (
        "model_promotions",
        "model_alias_moves",
        "model_aliases",
        "model_files",
        "model_versions",
        "models",
        "model_blob_chunks",
        "model_blobs",
    ):
        op.drop_table(table)
    op.drop_column("run_artifacts", "sha256")
