"""Texts that jobs report, as every database takes them."""

from __future__ import annotations

import pytest

from muster_server.services.core.texts import storable


@pytest.mark.parametrize(
    ("text", "max_chars", "expected"),
    [
        ("plain", None, "plain"),
        ("plain", 3, "pla"),
        ("a\0b", None, "ab"),
        ("half \ud83d pair", None, "half ? pair"),
        ("whole 😀", None, "whole 😀"),
        ("😀\0\ud83d", 2, "😀"),
    ],
)
def test_neither_nul_nor_half_a_surrogate_pair_is_stored(
    text: str, max_chars: int | None, expected: str
) -> None:
    assert storable(text, max_chars) == expected
