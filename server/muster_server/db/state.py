"""The state of the database: whether it can be used."""

from __future__ import annotations

import shutil
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from .engine import Database, sqlite_file
from .tables import schema_of

ROOM_MIN_BYTES = 16 << 20
"""Free bytes on its disk below which SQLite soon cannot write."""


def state_of(
    database: Database,
) -> Literal["ok", "unreachable", "not_migrated", "schema_mismatch", "disk_full"]:
    """Return the state of the database's tables, and for SQLite of the disk that it is on."""
    try:
        schema = schema_of(database)
    except (SQLAlchemyError, OSError):
        return "disk_full" if is_disk_full(database) else "unreachable"
    if schema.state != "ok" and not schema.is_extended:
        return schema.state
    return "disk_full" if is_disk_full(database) else "ok"


def is_disk_full(database: Database) -> bool:
    """Return whether almost nothing can be written to the disk of a SQLite database. Nobody but
    PostgreSQL knows this of its own: False."""
    file = sqlite_file(database.url)
    if file is None:
        return False
    try:
        return shutil.disk_usage(file.absolute().parent).free < ROOM_MIN_BYTES
    except OSError:
        return False
