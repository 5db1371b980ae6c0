"""Diagnoses of real trainings with two workers whose bottleneck was put there. Needs root and tc.

    .venv/bin/python bench/diagnose_real.py

Eight cases, two per kind of bottleneck, on agents in network namespaces (shaped_cluster.py): a model that
computes long, a link that is slow, a loader or a rank that sleeps, a node whose workers are stopped for a
part of the time, as a processor too hot does it; there a third agent has a place to go to. The verdict must
be right; where the advice can be launched and predicts a gain, it is, and what it achieved is told beside.
Goal: eight verdicts right, and the gain within 5 points of the achieved one. Takes some 25 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psutil
from shaped_cluster import POLL_S, ShapedCluster

from support.stack import wait_for

FAST_MBIT = 20_000
SMALL = {"model": "mlp", "width": 64}
LARGE = {"model": "mlp", "width": 768, "depth": 4}
CNN = {"model": "cnn", "width": 64, "batch_size": 512}


@dataclass(frozen=True)
class Case:
    name: str
    verdict: str
    trainer: dict[str, Any]
    mbit: float = FAST_MBIT
    inject: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    stopped: float = 0.0
    """Share of the time in which the node of the last rank is stopped."""


def late(*ranks: int, ms: float, phase: str) -> tuple[dict[str, Any], ...]:
    return tuple({"rank": rank, "ms": ms, "phase": phase} for rank in ranks)


CASES = [
    Case("long forward", "compute", SMALL, inject=late(0, 1, ms=60, phase="forward")),
    Case("cnn", "compute", CNN),
    Case("slow link", "communication", LARGE, mbit=200),
    Case("slower link", "communication", LARGE, mbit=100),
    Case("slow loader", "data", SMALL, inject=late(0, 1, ms=40, phase="data_wait")),
    Case("slower loader", "data", SMALL, inject=late(0, 1, ms=120, phase="data_wait")),
    Case("slow rank", "straggler", SMALL, inject=late(1, ms=60, phase="forward")),
    Case("slow node", "straggler", CNN, stopped=0.4),
]

parser = argparse.ArgumentParser()
parser.add_argument("--cases", type=int, nargs="*", default=list(range(len(CASES))))
parser.add_argument("--steps", type=int, default=60, help="of a probe, and of what is launched")
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()


def diagnosed(case: Case) -> dict[str, Any]:
    cluster.set_mbit_per_s(case.mbit)
    options = {"inject": list(case.inject)} if case.inject else {}
    document = {
        "name": case.name,
        "trainer": {**case.trainer, "steps": args.steps, "options": options},
        "resources": {"slots": 2},
        "checkpoints": {"every": None},
    }
    trial = cluster.train(json.dumps(document))
    with slowed(cluster.node_of(trial, rank=1), case.stopped):
        return judged(case, trial)


def judged(case: Case, trial: int) -> dict[str, Any]:
    body = {"repeats": args.repeats, "steps": args.steps}
    path = f"/diagnoses/{cluster.client.post(f'/trials/{trial}/diagnoses', body)['id']}"

    def verdict() -> dict[str, Any] | None:
        found = cluster.client.get(path)
        return found if found["state"] != "running" else None

    found = wait_for(f"the verdict on {case.name}", verdict, timeout_s=1800, every_s=POLL_S)
    told = {
        "case": case.name,
        "wanted": case.verdict,
        "verdict": found["verdict"],
        "shares": {name: round(share["value"], 3) for name, share in found["shares"].items()},
        "ok": found["verdict"] == case.verdict,
    }
    for advice in found["advice"]:
        if advice["overrides"] and advice["gain"] is not None and not advice["is_bound"]:
            return {**told, **achieved(path, advice)}
    return told


@contextlib.contextmanager
def slowed(node: int, share: float) -> Iterator[None]:
    """Stop the workers of a node for that share of the time, twenty times a second."""
    is_over = threading.Event()

    def stop_and_go() -> None:
        while not is_over.is_set():
            workers = cluster.workers(node)
            for _ in range(20):
                for worker in workers:
                    tell(worker, signal.SIGSTOP)
                is_over.wait(share / 20)
                for worker in workers:
                    tell(worker, signal.SIGCONT)
                is_over.wait((1 - share) / 20)

    thread = threading.Thread(target=stop_and_go)
    if share:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        if share:
            thread.join()


def tell(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def achieved(path: str, advice: dict[str, Any]) -> dict[str, Any]:
    made = cluster.client.post(f"{path}:apply", {"advice": advice["kind"]})
    (mine,) = (a for a in made["advice"] if a["kind"] == advice["kind"])
    cluster.trial_of(mine["applied"][-1]["experiment_id"])
    (mine,) = (a for a in cluster.client.get(path)["advice"] if a["kind"] == advice["kind"])
    gain, got = advice["gain"]["value"], mine["applied"][-1]["achieved"]
    return {
        "advice": advice["kind"],
        "predicted_pct": round(100 * gain, 1),
        "achieved_pct": None if got is None else round(100 * got, 1),
        "off_points": None if got is None else round(100 * (gain - got), 1),
    }


cases = []
for number in args.cases:
    case = CASES[number]
    with ShapedCluster(num_nodes=3 if case.stopped else 2) as cluster:
        cases.append(diagnosed(case))
    print(json.dumps(cases[-1]), file=sys.stderr, flush=True)
result = {
    "cases": cases,
    "right": sum(case["ok"] for case in cases),
    "repeats": args.repeats,
    "steps": args.steps,
    "host_cpus": os.cpu_count(),
    "load_1m": round(os.getloadavg()[0], 2),
}
print(json.dumps(result, indent=1))
sys.exit(result["right"] != len(cases))
