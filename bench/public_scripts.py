"""Unchanged public training scripts: do they start, keep their files, go on, and show a loss?

    python bench/public_scripts.py CHECKOUTS --python ENVIRONMENT/bin/python [--only nanoGPT,makemore]

CHECKOUTS is a folder with a clone of every repository that `CASES` names. The interpreter needs the
packages that the scripts import: torch, numpy, matplotlib, pandas, scikit-learn, tensorboard, lightning,
accelerate, xgboost-cpu, lightgbm, mlflow, gymnasium and tyro.

Each script runs twice on a real `muster up` with two nodes, as `muster run` starts it. The first run is left
alone: the table says how it ended, which files are kept, how many steps were measured, and which metrics
came of it without a changed line. The second is paused and resumed; then its agent is killed with SIGKILL,
and after that its shim. The table says which of these it was there for, and how it ended.

Exits 1 when a run that should complete does not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from muster.client import Client
from support.stack import Stack, processes_of, wait_for

RUN_S = 420
FINAL = {"COMPLETED", "FAILED", "CANCELED"}


@dataclass(frozen=True)
class Case:
    """A public script, and how its documentation says to start it."""

    name: str
    folder: str
    """The folder that is sent, below CHECKOUTS."""
    command: str
    slots: int = 1
    nodes: int = 1
    launcher: str | None = None
    prepare: Callable[[Path], None] | None = None
    """What its documentation says to do first, such as making its data."""
    options: tuple[str, ...] = ()
    """Options of `muster run` beside those above."""


def nano_gpt(folder: Path) -> None:
    text = folder.parent / "examples/distributed/minGPT-ddp/mingpt/data/input.txt"
    data = folder / "data/shakespeare_char"
    shutil.copy(text, data / "input.txt")
    # The script that makes the data imports `requests`, which it needs only to download the text.
    code = "import sys; sys.modules['requests'] = sys; exec(open('prepare.py').read())"
    code = f"__file__ = {str(data / 'prepare.py')!r}; {code}"
    subprocess.run([sys.executable, "-c", code], cwd=data, check=True, stdout=subprocess.DEVNULL)


def word_language_model(folder: Path) -> None:
    """Make do with 300 lines: the repository leaves out the text that its README has downloaded."""
    data = folder / "data/wikitext-2"
    lines = (data / "test.txt").read_text().splitlines(keepends=True)[:300]
    for name in ("train.txt", "valid.txt", "test.txt"):
        (data / name).write_text("".join(lines))


def sine_waves(folder: Path) -> None:
    subprocess.run([sys.executable, "generate_sine_wave.py"], cwd=folder, check=True)


NANO_GPT = (
    "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 "
    "--eval_interval=20 --log_interval=1 --block_size=32 --batch_size=4 --n_layer=2 --n_head=2 "
    "--n_embd=32 --max_iters=400 --lr_decay_iters=400 --dropout=0.0"
)
PATHS = ("--env", "PYTHONPATH=.")
LIGHTNING = "pytorch-lightning/examples"
CASES = [
    Case(
        "nanoGPT",
        "nanoGPT",
        f"python {NANO_GPT}",
        launcher="plain",
        prepare=nano_gpt,
        options=("--include", "*.bin", "--include", "*.pkl"),
    ),
    Case(
        "minGPT adder",
        "minGPT",
        "python projects/adder/adder.py --trainer.max_iters=600",
        options=PATHS,
    ),
    Case("makemore", "makemore", "python makemore.py --max-steps 1500 --n-layer 1 --n-embd 16"),
    Case(
        "word language model",
        "examples/word_language_model",
        "python main.py --epochs 1 --emsize 32 --nhid 32 --bptt 16 --log-interval 20",
        prepare=word_language_model,
    ),
    Case("regression", "examples/regression", "python main.py"),
    Case(
        "sine waves",
        "examples/time_sequence_prediction",
        "python train.py --steps 2",
        prepare=sine_waves,
    ),
    Case("RPC and RNN", "examples/distributed/rpc/rnn", "python main.py", launcher="plain"),
    Case("Lightning bug report", f"{LIGHTNING}/pytorch/bug_report", "python bug_report_model.py"),
    Case(
        "Lightning bug report, 2 workers",
        f"{LIGHTNING}/pytorch/bug_report",
        "torchrun bug_report_model.py",
        slots=2,
        nodes=2,
    ),
    Case(
        "accelerate own test", "single/empty", "-m accelerate.test_utils.scripts.test_ops", slots=2
    ),
    Case(
        "accelerate launch",
        "single/empty",
        "accelerate launch -m accelerate.test_utils.scripts.test_sync",
        slots=2,
    ),
    Case(
        "XGBoost walk-through",
        "xgboost",
        "python demo/guide-python/basic_walkthrough.py",
        launcher="plain",
    ),
    Case(
        "XGBoost evals_result",
        "xgboost",
        "python demo/guide-python/evals_result.py",
        launcher="plain",
    ),
    Case(
        "XGBoost continuation",
        "xgboost",
        "python demo/guide-python/continuation.py",
        launcher="plain",
    ),
    Case(
        "LightGBM simple",
        "LightGBM/examples",
        "python python-guide/simple_example.py",
        launcher="plain",
    ),
    Case(
        "LightGBM sklearn",
        "LightGBM/examples",
        "python python-guide/sklearn_example.py",
        launcher="plain",
    ),
    Case(
        "XGBoost scikit-learn",
        "xgboost",
        "python demo/guide-python/sklearn_evals_result.py",
        launcher="plain",
    ),
    Case("MLflow quickstart", "single/mlflow", "python mlflow_tracking.py", launcher="plain"),
    Case(
        "CleanRL DQN",
        "cleanrl",
        "python cleanrl/dqn.py --total-timesteps 20000 --learning-starts 1000 --no-cuda",
        options=PATHS,
    ),
    Case("shell script", "single/shell", "bash run.sh", slots=2),
]


class Run:
    """One submission of a case."""

    def __init__(
        self, stack: Stack, client: Client, case: Case, folder: Path, python: Path
    ) -> None:
        self.stack, self.client = stack, client
        options = ["-n", str(case.slots), "--python", str(python), "--json", "--detach"]
        options += ["--nodes", str(case.nodes)] if case.nodes > 1 else []
        options += ["--launcher", case.launcher] if case.launcher else []
        options += ["--set", "outputs.every_s=10", *case.options]
        done = subprocess.run(
            [sys.executable, "-m", "muster.cli", "run", *options, "--", *case.command.split()],
            cwd=folder,
            env=stack.environment(stack.home),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        self.id = int(json.loads(done.stdout)["id"])
        self.trial_id = int(client.trials(self.id)[0]["id"])

    @property
    def trial(self) -> dict[str, Any]:
        return dict(self.client.get(f"/trials/{self.trial_id}"))

    @property
    def state(self) -> str:
        return str(self.client.experiment(self.id)["state"])

    def end(self) -> str:
        return wait_for(
            "it ends", lambda: self.state if self.state in FINAL else None, RUN_S, every_s=0.5
        )

    def speaks(self, after: int = 0) -> bool:
        """Wait until an attempt after that number has written a line of its own; False if it ended."""

        def found() -> str | None:
            if self.state in FINAL:
                return "ended"
            no = int(self.trial["attempt_no"] or 0)
            if no <= after or self.trial["state"] != "RUNNING":
                return None
            lines = self.client.log_lines(self.trial_id, attempt=no)
            return "speaks" if any(line["stream"] == "stdout" for line in lines) else None

        return wait_for("it writes a line", found, 120, every_s=0.2) == "speaks"

    def shims(self) -> list[psutil.Process]:
        return [
            p for p in processes_of(self.stack.home) if "muster_agent.shim" in " ".join(p.cmdline())
        ]


def left_alone(run: Run) -> dict[str, Any]:
    state = run.end()
    run.client.wait_for_outputs(run.trial_id, timeout_s=60)
    files = run.client.outputs(run.trial_id)
    names = [m["name"] for m in run.client.get(f"/trials/{run.trial_id}/metrics")["items"]]
    own = [name for name in names if name.split("/")[0] not in MEASURED]
    return {
        "state": state,
        "reason": run.trial.get("reason") if state != "COMPLETED" else None,
        "files": len(files),
        "kB": round(sum(file["size_bytes"] or 0 for file in files) / 1000, 1),
        "metrics": own,
        "measured": "time/step_ms" in names,
    }


MEASURED = {"time", "comm", "throughput", "memory", "progress", "system", "straggler", "pipeline"}


def interrupted(run: Run) -> dict[str, Any]:
    """Pause and resume; kill -9 of its agent; kill -9 of its shim. Stop early where it has ended."""
    met: list[str] = []
    if run.speaks():
        with contextlib.suppress(Exception):
            run.client.post(f"/experiments/{run.id}:pause")
            wait_for("it pauses", lambda: run.state in {"PAUSED", *FINAL}, 60)
        if run.state == "PAUSED":
            met.append("pause")
            run.client.post(f"/experiments/{run.id}:resume")
    if run.state not in FINAL and run.speaks(after=1):
        (node, *_) = run.trial["attempts"][0]["nodes"]
        run.stack.kill_part(f"agent-{node}")
        met.append("agent")
        if run.state not in FINAL and run.shims():
            with contextlib.suppress(psutil.Error):
                os.kill(run.shims()[0].pid, signal.SIGKILL)
                met.append("shim")
    state = run.end()
    return {"met": met, "state": state, "attempts": run.trial["attempt_no"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    args = parser.parse_args()
    only = {name for name in args.only.split(",") if name}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        stack = Stack(Path(home) / "home")
        try:
            stack.start()
            with stack.client() as client:
                for case in CASES:
                    if only and case.name not in only:
                        continue
                    folder = args.checkouts / case.folder
                    row: dict[str, Any] = {"case": case.name}
                    try:
                        if case.prepare:
                            case.prepare(folder)
                        row |= left_alone(Run(stack, client, case, folder, args.python))
                        row |= {"then": interrupted(Run(stack, client, case, folder, args.python))}
                    except (RuntimeError, AssertionError, OSError) as error:
                        row["error"] = str(error)
                    print(json.dumps(row), flush=True)
                    rows.append(row)
        finally:
            stack.close()
    return int(any(row.get("state") != "COMPLETED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
