"""The loop of deployments, and the worker that keeps HAProxy as they need it.

Deciding is part of every pass. HAProxy is asked and told by a thread of its own, which does not wait
for passes. When both are gone, HAProxy and the replicas go on with what they have.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import socket
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

import structlog
from sqlalchemy.orm import Session

from muster_models.domain.deployments import routing
from muster_models.domain.deployments.deciding import (
    DeploymentDecision,
    DeploymentPolicy,
    DeploymentView,
    decide,
)
from muster_models.domain.deployments.routing import Routes
from muster_models.services.deployments import applying
from muster_models.services.deployments.routing import has_deployments, load_routes, note_seen
from muster_server import clock
from muster_server.db.engine import Database
from muster_server.db.leases import Lease, LeaseLost, require
from muster_server.loops.base import Loop
from muster_server.settings import Settings

log = structlog.get_logger(__name__)

LOOK_S = 0.5
"""Seconds between two looks at HAProxy."""
REST_S = 2.0
"""Seconds between two looks while there are no deployments."""
SOCKET_TIMEOUT_S = 2.0
CONFIG_FILE = "haproxy.cfg"


class DeploymentLoop(Loop[Sequence[DeploymentView], DeploymentDecision]):
    name = "deployments"
    occasion = applying.ANY_DEPLOYMENT

    def __init__(self, database: Database, policy: DeploymentPolicy | None = None) -> None:
        super().__init__(database)
        self._policy = policy or DeploymentPolicy()

    def load(self, session: Session, *, lease: Lease, now: dt.datetime) -> Sequence[DeploymentView]:
        return applying.load_views(session)

    def decide(
        self, snapshot: Sequence[DeploymentView], *, now: dt.datetime
    ) -> Sequence[DeploymentDecision]:
        return [step for one in snapshot for step in decide(one, now=now, policy=self._policy)]

    def apply(
        self, session: Session, decision: DeploymentDecision, *, lease: Lease, now: dt.datetime
    ) -> None:
        applying.apply(session, decision, now=now)

    def describe(self, decision: DeploymentDecision) -> tuple[Hashable, str]:
        return f"deployment:{decision.deployment_id}", repr(decision)


class RouterAway(Exception):
    """HAProxy does not answer on its runtime socket."""


class RuntimeSocket:
    """HAProxy's runtime socket: a connection for each command."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, command: str) -> str:
        """Return the answer to one command. Raises RouterAway."""
        assert not {"\n", ";"} & set(command), "would be another command"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(SOCKET_TIMEOUT_S)
                connection.connect(str(self._path))
                connection.sendall(command.encode() + b"\n")
                answer = bytearray()
                while piece := connection.recv(65_536):
                    answer += piece
        except OSError as error:
            raise RouterAway(str(error)) from error
        return answer.decode(errors="replace").strip()


class RouterWorker:
    """Keeps HAProxy's files and its running process as the deployments need them, for the controller
    that leads. Not thread-safe: one thread calls `run_once`."""

    def __init__(
        self, database: Database, lease: Callable[[], Lease | None], settings: Settings
    ) -> None:
        """Create the worker; `lease` returns the controller's present lease, None while it does not
        lead. `settings.router_dir` must be set."""
        assert settings.router_dir is not None
        self._database = database
        self._lease = lease
        self._folder = settings.router_dir.absolute()
        self._socket_path = settings.router_socket or self._folder / "haproxy.sock"
        self._socket = RuntimeSocket(self._socket_path)
        self._host, self._port = settings.router_host, settings.router_port
        self._prefix = settings.router_prefix()
        self._written: dict[str, str] = {}
        self._lists_known = False
        """Whether the lists of the running HAProxy are those of `_routes`."""
        self._process = ""
        """Process ID of the running HAProxy."""
        self._routes = Routes()
        self._is_away = False

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. What goes wrong is logged, and tried again."""
        wait_s = LOOK_S
        while not stop.wait(wait_s):
            try:
                wait_s = LOOK_S if self.run_once(clock.now()) else REST_S
            except LeaseLost:
                continue
            except Exception:
                log.exception("router_failed")

    def run_once(self, now: dt.datetime) -> bool:
        """Look after HAProxy once; return whether there is anything to route. Raises LeaseLost if another
        process leads."""
        lease = self._lease()
        if lease is None:
            return False
        with self._database.read() as session:
            is_needed = has_deployments(session)
            if not is_needed and not self._written:
                return False  # HAProxy is not even started before there is something to route
            routes = load_routes(session, now)
        self._write_files(routes)
        try:
            self._tell(routes)
            seen = routing.read_stats(self._socket.send("show stat -1 4 -1"))
        except RouterAway as error:
            if not self._is_away:
                log.warning("router_away", error=str(error))
            self._is_away, self._lists_known = True, False
            return is_needed
        self._is_away = False
        with self._database.transaction() as session:
            require(session, lease)
            note_seen(session, seen)
        return is_needed

    def _write_files(self, routes: Routes) -> None:
        """Write what has changed of the files that HAProxy starts with."""
        contents = routing.file_contents(routes)
        contents[CONFIG_FILE] = routing.configuration(
            routes,
            folder=str(self._folder),
            socket=str(self._socket_path),
            host=self._host,
            port=self._port,
            prefix=self._prefix,
        )
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in contents.items():
            if self._written.get(name) == content:
                continue
            temporary = self._folder / f".{name}.new"
            temporary.touch(mode=0o600)
            temporary.write_text(content)
            temporary.replace(self._folder / name)
            self._written[name] = content

    def _tell(self, routes: Routes) -> None:
        """Bring the running HAProxy to the wanted set."""
        process = _process_id(self._socket.send("show info"))
        if process != self._process:
            self._process, self._lists_known = process, False
        if not self._lists_known or not _same_lists(routes, self._routes):
            self._send(self._list_commands(routes))
            self._routes, self._lists_known = routes, True
        seen = routing.read_stats(self._socket.send("show stat -1 4 -1"))
        self._send(routing.server_commands(routes.servers, seen))

    def _list_commands(self, routes: Routes) -> Iterable[str]:
        # Who sees a deployment is known before others are kept off, and both before its name.
        yield from self._acl_commands(routing.SEEN_BY_ACL, routes.seen_by)
        yield from self._acl_commands(routing.HIDDEN_ACL, routes.hidden)
        # A limited token is known as such as long as it is known at all.
        yield from self._acl_commands(routing.LIMITED_ACL, routes.limited, keeps=True)
        for name, wanted in ((routing.NAMES_MAP, routes.names), (routing.KEYS_MAP, routes.keys)):
            file = str(self._folder / name)
            known = routing.read_entries(self._socket.send(f"show map {file}"))
            yield from routing.map_commands(file, wanted, known)
        yield from self._acl_commands(routing.TOKENS_ACL, routes.tokens)
        yield from self._acl_commands(routing.LIMITED_ACL, routes.limited)

    def _acl_commands(
        self, name: str, wanted: frozenset[str], *, keeps: bool = False
    ) -> Iterable[str]:
        file = str(self._folder / name)
        present = frozenset(routing.read_entries(self._socket.send(f"show acl {file}")))
        yield from routing.acl_commands(file, wanted | present if keeps else wanted, present)

    def _send(self, commands: Iterable[str]) -> None:
        for command in commands:
            answer = self._socket.send(command)
            if answer and not answer.startswith(("New server registered", "Server deleted")):
                # A server that still answers something is deleted later.
                level = log.debug if command.startswith("del server") else log.info
                level("router_says", command=command.split()[:2], answer=answer)


def _same_lists(a: Routes, b: Routes) -> bool:
    return dataclasses.replace(a, servers=()) == dataclasses.replace(b, servers=())


def _process_id(info: str) -> str:
    return next((line for line in info.splitlines() if line.startswith("Pid:")), "")
