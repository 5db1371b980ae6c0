"""The SSH server of a session, with asyncssh: commands, terminals, sftp, scp and forwarded ports.

Only the keys in `AUTHORIZED_FILE` are let in. `muster session` writes the user's key there by a command
inside the job, so whoever may enter the job may come by ssh. Any user name will do: everything runs as
the job's user, behind its walls.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import asyncssh

from muster.launch.variables import SESSION_DIR_VARIABLE
from muster.wire import TAKE_TERMINAL

AUTHORIZED_FILE = "authorized_keys"
KEEPALIVE_S = 30
"""Seconds of silence after which a client is asked for a sign of life: one that is gone counts as connected."""
READ_BYTES = 64 * 1024


class _SessionAccess(asyncssh.SSHServer):
    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        # Read anew: a further machine of the user may have added its key.
        file = Path(os.environ[SESSION_DIR_VARIABLE]) / AUTHORIZED_FILE
        if file.exists():
            self._connection.set_authorized_keys(str(file))
        return True

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> bool:
        return True  # A command in the job can connect to all that it could.

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        return listen_host in ("localhost", "127.0.0.1")

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True

    def unix_server_requested(self, listen_path: str) -> bool:
        return True


class _SessionFiles(asyncssh.SFTPServer):
    def exit(self) -> None:
        self.channel.exit(0)  # Without it, OpenSSH's scp reports a failure.


async def _handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
    shell = os.environ.get("SHELL") or "/bin/sh"
    if not os.access(shell, os.X_OK):
        shell = "/bin/sh"
    argv = [shell, "-c", process.command] if process.command else [shell, "-i"]
    environment = {**os.environ, "SHELL": shell}
    if process.term_type:
        environment["TERM"] = process.term_type
        code = await _run_with_terminal(process, argv, environment)
    else:
        code = await _run(process, argv if process.command else [shell], environment)
    process.exit(code if code >= 0 else 128 - code)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await process.wait_closed()


async def _run(
    process: asyncssh.SSHServerProcess[bytes], argv: list[str], environment: dict[str, str]
) -> int:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert child.stdin is not None, "a pipe"
    reading = asyncio.create_task(_pass_input(process, child.stdin))
    await process.redirect(stdout=child.stdout, stderr=child.stderr)
    code = await child.wait()
    reading.cancel()
    await process.stdout.drain()
    await process.stderr.drain()
    return code


async def _pass_input(
    process: asyncssh.SSHServerProcess[bytes], stdin: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):  # The command has closed its input.
        while data := await process.stdin.read(READ_BYTES):
            stdin.write(data)
            await stdin.drain()
        stdin.close()


async def _run_with_terminal(
    process: asyncssh.SSHServerProcess[bytes], argv: list[str], environment: dict[str, str]
) -> int:
    ours, theirs = pty.openpty()
    _resize(ours, *process.term_size[:2])
    taking = [sys.executable, "-I", "-S", "-c", TAKE_TERMINAL]
    try:
        child = await asyncio.create_subprocess_exec(
            *taking, *argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(theirs)
    reading = asyncio.create_task(_read_user(process, ours))
    await process.redirect(stdout=os.dup(ours), send_eof=False)
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGHUP)  # Its user has left.
    code = await ended
    reading.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):  # What it has left behind may keep the terminal open.
            await process.stdout.drain()
    os.close(ours)
    return code


async def _read_user(process: asyncssh.SSHServerProcess[bytes], terminal: int) -> None:
    """Pass on what the user types, until they leave."""
    while True:
        try:
            data = await process.stdin.read(READ_BYTES)
        except asyncssh.TerminalSizeChanged as change:
            _resize(terminal, change.width, change.height)
            continue
        except (asyncssh.BreakReceived, asyncssh.SignalReceived):
            continue
        if not data:
            return
        while data:
            data = data[await asyncio.to_thread(os.write, terminal, data) :]


def _resize(terminal: int, width: int, height: int) -> None:
    size = struct.pack("HHHH", min(height, 1000), min(width, 1000), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


async def serve(port: int) -> None:
    settings: dict[str, Any] = {"process_factory": _handle, "encoding": None}
    async with await asyncssh.create_server(
        _SessionAccess,
        "127.0.0.1",
        port,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        password_auth=False,
        kbdint_auth=False,
        sftp_factory=_SessionFiles,
        allow_scp=True,
        agent_forwarding=False,
        keepalive_interval=KEEPALIVE_S,
        **settings,
    ) as server:
        await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
