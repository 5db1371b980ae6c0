"""A whole control plane as processes of its own on free ports, and what each of them uses.

For benchmarks and tests that need several API servers or controllers, on either database. `muster
up` (support.stack) is what people start on one machine.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import psutil
from sqlalchemy import create_engine, make_url, select, text

from muster.launch.forkserver import ForkedProgram
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.migrations import upgrade
from muster_server.db.models import ControllerLeaseRow
from muster_server.services.core.accounts import tokens, users
from muster_server.services.core.audit import Author
from muster_server.services.core.liveness import CONTROLLER_LEASE

from . import preloaded
from .postgres import find_binaries, private_postgres
from .valkey import private_valkey

T = TypeVar("T")
Kind = Literal["sqlite", "postgres"]
START_S = 120.0
STOP_S = 30.0


class NoPostgres(RuntimeError):
    """This machine has no PostgreSQL to start."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Of a process, or of several that belong together, since it was first asked for."""

    cpu_s: float
    rss_bytes: int
    """Now. Of several: their sum, in which memory that they share counts for each."""


class ControlPlane:
    """API servers and controllers on one migrated database and one Redis-compatible server."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        redis_url: str,
        *,
        settings: Mapping[str, str] | None = None,
        is_preloaded: bool = False,
    ) -> None:
        """settings: further MUSTER_… variables of every process. is_preloaded: they begin with their code
        imported (support.preloaded), which a measurement of what they use leaves out."""
        self.folder = folder
        self.database = Database(database_url)
        self.processes: dict[str, subprocess.Popen[bytes] | ForkedProgram] = {}
        self._is_preloaded = is_preloaded
        self._lifeline, self._hold = os.pipe()
        self.urls: dict[str, str] = {}
        self.shared_fds: list[int] = []
        """What every process inherits, such as a socket to listen on."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        self.environment = {
            "MUSTER_AGENT_ISOLATION": "none",
            **kept,
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_REDIS_URL": redis_url,
            "MUSTER_LOG_FORMAT": "json",
            "MUSTER_LIFELINE_FD": str(self._lifeline),  # they end with us, however that is
            **(settings or {}),
        }

    def start_server(self, name: str = "server", **more: str) -> str:
        """Returns its address when it answers. No port is guessed: it says its own. more: further
        variables."""
        self.start(name, "muster_server.cli", "serve", **{"MUSTER_PORT": "0", **more})

        def port() -> int | None:
            self._require_alive(name)
            for line in self.log(name).splitlines():
                if '"serving"' in line:
                    return int(json.loads(line)["port"])
            return None

        url = f"http://127.0.0.1:{wait_until(f'{name} serves', port)}"
        wait_until(f"{name} is ready", lambda: _is_ready(url))
        self.urls[name] = url
        return url

    def start_controller(self, name: str = "controller", **more: str) -> None:
        """Returns when some controller leads. more: further variables."""
        self.start(name, "muster_server.cli", "controller", **more)

        def is_led() -> bool:
            self._require_alive(name)
            return self.leader()[0] > 0

        wait_until("a controller leads", is_led)

    def leader(self) -> tuple[int, str]:
        """(epoch, name of the process that leads); epoch 0 when nobody does."""
        with self.database.read() as session:
            row = session.execute(
                select(
                    ControllerLeaseRow.epoch,
                    ControllerLeaseRow.holder,
                    ControllerLeaseRow.expires_at,
                ).where(ControllerLeaseRow.name == CONTROLLER_LEASE)
            ).one_or_none()
        if row is None or row.expires_at <= clock.now():
            return 0, ""
        pid = int(row.holder.split(":")[1])
        return row.epoch, next(n for n, p in self.processes.items() if p.pid == pid)

    def make_user_token(self) -> str:
        """The secret of an API token of an administrator."""
        now = clock.now()
        with self.database.transaction() as session:
            user = users.create_user(
                session, username="ada", password_hash=None, role="admin", by=Author("test", now)
            )
            _, secret = tokens.create_api_token(
                session, user=user, name="test", role=None, own_role="admin", lifetime=None,
                by=Author("test", now),
            )  # fmt: skip
        return secret

    def make_join_token(self, *, uses: int) -> str:
        """The secret of a token with which so many nodes may join the pool "default"."""
        with self.database.transaction() as session:
            _, secret = tokens.create_join_token(
                session, pool="default", uses=uses, lifetime=dt.timedelta(hours=1),
                created_by=None, by=Author("test", clock.now()),
            )  # fmt: skip
        return secret

    def usage(self) -> dict[str, Usage]:
        """Process → what it has used so far, the database's own processes among them."""
        used = {name: _usage([psutil.Process(p.pid)]) for name, p in self.processes.items()}
        if not self.database.is_sqlite:
            used["postgres"] = _usage(_postgres_processes(str(self.database.url.query["host"])))
        return used

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name: str) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def stop(self, name: str) -> int:
        """SIGTERM, and its exit code."""
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(STOP_S)

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(self._lifeline)
        os.close(self._hold)
        self.database.dispose()

    def start(self, name: str, *command: str, **more: str) -> None:
        """Start a module with arguments. more: further variables."""
        output, descriptors = self.folder / f"{name}.log", [self._lifeline, *self.shared_fds]
        environment = {**self.environment, **more}
        if self._is_preloaded:
            self.processes[name] = preloaded.start(
                command,
                environment=environment,
                output=output,
                pass_fds=descriptors,
                folder=self.folder,
                version=more.get("PYTHONPATH", ""),
            )
            return
        with output.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=descriptors,
            )

    def _require_alive(self, name: str) -> None:
        if self.processes[name].poll() is not None:
            raise RuntimeError(f"{name} has ended:\n{self.log(name)[-2000:]}")


@contextmanager
def control_plane(
    kind: Kind,
    *,
    servers: int = 1,
    controllers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ControlPlane]:
    """A running one on a new database, until the end of the block. Raises NoPostgres.

    SIGTERM becomes SystemExit for good, so that nothing is left running by whoever is asked to end.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        tempfile.TemporaryDirectory(prefix="mst-cp-", ignore_cleanup_errors=True) as folder,
        _new_database(kind, Path(folder)) as url,
        private_valkey() as valkey,
    ):
        database = Database(url)
        upgrade(database)
        database.dispose()
        plane = ControlPlane(Path(folder), url, valkey.url, settings=settings)
        try:
            for number in range(1, servers + 1):
                plane.start_server(f"server-{number}")
            for number in range(1, controllers + 1):
                plane.start_controller(f"controller-{number}")
            yield plane
        finally:
            plane.close()


def wait_until(what: str, check: Callable[[], T | None], timeout_s: float = START_S) -> T:
    """The first answer that is neither None nor False. Raises TimeoutError, which says `what`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = check()
        if value is not None and value is not False:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.02)


@contextmanager
def _new_database(kind: Kind, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'muster.db'}"
        return
    binaries = find_binaries()
    if binaries is None:
        raise NoPostgres("no PostgreSQL (initdb, pg_ctl) on this machine")
    with private_postgres(binaries) as postgres:
        engine = create_engine(postgres.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE muster"))
        engine.dispose()
        yield make_url(postgres.url).set(database="muster").render_as_string(hide_password=False)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _postgres_processes(folder: str) -> list[psutil.Process]:
    pid = int((Path(folder) / "data" / "postmaster.pid").read_text().splitlines()[0])
    postmaster = psutil.Process(pid)
    return [postmaster, *postmaster.children()]


def _usage(processes: list[psutil.Process]) -> Usage:
    cpu_s, rss_bytes = 0.0, 0
    for process in processes:
        try:
            times, memory = process.cpu_times(), process.memory_info()
        except psutil.NoSuchProcess:
            continue
        cpu_s += times.user + times.system
        if process == processes[0]:
            cpu_s += times.children_user + times.children_system  # of those that have ended
        rss_bytes += memory.rss
    return Usage(cpu_s=cpu_s, rss_bytes=rss_bytes)
