"""The server to use, and the caller's identity there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .errors import NotConfigured


@dataclass(frozen=True)
class Target:
    """Address of the server, and the caller's identity there."""

    url: str
    token: str | None
    source: str
    """Origin of the address, "MUSTER_URL" or a path; named in messages."""

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, so that no proxy is used."""
        host = self.url.split("://", 1)[-1].split("/", 1)[0]
        return host.startswith(("127.", "localhost", "[::1]"))


def muster_home() -> Path:
    """Return $MUSTER_HOME, else ~/.muster."""
    return Path(os.environ.get("MUSTER_HOME") or Path.home() / ".muster").expanduser().absolute()


def find_target() -> Target:
    """Return the target from MUSTER_URL and MUSTER_TOKEN, else from cli.json in MUSTER_HOME
    (written by `muster up`).

    Raises NotConfigured when neither says where the server is.
    """
    url = os.environ.get("MUSTER_URL")
    if url:
        return Target(url.rstrip("/"), os.environ.get("MUSTER_TOKEN"), "MUSTER_URL")
    path = muster_home() / "cli.json"
    try:
        stored = json.loads(path.read_text())
        return Target(
            str(stored["url"]).rstrip("/"),
            os.environ.get("MUSTER_TOKEN") or stored["token"],
            str(path),
        )
    except FileNotFoundError:
        raise NotConfigured(
            "No server is known.",
            code="client.not_configured",
            hint="start one with `muster up`, or set MUSTER_URL and MUSTER_TOKEN",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise NotConfigured(
            f"{path} is not readable as {{'url', 'token'}}.",
            code="client.not_configured",
            hint="delete it, or write it again with `muster login`",
        ) from None
    except OSError as error:
        raise NotConfigured(
            f"{path} cannot be read: {error.strerror}.", code="client.not_configured"
        ) from None


def write_target(target: Target) -> Path:
    """Store `target` as the result of find_target(); only this user may read the file."""
    path = muster_home() / "cli.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": target.url, "token": target.token}, file)
    temporary.replace(path)
    return path
