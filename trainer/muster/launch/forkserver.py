"""Start Python modules from a process that has imported their code already. Linux only.

Imports take most of a process's start and most of its memory. So there is one process that does
nothing but import, the *fork server*, and the others are forked from it:

* the fork server has one thread and no open file but its end of a socket. It ends when the process that
  started it does, however that ends;
* a forked program is a child of the process that asked for it, as one that it had started itself:
  the fork server forks twice, and who asks adopts the grandchild. It outlives the fork server. Whatever
  else is orphaned in that moment is adopted with it: who asks should call muster.launch.reaping.adopt.

What a program would find in a new interpreter, it finds here: a session of its own, default signals,
the environment, files and folder that were asked for, and its command line in the list of processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from muster.launch import reaping
from muster.launch.label import ROOM_VARIABLE, Label, check_is_alone

IMPORT_TIMEOUT_S = 120.0
"""Seconds for the first answer, which comes after the imports, perhaps on a busy machine."""
ANSWER_TIMEOUT_S = 10.0
"""Seconds for any other answer: who waits does nothing else meanwhile."""
POLL_S = 0.02
ROOM = " " * 2_048
"""Room for the command lines of forked programs."""
ROOM_FOR_MARKS = " " * 1_024
MAX_FILES = 64
SIZE_BYTES = 8
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class CannotFork(Exception):
    """The fork server cannot fork: the program must be started in another way."""


class ForkedProgram:
    """A child of this process. It has what is used of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Exit code as subprocess.Popen has it: negative for a signal, None while it runs."""
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout if timeout is not None else None
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # its number cannot be another process's before it is waited for
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A process that imports modules, and forks programs that use them."""

    def __init__(
        self,
        imports: Sequence[str],
        *,
        environment: Mapping[str, str],
        output: IO[bytes] | None = None,
        folder: Path | None = None,
        safe_path: bool = False,
    ) -> None:
        """Start importing; `spawn` waits for it.

        environment: what the imports find, and what other processes see of every forked program.
        output: what the fork server itself writes goes there.
        folder: the one that `-m` looks for modules in. safe_path: it looks in none, as with Python's
        -P. Raises OSError.
        """
        self._lock = threading.Lock()
        self.is_ready = False
        """Whether it has imported everything, so that `spawn` takes some ms."""
        self._control, theirs = socket.socketpair()
        with theirs:
            given = {"control_fd": theirs.fileno(), "imports": list(imports), "room": ROOM}
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *(["-P"] if safe_path else []),
                    *("-m", "muster.launch.forkserver", json.dumps(given)),
                ],
                # It must be first, see muster.launch.label.Label.
                env={ROOM_VARIABLE: ROOM_FOR_MARKS, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        reaping.keep(self._process)
        self._control.settimeout(IMPORT_TIMEOUT_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until everything is imported. Raises CannotFork."""
        with self._lock:
            if self.is_ready:
                return
            try:
                answer = _receive(self._control)
            except OSError as error:
                raise CannotFork(str(error)) from error
            if not answer:
                raise CannotFork("it has ended")
            self._control.settimeout(ANSWER_TIMEOUT_S)
            self.is_ready = True

    def spawn(
        self,
        module: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        descriptors: Sequence[int] = (),
        marks: Mapping[str, str] | None = None,
    ) -> ForkedProgram:
        """Run `python -m` of `module`, a name and its arguments, in a process of its own session.

        descriptors: open files that it inherits under the same numbers. marks: variables of
        `environment` that other processes see, too. Raises CannotFork.
        """
        self.wait_until_ready()
        request = {
            "module": list(module),
            "environment": dict(environment),
            "marks": dict(marks or {}),
            "folder": str(folder),
            "descriptors": list(descriptors),
        }
        body = json.dumps(request).encode()
        try:
            with reaping.starting(), self._lock, _adopting_orphans():
                socket.send_fds(
                    self._control,
                    [len(body).to_bytes(SIZE_BYTES, "big")],
                    [stdin, stdout, stderr, *descriptors],
                )
                self._control.sendall(body)
                answer = json.loads(_receive(self._control) or b"null")
                if answer is None:
                    raise CannotFork("it has ended")
                if "refused" in answer:
                    raise CannotFork(answer["refused"])
                program = ForkedProgram(answer["pid"])
                reaping.keep(program)
                return program
        except OSError as error:
            raise CannotFork(str(error)) from error

    def close(self) -> None:
        """End it. What was forked from it goes on."""
        self._control.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Make processes below this one its children when their parent ends meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot adopt others")
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _receive(control: socket.socket) -> bytes:
    """Return the next message: its size, then itself; empty if the other side has ended."""
    return _receive_body(control, control.recv(SIZE_BYTES, socket.MSG_WAITALL))


def _receive_body(control: socket.socket, size: bytes) -> bytes:
    parts, left = [], int.from_bytes(size, "big")
    while left > 0:
        part = control.recv(left)
        if not part:
            return b""
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


# ---------------------------------------------------------------- the fork server


def main() -> tuple[dict[str, Any], list[int], Label]:
    """Import, and fork on request. Returns in a forked program alone: what it is to become."""
    given = json.loads(sys.argv[1])
    label = Label()
    label.write("muster-forkserver", {})
    try:
        _import_all(given["imports"])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # whatever threads there are
    control = socket.socket(fileno=given["control_fd"])
    _send(control, {"ready": True})
    while True:
        size, files, _, _ = socket.recv_fds(control, SIZE_BYTES, MAX_FILES)
        body = _receive_body(control, size)
        if not body:
            os._exit(0)  # who started us has ended
        try:
            pid = _fork_for_adoption()
        except OSError as error:
            answer: dict[str, Any] = {"refused": f"it cannot fork: {error}"}
        else:
            if pid == 0:
                control.close()
                return json.loads(body), list(files), label
            answer = {"pid": pid}
        for file in files:
            os.close(file)
        _send(control, answer)


def _send(control: socket.socket, answer: Mapping[str, Any]) -> None:
    text = json.dumps(answer).encode()
    control.sendall(len(text).to_bytes(SIZE_BYTES, "big") + text)


def _import_all(names: Sequence[str]) -> None:
    """Import these modules. Raises what they raise, and Unfit if what it leaves behind cannot be forked."""
    # Threads of numpy's BLAS would be one reason.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    gc.disable()  # looking through what imports make takes a sixth of their time
    for name in names:
        importlib.import_module(name)
    check_is_alone()
    gc.collect()
    gc.freeze()  # collecting would write to, and so copy, every page that has an object


def _fork_for_adoption() -> int:
    """Fork a process whose parent has ended when this returns. Return 0 in it, else its pid."""
    reading, writing = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if between == 0:
        os.close(reading)
        between_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.close(writing)
        while os.getppid() == between_pid:
            time.sleep(0.001)
        return 0
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    os.waitpid(between, 0)
    if not text:
        raise OSError("there is no process to be had")
    return int(text)


# ---------------------------------------------------------------- the forked program


def _become(request: Mapping[str, Any], files: Sequence[int], label: Label) -> None:
    """Turn this process into what `python -m` is at its start, except for what is imported."""
    os.setsid()
    targets = [0, 1, 2, *request["descriptors"]]
    out_of_the_way = [fcntl.fcntl(file, fcntl.F_DUPFD, max(targets) + 1) for file in files]
    for file in files:
        os.close(file)
    for file, target in zip(out_of_the_way, targets, strict=True):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    module, *arguments = request["module"]
    label.write(" ".join([sys.executable, "-m", module, *arguments]), request["marks"])
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # else runpy warns that it is imported already
    gc.enable()


if __name__ == "__main__":
    _request, _files, _label = main()
    _become(_request, _files, _label)
    runpy.run_module(_request["module"][0], run_name="__main__", alter_sys=True)
