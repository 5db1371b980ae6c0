"""YAML and JSON from strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.services.documents.reading import (
    MAX_BYTES,
    MAX_DEPTH,
    Unreadable,
    read_document,
    read_value,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-4", 1e-4),
        ("1.0e-4", 1e-4),
        ("1E5", 1e5),
        (".5", 0.5),
        ("3", 3),
        ("-3", -3),
        ("010", 10),
        ("0x1f", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("'3'", "3"),
        ('"true"', "true"),
        ("<<", "<<"),
        ('{\n\t"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ("[1, a, {b: c}]", [1, "a", {"b": "c"}]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_values_follow_yaml_1_2(text: str, expected: Any) -> None:
    value = read_value(text)
    assert value == expected
    assert type(value) is type(expected)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "anchors"),
        ("a: *b", "aliases"),
        ("<<: *b", "aliases"),
        ("a: 1\na: 2", "twice"),
        ('{"a": 1, "a": 2}', "twice"),
        ("x:\n  a: 1\n  b: 2\n  a: 3", "twice"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "deeper"),
        ("[" * 100_000, "deeper"),
        ("{a: " * 50_000, "deeper"),
        ("a: .nan", "finite"),
        ("a: -.inf", "finite"),
        ("a: 1e999", "too large|this large"),
        ("a: " + "9" * 5000, "this large"),
        (f"a: {2**63}", "this large"),
        ("a: !!python/object/apply:os.system ['true']", "tags"),
        ("a: !!str 3", "tags"),
        ("1: a", "key must be text"),
        ("[a]: b", "key must be text"),
        ("null: b", "key must be text"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: [1", "not valid YAML"),
        ("a:\n\t- 1", "not valid YAML"),
        ("a: \x07", "not allowed"),
        ('a: "\\0"', "NUL"),
        ('{"a": "\\u0000"}', "NUL"),
        ('{"\\ud800": 1}', "surrogate"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1e999}', "this large"),
        ('{"a": ' + "9" * 5000 + "}", "this large"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "deeper"),
        ('{"a": 1,,}', "not valid YAML"),
        ("x" * (MAX_BYTES + 1), "larger"),
        ("ä" * (MAX_BYTES // 2 + 1), "larger"),
    ],
)
def test_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_value(text)


def test_the_line_is_named() -> None:
    with pytest.raises(Unreadable, match=r"line 3, column 3") as caught:
        read_document("a: 1\nx:\n  b: 2\n  b: 2".replace("a: 1\n", ""))
    assert caught.value.path == "x.b"


@pytest.mark.parametrize("text", ["", "- a", "3", "text"])
def test_a_document_is_a_mapping(text: str) -> None:
    with pytest.raises(Unreadable, match="mapping"):
        read_document(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(categories=("L",)), max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_json_reads_as_itself(value: Any) -> None:
    document = {"value": value}
    assert read_value(json.dumps(document)) == document
    assert read_value(json.dumps(document, indent="\t", ensure_ascii=False)) == document


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = read_value(text)
    except Unreadable:
        return
    json.dumps(value, allow_nan=False)


def test_a_tab_that_indents_is_named() -> None:
    with pytest.raises(Unreadable) as caught:
        read_document("name: x\nresources:\n\tslots: 2\n")
    assert caught.value.hint == "indent with spaces, not tabs"
