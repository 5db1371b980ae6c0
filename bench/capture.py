"""What it costs a script that its logged values are captured.

    python bench/capture.py [--pairs 12] [--seconds 10] [--rate 200]

A script multiplies matrices and logs `--rate` values a second with tensorboardX's `SummaryWriter`; another
one multiplies them and imports no library that is captured. In turn, in an order drawn by chance, each
starts as it is, and as an agent starts it: with `muster.launch.attach` put in at the start of Python,
reporting over a unix socket to a reader of its own. Steps are not measured, so the difference is that of
capturing alone. The ratio of a pair is the median step without capturing over that with it. Printed: its
median with a 95 % interval by resampling, that of runs without it against each other (A/A), the share of
processor time that the process spends more, and the values that the reader got. Goal: 0.99 at 200
values a second. Takes some eight minutes.
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
from muster.capture.libraries import LIBRARIES

CASES = ("logging", "nothing")
VALUES_PER_STEP = 10
parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
parser.add_argument("--pairs", type=int, default=12)
parser.add_argument("--seconds", type=float, default=10.0, help="timed seconds of each run")
parser.add_argument("--rate", type=float, default=200.0, help="logged values a second")
parser.add_argument("--only", default=",".join(CASES), help="which, separated by commas")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

SCRIPT = """
import json, sys, time
import numpy as np
case, step_s, num_steps, per_step, work = sys.argv[1], *map(float, sys.argv[2:6])
if case == "logging":
    from tensorboardX import SummaryWriter
    writer = SummaryWriter("board")
a = np.random.default_rng(0).normal(size=(256, 256))
def step(number):
    for _ in range(int(work)):
        np.dot(a, a)
    if case == "logging":
        for each in range(int(per_step)):
            writer.add_scalar(f"value/{each}", number / 3, number)
if not work:  # How many products take a step's time.
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 1.0:
        np.dot(a, a)
        count += 1
    print(max(1, int(count * step_s)))
    raise SystemExit
took, spent = [], time.process_time()
for number in range(int(num_steps)):
    began = time.perf_counter()
    step(number)
    took.append(time.perf_counter() - began)
took.sort()
print(json.dumps({"step_s": took[len(took) // 2], "cpu_s": time.process_time() - spent}))
"""
READER = """
import json, selectors, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()
selector = selectors.DefaultSelector(); selector.register(listener, selectors.EVENT_READ)
count, rest = 0, b""
while True:
    for key, _ in selector.select():
        if key.fileobj is listener:
            selector.register(listener.accept()[0], selectors.EVENT_READ)
        elif data := key.fileobj.recv(1 << 20):
            *lines, rest = (rest + data).split(b"\\n")
            for line in map(json.loads, lines):
                count += sum(len(s["values"]) for s in line.get("series", ()))
            open(sys.argv[2], "w").write(str(count))
        else:
            selector.unregister(key.fileobj)
"""
SITE = str(Path(muster.__file__).parent / "launch" / "attach_site")


def run(case: str, folder: Path, work: int, *, is_captured: bool) -> dict[str, float]:
    """What the script says of a run; with work 0, how many products a step takes."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    own |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if is_captured:
        own |= {
            "MUSTER_REPORT_SOCKET": str(folder / "socket"),
            "MUSTER_ATTACH": " ".join(LIBRARIES),
            "MUSTER_ATTACH_UNRANKED": "1",
            "PYTHONPATH": SITE,
        }
    step_s = VALUES_PER_STEP / args.rate
    given = [case, step_s, round(args.seconds / step_s), VALUES_PER_STEP, work]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, given)],
        cwd=folder, env=own, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    return said if isinstance(said, dict) else {"work": said}


def main() -> None:
    print(f"{args.pairs} pairs of runs of {args.seconds:g} s, {args.rate:g} values a second")
    print(f"{'case':8} {'step':>9}   {'captured':20}   {'A/A':20}  processor   values   load")
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="mcp") as made:
        folder = Path(made)
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(folder / "socket"), str(folder / "count")]
        )
        while not (folder / "socket").exists():
            time.sleep(0.01)
        try:
            work = int(run("nothing", folder, 0, is_captured=False)["work"])
            for case in args.only.split(","):
                plain, ratios, spent, before = [], [], [], num_values(folder)
                for i in range(args.pairs + 1):
                    took = {
                        way: run(case, folder, work, is_captured=way)
                        for way in draw.sample((False, True), 2)
                    }
                    if i == 0:  # the first one reads the libraries from the disk
                        continue
                    plain.append(took[False]["step_s"])
                    ratios.append(took[False]["step_s"] / took[True]["step_s"])
                    spent.append(took[True]["cpu_s"] / took[False]["cpu_s"] - 1)
                null = [a / b for a, b in itertools.pairwise(plain)]
                cells = [
                    "{:.3f} [{:.3f}, {:.3f}]".format(
                        *paired.interval([(x, 1.0) for x in values], args.seed)
                    )
                    for values in (ratios, null or [1.0])
                ]
                print(
                    f"{case:8} {statistics.median(plain) * 1e3:6.1f} ms   {cells[0]:20}   {cells[1]:20}"
                    f"  {statistics.median(spent):+9.2%}  {num_values(folder) - before:7}"
                    f"  {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
        finally:
            reader.terminate()
            reader.wait()


def num_values(folder: Path) -> int:
    """Values that the reader has got so far."""
    count = folder / "count"
    return int(count.read_text() or 0) if count.exists() else 0


main()
