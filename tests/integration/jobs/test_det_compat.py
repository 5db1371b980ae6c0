"""A script of Determined's Core API in a real job: translated, paused, resumed."""

from __future__ import annotations

from pathlib import Path

from muster.client import Client
from support.stack import Stack, wait_for

CONFIG = """
name: counting
entrypoint: python3 count.py
hyperparameters:
  increment: {type: const, val: 2}
searcher: {name: single, metric: x}
resources: {slots_per_trial: 2}
"""
SCRIPT = """
import sys, time
import determined as det

info = det.get_cluster_info()
if len(sys.argv) == 1:
    import subprocess
    slots = len(info.slot_ids)
    workers = [
        subprocess.Popen([sys.executable, "-m", "determined.launch.wrap_rank", str(rank), "--",
                          sys.executable, __file__, str(rank), str(slots)])
        for rank in range(slots)
    ]
    sys.exit(max(worker.wait() for worker in workers))

rank, size = int(sys.argv[1]), int(sys.argv[2])
distributed = det.core.DistributedContext(
    rank=rank, size=size, local_rank=rank, local_size=size, cross_rank=0, cross_size=1)
with det.core.init(distributed=distributed) as context:
    x, done = 0, 0
    if info.latest_checkpoint is not None:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            x, done = map(int, (path / "state").read_text().split())
        if rank == 0:
            print(f"continues after {done}", flush=True)
    last = 400 if done == 0 else done + 3
    for step in range(done + 1, last + 1):
        x += sum(distributed.allgather(info.trial.hparams["increment"]))
        time.sleep(0.05)
        if rank == 0:
            context.train.report_training_metrics(step, {"x": x})
        if context.preempt.should_preempt():
            if rank == 0:
                with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                    (path / "state").write_text(f"{x} {step}")
            sys.exit(0)
    if rank == 0:
        context.train.report_validation_metrics(last, {"x": x})
"""


def test_a_translated_experiment_is_paused_and_continues(
    stack: Stack, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "const.yaml").write_text(CONFIG)
    (tmp_path / "count.py").write_text(SCRIPT)
    document = tmp_path / "experiment.yaml"
    done = stack.cli(
        "import", "determined", str(tmp_path / "const.yaml"), "--model-dir", str(tmp_path),
        "--slot-type", "cpu", "-o", str(document),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The server accepts the result." in done.stderr
    experiment = client.submit(document)
    number = int(experiment["id"])

    def step() -> int:
        trials = client.trials(number)
        return trials[0]["step"] if trials else 0

    wait_for("it counts", lambda: step() >= 3)
    client.pause(number)
    wait_for("it is paused", lambda: client.experiment(number)["state"] == "PAUSED")
    client.resume(number)
    assert client.wait(number, timeout_s=120)["state"] == "COMPLETED"
    (trial,) = client.trials(number)
    (saved,) = client.checkpoints(trial["id"])
    counted = client.series(trial["id"], "train/x")
    assert counted["value"] == [4.0 * n for n in counted["step"]], "two workers, each adds 2"
    assert counted["step"][-1] == saved["step"] + 3
    assert client.series(trial["id"], "val/x")["value"] == [4.0 * (saved["step"] + 3)]
    text = [line["text"] for line in client.log_lines(trial["id"])]
    assert any(f"continues after {saved['step']}" in line for line in text)
