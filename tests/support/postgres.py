"""A private PostgreSQL server made from the machine's own binaries; it can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from sqlalchemy import Connection, text

START_TIMEOUT_S = 60


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl of the newest installed PostgreSQL; None without one."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    return found[-1].parent if found else None


class Postgres:
    """A fresh server. Listens on a unix socket in a private folder only.

    PostgreSQL refuses to run as root, so there it runs as the system's `postgres` user.
    is_durable: a commit survives the death of the server (not that of the machine).
    """

    def __init__(self, binaries: Path, *, is_durable: bool = False) -> None:
        self._binaries = binaries
        self._is_durable = is_durable
        # A short path: the name of a unix socket must stay below about 100 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="muster-pg-"))
        self._data = self._folder / "data"
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, "postgres", "postgres")
            self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.url = f"postgresql+psycopg://muster@/postgres?host={self._folder}"

    def create(self) -> None:
        self._run(
            "initdb", "-D", str(self._data), "-U", "muster", "--auth=trust", "-E", "UTF8",
            "--no-sync",
        )  # fmt: skip

    def start(self) -> None:
        """Returns when it answers."""
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=off "
            f"-c synchronous_commit={'on' if self._is_durable else 'off'} "
            f"-c full_page_writes={'on' if self._is_durable else 'off'} "
            "-c shared_buffers=64MB"
        )
        # Output goes to a file: a server holding our pipe open would keep us waiting for its end.
        self._run(
            "pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"),
            "-o", options, "-w", "-t", str(START_TIMEOUT_S), "start",
        )  # fmt: skip

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """SIGKILL to the server and each of its processes, and wait until they are gone."""
        server = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        with contextlib.suppress(psutil.NoSuchProcess):
            server.suspend()  # so that it starts none meanwhile
            family = [server, *server.children(recursive=True)]
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(family, timeout=10)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        binaries = self._binaries
        done = subprocess.run(
            [*self._as_user, str(binaries / program), *arguments],
            env={
                "PATH": f"{binaries}:/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "HOME": str(self._folder),
            },
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=START_TIMEOUT_S + 10,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout.decode(errors='replace')}")


@contextmanager
def private_postgres(binaries: Path, *, is_durable: bool = False) -> Iterator[Postgres]:
    """A running server, until the end of the block; its `url` is that of the `postgres` database."""
    server = Postgres(binaries, is_durable=is_durable)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        server.remove()


class ReusedDatabase:
    """One migrated database that is put back to its first state for each test: making a database
    from a template writes some hundred files, putting this one back takes a hundredth of that.

    connection: to it, in autocommit. What was in its tables when this was made comes back.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        for statement in _REMEMBER:
            connection.execute(text(statement))
        self._tables = self._describe_tables()

    def restore(self) -> bool:
        """Put it back. False when its tables are not those of the beginning: make another one."""
        self._connection.execute(text(_END_OTHERS))
        if self._describe_tables() != self._tables:
            return False
        self._connection.execute(text(_RESTORE))
        return True

    def _describe_tables(self) -> str:
        return str(self._connection.execute(text(_TABLES)).scalar_one())


_REMEMBER = (
    "CREATE SCHEMA first_state",
    """
    DO $$ DECLARE name text; has_rows bool; BEGIN
      FOR name IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM public.' || name || ')' INTO has_rows;
        IF has_rows THEN
          EXECUTE 'CREATE TABLE first_state.' || name || ' AS TABLE public.' || name;
        END IF;
      END LOOP;
    END $$
    """,
    """
    CREATE TABLE first_state."the sequences" AS
    SELECT format('%I.%I', schemaname, sequencename) AS name,
           coalesce(last_value, start_value) AS value, last_value IS NOT NULL AS is_used
    FROM pg_sequences WHERE schemaname = 'public'
    """,
)

_END_OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""

_TABLES = """
    SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
      SELECT concat(c.relname, '.', a.attname, a.attnum, a.attnotnull) AS line
      FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
      WHERE c.relnamespace = 'public'::regnamespace
      UNION ALL
      SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    ) AS lines
"""

# Replica: foreign keys are not looked at, so that the order of the tables does not matter. A table
# that has grown is truncated, as deleted rows would slow down the next test.
_RESTORE = """
    DO $$ DECLARE name text; BEGIN
      SET LOCAL session_replication_role = replica;
      FOR name IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' LOOP
        IF pg_relation_size('public.' || name) > 131072 THEN
          EXECUTE 'TRUNCATE public.' || name || ' CASCADE';
        ELSIF pg_relation_size('public.' || name) > 0 THEN
          EXECUTE 'DELETE FROM public.' || name;
        END IF;
      END LOOP;
      FOR name IN SELECT quote_ident(tablename) FROM pg_tables
                  WHERE schemaname = 'first_state' AND tablename <> 'the sequences' LOOP
        EXECUTE 'INSERT INTO public.' || name || ' OVERRIDING SYSTEM VALUE TABLE first_state.' || name;
      END LOOP;
      PERFORM setval(s.name::regclass, s.value, s.is_used) FROM first_state."the sequences" s
        JOIN pg_sequences p ON format('%I.%I', p.schemaname, p.sequencename) = s.name
        WHERE (p.last_value IS NOT NULL) <> s.is_used
           OR p.last_value IS DISTINCT FROM CASE WHEN s.is_used THEN s.value END;
    END $$
"""
