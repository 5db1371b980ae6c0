"""What keeping a job's files costs its training, and whether all of them are kept right.

    python bench/outputs.py [--megabytes 200] [--files 10000] [--rounds 3]

A real `muster up` with two nodes, and a job on both of them that computes on one thread and writes
files all the while. The same job runs with `outputs` and with `outputs: null` in turn, so that what else
the machine does hits both, and writes its files either way. Its rates are steps per second of the clock,
and per second of its own processor time, which other programs disturb less. In the last run with outputs an agent and the server are killed in the middle. Afterwards the
digest of every file is compared with that of what the job wrote, and every part in the storage with
its name.

The long form is `--megabytes 10000 --rounds 5 --seconds 900 --every 120` on an idle machine. Exits 1 when a digest differs or a
file is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from muster.client import Client
from support.stack import Stack, wait_for

Rates = tuple[float, float]
"""Steps per second by the clock, and per second of the job's processor time."""
WITH, WITHOUT = "outputs: {every_s: EVERY_S, max_size: 100GB}", "outputs: null"
SCRIPT = """
import os, random, sys, time
from pathlib import Path

node, num, size = os.environ["NODE_RANK"], int(sys.argv[1]), int(sys.argv[2])
least_s = float(sys.argv[3])
import numpy
left = numpy.random.default_rng(0).random((192, 192))
began, cpu, steps, written = time.perf_counter(), time.process_time(), 0, 0
while written < num or time.perf_counter() - began < least_s:
    left = left @ left
    left /= numpy.abs(left).max()
    steps += 1
    share = (time.perf_counter() - began) / least_s
    if written < num and written < share * num:
        path = Path(f"data-{node}", str(written // 100), f"{written}.bin")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(f"{node}/{written}").randbytes(size))
        written += 1
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
print("rate", steps / wall, steps / cpu, flush=True)
"""
DOCUMENT = """
name: writes
entrypoint: train.py {num} {size} {seconds}
launcher: shell
resources: {{slots: 2, nodes: 2}}
{outputs}
"""


def run_once(
    stack: Stack,
    client: Client,
    folder: Path,
    args: argparse.Namespace,
    *,
    outputs: str,
    kill: bool,
) -> tuple[Rates, int]:
    """Run the job; return its rates, means of both nodes, and the id of its trial."""
    size = args.megabytes * 2**20 // args.files
    text = DOCUMENT.format(
        num=args.files // 2,
        size=size,
        seconds=args.seconds,
        outputs=outputs.replace("EVERY_S", f"{args.every:g}"),
    )
    (folder / "experiment.yaml").write_text(text)
    subprocess.run(
        [sys.executable, "-m", "muster.cli", "submit", "experiment.yaml"],
        cwd=folder,
        env=Stack.environment(stack.home),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    experiment_id = max(e["id"] for e in client.get("/experiments")["items"])
    (trial,) = client.trials(experiment_id)
    if kill:
        objects = stack.home.glob("**/outputs/objects/??/*")
        wait_for("files are collected", lambda: any(objects), 300)
        stack.kill_part("agent-local-1")
        stack.kill_part("server")
    client.wait(experiment_id, timeout_s=args.seconds + 600)
    rates = [
        (float(line["text"].split()[1]), float(line["text"].split()[2]))
        for line in client.log_lines(experiment_id=experiment_id)
        if line["text"].startswith("rate ")
    ]
    assert len(rates) == 2, f"{len(rates)} nodes told their rate"
    if outputs == WITH:
        wait_for(
            "all is collected",
            lambda: client.get(f"/trials/{trial['id']}/outputs/summary")["state"] == "complete",
            900,
        )
    wall, cpu = zip(*rates, strict=True)
    return (statistics.mean(wall), statistics.mean(cpu)), int(trial["id"])


def differing(client: Client, stack: Stack, trial_id: int, args: argparse.Namespace) -> list[str]:
    """Return what is not as the job wrote it."""
    size = args.megabytes * 2**20 // args.files
    found: dict[str, Any] = {
        file["path"]: file["sha256"] for file in client.pages(f"/trials/{trial_id}/outputs")
    }
    wrong = []
    for node in range(2):
        for no in range(args.files // 2):
            path = f"data-{node}/{no // 100}/{no}.bin"
            digest = hashlib.sha256(random.Random(f"{node}/{no}").randbytes(size)).hexdigest()
            if found.get(path) != digest:
                wrong.append(path)
    for part in stack.home.glob("**/outputs/objects/??/*"):
        if hashlib.sha256(part.read_bytes()).hexdigest() != part.name:
            wrong.append(str(part))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200, help="of all files")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs")
    parser.add_argument("--seconds", type=float, default=90, help="of one run, at least")
    parser.add_argument("--every", type=float, default=30, help="outputs.every_s")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory(prefix="muster-outputs-") as name:
        folder = Path(name) / "code"
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPT)
        stack = Stack(Path(name) / "home", agents=2, slots=1)
        stack.start()
        try:
            with stack.client() as client:
                ratios = []
                for no in range(args.rounds):
                    rates = {}
                    for way in (WITH, WITHOUT) if no % 2 == 0 else (WITHOUT, WITH):
                        rates[way], _ = run_once(
                            stack, client, folder, args, outputs=way, kill=False
                        )
                    wall, cpu = (a / b for a, b in zip(rates[WITH], rates[WITHOUT], strict=True))
                    ratios.append((wall, cpu))
                    print(json.dumps({"round": no, "wall": wall, "processor": cpu}), flush=True)
                _, trial_id = run_once(stack, client, folder, args, outputs=WITH, kill=True)
                wrong = differing(client, stack, trial_id, args)
        finally:
            stack.close()
    print(
        f"{args.files:,} files of {args.megabytes:,} MiB on two nodes, load {os.getloadavg()[0]:.1f} at "
        "the end; throughput with outputs as a share of that without:"
    )
    for name, found in zip(("wall clock", "processor"), zip(*ratios, strict=True), strict=True):
        median = statistics.median(found)
        print(f"  {name}: {median:.3f} (n {len(found)}, {min(found):.3f} to {max(found):.3f})")
    print(f"{len(wrong):,} files differ after a restart of an agent and the server: {wrong[:5]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
