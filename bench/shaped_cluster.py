"""A real Muster whose agents live in network namespaces, joined by links of a set bandwidth. Needs root.

with ShapedCluster(num_nodes=2) as cluster:
    cluster.set_mbit_per_s(200)
    cluster.client.submit(...)

A bridge in a namespace of its own joins the nodes; what a node sends goes through a token bucket
(tc-tbf) of the set rate, so both directions of a link have it. The agents reach the server over a
unix socket, which network namespaces do not part: control traffic is not on the links.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import psutil

from support.stack import Stack, wait_for

MTU_BYTES = 9000
"""Headers then take 0.7 % of the link, not 4.4 %."""
BURST = "64kb"
_FORWARD = """
import asyncio, sys
async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()
async def accept(reader, writer):
    down, up = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(pump(reader, up), pump(down, writer))
async def main():
    server = await asyncio.start_server(accept, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""
POLL_S = 1.0
"""Between two looks at how far a run is: each takes the server time of the processors that trainings share."""
_ENDED = frozenset({"COMPLETED", "FAILED", "CANCELED"})


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class ShapedCluster:
    def __init__(self, *, num_nodes: int = 2) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mkl"))
        self.num_nodes = num_nodes
        self._prefix = f"mkl{os.getpid()}"
        self._stack = Stack(self.folder / "home", agents=0)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._spaces: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> ShapedCluster:
        # Else nothing of what follows would be taken away when we are told to end.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._make_links()
            self._stack.start()
            self.client = self._stack.client()
            self._serve_socket()
            token = self.client.post("/join-tokens", {"uses": self.num_nodes})["secret"]
            for number in range(1, self.num_nodes + 1):
                self._start_agent(number, token)
            wait_for(
                "all nodes online",
                lambda: self.client.get("/cluster")["num_nodes_online"] >= self.num_nodes,
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_mbit_per_s(self, rate: float) -> None:
        """Of every link, both ways, from now on."""
        for number in range(1, self.num_nodes + 1):
            run(
                "ip", "netns", "exec", self._space(number), "tc", "qdisc", "replace", "dev", "eth0",
                "root", "tbf", "rate", f"{rate:g}mbit", "burst", BURST, "limit", "16mb",
            )  # fmt: skip

    @property
    def url(self) -> str:
        return self._stack.url

    @property
    def sign_in_url(self) -> str:
        """A one-time link to the dashboard."""
        return self._stack.sign_in_url

    def train(self, document: str) -> int:
        """Submit a training, wait for its end, and return the id of its trial. AssertionError when
        it does not end well."""
        made = self.client.submit(document)
        experiment_id = int(made["id"])
        return self.trial_of(experiment_id)

    def trial_of(self, experiment_id: int) -> int:
        """Of an experiment with one, when it has ended well."""

        def end() -> dict[str, Any] | None:
            found = self.client.experiment(experiment_id)
            return found if found["state"] in _ENDED else None

        found = wait_for(f"experiment {experiment_id} ends", end, timeout_s=900, every_s=POLL_S)
        assert found["state"] == "COMPLETED", found
        (trial,) = self.client.trials(experiment_id)
        return int(trial["id"])

    def node_of(self, trial: int, *, rank: int) -> int:
        """The number of the node, from 1, on which a rank of a trial's last attempt was."""
        page = self.client.get(f"/trials/{trial}/workers")
        (worker,) = (w for w in page["items"] if w["rank"] == rank)
        return int(worker["node_name"].rpartition("-")[2])

    def workers(self, number: int) -> list[psutil.Process]:
        """Of the built-in trainer, on that node, at this moment."""
        told = subprocess.run(
            ["ip", "netns", "pids", self._space(number)], capture_output=True, text=True, check=True
        )
        found = []
        for pid in map(int, told.stdout.split()):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if "muster.training" in process.cmdline() and "RANK" in process.environ():
                    found.append(process)
        return found

    def _space(self, number: int) -> str:
        return f"{self._prefix}n{number}"

    def _make_links(self) -> None:
        switch = f"{self._prefix}sw"
        self._add_space(switch)
        inside = ["ip", "netns", "exec", switch, "ip", "link"]
        run(*inside, "add", "br0", "type", "bridge")
        run(*inside, "set", "br0", "mtu", str(MTU_BYTES), "up")
        for number in range(1, self.num_nodes + 1):
            space = self._space(number)
            self._add_space(space)
            run(
                "ip", "link", "add", "eth0", "netns", space, "mtu", str(MTU_BYTES), "type", "veth",
                "peer", "name", f"p{number}", "netns", switch, "mtu", str(MTU_BYTES),
            )  # fmt: skip
            run(*inside, "set", f"p{number}", "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")

    def _add_space(self, name: str) -> None:
        run("ip", "netns", "add", name)
        self._spaces.append(name)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def _serve_socket(self) -> None:
        port = int(self._stack.url.rpartition(":")[2])

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass
            writer.close()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            down, up = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pump(reader, up), pump(down, writer))

        self._thread.start()
        self._port = port
        serving = asyncio.start_unix_server(accept, path=str(self.folder / "server"))
        asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    def _start_agent(self, number: int, token: str) -> None:
        within = ["ip", "netns", "exec", self._space(number), sys.executable]
        forward = [*within, "-c", _FORWARD, str(self._port), str(self.folder / "server")]
        self._processes.append(subprocess.Popen(forward))
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
        output = (self.folder / f"agent-{number}.log").open("wb")
        self._processes.append(
            subprocess.Popen(
                [*within, "-m", "muster_agent.cli", "run"],
                env={
                    **kept,
                    "MUSTER_AGENT_SERVER_URL": f"http://127.0.0.1:{self._port}",
                    "MUSTER_AGENT_JOIN_TOKEN": token,
                    "MUSTER_AGENT_NAME": f"node-{number}",
                    "MUSTER_AGENT_HOME": str(self.folder / f"agent-{number}"),
                    "MUSTER_AGENT_STORAGE_DIR": str(self.folder / "storage"),
                    "MUSTER_AGENT_ADDRESS": f"10.77.0.{number}",
                    "MUSTER_AGENT_SLOT_TYPE": "cpu",
                    "MUSTER_AGENT_SLOTS": "1",
                    "MUSTER_AGENT_STOP_ALLOCATIONS": "true",
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        )
        output.close()
