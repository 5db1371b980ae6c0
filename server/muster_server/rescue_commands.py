"""Commands that print one-time tokens on this installation, for the pages that ask for one."""

from __future__ import annotations

import shlex
import shutil
import sys
from ipaddress import ip_address
from pathlib import Path

from sqlalchemy import make_url

from .db.engine import sqlite_file
from .settings import Settings


def setup_command(settings: Settings) -> str:
    """Return a shell command that prints a new set-up token and nothing else. MUSTER_SETUP_COMMAND
    replaces it where the command runs somewhere else, as with Compose."""
    return settings.setup_command or _command(settings, "setup-token")


def sign_in_command(settings: Settings, remote_addr: str) -> str | None:
    """Return a shell command that prints a new sign-in token and nothing else; None for a browser
    on another machine, who is not told where this one keeps its database, and where
    MUSTER_SETUP_COMMAND says that commands run somewhere else."""
    if settings.setup_command or not _is_loopback(remote_addr):
        return None
    return _command(settings, "sign-in-token")


def _is_loopback(remote_addr: str) -> bool:
    try:
        return ip_address(remote_addr).is_loopback
    except ValueError:
        return False


def _command(settings: Settings, name: str) -> str:
    """Return a command of muster-server that reaches the database of this server. It holds no
    secret: the URL of a database that may have a password is left out, and the command then needs
    the server's own environment."""
    command = f"{_program()} {name} --quiet"
    if settings.database_url_file is not None:
        path = str(settings.database_url_file.absolute())
        return f"MUSTER_DATABASE_URL_FILE={shlex.quote(path)} {command}"
    file = sqlite_file(make_url(settings.database_url))
    if file is None:
        return command
    return f"MUSTER_DATABASE_URL={shlex.quote(f'sqlite:///{file.absolute()}')} {command}"


def _program() -> str:
    """Return how muster-server is started from a shell: by its name, where that finds this very
    program."""
    script = Path(sys.executable).with_name("muster-server")
    found = shutil.which("muster-server")
    if found is not None and Path(found) == script:
        return "muster-server"
    if script.exists():
        return shlex.quote(str(script))
    return f"{shlex.quote(sys.executable)} -m muster_server.cli"
