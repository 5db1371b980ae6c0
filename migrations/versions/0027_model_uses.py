"""What experiments do with versions of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "model_uses",
        sa.Column("id", BigId, nullable=False),
        sa.Column("version_id", BigId, nullable=False),
        sa.Column("experiment_id", BigId, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("result", Json, nullable=True),
        sa.Column("result_at", Timestamp, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["model_versions.id"],
            name=op.f("fk_model_uses_version_id_model_versions"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_model_uses_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_uses")),
        sa.UniqueConstraint("experiment_id", "name", name=op.f("uq_model_uses_experiment_id_name")),
    )
    op.create_index(op.f("ix_model_uses_version_id"), "model_uses", ["version_id"])
    op.create_index("ix_model_uses_kind", "model_uses", ["kind"])


def downgrade() -> None:
    op.drop_table("model_uses")
