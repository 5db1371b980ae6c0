"""Functions of SQL that SQLite and PostgreSQL write differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Double, String, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class JsonKind(FunctionElement[str]):
    """What a JSON value is: "number" (integer, real), "string" (text), …; null where there is none.

    Of (document, path as SQLite writes it, the value).
    """

    type = String()
    inherit_cache = True


@compiles(JsonKind)
def _kind(element: JsonKind, compiler: SQLCompiler, **kw: Any) -> str:
    # Not of the value: what SQLite extracts of `true` is 1.
    document, path, _value = element.clauses
    return f"json_type({compiler.process(document, **kw)}, {compiler.process(path, **kw)})"


@compiles(JsonKind, "postgresql")
def _kind_postgresql(element: JsonKind, compiler: SQLCompiler, **kw: Any) -> str:
    _document, _path, value = element.clauses
    return f"jsonb_typeof({compiler.process(value, **kw)})"


class JsonMember(FunctionElement[Any]):
    """The value of a key of a JSON object, whatever the key holds: no path of SQLite can name one with
    a quotation mark or a backslash. Of (document, key)."""

    inherit_cache = True

    def __init__(self, document: Any, key: str) -> None:
        super().__init__(document, literal(key, String))


@compiles(JsonMember)
def _member(element: JsonMember, compiler: SQLCompiler, **kw: Any) -> str:
    document, key = (compiler.process(part, **kw) for part in element.clauses)
    # As JSON, where SQLite would say 1 and 0.
    value = "CASE WHEN type IN ('true', 'false') THEN type ELSE json_quote(value) END"
    return f"(SELECT {value} FROM json_each({document}) WHERE key = {key})"  # noqa: S608  # Compiled parts, no texts.


@compiles(JsonMember, "postgresql")
def _member_postgresql(element: JsonMember, compiler: SQLCompiler, **kw: Any) -> str:
    document, key = (compiler.process(part, **kw) for part in element.clauses)
    return f"({document} -> {key})"


class Seconds(FunctionElement[float]):
    """Seconds from 1970 to a time."""

    type = Double()
    inherit_cache = True


@compiles(Seconds)
def _seconds_sqlite(element: Seconds, compiler: SQLCompiler, **kw: Any) -> str:
    return f"((julianday({compiler.process(element.clauses, **kw)}) - 2440587.5) * 86400.0)"


@compiles(Seconds, "postgresql")
def _seconds_postgresql(element: Seconds, compiler: SQLCompiler, **kw: Any) -> str:
    return f"extract(epoch from {compiler.process(element.clauses, **kw)})::float8"
