"""What the router costs a deployment: requests a second and latencies, compared with the engine asked directly.

    python bench/serving.py [--rounds 8] [--seconds 3] [--connections 8]

A replica serves a model on one thread, as `muster deploy` starts it; HAProxy runs with the configuration that the
controller writes. A client with kept connections, each with one request at a time, asks the replica directly and
through the router, in turn. Two models: one that takes about ten milliseconds, and one that takes less
than one. Printed: the median of both over the rounds, and the median ratio of neighbouring rounds. All of it
shares the machine: with two cores the router takes its time from the engine. Goal: 0.9 with the slower model.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from muster_models.domain.deployments import routing
from muster_models.domain.deployments.routing import RoutedServer, Routes
from muster_server.local.home import free_port
from muster_server.local.parts import find_router_binary

MODELS = {
    "about 10 ms": {"width": 2048, "depth": 8},
    "below 1 ms": {"width": 128, "depth": 1},
}
TOKEN = "mst_usr_of_the_benchmark"
KEY = "k" * 64
WORKER = """
import os, sys
from pathlib import Path
import muster
from muster.document.inference import ServeSection, UsedModel
from muster.inference.launching import ModelJob
from muster.inference.serve import serve
section = ServeSection(model="bench:1", name="bench", key_sha256=sys.argv[2])
serve(ModelJob(run=muster.init(), section=section, used=UsedModel(model="bench", version=1),
          folder=Path(sys.argv[1]), config=None))
"""


def write_model(folder: Path, *, width: int, depth: int) -> None:
    from safetensors.torch import save_file

    from muster.document.model_config import ModelConfig
    from muster.document.train_config import TrainConfig
    from muster.training.models import build

    config = ModelConfig.of(TrainConfig(model="mlp", data="digits", width=width, depth=depth))
    assert config.shape is not None
    assert config.classes is not None
    module = build(config.train_config(), inputs=config.shape, classes=config.classes)
    save_file(module.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(config.text())


@contextlib.contextmanager
def replica(folder: Path) -> Iterator[int]:
    """Start a replica of the model in a folder; yield its port."""
    reports = folder / "reports.jsonl"
    reports.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), hashlib.sha256(KEY.encode()).hexdigest()],
        env={**os.environ, "MUSTER_REPORT_FILE": str(reports), "OMP_NUM_THREADS": "1"},
    )
    try:
        while True:
            lines = reports.read_text().splitlines() if reports.exists() else []
            said = [json.loads(line) for line in lines if '"endpoint"' in line]
            if said:
                yield int(said[0]["port"])
                return
            if process.poll() is not None:
                raise SystemExit(f"the replica ended with {process.returncode}")
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def router(folder: Path, replica_port: int) -> Iterator[int]:
    """Start HAProxy in front of a replica; yield its port."""
    binary = find_router_binary()
    if binary is None:
        raise SystemExit("HAProxy is not installed: apt-get install haproxy")
    port = free_port("127.0.0.1")
    server = RoutedServer(backend="d1", name="r1x1", host="127.0.0.1", port=replica_port)
    routes = Routes(
        names={routing.name_digest("bench"): "d1"},
        keys={"d1": KEY},
        tokens=frozenset({hashlib.sha256(TOKEN.encode()).hexdigest()}),
        servers=(server,),
    )
    for name, content in routing.file_contents(routes).items():
        (folder / name).write_text(content)
    config = folder / "haproxy.cfg"
    config.write_text(
        routing.configuration(
            routes, folder=str(folder), socket=f"{folder}/s", host="127.0.0.1", port=port
        )
    )
    process = subprocess.Popen([binary, "-db", "-f", config])
    try:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                asyncio.run(ask_for(port, "/bench", 1, 0.01))
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


async def ask_for(
    port: int, prefix: str, connections: int, seconds: float
) -> tuple[float, list[float]]:
    """Return requests a second, and the latencies in ms."""
    tensor = {"name": "input", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = (
        f"POST {prefix}/v2/models/bench/infer HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {TOKEN}\r\nx-muster-key: {KEY}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    latencies: list[float] = []
    began = time.perf_counter()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < began + seconds:
            sent = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"refused: {answer.decode()}")
            size = next(
                int(line.split(b":")[1])
                for line in answer.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            await reader.readexactly(size)
            latencies.append((time.perf_counter() - sent) * 1e3)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return len(latencies) / (time.perf_counter() - began), sorted(latencies)


def at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=8)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {args.connections} connections, {args.rounds} rounds")
    for what, sizes in MODELS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_model(folder, **sizes)
            with replica(folder) as direct, router(folder, direct) as routed:
                _, alone = asyncio.run(ask_for(direct, "", 1, args.seconds))
                rates: dict[str, list[float]] = {"direct": [], "router": []}
                tails: dict[str, list[float]] = {"direct": [], "router": []}
                for number in range(args.rounds):
                    ways = [("direct", direct, ""), ("router", routed, "/bench")]
                    for way, port, prefix in ways if number % 2 else reversed(ways):
                        rate, latencies = asyncio.run(
                            ask_for(port, prefix, args.connections, args.seconds)
                        )
                        rates[way].append(rate)
                        tails[way].append(at(latencies, 0.99))
        ratios = [r / d for r, d in zip(rates["router"], rates["direct"], strict=True)]
        print(f"model {what} (one request alone: {at(alone, 0.5):.2f} ms)")
        for way in rates:
            print(
                f"  {way}: {statistics.median(rates[way]):.0f} requests/s "
                f"({min(rates[way]):.0f} to {max(rates[way]):.0f}), "
                f"p99 {statistics.median(tails[way]):.1f} ms "
                f"({min(tails[way]):.1f} to {max(tails[way]):.1f})"
            )
        print(f"  ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
