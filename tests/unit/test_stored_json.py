"""JSON columns are read as json.loads reads them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text as sql

from muster_server.db.engine import Database
from muster_server.db.models.base import Json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


QUERY = sql("SELECT :stored AS value").columns(value=Json)


def read(text: str) -> Any:
    database = Database("sqlite://")
    try:
        with database.read() as session:
            return session.scalar(QUERY, {"stored": text})
    finally:
        database.dispose()


@given(VALUES)
def test_any_value_is_what_was_written(value: Any) -> None:
    assert read(json.dumps(value)) == value
    assert read(json.dumps(value, ensure_ascii=False)) == value


@pytest.mark.parametrize(
    "text", ['"\\ud800"', "[" * 500 + "]" * 500, '{"a": 1, "a": 2}', "[1e400, -Infinity, 12345678901234567890123]"]
)  # fmt: skip
def test_what_only_one_reader_takes_is_read_all_the_same(text: str) -> None:
    assert read(text) == json.loads(text)


def test_a_number_that_is_none_stays_one() -> None:
    assert math.isnan(read("NaN"))


def test_text_that_is_no_json_is_an_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        read("{nothing}")
