"""The commands of an administrator, run as real processes."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from muster_server import clock
from muster_server.db.migrations import head_revision
from muster_server.errors import SCHEMA_MISMATCH_EXIT
from muster_server.services.core.liveness import last_backup_at
from support import preloaded


@pytest.fixture
def run(database_url, tmp_path):
    """Runs muster-server with this test's database."""

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        return preloaded.run(
            [preloaded.SERVER, *arguments],
            environment={**environment, "MUSTER_DATABASE_URL": database_url, **settings},
            folder=tmp_path,
            timeout_s=60,
        )

    return run


def printed(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_migrate_makes_the_tables_and_may_be_repeated(run, tmp_path):
    url = f"sqlite:///{tmp_path}/new.db"
    assert printed(run("migrate", MUSTER_DATABASE_URL=url)) == f"empty → {head_revision()}"
    assert printed(run("migrate", MUSTER_DATABASE_URL=url)) == f"{head_revision()}: up to date"


def test_a_backup_is_written_once_and_restored_where_nothing_is(run, tmp_path):
    printed(run("create-token", "--user", "ada"))
    assert "backup.db: 1 user, 0 experiments, 0 trials" in printed(run("backup", "backup.db"))
    again = run("backup", "backup.db")
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    url = f"sqlite:///{tmp_path}/new.db"
    assert "restored 1 user," in printed(run("restore", "backup.db", MUSTER_DATABASE_URL=url))
    assert printed(run("migrate", MUSTER_DATABASE_URL=url)) == f"{head_revision()}: up to date"
    over = run("restore", "backup.db", MUSTER_DATABASE_URL=url)
    assert (over.returncode, "new.db exists already" in over.stderr) == (1, True)
    assert "Traceback" not in again.stderr + over.stderr


def test_backups_are_kept_by_number_verified_and_noted(run, database, tmp_path):
    assert "0 users" in printed(run("backup", "kept", "--keep", "1"))
    (file,) = (tmp_path / "kept").iterdir()
    assert "can be restored: 0 users" in printed(run("verify-backup", f"kept/{file.name}"))
    with database.read() as session:
        at = last_backup_at(session)
    assert at is not None
    assert abs((clock.now() - at).total_seconds()) < 120
    file.write_text("not any more")
    broken = run("verify-backup", f"kept/{file.name}")
    assert (broken.returncode, "is no backup of Muster" in broken.stderr) == (1, True)
    for options, says in (
        (("--keep", "0"), "--keep 0: must be at least 1"),
        (("--every-h", "24"), "--every-h 24.0: needs --keep"),
        (("--keep", "1", "--every-h", "0"), "must be above 0"),
    ):
        wrong = run("backup", "kept", *options)
        assert (wrong.returncode, says in wrong.stderr) == (1, True)


@pytest.mark.postgres
def test_migrate_and_check_work_on_postgres(run, postgres_url):
    assert "up to date" in printed(run("migrate", MUSTER_DATABASE_URL=postgres_url))
    assert "database: ok" in printed(run("check", MUSTER_DATABASE_URL=postgres_url))


def test_check_masks_secrets_and_names_what_fails(run):
    result = run(
        "check",
        MUSTER_DATABASE_URL="postgresql+psycopg://muster:canary@127.0.0.1:1/muster",
        MUSTER_REDIS_URL="redis://:canary@127.0.0.1:1/0",
        MUSTER_OIDC_CLIENT_SECRET="canary",
        MUSTER_SCIM_TOKEN="canary".ljust(40, "-"),
        MUSTER_SMTP_PASSWORD="canary",
    )
    assert result.returncode == 1
    assert "canary" not in result.stdout + result.stderr
    assert "MUSTER_DATABASE_URL=postgresql+psycopg://muster:***@127.0.0.1:1/muster" in result.stdout
    assert "MUSTER_REDIS_URL=redis://***@127.0.0.1:1/0" in result.stdout
    assert "MUSTER_OIDC_CLIENT_SECRET=***\n" in result.stdout
    assert "database: FAILED" in result.stdout
    assert "redis: FAILED" in result.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [("MUSTER_PORT", "99999"), ("MUSTER_ALLOWED_HOSTS", "a,b"), ("MUSTER_LOG_LEVEL", "loud")],
)
def test_a_wrong_setting_stops_every_command(run, name, value):
    result = run("setup-token", **{name: value})
    assert result.returncode == 1
    assert f"{name}='{value}'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("command", "database"),
    [
        ("setup-token", None),
        ("serve", None),
        ("serve", "0002-8b9083c"),
        ("controller", "0002-8b9083c"),
        ("worker", "0002-8b9083c"),
        ("check", "0002-8b9083c"),
    ],
)
def test_tables_of_another_version_stop_every_command(
    run, tmp_path, load_database, command, database
):
    (tmp_path / "empty.db").touch()
    url = load_database(database, "sqlite") if database else f"sqlite:///{tmp_path}/empty.db"
    result = run(command, MUSTER_DATABASE_URL=url, MUSTER_REDIS_URL="redis://127.0.0.1:1/0")
    assert result.returncode == (1 if command == "check" else SCHEMA_MISMATCH_EXIT)
    said = result.stdout if command == "check" else result.stderr
    has = "tables of revision 0002" if database else "no tables yet"
    assert re.search(f"The database has .*{has}.*: run 'muster-server migrate'\\.", said), said
    assert "Traceback" not in result.stderr


def test_processes_that_migrate_at_once_do_not_race(run, load_database):
    url = load_database("0002-8b9083c", "sqlite")
    with ThreadPoolExecutor() as threads:
        done = [
            threads.submit(run, command, MUSTER_DATABASE_URL=url)
            for command in ("migrate", "migrate", "migrate")
        ]
    assert f"0002 → {head_revision()}" in {printed(one.result()) for one in done}
    assert "database: ok" in printed(run("check", MUSTER_DATABASE_URL=url))


def test_what_migrating_cannot_help_is_said(run, database):
    with database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    result = run("migrate")
    assert result.returncode == SCHEMA_MISMATCH_EXIT
    assert "revision 9999, which this version of Muster does not know" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["setup-token", "sign-in-token", "serve", "backup", "check"])
def test_a_database_that_is_not_there_is_not_made(run, tmp_path, command):
    arguments = ["copy.db"] if command == "backup" else []
    result = run(command, *arguments, MUSTER_DATABASE_URL=f"sqlite:///{tmp_path}/absent.db")
    assert result.returncode == 1
    assert f"There is no database at {tmp_path}/absent.db." in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "absent.db").exists()


def test_the_command_of_the_set_up_page_prints_a_token_that_works(client, database_url):
    # A shell that knows nothing of the server; a URL that may hold a password is not shown.
    known = {} if database_url.startswith("sqlite") else {"MUSTER_DATABASE_URL": database_url}
    command = client.get("/api/v1/auth/state").json()["setup_command"]
    token = subprocess.run(
        ["sh", "-c", command],
        cwd="/",
        env={"PATH": os.environ["PATH"], **known},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    body = {"token": token, "username": "ada", "password": "a tolerable passphrase"}
    assert client.post("/api/v1/auth/setup", json=body).status_code == 200
    assert client.get("/api/v1/auth/state").json()["setup_command"] is None


def test_the_command_of_the_sign_in_page_prints_a_token_that_works(run, connect, database_url):
    token = printed(run("setup-token", "--quiet"))
    body = {"token": token, "username": "ada", "password": "a tolerable passphrase"}
    assert connect().post("/api/v1/auth/setup", json=body).status_code == 200
    known = {} if database_url.startswith("sqlite") else {"MUSTER_DATABASE_URL": database_url}
    # Who sits at another machine is not told where the database is.
    assert connect(address="10.1.2.3").get("/api/v1/auth/state").json()["sign_in_command"] is None
    command = connect(address="127.0.0.1").get("/api/v1/auth/state").json()["sign_in_command"]
    token = subprocess.run(
        ["sh", "-c", command],
        cwd="/",
        env={"PATH": os.environ["PATH"], **known},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert connect().post("/api/v1/auth/one-time", json={"token": token}).status_code == 200


def test_setup_token_from_the_command_line_works_once(run, client):
    token = printed(run("setup-token", "--quiet"))
    body = {"token": token, "username": "ada", "password": "a tolerable passphrase"}
    assert client.post("/api/v1/auth/setup", json=body).status_code == 200
    result = run("setup-token")
    assert result.returncode == 1
    assert "sign-in-token" in result.stderr


def test_tokens_from_the_command_line_work(run, connect):
    token = printed(run("create-token", "--user", "ci", "--name", "build", "--role", "member"))
    me = connect(token=token).get("/api/v1/auth/me").json()
    assert (me["username"], me["role"], me["has_password"]) == ("ci", "member", False)


def test_sign_in_link_keeps_the_secret_out_of_the_request(run, connect):
    run("create-token", "--user", "ada", "--role", "admin")
    link = printed(run("sign-in-token", "--user", "ada"))
    address, _, token = link.partition("#once=")
    assert address == "http://localhost:8470/sign-in"
    assert connect().post("/api/v1/auth/one-time", json={"token": token}).status_code == 200


def test_join_token_is_written_for_its_reader_alone(run, tmp_path):
    target = tmp_path / "token"
    target.write_text("old")
    printed(run("create-join-token", "--uses", "2", "--out", str(target)))
    assert target.read_text().startswith("mst_join_")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("arguments", [["--uses", "0"], ["--expires-in-s", "1"], ["--pool", ""]])
def test_join_tokens_have_bounds(run, arguments):
    result = run("create-join-token", *arguments)
    assert result.returncode == 1
    assert arguments[0] in result.stderr
