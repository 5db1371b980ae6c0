"""Rows as the driver returns them, for readers that repeat the same query.

Converting a row (timestamps, JSON) takes far longer than comparing it with the one read last time.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from sqlalchemy import Column, Dialect, Row, Select, Table
from sqlalchemy.orm import Session

AnyRow = Row[*tuple[Any, ...]]
"""Row of a query whose columns are not typed."""
RawRow = tuple[Any, ...]
"""Row of a query. Two of the same query and database are equal if their rows are."""


def columns_of(table: Table, kind: type[Any]) -> tuple[Column[Any], ...]:
    """Return the columns that are the fields of a dataclass, which takes a row of them."""
    return tuple(table.c[field.name] for field in dataclasses.fields(kind))


class RawQuery:
    """A query read in two steps: all rows as they are, then those that are needed converted."""

    def __init__(self, query: Select[*tuple[Any, ...]]) -> None:
        self.query = query
        self._row_type: Callable[..., Any] = namedtuple(  # type: ignore[misc]
            "Row", query.selected_columns.keys()
        )
        self._converters: list[tuple[int, Callable[[Any], Any]]] = []
        self._dialect: Dialect | None = None

    def fetch(
        self, session: Session, query: Select[*tuple[Any, ...]] | None = None, **parameters: Any
    ) -> list[RawRow]:
        """Return all rows; `query` has the same columns, under more conditions."""
        result = session.connection().execute(self.query if query is None else query, parameters)
        cursor = result.cursor
        assert cursor is not None, "a SELECT has one"
        rows: list[RawRow] = cursor.fetchall()  # type: ignore[assignment]
        self._prepare(session.get_bind().dialect, cursor.description)
        result.close()
        return rows

    def convert(self, row: RawRow) -> Any:
        """Return a row with an attribute per column, of the types that the columns declare."""
        values = list(row)
        for index, converter in self._converters:
            values[index] = converter(values[index])
        return self._row_type(*values)

    def _prepare(self, dialect: Dialect, description: Any) -> None:
        if self._dialect is dialect:
            return
        self._dialect, self._converters = dialect, []
        for index, column in enumerate(self.query.selected_columns):
            processor = column.type.dialect_impl(dialect).result_processor(
                dialect, description[index][1]
            )
            if processor is not None:
                self._converters.append((index, processor))
