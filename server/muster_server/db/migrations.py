"""Bring a database to this version's tables, and say whether it is there."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import text

from .engine import Database

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

ADVISORY_LOCK = 0x6D757374  # "must": one migration at a time, however many servers start at once


def migrations_path() -> Path:
    """Return the folder with env.py and versions/: inside an installed package, at the top of a
    checkout.

    Raises FileNotFoundError when it is in neither place.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "migrations", package.parent.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError("the migrations folder was not installed")


@lru_cache(maxsize=1)
def head_revision() -> str:
    """Return the revision that this version of the code needs."""
    from alembic.script import ScriptDirectory

    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert head is not None, "no migration found"
    return head


@lru_cache(maxsize=1)
def known_revisions() -> frozenset[str]:
    """Return every revision this version of the code can upgrade from, the newest included."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(alembic_config())
    return frozenset(script.revision for script in scripts.walk_revisions())


def current_revision(database: Database) -> str | None:
    """Return the revision the database has; None for one without tables. Raises if it is
    unreachable."""
    with database.engine.connect() as connection:
        return revision_of(connection)


def revision_of(connection: Connection) -> str | None:
    """Return the revision over an open connection; None without tables."""
    from alembic.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database, revision: str = "head") -> None:
    """Apply what is missing. Safe to run from several processes at the same time."""
    from alembic import command

    with _exclusive(database) as connection:
        command.upgrade(alembic_config(connection), revision)
        connection.commit()


def downgrade(database: Database, revision: str) -> None:
    """Undo revisions down to this one ("base" drops every table)."""
    from alembic import command

    with _exclusive(database) as connection:
        command.downgrade(alembic_config(connection), revision)
        connection.commit()


def _exclusive(database: Database) -> Connection:
    """Yield a connection in a transaction that shuts out other migrations until it commits."""
    # On SQLite this takes the write lock at once; DDL is transactional on both. Alembic commits after
    # each revision unless the transaction is there before it: then others would come in between.
    connection = database.engine.connect().execution_options(muster_write=True)
    connection.begin()
    if not database.is_sqlite:
        connection.execute(text("SET LOCAL lock_timeout = '120s'"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    return connection


def alembic_config(connection: Connection | None = None) -> Config:
    """Return the configuration of Alembic's commands, without an alembic.ini."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_path()))
    config.set_main_option("path_separator", "os")
    if connection is not None:
        config.attributes["connection"] = connection
    return config
