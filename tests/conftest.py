"""What tests share: real databases, the real application, and clients of each role."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import gzip
import itertools
import os
import re
import shutil
import signal
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from sqlalchemy import URL, Engine, create_engine, make_url, text

if TYPE_CHECKING:
    from muster_server.db.engine import Database

_database_numbers = itertools.count(1)

KINDS_OF_DATABASE = [
    pytest.param("sqlite_url", id="sqlite"),
    pytest.param("postgres_url", id="postgres", marks=pytest.mark.postgres),
]

MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_MIN_BYTES = 4 * 2**30


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collections: each looked at all of it again."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room for them and programs may be started
    from there: databases wait for the disk at every commit, which proves nothing in a test. TMPDIR
    says otherwise.

    Jobs run without walls, whatever this machine offers: tests of them ask for a level. Examples of
    properties may take as long as a busy machine makes them take.

    Garbage is not looked for until everything is imported: that took a sixth of the time of imports.
    """
    gc.disable()
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    os.environ.setdefault("MUSTER_AGENT_ISOLATION", "none")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Started in the background by a shell; commands of the tests could not be interrupted.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "TMPDIR" in os.environ or not os.access(MEMORY_DISK, os.W_OK):
        return
    facts = os.statvfs(MEMORY_DISK)
    has_room = facts.f_bavail * facts.f_frsize >= MEMORY_DISK_MIN_BYTES
    if has_room and not facts.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY_DISK)
        tempfile.tempdir = None  # it may have been looked up


def _log_plainly() -> None:
    """Events go through the standard logging, where pytest captures them (`caplog`)."""
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


@pytest.fixture(scope="session", autouse=True)
def _plain_log() -> None:
    _log_plainly()


@pytest.fixture(autouse=True)
def _plain_log_again() -> Iterator[None]:
    """A command that a test runs in this process logs to that test's captured output, which is
    closed when the next test logs."""
    yield
    _log_plainly()


@pytest.fixture(scope="session")
def _compiled_once() -> Iterator[None]:
    """Engines of the same kind share what SQLAlchemy derives from statements. A control plane has
    one engine for its whole life; here every test has several, and each of them would compile all
    statements anew, which takes a quarter of the time of most tests."""
    import muster_server.db.engine

    first: dict[str, Engine] = {}

    def create(url: URL, **options: Any) -> Engine:
        engine = create_engine(url, query_cache_size=10_000, **options)
        known = first.get(url.drivername)
        # A dialect asks its server for what it can do when its engine connects first.
        if known is None or known.dialect.server_version_info is None:
            first[url.drivername] = engine
        else:
            engine.dialect = known.dialect
            engine._compiled_cache = known._compiled_cache
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(muster_server.db.engine, "create_engine", create)
        yield


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory, _compiled_once: None) -> Path:
    """A migrated SQLite file; copying it takes a tenth of migrating again."""
    from muster_server.db.engine import Database
    from muster_server.db.migrations import upgrade

    path = tmp_path_factory.mktemp("template") / "muster.db"
    database = Database(f"sqlite:///{path}")
    upgrade(database)
    database.dispose()  # the last connection to close folds the write-ahead log into the file
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, _sqlite_template: Path) -> str:
    """A migrated SQLite database of this test alone."""
    path = tmp_path / "muster.db"
    shutil.copyfile(_sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """The database most tests use: SQLite, or PostgreSQL with MUSTER_TEST_DATABASE=postgres; each of
    the two with the mark `both_databases`, one of the two by turns with `either_database`."""
    kind = f"{os.environ.get('MUSTER_TEST_DATABASE', 'sqlite')}_url"
    url: str = request.getfixturevalue(getattr(request, "param", kind))
    return url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if marks & {"both_databases", "either_database"} and "database_url" in metafunc.fixturenames:
        metafunc.parametrize("database_url", KINDS_OF_DATABASE, indirect=True)


@pytest.hookimpl(trylast=True)  # After marks that an area gives to its tests.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each test with the mark `either_database` on one of the two kinds, chosen by its name: the
    code above them is the same, and each kind still gets half of the tests. With
    MUSTER_TEST_DATABASES=both every one runs on both, as do those with the mark `both_databases`."""
    if os.environ.get("MUSTER_TEST_DATABASES") == "both":
        return
    left_out = [item for item in items if not _is_dealt(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _is_dealt(item)]


def _is_dealt(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    if "either_database" not in marks or "both_databases" in marks:
        return True
    params = getattr(getattr(item, "callspec", None), "params", {})
    kind = params.get("database_url") or params.get("any_database_url")
    # Without its subfolder, so that a test that is moved stays on its kind.
    area = item.path.relative_to(Path(__file__).parent).parts[0]
    nodeid = f"tests/{area}/{item.path.name}::{item.nodeid.partition('::')[2]}"
    name = re.sub(r"\b(sqlite|postgres)\b", "", nodeid)
    return kind is None or kind == ("sqlite_url", "postgres_url")[zlib.crc32(name.encode()) % 2]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server: MUSTER_TEST_PG_URL, or one started from the machine's binaries."""
    from support.postgres import find_binaries, private_postgres

    given = os.environ.get("MUSTER_TEST_PG_URL")
    if given:
        yield given
        return
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL on this machine and no MUSTER_TEST_PG_URL")
    with private_postgres(binaries) as server:
        yield server.url


@pytest.fixture(scope="session")
def _postgres_admin(postgres_server: str) -> Iterator[Callable[[str], None]]:
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT")

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    yield run
    engine.dispose()


def _with_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def _postgres_template(
    postgres_server: str, _postgres_admin: Callable[[str], None], _compiled_once: None
) -> Iterator[str]:
    from muster_server.db.engine import Database
    from muster_server.db.migrations import upgrade

    name = f"muster_template_{os.getpid()}"
    _postgres_admin(f"CREATE DATABASE {name}")
    database = Database(_with_database(postgres_server, name))
    upgrade(database)
    database.dispose()
    yield name
    _postgres_admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _reused_postgres(
    postgres_server: str, _postgres_admin: Callable[[str], None], _postgres_template: str
) -> Iterator[Callable[[], str]]:
    """A function that gives the URL of a migrated database with nothing in it: always the same one,
    put back to its first state, unless a test has changed its tables."""
    from support.postgres import ReusedDatabase

    with ExitStack() as made:
        current: list[tuple[str, ReusedDatabase]] = []

        def give() -> str:
            if current and current[0][1].restore():
                return current[0][0]
            name = f"muster_{os.getpid()}_{next(_database_numbers)}"
            _postgres_admin(f"CREATE DATABASE {name} TEMPLATE {_postgres_template}")
            made.callback(_postgres_admin, f"DROP DATABASE {name} WITH (FORCE)")
            url = _with_database(postgres_server, name)
            engine = create_engine(url, isolation_level="AUTOCOMMIT")
            made.callback(engine.dispose)
            current[:] = [(url, ReusedDatabase(made.enter_context(engine.connect())))]
            return url

        yield give


@pytest.fixture
def postgres_url(_reused_postgres: Callable[[], str]) -> str:
    """A migrated PostgreSQL database of this test alone."""
    return _reused_postgres()


@pytest.fixture
def empty_postgres_url(
    postgres_server: str, _postgres_admin: Callable[[str], None]
) -> Iterator[str]:
    """A PostgreSQL database of this test alone, without tables."""
    name = f"muster_{os.getpid()}_{next(_database_numbers)}"
    _postgres_admin(f"CREATE DATABASE {name}")
    yield _with_database(postgres_server, name)
    _postgres_admin(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def load_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], str]:
    """`load_database("0001", "sqlite")` makes one of tests/databases; its URL."""
    folder = Path(__file__).parent / "databases"

    def load(name: str, kind: str) -> str:
        sql = gzip.decompress((folder / f"{name}.{kind}.sql.gz").read_bytes()).decode()
        if kind == "sqlite":
            path = tmp_path / f"{name}.db"
            with contextlib.closing(sqlite3.connect(path)) as connection:
                connection.executescript(sql)
            return f"sqlite:///{path}"
        url: str = request.getfixturevalue("empty_postgres_url")
        import psycopg

        plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(sql.encode())
        return url

    return load


@pytest.fixture
def table_differences() -> Callable[[Database], list[object]]:
    """What Alembic would change to make a database's tables those of the models."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from muster_server.db.models import Base

    def compare(database: Database) -> list[object]:
        with database.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return list(compare_metadata(context, Base.metadata))

    return compare


@pytest.fixture(params=KINDS_OF_DATABASE)
def any_database_url(request: pytest.FixtureRequest) -> str:
    """Runs the test once per kind of database."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def database(database_url: str):
    """A Database with all tables and nothing in them."""
    from muster_server.db.engine import Database

    database = Database(database_url)
    yield database
    database.dispose()


@pytest.fixture(scope="session")
def _plain_settings():
    """Settings read once: looking for more than a hundred variables takes as long as starting a server."""
    from muster_server.settings import Settings

    hosts = ["localhost", "127.0.0.1", "[::1]"]
    return Settings(redis_url=None, allowed_hosts=hosts, public_url=None)


@pytest.fixture
def settings(database_url: str, _plain_settings):
    """Settings of a server on this test's database, whatever the environment says."""
    return _plain_settings.model_copy(update={"database_url": database_url})


@pytest.fixture
def app(settings):
    from muster_server.app import create_app

    return create_app(settings)


@pytest.fixture
def portal(app):
    """Runs the application; `portal.call(function)` runs something in its event loop."""
    from support.client import running

    with running(app) as portal:
        yield portal


@pytest.fixture
def connect(app, portal):
    """`connect(token=…, address=…)` makes one more client of the running application."""
    from support.client import make_client

    clients = []

    def make(*, token: str | None = None, address: str = "127.0.0.1"):
        clients.append(make_client(app, portal, token=token, address=address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(connect):
    """A client without credentials. It keeps cookies."""
    return connect()


@pytest.fixture
def make_user_token(database):
    """`make_user_token(role, username=…)` adds a user when missing and returns a new API token, limited to
    `projects` when there are some."""
    from sqlalchemy import select

    from muster_server import clock
    from muster_server.db.models import ApiTokenProjectRow, ApiTokenRow, ProjectRow, UserRow
    from muster_server.security.tokens import hash_secret, mint, visible_prefix

    def make(
        role: str,
        *,
        username: str | None = None,
        token_role: str | None = None,
        projects: Sequence[str] | None = None,
    ) -> str:
        username = username or role
        secret = mint("usr")
        now = clock.now()
        with database.transaction() as session:
            user = session.scalar(select(UserRow).where(UserRow.username == username))
            if user is None:
                user = UserRow(username=username, password_hash=None, role=role, created_at=now)
                session.add(user)
                session.flush()
            token = ApiTokenRow(
                user_id=user.id,
                name="test",
                secret_hash=hash_secret(secret),
                prefix=visible_prefix(secret),
                role=token_role or role,
                created_at=now,
                expires_at=now + dt.timedelta(days=1),
                is_limited=projects is not None,
            )
            session.add(token)
            session.flush()
            for id in session.scalars(
                select(ProjectRow.id).where(ProjectRow.name.in_(projects or ()))
            ):
                session.add(ApiTokenProjectRow(token_id=token.id, project_id=id))
        return secret

    return make


@pytest.fixture
def admin_client(connect, make_user_token):
    return connect(token=make_user_token("admin"))


@pytest.fixture
def member_client(connect, make_user_token):
    return connect(token=make_user_token("member"))


@pytest.fixture
def viewer_client(connect, make_user_token):
    return connect(token=make_user_token("viewer"))


@pytest.fixture
def join_token(database):
    """The secret of a join token for the pool "default" with plenty of uses."""
    from muster_server import clock
    from muster_server.db.models import JoinTokenRow
    from muster_server.security.tokens import hash_secret, mint, visible_prefix

    secret = mint("join")
    now = clock.now()
    with database.transaction() as session:
        session.add(
            JoinTokenRow(
                secret_hash=hash_secret(secret),
                prefix=visible_prefix(secret),
                pool="default",
                uses_left=100,
                created_at=now,
                expires_at=now + dt.timedelta(hours=1),
            )
        )
    return secret


@pytest.fixture
def join_client(connect, join_token):
    """A client with a join token, as an agent has before it first registers."""
    return connect(token=join_token)


@pytest.fixture
def muster(monkeypatch, connect, make_user_token):
    """`muster("stop", "1")` runs a command as a member; its result. as_: another role."""

    from typer.testing import CliRunner

    from muster.cli.app import command_line
    from muster.client import Client, Target

    def run(*arguments, as_="member", input=None):
        http = connect(token=make_user_token(as_))

        def from_environment(cls):
            client = cls(Target("http://localhost:8470", "unused", "the test"))
            client._http.close()
            client._http = http  # the application in this process, in place of a socket
            monkeypatch.setattr(client, "close", lambda: None)
            return client

        monkeypatch.setattr(Client, "from_environment", classmethod(from_environment))
        return CliRunner().invoke(command_line(arguments), list(arguments), input=input)

    return run
