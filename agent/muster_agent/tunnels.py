"""Tunnels into running jobs: commands and shells inside a job, and connections to its ports.

A command gets the environment and the folder of its job, and the job's marks: it ends with the job,
at the latest. A port is connected only if a process of the job listens on it; otherwise a tunnel
would reach everything on this machine's loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import structlog
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from muster.wire import (
    TAKE_TERMINAL,
    TUNNEL_KEEPALIVE_S,
    TUNNEL_MESSAGE_BYTES,
    WRONG_SERVER,
    Tunnel,
    TunnelChannel,
)
from muster_agent.client import ControlPlane
from muster_agent.isolation.levels import Walls
from muster_agent.isolation.walls import Isolation, Program, confined, outer_environment
from muster_agent.jobs.process import SESSION_VARIABLE, Cgroup, Identity, identify, send_signal
from muster_agent.shim.control import ShimUnreachable

log = structlog.get_logger("muster.agent")

DIAL_S = 15.0
"""Seconds for which the API server is looked for that has the user's socket."""
DIAL_PAUSE_S = 0.05
HANGUP_S = 2.0
"""Seconds between SIGHUP and SIGKILL for a command whose user has left."""
LAST_WORDS_S = 1.0
"""Seconds that processes may keep the output of a command open after it has ended."""
READ_BYTES = TUNNEL_MESSAGE_BYTES // 2
REMEMBERED_MAX = 1000
"""Number of ids of tunnels that are remembered, so that none is opened twice."""


class CannotOpen(Exception):
    """A tunnel cannot be opened; the message is one sentence for its user."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What of a running job a tunnel needs."""

    environment: Mapping[str, str] = field(repr=False)
    """Environment of a command inside the job, with its secrets and its marks."""
    folder: str
    cgroup: str
    """Folder of its cgroup; "" if it has none."""
    members: Callable[[], Iterable[Identity]] = field(repr=False)
    isolation: Isolation = field(default_factory=Isolation)
    """Walls around the job."""
    beside: int | None = None
    """Process of the job beside which a command runs, behind the same walls; None without walls."""
    tmp: str = ""
    """Folder that stands at /tmp in the job; "" without a container."""


class TunnelOpener:
    """The tunnels of one session. `want` accepts the complete set any number of times."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        job_of: Callable[[str], Awaitable[Job]],
        is_on: bool,
    ) -> None:
        """Create the set.

        job_of: returns the job of an allocation id. Raises CannotOpen and ShimUnreachable.
        is_on: False answers every request with the setting that turns tunnels off.
        """
        self._plane = plane
        self._job_of = job_of
        self._is_on = is_on
        self._known: dict[str, None] = {}
        self._new: asyncio.Queue[Tunnel] = asyncio.Queue()

    def want(self, tunnels: Sequence[Tunnel]) -> None:
        for tunnel in tunnels:
            if tunnel.id not in self._known:
                self._known[tunnel.id] = None
                self._new.put_nowait(tunnel)
        while len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]

    async def run(self) -> None:
        """Open tunnels until the session ends, which ends them too."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._open(await self._new.get()))

    async def _open(self, tunnel: Tunnel) -> None:
        try:
            connection = await self._dial(tunnel)
        except (OSError, TimeoutError, WebSocketException) as error:
            log.warning("tunnel_not_dialled", id=tunnel.id, error=str(error))
            return
        if connection is None:
            return  # Its user has left.
        try:
            async with connection:
                end = await self._serve(tunnel, connection)
                await connection.send(_message(TunnelChannel.END, json.dumps(end).encode()))
        except ConnectionClosed:
            pass
        except Exception:
            log.exception("tunnel_failed", id=tunnel.id)

    async def _dial(self, tunnel: Tunnel) -> ClientConnection | None:
        """Return the connection to the API server that has the user's socket; None if no server
        has it any more."""
        deadline = time.monotonic() + DIAL_S
        while time.monotonic() < deadline:
            connection = await self._plane.dial_tunnel(tunnel.id)
            try:
                await connection.recv()  # Said once the user's socket is found.
            except ConnectionClosed as closed:
                if closed.rcvd is None or closed.rcvd.code != WRONG_SERVER:
                    return None
                await asyncio.sleep(DIAL_PAUSE_S)
                continue
            return connection
        return None

    async def _serve(self, tunnel: Tunnel, connection: ClientConnection) -> dict[str, object]:
        """Serve one tunnel; return its last message."""
        try:
            if not self._is_on:
                raise CannotOpen(
                    "This node opens no tunnels into jobs (MUSTER_AGENT_TUNNELS is false)."
                )
            job = await self._job_of(tunnel.allocation_id)
            log.info("tunnel_opened", id=tunnel.id, kind=tunnel.kind, port=tunnel.port)
            if tunnel.kind == "port":
                await _serve_port(tunnel.port, job, connection)
                return {"exit_code": None, "message": ""}
            return await _Command(tunnel, job, connection).run()
        except CannotOpen as error:
            return {"exit_code": None, "message": str(error)}
        except ShimUnreachable as error:
            return {"exit_code": None, "message": f"The job cannot be entered: {error}."}


def _message(channel: TunnelChannel, data: bytes) -> bytes:
    return bytes((channel,)) + data


# ---------------------------------------------------------------- commands


class _Command:
    """One command inside a job, with pipes or a terminal."""

    def __init__(self, tunnel: Tunnel, job: Job, connection: ClientConnection) -> None:
        self._tunnel = tunnel
        self._job = job
        self._connection = connection
        self._has_terminal = tunnel.has_terminal or tunnel.kind == "shell"
        self._stdin = -1
        self._outputs: dict[int, TunnelChannel] = {}
        self._theirs: list[int] = []

    async def run(self) -> dict[str, object]:
        """Run it until it ends, its user leaves, or its job ends. Raises CannotOpen."""
        argv = self._argv()
        stdin, stdout, stderr = self._open_streams()
        environment = {**self._job.environment, SESSION_VARIABLE: self._tunnel.id}
        if self._has_terminal:
            environment.setdefault("TERM", "xterm-256color")
        taking = [sys.executable, "-I", "-S", "-c", TAKE_TERMINAL] if self._has_terminal else []
        # The engine of a container passes a terminal on, which its client has to take.
        is_contained = self._job.isolation.container is not None
        try:
            with self._inside(argv if is_contained else [*taking, *argv], environment) as started:
                process = await asyncio.create_subprocess_exec(
                    *(taking if is_contained else ()),
                    *started.argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    env=started.environment,
                    cwd=started.folder,
                    start_new_session=True,
                    pass_fds=started.fds,
                )
        except OSError as error:
            self._close()
            raise CannotOpen(f"{argv[0]} cannot be started: {error.strerror or error}.") from None
        finally:
            for fd in self._theirs:
                os.close(fd)
        if self._job.cgroup:
            with contextlib.suppress(OSError):
                (Path(self._job.cgroup) / "cgroup.procs").write_text(str(process.pid))
        try:
            await self._serve(process)
        finally:
            await _end(process)
            if is_contained:
                await asyncio.to_thread(self._end_inside)
            self._close()
        code = process.returncode
        assert code is not None, "it has ended"
        return {"exit_code": code if code >= 0 else 128 - code, "message": ""}

    def _end_inside(self) -> None:
        """End what the command has left in its container, where its client's session does not
        reach."""
        for identity in self._job.members():
            with contextlib.suppress(psutil.Error, OSError):
                environment = psutil.Process(identity.pid).environ()
                if environment.get(SESSION_VARIABLE) == self._tunnel.id:
                    send_signal(identity, signal.SIGKILL)

    @contextlib.contextmanager
    def _inside(self, argv: list[str], environment: Mapping[str, str]) -> Iterator[Program]:
        """Yield how to start the command behind the walls of the job."""
        job = self._job
        if job.beside is None:
            yield Program(argv=argv, environment=dict(environment), folder=job.folder)
            return
        process = {"argv": argv, "environment": environment, "folder": job.folder}
        container = job.isolation.container
        around = Walls(
            level=job.isolation.level,
            uid=job.isolation.uid,
            tmp=job.tmp,
            container=container,
            own_uid=os.getuid(),
            user_namespaces=job.isolation.user_namespaces,
        )
        with confined(around, [process], beside=job.beside, has_terminal=self._has_terminal) as (
            command,
            fds,
        ):
            yield Program(
                argv=command, environment=outer_environment(container), folder="/", fds=fds
            )

    def _argv(self) -> list[str]:
        if self._tunnel.kind == "exec":
            program, *rest = self._tunnel.argv
            if self._job.isolation.container is not None:
                return [program, *rest]  # Whether the image has it, the engine says.
            found = shutil.which(program, path=self._job.environment.get("PATH"))
            if found is None and "/" not in program:
                raise CannotOpen(f"{program} is not on the job's PATH.")
            return [found or program, *rest]
        if self._job.isolation.container is not None:
            return ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -i; exec sh -i"]
        shell = os.environ.get("SHELL") or "/bin/sh"
        return [shell if os.access(shell, os.X_OK) else "/bin/sh", "-i"]

    def _open_streams(self) -> tuple[int, int, int]:
        """Return the ends of stdin, stdout and stderr for the command; ours are kept."""
        if self._has_terminal:
            ours, theirs = pty.openpty()
            self._stdin, self._outputs = ours, {ours: TunnelChannel.STDOUT}
            self._theirs = [theirs]
            self._resize(self._tunnel.rows, self._tunnel.columns)
            os.set_blocking(ours, False)
            return theirs, theirs, theirs
        stdin, self._stdin = os.pipe()
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        self._outputs = {out: TunnelChannel.STDOUT, err: TunnelChannel.STDERR}
        self._theirs = [stdin, stdout, stderr]
        for fd in (self._stdin, out, err):
            os.set_blocking(fd, False)
        return stdin, stdout, stderr

    async def _serve(self, process: asyncio.subprocess.Process) -> None:
        reading = asyncio.create_task(self._read_user())
        alive = asyncio.create_task(_keep_alive(self._connection))
        sending = [
            asyncio.create_task(self._send(fd, channel)) for fd, channel in self._outputs.items()
        ]
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await asyncio.wait(sending, timeout=LAST_WORDS_S)
        finally:
            for task in (reading, alive, ended, *sending):
                task.cancel()
            await asyncio.gather(reading, alive, ended, *sending, return_exceptions=True)

    async def _send(self, fd: int, channel: TunnelChannel) -> None:
        while data := await _read(fd):
            await self._connection.send(_message(channel, data))

    async def _read_user(self) -> None:
        """Pass on what the user sends, until they leave."""
        with contextlib.suppress(ConnectionClosed):
            async for message in self._connection:
                if not isinstance(message, bytes) or not message:
                    continue
                channel, data = message[0], message[1:]
                if channel == TunnelChannel.STDIN and self._stdin >= 0:
                    with contextlib.suppress(OSError):  # It has closed its stdin, or has ended.
                        await _write(self._stdin, data)
                elif channel == TunnelChannel.RESIZE and self._has_terminal:
                    with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
                        size = json.loads(data)
                        self._resize(int(size["rows"]), int(size["columns"]))
                elif channel == TunnelChannel.CLOSE and not self._has_terminal:
                    self._close_stdin()

    def _resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", min(rows, 1000), min(columns, 1000), 0, 0)
        fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, size)

    def _close_stdin(self) -> None:
        if self._stdin >= 0 and not self._has_terminal:
            os.close(self._stdin)
            self._stdin = -1

    def _close(self) -> None:
        self._close_stdin()
        for fd in self._outputs:
            os.close(fd)
        self._outputs = {}


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what the command has left in its session."""
    for number in (signal.SIGHUP, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HANGUP_S):
                await process.wait()
        if process.returncode is not None:
            return


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], object]) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)


async def _read(fd: int) -> bytes:
    """Return what there is to read; b"" at the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            await _ready(fd, loop.add_reader, loop.remove_reader)
        except OSError as error:
            if error.errno == errno.EIO:
                return b""  # A terminal says so that nobody has its other end open any more.
            raise


async def _write(fd: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            await _ready(fd, loop.add_writer, loop.remove_writer)


async def _keep_alive(connection: ClientConnection) -> None:
    # Data, because proxies answer ping frames themselves and close the rest of the way.
    while True:
        await asyncio.sleep(TUNNEL_KEEPALIVE_S)
        await connection.send(_message(TunnelChannel.STDOUT, b""))


# ---------------------------------------------------------------- ports


async def _serve_port(port: int, job: Job, connection: ClientConnection) -> None:
    """Connect the user with a port of the job until either side ends. Raises CannotOpen."""
    host = await asyncio.to_thread(_listener, port, job)
    if host is None:
        raise CannotOpen(
            f"No process of the job listens on port {port} of this node (of 127.0.0.1, ::1 or all "
            "addresses)."
        )
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        raise CannotOpen(f"Port {port} does not answer: {error.strerror or error}.") from None

    async def from_job() -> None:
        while data := await reader.read(READ_BYTES):
            await connection.send(_message(TunnelChannel.STDOUT, data))
        await connection.send(_message(TunnelChannel.CLOSE, bytes((TunnelChannel.STDOUT,))))

    async def from_user() -> None:
        async for message in connection:
            if not isinstance(message, bytes) or not message:
                continue
            if message[0] == TunnelChannel.STDIN:
                writer.write(message[1:])
                await writer.drain()
            elif message[0] == TunnelChannel.CLOSE and writer.can_write_eof():
                writer.write_eof()

    passing = asyncio.create_task(from_job())
    listening = asyncio.create_task(from_user())
    alive = asyncio.create_task(_keep_alive(connection))
    try:
        # The job's end of the connection decides: a user may end theirs and still read.
        await asyncio.wait({passing, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (passing, listening, alive):
            task.cancel()
        await asyncio.gather(passing, listening, alive, return_exceptions=True)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _listener(port: int, job: Job) -> str | None:
    """Return the loopback address at which a process of the job listens on `port`; None if none
    does."""
    for identity in job.members():
        try:
            connections = psutil.Process(identity.pid).net_connections(kind="tcp")
        except (psutil.Error, OSError):
            continue
        for found in connections:
            if found.status != psutil.CONN_LISTEN or not found.laddr or found.laddr.port != port:
                continue
            if found.laddr.ip in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 (compared, not bound)
                return "127.0.0.1"
            if found.laddr.ip in ("::1", "::"):
                return "::1" if found.family == socket.AF_INET6 else None
    return None


def job_members(cgroup: str, tagged: Callable[[], set[Identity]]) -> Callable[[], set[Identity]]:
    """Return what lists the processes of a job: those with its marks, and those of its cgroup."""

    def members() -> set[Identity]:
        found = tagged()
        if cgroup:
            found |= {i for pid in Cgroup(Path(cgroup)).pids() if (i := identify(pid)) is not None}
        return found

    return members
