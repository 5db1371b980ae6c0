"""What users dismiss from the overview, and an index for the use of slots over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "dismissals",
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("key", sa.String(length=120), nullable=False),
        sa.Column("dismissed_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_dismissals_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "key", name=op.f("pk_dismissals")),
    )
    op.create_index(op.f("ix_dismissals_dismissed_at"), "dismissals", ["dismissed_at"])
    op.create_index(op.f("ix_allocations_ended_at"), "allocations", ["ended_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_allocations_ended_at"), table_name="allocations")
    op.drop_index(op.f("ix_dismissals_dismissed_at"), table_name="dismissals")
    op.drop_table("dismissals")
