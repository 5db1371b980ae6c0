"""How many there are of a thing, in English. Pure."""

from __future__ import annotations


def counted(num: int, noun: str) -> str:
    """Return "1 file" or "1,234 files": a number with its noun, which takes an s."""
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"
