"""The secrets of a compose stack, made on its first start and never again.

One folder (a volume) per reader, because a container should see only what it needs:
postgres: `password` · redis: `redis.conf` · server: `database_url`, `redis_url`, `secrets_key`.

The files are readable by any user inside the containers that mount them: PostgreSQL, Redis and
the server run under different numeric users, and the mount itself is the boundary. The key of the
secrets of users is for the server's own user alone, which also writes it here.
"""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

_MODE = 0o444


def init_stack_secrets(postgres_dir: Path, redis_dir: Path, server_dir: Path) -> bool:
    """Write what is missing; True when new secrets were made. A stack of before gets the key of the
    secrets of users.

    All or nothing: the server's folder is written last and its presence is the mark, so an
    interrupted first start makes a fresh, consistent set instead of two halves that do not fit.
    Raises OSError when a folder cannot be written.
    """
    marker = server_dir / "redis_url"
    key = server_dir / "secrets_key"
    if marker.exists():
        if key.exists():
            return False
        _write(key, new_key(), mode=0o600)
        return True
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
    _write(key, new_key(), mode=0o600)
    _write(marker, f"redis://:{redis_password}@redis:6379/0")
    return True


def new_key() -> str:
    """Return a random key as text, as MUSTER_SECRETS_KEY_FILE holds it."""
    return base64.b64encode(os.urandom(32)).decode()


def _write(path: Path, text: str, *, mode: int = _MODE) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.chmod(mode)
    with temporary.open() as file:
        os.fsync(file.fileno())
    temporary.replace(path)
