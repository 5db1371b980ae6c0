"""Wrong settings, as an operator gives them: every command says what is wrong, and how to write it."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.models import EventRow
from support import preloaded
from support.chaos.disks import SmallDisk, can_mount

TEN = {
    "MUSTER_DATABASE_URL": "postgres://muster:canary@db/muster",
    "MUSTER_REDIS_URL": "http://:canary@redis:6379",
    "MUSTER_PORT": "99999",
    "MUSTER_ALLOWED_HOSTS": "muster.example",
    "MUSTER_LOG_LEVEL": "loud",
    "MUSTER_PUBLIC_URL": "muster.example",
    "MUSTER_ROUTER_URL": "https://lab.example/models\nbind :80",
    "MUSTER_BLOB_MAX_BYTES": "1e+08",
    "MUSTER_NOTIFY_ALLOWED_NETWORKS": '["10.0.0.0/33"]',
    "MUSTER_SMTP_PASSWORD_FILE": "/nowhere/password",
    "MUSTER_LOG_RETENTON_DAYS": "30",
}
SOMEBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
SERVER = (sys.executable, "-m", "muster_server.cli")
COMMANDS = ["check", "migrate", "serve"]


def run(command: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return preloaded.run(
        [preloaded.SERVER, *command.split()],
        environment={**environment, **settings},
        folder=folder,
        timeout_s=60,
    )


def line_of(part: str, result: subprocess.CompletedProcess[str]) -> str:
    (line,) = [one for one in result.stdout.splitlines() if one.startswith(f"{part}:")]
    return line


def test_an_error_that_nothing_foresees_is_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from muster_server import cli; cli.main()", "health", "--timeout-s", "-1"],
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    (file,) = tmp_path.iterdir()
    words = f"unexpected error: ValueError: Timeout value out of range. {file} holds the traceback"
    assert done.returncode == 1
    assert done.stderr == f"muster-server: {words}; please report it.\n"
    assert "Traceback" in file.read_text()
    assert file.stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("command", [*COMMANDS, "controller", "worker", "setup-token", "backup x"])
def test_ten_wrong_settings_are_named_at_once(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path, **TEN)
    said = result.stdout + result.stderr
    assert result.returncode == 1
    assert "Traceback" not in said
    assert "canary" not in said
    lines = [line for line in said.splitlines() if line.startswith("  MUSTER_")]
    assert sorted(line.strip().partition("=")[0].partition(":")[0] for line in lines) == sorted(TEN)
    assert "write postgresql+psycopg://" in said
    assert "redis://, rediss:// or unix://" in said
    assert 'must be a JSON list like ["a", "b"]' in said
    assert "'/nowhere/password': cannot be read (No such file or directory)" in said
    assert "did you mean MUSTER_LOG_RETENTION_DAYS?" in said


def test_an_address_below_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    result = run("check", tmp_path, MUSTER_PUBLIC_URL="https://example.com/api/muster")
    assert result.returncode == 1
    said = " ".join((result.stdout + result.stderr).split())
    assert "has the path /api/muster, but a path such as /muster is made of letters, digits" in said


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u:canary@h/d", "sqlite:///… or postgresql+psycopg://…, not mysql://"),
        ("postgresql://u:canary@h/d", "write postgresql+psycopg://"),
        ("postgresql+psycopg://u:canary@h:port/d", "its port is no number"),
        ("muster.db", "sqlite:///… or postgresql+psycopg://…"),
        ("postgresql+psycopg://u:canary@127.0.0.1:1/d", "Connection refused"),
    ],
)
def test_a_database_that_cannot_be_is_named_with_what_can(
    tmp_path: Path, command: str, url: str, says: str
) -> None:
    result = run(command, tmp_path, MUSTER_DATABASE_URL=url, MUSTER_REDIS_URL="redis://127.0.0.1:1")
    said = result.stdout + result.stderr
    assert result.returncode == 1
    assert says in said
    assert "Traceback" not in said
    assert "canary" not in said


@pytest.mark.parametrize("command", COMMANDS)
def test_folders_and_files_that_are_missing_are_named(tmp_path: Path, command: str) -> None:
    absent = run(command, tmp_path, MUSTER_DATABASE_URL=f"sqlite:///{tmp_path}/no/muster.db")
    said = absent.stdout + absent.stderr
    assert absent.returncode == 1
    assert f"{tmp_path}/no" in said
    assert "Traceback" not in said
    (tmp_path / "url").write_bytes(b"\xff\xfe")
    for file, reason in ((tmp_path, "Is a directory"), (tmp_path / "url", "it is not text")):
        for name in ("MUSTER_DATABASE_URL_FILE", "MUSTER_REDIS_URL_FILE"):
            result = run(command, tmp_path, **{name: str(file)})
            said = result.stdout + result.stderr
            assert (result.returncode, "Traceback" in said) == (1, False)
            assert f"{name}='{file}': cannot be read ({reason})" in said


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others reach: those of pytest are closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def run_as_somebody_else(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to which rights apply as to anybody: files of others are closed to it."""
    return subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *SERVER, command],
        env={"PATH": os.environ["PATH"], "HOME": "/tmp", **settings},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@needs_root
@pytest.mark.parametrize("command", ["check", "migrate", "serve", "setup-token"])
def test_what_may_not_be_read_or_written_is_named(open_folder: Path, command: str) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "url").write_text("sqlite:///x.db")
    read_only = open_folder / "plain"
    read_only.mkdir(mode=0o755)
    for folder in (closed, read_only):
        os.chown(folder, SOMEBODY, SOMEBODY)
    for settings in (
        {"MUSTER_DATABASE_URL": f"sqlite:///{closed}/muster.db"},
        {"MUSTER_DATABASE_URL_FILE": f"{closed}/url"},
        {"MUSTER_DATABASE_URL": f"sqlite:///{read_only}/muster.db"},
    ):
        result = run_as_somebody_else(command, **settings)
        said = result.stdout + result.stderr
        assert result.returncode == 1, said
        assert "Traceback" not in said
        assert str(open_folder) in said


@needs_root
def test_a_database_of_somebody_else_is_not_well(open_folder: Path, sqlite_url: str) -> None:
    file = open_folder / "muster.db"
    shutil.copyfile(sqlite_url.removeprefix("sqlite:///"), file)
    for mode, place in ((0o644, file), (0o755, open_folder)):
        place.chmod(mode)
        os.chown(place, SOMEBODY, SOMEBODY)
    result = run_as_somebody_else("check", MUSTER_DATABASE_URL=f"sqlite:///{file}")
    assert (result.returncode, "Traceback" in result.stdout + result.stderr) == (1, False)
    assert "may write" in line_of("database", result)


def test_redis_is_named_with_its_address_and_the_reason(tmp_path: Path) -> None:
    printed = run("migrate", tmp_path)
    assert printed.returncode == 0, printed.stderr
    result = run("check", tmp_path, MUSTER_REDIS_URL="redis://:canary@127.0.0.1:1/0")
    assert result.returncode == 1
    (line,) = [one for one in result.stdout.splitlines() if one.startswith("redis:")]
    assert "redis://***@127.0.0.1:1/0" in line
    assert "Connection refused" in line
    assert "canary" not in result.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
def test_a_disk_that_is_read_only_is_named(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("this machine does not allow to mount a file system")
    disk = SmallDisk(tmp_path / "disk")
    disk.mount(size_mib=32)
    try:
        url = {"MUSTER_DATABASE_URL": f"sqlite:///{disk.folder}/muster.db"}
        assert run("migrate", tmp_path, **url).returncode == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
        result = run("check", tmp_path, **url)
    finally:
        disk.unmount()
    assert result.returncode == 1
    assert "Traceback" not in result.stdout + result.stderr
    assert "where this user may write" in line_of("database", result)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("This is a note, and not a database of anything.")
    for name, reason in (("", "unable to open database file"), ("text", "file is not a database")):
        result = run("check", tmp_path, MUSTER_DATABASE_URL=f"sqlite:///{tmp_path}/{name}")
        assert result.returncode == 1
        assert reason in line_of("database", result)
        assert "It must be a database file of Muster" in result.stdout


def test_a_clock_that_went_back_is_named(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    with database.transaction() as session:
        at = clock.now() + dt.timedelta(hours=2, seconds=30)
        session.add(EventRow(at=at, level="info", type="node.online", message="n1 is online"))
    database.dispose()
    result = run("check", tmp_path, MUSTER_DATABASE_URL=sqlite_url)
    assert result.returncode == 1
    assert "FAILED (this machine's clock is 2:00:" in line_of("clock", result)
    assert "behind the newest event" in line_of("clock", result)


def test_a_postgres_with_another_time_or_without_writes_is_named(
    empty_postgres_url: str, tmp_path: Path
) -> None:
    url = {"MUSTER_DATABASE_URL": empty_postgres_url}
    assert run("migrate", tmp_path, **url).returncode == 0
    well = run("check", tmp_path, **url)
    assert (well.returncode, line_of("clock", well)) == (0, "clock: ok")
    database = Database(empty_postgres_url)
    name, in_an_hour = database.url.database, "SELECT now() + interval '1 hour'"
    for statement in (
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
        f"AS $${in_an_hour}$$",
        f"ALTER DATABASE {name} SET search_path = public, pg_catalog",
    ):
        with database.transaction() as session:
            session.execute(text(statement))
    late = run("check", tmp_path, **url)
    assert late.returncode == 1
    assert "behind the clock of the database" in line_of("clock", late)
    with database.transaction() as session:
        session.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    database.dispose()
    standby = run("check", tmp_path, **url)
    assert standby.returncode == 1
    assert "Set MUSTER_DATABASE_URL to the primary" in line_of("database", standby)


def test_a_key_that_cannot_be_used_fails_the_check(tmp_path: Path) -> None:
    assert run("migrate", tmp_path).returncode == 0
    key = tmp_path / "key"
    assert run(f"secrets new-key --out {key}", tmp_path).returncode == 0
    assert run("check", tmp_path, MUSTER_SECRETS_KEY_FILE=str(key)).returncode == 0
    key.chmod(0o644)
    for file, reason in ((key, "has mode 0644"), (tmp_path / "no", "No such file")):
        result = run("check", tmp_path, MUSTER_SECRETS_KEY_FILE=str(file))
        assert result.returncode == 1
        assert "secrets: FAILED" in result.stdout
        assert reason in result.stdout
    assert run("check", tmp_path).returncode == 0, "no key at all is a choice"


def test_files_for_the_router_and_kubernetes_are_checked(tmp_path: Path) -> None:
    assert run("migrate", tmp_path).returncode == 0
    config = tmp_path / "config"
    config.write_text("contexts: [{name: a, context: {}}]\n")
    works = {"MUSTER_ROUTER_DIR": str(tmp_path / "new"), "MUSTER_KUBECONFIG": str(config)}
    assert run("check", tmp_path, **works).returncode == 0
    for wrong, says in (
        ({"MUSTER_ROUTER_DIR": str(config / "router")}, "nothing can be written to"),
        ({"MUSTER_KUBECONFIG": str(tmp_path / "no")}, "No such file"),
        ({"MUSTER_KUBECONFIG": str(tmp_path / "muster.db")}, "MUSTER_KUBECONFIG="),
    ):
        result = run("check", tmp_path, **(works | wrong))
        assert result.returncode == 1
        assert "FAILED" in result.stdout
        assert says in result.stdout


def test_check_names_what_nothing_reads(tmp_path: Path) -> None:
    assert run("migrate", tmp_path).returncode == 0
    result = run("check", tmp_path, MUSTER_BANANA="1", MUSTER_URL="http://x", MUSTER_DATA_A="/a")
    assert result.returncode == 0
    assert "MUSTER_BANANA: nothing in Muster reads this variable" in result.stdout
    assert result.stdout.count("nothing in Muster reads") == 1
