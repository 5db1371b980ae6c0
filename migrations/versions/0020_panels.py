"""Panels that people add to the charts of an experiment or a project."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "panels",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("experiment_id", BigId, nullable=True),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("expressions", Json, nullable=False),
        sa.Column("x", sa.String(500), nullable=True),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_panels_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_panels_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["users.id"], name=op.f("fk_panels_owner_id_users"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_panels")),
    )
    op.create_index(op.f("ix_panels_project_id"), "panels", ["project_id"], unique=False)
    op.create_index(op.f("ix_panels_experiment_id"), "panels", ["experiment_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_panels_experiment_id"), table_name="panels")
    op.drop_index(op.f("ix_panels_project_id"), table_name="panels")
    op.drop_table("panels")
