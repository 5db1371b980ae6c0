"""Every row of one database into another one with the same tables, whatever kind each is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, LargeBinary, Table, func, insert, select, text

from .engine import Database
from .models import Base

ROWS_AT_ONCE = 1000
BINARY_ROWS_AT_ONCE = 100
"""Rows with bytes in them may have a megabyte each, and all of these are in memory."""


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection that sees the database as it is now, however long it is used and whoever writes."""
    with database.engine.connect() as connection:
        if not database.is_sqlite:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            connection.execute(text("SET TRANSACTION READ ONLY"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        yield connection


def copy_rows(source: Connection, target: Connection) -> int:
    """Make `target` hold exactly the rows of `source`; how many. Both have this version's tables.

    Nothing is committed. What was in `target` is deleted, and its keys go on after the greatest.
    """
    tables = Base.metadata.sorted_tables  # what is referred to comes first
    for table in reversed(tables):
        target.execute(table.delete())
    num_rows = 0
    for table in tables:
        num_rows += _copy_table(source, target, table)
        if target.dialect.name == "postgresql":
            _advance_keys(target, table)
    return num_rows


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
    """PostgreSQL counts keys beside the table; SQLite looks for the greatest."""
    column = table.autoincrement_column
    if column is None:
        return
    sequence = target.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
    greatest = target.scalar(select(func.max(column)))
    if sequence is not None and greatest is not None:
        target.execute(select(func.setval(sequence, greatest)))
