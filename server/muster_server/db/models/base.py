"""Declarative base and the column types every table shares (the same DDL on SQLite and PostgreSQL)."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import JSON, BigInteger, DateTime, ForeignKey, Integer, MetaData, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column
from sqlalchemy.types import TypeDecorator

from muster.document.codec import dump, load
from muster.document.experiment import ExperimentConfig

BigId = BigInteger().with_variant(Integer, "sqlite")
"""64-bit key that still auto-increments on SQLite."""

Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


class UtcDateTime(TypeDecorator[dt.datetime]):
    """An aware UTC timestamp. SQLite drops the zone on the way in; it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"naive timestamp: {value!r}")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


S = TypeVar("S", bound=StrEnum)


class StateOf(TypeDecorator[S]):
    """A state machine's states as text; rows have members of the enum."""

    impl = String(16)
    cache_ok = True

    def __init__(self, states: type[S]) -> None:
        super().__init__()
        self.states = states

    def process_bind_param(self, value: S | None, dialect: Any) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Any) -> S | None:
        return None if value is None else self.states(value)


class DocumentJson(TypeDecorator[ExperimentConfig]):
    """A resolved document, stored as JSON. What an older version has stored is completed with the
    defaults of this one when it is read.

    Paths into the JSON are asked of `type_coerce(column, Json)`: a part of a document is none.
    """

    impl = Json
    cache_ok = True
    hashable = False

    def process_bind_param(self, value: ExperimentConfig | None, dialect: Any) -> Any:
        return None if value is None else dump(value)

    def process_result_value(self, value: Any, dialect: Any) -> ExperimentConfig | None:
        return None if value is None else load(ExperimentConfig, value)


class Base(DeclarativeBase):
    # Named constraints, because SQLite can only alter a table by recreating it and needs the names.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {
        dt.datetime: UtcDateTime,
        ExperimentConfig: DocumentJson,
        dict[str, Any]: Json,
        list[Any]: Json,
    }


def belongs_to(key: str, type_: Any = None, **options: Any) -> MappedColumn[Any]:
    """Return a column with the key of another table's row, with which this row is deleted.

    key: "trials.id". type_: by default that of the annotation. options: of `mapped_column`.
    """
    return mapped_column(type_, ForeignKey(key, ondelete="CASCADE"), **options)
