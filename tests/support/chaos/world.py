"""The stack that chaos strikes, with what lies around it: links, disks and a database."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil
import redis
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from muster_server.local.home import Home, runtime_folder
from support.ports import free_port
from support.postgres import Postgres, find_binaries, private_postgres
from support.stack import Stack, processes_of

from .disks import SmallDisk, can_mount
from .links import Links

DatabaseKind = Literal["sqlite", "postgres"]
NUM_AGENTS = 2
NODE_LOST_S = 30.0
"""Half of what is usual: a way that is cut for long is to cost a node."""
DISKS = ("agents", "storage", "server")


class World:
    """A stack in `folder`, each of whose agents reaches the server over a link of its own."""

    def __init__(
        self,
        folder: Path,
        stack: Stack,
        *,
        links: Links,
        disks: dict[str, SmallDisk],
        postgres: Postgres | None,
    ) -> None:
        self.witness = folder / "witness"
        self.witness.mkdir()
        self.stack = stack
        self.links = links
        self.disks = disks
        """By name (DISKS); none when this process may not mount any."""
        self.postgres = postgres
        """None: the database is SQLite's, a file on the server's disk."""
        url = (
            postgres.url
            if postgres
            else f"sqlite:///file:{stack.home / 'muster.db'}?mode=ro&uri=true"
        )
        self._engine = create_engine(url, pool_pre_ping=True)

    @contextmanager
    def tables(self) -> Iterator[Connection]:
        """To look into, past the server, which is one of those that are hit."""
        with self._engine.connect() as connection:
            yield connection

    def look(self, query: str, **values: Any) -> list[Any]:
        """Rows of a query; none while the database is away."""
        try:
            with self.tables() as connection:
                return list(connection.execute(text(query), values))
        except DBAPIError:
            self._engine.dispose()
            return []

    def processes(self) -> list[psutil.Process]:
        return processes_of(self.stack.home)

    def flush_valkey(self) -> None:
        """Whatever it holds is gone. Raises redis.RedisError while it is away itself."""
        path = runtime_folder(Home(self.stack.home)) / "valkey.sock"
        with redis.Redis(unix_socket_path=str(path), socket_timeout=2) as client:
            client.execute_command("FLUSHALL")

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def world(kind: DatabaseKind, *, seed: int) -> Iterator[World]:
    """A running one, of which nothing is left at the end of the block."""
    with contextlib.ExitStack() as undo:
        folder = Path(
            undo.enter_context(
                tempfile.TemporaryDirectory(prefix="muster-chaos-", ignore_cleanup_errors=True)
            )
        )
        postgres = None
        if kind == "postgres":
            binaries = find_binaries()
            if binaries is None:
                raise RuntimeError("there is no PostgreSQL on this machine: initdb is not found")
            postgres = undo.enter_context(private_postgres(binaries, is_durable=True))
        home = folder / "home"
        disks = {}
        if can_mount():
            for name, path in zip(DISKS, (home / "agents", home / "storage", home), strict=True):
                disks[name] = SmallDisk(path)
            for name in reversed(DISKS):  # the home first: the others lie in it
                disks[name].mount()
                undo.callback(disks[name].unmount)
        port = free_port()
        links = undo.enter_context(Links(port, num_links=NUM_AGENTS, seed=seed))
        stack = Stack(home, agents=NUM_AGENTS, port=port, environment=_environment(links, postgres))
        undo.callback(stack.close)
        stack.start()
        made = World(folder, stack, links=links, disks=disks, postgres=postgres)
        undo.callback(made.close)
        yield made


def _environment(links: Links, postgres: Postgres | None) -> dict[str, dict[str, str]]:
    server = {"MUSTER_NODE_LOST_S": str(NODE_LOST_S)}
    if postgres is not None:
        server["MUSTER_DATABASE_URL"] = postgres.url
    agents = {
        f"agent-local-{number}": {"MUSTER_AGENT_SERVER_URL": f"http://127.0.0.1:{port}"}
        for number, port in enumerate(links.ports, start=1)
    }
    return {**dict.fromkeys(("server", "controller", "worker"), server), **agents}
