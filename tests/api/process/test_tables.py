"""Tables that are not those of the models are refused at the start, and named when they are met."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from muster_server.db.engine import Database
from muster_server.db.failures import is_gone, is_unavailable, is_undefined
from muster_server.db.migrations import downgrade, head_revision
from muster_server.db.tables import SchemaMismatch, migrate, require_tables, schema_of
from muster_server.live.waker import HintWaker
from muster_server.loops.runner import Controller, run_until
from support.processes import wait_until

pytestmark = pytest.mark.both_databases


def change(database: Database, *statements: str) -> None:
    with database.engine.connect().execution_options(muster_write=True) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        connection.commit()


# ---------------------------------------------------------------- comparing


def test_a_migrated_database_has_the_tables_of_the_models(database):
    assert schema_of(database).missing == []
    require_tables(database)


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DROP TABLE schedules", ["table schedules"]),
        ("ALTER TABLE attempts DROP COLUMN stuck_reason", ["column attempts.stuck_reason"]),
        ("DROP INDEX ix_allocations_held", ["index ix_allocations_held"]),
        ("DROP INDEX ix_nodes_next_credential_hash", ["index ix_nodes_next_credential_hash"]),
    ],
)
def test_what_is_missing_is_named(database, statement, missing):
    change(database, statement)
    schema = schema_of(database)
    assert (schema.state, schema.missing) == ("schema_mismatch", missing)
    with pytest.raises(SchemaMismatch, match=rf"lacks {missing[0]}: .* restore a backup"):
        migrate(database)


@pytest.mark.parametrize(
    ("table", "change_", "constraint"),
    [
        ("trials", "DROP CONSTRAINT uq_trials_experiment_id_no", "uq_trials_experiment_id_no"),
        ("stacks", "DROP CONSTRAINT fk_stacks_trial_id_trials", "fk_stacks_trial_id_trials"),
        ("trials", "ALTER COLUMN queue_no DROP NOT NULL", "trials.queue_no NOT NULL"),
    ],
)
def test_constraints_are_compared(database, table, change_, constraint):
    if database.is_sqlite:  # it alters a table by copying it: here without that constraint
        sql = _text_of(database, table)
        if constraint.endswith("NOT NULL"):
            sql = re.sub(r"(queue_no \w+ DEFAULT 0) NOT NULL", r"\1", sql)
        else:
            sql = sql.replace(constraint, "another_name")
        assert sql != _text_of(database, table)
        with database.engine.connect() as connection:
            indexes = connection.scalars(
                text("SELECT sql FROM sqlite_master WHERE tbl_name = :t AND type = 'index'"),
                {"t": table},
            ).all()
        change(database, f"DROP TABLE {table}", sql, *(index for index in indexes if index))
    else:
        change(database, f"ALTER TABLE {table} {change_}")
    (missing,) = schema_of(database).missing
    assert missing.endswith(constraint)


def _text_of(database: Database, table: str) -> str:
    with database.engine.connect() as connection:
        query = text("SELECT sql FROM sqlite_master WHERE name = :t")
        return str(connection.scalar(query, {"t": table}))


def test_older_and_newer_databases_are_told_apart(database):
    change(database, "UPDATE alembic_version SET version_num = '9999'")
    for act in (require_tables, migrate):
        with pytest.raises(
            SchemaMismatch, match=r"9999, which this version .* start a newer version"
        ):
            act(database)
    change(database, f"UPDATE alembic_version SET version_num = '{head_revision()}'")
    downgrade(database, "0001")
    with pytest.raises(
        SchemaMismatch, match=f"needs {head_revision()}: run 'muster-server migrate'"
    ):
        require_tables(database)
    downgrade(database, "base")
    with pytest.raises(SchemaMismatch, match="no tables yet: run 'muster-server migrate'"):
        require_tables(database)
    migrate(database)


# ---------------------------------------------------------------- while it runs


def test_a_missing_column_is_no_database_that_is_away(app, admin_client, database):
    change(database, "ALTER TABLE attempts DROP COLUMN stuck_reason")
    change(database, "ALTER TABLE experiments DROP COLUMN overrides")
    reply = admin_client.get("/api/v1/experiments")
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (500, "database.schema_mismatch")
    assert "muster-server check" in error["hint"]
    assert "Retry-After" not in reply.headers
    ready = admin_client.get("/readyz")
    assert (ready.status_code, ready.json()["database"]) == (503, "schema_mismatch")


def test_a_server_stays_ready_while_a_newer_version_only_adds_to_its_tables(admin_client, database):
    change(
        database,
        "UPDATE alembic_version SET version_num = '9999'",
        "CREATE TABLE added (id INTEGER)",
        "ALTER TABLE trials ADD COLUMN added INTEGER",
    )
    ready = admin_client.get("/readyz")
    assert (ready.status_code, ready.json()["database"]) == (200, "ok")
    with pytest.raises(SchemaMismatch, match="start a newer version"):
        require_tables(database)  # nothing of this version starts
    change(database, "ALTER TABLE experiments DROP COLUMN overrides")
    ready = admin_client.get("/readyz")
    assert (ready.status_code, ready.json()["database"]) == (503, "schema_mismatch")


def test_a_missing_table_is_none_either(admin_client, database):
    change(database, "DROP TABLE saved_views")
    reply = admin_client.get("/api/v1/views?page=experiments")
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "database.schema_mismatch")


def test_a_controller_whose_tables_vanish_ends_and_says_so(database, settings):
    controller, stop = Controller(database, settings), threading.Event()
    waker = HintWaker(None, "loops")
    with ThreadPoolExecutor() as threads:
        running = threads.submit(run_until, controller, stop, waker, interval_s=0.01)
        try:
            wait_until("it works", lambda: controller.telemetry.has_ticked_within(1000))
            change(database, "ALTER TABLE attempts DROP COLUMN stuck_reason")
            error = running.exception(30)
        finally:
            stop.set()
    waker.close()
    assert isinstance(error, SchemaMismatch)
    assert "lacks column attempts.stuck_reason" in str(error)


@pytest.mark.parametrize(
    ("statement", "is_of_tables"),
    [
        ("SELECT missing FROM users", True),
        ("SELECT * FROM missing", True),
        ("INSERT INTO users (missing) VALUES (1)", True),
        ("SELEC 1", False),
        ("SELECT no_such_function(1)", False),
        ("INSERT INTO projects (id) VALUES (1)", False),
    ],
)
def test_a_mistake_in_a_statement_is_none_of_the_connection(database, statement, is_of_tables):
    with database.engine.connect() as connection, pytest.raises(DBAPIError) as raised:
        connection.exec_driver_sql(statement)
    assert not is_unavailable(raised.value)
    assert not is_gone(raised.value)
    assert is_undefined(raised.value) is is_of_tables


def test_a_lock_that_is_not_to_be_had_is_worth_another_try(database):
    own = Database(database.url.render_as_string(hide_password=False))
    change(database, "INSERT INTO projects (name, created_at) VALUES ('p', '2026-01-01 00:00:00')")
    with database.transaction() as session:
        session.execute(text("UPDATE projects SET name = 'q'"))
        with own.engine.connect() as connection:
            wait = "PRAGMA busy_timeout = 1" if own.is_sqlite else "SET lock_timeout = '1ms'"
            connection.exec_driver_sql(wait)
            with pytest.raises(DBAPIError) as raised:
                connection.exec_driver_sql("UPDATE projects SET name = 'r'")
            if own.is_sqlite:
                connection.exec_driver_sql("PRAGMA busy_timeout = 15000")
    own.dispose()
    assert is_unavailable(raised.value)
    assert not is_undefined(raised.value)


def test_a_database_that_cannot_be_reached_is_away(database, tmp_path):
    url = f"sqlite:///{tmp_path}/no/such/folder/x.db"
    if not database.is_sqlite:
        url = "postgresql+psycopg://muster@127.0.0.1:1/muster"
    away = Database(url)
    with pytest.raises(DBAPIError) as raised:
        away.engine.connect()
    away.dispose()
    assert is_unavailable(raised.value)
    assert is_gone(raised.value)


@pytest.mark.postgres
def test_a_connection_that_the_server_ends_is_away(postgres_url):
    database = Database(postgres_url)
    with database.engine.connect() as connection, database.engine.connect() as other:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        other.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(DBAPIError) as raised:
            connection.exec_driver_sql("SELECT 1")
    database.dispose()
    assert is_unavailable(raised.value)
    assert is_gone(raised.value)
