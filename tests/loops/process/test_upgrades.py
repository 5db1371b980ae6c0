"""Databases that earlier versions made, with rows in them, work with this one after migrating.

They are in tests/databases, which has the command that records another one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from muster_server.db.engine import Database
from muster_server.db.migrations import current_revision, downgrade, head_revision, upgrade

FOLDER = Path(__file__).resolve().parents[2] / "databases"
NAMES = sorted({path.name.partition(".")[0] for path in FOLDER.glob("*.sql.gz")})
KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
GONE = {"node_pairs"}
"""Tables that no version has any more."""


def count_rows(url: str) -> dict[str, int]:
    engine = create_engine(url)
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names()) - GONE
        found = {t: connection.scalar(text(f"SELECT count(*) FROM {t}")) for t in tables}
    engine.dispose()
    return found


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=NAMES)
def old_url(request, load_database, kind):
    return load_database(request.param, kind)


@pytest.fixture
def database_url(old_url):
    """The application, the controller and the agents of a test run on the old database."""
    before = count_rows(old_url)
    assert before["experiments"] == 4
    assert before["checkpoints"] == 3
    database = Database(old_url)
    assert current_revision(database) != head_revision()
    upgrade(database)
    assert current_revision(database) == head_revision()
    database.dispose()
    after = count_rows(old_url)
    assert {name: after[name] for name in before} == before
    return old_url


def test_an_old_database_has_the_tables_of_the_models_and_works(
    database, table_differences, agent, submit, show, controller
):
    assert table_differences(database) == []
    names = [experiment["name"] for experiment in show("/experiments")["items"]]
    assert sorted(names) == ["completed", "running", "search", "waiting"]
    for experiment_id in range(1, 5):
        show(f"/experiments/{experiment_id}")
        show(f"/experiments/{experiment_id}/events")
        for trial in show(f"/experiments/{experiment_id}/trials")["items"]:
            show(f"/trials/{trial['id']}")
    assert show("/experiments/1")["labels"] == {"team": "vision"}
    assert show("/trials/1")["state"] == "COMPLETED"
    (curve,) = show("/trials/1/series?name=train/loss&rank=0")["series"]
    assert (curve["step"], curve["last"]) == ([1, 2], [1.0, 0.5])
    assert [line["text"] for line in show("/trials/1/logs")["lines"]] == ["epoch 1", "epoch 2"]
    assert show("/experiments/3/trials")["items"]

    controller.tick()
    node = agent("node-2", slots=8)
    new = submit(slots=1)
    controller.tick()
    places = {assignment.spec.experiment_id for assignment in node.poll().values()}
    assert {new, 4} <= places, "the new one and the one that has waited"
    assert show(f"/experiments/{new}")["name"] == "test"


def test_an_export_and_its_file_survive_up_and_down(load_database, kind):
    """SQLite copies the tables, because it cannot let a column be null otherwise."""
    database = Database(load_database("0007", kind))
    row = {
        "id": 1, "checkpoint_id": 1, "trial_id": 1, "trial_no": 1, "experiment_id": 1, "step": 2,
        "storage_id": "s", "storage_url": "", "path": "p", "node_name": "n", "state": "done",
        "message": "", "room_bytes": 3, "size_bytes": 3, "sha256": "aa", "requested_by": "user:ada",
        "requested_at": "2026-01-01 00:00:00+00", "expires_at": "2027-01-01 00:00:00+00",
    }  # fmt: skip
    with database.engine.begin() as connection:
        values = ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO exports ({', '.join(row)}) VALUES ({values})"), row)
        chunk = "INSERT INTO export_chunks VALUES (1, 0, :data)"
        connection.execute(text(chunk), {"data": b"abc"})

    def stored():
        query = "SELECT e.checkpoint_id, c.data FROM exports e JOIN export_chunks c ON c.export_id = e.id"
        with database.engine.connect() as connection:
            return [(number, bytes(data)) for number, data in connection.execute(text(query))]

    upgrade(database)
    assert stored() == [(1, b"abc")]
    downgrade(database, "0007")
    assert stored() == [(1, b"abc")]
    database.dispose()


def test_the_revision_of_project_members_keeps_who_submits_where(load_database, kind):
    """Whoever has an experiment in a project is a member; `default` stays open unless it has
    secrets."""
    database = Database(load_database("0030", kind))
    with database.engine.begin() as connection:
        for number, name in ((2, "annaproj"), (3, "empty")):
            connection.execute(
                text(
                    "INSERT INTO projects (id, name, weight, quotas, exhausted_reason, created_at) "
                    "VALUES (:id, :name, 1, '[]', '', '2026-01-01 00:00:00+00')"
                ),
                {"id": number, "name": name},
            )
        connection.execute(
            text(
                "INSERT INTO users (id, username, role, is_active, created_at) "
                "VALUES (2, 'anna', 'member', true, '2026-01-01 00:00:00+00')"
            )
        )
        connection.execute(
            text("UPDATE experiments SET project_id = 2, owner_id = 2 WHERE id IN (2, 3)")
        )
        connection.execute(text("UPDATE experiments SET project_id = 2 WHERE id = 4"))

    def stored():
        members = (
            "SELECT p.name, u.username, m.role FROM project_members m JOIN users u ON "
            "u.id = m.user_id JOIN projects p ON p.id = m.project_id ORDER BY p.name, u.username"
        )
        projects = "SELECT name, visibility, submission FROM projects ORDER BY id"
        with database.engine.connect() as connection:
            found = [connection.execute(text(query)) for query in (members, projects)]
            return [[tuple(row) for row in rows] for rows in found]

    upgrade(database)
    members = [
        ("annaproj", "ada", "member"),
        ("annaproj", "anna", "member"),
        ("default", "ada", "member"),
    ]
    closed = [("annaproj", "all", "members"), ("empty", "all", "members")]
    assert stored() == [members, [("default", "all", "all"), *closed]]

    downgrade(database, "0030")
    with database.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO secrets (project_id, name, version, key_id, nonce, ciphertext, created_at, "
                "created_by, changed_at, changed_by) VALUES (1, 'TOKEN', 1, 'k', :data, :data, "
                "'2026-01-01 00:00:00+00', 'user:ada', '2026-01-01 00:00:00+00', 'user:ada')"
            ),
            {"data": b"x"},
        )
    upgrade(database)
    assert stored() == [members, [("default", "all", "members"), *closed]]
    database.dispose()


def test_the_revision_of_service_accounts_names_sessions_and_limits_no_token(load_database, kind):
    """Who was signed in stays so, and what a token sees stays as it was."""
    database = Database(load_database("0032", kind))
    with database.engine.begin() as connection:
        for secret in ("a", "b"):
            connection.execute(
                text(
                    "INSERT INTO sessions (secret_hash, user_id, created_at, last_seen_at, expires_at) "
                    "VALUES (:secret, 1, '2026-01-01 00:00:00+00', '2026-01-01 00:00:00+00', "
                    "'2027-01-01 00:00:00+00')"
                ),
                {"secret": secret * 64},
            )

    def stored(query):
        with database.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    num_tokens = stored("SELECT count(*) FROM api_tokens")
    upgrade(database)
    sessions = stored("SELECT secret_hash, remote_addr, user_agent FROM sessions")
    assert {(one[0][0], one[1], one[2]) for one in sessions} == {("a", "", ""), ("b", "", "")}
    assert stored("SELECT DISTINCT kind, description FROM users") == [("person", "")]
    assert stored("SELECT count(*) FROM api_tokens WHERE NOT is_limited") == num_tokens

    with database.engine.begin() as connection:
        connection.execute(text("UPDATE api_tokens SET is_limited = true WHERE id = 1"))
        connection.execute(text("INSERT INTO api_token_projects VALUES (1, 1)"))
    downgrade(database, "0032")
    assert stored("SELECT count(*) FROM api_tokens") == [(num_tokens[0][0] - 1,)]
    assert len(stored("SELECT secret_hash FROM sessions")) == 2
    upgrade(database)
    assert stored("SELECT count(*) FROM api_token_projects") == [(0,)]
    database.dispose()


def test_whom_the_provider_has_refused_stays_out_before_the_revision_of_scim(load_database, kind):
    """The version before knows no refusal, and would let their tokens in again."""
    database = Database(load_database("0037", kind))
    upgrade(database)
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE users SET provider_refused_at = created_at WHERE id = 1"))
    downgrade(database, "0037")
    with database.engine.connect() as connection:
        rows = connection.execute(text("SELECT id FROM users WHERE is_active")).scalars().all()
    assert 1 not in rows
    upgrade(database)
    database.dispose()
