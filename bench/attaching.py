"""What it costs a script that knows nothing of Muster to be measured from outside.

    python bench/attaching.py [--pairs 12] [--steps 120]

A small transformer trains on two workers with torch's DDP, fully_shard or DTensor over gloo. In turn, in an
order drawn by chance, its processes start as they are, and as an agent starts them: with
`muster.launch.attach` put in at the start of Python, reporting over a unix socket to a reader of its own. The first 40 steps are
not timed: meanwhile it is found how many are recorded. The ratio of a pair is the median step without over that with it:
throughput with measuring as a share of that without. Printed: its median with a 95 % interval by resampling,
that of runs without it against each other (A/A), and the longer start. Goal: 0.99. Takes some five minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import paired

import muster

KINDS = ("ddp", "fsdp", "tp")
parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
parser.add_argument("--pairs", type=int, default=12)
parser.add_argument("--steps", type=int, default=120, help="timed ones of each run")
parser.add_argument("--only", default=",".join(KINDS), help="which, separated by commas")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


READER = """
import selectors, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()
selector = selectors.DefaultSelector(); selector.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
        elif not key.fileobj.recv(65536):
            selector.unregister(key.fileobj)
"""
SCRIPT = Path(__file__).with_name("plain_training.py")
SITE = str(Path(muster.__file__).parent / "launch" / "attach_site")


def trained(kind: str, folder: Path, *, is_measured: bool) -> dict[str, float]:
    """What rank 0 of two workers says of a run."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    own |= {"OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.randint(20_000, 30_000))}
    if is_measured:
        own |= {
            "MUSTER_CONFIG_FILE": str(folder / "config.json"),
            "MUSTER_REPORT_SOCKET": str(folder / "socket"),
            "PYTHONPATH": SITE,
        }
    command = [sys.executable, str(SCRIPT), kind, str(args.steps)]
    began = time.time()
    workers = [
        subprocess.Popen(
            command, env={**own, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=subprocess.PIPE
        )
        for r in (0, 1)
    ]
    told = [worker.communicate()[0] for worker in workers]
    if any(worker.returncode for worker in workers):
        raise SystemExit(f"{kind}: a worker failed")
    said = json.loads(told[0])
    return {"step_s": said["step_s"], "start_s": said["first_at"] - began}


def main() -> None:
    print(f"{args.pairs} pairs of runs of {args.steps} steps, two workers")
    print(f"{'kind':6} {'step':>9}   {'measured':20}   {'A/A':20}  start    load")
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="mat") as made:
        folder = Path(made)
        (folder / "config.json").write_text(json.dumps({"config": {}, "seed": 1}))
        reader = subprocess.Popen([sys.executable, "-c", READER, str(folder / "socket")])
        while not (folder / "socket").exists():
            time.sleep(0.01)
        try:
            for kind in args.only.split(","):
                plain, ratios, starts = [], [], []
                for i in range(args.pairs + 1):
                    took = {
                        way: trained(kind, folder, is_measured=way)
                        for way in draw.sample((False, True), 2)
                    }
                    if i == 0:  # the first one reads torch from the disk
                        continue
                    plain.append(took[False]["step_s"])
                    ratios.append(took[False]["step_s"] / took[True]["step_s"])
                    starts.append(took[True]["start_s"] - took[False]["start_s"])
                null = [a / b for a, b in itertools.pairwise(plain)]
                cells = [
                    "{:.3f} [{:.3f}, {:.3f}]".format(
                        *paired.interval([(x, 1.0) for x in values], args.seed)
                    )
                    for values in (ratios, null)
                ]
                print(
                    f"{kind:6} {statistics.median(plain) * 1e3:6.1f} ms   {cells[0]:20}   {cells[1]:20}"
                    f"  {statistics.median(starts):+.2f} s  {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
        finally:
            reader.terminate()
            reader.wait()


main()
