"""The migrations make exactly the tables the models describe, and take them away again."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import event, inspect, select, text

from muster_server.db.engine import Database
from muster_server.db.migrations import (
    alembic_config,
    current_revision,
    downgrade,
    head_revision,
    upgrade,
)
from muster_server.db.models import AttemptRow, Base, ClusterIdentityRow, ProjectRow, TrialRow


@pytest.fixture
def migrated(any_database_url: str):
    database = Database(any_database_url)
    yield database
    database.dispose()


def test_there_is_one_head():
    from alembic.script import ScriptDirectory

    assert len(ScriptDirectory.from_config(alembic_config()).get_heads()) == 1


def test_models_and_migrations_agree(migrated: Database, table_differences):
    assert table_differences(migrated) == [], "see migrations/README.md"


def test_what_a_database_of_the_second_revision_lacks_is_repaired(
    migrated: Database, table_differences
):
    downgrade(migrated, "0002")
    with migrated.engine.connect().execution_options(muster_write=True) as connection:
        for statement in (
            "DROP TABLE schedules",
            "DROP TABLE cluster_identity",
            "ALTER TABLE attempts DROP COLUMN stuck_reason",
            "DROP INDEX ix_allocations_held",
            "DROP INDEX ix_nodes_next_credential_hash",
            "CREATE TABLE node_pairs (node_a VARCHAR(32) NOT NULL)",
            "ALTER TABLE attempts ADD COLUMN preflight INTEGER",
            PROJECT.format(zone=""),
        ):
            connection.exec_driver_sql(statement)
        connection.commit()
    assert table_differences(migrated)
    upgrade(migrated)
    assert table_differences(migrated) == []
    with migrated.read() as session:
        assert [project.name for project in session.scalars(select(ProjectRow))] == ["p"]
        assert len(session.scalars(select(ClusterIdentityRow)).one().id) == 16


def test_downgrade_removes_every_table_and_upgrade_restores_them(migrated: Database):
    assert current_revision(migrated) == head_revision()
    downgrade(migrated, "base")
    with migrated.engine.connect() as connection:
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}
    assert current_revision(migrated) is None
    upgrade(migrated)
    with migrated.engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
    assert tables == set(Base.metadata.tables) | {"alembic_version"}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_an_upgrade_is_done_whole_or_not_at_all(load_database, kind):
    database = Database(load_database("0002-8b9083c", kind))

    def fail(connection, cursor, statement, *rest):
        if "CREATE TABLE notifications" in statement:
            raise RuntimeError("the power is gone")

    event.listen(database.engine, "before_cursor_execute", fail)
    with pytest.raises(RuntimeError):
        upgrade(database)
    event.remove(database.engine, "before_cursor_execute", fail)
    assert current_revision(database) == "0002"
    upgrade(database)
    assert current_revision(database) == head_revision()
    database.dispose()


def test_upgrading_an_up_to_date_database_changes_nothing(migrated: Database):
    upgrade(migrated)
    assert current_revision(migrated) == head_revision()


def test_a_database_of_the_first_revision_with_data_in_it_can_be_upgraded(migrated: Database):
    downgrade(migrated, "0001")
    with migrated.engine.begin() as connection:
        connection.execute(
            text("INSERT INTO projects (name, created_at) VALUES ('old', '2026-01-02 03:04:05')")
        )
    upgrade(migrated)
    with migrated.read() as session:
        project = session.scalars(select(ProjectRow)).one()
        assert (project.weight, project.quotas, project.exhausted_reason) == (1.0, [], "")
        (identity,) = session.scalars(select(ClusterIdentityRow))
        assert len(identity.id) == 16


def test_rows_survive_every_revision_up_and_down(migrated: Database):
    """Altering a table must not delete what refers to it."""
    downgrade(migrated, "0001")
    node = {
        "id": "n1", "name": "n1", "pool": "p", "labels": "{}", "state": "ONLINE",
        "scheduling": "open", "health": "quarantined", "health_reason": "bad", "strikes": 0,
        "hostname": "", "address": "", "boot_id": "", "instance_id": "", "session_epoch": 1,
        "credential_hash": "x", "agent_version": "", "inventory": "{}", "assignments_index": 0,
        "registered_at": "2026-01-01 00:00:00+00", "last_seen_at": "2026-01-01 00:00:00+00",
        "lease_expires_at": "2026-01-01 00:00:00+00",
    }  # fmt: skip
    columns = ", ".join(node)
    values = ", ".join(f":{name}" for name in node)
    with migrated.engine.begin() as connection:
        connection.execute(text(f"INSERT INTO nodes ({columns}) VALUES ({values})"), node)
        connection.execute(
            text(
                "INSERT INTO node_slots (node_id, idx, slot_type, device) "
                "VALUES ('n1', 0, 'cpu', '{}')"
            )
        )

    def held() -> list[tuple[str, int]]:
        query = "SELECT n.health_reason, s.idx FROM nodes n JOIN node_slots s ON s.node_id = n.id"
        with migrated.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    upgrade(migrated)
    assert held() == [("bad", 0)]
    with migrated.engine.connect() as connection:
        assert connection.scalar(text("SELECT quarantine_reason FROM nodes")) == "bad"
    downgrade(migrated, "0001")
    assert held() == [("bad", 0)]


PROJECT = "INSERT INTO projects (id, name, created_at) VALUES (1, 'p', '2026-01-01 00:00:00.000000{zone}')"
EXPERIMENT = """INSERT INTO experiments
  (id, project_id, name, labels, notes, state, desired, document, config, priority,
   slots_per_trial, search_seq, reason, created_at)
  VALUES (1, 1, 'e', '{{}}', '', 'RUNNING', 'run', '', '{{}}', 50, 1, 0, '',
          '2026-01-01 00:00:00.000000{zone}')"""
TRIAL = """INSERT INTO trials
  (id, experiment_id, no, hparams, seed, state, desired, flags, queued_at, pending_reason,
   attempt_no, failures_user, failures_infra, no_progress, step, summary, reason, created_at,
   logs_complete)
  VALUES ({id}, 1, {id}, '{{}}', 0, 'QUEUED', 'run', '[]', '{at}{zone}', '', 0, 0, 0, 0, 0, '{{}}', '',
          '{at}{zone}', false)"""
ATTEMPT = """INSERT INTO attempts
  (id, trial_id, no, state, world_size, num_nodes, resume_step, controller_epoch, reason,
   root_log_tail, created_at)
  VALUES (1, 1, 1, 'RUNNING', 1, 1, 0, 1, '', '[]', '2026-01-01 00:00:00.000000{zone}')"""


def test_rows_of_the_first_version_are_kept_with_their_place_in_the_queue(migrated: Database):
    downgrade(migrated, "0001")
    # SQLite keeps no zone.
    zone = "" if migrated.engine.dialect.name == "sqlite" else "+00"
    with migrated.engine.connect().execution_options(muster_write=True) as connection:
        connection.exec_driver_sql(PROJECT.format(zone=zone))
        connection.exec_driver_sql(EXPERIMENT.format(zone=zone))
        for number, at in ((1, "2026-01-01 10:00:00.500000"), (2, "2026-01-01 09:00:00.250000")):
            connection.exec_driver_sql(TRIAL.format(id=number, at=at, zone=zone))
        connection.exec_driver_sql(ATTEMPT.format(zone=zone))
        connection.commit()
    upgrade(migrated)
    with migrated.read() as session:
        later, earlier = session.scalars(select(TrialRow).order_by(TrialRow.id)).all()
        assert later.queue_no - earlier.queue_no == pytest.approx(3600.25, abs=0.002)
        assert later.waiting_since == dt.datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=dt.UTC)
        assert later.queue_no == pytest.approx(later.waiting_since.timestamp(), abs=0.002)
        (attempt,) = session.scalars(select(AttemptRow))
        assert (attempt.state, attempt.yield_kind, attempt.yield_reason) == ("RUNNING", None, "")
