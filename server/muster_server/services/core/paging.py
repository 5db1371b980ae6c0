"""Opaque cursors: where the next page begins, as base64 of the last row's sort key."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, TypeVar, TypeVarTuple

from sqlalchemy import Row, Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from muster_server.errors import InvalidRequest

MAX_LIMIT = 200
MAX_CURSOR_CHARS = 512

CursorKey = list[str | int | float | None]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def encode_cursor(*key: str | int | float | None) -> str:
    text = json.dumps(key, separators=(",", ":"), allow_nan=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(
    cursor: str | None, *kinds: type[Any] | tuple[type[Any], ...]
) -> CursorKey | None:
    """Return the key behind a cursor, None without one. Raises InvalidRequest for anything we never
    made.

    kinds: the type of each part; (float, type(None)) for one that may be null.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > MAX_CURSOR_CHARS:
            raise ValueError("too long")
        padded = cursor + "=" * (-len(cursor) % 4)
        key = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        if not isinstance(key, list) or len(key) != len(kinds):
            raise ValueError("other shape")
        for part, kind in zip(key, kinds, strict=True):
            if isinstance(part, bool) or not isinstance(part, kind):
                raise ValueError("other type")
            if isinstance(part, int) and abs(part) >= 2**63:
                raise ValueError("out of range")
    except (ValueError, binascii.Error, RecursionError):
        raise InvalidRequest(
            "request.bad_cursor",
            "The cursor is not one this list gave out.",
            hint="Start again without a cursor.",
        ) from None
    return key


def read_page(
    session: Session,
    query: Select[T],
    key: InstrumentedAttribute[Any],
    *,
    cursor: str | None,
    limit: int,
    newest_first: bool = False,
) -> tuple[list[T], str | None]:
    """Return the rows of one page in the order of `key`, and the cursor of the next page.

    key: a unique column of the rows, an integer or text. Raises InvalidRequest for a bad cursor.
    """
    rows, following = read_page_of_tuples(
        session, query, key, cursor=cursor, limit=limit, newest_first=newest_first
    )
    return [row for (row,) in rows], following


def read_page_of_tuples(
    session: Session,
    query: Select[T, *Ts],
    key: InstrumentedAttribute[Any],
    *,
    cursor: str | None,
    limit: int,
    newest_first: bool = False,
) -> tuple[Sequence[Row[T, *Ts]], str | None]:
    """Do the same for a query of several entities, the first of which has the key."""
    after = decode_cursor(cursor, key.type.python_type)
    if after is not None:
        query = query.where(key < after[0] if newest_first else key > after[0])
    query = query.order_by(key.desc() if newest_first else key).limit(limit + 1)
    rows = session.execute(query).all()
    following = encode_cursor(getattr(rows[limit - 1][0], key.key)) if rows[limit:] else None
    return rows[:limit], following


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST = (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)


def microseconds(at: dt.datetime) -> int:
    """Since 1970, for a cursor: exact, unlike a float."""
    return (at - _EPOCH) // dt.timedelta(microseconds=1)


def at_microseconds(value: int) -> dt.datetime:
    """Return the time of a cursor; the nearest there is for a number that stands for none."""
    return _EPOCH + dt.timedelta(microseconds=min(max(value, 0), _LAST))
