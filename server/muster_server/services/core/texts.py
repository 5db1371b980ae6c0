"""Texts that jobs report, made such that every database can store them."""

from __future__ import annotations


def storable(text: str, max_chars: int | None = None) -> str:
    """Return a text, or its beginning, without what PostgreSQL does not take: NUL, and half a surrogate
    pair."""
    return text[:max_chars].encode("utf-8", "replace").decode().replace("\0", "")
