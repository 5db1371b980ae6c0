"""Shows the settings with their secrets masked, and tests what they point to."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import redis
import yaml
from pydantic import SecretStr
from sqlalchemy.exc import SQLAlchemyError

from muster.launch.known_variables import PREFIX, unknown

from .db.engine import Database, parsed_url, sqlite_file
from .db.state import is_disk_full
from .db.tables import schema_of
from .errors import Conflict
from .live.writes import why_refused
from .services.secrets.encryption import key_ring
from .settings import Settings, variables_of_settings

MASK = "***"


def check(settings: Settings, say: Callable[[str], None]) -> bool:
    """Print every setting and the state of the database and Redis. True when the server can start."""
    for name, value in settings:
        say(f"MUSTER_{name.upper()}={_shown(name, value)}")
    say("")
    for name in unknown(os.environ, variables_of_settings(), PREFIX):
        say(f"{name}: nothing in Muster reads this variable")
    works = [
        _check_secrets(settings, say),
        _check_database(settings, say),
        _check_redis(settings, say),
        _check_router(settings, say),
        _check_kubeconfig(settings, say),
    ]
    return all(works)


def missing_database(url: str, *, makes_it: bool = False) -> str | None:
    """Return a sentence about a SQLite file that is missing or cannot be reached; None for one that
    can, and for PostgreSQL. makes_it: whether its folder is enough.

    Raises ArgumentError for what is no URL.
    """
    file = sqlite_file(parsed_url(url))
    if file is None:
        return None
    file = file.absolute()
    try:
        if file.exists() or (makes_it and file.parent.is_dir()):
            return None
    except OSError as error:
        return f"The database {file} cannot be reached ({error.strerror})."
    if makes_it:
        return (
            f"There is no folder {file.parent} for the database {file.name}. Make the folder, or set "
            "MUSTER_DATABASE_URL to another place."
        )
    return (
        f"There is no database at {file}. Set MUSTER_DATABASE_URL to the server's "
        "database (`muster up` keeps it as muster.db in its home folder), or run "
        "'muster-server migrate' to make a new one."
    )


def reason_of(error: Exception) -> str:
    """Return in one line what the database, its driver or Redis says."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def masked_url(url: str) -> str:
    """Return a URL that may be shown: without its password, and without unreadable parts."""
    try:
        return parsed_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return MASK


def _shown(name: str, value: object) -> str:
    if name == "database_url":
        return masked_url(str(value))
    if name == "secrets_key":
        return MASK if value else ""
    if isinstance(value, SecretStr):
        return _masked_place(value.get_secret_value())
    return "" if value is None else str(value)


def _masked_place(url: str) -> str:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        parts = parts._replace(netloc=f"{MASK}@{parts.netloc.rsplit('@', 1)[1]}")
    return urlunsplit(parts._replace(query=MASK if parts.query else ""))


def _check_database(settings: Settings, say: Callable[[str], None]) -> bool:
    try:
        missing = missing_database(settings.resolved_database_url())
        if missing is not None:
            say(f"database: FAILED ({missing})")
            return False
        database = Database(settings.resolved_database_url())
        try:
            if is_disk_full(database):
                say(f"database: FAILED (the disk of {database.url.database} is full)")
                return False
            schema = schema_of(database)
        finally:
            database.dispose()
    except (SQLAlchemyError, OSError) as error:
        say(f"database: FAILED ({reason_of(error)})")
        return False
    if schema.problem is not None:
        say(f"database: FAILED ({schema.problem})")
        return False
    say(f"database: ok (revision {schema.revision})")
    return True


def _check_secrets(settings: Settings, say: Callable[[str], None]) -> bool:
    """Check the keys of secrets. Not configured is fine, and secrets are off; configured and of no
    use is not."""
    try:
        keys = key_ring(settings)
    except Conflict as error:
        is_wanted = settings.secrets_key is not None or settings.secrets_key_file is not None
        say(f"secrets: {'FAILED' if is_wanted else 'off'} ({error.message})")
        return not is_wanted
    say(f"secrets: ok (encrypted with key {keys.current_id})")
    return True


def _check_redis(settings: Settings, say: Callable[[str], None]) -> bool:
    """Check Redis. Not configured is fine; configured and silent is not."""
    url = settings.resolved_redis_url()
    if url is None:
        say("redis: not configured (live pages poll)")
        return True
    try:
        refusal = why_refused(url, timeout_s=3.0)
    except (redis.RedisError, OSError, ValueError) as error:
        say(f"redis: FAILED ({_masked_place(url)}: {reason_of(error)})")
        return False
    if refusal:
        say(f"redis: FAILED ({_masked_place(url)} refuses writes: {refusal})")
        return False
    say("redis: ok")
    return True


def _check_router(settings: Settings, say: Callable[[str], None]) -> bool:
    """Check the folder in which the controller writes for HAProxy, and makes it if need be."""
    if settings.router_dir is None:
        return True
    folder = settings.router_dir.absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        say(f"router: FAILED (MUSTER_ROUTER_DIR={folder}: nothing can be written to {there})")
        return False
    say("router: ok")
    return True


def _check_kubeconfig(settings: Settings, say: Callable[[str], None]) -> bool:
    """Check that the file names a cluster. Which of them a pool uses is the pool's to say, and whether
    it answers is not tried."""
    file = settings.kubeconfig
    if file is None:
        return True
    try:
        found = yaml.safe_load(file.read_text())
        reason = "" if isinstance(found, dict) and found.get("contexts") else "it has no contexts"
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = reason_of(error)
    say(f"kubeconfig: FAILED (MUSTER_KUBECONFIG={file}: {reason})" if reason else "kubeconfig: ok")
    return not reason
