"""The secrets of a compose stack, made on its first start and never again.

One folder (a volume) per reader, because a container should see only what it needs:
postgres: `password` · redis: `redis.conf` · server: `database_url`, `redis_url`.

The files are readable by any user inside the containers that mount them: PostgreSQL, Redis and
the server run under different numeric users, and the mount itself is the boundary.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_MODE = 0o444


def init_stack_secrets(postgres_dir: Path, redis_dir: Path, server_dir: Path) -> bool:
    """Write what is missing; True when new secrets were made.

    All or nothing: the server's folder is written last and its presence is the mark, so an
    interrupted first start makes a fresh, consistent set instead of two halves that do not fit.
    Raises OSError when a folder cannot be written.
    """
    marker = server_dir / "redis_url"
    if marker.exists():
        return False
    for folder in (postgres_dir, redis_dir, server_dir):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    postgres_password = secrets.token_urlsafe(32)
    redis_password = secrets.token_urlsafe(32)
    _write(postgres_dir / "password", postgres_password)
    _write(
        redis_dir / "redis.conf",
        f"requirepass {redis_password}\n"
        "appendonly yes\n"
        "maxmemory 256mb\n"
        "maxmemory-policy noeviction\n"
        "dir /data\n",
    )
    _write(
        server_dir / "database_url",
        f"postgresql+psycopg://muster:{postgres_password}@postgres:5432/muster",
    )
    _write(marker, f"redis://:{redis_password}@redis:6379/0")
    return True


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text)
    temporary.chmod(_MODE)
    with temporary.open() as file:
        os.fsync(file.fileno())
    temporary.replace(path)
