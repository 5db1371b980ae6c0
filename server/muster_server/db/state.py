"""The state of the database: whether it can be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from .engine import Database
from .tables import schema_of

ROOM_MIN_BYTES = 16 << 20
"""Free bytes on its disk below which SQLite soon cannot write."""


def state_of(
    database: Database,
) -> Literal["ok", "unreachable", "not_migrated", "schema_mismatch", "disk_full"]:
    """Return the state of the database's tables, and for SQLite of the disk that it is on."""
    try:
        schema = schema_of(database).state
        if schema != "ok":
            return schema
        if database.is_sqlite and database.url.database:
            folder = Path(database.url.database).absolute().parent
            if shutil.disk_usage(folder).free < ROOM_MIN_BYTES:
                return "disk_full"
    except (SQLAlchemyError, OSError):
        return "unreachable"
    return "ok"
