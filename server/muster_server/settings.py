"""Settings of the server, controller and Celery worker: environment variables MUSTER_…, read once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    database_url: str = "sqlite:///muster.db"
    """SQLAlchemy URL: sqlite:///… or postgresql+psycopg://…; MUSTER_DATABASE_URL_FILE reads it from a file."""
    database_url_file: Path | None = None
    redis_url: SecretStr | None = None
    """redis://…, rediss://… or unix://…; without it live pages poll and nothing is lost."""
    redis_url_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8470, ge=0, le=65535)
    public_url: str | None = None
    """Where browsers reach the dashboard; printed in links and used for the Origin check."""
    allowed_hosts: list[str] = ["localhost", "127.0.0.1", "[::1]"]
    """Host header values that are answered (JSON list); the name in public_url is added."""
    forwarded_allow_ips: list[str] = []
    """Proxies whose X-Forwarded-* headers are believed."""
    insecure_no_auth: Literal[False] = False
    """There is no way to switch authentication off."""
    data_dir: Path = Path("muster-data")
    """Secrets, exports and other files of the control plane."""
    log_format: Literal["auto", "console", "json"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    body_max_bytes: int = Field(default=1_048_576, ge=1024)
    """Most bytes of a request from people; blobs and agents have limits of their own."""
    agent_body_max_bytes: int = Field(default=8 * 1_048_576, ge=1024)
    blob_max_bytes: int = Field(default=100 * 1_048_576, ge=1024)
    header_max_bytes: int = Field(default=32_768, ge=1024)
    request_timeout_s: float = Field(default=30.0, gt=0)
    """A request body must arrive within this; long polls and streams have their own limits."""
    session_idle_s: int = 12 * 3600
    session_max_s: int = 7 * 86_400
    heartbeat_s: float = Field(default=5.0, gt=0)
    """Least time between two heartbeats of an agent; grows as nodes / 50 s."""
    node_suspect_missed: int = Field(default=3, ge=1)
    node_lost_s: float = Field(default=60.0, gt=0)
    takeover_grace_s: float = Field(default=60.0, ge=0)
    """After the controller starts, no node becomes LOST for this long."""
    prepare_timeout_s: float = 900.0
    start_timeout_s: float = 600.0
    wind_down_s: float = 300.0
    """How long the other members of a gang may go on after the first ended well."""
    controller_lease_s: float = Field(default=5.0, gt=0)
    controller_interval_s: float = Field(default=1.0, gt=0)
    """The loops run at least this often; hints wake them earlier."""
    series_max_per_trial: int = 20_000
    sweep_interval_s: float = Field(default=30.0, gt=0)
    """How often the Celery worker looks for metrics to compact and for what has expired."""
    log_retention_days: int | None = None

    sign_in_attempts_per_minute: int = Field(default=20, ge=1)
    """From one address, over all accounts; one account allows 5 a minute from one address."""
    live_sockets_per_user: int = Field(default=20, ge=1)

    def browser_url(self) -> str:
        """Where people reach the dashboard, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = "localhost" if self.host in ("0.0.0.0", "::", "127.0.0.1") else self.host  # noqa: S104
        return f"http://{host}:{self.port}"

    def resolved_database_url(self) -> str:
        return _from_file(self.database_url_file) or self.database_url

    def resolved_redis_url(self) -> str | None:
        from_file = _from_file(self.redis_url_file)
        return from_file or (self.redis_url.get_secret_value() if self.redis_url else None)


def _from_file(path: Path | None) -> str | None:
    return path.read_text().strip() if path is not None else None


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    return Settings()


def explain(error: ValidationError) -> list[str]:
    """One line per wrong setting: the variable, the value given, and the form it should have."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        given = problem.get("input")
        # A wrong secret is still a secret.
        value = "***" if "url" in name else repr(given)
        lines.append(f"  MUSTER_{name.upper()}={value}: {problem['msg']}")
    return lines
