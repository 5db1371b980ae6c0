"""The folder of a local Muster ($MUSTER_HOME), its lock, and what can be wrong with it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

DISK_FREE_MIN_BYTES = 200_000_000
"""Free bytes below which a database soon fails in the middle of something."""
BACKLOG = 2048
"""Number of connections that may wait for the API server."""
SOCKET_PATH_MAX = 100
"""The kernel's limit for the path of a Unix socket is 108 bytes on Linux, 104 on macOS."""


class LocalError(Exception):
    """The reason why `muster up` cannot start: one sentence, and what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Home:
    root: Path

    @property
    def database(self) -> Path:
        return self.root / "muster.db"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def valkey(self) -> Path:
        return self.root / "valkey"

    @property
    def router(self) -> Path:
        """Folder of the router's configuration and lists."""
        return self.root / "router"

    @property
    def storage(self) -> Path:
        """Folder of checkpoints, shared by all agents of this machine."""
        return self.root / "storage"

    @property
    def join_token(self) -> Path:
        return self.root / "agents" / "join-token"

    @property
    def cli(self) -> Path:
        """File with address and token for the `muster` command."""
        return self.root / "cli.json"

    @property
    def state(self) -> Path:
        """File with what runs now, for `muster status` and for the next `muster up`."""
        return self.root / "up.json"

    @property
    def lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def secrets_key(self) -> Path:
        """File with the key that encrypts the secrets of users and projects."""
        return self.root / "secrets.key"

    def agent(self, name: str) -> Path:
        return self.root / "agents" / name

    def read_state(self) -> dict[str, Any]:
        """Return what the last `muster up` wrote; empty if there was none. It may have died since."""
        try:
            value = json.loads(self.state.read_text())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def is_running(self) -> bool:
        """Return whether a `muster up` holds this folder at the moment."""
        try:
            with self.lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False


def make_home(root: Path) -> Home:
    """Create the folder with its parts, only for this user. Raises LocalError."""
    home = Home(root)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (home.data, home.logs, home.valkey, home.storage, home.join_token.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        # An existing folder keeps the right to pass through, which a job of another user may need.
        root.chmod(stat.S_IMODE(root.stat().st_mode) & ~0o066)
        probe = root / ".write-test"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise explain_os_error(error, root) from error
    free = shutil.disk_usage(root).free
    if free < DISK_FREE_MIN_BYTES:
        raise LocalError(
            f"The disk of {root} is nearly full: {free / 1e6:.0f} MB are free, and at least "
            f"{DISK_FREE_MIN_BYTES / 1e6:.0f} MB are needed.",
            "free some space, or use --home on another disk",
        )
    return home


def explain_os_error(error: OSError, root: Path) -> LocalError:
    where = error.filename or root
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return LocalError(
                f"The disk is full: {where} cannot be written.",
                "free some space, or use --home on another disk",
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return LocalError(
                f"No permission to write {where}.", "use --home with a folder of your own"
            )
        case errno.ENOTDIR | errno.EEXIST:
            return LocalError(f"{where} is not a folder.", "use --home with another path")
        case _:
            return LocalError(f"{where}: {error.strerror}.")


@contextmanager
def held(home: Home) -> Iterator[None]:
    """Hold the folder's lock; the kernel gives it back however we end. Raises LocalError."""
    with home.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            running = home.read_state()
            raise LocalError(
                f"Muster already runs from {home.root}"
                + (f" at {running['url']} (process {running['pid']})." if running else "."),
                "use that one, stop it with Ctrl-C where it runs, or start another with "
                "--home and --port",
            ) from None
        yield


def runtime_folder(home: Home) -> Path:
    """Return a private folder with a short path for sockets: the home may be too deep for them.

    Raises LocalError when no place is short enough, or when somebody else owns it.
    """
    digest = hashlib.sha256(str(home.root).encode()).hexdigest()[:10]
    name = f"muster-{os.getuid()}-{digest}"
    places = [Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108 - made private below
    for place in places:
        folder = place / name
        if len(str(folder / "valkey.sock").encode()) <= SOCKET_PATH_MAX:
            break
    else:
        raise LocalError(
            f"The path for sockets is too long: {places[0] / name}.",
            "set TMPDIR to a shorter path",
        )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        info = folder.lstat()
    except OSError as error:
        raise explain_os_error(error, folder) from error
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
        raise LocalError(
            f"{folder} belongs to somebody else.", "remove it, or set TMPDIR to a folder of yours"
        )
    folder.chmod(0o700)
    return folder


def check_address(address: str | None) -> str | None:
    """Return the address itself. Raises LocalError for one that cannot stand in a link."""
    if address is not None and not re.fullmatch(
        r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", address
    ):
        raise LocalError(
            f"{address!r} is neither a host name nor an IPv4 address.",
            "give the address alone, for example --address 10.0.0.5; the port is --port",
        )
    return address


def hold_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `port`, on any free one for 0. Raises LocalError that says
    who has it.

    Nobody else can take the port from now on. Who connects before there is a server, or while one
    is started again, waits for it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family)
    try:
        if port:
            # Connections of an earlier run may linger. Only listening makes the port ours then: two
            # that have this option may both be bound.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        held.listen(BACKLOG)
        # Ours must not be in the way of the next run either.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            raise LocalError(
                f"Port {port} is taken{_holder(port)}.",
                "stop that program, or choose another port: --port 8471 (0 takes any free one)",
            ) from None
        if error.errno == errno.EACCES:
            raise LocalError(
                f"No permission to listen on port {port}.",
                "ports below 1024 are for root; choose another: --port 8470",
            ) from None
        raise LocalError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    return held


def free_port(host: str, *wanted: int) -> int:
    """Return the first of the wanted ports that is free, else any free one."""
    for port in (*wanted, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            number: int = probe.getsockname()[1]
            return number
    raise LocalError("No port is free on this machine.")


def _holder(port: int) -> str:
    """Return the holder of a port, for example " by process 17 (nginx)"; "" if the system does not
    tell."""
    try:
        for connection in psutil.net_connections("tcp"):
            local: Any = connection.laddr
            if connection.status == psutil.CONN_LISTEN and local and local.port == port:
                if connection.pid is None:
                    break
                process = psutil.Process(connection.pid)
                return f" by process {connection.pid} ({process.name()})"
    except psutil.Error:
        pass
    return " by another program"


def write_private(path: Path, text: str) -> None:
    """Replace a file that only this user may read; readers see the old or the new one whole."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
