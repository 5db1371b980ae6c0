"""What an error of the database means: that it is away, or that its tables are not the expected ones.

Everything else that a statement fails with is a mistake in the program, and trying again changes
nothing about it.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

UNAVAILABLE_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""Primary result codes of a file that is locked, full, or cannot be read or written."""
FULL_SQLITE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""Extended result codes of a disk that has no room, for the file or for the index of its log."""
FULL_POSTGRES = "53100"
"""PostgreSQL's code for disk_full."""
GONE_POSTGRES = ("08", "57P")
"""Prefixes of the codes with which PostgreSQL reports that it ends, or is not there."""
UNAVAILABLE_POSTGRES = (*GONE_POSTGRES, "40", "53", "55P03", "57014", "58")
"""Codes of PostgreSQL, besides those of GONE_POSTGRES, for: the transaction was ended for the sake
of another one; no memory, disk or connection is left; a lock was not to be had; a statement took
too long; the operating system failed."""
UNDEFINED_POSTGRES = ("42P01", "42703")
"""Codes of PostgreSQL for undefined_table and undefined_column."""
UNDEFINED_SQLITE = ("no such table", "no such column", "has no column named")


def is_unavailable(error: BaseException) -> bool:
    """Return whether the database could not be reached, is restarting, full or busy: later it may
    work."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error.orig) in UNAVAILABLE_SQLITE
    state = _state(error)
    if state is not None:
        return state.startswith(UNAVAILABLE_POSTGRES)
    return _is_of_the_connection(error)


def is_disk_full(error: BaseException) -> bool:
    """Return whether the database has no room left on its disk."""
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", None) in FULL_SQLITE
    return _state(error) == FULL_POSTGRES


def is_gone(error: BaseException) -> bool:
    """Return whether trying again at once would fail, too. False if the database ended this
    transaction alone, for example one of two that waited for each other."""
    state = _state(error)
    return is_unavailable(error) and (state is None or state.startswith(GONE_POSTGRES))


def is_undefined(error: BaseException) -> bool:
    """Return whether a statement names a table or a column that the database does not have."""
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        is_general = _sqlite_code(error.orig) == sqlite3.SQLITE_ERROR
        return is_general and any(words in str(error.orig) for words in UNDEFINED_SQLITE)
    return _state(error) in UNDEFINED_POSTGRES


def _sqlite_code(error: sqlite3.Error) -> int | None:
    """Return the primary result code; None for errors of the driver itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _state(error: BaseException) -> str | None:
    """Return the PostgreSQL server's SQLSTATE; None if it sent none."""
    state: str | None = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state


def _is_of_the_connection(error: DBAPIError) -> bool:
    """Return whether the driver itself reports a missing or broken connection."""
    import psycopg

    return isinstance(error.orig, psycopg.OperationalError | psycopg.InterfaceError)
