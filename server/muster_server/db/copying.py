"""Copy every row of one database into another one with the same tables, whatever kind each is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    JSON,
    Connection,
    DateTime,
    LargeBinary,
    MetaData,
    Table,
    event,
    func,
    insert,
    inspect,
    select,
    text,
)

from .engine import Database
from .models import Base, UtcDateTime
from .models.base import Json

ROWS_AT_ONCE = 1000
BINARY_ROWS_AT_ONCE = 100
"""Rows with bytes that are copied at once: each may have a megabyte, and all of them are in memory.
"""


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """Yield a connection that sees the database as it is now, however long it is used and whoever
    writes."""
    with database.engine.connect() as connection:
        if not database.is_sqlite:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            connection.execute(text("SET TRANSACTION READ ONLY"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        yield connection


def copy_rows(source: Connection, target: Connection, metadata: MetaData = Base.metadata) -> int:
    """Make `target` hold exactly the rows of `source`; return their number. Both have the tables of
    `metadata`.

    Nothing is committed. What was in `target` is deleted, and its keys go on after the greatest.
    """
    tables = metadata.sorted_tables  # what is referred to comes first
    for table in reversed(tables):
        target.execute(table.delete())
    num_rows = 0
    for table in tables:
        num_rows += _copy_table(source, target, table)
        if target.dialect.name == "postgresql":
            _advance_keys(target, table)
    return num_rows


def follow(source: Connection, target: Connection) -> MetaData:
    """Take from `target`, a SQLite database without rows, what `source` lacks of the same revision;
    the tables that both have then.

    Databases of one revision differ where that was extended after they were made. The revision
    that repairs them has to find the copy as it would find the original.
    """
    original, copy = inspect(source), inspect(target)
    present = set(original.get_table_names())
    for table in copy.get_table_names():
        if table not in present:
            target.exec_driver_sql(f"DROP TABLE {table}")
            continue
        kept = {index["name"] for index in original.get_indexes(table)}
        for index in copy.get_indexes(table):
            if index["name"] not in kept:
                target.exec_driver_sql(f"DROP INDEX {index['name']}")
        columns = {column["name"] for column in original.get_columns(table)}
        for column in copy.get_columns(table):
            if column["name"] not in columns:
                target.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column['name']}")
    metadata = MetaData()
    event.listen(metadata, "column_reflect", _use_our_type)
    metadata.reflect(target)
    metadata.remove(metadata.tables["alembic_version"])
    return metadata


def _use_our_type(_inspector: Any, _table: Table, column: Any) -> None:
    """SQLite says how it stores a value; this is how either kind of database stores it."""
    for kind, ours in ((DateTime, UtcDateTime()), (JSON, Json), (LargeBinary, LargeBinary())):
        if isinstance(column["type"], kind):
            column["type"] = ours


def _copy_table(source: Connection, target: Connection, table: Table) -> int:
    is_binary = any(isinstance(column.type, LargeBinary) for column in table.columns)
    at_once = BINARY_ROWS_AT_ONCE if is_binary else ROWS_AT_ONCE
    query = select(table).order_by(*table.primary_key.columns)
    num_rows = 0
    for rows in source.execute(query.execution_options(yield_per=at_once)).mappings().partitions():
        target.execute(insert(table), [dict(row) for row in rows])
        num_rows += len(rows)
    return num_rows


def _advance_keys(target: Connection, table: Table) -> None:
    """Advance the key counters: PostgreSQL counts keys beside the table; SQLite looks for the
    greatest."""
    column = table.autoincrement_column
    if column is None:
        return
    sequence = target.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
    greatest = target.scalar(select(func.max(column)))
    if sequence is not None and greatest is not None:
        target.execute(select(func.setval(sequence, greatest)))
