"""Where the slot-seconds of attempts go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
CLASSES = (
    "preparing", "starting", "restoring", "productive", "saving", "evaluation", "repeated", "stalled",
    "undetected", "finishing", "stopping", "idle", "unmeasured", "abandoned",
    "computation", "communication", "data", "bubble",
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "ledgers",
        sa.Column("attempt_id", BigId, autoincrement=False, nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("queued_s", sa.Double(), nullable=True),
        sa.Column("tally", Json, nullable=False),
        sa.Column("num_rows", sa.BigInteger(), nullable=False),
        sa.Column("kept_step", sa.BigInteger(), nullable=True),
        sa.Column("is_abandoned", sa.Boolean(), nullable=False),
        sa.Column("until", Timestamp, nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("due_at", Timestamp, nullable=True),
        _refers("ledgers", "CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_ledgers")),
    )
    for column in ("trial_id", "due_at", "is_open"):
        op.create_index(op.f(f"ix_ledgers_{column}"), "ledgers", [column])
    op.create_table(
        "ledger_days",
        sa.Column("id", BigId, nullable=False),
        sa.Column("attempt_id", BigId, nullable=True),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=True),
        sa.Column("pool", sa.String(64), nullable=False),
        sa.Column("price_per_slot_hour", sa.Double(), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in CLASSES),
        _refers("ledger_days", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_days")),
    )
    for column in ("attempt_id", "day"):
        op.create_index(op.f(f"ix_ledger_days_{column}"), "ledger_days", [column])


def downgrade() -> None:
    op.drop_table("ledger_days")
    op.drop_table("ledgers")


def _refers(table: str, ondelete: str) -> sa.Constraint:
    name = op.f(f"fk_{table}_attempt_id_attempts")
    return sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=name, ondelete=ondelete)
