"""Shows the settings with their secrets masked, and tests what they point to."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import redis
import yaml
from pydantic import SecretStr
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from muster.launch.known_variables import PREFIX, unknown

from . import clock
from .db.clock import server_time_ms
from .db.engine import Database, parsed_url, sqlite_file
from .db.models import EventRow
from .db.state import is_disk_full
from .db.tables import schema_of
from .domain.messages import count
from .errors import Conflict, Unavailable
from .live.writes import why_refused
from .security.encryption import key_ring
from .settings import Settings, variables_of_settings

MASK = "***"
COLD_FILES_CHECKED = 1_000
"""Files of cold metrics, the newest, of which it is seen that they are there."""
CLOCK_SKEW_MAX_S = 10.0
"""Seconds by which two clocks may differ: sessions, tokens and agents' heartbeats tolerate that much."""


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
    if name == "redis_url" and isinstance(value, SecretStr):
        return _masked_place(value.get_secret_value())
    if isinstance(value, SecretStr):
        return MASK if value else ""
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
            if schema.problem is not None:
                say(f"database: FAILED ({schema.problem})")
                return False
            refusal = _refusal_of_writes(database)
            if refusal:
                say(f"database: FAILED ({refusal})")
                return False
            say(f"database: ok (revision {schema.revision})")
            return _check_clock(database, say) & _check_cold_metrics(settings, database, say)
        finally:
            database.dispose()
    except (SQLAlchemyError, OSError) as error:
        url = masked_url(settings.resolved_database_url())
        say(
            f"database: FAILED (MUSTER_DATABASE_URL={url}: {reason_of(error).rstrip('.')}. {_advice(url)})"
        )
        return False


def _advice(url: str) -> str:
    """Return what to do about a database that cannot be opened."""
    if url.startswith("sqlite"):
        return "It must be a database file of Muster, in a folder where this user may write."
    return "Start PostgreSQL, or correct the host, port, user, password or name in the URL."


def _refusal_of_writes(database: Database) -> str:
    """Return a sentence about a database that can be read but not written; "" for one that can."""
    try:
        with database.transaction() as session:
            if (
                not database.is_sqlite
                and session.scalar(text("SHOW transaction_read_only")) == "on"
            ):
                return (
                    "it can only be read: it is a standby, or default_transaction_read_only is on. "
                    "Set MUSTER_DATABASE_URL to the primary."
                )
    except SQLAlchemyError as error:
        return (
            f"it can be read but not written: {reason_of(error)}. Mount its disk for writing, and "
            f"give this user the file {database.url.database} and its folder."
        )
    return ""


def _check_clock(database: Database, say: Callable[[str], None]) -> bool:
    """Compare this machine's clock with the database's and with the newest event."""
    with database.read() as session:
        skew_s = clock.now().timestamp() - server_time_ms(session) / 1000
        newest = session.scalar(select(func.max(EventRow.id)))
        event = None if newest is None else session.get(EventRow, newest)
        ahead_s = (event.at - clock.now()).total_seconds() if event is not None else 0.0
    reason = ""
    if abs(skew_s) > CLOCK_SKEW_MAX_S:
        side = "ahead of" if skew_s > 0 else "behind"
        reason = f"{_duration(skew_s)} {side} the clock of the database"
    elif ahead_s > CLOCK_SKEW_MAX_S:
        reason = f"{_duration(ahead_s)} behind the newest event in the database"
    if reason:
        say(
            f"clock: FAILED (this machine's clock is {reason}. Synchronize the clocks, for example by NTP.)"
        )
    else:
        say("clock: ok")
    return not reason


def _check_cold_metrics(settings: Settings, database: Database, say: Callable[[str], None]) -> bool:
    """Check that the files of cold metrics are where the database says. Without any, that is fine."""
    from .services.metrics import cooling

    with database.read() as session:
        num_files, size_bytes = cooling.stored(session)
    if not num_files and settings.metric_cold_url is None:
        return True
    try:
        missing = cooling.find_missing(database, COLD_FILES_CHECKED)
    except Unavailable as error:
        say(f"cold metrics: FAILED ({error.message})")
        return False
    if missing:
        say(
            f"cold metrics: FAILED ({len(missing)} of {min(num_files, COLD_FILES_CHECKED)} files looked at "
            f"are missing or incomplete in {settings.metric_cold_url}, such as {missing[0]}. Copy them "
            "back from where they were saved.)"
        )
        return False
    say(f"cold metrics: ok ({count(num_files, 'file')}, {size_bytes / 1e9:.1f} GB)")
    return True


def _duration(seconds: float) -> str:
    return str(dt.timedelta(seconds=round(abs(seconds))))


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
        say(
            f"redis: FAILED ({_masked_place(url)}: {reason_of(error).rstrip('.')}. Start Redis, correct "
            "MUSTER_REDIS_URL, or leave it out: pages then poll.)"
        )
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
