"""Shows the settings with their secrets masked, and tests what they point to."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import redis
from pydantic import SecretStr
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from .db.engine import Database, sqlite_file
from .db.tables import schema_of
from .errors import Conflict
from .services.secrets.encryption import key_ring
from .settings import Settings

MASK = "***"


def check(settings: Settings, say: Callable[[str], None]) -> bool:
    """Print every setting and the state of the database and Redis. True when the server can start."""
    for name, value in settings:
        say(f"MUSTER_{name.upper()}={_shown(name, value)}")
    say("")
    _check_secrets(settings, say)
    database_works = _check_database(settings, say)
    redis_works = _check_redis(settings, say)
    return database_works and redis_works


def missing_database(url: str) -> str | None:
    """Return a sentence about a missing SQLite file; None if it exists, and for PostgreSQL.

    Raises ArgumentError for what is no URL.
    """
    file = sqlite_file(make_url(url))
    if file is None or file.exists():
        return None
    return (
        f"There is no database at {file.absolute()}. Set MUSTER_DATABASE_URL to the server's "
        "database (`muster up` keeps it as muster.db in its home folder), or run "
        "'muster-server migrate' to make a new one."
    )


def masked_url(url: str) -> str:
    """Return a URL that may be shown: without its password, and without unreadable parts."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return MASK


def _shown(name: str, value: object) -> str:
    if name == "database_url":
        return masked_url(str(value))
    if name == "secrets_key":
        return MASK if value else ""
    if isinstance(value, SecretStr):
        parts = urlsplit(value.get_secret_value())
        if "@" in parts.netloc:
            parts = parts._replace(netloc=f"{MASK}@{parts.netloc.rsplit('@', 1)[1]}")
        return urlunsplit(parts._replace(query=MASK if parts.query else ""))
    return "" if value is None else str(value)


def _check_database(settings: Settings, say: Callable[[str], None]) -> bool:
    try:
        missing = missing_database(settings.resolved_database_url())
        if missing is not None:
            say(f"database: FAILED ({missing})")
            return False
        database = Database(settings.resolved_database_url())
        try:
            schema = schema_of(database)
        finally:
            database.dispose()
    except (SQLAlchemyError, OSError) as error:
        say(f"database: FAILED ({type(error).__name__}: {str(error).splitlines()[0]})")
        return False
    if schema.problem is not None:
        say(f"database: FAILED ({schema.problem})")
        return False
    say(f"database: ok (revision {schema.revision})")
    return True


def _check_secrets(settings: Settings, say: Callable[[str], None]) -> None:
    """Check the keys of secrets. Without any the server works, and secrets are off."""
    try:
        keys = key_ring(settings)
    except Conflict as error:
        say(f"secrets: off ({error.message})")
    else:
        say(f"secrets: ok (encrypted with key {keys.current_id})")


def _check_redis(settings: Settings, say: Callable[[str], None]) -> bool:
    """Check Redis. Not configured is fine; configured and silent is not."""
    url = settings.resolved_redis_url()
    if url is None:
        say("redis: not configured (live pages poll)")
        return True
    try:
        with redis.Redis.from_url(url, socket_timeout=3, socket_connect_timeout=3) as connection:
            connection.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        say(f"redis: FAILED ({type(error).__name__})")
        return False
    say("redis: ok")
    return True
