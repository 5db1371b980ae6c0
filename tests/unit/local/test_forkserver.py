"""Programs that are forked from a process with their imports, compared with those started anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.launch import forkserver
from muster.launch.forkserver import CannotFork, ForkedProgram, ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux alone")

SHOWS = """
import gc, json, os, signal, sys, threading
own = os.getpid()

def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False

print(json.dumps({
    "name": __name__, "arguments": sys.argv[1:], "folder": os.getcwd(), "variables": dict(os.environ),
    "session": os.getsid(0) == own, "group": os.getpgid(0) == own, "gc": gc.isenabled(),
    "parent": os.getppid(), "threads": threading.active_count(),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "terminate": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
    "files": [fd for fd in range(200) if is_open(fd)],
    "stdin": sys.stdin.read(), "is_imported": "fractions" in sys.modules,
}))
sys.stdout.flush()
print("to the log", file=sys.stderr)
sys.exit(7)
"""
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
ALONE = {"MUSTER_ONLY": "é\udcff"}
"""No other variable; one that is not UTF-8."""

Spawn = Callable[..., ForkedProgram]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., ForkServer]]:
    made: list[ForkServer] = []

    def make(*imports: str, variables: Mapping[str, str] | None = None) -> ForkServer:
        """One that finds the modules in the folder of the test."""
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), **(variables or {})}
        with (tmp_path / "forkserver.log").open("ab") as log:
            made.append(ForkServer(imports, environment=environment, output=log, folder=tmp_path))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    programs: list[ForkedProgram] = []

    def start(
        server: ForkServer, code: str, *arguments: str, descriptors: tuple[int, ...] = ()
    ) -> ForkedProgram:
        (tmp_path / "program.py").write_text(code)
        with (
            Path(os.devnull).open("rb") as nothing,
            (tmp_path / "out").open("ab") as out,
            (tmp_path / "err").open("ab") as err,
        ):
            programs.append(
                server.spawn(
                    ["program", *arguments],
                    environment=ALONE,
                    folder=tmp_path,
                    stdin=nothing.fileno(),
                    stdout=out.fileno(),
                    stderr=err.fileno(),
                    descriptors=descriptors,
                )
            )
        return programs[-1]

    yield start
    for program in programs:
        program.kill()
        program.wait()


def until(check: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_finds_what_a_new_interpreter_finds_and_the_imports(
    make_server: Callable[..., ForkServer], spawn: Spawn, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    program = spawn(make_server("fractions"), SHOWS, "an argument", descriptors=(writing,))
    assert program.wait(20) == 7
    os.close(reading)
    os.close(writing)
    shown = json.loads((tmp_path / "out").read_text())
    assert os.fsencode(shown["variables"].pop("MUSTER_ONLY")) == os.fsencode(ALONE["MUSTER_ONLY"])
    assert shown == {
        "name": "__main__",
        "arguments": ["an argument"],
        "folder": str(tmp_path),
        "variables": {},
        "session": True,
        "group": True,
        "gc": True,
        "parent": os.getpid(),
        "threads": 1,
        "interrupt": True,
        "terminate": True,
        "files": [0, 1, 2, writing],
        "stdin": "",
        "is_imported": True,
    }
    assert (tmp_path / "err").read_text() == "to the log\n"


def test_it_is_a_child_of_who_asked_and_outlives_the_fork_server(
    make_server: Callable[..., ForkServer], spawn: Spawn, tmp_path: Path
) -> None:
    server = make_server()
    program = spawn(server, SLEEPS, "600")
    until((tmp_path / "out").read_text)
    process = psutil.Process(program.pid)
    assert process.ppid() == os.getpid()
    assert process.cmdline() == [sys.executable, "-m", "program", "600"]
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(CannotFork):
        spawn(server, SLEEPS)
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.05)
    program.terminate()
    assert program.wait(20) == -signal.SIGTERM
    program.kill()  # nobody: it has been waited for


def test_one_that_does_not_answer_is_not_waited_for(
    make_server: Callable[..., ForkServer], spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a busy machine to answer the first time.
    monkeypatch.setattr(forkserver, "ANSWER_TIMEOUT_S", 2.0)
    server = make_server()
    assert spawn(server, "pass").wait(20) == 0
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(CannotFork, match="timed out"):
        spawn(server, SLEEPS)


def test_a_fault_of_one_is_not_the_next_ones(
    make_server: Callable[..., ForkServer], spawn: Spawn, tmp_path: Path
) -> None:
    server = make_server()
    assert spawn(server, "raise ValueError('bad luck')").wait(20) == 1
    assert (tmp_path / "err").read_text().endswith("ValueError: bad luck\n")
    assert spawn(server, "import os; os.kill(os.getpid(), 9)").wait(20) == -signal.SIGKILL
    assert spawn(server, "import atexit; atexit.register(print, 'bye')").wait(20) == 0
    assert (tmp_path / "out").read_text() == "bye\n"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (
            "import threading, time; threading.Thread(target=time.sleep, args=[99]).start()",
            "thread",
        ),
        ("raise RuntimeError('not here')", "not here"),
    ],
)
def test_code_that_cannot_be_shared_is_not(
    make_server: Callable[..., ForkServer], spawn: Spawn, tmp_path: Path, module: str, reason: str
) -> None:
    (tmp_path / "unfit.py").write_text(module)
    with pytest.raises(CannotFork):
        spawn(make_server("unfit"), SLEEPS)
    assert reason in (tmp_path / "forkserver.log").read_text()


def test_the_fork_server_ends_with_who_started_it(tmp_path: Path) -> None:
    starts = (
        "import os, sys; from muster.launch.forkserver import ForkServer\n"
        "server = ForkServer(['json'], environment=os.environ)\n"
        "print(server.pid, flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", starts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    server = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
