"""API servers that stamp a row while they can hear, who heard a node, why it is silent, ghost slots.

Every step is guarded, so that it also runs on a database that has some of it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def _columns() -> tuple[tuple[str, sa.Column[object]], ...]:
    return (
        ("nodes", sa.Column("heard_by", sa.String(128), nullable=False, server_default="")),
        ("nodes", sa.Column("state_reason", sa.String(), nullable=False, server_default="")),
        ("nodes", sa.Column("state_parts", Json, nullable=True)),
        (
            "node_slots",
            sa.Column("is_gone", sa.Boolean(), nullable=False, server_default=sa.false()),
        ),
    )


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("api_servers"):
        op.create_table(
            "api_servers",
            sa.Column("name", sa.String(128), nullable=False),
            sa.Column("started_at", Timestamp, nullable=False),
            sa.Column("stamped_at", Timestamp, nullable=False),
            sa.PrimaryKeyConstraint("name", name=op.f("pk_api_servers")),
        )
    for table, column in _columns():
        if column.name not in {known["name"] for known in inspector.get_columns(table)}:
            op.add_column(table, column)


def downgrade() -> None:
    for table, column in reversed(_columns()):
        op.drop_column(table, str(column.name))
    op.drop_table("api_servers")
