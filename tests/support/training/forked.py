"""Fork the workers of a test's training from a process that has imported torch. Linux only.

The other side is muster.launch.warm, as for the workers that an agent starts.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from muster.launch import label, warm

ROOM_BYTES = 16_384
ANSWER_TIMEOUT_S = 120.0
"""The first answer comes after torch was imported, perhaps on a busy machine."""
IDLE_S = 3600.0


class ForkedWorker:
    """What the tests use of subprocess.Popen, for a process that is not a child of ours."""

    stdout = None

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._output = output
        self._ended = threading.Event()

    def ended(self, status: int) -> None:
        self.returncode = status
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        self.wait(timeout)
        return self._output.read_text(), None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Parent:
    """A process that has imported torch. It ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        folder = tempfile.mkdtemp(prefix="mst")
        self._path = f"{folder}/warm"
        # Held until we end, however we do.
        lifeline_read, self._lifeline = os.pipe()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._path)
            listener.listen()
            given = {
                "listen_fd": listener.fileno(),
                "lifeline_fd": lifeline_read,
                "idle_s": IDLE_S,
                "imports": [],
                "marks": {},
            }
            self._process = subprocess.Popen(
                [sys.executable, warm.__file__, json.dumps(given)],
                env={label.ROOM_VARIABLE: " " * ROOM_BYTES, **self.environment},
                stdin=subprocess.DEVNULL,
                pass_fds=(listener.fileno(), lifeline_read),
            )
        os.close(lifeline_read)
        atexit.register(self._end)

    def _end(self) -> None:
        os.close(self._lifeline)
        self._process.wait()
        shutil.rmtree(Path(self._path).parent, ignore_errors=True)

    def start(
        self,
        entrypoint: Sequence[str],
        variables: Sequence[Mapping[str, str]],
        *,
        folder: Path,
    ) -> list[ForkedWorker]:
        """Workers with these environment variables each, beside those of the parent and
        MASTER_PORT; what they print goes to output-<rank>.txt in `folder`."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(self._path)
        reader = connection.makefile("rb")
        outputs = [folder / f"output-{rank}.txt" for rank in range(len(variables))]
        request = {
            "shared": self.environment,
            "own": {"TORCHELASTIC_USE_AGENT_STORE": "True"},
            "workers": [
                {"variables": dict(own), "stdout": str(output), "stderr": str(output)}
                for own, output in zip(variables, outputs, strict=True)
            ],
            "folder": str(folder),
            "entrypoint": list(entrypoint),
            "cgroup": "",
        }
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(reader.readline())
        assert "refused" not in answer, answer
        connection.sendall(b"{}\n")
        answer = json.loads(reader.readline())
        assert "refused" not in answer, answer
        connection.settimeout(None)
        workers = [
            ForkedWorker(pid, output)
            for pid, output in zip(answer["started"], outputs, strict=True)
        ]

        def listen() -> None:
            with connection, reader:
                for line in reader:
                    message = json.loads(line)
                    if "ended" in message:
                        workers[message["ended"]].ended(message["status"])
                    if "done" in message:
                        return  # the keeper ends when it sees the connection closed

        threading.Thread(target=listen, daemon=True).start()
        return workers


def fork(work: Callable[[], None], name: str) -> int:
    """The pid of a child that does this and ends, with code 1 when it raised, which it prints."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        print(f"{name}:", traceback.format_exc(), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(code)


_parents: list[Parent] = []


def parent(environment: Mapping[str, str]) -> Parent:
    """One that was started with this environment, which importing torch may depend on."""
    for known in _parents:
        if known.environment == environment:
            return known
    _parents.append(Parent(environment))
    return _parents[-1]
