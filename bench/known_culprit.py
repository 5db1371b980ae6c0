"""Whether the rank that holds up the others is named, and with which share, where that is known.

    .venv/bin/python bench/known_culprit.py

Two workers of the built-in trainer; what the server would say of their rows (domain/insight/steps.py):

* a rank that sleeps in forward, and one whose data come late: named, with the part of its step,
  and the share of the others' step within 5 points of sleep / step;
* a pipeline whose second stage sleeps: the imbalance within 5 points of what the sleep makes of it;
* clean runs: nobody is named.

A rank that hangs is in tests/training/test_stuck.py: nothing is measured of it, it is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import StepAnalysis, analyse
from support.training.jobs import Job, start_job

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--sleep-ms", type=float, nargs="*", default=[10, 30, 100])
parser.add_argument("--clean", type=int, default=20, help="runs without a culprit")
args = parser.parse_args()

SKIPPED = 5
"""First steps: they pay for connections and caches."""
POINTS = 0.05


def trained(folder: Path, **trainer: Any) -> Job:
    strategy = trainer.pop("strategy", {"kind": "ddp"})
    options = {"width": 16, "rows_per_s": 0, **trainer.pop("options", {})}
    wanted = {"model": "cnn", "steps": args.steps, **trainer, "options": options}
    return start_job(folder, workers=2, document={"trainer": wanted, "strategy": strategy}).wait(
        timeout_s=600
    )


def judged(job: Job) -> StepAnalysis:
    ranks = {}
    for rank in (0, 1):
        rows = {s: row for s, row in job.rows(rank).items() if s > SKIPPED}
        names = {name for row in rows.values() for name in row}
        ranks[rank] = {n: {s: row[n] for s, row in rows.items() if n in row} for n in names}
    groups = {
        g["name"]: ProcessGroup(name=g["name"], ranks=tuple(g["ranks"])) for g in job.lines("group")
    }
    return analyse(ranks, list(groups.values()))


def median(job: Job, name: str, rank: int) -> float:
    return statistics.median(v for s, v in job.series(name, rank).items() if s > SKIPPED)


def slowed(folder: Path, phase: str, ms: float) -> dict[str, Any]:
    inject = [{"rank": 1, "ms": ms, "phase": phase}]
    job = trained(folder, options={"inject": inject})
    found = judged(job).culprit
    truth = ms / median(job, "time/step_ms", 0)
    share = found.share if found is not None else 0.0
    is_right = found is not None and (found.rank, found.part) == (1, f"time/{phase}_ms")
    return {
        "case": f"{phase} sleeps {ms:g} ms",
        "named": None if found is None else [found.rank, found.part],
        "share": round(share, 3),
        "truth": round(truth, 3),
        "ok": is_right and abs(share - truth) <= POINTS,
    }


def unbalanced(folder: Path, ms: float) -> dict[str, Any]:
    options = {
        "depth": 2, "width": 32, "context": 32,
        "inject": [{"rank": 1, "ms": ms, "phase": "forward"}],
    }  # fmt: skip
    strategy = {"kind": "pp", "accumulate": 2}
    job = trained(folder, model="gpt", data="shakespeare", options=options, strategy=strategy)
    found = judged(job)
    # The two stages, by what their own parts say: the sleep is in the second one's forward.
    compute = [
        median(job, "time/forward_ms", rank) + median(job, "time/backward_ms", rank)
        for rank in (0, 1)
    ]
    truth = max(compute) / statistics.fmean(compute) - 1
    told = found.imbalance if found.imbalance is not None else 0.0
    slowest = max(found.stages, key=lambda s: s.compute_ms)
    return {
        "case": f"stage 1 sleeps {ms:g} ms per micro-batch",
        "named": slowest.stage,
        "imbalance": round(told, 3),
        "truth": round(truth, 3),
        "ok": slowest.stage == 1 and abs(told - truth) <= POINTS,
    }


with tempfile.TemporaryDirectory(prefix="mkc") as name:
    place = Path(name)
    cases = [
        slowed(place / f"{phase}-{ms:g}", phase, ms)
        for phase in ("forward", "data_wait")
        for ms in args.sleep_ms
    ]
    cases += [unbalanced(place / f"stage-{ms:g}", ms) for ms in args.sleep_ms]
    blamed = []
    for number in range(args.clean):
        found = judged(trained(place / f"clean-{number}")).culprit
        if found is not None:
            blamed.append([found.rank, found.part, round(found.share, 3)])
result = {
    "cases": cases,
    "clean_runs": args.clean,
    "blamed_in_clean_runs": blamed,
    "steps": args.steps,
    "host_cpus": os.cpu_count(),
    "load_1m": round(os.getloadavg()[0], 2),
}
print(json.dumps(result, indent=1))
sys.exit(not all(case["ok"] for case in cases) or bool(blamed))
