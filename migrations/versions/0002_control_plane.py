"""Operations on experiments, budgets, projects and pools; nodes, preflight; giving up slots, queue.

One function per topic; `upgrade` calls them in order, `downgrade` undoes them in reverse.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)
PARTS = (
    ("projects", "exhausted_parts"),
    ("experiments", "exhausted_parts"),
    ("trials", "pending_parts"),
)
"""Sentences for other languages, beside their English text."""


def upgrade() -> None:
    _add_budgets()
    _add_operations()
    _add_storage()
    _add_nodes()
    _add_preflight()
    _add_yields()
    _add_queue()
    _add_avoidance()
    _add_evaluations()
    _add_metric_spans()
    _add_progress()
    _add_log_times()
    _add_samples()
    _add_purposes()
    _add_saved_views()
    _add_diagnoses()
    _add_scaling()
    _add_lineage()
    _add_external()
    _add_profiles()
    _add_exports()
    _add_keeping()
    _add_schedules()
    op.add_column("experiments", sa.Column("search_room", sa.Integer(), nullable=True))
    for table, column in PARTS:
        op.add_column(table, sa.Column(column, Json, nullable=True))


def downgrade() -> None:
    for table, column in reversed(PARTS):
        op.drop_column(table, column)
    op.drop_column("experiments", "search_room")
    op.drop_table("schedules")
    _drop_keeping()
    _drop_exports()
    _drop_profiles()
    _drop_external()
    _drop_lineage()
    _drop_diagnoses()
    _drop_saved_views()
    _drop_scaling()
    _drop_purposes()
    _drop_samples()
    _drop_log_times()
    _drop_progress()
    _drop_metric_spans()
    _drop_evaluations()
    _drop_avoidance()
    _drop_queue()
    _drop_yields()
    _drop_preflight()
    _drop_nodes()
    _drop_storage()
    _drop_operations()
    _drop_budgets()


# ---------------------------------------------------------------- budgets, projects, pools


def _add_budgets() -> None:
    op.create_table(
        "pools",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("price_per_slot_hour", sa.Double(), nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pools")),
    )
    op.create_table(
        "spending",
        sa.Column("experiment_id", BigId, autoincrement=False, nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("slot_s", sa.Double(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("experiment_id", name=op.f("pk_spending")),
    )
    op.create_index(op.f("ix_spending_project_id"), "spending", ["project_id"], unique=False)
    op.create_table(
        "budget_alerts",
        sa.Column("subject", sa.String(length=48), nullable=False),
        sa.Column("measure", sa.String(length=16), nullable=False),
        sa.Column("limit", sa.String(length=40), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint(
            "subject", "measure", "limit", "threshold", name=op.f("pk_budget_alerts")
        ),
    )
    op.add_column("projects", sa.Column("weight", sa.Double(), server_default="1", nullable=False))
    op.add_column("projects", sa.Column("quotas", Json, server_default="[]", nullable=False))
    op.add_column("projects", sa.Column("budget", Json, nullable=True))
    op.add_column("projects", sa.Column("budget_since", Timestamp, nullable=True))
    op.add_column("projects", sa.Column("budget_base", Json, nullable=True))
    op.add_column(
        "projects", sa.Column("exhausted_reason", sa.String(), server_default="", nullable=False)
    )
    op.add_column("events", sa.Column("project_id", sa.Integer(), nullable=True))
    op.create_index("ix_events_project_id_id", "events", ["project_id", "id"], unique=False)
    op.add_column("experiments", sa.Column("budget", Json, nullable=True))
    op.add_column(
        "experiments", sa.Column("exhausted_reason", sa.String(), server_default="", nullable=False)
    )
    op.add_column(
        "allocations",
        sa.Column("price_per_slot_hour", sa.Double(), server_default="0", nullable=False),
    )
    op.create_index(
        "ix_allocations_held",
        "allocations",
        ["observed"],
        unique=False,
        sqlite_where=sa.text("observed != 'CLEANED'"),
        postgresql_where=sa.text("observed != 'CLEANED'"),
    )


def _drop_budgets() -> None:
    op.drop_index("ix_allocations_held", table_name="allocations")
    op.drop_column("allocations", "price_per_slot_hour")
    op.drop_column("experiments", "exhausted_reason")
    op.drop_column("experiments", "budget")
    op.drop_index("ix_events_project_id_id", table_name="events")
    op.drop_column("events", "project_id")
    for column in (
        "exhausted_reason", "budget_base", "budget_since", "budget", "quotas", "weight",
    ):  # fmt: skip
        op.drop_column("projects", column)
    op.drop_table("budget_alerts")
    op.drop_index(op.f("ix_spending_project_id"), table_name="spending")
    op.drop_table("spending")
    op.drop_table("pools")


# ---------------------------------------------------------------- operations


def _add_operations() -> None:
    op.add_column("experiments", sa.Column("termination", sa.String(length=32), nullable=True))
    op.add_column("experiments", sa.Column("overrides", Json, server_default="[]", nullable=False))
    op.add_column("experiments", sa.Column("parent_id", sa.Integer(), nullable=True))
    op.add_column("experiments", sa.Column("source", Json, nullable=True))
    op.add_column(
        "experiments", sa.Column("num_continued", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("experiments", sa.Column("deleting_at", Timestamp, nullable=True))
    op.create_index(op.f("ix_experiments_parent_id"), "experiments", ["parent_id"], unique=False)
    op.add_column("trials", sa.Column("source_checkpoint_id", sa.Integer(), nullable=True))
    op.add_column(
        "trials", sa.Column("num_continued", sa.Integer(), server_default="0", nullable=False)
    )
    op.create_index(
        op.f("ix_trials_source_checkpoint_id"), "trials", ["source_checkpoint_id"], unique=False
    )
    op.add_column("idempotency_keys", sa.Column("answer", Json, nullable=True))


def _drop_operations() -> None:
    op.drop_column("idempotency_keys", "answer")
    op.drop_index(op.f("ix_trials_source_checkpoint_id"), table_name="trials")
    op.drop_column("trials", "num_continued")
    op.drop_column("trials", "source_checkpoint_id")
    op.drop_index(op.f("ix_experiments_parent_id"), table_name="experiments")
    for column in (
        "deleting_at", "num_continued", "source", "parent_id", "overrides", "termination",
    ):  # fmt: skip
        op.drop_column("experiments", column)


# ---------------------------------------------------------------- checkpoint files


def _add_storage() -> None:
    identity = op.create_table(
        "cluster_identity",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_identity")),
    )
    op.bulk_insert(identity, [{"id": secrets.token_hex(8)}])
    op.create_table(
        "file_deletions",
        sa.Column("id", BigId, nullable=False),
        sa.Column("storage_id", sa.String(length=64), nullable=False),
        sa.Column("storage_url", sa.String(), nullable=False),
        sa.Column("path", sa.String(length=255), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("experiment_name", sa.String(length=200), nullable=False),
        sa.Column("checkpoint_id", sa.BigInteger(), nullable=True),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("freed_bytes", sa.BigInteger(), nullable=True),
        sa.Column("requested_by", sa.String(length=160), nullable=False),
        sa.Column("requested_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_deletions")),
        sa.UniqueConstraint("storage_id", "path", name=op.f("uq_file_deletions_storage_id_path")),
    )
    op.create_index(
        "ix_file_deletions_state_storage_id",
        "file_deletions",
        ["state", "storage_id"],
        unique=False,
    )
    op.add_column(
        "nodes", sa.Column("storage_id", sa.String(length=64), server_default="", nullable=False)
    )
    op.add_column(
        "checkpoints",
        sa.Column("storage_id", sa.String(length=64), server_default="", nullable=False),
    )


def _drop_storage() -> None:
    op.drop_column("checkpoints", "storage_id")
    op.drop_column("nodes", "storage_id")
    op.drop_index("ix_file_deletions_state_storage_id", table_name="file_deletions")
    op.drop_table("file_deletions")
    op.drop_table("cluster_identity")


def _add_columns(table: str, *columns: sa.Column) -> None:
    for column in columns:
        op.add_column(table, column)


def _drop_columns(table: str, *columns: str) -> None:
    for column in columns:
        op.drop_column(table, column)


# ---------------------------------------------------------------- nodes: who they are, and how well


def _add_nodes() -> None:
    _add_columns(
        "nodes",
        sa.Column("join_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("join_token_id", sa.Integer(), nullable=True),
        sa.Column("registration_no", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("old_instances", Json, nullable=False, server_default="[]"),
        sa.Column("credential_at", Timestamp, nullable=True),
        sa.Column("next_credential_hash", sa.String(64), nullable=True),
        sa.Column("problems", Json, nullable=False, server_default="[]"),
        sa.Column("quarantine_reason", sa.String(), nullable=False, server_default=""),
        sa.Column("strike_reason", sa.String(), nullable=False, server_default=""),
        sa.Column("clock_offset_ms", sa.Double(), nullable=True),
        sa.Column("clock_error_ms", sa.Double(), nullable=True),
        sa.Column("clock_skew_s", sa.Double(), nullable=True),
    )
    op.create_index("ix_nodes_next_credential_hash", "nodes", ["next_credential_hash"], unique=True)
    op.execute("UPDATE nodes SET quarantine_reason = health_reason WHERE health = 'quarantined'")


def _drop_nodes() -> None:
    op.drop_index("ix_nodes_next_credential_hash", "nodes")
    _drop_columns(
        "nodes",
        "join_id",
        "join_token_id",
        "registration_no",
        "old_instances",
        "credential_at",
        "next_credential_hash",
        "problems",
        "quarantine_reason",
        "strike_reason",
        "clock_offset_ms",
        "clock_error_ms",
        "clock_skew_s",
    )


# ---------------------------------------------------------------- what the nodes of a gang try together before it starts, and how soon it must end


def _add_preflight() -> None:
    _add_columns(
        "allocations",
        sa.Column("stop_grace_s", sa.Double(), nullable=True),
        sa.Column("facts", Json, nullable=True),
    )
    op.create_table(
        "preflights",
        sa.Column("id", BigId, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("stage_since", Timestamp, nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("python", sa.String(), nullable=True),
        sa.Column("members", Json, nullable=False),
        sa.Column("requested_by", sa.String(length=160), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=True),
        sa.Column("attempt_no", sa.Integer(), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_preflights")),
        sa.UniqueConstraint(
            "trial_id", "attempt_no", name=op.f("uq_preflights_trial_id_attempt_no")
        ),
    )
    op.create_index(op.f("ix_preflights_state"), "preflights", ["state"], unique=False)


def _drop_preflight() -> None:
    op.drop_index(op.f("ix_preflights_state"), table_name="preflights")
    op.drop_table("preflights")
    _drop_columns("allocations", "stop_grace_s", "facts")


# ---------------------------------------------------------------- giving up slots


def _add_yields() -> None:
    op.add_column("attempts", sa.Column("yield_kind", sa.String(length=16), nullable=True))
    op.add_column(
        "attempts", sa.Column("yield_reason", sa.String(), nullable=False, server_default="")
    )
    op.add_column("attempts", sa.Column("yield_slots", sa.Integer(), nullable=True))
    op.add_column("attempts", sa.Column("yield_at", Timestamp, nullable=True))
    op.add_column(
        "allocations",
        sa.Column("stop_kind", sa.String(length=16), nullable=False, server_default=""),
    )


def _drop_yields() -> None:
    op.drop_column("allocations", "stop_kind")
    for name in ("yield_at", "yield_slots", "yield_reason", "yield_kind"):
        op.drop_column("attempts", name)


# ---------------------------------------------------------------- the order of the queue


def _add_queue() -> None:
    op.add_column(
        "trials", sa.Column("queue_no", sa.Double(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column(
        "trials",
        sa.Column(
            "waiting_since",
            Timestamp,
            nullable=False,
            server_default=sa.text("'1970-01-01 00:00:00'"),
        ),
    )
    op.add_column("trials", sa.Column("estimated_start_at", Timestamp, nullable=True))
    op.add_column("trials", sa.Column("progress_at", Timestamp, nullable=True))
    op.add_column("trials", sa.Column("promised_since", Timestamp, nullable=True))
    op.add_column("node_slots", sa.Column("free_since", Timestamp, nullable=True))
    # Trials that exist keep their order: by the time they were queued.
    trials = sa.table(
        "trials",
        sa.column("queued_at", Timestamp),
        sa.column("waiting_since", Timestamp),
        sa.column("queue_no", sa.Double()),
    )
    seconds: sa.ColumnElement[float] = sa.extract("epoch", trials.c.queued_at)
    if op.get_bind().dialect.name == "sqlite":
        seconds = (sa.func.julianday(trials.c.queued_at) - 2_440_587.5) * 86_400.0
    op.execute(sa.update(trials).values(queue_no=seconds, waiting_since=trials.c.queued_at))


def _drop_queue() -> None:
    op.drop_column("node_slots", "free_since")
    for name in (
        "promised_since", "progress_at", "estimated_start_at", "waiting_since", "queue_no",
    ):  # fmt: skip
        op.drop_column("trials", name)


# ---------------------------------------------------------------- nodes that did not fit


def _add_avoidance() -> None:
    op.add_column("trials", sa.Column("avoided", Json, server_default="[]", nullable=False))
    op.add_column(
        "allocations",
        sa.Column("is_node_at_fault", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.create_index("ix_allocations_node_id_created_at", "allocations", ["node_id", "created_at"])


def _drop_avoidance() -> None:
    op.drop_index("ix_allocations_node_id_created_at", table_name="allocations")
    op.drop_column("allocations", "is_node_at_fault")
    op.drop_column("trials", "avoided")


# ---------------------------------------------------------------- what models are worth


def _add_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("classes", Json, nullable=False),
        sa.Column("confusion", Json, nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_evaluations_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
        sa.UniqueConstraint("trial_id", "name", name=op.f("uq_evaluations_trial_id_name")),
    )


def _drop_evaluations() -> None:
    op.drop_table("evaluations")


# ---------------------------------------------------------------- roll-ups of roll-ups


def _add_metric_spans() -> None:
    # Empty at first: the next compaction of a series makes those of what it has.
    op.create_table(
        "metric_spans",
        sa.Column("series_id", BigId, autoincrement=False, nullable=False),
        sa.Column("first_step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("num_points", sa.BigInteger(), nullable=False),
        sa.Column("bucket_steps", sa.BigInteger(), nullable=False),
        sa.Column("rollup", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["metric_series.id"],
            name=op.f("fk_metric_spans_series_id_metric_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("series_id", "first_step", name=op.f("pk_metric_spans")),
    )


def _drop_metric_spans() -> None:
    op.drop_table("metric_spans")


# ---------------------------------------------------------------- how far the workers are


def _add_progress() -> None:
    op.add_column("attempts", sa.Column("stuck_at", Timestamp, nullable=True))
    op.add_column(
        "attempts", sa.Column("stuck_reason", sa.String(), nullable=False, server_default="")
    )
    op.add_column(
        "allocations", sa.Column("stacks_no", sa.Integer(), server_default="0", nullable=False)
    )
    op.add_column("workers", sa.Column("progress", Json, nullable=True))
    op.add_column("workers", sa.Column("moved_at", Timestamp, nullable=True))
    op.create_table(
        "stacks",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("is_cut", sa.Boolean(), nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_stacks_trial_id_trials"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stacks")),
        sa.UniqueConstraint(
            "trial_id",
            "attempt_no",
            "no",
            "rank",
            name=op.f("uq_stacks_trial_id_attempt_no_no_rank"),
        ),
    )


def _drop_progress() -> None:
    op.drop_table("stacks")
    op.drop_column("workers", "moved_at")
    op.drop_column("workers", "progress")
    op.drop_column("allocations", "stacks_no")
    op.drop_column("attempts", "stuck_reason")
    op.drop_column("attempts", "stuck_at")


# ---------------------------------------------------------------- windows of the profiler


def _add_profiles() -> None:
    op.add_column("allocations", sa.Column("profile", Json, nullable=True))
    op.create_table(
        "profiles",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("received_bytes", sa.Integer(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("requested_by", sa.String(length=200), nullable=False),
        sa.Column("asked_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_profiles_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profiles")),
        sa.UniqueConstraint("trial_id", "no", "rank", name=op.f("uq_profiles_trial_id_no_rank")),
    )
    op.create_table(
        "profile_pieces",
        sa.Column("profile_id", BigId, autoincrement=False, nullable=False),
        sa.Column("idx", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["profiles.id"],
            name=op.f("fk_profile_pieces_profile_id_profiles"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("profile_id", "idx", name=op.f("pk_profile_pieces")),
    )


def _drop_profiles() -> None:
    op.drop_table("profile_pieces")
    op.drop_table("profiles")
    op.drop_column("allocations", "profile")


# ---------------------------------------------------------------- logs by time


def _add_log_times() -> None:
    op.create_index(
        "ix_log_chunks_stream_id_received_at",
        "log_chunks",
        ["stream_id", "received_at", "offset"],
        unique=False,
    )


def _drop_log_times() -> None:
    op.drop_index("ix_log_chunks_stream_id_received_at", table_name="log_chunks")


# ---------------------------------------------------------------- how busy nodes were


def _add_samples() -> None:
    op.add_column("nodes", sa.Column("sampled_at", Timestamp, nullable=True))
    op.create_table(
        "node_samples",
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.Column("usage", Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"],
            ["nodes.id"],
            name=op.f("fk_node_samples_node_id_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("node_id", "at", name=op.f("pk_node_samples")),
    )
    op.create_index(op.f("ix_node_samples_at"), "node_samples", ["at"], unique=False)


def _drop_samples() -> None:
    op.drop_index(op.f("ix_node_samples_at"), table_name="node_samples")
    op.drop_table("node_samples")
    op.drop_column("nodes", "sampled_at")


# ---------------------------------------------------------------- experiments that answer a question about another


def _add_purposes() -> None:
    op.add_column("experiments", sa.Column("purpose", sa.String(length=16), nullable=True))


def _drop_purposes() -> None:
    op.drop_column("experiments", "purpose")


# ---------------------------------------------------------------- the experiments table


def _add_saved_views() -> None:
    op.create_index("ix_experiments_name_id", "experiments", ["name", "id"], unique=False)
    op.create_table(
        "saved_views",
        sa.Column("id", BigId, nullable=False),
        sa.Column("page", sa.String(length=32), nullable=False),
        sa.Column("owner_id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("query", sa.String(length=4000), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("changed_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_saved_views_owner_id_users"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_saved_views_project_id_projects"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_views")),
        sa.UniqueConstraint(
            "owner_id", "page", "name", name=op.f("uq_saved_views_owner_id_page_name")
        ),
    )
    op.create_index(op.f("ix_saved_views_project_id"), "saved_views", ["project_id"], unique=False)


def _drop_saved_views() -> None:
    op.drop_index(op.f("ix_saved_views_project_id"), table_name="saved_views")
    op.drop_table("saved_views")
    op.drop_index("ix_experiments_name_id", table_name="experiments")


# ---------------------------------------------------------------- what trials are bound by


def _add_diagnoses() -> None:
    op.create_table(
        "diagnoses",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("probes_id", BigId, nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("plan", Json, nullable=False),
        sa.Column("result", Json, nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("applied", Json, nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_diagnoses_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_diagnoses")),
    )
    for column in ("trial_id", "probes_id", "state"):
        op.create_index(op.f(f"ix_diagnoses_{column}"), "diagnoses", [column], unique=False)


def _drop_diagnoses() -> None:
    op.drop_table("diagnoses")


# ---------------------------------------------------------------- scaling reports


def _add_scaling() -> None:
    op.create_table(
        "scaling_reports",
        sa.Column("id", BigId, nullable=False),
        sa.Column("experiment_id", BigId, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("mode", sa.String(length=8), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("slot_hours", sa.Double(), nullable=True),
        sa.Column("points", Json, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("requested_by", sa.String(length=160), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_scaling_reports_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scaling_reports")),
    )
    for column in ("experiment_id", "state"):
        op.create_index(op.f(f"ix_scaling_reports_{column}"), "scaling_reports", [column])


def _drop_scaling() -> None:
    op.drop_table("scaling_reports")


# ---------------------------------------------------------------- search


def _add_lineage() -> None:
    op.add_column("trials", sa.Column("parent_no", sa.Integer(), nullable=True))
    op.add_column(
        "trials", sa.Column("generation", sa.Integer(), server_default="0", nullable=False)
    )


def _drop_lineage() -> None:
    op.drop_column("trials", "generation")
    op.drop_column("trials", "parent_no")


# ---------------------------------------------------------------- searches driven from outside


def _add_external() -> None:
    op.add_column(
        "trials",
        sa.Column("is_external", sa.Boolean(), server_default=sa.false(), nullable=False),
    )
    op.add_column("trials", sa.Column("point", sa.String(length=64), nullable=True))


def _drop_external() -> None:
    op.drop_column("trials", "point")
    op.drop_column("trials", "is_external")


# ---------------------------------------------------------------- models as one file


def _add_exports() -> None:
    op.create_table(
        "exports",
        sa.Column("id", BigId, nullable=False),
        sa.Column("checkpoint_id", BigId, nullable=False),
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
        sa.ForeignKeyConstraint(
            ["checkpoint_id"],
            ["checkpoints.id"],
            name=op.f("fk_exports_checkpoint_id_checkpoints"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
    )
    op.create_index("ix_exports_state", "exports", ["state"], unique=False)
    op.create_index("ix_exports_trial_id", "exports", ["trial_id"], unique=False)
    op.create_index("ix_exports_checkpoint_id", "exports", ["checkpoint_id"], unique=False)
    op.create_table(
        "export_chunks",
        sa.Column("export_id", BigId, nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["export_id"],
            ["exports.id"],
            name=op.f("fk_export_chunks_export_id_exports"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("export_id", "idx", name=op.f("pk_export_chunks")),
    )


def _drop_exports() -> None:
    op.drop_table("export_chunks")
    op.drop_index("ix_exports_checkpoint_id", table_name="exports")
    op.drop_index("ix_exports_trial_id", table_name="exports")
    op.drop_index("ix_exports_state", table_name="exports")
    op.drop_table("exports")


# ---------------------------------------------------------------- what is kept, and for how long

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")


def _add_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("operations", Json, nullable=False),
        sa.Column("num_left_out", sa.BigInteger(), nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_schedules_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint(
            "trial_id",
            "attempt_no",
            "rank",
            "step",
            name=op.f("uq_schedules_trial_id_attempt_no_rank_step"),
        ),
    )


def _add_keeping() -> None:
    op.add_column("trials", sa.Column("downsampled_at", Timestamp, nullable=True))
    op.add_column(
        "trials",
        sa.Column("num_points_dropped", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.add_column("checkpoints", sa.Column("pinned_at", Timestamp, nullable=True))
    op.add_column(
        "checkpoints",
        sa.Column("pinned_by", sa.String(length=160), server_default="", nullable=False),
    )
    for level in LOG_LEVELS:
        op.add_column(
            "log_chunks",
            sa.Column(f"num_{level}", sa.BigInteger(), server_default="0", nullable=False),
        )


def _drop_keeping() -> None:
    for level in reversed(LOG_LEVELS):
        op.drop_column("log_chunks", f"num_{level}")
    op.drop_column("checkpoints", "pinned_by")
    op.drop_column("checkpoints", "pinned_at")
    op.drop_column("trials", "num_points_dropped")
    op.drop_column("trials", "downsampled_at")
