"""The `muster-agent` command: `run` joins this machine to a Muster server, `check` shows what it
offers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import structlog
from pydantic import ValidationError

from muster import __version__
from muster.launch import lifeline, reaping, traces
from muster.launch.known_variables import AGENT_PREFIX, misspelt_lines
from muster_agent.isolation.walls import CannotIsolate, Isolation, choose, in_words
from muster_agent.jobs.folder import make_home
from muster_agent.settings import AgentSettings, variables_of_settings

EXIT_SETTINGS = 2
EXIT_CANNOT_JOIN = 3
EXIT_HOME_IN_USE = 4

LIFELINE_EXIT_S = 10.0
"""Seconds allowed for an orderly end after the lifeline was cut; then the process exits."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    _configure_logging()
    given = {
        k: v for k, v in vars(options).items() if v is not None and k not in ("command", "delete")
    }
    misspelt = misspelt_lines(os.environ, variables_of_settings(), AGENT_PREFIX)
    for line in misspelt:
        _say(line.strip())
    try:
        settings = AgentSettings(**given)
    except ValidationError as error:
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            _say(f"MUSTER_AGENT_{name.upper()}: {problem['msg']}")
        return EXIT_SETTINGS
    if misspelt:
        return EXIT_SETTINGS
    try:
        make_home(settings.home)
    except OSError as error:
        _say(f"MUSTER_AGENT_HOME={settings.home}: {error.strerror}")
        return EXIT_SETTINGS
    if options.command == "check":
        return _check(settings)
    if options.command == "images":
        return _images(settings, deletes=options.delete)
    lock = _lock_home(settings.home)
    if lock is None:
        _say(f"another agent uses {settings.home}; set MUSTER_AGENT_HOME to run a second one")
        return EXIT_HOME_IN_USE
    reaping.adopt()
    traces.start("muster-agent")
    try:
        return asyncio.run(_run(settings))
    except KeyboardInterrupt:
        return 130
    finally:
        os.close(lock)


async def _run(settings: AgentSettings) -> int:
    # httpx goes on without a command line of its own, whose imports take longer than httpx.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from muster_agent.jobs.process import delegate
    from muster_agent.loop import Agent
    from muster_agent.machine import Machine
    from muster_agent.node.joining import CannotJoin

    log = structlog.get_logger("muster.agent")
    try:
        isolation = choose_isolation(settings)
    except CannotIsolate as error:
        _say(str(error))
        return EXIT_SETTINGS
    tell = log.info if isolation.is_on else log.warning
    tell("isolation_of_jobs", level=isolation.level, meaning=in_words(isolation))
    log.info("limits_of_jobs", kept_by="kernel" if delegate() else "shim")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGCHLD, reaping.collect)

    def on_lifeline_cut() -> None:
        threading.Timer(LIFELINE_EXIT_S, os._exit, (1,)).start()
        loop.call_soon_threadsafe(stop.set)

    lifeline.watch(on_lifeline_cut)
    if settings.is_pilot:
        lifeline.begin()  # However this process ends, what it has started ends with it.
    log.info("agent_started", version=__version__, name=settings.name, server=settings.server_url)
    try:
        await Agent(settings, machine=Machine(settings, isolation=isolation)).run(stop)
    except CannotJoin as error:
        _say(str(error))
        return EXIT_CANNOT_JOIN
    keeps = not (settings.stop_allocations or settings.is_pilot)
    log.info("agent_ended", allocations_left_running=keeps)
    return 0


def choose_isolation(settings: AgentSettings) -> Isolation:
    """Return the level at which this node's jobs run. Raises CannotIsolate."""
    from muster_agent.node.inventory import devices_of

    devices = devices_of(settings)
    return choose(settings, gpus=[d.uuid for d in devices] if devices is not None else None)


def isolation_in_words(**given: Any) -> str:
    """Return how jobs of an agent with these settings would run on this machine, as a sentence, or
    why it would not start."""
    try:
        return in_words(choose_isolation(AgentSettings(**given)))
    except (CannotIsolate, ValidationError) as error:
        return str(error)


def _check(settings: AgentSettings) -> int:
    """Print the settings (secrets masked), what this node would offer, and which environment
    variables its jobs would see."""
    from muster import wire
    from muster_agent.containers import engines
    from muster_agent.isolation.variables import passed, withheld
    from muster_agent.node.inventory import take_inventory

    inventory, _ = take_inventory(settings)
    try:
        isolation = choose_isolation(settings)
        level, reason = isolation.level, isolation.reason
    except CannotIsolate as error:
        level, reason = "none", str(error)
    inventory = dataclasses.replace(inventory, isolation=level, isolation_reason=reason)
    inventory = engines.find(settings.containers, os.environ).added_to(inventory)
    shown: dict[str, Any] = {
        "settings": json.loads(settings.model_dump_json()),
        "inventory": json.loads(wire.dump(inventory)),
        "environment": {
            "passed": sorted(passed(os.environ, settings.pass_environment)),
            "withheld": withheld(os.environ, settings.pass_environment),
        },
    }
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    return 0


def _images(settings: AgentSettings, *, deletes: bool) -> int:
    """Print the images that this agent has pulled, the one used last first, as JSON; with `deletes`,
    delete those that exceed the limit before. Return 1 if one could not be deleted."""
    from muster_agent.containers import engines
    from muster_agent.containers.cache import IMAGES_FOLDER, ImageCache

    cache = ImageCache(settings.home / IMAGES_FOLDER, limit_bytes=settings.images_limit_bytes)
    deleted: list[str] = []
    problems: list[str] = []
    if deletes:
        found = engines.find(settings.containers, os.environ)
        if found.engine is None:
            _say(found.reason)
            return 1
        images, problems = cache.trim(found.engine)
        deleted = [image.names[0] for image in images]
    images = cache.entries()
    shown = {
        "limit_bytes": cache.limit_bytes,
        "size_bytes": sum(image.size_bytes for image in images),
        "images": [dataclasses.asdict(image) for image in images],
        "deleted": deleted,
        "problems": problems,
    }
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
    return 1 if problems else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="muster-agent",
        description="Join this machine to a Muster server. Every option can also be set as "
        "MUSTER_AGENT_… in the environment.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("run", "join and run"),
        ("check", "print settings, inventory and what jobs see of the environment, then end"),
        (
            "images",
            "list the container images that this agent has pulled, and which it would delete",
        ),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--server", dest="server_url", help="address of the server")
        command.add_argument("--name", help="name of this node (default: the host's)")
        command.add_argument("--join-token-file", help="file with the join token")
        command.add_argument("--home", help="folder for credential, spool and caches")
        command.add_argument("--pool", help="pool to join")
        command.add_argument("--labels", help="key=value,key=value")
        command.add_argument("--slots", type=int, help="number of slots to offer")
        command.add_argument("--slot-type", choices=("auto", "cpu", "cuda"))
        command.add_argument("--address", help="address other nodes reach this one on")
        command.add_argument("--python", help="default training interpreter")
        command.add_argument("--storage-dir", help="folder for checkpoints")
        command.add_argument(
            "--stop-allocations",
            action="store_true",
            default=None,
            help="stop what runs when this agent is told to end (default: it goes on)",
        )
        command.add_argument(
            "--once",
            action="store_true",
            default=None,
            help="leave the cluster when the first allocation has ended",
        )
        command.add_argument(
            "--idle-exit",
            dest="idle_exit_s",
            metavar="TIME",
            help="leave the cluster after nothing has run for so long: 600, 10m, 1h",
        )
        command.add_argument(
            "--ends-at",
            metavar="UNIX",
            help="time at which this agent is killed at the latest, in seconds since 1970",
        )
        command.add_argument(
            "--provider-ref", help="what the batch system calls this agent: slurm:lab:1234"
        )
        if name == "images":
            command.add_argument(
                "--limit-bytes",
                dest="images_limit_bytes",
                metavar="BYTES",
                help="try another limit than MUSTER_AGENT_IMAGES_LIMIT_BYTES",
            )
            command.add_argument(
                "--delete",
                action="store_true",
                help="delete what exceeds the limit now (default: only say what would be deleted)",
            )
    return parser.parse_args(arguments)


def _lock_home(home: Path) -> int | None:
    fd = os.open(home / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _configure_logging() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer()
            if not sys.stderr.isatty()
            else structlog.dev.ConsoleRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(Words(sys.stderr)),  # type: ignore[arg-type]
    )


class Words:
    """A log stream that ignores write errors: a full disk must not end the process that logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"muster-agent: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
