"""A real `muster up` on a free port in a home of its own, for tests and measurements.

    python -m support.stack '{"home": "/tmp/h", "agents": 2, "slots": 2, "port": 8471,
                                     "address": null, "environment": {"agent-local-1": {"MUSTER_…": "…"}}}'

is one whose parts have settings that `muster up` does not give them. Tests fork it from a process that has
imported its code, which takes three seconds of a processor. Needs the `local` extra.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from muster.client import Client, Target
from muster.launch import forkserver, reaping
from muster.launch.forkserver import ForkedProgram, ForkServer
from muster.launch.label import ROOM_VARIABLE
from muster_server.local import supervisor
from muster_server.local.parts import LocalOptions
from muster_server.local.processes import MARK
from support import preloaded

T = TypeVar("T")
START_TIMEOUT_S = 90.0
LONGEST_PAUSE_S = 0.5


def wait_for(
    what: str, check: Callable[[], T | None], timeout_s: float = 120.0, *, every_s: float = 0.05
) -> T:
    """The first value that is true; fails naming what did not happen.

    every_s: between the first looks. A look at the server takes it some ms, so who waits for long
    asks less and less often.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(every_s)
        every_s = max(every_s, min(1.2 * every_s, LONGEST_PAUSE_S))


def processes_of(home: Path) -> list[psutil.Process]:
    """Everything alive that carries this home's mark."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if environment.get(MARK) == str(home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Stack:
    """One `muster up` as a process of its own."""

    is_preloaded = False
    """Whether it begins with its code imported, also where nothing has an environment of its own."""

    def __init__(
        self,
        home: Path,
        *,
        agents: int = 2,
        slots: int = 2,
        port: int = 0,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        isolation: str = "none",
        address: str | None = None,
        python: str = sys.executable,
    ) -> None:
        """environment: of single parts, by name; what a user cannot do with `muster up`. isolation:
        level of the agents; without walls jobs start sooner. address: of `muster up --address`. python: of the installation."""
        self.home = home
        self.python = python
        self.isolation = isolation
        options = ["up", f"--agents={agents}", f"--slots={slots}", f"--port={port}"]
        options += [f"--address={address}"] if address else []
        self.command = ["-m", "muster.cli", *options]
        if environment is not None or self.is_preloaded:
            given = {"home": str(home), "agents": agents, "slots": slots, "port": port}
            text = json.dumps({**given, "address": address, "environment": environment or {}})
            self.command = ["-m", "support.stack", text]
            self.is_preloaded = python == sys.executable
        self.num_agents = agents
        self.output = home.with_name(home.name + ".out")
        self.process: subprocess.Popen[bytes] | ForkedProgram | None = None

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        return {
            **kept,
            "MUSTER_HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "MUSTER_AGENT_ISOLATION": "none",
            # Trying an engine takes a second; tests of containers name theirs.
            "MUSTER_AGENT_CONTAINERS": os.environ.get("MUSTER_AGENT_CONTAINERS", "none"),
        }

    def start(self) -> None:
        environment = {**self.environment(self.home), "MUSTER_AGENT_ISOLATION": self.isolation}
        # A path for modules is one that only a new interpreter reads.
        is_same_path = environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
        if self.is_preloaded and is_same_path:
            self.process = preloaded.start(
                self.command[1:], environment=environment, output=self.output
            )
        else:
            with self.output.open("ab") as output:
                self.process = subprocess.Popen(
                    [self.python, *self.command],
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        process = self.process
        before = len(self.text())

        def is_ready() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"muster up ended with {process.returncode}:\n{self.text()}")
            return "Muster is ready" in self.text()[max(0, before - 1000) :] and bool(self.state())

        wait_for("muster up is ready", is_ready, START_TIMEOUT_S)
        self.access: dict[str, Any] = json.loads((self.home / "cli.json").read_text())
        with self.client() as client:
            wait_for(
                "all nodes online",
                lambda: client.get("/cluster")["num_nodes_online"] >= self.num_agents,
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def state(self) -> dict[str, Any]:
        try:
            value: dict[str, Any] = json.loads((self.home / "up.json").read_text())
        except (OSError, ValueError):
            return {}
        return value if self.process is not None and value["pid"] == self.process.pid else {}

    @property
    def url(self) -> str:
        return str(self.access["url"])

    @property
    def sign_in_url(self) -> str:
        """The one-time link that the last start printed."""
        links: list[str] = re.findall(r"Sign in +(http\S+)", self.text())
        return links[-1]

    def client(self) -> Client:
        return Client(Target(self.url, self.access["token"], "the test"))

    def part_pid(self, name: str) -> int:
        """Of a part: "server", "controller", "worker", "valkey", "agent-local-1"."""
        (pid,) = (p["pid"] for p in self.state()["parts"] if p["name"] == name)
        return int(pid)

    def kill_part(self, name: str) -> None:
        """SIGKILL, and wait until another one has taken its place."""
        old = self.part_pid(name)
        os.kill(old, signal.SIGKILL)
        wait_for(f"{name} is started again", lambda: self.part_pid(name) != old)

    def cli(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run `muster`, which begins with its code imported."""
        return preloaded.run(
            [preloaded.COMMANDS, *arguments],
            environment=self.environment(self.home),
            stdin=stdin,
            timeout_s=280,
        )

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for process in processes_of(self.home):
            process.kill()


AnyStack = TypeVar("AnyStack", bound=Stack)


@contextlib.contextmanager
def started(make: Callable[[Path], AnyStack]) -> Iterator[AnyStack]:
    """A stack in a new folder, until the end of the block. make: the stack in a home."""
    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        stack = make(Path(folder) / "home")
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def scripted(name: str, script: list[dict[str, Any]], *, slots: int = 1, **more: Any) -> str:
    """A document whose workers do what `script` says (support.nodes.scripted)."""
    document = {
        "name": name,
        "entrypoint": ["-m", "support.nodes.scripted", json.dumps(script)],
        "launcher": "direct",
        "resources": {"slots": slots},
        **more,
    }
    return json.dumps(document)


class BegunForkServer(ForkServer):
    """One that was forked from this process at its start, and so has imported everything."""

    def __init__(self, pid: int, control: socket.socket, home: str) -> None:
        self.is_ready = False
        self._lock, self._control, self._marks = threading.Lock(), control, {MARK: home}
        self._process = ForkedProgram(pid)  # type: ignore[assignment]  # It has what is used.
        reaping.keep(self._process)

    def spawn(self, module: Sequence[str], **options: Any) -> ForkedProgram:
        """Show the mark that everything below a fork server of `muster up` has from its start."""
        return super().spawn(module, **options, marks=self._marks)


def fork_server(home: str) -> BegunForkServer:
    """Fork it, while this process has nothing but its code. Does not return in what it forks."""
    ours, theirs = socket.socketpair()
    if pid := os.fork():
        theirs.close()
        return BegunForkServer(pid, ours, home)
    ours.close()
    os.setsid()
    os.environ[ROOM_VARIABLE] = forkserver.ROOM_FOR_MARKS
    given = {"control_fd": theirs.detach(), "imports": []}
    sys.argv[1:] = [json.dumps(given)]
    del sys.modules[forkserver.__name__]
    runpy.run_module(forkserver.__name__, run_name="__main__", alter_sys=True)
    sys.exit()


def main() -> None:
    given = json.loads(sys.argv[1])
    options = LocalOptions(
        root=Path(given["home"]),
        port=given["port"],
        num_agents=given["agents"],
        slots_per_agent=given["slots"],
        address=given["address"],
        environment=given["environment"],
    )

    def say(text: str) -> None:
        print(text, flush=True)

    if "muster_server.serve" in sys.modules:  # This process was forked with its code.
        begun = fork_server(given["home"])
        vars(supervisor)["ForkServer"] = lambda *_, **__: begun
    with supervisor.supervise(options, say) as supervising:
        access = supervising.start()
        say(f"Muster is ready.\n  Sign in {access.sign_in_url}")
        supervising.run()


if __name__ == "__main__":
    main()
