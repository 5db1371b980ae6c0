"""Measure recovery, part by part: from the kill of a rank to the next new step of a gang of two nodes.

The gang runs a plain script, or the built-in trainer, on this machine, as two agents with one slot each. One
of its ranks is killed 40 steps after a checkpoint. Each run with a warm parent is paired with one without
any (`environment: {warm: false}`).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.guides import last_id, shell
from support.quick_stack import QuickStack
from support.stack import wait_for

SAVE_AT, KILL_AT = 360, 400
TELL = """
import json, os, time
out = open(f"{os.environ['TRUTH']}.{os.environ['RANK']}", "a", buffering=1)
def say(kind, **more):
    print(json.dumps(dict(kind=kind, at=time.time(), pid=os.getpid(), **more)), file=out)
say("process")
"""
SCRIPT = f"""{TELL}
import torch, muster
import torch.distributed as dist
dist.init_process_group("gloo")
run = muster.init()
rank = dist.get_rank()
say("met")
big = torch.zeros(int(float(os.environ["GB"]) * 250e6))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step = 0
if run.resume_from:
    began = time.time()
    big.copy_(torch.load(run.resume_from / "m.pt")["big"])
    step = run.resume_step
    say("loaded", took=time.time() - began)
while step < 5000:
    loss = model(torch.ones(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.02)
    optimizer.step()
    step += 1
    run.log({{"train/loss": loss.item()}}, step=step)
    if step == {SAVE_AT}:
        if rank == 0:
            with run.checkpoint(step=step) as folder:
                torch.save({{"big": big}}, folder / "m.pt")
        dist.barrier()
    say("step", step=step)
"""
OWN_MODEL = f"""{TELL}
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 2)
        zeros = torch.zeros(int(float(os.environ["GB"]) * 250e6))
        self.big = torch.nn.Parameter(zeros, requires_grad=False)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.has_run = False
    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            if self.has_run:
                say("step", step=int(self.step))  # the one before is over
            time.sleep(0.02)
            self.step += 1
            self.has_run = True
        return self.linear(x)
def net(inputs, classes):
    return Net()
def samples():
    pair = torch.ones(40_000, 8), torch.zeros(40_000, dtype=torch.int64)
    few = pair[0][:8], pair[1][:8]
    return {{"train": pair, "val": few, "test": few}}
"""
TRAINER = f"""
trainer: {{model: "nets:net", data: "nets:samples", batch_size: 4, epochs: 1}}
code: {{path: .}}
checkpoints: {{every: {{steps: {SAVE_AT}}}}}
"""
PARTS = ("stopped", "placed", "prepared", "launched", "met", "first step", "new step")


def measure(gb: float, *, is_warm: bool, is_built_in: bool = False) -> dict[str, float]:
    """Return seconds since the kill at the end of each part, and how long loading took."""
    with tempfile.TemporaryDirectory(prefix="muster-recovery-") as name:
        folder = Path(name)
        stack = QuickStack(folder / "home", agents=2, slots=1)
        stack.start()
        try:
            return _measure(stack, folder, gb, is_warm=is_warm, is_built_in=is_built_in)
        finally:
            stack.close()


def _measure(
    stack: QuickStack, folder: Path, gb: float, *, is_warm: bool, is_built_in: bool
) -> dict[str, float]:
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    (code / "nets.py").write_text(OWN_MODEL)
    (code / "e.yaml").write_text(
        f"name: recovery\n{TRAINER if is_built_in else 'entrypoint: train.py'}\n"
        "resources: {slots: 2, max_nodes: 2}\n"
        f"environment: {{warm: {str(is_warm).lower()}, "
        f"variables: {{TRUTH: {folder}/truth, GB: '{gb}'}}}}\n"
    )
    shell(stack, "muster submit e.yaml", code).check_returncode()

    def told(rank: int, kind: str) -> list[dict[str, Any]]:
        path = Path(f"{folder}/truth.{rank}")
        lines = path.read_text().splitlines() if path.exists() else []
        return [found for line in lines if (found := json.loads(line))["kind"] == kind]

    wait_for("steps", lambda: any(s["step"] >= KILL_AT for s in told(1, "step")), 300, every_s=0.05)
    before = told(1, "step")[-1]
    killed_at = time.time()
    os.kill(before["pid"], signal.SIGKILL)
    first_pid = told(0, "process")[0]["pid"]

    def new() -> dict[str, Any] | None:
        later = [s for s in told(0, "step") if s["pid"] != first_pid]
        return next((s for s in later if s["step"] > before["step"]), None)

    found = wait_for("a new step", new, 300, every_s=0.02)

    def own(kind: str) -> float:
        return next(float(x["at"]) for x in told(0, kind) if x["pid"] == found["pid"])

    with stack.client() as client:
        trial = client.trials(last_id(stack))[0]["id"]
        events = client.get(f"/trials/{trial}/events", limit=200)["items"]
    at = {
        part: max(_seconds(e["at"]) for e in events if words in e["message"])
        for part, words in (
            ("stopped", "is RETRY_WAIT"),
            ("placed", "Attempt 2 got"),
            ("prepared", "Attempt 2 is STARTING"),
            ("launched", "Attempt 2 is RUNNING"),
        )
    }
    at |= {
        "met": own("process" if is_built_in else "met"),
        "first step": own("step"),
        "new step": found["at"],
    }
    loading = max((x["took"] for x in told(0, "loaded")), default=0.0)
    return {part: when - killed_at for part, when in at.items()} | {"loading": loading}


def _seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=0.001, help="size of the checkpoint")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--trainer", action="store_true", help="the built-in trainer, not a script")
    given = parser.parse_args(arguments)
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for _ in range(given.times):
        for warm, runs in found.items():
            runs.append(measure(given.gb, is_warm=warm, is_built_in=given.trainer))
            print(
                "warm" if warm else "cold",
                {k: round(v, 2) for k, v in runs[-1].items()},
                flush=True,
            )
    for warm, runs in found.items():
        medians = {p: statistics.median(r[p] for r in runs) for p in (*PARTS, "loading")}
        ends = [0.0, *(medians[p] for p in PARTS)]
        parts = [f"{p} {b - a:.2f}" for p, a, b in zip(PARTS, ends, ends[1:], strict=False)]
        print(f"{'warm' if warm else 'cold'}: {', '.join(parts)}; loading {medians['loading']:.2f}")


if __name__ == "__main__":
    main()
