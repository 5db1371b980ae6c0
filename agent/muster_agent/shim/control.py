"""The agent's commands to a shim: one JSON object per line over a private unix socket.

{"command": "start", "rendezvous": {...} | null, "addresses": {...}, "deadline_boot_s": 1234.5}
· {"command": "renew", "deadline_boot_s": 1234.5}
· {"command": "stop", "reason": "...", "kind": "preempt", "grace_s": 1.0 | null}
· {"command": "kill", "reason": "..."} (both with "by_node": true if the server did not request it, and
kill with "told_at_ms" if the node was told to end)
· {"command": "stacks", "no": 2} · {"command": "profile", "order": {...}}
· {"command": "shards", "orders": {...}} · {"command": "registered", "done": {...}}
· {"command": "status"}
· {"command": "secrets"}, whose answer has the values by name in "secrets" · {"command": "session"},
whose answer has in "session" the environment and folder of a command inside the job, or null.
Each is answered with {"ok": true, "observed": ...} or {"error": ...}. All are idempotent; a kill
overrides a stop, nothing overrides a kill.

A command is taken only from the agent's own user, and only with the token that lies beside the
socket in a file of mode 0600: whoever runs as another user, or in a sandbox without this folder,
can neither read the token nor connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from muster import wire
from muster_agent.clock import unix_ms
from muster_agent.isolation.peers import peer_of

MAX_COMMAND_BYTES = 1024 * 1024
"""Most bytes of a command; one with the shards of all workers of a node is the longest."""
MAX_ANSWER_BYTES = 8 * 2**20
"""Most bytes of an answer; one with all secrets of a job is the longest."""


class Commands:
    """Commands received so far. `changed` is set at every command."""

    def __init__(self, *, deadline_boot_s: float | None) -> None:
        self.changed = asyncio.Event()
        self.is_started = False
        self.rendezvous: wire.Rendezvous | None = None
        self.addresses: dict[str, str] = {}
        """wire.Assignment.addresses."""
        self.stop: str | None = None
        """Reason of the stop request."""
        self.stop_kind = ""
        """Kind of the stop request for programs, one of wire.STOP_KINDS."""
        self.stop_grace_s: float | None = None
        """Grace period in seconds; None means the spec's."""
        self.kill: str | None = None
        self.stacks_no = 0
        """Latest wire.Assignment.stacks_no received."""
        self.profile: wire.ProfileOrder | None = None
        """Latest wire.Assignment.profile received."""
        self.shards: wire.ShardOrders | None = None
        """Latest wire.Assignment.shards received."""
        self.asked_at_ms = 0
        """Unix time of the first stop or kill, or of the signal that announced it."""
        self.is_by_node = False
        """Whether the first of them came from this node itself and not from the server."""
        self.told_at_ms = 0
        """Unix time at which whoever runs the node told its agent to end; 0 if that is not why it came."""
        self.deadline_boot_s = deadline_boot_s
        self.take_registration: Callable[[wire.ModelRegistration], None] = lambda done: None
        """Takes what the server has made of a model that the script registers."""

    @property
    def asked(self) -> set[str]:
        asked = {
            "start": self.is_started,
            "stop": self.stop is not None,
            "kill": self.kill is not None,
        }
        return {name for name, is_asked in asked.items() if is_asked}

    @property
    def profile_no(self) -> int:
        """Return the number of the latest profiler window; 0 if there was no request."""
        return 0 if self.profile is None else self.profile.no

    @property
    def shards_no(self) -> int:
        """Return the number of the latest orders of batch inference; 0 if there were none."""
        return 0 if self.shards is None else self.shards.no

    def must_end(self) -> bool:
        return self.stop is not None or self.kill is not None

    @property
    def reason(self) -> str:
        return self.kill if self.kill is not None else (self.stop or "")

    def apply(self, message: dict[str, Any]) -> None:
        """Take over a command. Raises ValueError if it is not valid."""
        match message.get("command"):
            case "start":
                if not self.is_started:
                    rendezvous = message.get("rendezvous")
                    if rendezvous is not None:
                        self.rendezvous = wire.load(wire.Rendezvous, rendezvous)
                    self.addresses = dict(message.get("addresses") or {})
                    if "deadline_boot_s" in message:
                        self.deadline_boot_s = float(message["deadline_boot_s"])
                    self.is_started = True
            case "stop":
                grace_s = message.get("grace_s")
                self.ask_stop(
                    str(message.get("reason", "")),
                    kind=str(message.get("kind", "")),
                    by_node=bool(message.get("by_node")),
                    grace_s=None if grace_s is None else float(grace_s),
                )
            case "kill":
                self.ask_kill(
                    str(message.get("reason", "")),
                    by_node=bool(message.get("by_node")),
                    told_at_ms=int(message.get("told_at_ms", 0)),
                )
            case "stacks":
                self.stacks_no = max(self.stacks_no, int(message["no"]))
            case "profile":
                order = wire.load(wire.ProfileOrder, message["order"])
                if order.no > self.profile_no:
                    self.profile = order
            case "shards":
                orders = wire.load(wire.ShardOrders, message["orders"])
                if orders.no > self.shards_no:
                    self.shards = orders
            case "renew":
                deadline = float(message["deadline_boot_s"])
                if not self.is_started and self.deadline_boot_s is not None:
                    # It may have waited here while the machine stood still, and nothing trains yet.
                    deadline = max(deadline, self.deadline_boot_s)
                self.deadline_boot_s = deadline
            case "registered":
                self.take_registration(wire.load(wire.ModelRegistration, message["done"]))
                return
            case "status" | "secrets" | "session":
                return
            case other:
                raise ValueError(f"unknown command {other!r}")
        self.changed.set()

    def ask_stop(
        self,
        reason: str,
        *,
        kind: str = "",
        by_node: bool = False,
        grace_s: float | None = None,
    ) -> None:
        self._note_first(by_node)
        if self.stop is None:
            self.stop, self.stop_grace_s = reason, grace_s
            self.stop_kind = kind or ("node" if by_node else "")
        self.changed.set()

    def ask_kill(self, reason: str, *, by_node: bool = False, told_at_ms: int = 0) -> None:
        if not self.must_end():
            self.told_at_ms = told_at_ms
        self._note_first(by_node)
        if self.kill is None:
            self.kill = reason
        self.changed.set()

    def announce(self) -> None:
        """Note that a stop is about to come."""
        self.asked_at_ms = self.asked_at_ms or unix_ms()
        self.changed.set()

    def _note_first(self, by_node: bool) -> None:
        if not self.must_end():
            self.asked_at_ms = self.asked_at_ms or unix_ms()
            self.is_by_node = by_node


async def serve_commands(
    path: Path,
    commands: Commands,
    *,
    status: Callable[[], dict[str, Any]],
    job_secrets: Mapping[str, str] = MappingProxyType({}),
    session: Callable[[], dict[str, Any] | None] = lambda: None,
) -> asyncio.Server:
    """Listen on `path`, whose folder gets the token. `status` is called for each answer, after the
    command was applied.

    job_secrets: values that an agent asks for that was started after the shim, in order to mask
        them.
    session: returns what a command inside the job needs; None while the job does not run.
    """
    token = _write_token(path)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError, ValueError):
            peer = peer_of(writer)
            while line := await reader.readline():
                try:
                    message = json.loads(line)
                    if not isinstance(message, dict):
                        raise ValueError("a command must be a JSON object")
                    if peer is not None and peer.uid != os.getuid():
                        raise ValueError("commands are taken only from the user of the agent")
                    if not hmac.compare_digest(str(message.pop("token", "")).encode(), token):
                        raise ValueError("the command does not carry the token of this shim")
                    commands.apply(message)
                    answer: dict[str, Any] = {"ok": True, **status()}
                    if message["command"] == "secrets":
                        answer["secrets"] = dict(job_secrets)
                    elif message["command"] == "session":
                        answer["session"] = session()
                except (ValueError, KeyError, TypeError) as error:
                    answer = {"error": str(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(handle, path=str(path), limit=MAX_COMMAND_BYTES)
    await asyncio.to_thread(path.chmod, 0o600)
    return server


def _token_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.token")


def _write_token(path: Path) -> bytes:
    token = secrets.token_hex(32)
    fd = os.open(_token_file(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(token)
    return token.encode()


def _read_token(path: Path) -> str:
    """Return the token; "" where there is none: a shim that an older agent started asks for none."""
    try:
        return _token_file(path).read_text()
    except FileNotFoundError:
        return ""


class ShimUnreachable(Exception):
    """The shim did not answer. It may be dead, stopped, or about to end."""


async def send_command(socket: str, message: dict[str, Any], *, timeout_s: float = 5.0) -> Any:
    """Send one command and return its answer; the agent's side. Raises ShimUnreachable."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_ANSWER_BYTES)
            try:
                signed = {**message, "token": _read_token(Path(socket))}
                writer.write(json.dumps(signed).encode() + b"\n")
                await writer.drain()
                line = await reader.readline()
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        answer = json.loads(line)
    except (OSError, TimeoutError, ValueError) as error:
        raise ShimUnreachable(f"{type(error).__name__}: {error}") from error
    if "error" in answer:
        raise ShimUnreachable(str(answer["error"]))
    return answer
