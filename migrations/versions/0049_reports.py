"""Reports, their comments, and the links that show them to people without an account."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "reports",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("blocks", Json, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.Column("frozen_at", Timestamp, nullable=True),
        sa.Column("frozen", sa.LargeBinary(), nullable=True),
        _to("project_id", "projects", "reports", "CASCADE"),
        _to("owner_id", "users", "reports", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
    )
    op.create_index(op.f("ix_reports_project_id"), "reports", ["project_id"])
    op.create_table(
        "report_comments",
        sa.Column("id", BigId, nullable=False),
        sa.Column("report_id", BigId, nullable=False),
        sa.Column("author_id", BigId, nullable=True),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        _to("report_id", "reports", "report_comments", "CASCADE"),
        _to("author_id", "users", "report_comments", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_comments")),
    )
    op.create_index(op.f("ix_report_comments_report_id"), "report_comments", ["report_id"])
    op.create_table(
        "report_links",
        sa.Column("id", BigId, nullable=False),
        sa.Column("report_id", BigId, nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.Column("last_used_at", Timestamp, nullable=True),
        _to("report_id", "reports", "report_links", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report_links")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_report_links_secret_hash")),
    )
    op.create_index(op.f("ix_report_links_report_id"), "report_links", ["report_id"])


def _to(column: str, other: str, table: str, ondelete: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{column}_{other}")
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name, ondelete=ondelete)


def downgrade() -> None:
    for table in ("report_links", "report_comments", "reports"):
        op.drop_table(table)
