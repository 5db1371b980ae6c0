"""How much memory and time an export and a pull of a large model take.

    python bench/exports.py [--gigabytes 2] [--formats safetensors,pt2,onnx]

First one file is made of shards that two workers would have written: eight float32 matrices, half of them
cut by rows and half by columns. Then a real `muster up` trains an mlp of that size for one step,
registers its checkpoint, exports it and pulls the first format; every file is verified. Memory is private
and anonymous (`RssAnon`), sampled every 20 ms: mapped files and the page cache are not in it. Needs about
eight times the size on the disk, and four times in memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from muster.sdk import shards
from muster.sdk.shards import Chunk, Stored
from support.stack import Stack, processes_of

COLUMNS = 1024
MATRICES = 8
SAMPLE_S = 0.02
CONSOLIDATE = """
import sys
from pathlib import Path
from muster.sdk import shards
with open(sys.argv[2], "wb") as out:
    out.writelines(shards.exported(Path(sys.argv[1]))[1])
"""


def anonymous_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def watched(roles: Callable[[], dict[int, str]]) -> Iterator[dict[str, int]]:
    """Give the highest memory of each role, filled while the block runs; roles: pid → role."""
    peaks: dict[str, int] = defaultdict(int)
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_S):
            for pid, role in roles().items():
                try:
                    peaks[role] = max(peaks[role], anonymous_bytes(pid))
                except OSError:
                    continue

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def write_shards(folder: Path, size_bytes: int) -> None:
    """Write what two workers would have written of MATRICES matrices."""
    rows = size_bytes // MATRICES // COLUMNS // 4 // 2 * 2
    index = {}
    for rank in range(2):
        shapes = {
            f"layer.{i}.weight": (rows // 2, COLUMNS) if i % 2 == 0 else (rows, COLUMNS // 2)
            for i in range(MATRICES)
        }
        with (folder / f"shard-{rank:05d}.safetensors").open("wb") as out:
            out.write(shards.header({name: ("F32", shape) for name, shape in shapes.items()}))
            for shape in shapes.values():
                piece = os.urandom(2**20)
                left = math.prod(shape) * 4
                while left:
                    left -= out.write(piece[:left])
    for i in range(MATRICES):
        name = f"layer.{i}.weight"
        by_rows = i % 2 == 0
        chunks = tuple(
            Chunk(
                (rank * rows // 2, 0) if by_rows else (0, rank * COLUMNS // 2),
                (rows // 2, COLUMNS) if by_rows else (rows, COLUMNS // 2),
                f"shard-{rank:05d}.safetensors",
                name,
            )
            for rank in range(2)
        )
        index[f"model/{name}"] = Stored("F32", (rows, COLUMNS), chunks)
    shards.write_index(folder, index)


def consolidate(folder: Path, size_bytes: int) -> None:
    source = folder / "shards"
    source.mkdir()
    write_shards(source, size_bytes)
    began = time.monotonic()
    out = folder / "model.safetensors"
    process = subprocess.Popen([sys.executable, "-c", CONSOLIDATE, str(source), str(out)])
    with watched(lambda: {process.pid: "process"}) as peaks:
        assert process.wait() == 0
    seconds = time.monotonic() - began
    show("one file of two shards", out.stat().st_size, seconds, peaks)


def show(what: str, size_bytes: int, seconds: float, peaks: dict[str, int]) -> None:
    found = {role: f"{peak / 2**20:.0f} MiB" for role, peak in peaks.items()}
    facts = {"what": what, "bytes": size_bytes, "seconds": round(seconds, 1), "RssAnon": found}
    print(json.dumps(facts), flush=True)


class Roles:
    """What each process of a stack is, found anew every half second."""

    def __init__(self, stack: Stack, extra: dict[int, str] | None = None) -> None:
        self._stack, self._extra = stack, extra or {}
        self._found: dict[int, str] = {}
        self._at = -math.inf

    def __call__(self) -> dict[int, str]:
        if time.monotonic() - self._at > 0.5:
            self._found = {
                p.pid: role for p in processes_of(self._stack.home) if (role := _role(p))
            }
            self._at = time.monotonic()
        return self._found | self._extra


def _role(process: psutil.Process) -> str:
    try:
        command, environ = " ".join(process.cmdline()), process.environ()
    except psutil.Error:
        return ""
    if "MUSTER_MODEL_MODEL" in environ and "muster.inference" in command:
        return "job"
    if "muster_agent" in command:
        return "agent"
    return "server" if "muster_server" in command else ""


def export_and_pull(folder: Path, size_bytes: int, formats: list[str]) -> None:
    width = int(math.sqrt(size_bytes / 4))
    stack = Stack(folder / "home", agents=1, slots=1)
    stack.start()
    try:
        with stack.client() as client:
            trained = client.submit(
                {
                    "name": "large",
                    "trainer": {
                        "model": "mlp", "data": "digits", "width": width, "depth": 2, "steps": 1,
                        "batch_size": 8, "optimizer": "sgd", "momentum": 0.0, "lr": 1e-3, "test": False,
                    },
                    "outputs": None,
                }
            )  # fmt: skip
            assert client.wait(trained["id"])["state"] == "COMPLETED"
            (trial,) = client.trials(trained["id"])
            best = client.checkpoints(trial["id"])[-1]
            began = time.monotonic()
            with watched(Roles(stack)) as peaks:
                client.register_model("large", checkpoint_id=best["id"])
                version = client.wait_for_model("large:1")
            show("registering it", version["size_bytes"], time.monotonic() - began, peaks)
            for name in formats:
                began = time.monotonic()
                with watched(Roles(stack)) as peaks:
                    made = client.export_model("large:1", [name], environment={"warm": False})
                    client.wait(made["id"])
                (export,) = client.model_exports("large:1")[0]["exports"]
                assert export["state"] == "done", export
                seconds = time.monotonic() - began
                show(f"export as {name}", export["size_bytes"], seconds, peaks)
                print(json.dumps(export["comparison"]), flush=True)
            client.wait_for_outputs(client.trials(made["id"])[0]["id"])
        began = time.monotonic()
        pull = subprocess.Popen(
            [
                sys.executable, "-m", "muster.cli", "model", "pull", "large:1", str(folder / "pulled"),
                "--format", formats[0],
            ],
            env=Stack.environment(stack.home),
        )  # fmt: skip
        with watched(Roles(stack, {pull.pid: "pull"})) as peaks:
            assert pull.wait() == 0
        size = sum(path.stat().st_size for path in (folder / "pulled").iterdir())
        show(f"pull of {formats[0]}", size, time.monotonic() - began, peaks)
    finally:
        stack.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of the weights")
    parser.add_argument("--formats", default="safetensors,pt2,onnx")
    args = parser.parse_args()
    size_bytes = int(args.gigabytes * 10**9)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-exports-") as name:
        consolidate(Path(name), size_bytes)
    with tempfile.TemporaryDirectory(prefix="muster-exports-") as name:
        export_and_pull(Path(name), size_bytes, args.formats.split(","))
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
