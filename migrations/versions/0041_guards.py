"""Guards: rules on metrics, what they remember, and what they have done to trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column(
        "experiments", sa.Column("num_guards", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column(
        "trials", sa.Column("guard_reason", sa.String(), nullable=False, server_default="")
    )
    op.add_column("trials", sa.Column("hparams_before", Json, nullable=True))
    op.add_column(
        "trials", sa.Column("rolled_back_attempt", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column(
        "trials", sa.Column("rolled_back_step", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.create_table(
        "guard_states",
        sa.Column("trial_id", BigId, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("states", Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_guard_states_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_guard_states")),
    )


def downgrade() -> None:
    op.drop_table("guard_states")
    for name in ("guard_reason", "hparams_before", "rolled_back_attempt", "rolled_back_step"):
        op.drop_column("trials", name)
    op.drop_column("experiments", "num_guards")
