"""What Muster says of communication, against links whose bandwidth is known. Needs root and tc.

    .venv/bin/python bench/known_link.py

Two agents in network namespaces, joined at a set rate; everything is read from Muster's REST API of
real torchrun trainings of the built-in trainer. Three questions:

* exposed: `comm/exposed_ms` against the difference of the step to the same training without
  synchronisation (the probe no_sync). Goal: within 5 %.
* bandwidth: bus bandwidth of the all-reduce against the rate of the link. Goal: within 5 %.
* unseen: a scaling report over 1 and 2 workers at one rate predicts the step at other rates,
  against trainings at those. Goal: within 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

from shaped_cluster import POLL_S, ShapedCluster

from muster_server.domain.insight.steps import PARTS
from support.stack import wait_for

parser = argparse.ArgumentParser()
parser.add_argument("--mbit", type=float, default=200, help="rate that is measured")
parser.add_argument("--unseen", type=float, nargs="*", default=[100, 400])
parser.add_argument("--width", type=int, default=1024, help="of the mlp: 4 layers of so many units")
parser.add_argument("--steps", type=int, default=25)
parser.add_argument("--repeats", type=int, default=3)
args = parser.parse_args()


def document(name: str, *, probe: str = "") -> str:
    hparams = {"probe": probe} if probe else {}
    return json.dumps(
        {
            "name": name,
            "trainer": {
                "model": "mlp", "data": "digits", "batch_size": 16, "steps": args.steps,
                "width": args.width, "depth": 4,
            },
            "resources": {"slots": 2},
            "strategy": {"kind": "ddp"},
            "hyperparameters": hparams,
        }
    )  # fmt: skip


def measured(trial_id: int) -> dict[str, Any]:
    """Over the last steps: the first ones pay for connections."""
    return cluster.client.get(f"/trials/{trial_id}/performance", rows=args.steps - 5)


def mean_of(found: dict[str, Any], part: str) -> float:
    if part == "step":
        return statistics.fmean(r["step_ms"] for r in found["ranks"])
    return statistics.fmean(r["parts"].get(part, 0.0) for r in found["ranks"])


def off_pct(value: float, truth: float) -> float:
    return round(100 * (value / truth - 1), 2)


def exposed_and_bandwidth(rate: float) -> dict[str, Any]:
    pairs = []
    for repeat in range(1, args.repeats + 1):
        synced = measured(cluster.train(document(f"link {rate:g}", probe=f"as_is/{repeat}")))
        free = measured(cluster.train(document("no sync", probe=f"no_sync/{repeat}")))
        (reduced,) = (t for t in synced["traffic"] if t["kind"] == "all_reduce")
        pairs.append(
            {
                "step_ms": mean_of(synced, "step"),
                "without_sync_ms": mean_of(free, "step"),
                "exposed_ms": mean_of(synced, "comm/exposed_ms"),
                "bus_mbit_per_s": reduced["bus_bytes_per_s"] * 8 / 1e6,
                "bytes_per_step": reduced["num_bytes"],
                **{
                    f"more_{part.partition('/')[2]}": mean_of(synced, part) - mean_of(free, part)
                    for part in PARTS
                    if part != "comm/exposed_ms"
                },
            }
        )
    medians = {name: statistics.median(p[name] for p in pairs) for name in pairs[0]}
    difference = statistics.median(p["step_ms"] - p["without_sync_ms"] for p in pairs)
    return {
        "mbit_per_s": rate,
        **{name: round(value, 2) for name, value in medians.items()},
        "difference_ms": round(difference, 2),
        "exposed_off_pct": off_pct(medians["exposed_ms"], difference),
        "bandwidth_off_pct": off_pct(medians["bus_mbit_per_s"], rate),
        "pairs": len(pairs),
    }


def unseen() -> list[dict[str, Any]]:
    base = cluster.train(document("base"))
    experiment_id = cluster.client.get(f"/trials/{base}")["experiment_id"]
    body = {"slots": [1, 2], "repeats": args.repeats, "steps": args.steps}
    report = cluster.client.post(f"/experiments/{experiment_id}/scaling-reports", body)
    path = f"/scaling-reports/{report['id']}"

    def end() -> bool:
        return bool(cluster.client.get(path)["state"] != "running")

    wait_for("the scaling report", end, timeout_s=1800, every_s=POLL_S)
    found = []
    for rate in args.unseen:
        cluster.set_mbit_per_s(rate)
        told = cluster.client.get(
            path, slots=2, bandwidth_mbit_per_s=rate, measured_bandwidth_mbit_per_s=args.mbit
        )
        (predicted,) = (p for p in told["predictions"] if p["network"] != "measured")
        runs = [
            measured(cluster.train(document(f"unseen {rate:g}", probe=f"as_is/{n}")))
            for n in range(1, args.repeats + 1)
        ]
        step_ms = statistics.median(mean_of(one, "step") for one in runs)
        last = runs[-1]
        found.append(
            {
                "mbit_per_s": rate,
                "measured_at_mbit_per_s": args.mbit,
                "step_ms": round(step_ms, 2),
                "predicted_ms": round(predicted["step_ms"]["value"], 2),
                "off_pct": off_pct(predicted["step_ms"]["value"], step_ms),
                "predicted_parts_ms": {
                    name: round(predicted[name], 2)
                    for name in ("compute_ms", "communication_ms", "exposed_ms", "other_ms")
                },
                "parts_ms": {part: round(mean_of(last, part), 2) for part in PARTS},
                "runs": len(runs),
            }
        )
    return found


with ShapedCluster(num_nodes=2) as cluster:
    cluster.set_mbit_per_s(args.mbit)
    result = {
        "link": exposed_and_bandwidth(args.mbit),
        "unseen": unseen(),
        "steps": args.steps,
        "host_cpus": os.cpu_count(),
        "load_1m": round(os.getloadavg()[0], 2),
    }
print(json.dumps(result, indent=1))
