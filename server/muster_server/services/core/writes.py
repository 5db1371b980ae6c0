"""Guarded writes: a decision is carried out only where what it was based on still holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import CursorResult, Executable
from sqlalchemy.orm import Session


class Outdated(Exception):
    """A guarded write found that something else had changed first; the decision is dropped."""


def changed(
    session: Session, statement: Executable, values: Mapping[str, Any] | None = None
) -> int:
    """Execute a guarded write with these parameters, and return how many rows it changed."""
    return cast("CursorResult[Any]", session.execute(statement, values)).rowcount


def require_one(session: Session, statement: Executable, what: str) -> None:
    """Execute a guarded write of one row. Raises Outdated when the row was not as expected."""
    if changed(session, statement) != 1:
        raise Outdated(what)
