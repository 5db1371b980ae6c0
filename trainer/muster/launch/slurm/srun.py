"""`srun` in a batch script: asks the first node of the job for a step, and passes its output on."""

from __future__ import annotations

import asyncio
import base64
import functools
import os
import signal
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from muster.launch import site_signals

from . import SCRIPT_VARIABLE, SOCKET_VARIABLE
from .channel import Channel
from .layout import output_name
from .options import StepOptions, StepRefused, parse_srun
from .tasks import CHUNK_BYTES

_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tasks of a command line of srun; return the highest of their exit codes."""
    try:
        socket = environment.get(SOCKET_VARIABLE, "")
        if not socket:
            raise StepRefused(
                "it starts tasks from the batch script of a job alone", "muster submit train.sbatch"
            )
        return asyncio.run(_run(socket, parse_srun(arguments, environment), environment))
    except StepRefused as error:
        sys.stderr.write(f"srun: error: {_line_of(error.word, environment)}{error}\n")
        return 1


def _line_of(word: str, environment: Mapping[str, str]) -> str:
    """Return where the script has a word, as the beginning of a message; "" if that is not clear."""
    try:
        text = Path(environment[SCRIPT_VARIABLE]).read_text(errors="replace")
    except (KeyError, OSError):
        return ""
    lines = [n for n, line in enumerate(text.splitlines(), 1) if word in line and line[:1] != "#"]
    return f"line {lines[0]}: " if len(lines) == 1 else ""


async def _run(socket: str, options: StepOptions, environment: Mapping[str, str]) -> int:
    try:
        head = Channel(*await asyncio.open_unix_connection(socket))
    except OSError as error:
        raise StepRefused(f"the job cannot be reached: {error}", "it may have ended") from error
    output = _Output(options, environment)
    takes_input = _opens_input(options)
    mask = os.umask(0)
    os.umask(mask)
    head.send(
        {
            "options": asdict(options),
            "environment": dict(environment),
            "folder": str(Path.cwd() / options.chdir),
            "umask": mask,
            "stdin": takes_input,
            "outputs": {str(n): [s.st_dev, s.st_ino] for n, s in output.inherited().items()},
        }
    )
    loop = asyncio.get_running_loop()
    site_signals.listen(environment.get(site_signals.SOCKET_VARIABLE, ""))
    passing: set[asyncio.Task[None]] = set()

    def end_tasks() -> None:
        send = functools.partial(head.send, {"event": "signal", "number": int(signal.SIGTERM)})
        passing.add(asyncio.ensure_future(site_signals.pass_on(send)))

    loop.add_signal_handler(signal.SIGTERM, end_tasks)
    for number in _PASSED_ON:
        loop.add_signal_handler(number, head.send, {"event": "signal", "number": int(number)})
    if takes_input:
        threading.Thread(target=_pass_input, args=(loop, head), daemon=True).start()
    while (message := await head.read()) is not None:
        if message["event"] == "out":
            output.write(message)
        elif message["event"] == "say":
            sys.stderr.write(f"{message['words']}\n")
            sys.stderr.flush()
        elif message["event"] == "refused":
            raise StepRefused(*message["words"].split("; ", 1), word=message["word"])
        else:
            output.close()
            return int(message["code"])
    output.close()
    sys.stderr.write("srun: error: the job has ended\n")
    return 1


def _opens_input(options: StepOptions) -> bool:
    """Open what the tasks read, and return whether there is anything."""
    if options.input == "none":
        return False
    if options.input not in ("", "all"):
        file = os.open(options.input, os.O_RDONLY)
        os.dup2(file, 0)
    try:
        status = os.fstat(0)
    except OSError:
        return False
    null = os.stat(os.devnull)  # noqa: PTH116
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == null.st_rdev)


def _pass_input(loop: asyncio.AbstractEventLoop, head: Channel) -> None:
    data: bytes | None = b""
    while data is not None:
        data = os.read(0, CHUNK_BYTES) or None
        text = base64.b64encode(data).decode() if data else None
        loop.call_soon_threadsafe(head.send, {"event": "stdin", "data": text})


class _Output:
    """Where the output of the tasks goes. Lines of several tasks are not mixed."""

    def __init__(self, options: StepOptions, environment: Mapping[str, str]) -> None:
        self._labels = options.labels
        self._environment = environment
        self._patterns = {1: options.output, 2: options.error or options.output}
        for number, pattern in self._patterns.items():
            if pattern in ("all", "none"):
                self._patterns[number] = os.devnull if pattern == "none" else ""
        self._files: dict[str, IO[bytes]] = {}
        self._rest: dict[tuple[int, int], bytes] = {}

    def inherited(self) -> dict[int, os.stat_result]:
        """Return the outputs of srun that tasks write to."""
        return {number: os.fstat(number) for number in (1, 2) if not self._patterns[number]}

    def write(self, message: Mapping[str, Any]) -> None:
        key = (message["rank"], message["fd"])
        data = self._rest.pop(key, b"") + base64.b64decode(message["data"])
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if data[end:]:
            self._rest[key] = data[end:]
        self._put(*key, data[:end])

    def _put(self, rank: int, number: int, data: bytes) -> None:
        if self._labels:
            lines = data.splitlines(keepends=True)
            data = b"".join(f"{rank}: ".encode() + line for line in lines)
        file = self._file(rank, number)
        file.write(data)
        file.flush()

    def _file(self, rank: int, number: int) -> IO[bytes]:
        pattern = self._patterns[number]
        if not pattern:
            return sys.stdout.buffer if number == 1 else sys.stderr.buffer
        name = output_name(pattern, rank, self._environment)
        if name not in self._files:
            self._files[name] = Path(name).open("wb")  # noqa: SIM115
        return self._files[name]

    def close(self) -> None:
        for (rank, number), data in sorted(self._rest.items()):
            self._put(rank, number, data)
        for file in self._files.values():
            file.close()
