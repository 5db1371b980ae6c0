"""Layers of models, listed by nodes for the planner."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = "layer_tables"
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table(TABLE):
        return
    op.create_table(
        TABLE,
        sa.Column("id", BigId, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("question", Json, nullable=False),
        sa.Column("node_id", sa.String(32), nullable=False),
        sa.Column("node_name", sa.String(128), nullable=False),
        sa.Column("layers", Json, nullable=True),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("asked_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_layer_tables"),
        sa.UniqueConstraint("key", name="uq_layer_tables_key"),
    )
    op.create_index("ix_layer_tables_state", TABLE, ["state"])


def downgrade() -> None:
    if sa.inspect(op.get_bind()).has_table(TABLE):
        op.drop_index("ix_layer_tables_state", table_name=TABLE)
        op.drop_table(TABLE)
