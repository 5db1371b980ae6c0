"""The command that prints a new set-up token on this installation, for the set-up page."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from sqlalchemy import make_url

from .db.engine import sqlite_file
from .settings import Settings


def setup_command(settings: Settings) -> str:
    """Return a shell command that reaches the database of this server and prints the token alone.

    It holds no secret: the URL of a database that may have a password is left out, and the command
    then needs the server's own environment. MUSTER_SETUP_COMMAND replaces it where the command runs
    somewhere else, as with Compose.
    """
    if settings.setup_command:
        return settings.setup_command
    command = f"{_program()} setup-token --quiet"
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
