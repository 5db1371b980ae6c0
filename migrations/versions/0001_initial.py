"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Timestamp = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", BigId, nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.Column("actor", sa.String(length=160), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=160), nullable=False),
        sa.Column("remote_addr", sa.String(length=64), nullable=False),
        sa.Column("detail", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"], unique=False)
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blobs")),
    )
    op.create_table(
        "controller_leases",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("acquired_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_controller_leases")),
    )
    op.create_table(
        "events",
        sa.Column("id", BigId, nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("attempt_no", sa.Integer(), nullable=True),
        sa.Column("node_id", sa.String(length=32), nullable=True),
        sa.Column("data", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_experiment_id_id", "events", ["experiment_id", "id"], unique=False)
    op.create_index("ix_events_node_id_id", "events", ["node_id", "id"], unique=False)
    op.create_index("ix_events_trial_id_id", "events", ["trial_id", "id"], unique=False)
    op.create_table(
        "metric_batches",
        sa.Column("allocation_id", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("num_points", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("received_at", Timestamp, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("allocation_id", "seq", name=op.f("pk_metric_batches")),
    )
    op.create_index(
        "ix_metric_batches_trial_id_attempt_no_rank",
        "metric_batches",
        ["trial_id", "attempt_no", "rank"],
        unique=False,
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("pool", sa.String(length=64), nullable=False),
        sa.Column("labels", Json, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("scheduling", sa.String(length=16), nullable=False),
        sa.Column("health", sa.String(length=16), nullable=False),
        sa.Column("health_reason", sa.String(), nullable=False),
        sa.Column("strikes", sa.Integer(), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=64), nullable=False),
        sa.Column("session_epoch", sa.Integer(), nullable=False),
        sa.Column("credential_hash", sa.String(length=64), nullable=False),
        sa.Column("agent_version", sa.String(length=32), nullable=False),
        sa.Column("inventory", Json, nullable=False),
        sa.Column("usage", Json, nullable=True),
        sa.Column("assignments_index", sa.Integer(), nullable=False),
        sa.Column("registered_at", Timestamp, nullable=False),
        sa.Column("last_seen_at", Timestamp, nullable=False),
        sa.Column("lease_expires_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        sa.UniqueConstraint("credential_hash", name=op.f("uq_nodes_credential_hash")),
        sa.UniqueConstraint("name", name=op.f("uq_nodes_name")),
    )
    op.create_index(op.f("ix_nodes_pool"), "nodes", ["pool"], unique=False)
    op.create_index(op.f("ix_nodes_state"), "nodes", ["state"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", BigId, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    op.create_table(
        "users",
        sa.Column("id", BigId, nullable=False),
        sa.Column("username", sa.String(length=64), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=True),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("last_login_at", Timestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("username", name=op.f("uq_users_username")),
    )
    op.create_table(
        "api_tokens",
        sa.Column("id", BigId, nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=24), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=True),
        sa.Column("last_used_at", Timestamp, nullable=True),
        sa.Column("revoked_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_api_tokens_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_api_tokens_secret_hash")),
    )
    op.create_index(op.f("ix_api_tokens_user_id"), "api_tokens", ["user_id"], unique=False)
    op.create_table(
        "blob_chunks",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sha256"],
            ["blobs.sha256"],
            name=op.f("fk_blob_chunks_sha256_blobs"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("sha256", "idx", name=op.f("pk_blob_chunks")),
    )
    op.create_table(
        "experiments",
        sa.Column("id", BigId, nullable=False),
        sa.Column("project_id", BigId, nullable=False),
        sa.Column("owner_id", BigId, nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("labels", Json, nullable=False),
        sa.Column("notes", sa.String(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("desired", sa.String(length=8), nullable=False),
        sa.Column("document", sa.String(), nullable=False),
        sa.Column("config", Json, nullable=False),
        sa.Column("blob_sha256", sa.String(length=64), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("slots_per_trial", sa.Integer(), nullable=False),
        sa.Column("search_state", Json, nullable=True),
        sa.Column("search_seq", sa.Integer(), nullable=False),
        sa.Column("metric_name", sa.String(length=200), nullable=True),
        sa.Column("metric_goal", sa.String(length=4), nullable=True),
        sa.Column("best_trial_id", sa.Integer(), nullable=True),
        sa.Column("best_metric", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("archived_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["owner_id"],
            ["users.id"],
            name=op.f("fk_experiments_owner_id_users"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_experiments_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
    )
    op.create_index(op.f("ix_experiments_project_id"), "experiments", ["project_id"], unique=False)
    op.create_index(op.f("ix_experiments_state"), "experiments", ["state"], unique=False)
    op.create_index(
        "ix_experiments_state_priority", "experiments", ["state", "priority"], unique=False
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_idempotency_keys_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("user_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "join_tokens",
        sa.Column("id", BigId, nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("prefix", sa.String(length=24), nullable=False),
        sa.Column("pool", sa.String(length=64), nullable=False),
        sa.Column("uses_left", sa.Integer(), nullable=False),
        sa.Column("created_by", BigId, nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.Column("revoked_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["created_by"],
            ["users.id"],
            name=op.f("fk_join_tokens_created_by_users"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_join_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_join_tokens_secret_hash")),
    )
    op.create_table(
        "node_slots",
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("idx", sa.Integer(), nullable=False),
        sa.Column("slot_type", sa.String(length=16), nullable=False),
        sa.Column("device", Json, nullable=False),
        sa.Column("allocation_id", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=op.f("fk_node_slots_node_id_nodes"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", "idx", name=op.f("pk_node_slots")),
    )
    op.create_index(
        op.f("ix_node_slots_allocation_id"), "node_slots", ["allocation_id"], unique=False
    )
    op.create_table(
        "one_time_tokens",
        sa.Column("id", BigId, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", BigId, nullable=True),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.Column("used_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
            name=op.f("fk_one_time_tokens_user_id_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_one_time_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_one_time_tokens_secret_hash")),
    )
    op.create_table(
        "sessions",
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", BigId, nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("last_seen_at", Timestamp, nullable=False),
        sa.Column("expires_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_user_id"), "sessions", ["user_id"], unique=False)
    op.create_table(
        "search_events",
        sa.Column("experiment_id", BigId, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("event", Json, nullable=False),
        sa.Column("actions", Json, nullable=False),
        sa.Column("at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_search_events_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("experiment_id", "seq", name=op.f("pk_search_events")),
        sa.UniqueConstraint(
            "experiment_id", "key", name=op.f("uq_search_events_experiment_id_key")
        ),
    )
    op.create_table(
        "trials",
        sa.Column("id", BigId, nullable=False),
        sa.Column("experiment_id", BigId, nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("hparams", Json, nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("desired", sa.String(length=8), nullable=False),
        sa.Column("flags", Json, nullable=False),
        sa.Column("queued_at", Timestamp, nullable=False),
        sa.Column("not_before", Timestamp, nullable=True),
        sa.Column("pending_reason", sa.String(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("failures_user", sa.Integer(), nullable=False),
        sa.Column("failures_infra", sa.Integer(), nullable=False),
        sa.Column("no_progress", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Double(), nullable=True),
        sa.Column("num_steps_planned", sa.BigInteger(), nullable=True),
        sa.Column("summary", Json, nullable=False),
        sa.Column("metric", sa.Double(), nullable=True),
        sa.Column("latest_checkpoint_id", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("termination", sa.String(length=32), nullable=True),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.Column("logs_complete", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiments.id"],
            name=op.f("fk_trials_experiment_id_experiments"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("experiment_id", "no", name=op.f("uq_trials_experiment_id_no")),
    )
    op.create_index("ix_trials_state", "trials", ["state"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("no", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("world_size", sa.Integer(), nullable=False),
        sa.Column("num_nodes", sa.Integer(), nullable=False),
        sa.Column("rendezvous_host", sa.String(length=255), nullable=True),
        sa.Column("rendezvous_port", sa.Integer(), nullable=True),
        sa.Column("resume_checkpoint_id", sa.Integer(), nullable=True),
        sa.Column("resume_step", sa.BigInteger(), nullable=False),
        sa.Column("controller_epoch", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("termination", sa.String(length=32), nullable=True),
        sa.Column("root_rank", sa.Integer(), nullable=True),
        sa.Column("root_log_tail", Json, nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("started_at", Timestamp, nullable=True),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_attempts_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("trial_id", "no", name=op.f("uq_attempts_trial_id_no")),
    )
    op.create_index(op.f("ix_attempts_state"), "attempts", ["state"], unique=False)
    op.create_table(
        "checkpoints",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.Double(), nullable=True),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("files", Json, nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_checkpoints_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.UniqueConstraint(
            "trial_id", "attempt_no", "step", name=op.f("uq_checkpoints_trial_id_attempt_no_step")
        ),
    )
    op.create_table(
        "log_streams",
        sa.Column("id", BigId, nullable=False),
        sa.Column("allocation_id", sa.String(length=32), nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("local_rank", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(length=8), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_lines", sa.BigInteger(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_log_streams_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_streams")),
        sa.UniqueConstraint(
            "allocation_id",
            "local_rank",
            "stream",
            name=op.f("uq_log_streams_allocation_id_local_rank_stream"),
        ),
    )
    op.create_index(op.f("ix_log_streams_trial_id"), "log_streams", ["trial_id"], unique=False)
    op.create_table(
        "metric_series",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("num_non_finite", sa.BigInteger(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("last_time_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_value", sa.Double(), nullable=True),
        sa.Column("last_text", sa.String(length=12), nullable=False),
        sa.Column("min_value", sa.Double(), nullable=True),
        sa.Column("max_value", sa.Double(), nullable=True),
        sa.Column("compacted_step", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_metric_series_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric_series")),
        sa.UniqueConstraint(
            "trial_id",
            "attempt_no",
            "rank",
            "name",
            name=op.f("uq_metric_series_trial_id_attempt_no_rank_name"),
        ),
    )
    op.create_table(
        "process_groups",
        sa.Column("id", BigId, nullable=False),
        sa.Column("trial_id", BigId, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("ranks", Json, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["trials.id"],
            name=op.f("fk_process_groups_trial_id_trials"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_process_groups")),
        sa.UniqueConstraint(
            "trial_id",
            "attempt_no",
            "name",
            name=op.f("uq_process_groups_trial_id_attempt_no_name"),
        ),
    )
    op.create_table(
        "allocations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("attempt_id", BigId, nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.String(length=32), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("node_rank", sa.Integer(), nullable=False),
        sa.Column("slots", Json, nullable=False),
        sa.Column("rank_offset", sa.Integer(), nullable=False),
        sa.Column("desired", sa.String(length=8), nullable=False),
        sa.Column("stop_reason", sa.String(), nullable=False),
        sa.Column("observed", sa.String(length=16), nullable=False),
        sa.Column("acked_seq", sa.Integer(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("exit", Json, nullable=True),
        sa.Column("spec", Json, nullable=False),
        sa.Column("created_at", Timestamp, nullable=False),
        sa.Column("state_since", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_allocations_attempt_id_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocations")),
    )
    op.create_index(op.f("ix_allocations_attempt_id"), "allocations", ["attempt_id"], unique=False)
    op.create_index(op.f("ix_allocations_node_id"), "allocations", ["node_id"], unique=False)
    op.create_index(op.f("ix_allocations_trial_id"), "allocations", ["trial_id"], unique=False)
    op.create_table(
        "log_chunks",
        sa.Column("stream_id", BigId, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("num_newlines", sa.Integer(), nullable=False),
        sa.Column("received_at", Timestamp, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["stream_id"],
            ["log_streams.id"],
            name=op.f("fk_log_chunks_stream_id_log_streams"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("stream_id", "offset", name=op.f("pk_log_chunks")),
    )
    op.create_table(
        "metric_blocks",
        sa.Column("series_id", BigId, nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("first_time_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_time_ms", sa.BigInteger(), nullable=False),
        sa.Column("num_points", sa.Integer(), nullable=False),
        sa.Column("rollup", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["metric_series.id"],
            name=op.f("fk_metric_blocks_series_id_metric_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("series_id", "first_step", name=op.f("pk_metric_blocks")),
    )
    op.create_table(
        "workers",
        sa.Column("id", BigId, nullable=False),
        sa.Column("allocation_id", sa.String(length=32), nullable=False),
        sa.Column("trial_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("local_rank", sa.Integer(), nullable=False),
        sa.Column("node_rank", sa.Integer(), nullable=False),
        sa.Column("world_size", sa.Integer(), nullable=False),
        sa.Column("node_name", sa.String(length=128), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("master_addr", sa.String(length=255), nullable=False),
        sa.Column("master_port", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("backend", sa.String(length=32), nullable=False),
        sa.Column("reports", sa.Boolean(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("latest", Json, nullable=False),
        sa.Column("last_report_at", Timestamp, nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.Integer(), nullable=True),
        sa.Column("exit_message", sa.String(), nullable=False),
        sa.Column("started_at", Timestamp, nullable=False),
        sa.Column("ended_at", Timestamp, nullable=True),
        sa.ForeignKeyConstraint(
            ["allocation_id"],
            ["allocations.id"],
            name=op.f("fk_workers_allocation_id_allocations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
        sa.UniqueConstraint(
            "allocation_id", "local_rank", name=op.f("uq_workers_allocation_id_local_rank")
        ),
    )
    op.create_index(
        "ix_workers_trial_id_attempt_no", "workers", ["trial_id", "attempt_no"], unique=False
    )


def downgrade() -> None:
    op.drop_index("ix_workers_trial_id_attempt_no", table_name="workers")
    op.drop_table("workers")
    op.drop_table("metric_blocks")
    op.drop_table("log_chunks")
    op.drop_index(op.f("ix_allocations_trial_id"), table_name="allocations")
    op.drop_index(op.f("ix_allocations_node_id"), table_name="allocations")
    op.drop_index(op.f("ix_allocations_attempt_id"), table_name="allocations")
    op.drop_table("allocations")
    op.drop_table("process_groups")
    op.drop_table("metric_series")
    op.drop_index(op.f("ix_log_streams_trial_id"), table_name="log_streams")
    op.drop_table("log_streams")
    op.drop_table("checkpoints")
    op.drop_index(op.f("ix_attempts_state"), table_name="attempts")
    op.drop_table("attempts")
    op.drop_index("ix_trials_state", table_name="trials")
    op.drop_table("trials")
    op.drop_table("search_events")
    op.drop_index(op.f("ix_sessions_user_id"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_table("one_time_tokens")
    op.drop_index(op.f("ix_node_slots_allocation_id"), table_name="node_slots")
    op.drop_table("node_slots")
    op.drop_table("join_tokens")
    op.drop_table("idempotency_keys")
    op.drop_index("ix_experiments_state_priority", table_name="experiments")
    op.drop_index(op.f("ix_experiments_state"), table_name="experiments")
    op.drop_index(op.f("ix_experiments_project_id"), table_name="experiments")
    op.drop_table("experiments")
    op.drop_table("blob_chunks")
    op.drop_index(op.f("ix_api_tokens_user_id"), table_name="api_tokens")
    op.drop_table("api_tokens")
    op.drop_table("users")
    op.drop_table("projects")
    op.drop_index(op.f("ix_nodes_state"), table_name="nodes")
    op.drop_index(op.f("ix_nodes_pool"), table_name="nodes")
    op.drop_table("nodes")
    op.drop_index("ix_metric_batches_trial_id_attempt_no_rank", table_name="metric_batches")
    op.drop_table("metric_batches")
    op.drop_index("ix_events_trial_id_id", table_name="events")
    op.drop_index("ix_events_node_id_id", table_name="events")
    op.drop_index("ix_events_experiment_id_id", table_name="events")
    op.drop_table("events")
    op.drop_table("controller_leases")
    op.drop_table("blobs")
    op.drop_index("ix_audit_log_at", table_name="audit_log")
    op.drop_table("audit_log")
