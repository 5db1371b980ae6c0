"""Connections and transactions, alike on SQLite (WAL) and PostgreSQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

SQLITE_BUSY_TIMEOUT_S = 15.0
"""Seconds that a writer waits for another process's write transaction."""
SQLITE_STATEMENTS_KEPT = 1024
"""Number of prepared statements kept per connection. The control plane has some 300 in turn; of the
128 that the driver keeps by default most would be gone again before their next use, and SQLite
would have to plan them anew."""

POOL_SIZE = 20
"""Number of connections kept open per process. Opening one takes longer than most transactions."""
POOL_MAX_OVERFLOW = 10
"""Number of further connections that are opened when all are in use."""

ALIVE_S = 1.0
"""Seconds after its last use for which a connection to PostgreSQL is taken to be alive; later it is
pinged first."""

_TOPICS = "muster_topics"
_USED_AT = "muster_used_at"


def touch(session: Session, *topics: str) -> None:
    """Announce that something changed. Published after the commit, and only if it happens.

    Topics: "cluster", "experiments", "experiment:{id}", "trial:{id}", "trial:{id}:metrics",
    "trial:{id}:logs", "node:{id}", "inbox:{user_id}", "maintenance", "reservations", "schedules", "assignments:{node_id}" (wakes that agent's
    long poll), "loops" (wakes the controller).
    """
    session.info.setdefault(_TOPICS, set()).update(topics)


def parsed_url(url: str) -> URL:
    """Return a database's URL in its parts. Raises ArgumentError for what is none."""
    try:
        return make_url(url)
    except ValueError:
        raise ArgumentError("its port is no number") from None


def sqlite_file(url: URL) -> Path | None:
    """Return the file of a SQLite database; None for one in memory or behind a URI, and for
    PostgreSQL."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name.startswith((":memory:", "file:")):
        return None
    return Path(name)


class Database:
    """One engine and the two kinds of session everything uses.

    Threads: an instance may be shared; a session may not. Nothing here survives a fork.
    """

    def __init__(
        self, url: str, *, on_commit: Callable[[frozenset[str]], None] | None = None
    ) -> None:
        self.url = parsed_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine: Engine = _create_engine(self.url)
        self._turn = threading.Lock()
        self.on_commit = on_commit
        """Called with the touched topics after each commit. Must not raise; losing a call is harmless."""
        write_engine = self.engine.execution_options(muster_write=True)
        self._write = sessionmaker(write_engine, expire_on_commit=False)
        self._read = sessionmaker(self.engine, expire_on_commit=False, autoflush=False)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """One write transaction: commits at the end of the block, rolls back on any exception.

        On SQLite it takes the write lock at once, so that it cannot fail half-way with "locked".
        """
        with self._my_turn():
            session = self._write()
            try:
                session.begin()
                yield session
                session.commit()
            except BaseException:
                session.rollback()
                raise
            finally:
                topics = frozenset(session.info.pop(_TOPICS, ()))
                session.close()
        if topics and self.on_commit is not None:
            self.on_commit(topics)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a consistent snapshot for reading; changes to it are discarded."""
        session = self._read()
        try:
            yield session
        finally:
            session.rollback()
            session.close()

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Yield a session for reading whose statements see one state of the database, as SQLite's do
        anyhow.

        On PostgreSQL a compaction could otherwise commit between reading the batches and the blocks of a
        metric, and points would be missing or doubled.
        """
        with self.read() as session:
            if not self.is_sqlite:
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Let the threads of a process write to SQLite one after the other: a thread that finds the
        database locked retries after growing pauses, in which others come first and nothing is
        done."""
        has_turn = self.is_sqlite and self._turn.acquire(timeout=SQLITE_BUSY_TIMEOUT_S)
        try:
            yield  # without it, too: then SQLite says that it is locked
        finally:
            if has_turn:
                self._turn.release()

    @property
    def max_connections(self) -> int:
        """Most connections that this process opens at once."""
        return POOL_SIZE + POOL_MAX_OVERFLOW

    def dispose(self) -> None:
        self.engine.dispose()


def _dump_json(value: Any) -> str:
    """Return JSON with letters as they are: SQLite finds no key by a path that is written otherwise."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # Half a surrogate pair.
        return json.dumps(value)
    return text


def _load_json(text: str | bytes) -> Any:
    """Return what json.loads does, in a seventh of the time for the hyperparameters of a trial."""
    try:
        return from_json(text)
    except ValueError:  # half of a surrogate pair, or hundreds of levels
        return json.loads(text)


def _create_engine(parsed: URL) -> Engine:
    if parsed.get_backend_name() != "sqlite":
        engine = create_engine(
            parsed,
            json_deserializer=_load_json,
            pool_size=POOL_SIZE,
            max_overflow=POOL_MAX_OVERFLOW,
            pool_timeout=10,
            isolation_level="READ COMMITTED",
            connect_args={
                "options": "-c statement_timeout=30000 -c lock_timeout=10000",
                # A database made under the C locale would answer in bytes.
                "client_encoding": "utf8",
            },
        )
        _ask_the_idle(engine)
        return engine
    # One in memory has a connection per thread, and no pool whose size could be said.
    is_file = parsed.database not in (None, "", ":memory:")
    pool = {"pool_size": POOL_SIZE, "max_overflow": POOL_MAX_OVERFLOW} if is_file else {}
    arguments = {
        "timeout": SQLITE_BUSY_TIMEOUT_S,
        "cached_statements": SQLITE_STATEMENTS_KEPT,
    }
    engine = create_engine(
        parsed,
        json_serializer=_dump_json,
        json_deserializer=_load_json,
        connect_args=arguments,
        **pool,
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # We emit BEGIN ourselves: the driver's own choice of moment would start write
        # transactions as readers, and upgrading those fails with "locked" under contention.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "temp_store=MEMORY",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("muster_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _ask_the_idle(engine: Engine) -> None:
    """Have connections that may have died in the pool replaced before they are used.

    Asking each time, as `pool_pre_ping` does, is one of three or four ways to the database and back
    that a transaction takes. Whoever gets one that has died within ALIVE_S is told so, like those
    who were using theirs at that moment, and the pool drops all others.
    """

    @event.listens_for(engine, "checkin")
    def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _ask(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < ALIVE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error  # another one is opened, and all idle ones later
