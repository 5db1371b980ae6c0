"""What the planner predicts against what trainings take: memory of tensors and bytes on the network.

    OMP_NUM_THREADS=1 python bench/planner.py [--workers 2] [--json]

Trains each built-in model with each strategy for a few steps in `--workers` processes over gloo and
follows every allocation of torch on the CPU (torch's own profiler of memory): the most that was
allocated at once in a step is what the planner predicts, without interpreter and libraries. Bytes on
the network are those that the trainer's own measuring counts. Both repeat exactly from run to run; of
time this says nothing. Goal: memory within 10 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

GPT = {"model": "gpt", "data": "shakespeare", "width": 128, "depth": 4, "heads": 4, "context": 64}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("mlp ddp", {"model": "mlp", "width": 512, "depth": 3}, {"kind": "ddp"}),
    ("cnn ddp", {"model": "cnn", "width": 16, "depth": 2}, {"kind": "ddp"}),
    ("resnet ddp", {"model": "resnet", "width": 16, "depth": 2}, {"kind": "ddp"}),
    ("vit ddp", {"model": "vit", "width": 64, "depth": 3}, {"kind": "ddp"}),
    ("gpt ddp", GPT, {"kind": "ddp"}),
    ("gpt ddp bf16", GPT, {"kind": "ddp", "precision": "bf16"}),
    ("gpt ddp accumulate 2", GPT, {"kind": "ddp", "accumulate": 2}),
    ("gpt ddp recompute", GPT, {"kind": "ddp", "recompute": True}),
    ("gpt ddp fp16 compression", GPT, {"kind": "ddp", "compression": "fp16"}),
    ("gpt zero1", GPT, {"kind": "zero1"}),
    ("gpt fsdp", GPT, {"kind": "fsdp"}),
    ("gpt fsdp, no reshard", GPT, {"kind": "fsdp", "reshard": False}),
    ("gpt tp", GPT, {"kind": "tp"}),
    ("gpt pp 1f1b", GPT, {"kind": "pp", "blocks_per_stage": [2, 2]}),
    ("gpt pp gpipe", GPT, {"kind": "pp", "schedule": "gpipe", "blocks_per_stage": [2, 2]}),
    ("gpt local_sgd", GPT, {"kind": "local_sgd", "sync_every": 1}),
    ("gpt diloco", GPT, {"kind": "diloco", "sync_every": 1}),
    ("gpt ps", GPT, {"kind": "ps"}),
]
BATCH_SIZE = 16
STEPS = 3


def work(folder: Path) -> None:
    """One worker: train, and say the most that was allocated at once in the last step."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    import muster
    from muster.document.train_config import resolve
    from muster.training import strategies, tasks
    from muster.training.loop import train

    torch.set_num_threads(1)
    made, create = tasks.make, strategies.create

    def make(*args: Any, **kwargs: Any) -> Any:
        task = made(*args, **kwargs)
        with record_function("bench: data are there"):
            return task

    def build(*args: Any, **kwargs: Any) -> Any:
        strategy = create(*args, **kwargs)
        step = strategy.step

        def marked(*args: Any, **kwargs: Any) -> Any:
            with record_function("bench: step"):
                return step(*args, **kwargs)

        strategy.step = marked
        return strategy

    tasks.make, strategies.create = make, build
    run = muster.init()
    document = json.loads((folder / "document.json").read_text())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        train(run, resolve(document, {}, seed=0))
    trace = folder / f"trace.{run.info.rank}.json"
    profiler.export_chrome_trace(str(trace))
    events = json.loads(trace.read_text())["traceEvents"]
    trace.unlink()
    totals = sorted(
        (e["ts"], e["args"]["Total Allocated"])
        for e in events
        if e.get("name") == "[memory]" and e["args"].get("Device Type") == 0
    )
    ready = next(e["ts"] for e in events if e.get("name") == "bench: data are there")
    steps = sorted(
        (e["ts"], e["dur"]) for e in events if e.get("name") == "bench: step" and "dur" in e
    )
    begin, length = steps[-1]
    data = ([0] + [t for at, t in totals if at <= ready])[-1]
    before = [t for at, t in totals if at <= begin][-1:]
    peak = max(before + [t for at, t in totals if begin <= at <= begin + length])
    (folder / f"peak.{run.info.rank}").write_text(str(peak - data))
    run.close()


def measure(workers: int, document: dict[str, Any]) -> tuple[int, dict[str, float]]:
    """(the most bytes of any worker, "group/kind" → bytes per step of the worker that sends most)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "document.json").write_text(json.dumps(document))
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--work", name],
                env={
                    **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(workers), "LOCAL_WORLD_SIZE": str(workers),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                    "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
                    "MUSTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
                },
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for rank in range(workers)
        ]  # fmt: skip
        if sum(p.wait() for p in processes):
            raise SystemExit(f"a worker failed: {document}")
        job = Job(folder, [])
        sent: dict[str, float] = {}
        for rank in range(workers):
            row = job.rows(rank)[STEPS]
            for metric, value in row.items():
                if (
                    metric.startswith("comm/")
                    and metric.count("/") == 3
                    and metric.endswith("/bytes")
                ):
                    key = metric.removeprefix("comm/").removesuffix("/bytes")
                    sent[key] = max(sent.get(key, 0.0), value)
        peak = max(int(path.read_text()) for path in folder.glob("peak.*"))
    return peak, sent


def predict(workers: int, trainer: dict[str, Any], strategy: dict[str, Any]) -> tuple[Any, Any]:
    model = layer_table(TrainConfig(**{"data": "synthetic", **trainer}))
    job = PlannedJob(
        model=model, options=StrategySection(**strategy), slots=workers, batch_size=BATCH_SIZE
    )
    return memory(job), traffic(job)


def main() -> None:
    rows = []
    if not args.json:
        print(f"{args.workers} workers, {platform.machine()}, batch_size {BATCH_SIZE}")
        print(
            "| case | predicted MB | measured MB | ratio | sent, predicted MB | sent, measured MB |"
        )
        print("|---|--:|--:|--:|--:|--:|", flush=True)
    for name, trainer, strategy in CASES:
        if args.only and args.only not in name:
            continue
        document = {
            "trainer": {
                "data": "synthetic", "samples": 512, "steps": STEPS, "batch_size": BATCH_SIZE, "test": False, **trainer,
                "options": {"rows_per_s": 0},
            },
            "resources": {"slots": args.workers},
            "strategy": strategy,
            "checkpoints": {"every": None, "async": False},
        }  # fmt: skip
        measured, sent = measure(args.workers, document)
        predicted, told = predict(args.workers, trainer, strategy)
        told_bytes = sum(t.num_bytes for t in told)
        rows.append(
            {
                "case": name,
                "predicted_bytes": round(predicted.total),
                "measured_bytes": measured,
                "ratio": predicted.total / measured,
                "parts": dataclasses.asdict(predicted),
                "sent_predicted_bytes": round(told_bytes),
                "sent_measured_bytes": round(sum(sent.values())),
                "sent_by_kind": sent,
            }
        )
        if not args.json:
            print(_line(rows[-1]), flush=True)
    if args.json:
        print(json.dumps({"workers": args.workers, "cases": rows}, indent=1))


def _line(row: dict[str, Any]) -> str:
    memory_cells = [f"{row[k] / 1e6:.2f}" for k in ("predicted_bytes", "measured_bytes")]
    sent_cells = [f"{row[k] / 1e6:.2f}" for k in ("sent_predicted_bytes", "sent_measured_bytes")]
    cells = [row["case"], *memory_cells, f"{row['ratio']:.2f}", *sent_cells]
    return f"| {' | '.join(cells)} |"


parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--only", help="cases whose name contains this")
parser.add_argument("--json", action="store_true")
parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
args = parser.parse_args()
if args.work is not None:
    work(args.work)
else:
    from muster.document.strategy import StrategySection
    from muster.document.train_config import TrainConfig
    from muster.training.layer_table import layer_table
    from muster_server.domain.insight.planner.memory import PlannedTraining as PlannedJob
    from muster_server.domain.insight.planner.memory import memory
    from muster_server.domain.insight.planner.traffic import traffic
    from support.training.jobs import Job

    main()
