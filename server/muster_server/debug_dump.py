"""One archive for a report of a problem: versions, settings, state and last logs, without secrets."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from muster import __version__

from .check import check, reason_of
from .db.engine import Database, parsed_url, sqlite_file
from .db.migrations import current_revision, head_revision
from .db.models import ApiServerRow, ControllerLeaseRow, NodeRow, NotificationTargetRow, SecretRow
from .domain.secrets.redaction import redacted
from .errors import Conflict
from .security.encryption import key_ring
from .services.core.liveness import last_backup_at, parts_alive, stuck_after
from .services.nodes.counts import count_cluster, size_bytes
from .services.secrets.store import open_row
from .settings import Settings
from .tasks.names import QUEUE_KEY
from .telemetry.cluster import redis_list_length

LOG_BYTES_MAX = 1 << 20
"""Bytes of the end of each log that are taken."""
LOGS_MAX = 50
"""Number of logs that are taken, the newest first."""
PACKAGES = (
    "alembic",
    "celery",
    "fastapi",
    "psycopg",
    "pydantic",
    "redis",
    "sqlalchemy",
    "torch",
    "uvicorn",
)


def write_dump(
    settings: Settings, target: Path, logs: Sequence[Path], now: dt.datetime
) -> list[str]:
    """Write the archive, a new file that its owner alone can read, and return the names in it.

    logs: files, and folders of files `*.log`. Raises OSError. A database or Redis that does not
    answer is told in the archive.
    """
    files = {"about.json": _as_json(_about(now)), "check.txt": _checked(settings)}
    secrets = _secrets_of(settings)
    try:
        database = Database(settings.resolved_database_url())
        try:
            with database.read() as session:
                secrets += _stored_secrets(session, settings)
                state = _state(database, session, settings, now)
        finally:
            database.dispose()
    except (SQLAlchemyError, OSError) as error:
        state = {"error": reason_of(error)}
    files["state.json"] = _as_json(state)
    for file in _newest(logs or _usual_logs(settings)):
        files[f"logs/{file.name}"] = _end_of(file)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            content = redacted(text, secrets).encode("utf-8", "replace")
            member = tarfile.TarInfo(f"muster-debug/{name}")
            member.size, member.mtime, member.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(member, io.BytesIO(content))
    return list(files)


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n"


def _about(now: dt.datetime) -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "made_at": now.isoformat(),
        "muster": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "packages": versions,
    }


def _checked(settings: Settings) -> str:
    lines: list[str] = []
    check(settings, lines.append)
    return "\n".join(lines) + "\n"


def _state(
    database: Database, session: Session, settings: Settings, now: dt.datetime
) -> dict[str, Any]:
    def age_s(at: dt.datetime | None) -> float | None:
        return None if at is None else round((now - at).total_seconds(), 1)

    counts = asdict(count_cluster(session, now=now))
    counts["slots"] = {" ".join(key): number for key, number in counts["slots"].items()}
    stuck = stuck_after(settings.controller_interval_s)
    versions = session.execute(
        select(NodeRow.agent_version, func.count()).group_by(NodeRow.agent_version)
    )
    redis_url = settings.resolved_redis_url()
    return {
        "database": {
            "kind": database.url.get_backend_name(),
            "size_bytes": size_bytes(database, session),
            "revision": current_revision(database),
            "newest_revision": head_revision(),
            "last_backup_age_s": age_s(last_backup_at(session)),
        },
        "cluster": counts,
        "control_plane": asdict(parts_alive(session, stuck_after=stuck, now=now)),
        "leases": {
            row.name: {
                "epoch": row.epoch,
                "expires_in_s": -(age_s(row.expires_at) or 0.0),
                "last_round_age_s": age_s(row.passed_at),
                "failing_loop": row.failing_loop,
            }
            for row in session.scalars(select(ControllerLeaseRow))
        },
        "servers": {
            row.name: {"stamp_age_s": age_s(row.stamped_at), "started_age_s": age_s(row.started_at)}
            for row in session.scalars(select(ApiServerRow))
        },
        "agents_by_version": {row[0]: row[1] for row in versions},
        "celery_queue_length": redis_list_length(redis_url, QUEUE_KEY)() if redis_url else None,
    }


# ---------------------------------------------------------------- secrets


def _secrets_of(settings: Settings) -> list[str]:
    """Return the secrets of the settings, those in files included."""
    values = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
    values.append(settings.resolved_smtp_password())
    for read in (settings.resolved_database_url, settings.resolved_redis_url):
        url = read()
        password = _password(url) if url else None
        values += [password] if password else []
    for value in (settings.secrets_key, settings.secrets_key_file):
        text = value.get_secret_value() if isinstance(value, SecretStr) else _text_of(value)
        values += text.split()
    if settings.kubeconfig is not None:
        values += _leaves(_parsed(_text_of(settings.kubeconfig)))
    return values


def _password(url: str) -> str | None:
    try:
        return parsed_url(url).password
    except SQLAlchemyError:
        return None


def _text_of(file: Path | None) -> str:
    try:
        return "" if file is None else file.read_text(errors="replace")
    except OSError:
        return ""


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _leaves(value: Any, name: str = "") -> list[str]:
    """Return the texts of a kubeconfig that are secret by the names of their fields."""
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in _leaves(item, str(key))]
    if isinstance(value, list):
        return [text for item in value for text in _leaves(item, name)]
    is_secret = name in ("token", "password", "client-key-data")
    return [value] if isinstance(value, str) and is_secret else []


def _stored_secrets(session: Session, settings: Settings) -> list[str]:
    """Return the secrets of users, projects and notification targets, as far as the keys decrypt them."""
    try:
        keys = key_ring(settings)
    except Conflict:
        return []
    found = []
    rows = [*session.scalars(select(SecretRow)), *session.scalars(select(NotificationTargetRow))]
    for row in rows:
        with contextlib.suppress(Conflict):
            found.append(open_row(row, keys))
    return found


# ---------------------------------------------------------------- logs


def _usual_logs(settings: Settings) -> list[Path]:
    """Return the folder of logs of `muster up`, which is beside its database."""
    file = sqlite_file(parsed_url(settings.resolved_database_url()))
    folder = None if file is None else file.absolute().parent / "logs"
    return [folder] if folder is not None and folder.is_dir() else []


def _newest(places: Iterable[Path]) -> list[Path]:
    files: set[Path] = set()
    for place in places:
        files |= set(place.glob("*.log")) if place.is_dir() else {place}
    return sorted(files, key=lambda file: -file.stat().st_mtime)[:LOGS_MAX]


def _end_of(file: Path) -> str:
    """Return the end of a log, from the beginning of a line: half a secret would not be found."""
    with file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - LOG_BYTES_MAX))
        content = log.read(LOG_BYTES_MAX)
    if size > LOG_BYTES_MAX:
        content = content.partition(b"\n")[2]
    return content.decode("utf-8", "replace")
