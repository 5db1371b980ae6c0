"""The connection to a running job: opened, talked over, forwarded to a port of this machine.

Not imported by `muster` before a command needs it: asyncio and the messages take as long as all
commands together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from muster.wire import TUNNEL_MESSAGE_BYTES, TunnelChannel

from .absent import server
from .exit_codes import EXIT_ERROR, EXIT_UNREACHABLE
from .output import CommandFailure, say
from .trials import TrialReference, find_trial

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from muster.client.target import Target

READ_BYTES = TUNNEL_MESSAGE_BYTES // 2
OPEN_TIMEOUT_S = 30.0
PROBLEM_WAIT_S = 0.5
"""Seconds in which a node says that nothing listens on a port."""


# ---------------------------------------------------------------- opening


def _find(trial: TrialReference) -> tuple[Target, int]:
    return server().target, int(find_trial(trial)["id"])


@contextlib.asynccontextmanager
async def _opened(
    target: Target, trial_id: int, request: dict[str, Any]
) -> AsyncIterator[ClientConnection]:
    """Yield the connection to the job. Raises CommandFailure."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

    scheme, _, rest = target.url.partition("://")
    is_secure = scheme == "https"
    try:
        connection = await connect(
            f"{'wss' if is_secure else 'ws'}://{rest}/api/v1/trials/{trial_id}/tunnels",
            additional_headers={"Authorization": f"Bearer {target.token}"},
            ssl=ssl.create_default_context() if is_secure else None,
            proxy=None if target.is_loopback else True,
            compression=None,
            max_size=TUNNEL_MESSAGE_BYTES,
            max_queue=16,
            open_timeout=10.0,
            close_timeout=5.0,
        )
    except InvalidStatus as error:
        _refuse(error.response.body)
    except (OSError, TimeoutError, WebSocketException) as error:
        raise CommandFailure(
            f"{target.url} does not answer: {error}.", exit_code=EXIT_UNREACHABLE
        ) from None
    async with connection:
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await connection.send(json.dumps(request))
                answer = json.loads(await connection.recv())
        except (ConnectionClosed, TimeoutError) as error:
            raise CommandFailure(
                f"{target.url} gave no answer: {error}.", exit_code=EXIT_UNREACHABLE
            ) from None
        if "error" in answer:
            said = answer["error"]
            raise CommandFailure(said["message"], said.get("hint"), code=said["code"])
        yield connection


def _refuse(body: bytes | bytearray | None) -> NoReturn:
    try:
        said = json.loads(body or b"")["error"]
    except (ValueError, KeyError, TypeError):
        raise CommandFailure("The server refused the connection.") from None
    raise CommandFailure(said["message"], said.get("hint"), code=said["code"])


# ---------------------------------------------------------------- commands


def run(trial: TrialReference, request: dict[str, Any], *, has_terminal: bool) -> None:
    target, trial_id = _find(trial)
    if has_terminal:
        size = shutil.get_terminal_size()
        request |= {"rows": size.lines, "columns": size.columns}
    with _raw_terminal(has_terminal):
        end = asyncio.run(_talk(target, trial_id, request, has_terminal=has_terminal))
    if end is None:
        raise CommandFailure(
            "The connection ended before the command did.",
            "the command has ended, too; `muster show` says whether the job still runs",
            exit_code=EXIT_UNREACHABLE,
        )
    if end["message"]:
        raise CommandFailure(str(end["message"]), exit_code=EXIT_ERROR)
    if end["exit_code"]:
        raise typer.Exit(int(end["exit_code"]))


def ask(trial: TrialReference, argv: list[str]) -> tuple[int, bytes]:
    """Run a command that reads no input inside a job; return its exit code and its output. Raises
    CommandFailure."""
    target, trial_id = _find(trial)

    async def talk() -> tuple[int, bytes]:
        output = b""
        async with _opened(target, trial_id, {"kind": "exec", "argv": argv}) as connection:
            async for message in connection:
                if isinstance(message, bytes) and message[:1] == bytes((TunnelChannel.STDOUT,)):
                    output += message[1:]
                elif isinstance(message, bytes) and message[:1] == bytes((TunnelChannel.END,)):
                    end = json.loads(message[1:])
                    if end["message"]:
                        raise CommandFailure(str(end["message"]))
                    return int(end["exit_code"]), output
        raise CommandFailure("The connection ended early.", exit_code=EXIT_UNREACHABLE)

    return asyncio.run(talk())


@contextlib.contextmanager
def _raw_terminal(is_wanted: bool) -> Iterator[None]:
    """Pass every key on as it is: Ctrl-C ends what runs in the job, not this command."""
    if not is_wanted or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # What was typed early is kept.
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def _talk(
    target: Target, trial_id: int, request: dict[str, Any], *, has_terminal: bool
) -> dict[str, Any] | None:
    """Pass on input and output; return the agent's last message, None if none came."""
    async with _opened(target, trial_id, request) as connection:
        tasks = {asyncio.create_task(_send_input(connection))}
        if has_terminal:
            tasks.add(asyncio.create_task(_send_sizes(connection)))
        try:
            return await _print_output(connection)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _print_output(connection: ClientConnection) -> dict[str, Any] | None:
    from websockets.exceptions import ConnectionClosed

    outputs = {TunnelChannel.STDOUT: sys.stdout.buffer, TunnelChannel.STDERR: sys.stderr.buffer}
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            if not isinstance(message, bytes) or not message:
                continue
            channel, data = message[0], message[1:]
            if channel == TunnelChannel.END:
                end: dict[str, Any] = json.loads(data)
                return end
            if channel in (TunnelChannel.STDOUT, TunnelChannel.STDERR):
                output = outputs[TunnelChannel(channel)]
                output.write(data)
                output.flush()
    return None


async def _send_input(connection: ClientConnection) -> None:
    while data := await _read_stdin():
        await connection.send(bytes((TunnelChannel.STDIN,)) + data)
    await connection.send(bytes((TunnelChannel.CLOSE, TunnelChannel.STDIN)))


async def _read_stdin() -> bytes:
    fd = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except OSError:  # A file, which is always ready.
        return os.read(fd, READ_BYTES)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
    return os.read(fd, READ_BYTES)


async def _send_sizes(connection: ClientConnection) -> None:
    changed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
    while True:
        await changed.wait()
        changed.clear()
        size = shutil.get_terminal_size()
        text = json.dumps({"rows": size.lines, "columns": size.columns})
        await connection.send(bytes((TunnelChannel.RESIZE,)) + text.encode())


# ---------------------------------------------------------------- ports


def forward(
    trial: TrialReference,
    request: dict[str, Any],
    local: int,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Forward a port of this machine until Ctrl-C. Raises CommandFailure.

    ready: called with the port once it listens; by default, a line says so.
    """
    target, trial_id = _find(trial)
    if ready is None:

        def ready(number: int) -> None:
            say(f"http://127.0.0.1:{number} is port {request['port']} of the job. Ctrl-C ends it.")

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_forward(target, trial_id, request, local, ready))


def pass_stdio(trial: TrialReference, port: int) -> None:
    """Connect standard input and output with a port of a job until either ends. Raises CommandFailure."""
    target, trial_id = _find(trial)

    async def talk() -> str:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        # Copies, because asyncio closes what it is given.
        stdin, stdout = (os.fdopen(os.dup(fd), "wb" if fd else "rb", 0) for fd in (0, 1))
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, stdout
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        async with _opened(target, trial_id, {"kind": "port", "port": port}) as connection:
            return await _pass(connection, reader, writer)

    if problem := asyncio.run(talk()):
        raise CommandFailure(problem)


async def _forward(
    target: Target,
    trial_id: int,
    request: dict[str, Any],
    local: int,
    ready: Callable[[int], None],
) -> None:
    """Listen on this machine until cancelled. Raises CommandFailure."""
    # One connection first: it says at once what is wrong, and is audited.
    async with _opened(target, trial_id, request) as connection:
        first = asyncio.create_task(_first_problem(connection))
        await asyncio.wait({first}, timeout=PROBLEM_WAIT_S)
        if first.done() and first.result():
            raise CommandFailure(first.result())
        first.cancel()
    again = {**request, "is_repeated": True}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with _opened(target, trial_id, again) as connection:
                problem = await _pass(connection, reader, writer)
        except CommandFailure as error:
            problem = error.message
        finally:
            writer.close()
        if problem:
            say(problem)

    try:
        server = await asyncio.start_server(connected, "127.0.0.1", local)
    except OSError as error:
        raise CommandFailure(
            f"Port {local} of this machine cannot be used: {error.strerror or error}.",
            "choose another one with --local PORT, or --local 0",
        ) from None
    async with server:
        ready(server.sockets[0].getsockname()[1])
        await server.serve_forever()


async def _first_problem(connection: ClientConnection) -> str:
    """Return what the node says against a connection; waits for as long as it says nothing."""
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            if isinstance(message, bytes) and message[:1] == bytes((TunnelChannel.END,)):
                return str(json.loads(message[1:])["message"])
    return ""


async def _pass(
    connection: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str:
    """Connect both until either has ended; return what the node says against it, or ""."""
    from websockets.exceptions import ConnectionClosed

    async def to_job() -> None:
        while data := await reader.read(READ_BYTES):
            await connection.send(bytes((TunnelChannel.STDIN,)) + data)
        await connection.send(bytes((TunnelChannel.CLOSE, TunnelChannel.STDIN)))

    sending = asyncio.create_task(to_job())
    try:
        with contextlib.suppress(ConnectionClosed, OSError):
            async for message in connection:
                if not isinstance(message, bytes) or not message:
                    continue
                channel, data = message[0], message[1:]
                if channel == TunnelChannel.STDOUT:
                    writer.write(data)
                    await writer.drain()
                elif channel == TunnelChannel.CLOSE and writer.can_write_eof():
                    writer.write_eof()
                elif channel == TunnelChannel.END:
                    return str(json.loads(data)["message"])
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    return ""
