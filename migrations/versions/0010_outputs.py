"""The files that trials wrote, and exports of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Timestamp = sa.DateTime(timezone=True)

INDEXES = ("state", "trial_id", "checkpoint_id")
KEPT = (
    "id, checkpoint_id, trial_id, trial_no, experiment_id, step, storage_id, storage_url, path, "
    "node_name, state, message, room_bytes, size_bytes, sha256, requested_by, requested_at, "
    "ended_at, expires_at"
)


def upgrade() -> None:
    op.create_table(
        "trial_outputs",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("node_rank", sa.Integer(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.Column("node_id", sa.String(32), nullable=False),
        sa.Column("node_name", sa.String(128), nullable=False),
        sa.Column("storage_id", sa.String(64), nullable=False),
        sa.Column("storage_url", sa.String(), nullable=False),
        sa.Column("folder", sa.String(255), nullable=False),
        sa.Column("num_files", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_left_out", sa.Integer(), nullable=False),
        sa.Column("left_out_bytes", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("files", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_trial_outputs_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial_outputs")),
        sa.UniqueConstraint(
            "trial_id", "node_rank", name=op.f("uq_trial_outputs_trial_id_node_rank")
        ),
    )
    _copy_exports(with_outputs=True)


def downgrade() -> None:
    op.execute("DELETE FROM exports WHERE checkpoint_id IS NULL")
    _copy_exports(with_outputs=False)
    op.drop_table("trial_outputs")


def _columns_of_outputs() -> list[sa.Column[object]]:
    return [
        sa.Column("files", sa.LargeBinary(), nullable=True),
        sa.Column("num_files", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("first_bytes", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("request_key", sa.String(64), nullable=False, server_default=""),
        sa.Column("file_name", sa.String(255), nullable=False, server_default=""),
    ]


def _copy_exports(*, with_outputs: bool) -> None:
    """Add or drop the columns of outputs, and say whether an export may be without a checkpoint."""
    if op.get_bind().dialect.name != "sqlite":
        if with_outputs:
            for column in _columns_of_outputs():
                op.add_column("exports", column)
            op.create_index("ix_exports_request_key", "exports", ["request_key"], unique=False)
        else:
            op.drop_index("ix_exports_request_key", table_name="exports")
            for column in reversed(_columns_of_outputs()):
                op.drop_column("exports", column.name)
        op.alter_column(
            "exports", "checkpoint_id", existing_type=sa.BigInteger(), nullable=with_outputs
        )
        return
    # SQLite deletes the chunks with a table of exports that is dropped: both are copied.
    _create_copies(with_outputs=with_outputs)
    op.execute(f"INSERT INTO exports_copy ({KEPT}) SELECT {KEPT} FROM exports")  # noqa: S608
    op.execute("INSERT INTO export_chunks_copy SELECT export_id, idx, data FROM export_chunks")
    op.drop_table("export_chunks")
    op.drop_table("exports")
    op.rename_table("exports_copy", "exports")
    op.rename_table("export_chunks_copy", "export_chunks")
    for column in (*INDEXES, "request_key") if with_outputs else INDEXES:
        op.create_index(f"ix_exports_{column}", "exports", [column], unique=False)


def _create_copies(*, with_outputs: bool) -> None:
    op.create_table(
        "exports_copy",
        sa.Column("id", BigId, nullable=False),
        sa.Column("checkpoint_id", BigId, nullable=with_outputs),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("trial_no", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("storage_id", sa.String(length=64), nullable=False),
        sa.Column("storage_url", sa.String(), nullable=False),
        sa.Column("path", sa.String(length=255), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("room_bytes", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("requested_by", sa.String(length=160), nullable=False),
        sa.Column("requested_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("expires_at", Timestamp, nullable=False),
        *(_columns_of_outputs() if with_outputs else []),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"],
            ["checkpoints.id"],
            name=op.f("fk_exports_checkpoint_id_checkpoints"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
    )
    op.create_table(
        "export_chunks_copy",
        sa.Column("export_id", BigId, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["export_id"],
            ["exports_copy.id"],
            name=op.f("fk_export_chunks_export_id_exports"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("export_id", "idx", name=op.f("pk_export_chunks")),
    )
