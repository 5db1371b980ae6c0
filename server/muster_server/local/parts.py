"""The processes of a local Muster: their command lines and environments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muster_server import parts

from .home import Home
from .processes import MARK
from .valkey import find_server_binary

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - only when asked for by naming an address


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of `muster up`."""

    root: Path
    port: int = 8470
    """Port of the API server; 0 takes that of the last start if it is free, else any free one."""
    num_agents: int = 1
    slots_per_agent: int | None = None
    """Number of slots; None lets the agent count its GPUs, else its CPU cores."""
    address: str | None = None
    """Name or IPv4 address at which other machines reach this one; None serves this one alone."""
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Environment of single parts, by their name, over what they would have."""
    shares_code: bool = sys.platform == "linux"
    """Whether the parts are forked from one process that has imported their code."""

    @property
    def listen_on(self) -> str:
        return HOST if self.address is None else EVERYWHERE


@dataclass(frozen=True, kw_only=True)
class RouterPlace:
    """Where the router of deployments runs."""

    binary: Path
    socket: Path
    """Its runtime socket."""
    port: int


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    name: str
    """Name of the part and of its log file."""
    title: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_s: float = 10.0
    """Seconds that it may take to end when asked."""
    descriptors: Sequence[int] = ()
    """Open files it inherits, besides the lifeline."""

    @property
    def module(self) -> Sequence[str]:
        """Name and arguments of the Python module that it is; empty for another program."""
        return self.command[2:] if self.command[:2] == [sys.executable, "-m"] else []


SERVER_IMPORTS = (
    "muster_server.local.prepare",
    "muster_server.db.migrations",
    "muster_server.serve",
    "muster_server.loops.runner",
    "muster_server.tasks.runner",
    "muster_server.telemetry.process",
    # The worker asks for these by name.
    "celery.bin.celery",
    "celery.apps.worker",
    "celery.concurrency.thread",
    "kombu.transport.redis",
)
AGENT_IMPORTS = (
    "muster_agent.cli",
    "muster_agent.loop",
    "muster_agent.machine",
    "muster_agent.node.joining",
)
"""What the parts import before they do anything. None of it reads settings, starts a thread or opens
a file: what is forked from a process that has imported it has its own."""


def shared_imports(options: LocalOptions) -> list[str]:
    optional = (module for part in parts.installed() for module in part.modules)
    return [*SERVER_IMPORTS, *optional, *(AGENT_IMPORTS if options.num_agents else ())]


def url_of(port: int, address: str | None = None) -> str:
    return f"http://{address or HOST}:{port}"


_PASSED_ON = frozenset(
    {
        "MUSTER_AGENT_PASS_ENVIRONMENT",
        "MUSTER_AGENT_ISOLATION",
        "MUSTER_AGENT_UID_BASE",
        "MUSTER_AGENT_JOB_READS",
        "MUSTER_AGENT_JOB_WRITES",
        "MUSTER_AGENT_CONTAINERS",
    }
)
"""Settings of agents that are taken from the environment of `muster up`: what jobs may see and touch
of this machine."""


def base_environment(home: Home, lifeline_fd: int) -> dict[str, str]:
    """Return our environment without MUSTER_… settings that would point the parts elsewhere, plus
    lifeline and mark."""
    elsewhere = (
        "DATABASE_URL", "REDIS_URL", "HOST", "PORT", "PUBLIC_URL", "ALLOWED_HOSTS", "DATA_DIR",
        "ROUTER_DIR", "ROUTER_SOCKET", "ROUTER_HOST", "ROUTER_PORT",
        "URL", "TOKEN", "HOME", "VENV", "LISTEN_FD", "INSTANCE", "SETUP_COMMAND", "SECRETS_KEY",
    )  # fmt: skip
    names = {f"MUSTER_{n}{suffix}" for n in elsewhere for suffix in ("", "_FILE")}
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in names and (not key.startswith("MUSTER_AGENT_") or key in _PASSED_ON)
    }
    return {
        **kept,
        MARK: str(home.root),
        "MUSTER_LIFELINE_FD": str(lifeline_fd),
        "PYTHONUNBUFFERED": "1",
    }


def server_environment(
    home: Home,
    port: int,
    redis_socket: Path,
    options: LocalOptions,
    router: RouterPlace | None = None,
) -> dict[str, str]:
    return {
        "MUSTER_DATABASE_URL": f"sqlite:///{home.database}",
        "MUSTER_REDIS_URL": f"unix://{redis_socket}",
        "MUSTER_HOST": options.listen_on,
        "MUSTER_PORT": str(port),
        "MUSTER_PUBLIC_URL": url_of(port, options.address),
        "MUSTER_LOG_FORMAT": os.environ.get("MUSTER_LOG_FORMAT", "console"),
        **_secrets_key(home),
        **({} if router is None else _router_environment(home, options, router)),
    }


def _router_environment(home: Home, options: LocalOptions, router: RouterPlace) -> dict[str, str]:
    found = {
        "MUSTER_ROUTER_DIR": str(home.router),
        "MUSTER_ROUTER_SOCKET": str(router.socket),
        "MUSTER_ROUTER_HOST": options.listen_on,
        "MUSTER_ROUTER_PORT": str(router.port),
    }
    if options.address is not None and "MUSTER_ROUTER_URL" not in os.environ:
        found["MUSTER_ROUTER_URL"] = url_of(router.port, options.address)
    return found


def _secrets_key(home: Home) -> dict[str, str]:
    """Return the setting of the key of secrets: that of our own environment, else the home's file.
    Agents do not get it."""
    names = ("MUSTER_SECRETS_KEY_FILE", "MUSTER_SECRETS_KEY")
    given = {name: os.environ[name] for name in names if os.environ.get(name)}
    return given or {names[0]: str(home.secrets_key)}


def valkey_part(home: Home, socket: Path, lifeline_fd: int) -> ProcessSpec:
    """Return the part that holds hints and the job queue. It writes nothing to the disk: what is lost
    with it, the worker's next sweep finds again, and on a full disk it would refuse every job."""
    guard = Path(__file__).with_name("guard.py")
    return ProcessSpec(
        name="valkey",
        title="Valkey",
        command=[
            sys.executable, "-I", "-S", str(guard), str(os.getpid()), str(lifeline_fd),
            str(find_server_binary()),
            "--port", "0",
            "--unixsocket", str(socket),
            "--unixsocketperm", "700",
            "--dir", str(home.valkey),
            "--appendonly", "no",
            "--save", "",
            "--maxmemory", "256mb",
            "--maxmemory-policy", "noeviction",
            "--daemonize", "no",
            "--set-proc-title", "no",  # it would write over its environment, and our mark in it
        ],
    )  # fmt: skip


def find_router_binary() -> Path | None:
    """Return the program HAProxy; None if it is not installed."""
    # Distributions put it where only administrators look.
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def router_part(home: Home, router: RouterPlace, lifeline_fd: int) -> ProcessSpec:
    """Return the part that sends requests to the replicas of deployments. Its configuration is there as
    soon as the controller knows a deployment."""
    guard = Path(__file__).with_name("guard.py")
    return ProcessSpec(
        name="router",
        title="Router",
        command=[
            sys.executable, "-I", "-S", str(guard), str(os.getpid()), str(lifeline_fd),
            str(router.binary), "-db", "-f", str(router_config(home)),
        ],
    )  # fmt: skip


def router_config(home: Home) -> Path:
    return home.router / "haproxy.cfg"


def prepare_part(environment: Mapping[str, str]) -> ProcessSpec:
    """Return the process that runs before the others, see prepare.py."""
    return ProcessSpec(
        name="prepare",
        title="The preparation of the database",
        command=[sys.executable, "-m", "muster_server.local.prepare"],
        environment=environment,
    )


def server_parts(
    environment: Mapping[str, str], listen_fd: int, instance: str
) -> list[ProcessSpec]:
    """Return the parts of the server.

    listen_fd: the socket the API server answers on.
    instance: name that distinguishes it from others."""
    command = [sys.executable, "-m", "muster_server.cli"]
    return [
        ProcessSpec(
            name="server",
            title="API server",
            command=[*command, "serve"],
            environment={
                **environment,
                "MUSTER_LISTEN_FD": str(listen_fd),
                "MUSTER_INSTANCE": instance,
            },
            descriptors=(listen_fd,),
            stop_s=15.0,  # it lets requests that run finish, for up to ten seconds
        ),
        ProcessSpec(
            name="controller",
            title="Controller",
            command=[*command, "controller"],
            environment=environment,
        ),
        ProcessSpec(
            name="worker",
            title="Celery worker",
            command=[*command, "worker"],
            environment=environment,
        ),
    ]


def agent_names(options: LocalOptions) -> list[str]:
    """Return the names of the nodes that run on this machine."""
    return [f"local-{number}" for number in range(1, options.num_agents + 1)]


def agent_parts(home: Home, port: int, options: LocalOptions) -> list[ProcessSpec]:
    parts = []
    for name in agent_names(options):
        environment = {
            "MUSTER_AGENT_SERVER_URL": url_of(port),
            "MUSTER_AGENT_JOIN_TOKEN_FILE": str(home.join_token),
            "MUSTER_AGENT_NAME": name,
            "MUSTER_AGENT_HOME": str(home.agent(name)),
            "MUSTER_AGENT_STORAGE_DIR": str(home.storage),
            # Workers of a gang meet here: other machines must find it too when they may join.
            "MUSTER_AGENT_ADDRESS": options.address or HOST,
        }
        if options.slots_per_agent is not None:
            environment["MUSTER_AGENT_SLOTS"] = str(options.slots_per_agent)
        parts.append(
            ProcessSpec(
                name=f"agent-{name}",
                title=f"Agent {name}",
                command=[sys.executable, "-m", "muster_agent.cli", "run"],
                environment=environment,
            )
        )
    return parts
