"""A private Valkey (or Redis) server that can be killed, stopped and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from muster_server.local import guard
from muster_server.local.valkey import find_server_binary

START_S = 10.0


class Valkey:
    """Listens on a socket in `folder`, which must have a short path; keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "valkey.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def start(self) -> None:
        """Returns when it answers. Ends with this process, however that ends."""
        reading, writing = os.pipe()
        command = [
            sys.executable, "-I", "-S", str(guard.__file__), str(os.getpid()), str(reading),
            str(find_server_binary()),
            "--port", "0",
            "--unixsocket", str(self._socket),
            "--dir", str(self._folder),
            "--save", "",
            "--appendonly", "no",
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, pass_fds=[reading])
        os.close(reading)
        self._lifeline = writing
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.call("PING")
                return
            except redis.RedisError:
                if time.monotonic() > deadline:
                    self.kill()
                    raise
                time.sleep(0.02)

    def call(self, *command: str) -> object:
        with redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2) as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """SIGKILL: whatever it held is gone, and every connection breaks."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            os.close(self._lifeline)
            self._process = None

    def freeze(self) -> None:
        """Connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


@contextmanager
def private_valkey() -> Iterator[Valkey]:
    """A running server, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="mst-vk-", ignore_cleanup_errors=True) as folder:
        valkey = Valkey(Path(folder))
        try:
            valkey.start()
            yield valkey
        finally:
            valkey.kill()
