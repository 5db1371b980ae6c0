"""Groups, the members of projects, and who may see and use a project."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)


def _refers(table: str, column: str, target: str) -> sa.Constraint:
    name = op.f(f"fk_{table}_{column}_{target}")
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=name, ondelete="CASCADE")


def upgrade() -> None:
    for column, default in (("visibility", "all"), ("submission", "members")):
        op.add_column(
            "projects", sa.Column(column, sa.String(8), nullable=False, server_default=default)
        )
    op.create_table(
        "groups",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("created_by", sa.String(160), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_groups_name")),
    )
    op.create_table(
        "group_members",
        sa.Column("group_id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("added_at", Timestamp, nullable=False),
        sa.Column("added_by", sa.String(160), nullable=False),
        _refers("group_members", "group_id", "groups"),
        _refers("group_members", "user_id", "users"),
        sa.PrimaryKeyConstraint("group_id", "user_id", name=op.f("pk_group_members")),
    )
    op.create_index(op.f("ix_group_members_user_id"), "group_members", ["user_id"])
    op.create_table(
        "project_members",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("group_id", BigId, nullable=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("added_at", Timestamp, nullable=False),
        sa.Column("added_by", sa.String(160), nullable=False),
        _refers("project_members", "project_id", "projects"),
        _refers("project_members", "user_id", "users"),
        _refers("project_members", "group_id", "groups"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project_members")),
        sa.UniqueConstraint(
            "project_id", "user_id", name=op.f("uq_project_members_project_id_user_id")
        ),
        sa.UniqueConstraint(
            "project_id", "group_id", name=op.f("uq_project_members_project_id_group_id")
        ),
    )
    for column in ("user_id", "group_id"):
        op.create_index(op.f(f"ix_project_members_{column}"), "project_members", [column])
    # Everybody goes on to see everything. Whoever has something in a project may go on to submit to
    # it; others have to be added.
    op.execute(
        "INSERT INTO project_members (project_id, user_id, role, added_at, added_by) "
        "SELECT project_id, owner_id, 'member', CURRENT_TIMESTAMP, 'system' FROM ("
        "SELECT project_id, owner_id FROM experiments "
        "UNION SELECT project_id, owner_id FROM models "
        "UNION SELECT project_id, owner_id FROM deployments) AS found "
        "WHERE owner_id IS NOT NULL ORDER BY project_id, owner_id"
    )
    # Documents that name no project go to this one. Where it has secrets, it is closed as well.
    op.execute(
        "UPDATE projects SET submission = 'all' WHERE name = 'default' AND NOT EXISTS "
        "(SELECT 1 FROM secrets WHERE secrets.project_id = projects.id)"
    )


def downgrade() -> None:
    for table in ("project_members", "group_members", "groups"):
        op.drop_table(table)
    op.drop_column("projects", "submission")
    op.drop_column("projects", "visibility")
