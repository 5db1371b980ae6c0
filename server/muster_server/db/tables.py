"""Comparison of a database with the tables that this version of Muster reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from sqlalchemy import Connection, text

from .engine import Database
from .migrations import head_revision, known_revisions, revision_of, upgrade
from .models import Base

NAMED_MAX = 3
"""Number of missing parts that a sentence names; the others are counted."""

_SQLITE_COLUMNS = text(
    """SELECT m.name, c.name, NOT c."notnull" FROM sqlite_master AS m """
    "JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'"
)
_SQLITE_TEXTS = text("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
_POSTGRES_COLUMNS = text(
    "SELECT c.relname, a.attname, NOT a.attnotnull FROM pg_attribute AS a "
    "JOIN pg_class AS c ON c.oid = a.attrelid "
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') "
    "AND a.attnum > 0 AND NOT a.attisdropped"
)
_POSTGRES_NAMES = text(
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
    "AND relkind IN ('i', 'I') UNION "
    "SELECT conname FROM pg_constraint WHERE connamespace = current_schema()::regnamespace"
)


class SchemaMismatch(Exception):
    """The database cannot be used; the text is one sentence that says what to do."""


@dataclass(frozen=True)
class Schema:
    """Tables of a database, compared with what this version needs."""

    revision: str | None
    """Revision of the database; None if no revision ever ran."""
    missing: Sequence[str]
    """Tables, columns, indexes and constraints of the models that it lacks or that differ. Not looked
    for in a database of an older version."""

    @property
    def state(self) -> Literal["ok", "not_migrated", "schema_mismatch"]:
        """State of the tables. `not_migrated`: migrating helps. `schema_mismatch`: a newer
        version's, or changed by others."""
        if self.revision == head_revision():
            return "schema_mismatch" if self.missing else "ok"
        return "not_migrated" if _is_older(self.revision) else "schema_mismatch"

    @property
    def is_extended(self) -> bool:
        """Return whether a newer version has only added to the tables, so that what runs already can
        go on until it is replaced. Nothing of this version is started on them."""
        is_newer = self.revision != head_revision() and not _is_older(self.revision)
        return is_newer and not self.missing

    @property
    def problem(self) -> str | None:
        """Return one sentence that says what is wrong and what to do; None if nothing is."""
        if self.state == "ok":
            return None
        if self.revision is None:
            return "The database has no tables yet: run 'muster-server migrate'."
        if self.state == "not_migrated":
            return (
                f"The database has the tables of revision {self.revision}, and this version of "
                f"Muster needs {head_revision()}: run 'muster-server migrate'."
            )
        if self.revision != head_revision():
            return (
                f"The database has the tables of revision {self.revision}, which this version of "
                f"Muster does not know (its newest is {head_revision()}): start a newer version."
            )
        named = ", ".join(self.missing[:NAMED_MAX])
        more = len(self.missing) - NAMED_MAX
        return (
            f"The database says revision {self.revision} and lacks {named}"
            f"{f' and {more} more' if more > 0 else ''}: something other than Muster has changed "
            "its tables, so restore a backup into a new database."
        )


def schema_of(database: Database) -> Schema:
    """Compare the database with the models, in a few milliseconds. Raises when it is unreachable."""
    with database.engine.connect() as connection:
        revision = revision_of(connection)
        return Schema(revision, () if _is_older(revision) else _missing(connection))


def require_tables(database: Database) -> None:
    """Raise SchemaMismatch unless the database has this version's tables."""
    problem = schema_of(database).problem
    if problem is not None:
        raise SchemaMismatch(problem)


def migrate(database: Database) -> None:
    """Bring a database to this version's tables, also from several processes at the same time.

    Raises SchemaMismatch when that is not possible, or did not give it these tables.
    """
    if schema_of(database).state != "schema_mismatch":
        upgrade(database)
    require_tables(database)


def _is_older(revision: str | None) -> bool:
    """Return whether this version knows how to migrate from there."""
    return revision is None or revision in known_revisions() - {head_revision()}


def _missing(connection: Connection) -> list[str]:
    find = _in_sqlite if connection.dialect.name == "sqlite" else _in_postgres
    columns, names = find(connection)
    tables = {table for table, _ in columns}
    missing = []
    for table, column, is_nullable in _expected_columns():
        if table not in tables:
            missing.append(f"table {table}")
        elif (table, column) not in columns:
            missing.append(f"column {table}.{column}")
        elif columns[table, column] != is_nullable:
            missing.append(f"column {table}.{column} {'NULL' if is_nullable else 'NOT NULL'}")
    missing += [
        f"{kind} {name}"
        for table, kind, name in _expected_names()
        if table in tables and name not in names
    ]
    return list(dict.fromkeys(missing))


Columns = dict[tuple[str, str], bool]
"""Nullability of each column, by table and column."""


def _in_sqlite(connection: Connection) -> tuple[Columns, set[str]]:
    found = connection.execute(_SQLITE_COLUMNS)
    columns = {(table, column): bool(nullable) for table, column, nullable in found}
    names = set()
    for kind, name, sql in connection.execute(_SQLITE_TEXTS):
        if kind == "index":
            names.add(name)
        words = sql.split()  # only the text of a table has the names of its constraints
        names |= {name for word, name in pairwise(words) if word == "CONSTRAINT"}
    return columns, names


def _in_postgres(connection: Connection) -> tuple[Columns, set[str]]:
    found = connection.execute(_POSTGRES_COLUMNS)
    columns = {(table, column): bool(nullable) for table, column, nullable in found}
    return columns, set(connection.scalars(_POSTGRES_NAMES))


@lru_cache(maxsize=1)
def _expected_columns() -> tuple[tuple[str, str, bool], ...]:
    return tuple(
        (table.name, column.name, bool(column.nullable))
        for table in Base.metadata.sorted_tables
        for column in table.columns
    )


@lru_cache(maxsize=1)
def _expected_names() -> tuple[tuple[str, str, str], ...]:
    """Return table, kind and name of each index and constraint."""
    tables = Base.metadata.sorted_tables
    indexes = [(t.name, "index", str(index.name)) for t in tables for index in t.indexes]
    constraints = [(t.name, "constraint", str(one.name)) for t in tables for one in t.constraints]
    return tuple(sorted([*indexes, *constraints]))
