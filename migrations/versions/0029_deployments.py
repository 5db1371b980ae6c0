"""Deployments, their revisions and replicas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def _refers(table: str, column: str, target: str, ondelete: str | None = None) -> sa.Constraint:
    name = op.f(f"fk_{table}_{column}_{target.split('.')[0]}")
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete=ondelete)


def upgrade() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("wants", sa.String(8), nullable=False),
        sa.Column("is_stopped", sa.Boolean(), nullable=False),
        sa.Column("backend", sa.Integer(), nullable=True),
        sa.Column("num_replicas", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("options", Json, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("target_since", Timestamp, nullable=False),
        sa.Column("stable", sa.Integer(), nullable=True),
        sa.Column("last_revision", sa.Integer(), nullable=False),
        sa.Column("num_failures", sa.Integer(), nullable=False),
        sa.Column("failed_at", Timestamp, nullable=True),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        _refers("deployments", "project_id", "projects.id"),
        _refers("deployments", "owner_id", "users.id", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployments")),
        sa.UniqueConstraint("name", name=op.f("uq_deployments_name")),
        sa.UniqueConstraint("backend", name=op.f("uq_deployments_backend")),
    )
    op.create_index(op.f("ix_deployments_project_id"), "deployments", ["project_id"])
    op.create_table(
        "deployment_revisions",
        sa.Column("id", BigId, nullable=False),
        sa.Column("deployment_id", BigId, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("reference", sa.String(120), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("settled_at", Timestamp, nullable=True),
        _refers("deployment_revisions", "deployment_id", "deployments.id", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployment_revisions")),
        sa.UniqueConstraint(
            "deployment_id", "number", name=op.f("uq_deployment_revisions_deployment_id_number")
        ),
    )
    op.create_table(
        "deployment_replicas",
        sa.Column("id", BigId, nullable=False),
        sa.Column("deployment_id", BigId, nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("experiment_id", BigId, nullable=True),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("phase_since", Timestamp, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("num_sessions", sa.Integer(), nullable=False),
        sa.Column("num_requests", sa.BigInteger(), nullable=False),
        sa.Column("num_errors", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        _refers("deployment_replicas", "deployment_id", "deployments.id", "CASCADE"),
        _refers("deployment_replicas", "experiment_id", "experiments.id", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deployment_replicas")),
    )
    op.create_index(
        op.f("ix_deployment_replicas_experiment_id"), "deployment_replicas", ["experiment_id"]
    )
    op.create_index(
        "ix_deployment_replicas_deployment_id_phase",
        "deployment_replicas",
        ["deployment_id", "phase"],
    )


def downgrade() -> None:
    op.drop_table("deployment_replicas")
    op.drop_table("deployment_revisions")
    op.drop_table("deployments")
