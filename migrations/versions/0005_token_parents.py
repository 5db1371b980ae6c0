"""What an API token has made, so that it ends with that token.

Every step is guarded, so that it also runs on a database that has some of it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COLUMNS = (
    ("api_tokens", "parent_id", BigId),
    ("join_tokens", "api_token_id", BigId),
    ("one_time_tokens", "api_token_id", BigId),
    ("one_time_tokens", "session_hash", sa.String(length=64)),
)
INDEXES = (("api_tokens", "parent_id"), ("join_tokens", "api_token_id"))


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    for table, name, kind in COLUMNS:
        if name not in {known["name"] for known in inspector.get_columns(table)}:
            op.add_column(table, sa.Column(name, kind, nullable=True))
    for table, name in INDEXES:
        index = f"ix_{table}_{name}"
        if index not in {known["name"] for known in inspector.get_indexes(table)}:
            op.create_index(index, table, [name])


def downgrade() -> None:
    for table, name in reversed(INDEXES):
        op.drop_index(f"ix_{table}_{name}", table_name=table)
    for table, name, _ in reversed(COLUMNS):
        op.drop_column(table, name)
