"""The planner's time of a step against what trainings take, over a link of a known rate. Needs root and tc.

    .venv/bin/python bench/planner_time.py [--models mlp gpt] [--mbit 400] [--base ddp] [--workers 2]

Two agents in network namespaces (shaped_cluster.py), or four with `--workers 4`, which hsdp needs. Of each model one scaling report is made, of the
strategy `--base` over 1, 2 (and 4) workers; then every strategy trains, and what the planner expected of it stands beside what it took, as
the trial's page has it (`GET /api/v1/trials/{id}/plan`). Goal: within 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

from shaped_cluster import POLL_S, ShapedCluster

from support.stack import wait_for

MODELS: dict[str, dict[str, Any]] = {
    "mlp": {"model": "mlp", "data": "digits", "batch_size": 32, "width": 512, "depth": 3},
    "gpt": {
        "model": "gpt", "data": "shakespeare", "batch_size": 8,
        "width": 128, "depth": 4, "heads": 4, "context": 64,
    },
}  # fmt: skip
STRATEGIES: dict[str, dict[str, Any]] = {
    "ddp": {"kind": "ddp"},
    "ddp, accumulate 2": {"kind": "ddp", "accumulate": 2},
    "ddp, compression fp16": {"kind": "ddp", "compression": "fp16"},
    "zero1": {"kind": "zero1"},
    "fsdp": {"kind": "fsdp"},
    "fsdp, reshard false": {"kind": "fsdp", "reshard": False},
    "tp": {"kind": "tp"},
    "pp 1f1b, accumulate 4": {"kind": "pp", "schedule": "1f1b", "accumulate": 4},
    "pp zero_bubble, accumulate 4": {"kind": "pp", "schedule": "zero_bubble", "accumulate": 4},
    "local_sgd": {"kind": "local_sgd", "sync_every": 1},
    "hsdp": {"kind": "hsdp", "mesh": {"replicate": 2}},
}
parser = argparse.ArgumentParser()
parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
parser.add_argument("--mbit", type=float, default=400)
parser.add_argument("--base", default="ddp", choices=list(STRATEGIES))
parser.add_argument("--workers", type=int, default=2, choices=(2, 4))
parser.add_argument("--only", nargs="*", choices=list(STRATEGIES), help="strategies")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()
BLOCKS = {"tp", "pp"}
"""Kinds that divide blocks: an mlp has none."""


def document(name: str, model: str, strategy: dict[str, Any], *, probe: str = "") -> str:
    return json.dumps(
        {
            "name": name,
            "trainer": {**MODELS[model], "steps": args.steps},
            "resources": {"slots": args.workers},
            "strategy": strategy,
            "hyperparameters": {"probe": probe} if probe else {},
        }
    )


def report_of(model: str) -> None:
    base = cluster.train(document(f"{model} base", model, STRATEGIES[args.base]))
    experiment_id = cluster.client.get(f"/trials/{base}")["experiment_id"]
    body = {
        "slots": [1, 2, 4][: args.workers // 2 + 1],
        "repeats": args.repeats,
        "steps": args.steps,
    }
    report = cluster.client.post(f"/experiments/{experiment_id}/scaling-reports", body)
    path = f"/scaling-reports/{report['id']}"
    wait_for(
        "the scaling report",
        lambda: cluster.client.get(path)["state"] != "running",
        timeout_s=900,
        every_s=POLL_S,
    )


def compared(model: str, name: str) -> dict[str, Any]:
    strategy = STRATEGIES[name]
    plans = []
    for number in range(1, args.repeats + 1):
        text = document(f"{model} {name}", model, strategy, probe=f"as_is/{number}")
        plans.append(cluster.client.get(f"/trials/{cluster.train(text)}/plan"))
    expected = plans[0]["step_ms"]
    took_ms = statistics.median(p["measured_step_ms"] for p in plans)
    return {
        "model": model,
        "strategy": name,
        "expected_ms": None if expected is None else round(expected["value"], 1),
        "took_ms": round(took_ms, 1),
        "off_pct": None if expected is None else round(100 * (expected["value"] / took_ms - 1), 1),
        "runs": len(plans),
        "source": plans[0]["time_source"],
    }


found: list[dict[str, Any]] = []
with ShapedCluster(num_nodes=args.workers) as cluster:
    cluster.set_mbit_per_s(args.mbit)
    for model in args.models:
        report_of(model)
        for name, strategy in STRATEGIES.items():
            if args.only is not None and name not in args.only:
                continue
            if strategy["kind"] == "hsdp" and args.workers < 4:
                continue
            if model == "gpt" or strategy["kind"] not in BLOCKS:
                found.append(compared(model, name))
                print(json.dumps(found[-1]), flush=True)
print(
    json.dumps(
        {
            "mbit_per_s": args.mbit,
            "workers": args.workers,
            "base": args.base,
            "steps": args.steps,
            "cases": found,
            "host_cpus": os.cpu_count(),
            "load_1m": round(os.getloadavg()[0], 2),
        },
        indent=1,
    )
)
