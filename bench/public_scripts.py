"""Unchanged public training scripts: do they start, show their loss, keep their files and go on?

    PYTHONPATH=tests python bench/public_scripts.py CHECKOUTS --python ENVIRONMENT/bin/python

CHECKOUTS is a folder with a clone of each repository that `CASES` names. The interpreter needs what the
scripts import: torch, torchvision, matplotlib, pandas, scikit-learn, tensorboard, tensorboardX, lightning,
transformers, accelerate, keras, fastai, xgboost-cpu, lightgbm, mlflow, wandb, gymnasium, tyro and
deepspeed. Scripts that are not of a repository are those of tests/libraries, which are written as the
documentation of their library shows.

Each script runs twice on a real `muster up` with two nodes, as `muster run` starts it. The first run is
left alone. The table says how it ended, which files are kept, and how many of the values that the library
itself recorded the trial's series have, equal by name, step and number: those of its event files or of its
own history, else those that the script printed, which are read here by other means than Muster's. The
second run is paused and resumed; then its agent is killed with SIGKILL, and after that its shim. The table
says which of these it was there for, and how it ended.

Each row is a line of JSON; the Markdown table comes last. Exits 1 when a run that should complete does not,
or when a value differs.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from muster.client import Client
from support.stack import Stack, processes_of, wait_for

ROOT = Path(__file__).parent.parent
RUN_S = 420
FINAL = {"COMPLETED", "FAILED", "CANCELED"}


Series = dict[str, dict[int, float]]
"""Name, step, value."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended: what its library may have recorded."""

    lines: list[str]
    """Standard output of rank 0."""
    outputs: Path
    """Folder with the files that were kept."""
    python: Path
    """Interpreter of the script."""

    def asked(self, code: str) -> Series:
        """Return what code prints as JSON, which runs in the script's interpreter with the folder
        as its argument."""
        done = subprocess.run(
            [str(self.python), "-c", code, str(self.outputs)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2_000:])
        return {
            name: {int(step): float(value) for step, value in values.items()}
            for name, values in json.loads(done.stdout.splitlines()[-1]).items()
        }


Record = Callable[[Finished], Series]


@dataclass(frozen=True)
class Case:
    """A public script, and how its documentation says to start it."""

    name: str
    folder: str
    """The folder that is sent, below CHECKOUTS; an absolute one is of this project; "" for an empty one."""
    command: str
    record: Record | None = None
    """Returns what the library recorded; None for a script that shows no loss."""
    slots: int = 1
    nodes: int = 1
    launcher: str | None = None
    prepare: Callable[[Path], None] | None = None
    """What its documentation says to do first, such as making its data."""
    options: tuple[str, ...] = ()
    """Options of `muster run` beside those above."""
    tolerance: float = 0.0
    """Difference up to which values are equal, where the script prints fewer digits than it logs."""
    stop_after_s: float | None = None
    """Time after which a training of hours is stopped."""


def printed(*shapes: tuple[str, ...]) -> Record:
    """Read what was printed: each shape is a pattern and the names of its groups. The group `step`
    is the step; without it, values are counted."""

    def read(run: Finished) -> Series:
        found: Series = {}
        for line in run.lines:
            for pattern, *names in shapes:
                for match in re.finditer(pattern, line):
                    values = dict(zip(names, match.groups(), strict=True))
                    step = values.pop("step", None)
                    for name, value in values.items():
                        if value is not None:
                            series = found.setdefault(name, {})
                            series[len(series) if step is None else int(step)] = float(value)
        return found

    return read


def event_files(run: Finished) -> Series:
    """Read the event files with TensorBoard's own reader; Muster has Lightning's epochs beside the
    values, not as a metric."""
    return run.asked(
        "import json, sys\n"
        "from pathlib import Path\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "found = {}\n"
        "for folder in {p.parent for p in Path(sys.argv[1]).rglob('*tfevents*')}:\n"
        "    events = EventAccumulator(str(folder), size_guidance={'scalars': 0}).Reload()\n"
        "    for tag in {*events.Tags()['scalars']} - {'epoch'}:\n"
        "        found.setdefault(tag, {}).update({e.step: e.value for e in events.Scalars(tag)})\n"
        "print(json.dumps(found))"
    )


def own_history(run: Finished) -> Series:
    """Read what a script of tests/libraries wrote down of its library's history."""
    (path,) = run.outputs.rglob("expected.json")
    found = json.loads(path.read_text())
    return {name: {int(step): v for step, v in values.items()} for name, values in found.items()}


def keras_history(run: Finished) -> Series:
    """Read the `History.history` that the script prints; Muster counts batches."""
    (line,) = [line for line in run.lines if line.startswith("{'acc': [")]
    history = json.loads(line.replace("'", '"'))
    return {
        name: {1_250 * (epoch + 1): value for epoch, value in enumerate(values)}
        for name, values in history.items()
    }


SEEDED = "import random, runpy; random.seed(1); runpy.run_path('mlflow_tracking.py', run_name='__main__')"


def mlflow_quickstart(run: Finished) -> Series:
    """Draw the numbers that the script logs; of several at step 0 the last one stays."""
    drawn = random.Random(1)
    drawn.randint(0, 100)
    foo = [drawn.random() + n for n in range(3)]
    return {"foo": {0: foo[-1]}, "accuracy 2": {0: drawn.random()}}


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


def as_mnist(images: Path) -> None:
    """Write scikit-learn's digits as MNIST's files, as there is no network to fetch those."""
    import numpy as np
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    digits = load_digits()
    pixels = np.kron(digits.images * 15, np.ones((1, 3, 3)))
    pixels = np.pad(pixels, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    images.mkdir(parents=True, exist_ok=True)
    for part, chosen in (("train", slice(0, 1_500)), ("t10k", slice(1_500, None))):
        few, labels = pixels[chosen], digits.target[chosen].astype(np.uint8)
        head = struct.pack(">4i", 0x803, len(few), 28, 28)
        (images / f"{part}-images-idx3-ubyte").write_bytes(head + few.tobytes())
        head = struct.pack(">2i", 0x801, len(labels))
        (images / f"{part}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    for path in images.glob("*ubyte"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))


def mnist(folder: Path) -> None:
    as_mnist(folder / "data/MNIST/raw")


NANO_GPT = (
    "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2 "
    "--eval_interval=20 --log_interval=1 --block_size=32 --batch_size=4 --n_layer=2 --n_head=2 "
    "--n_embd=32 --max_iters=400 --lr_decay_iters=400 --dropout=0.0"
)
NUMBER = r"(-?\d+\.?\d*(?:e[+-]?\d+)?)"
PATHS = ("--env", "PYTHONPATH=.")
DATA = ("--include", "data")
LIGHTNING = "pytorch-lightning/examples"
LIBRARIES = str(ROOT / "tests/libraries/scripts")
TRAIN_LOSS = (rf"\tLoss: {NUMBER}", "Loss")
XGBOOST = (rf"^\[(\d+)\]\teval-logloss:{NUMBER}\ttrain-logloss:{NUMBER}",)
CASES = [
    Case(
        "nanoGPT",
        "nanoGPT",
        f"python {NANO_GPT}",
        printed(
            (rf"^iter (\d+): loss {NUMBER}", "step", "loss"),
            (
                rf"^step (\d+): train loss {NUMBER}, val loss {NUMBER}",
                "step",
                "train_loss",
                "val_loss",
            ),
        ),
        launcher="plain",
        prepare=nano_gpt,
        options=("--include", "*.bin", "--include", "*.pkl"),
    ),
    Case(
        "minGPT adder",
        "minGPT",
        "python projects/adder/adder.py --trainer.max_iters=600",
        printed((rf"iter (\d+): train loss {NUMBER}", "step", "train_loss")),
        options=PATHS,
    ),
    Case(
        "makemore",
        "makemore",
        "python makemore.py --max-steps 1500 --n-layer 1 --n-embd 16",
        event_files,
    ),
    Case(
        "bigram of the GPT lecture",
        "ng-video-lecture",
        "python bigram.py",
        printed(
            (
                rf"^step (\d+): train loss {NUMBER}, val loss {NUMBER}",
                "step",
                "train_loss",
                "val_loss",
            )
        ),
    ),
    Case(
        "MNIST",
        "examples",
        "bash -c 'cd mnist && python main.py --epochs 2 --no-accel'",
        printed(TRAIN_LOSS, (rf"Average loss: {NUMBER}", "Average_loss")),
        prepare=mnist,
        options=DATA,
    ),
    Case(
        "ImageNet with dummy data",
        "examples/imagenet",
        "python main.py --dummy -a squeezenet1_1 -b 2 -j 0 -p 1 --epochs 1 --no-accel",
        printed((rf"^Epoch: \[0\]\[ *\d+/\d+\].*\tLoss {NUMBER} ", "Loss")),
        stop_after_s=60,
    ),
    Case(
        "VAE",
        "examples",
        "bash -c 'cd vae && python main.py --epochs 2 --no-accel'",
        printed(
            TRAIN_LOSS,
            (rf"Average loss: {NUMBER}", "Average_loss"),
            (rf"Test set loss: {NUMBER}", "Test_set_loss"),
        ),
        prepare=mnist,
        options=DATA,
    ),
    Case(
        "actor-critic",
        "examples/reinforcement_learning",
        "python actor_critic.py",
        printed(
            (
                rf"^Episode (\d+)\tLast reward: {NUMBER}\tAverage reward: {NUMBER}",
                "step",
                "Last_reward",
                "Average_reward",
            )
        ),
        stop_after_s=60,
    ),
    Case(
        "word language model",
        "examples/word_language_model",
        "python main.py --epochs 1 --emsize 32 --nhid 32 --bptt 16 --log-interval 20",
        printed(
            (rf"\| ms/batch .* \| loss +{NUMBER} \| ppl +{NUMBER}", "loss", "ppl"),
            (rf"\| valid loss +{NUMBER} \| valid ppl +{NUMBER}", "valid_loss", "valid_ppl"),
        ),
        prepare=word_language_model,
    ),
    Case(
        "regression",
        "examples/regression",
        "python main.py",
        printed((rf"^Loss: {NUMBER} after", "Loss")),
    ),
    Case(
        "linear regression tutorial",
        "pytorch-tutorial/tutorials/01-basics/linear_regression",
        "python main.py",
        printed((rf"^Epoch \[\d+/\d+\], Loss: {NUMBER}", "Loss")),
    ),
    Case("RPC and RNN", "examples/distributed/rpc/rnn", "python main.py", launcher="plain"),
    Case(
        "Lightning bug report",
        f"{LIGHTNING}/pytorch/bug_report",
        "python bug_report_model.py",
        event_files,
    ),
    Case(
        "Lightning bug report on 2 nodes",
        f"{LIGHTNING}/pytorch/bug_report",
        "torchrun bug_report_model.py",
        # Its two workers train independently, and both write event files.
        slots=2,
        nodes=2,
    ),
    Case("Lightning with CSVLogger", LIBRARIES, "python use_lightning.py", own_history),
    Case("Hugging Face Trainer", LIBRARIES, "python use_transformers.py", own_history),
    Case("Accelerate tracking", LIBRARIES, "python use_accelerate.py", own_history),
    Case("accelerate own test", "", "-m accelerate.test_utils.scripts.test_ops", slots=2),
    Case(
        "accelerate launch",
        "",
        "accelerate launch -m accelerate.test_utils.scripts.test_sync",
        slots=2,
    ),
    Case("TensorBoard tutorial", LIBRARIES, "python use_torch_writer.py", own_history),
    Case(
        "tensorboardX purge_step",
        "tensorboardX",
        "python examples/demo_purge.py",
        event_files,
        launcher="plain",
    ),
    Case("wandb quickstart", LIBRARIES, "python use_wandb.py", own_history, launcher="plain"),
    Case("fastai learner", LIBRARIES, "python use_fastai.py", own_history),
    Case(
        "Keras functional demo",
        "keras/examples",
        "python demo_functional.py",
        keras_history,
        options=("--env", "KERAS_BACKEND=torch"),
    ),
    Case(
        "XGBoost walk-through",
        "xgboost",
        "python demo/guide-python/basic_walkthrough.py",
        printed((*XGBOOST, "step", "eval/logloss", "train/logloss")),
        tolerance=6e-6,
        launcher="plain",
    ),
    Case(
        "XGBoost evals_result",
        "xgboost",
        "python demo/guide-python/evals_result.py",
        printed(
            (
                rf"^\[(\d+)\]\teval-logloss:{NUMBER}\teval-error:{NUMBER}\t"
                rf"train-logloss:{NUMBER}\ttrain-error:{NUMBER}",
                "step",
                "eval/logloss",
                "eval/error",
                "train/logloss",
                "train/error",
            )
        ),
        tolerance=6e-6,
        launcher="plain",
    ),
    Case(
        "XGBoost continuation",
        "xgboost",
        "python demo/guide-python/continuation.py",
        launcher="plain",
    ),
    Case(
        "XGBoost scikit-learn",
        "xgboost",
        "python demo/guide-python/sklearn_evals_result.py",
        printed(
            (
                rf"^\[(\d+)\]\tvalidation_0-logloss:{NUMBER}\tvalidation_1-logloss:{NUMBER}",
                "step",
                "validation_0/logloss",
                "validation_1/logloss",
            )
        ),
        tolerance=6e-6,
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
    Case("scikit-learn search", LIBRARIES, "python use_sklearn.py", own_history, launcher="plain"),
    Case(
        "MLflow quickstart",
        "mlflow/examples/quickstart",
        f'python -c "{SEEDED}"',
        mlflow_quickstart,
        launcher="plain",
    ),
    Case(
        "CleanRL DQN",
        "cleanrl",
        "python cleanrl/dqn.py --total-timesteps 20000 --learning-starts 1000 --no-cuda",
        event_files,
        options=PATHS,
    ),
    Case(
        "shell script",
        str(ROOT / "examples/plain-torchrun"),
        "bash -c 'seq 1000 > numbers.txt && torchrun train.py && echo done'",
        printed((rf"^rank 0 epoch \d+/\d+ loss {NUMBER}", "loss")),
        slots=2,
    ),
    Case(
        "DeepSpeed ZeRO",
        str(ROOT / "examples/deepspeed-zero"),
        "torchrun train.py --stage 1",
        slots=2,
    ),
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
        words = shlex.split(case.command)
        done = subprocess.run(
            [sys.executable, "-m", "muster.cli", "run", *options, "--", *words],
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


def left_alone(run: Run, case: Case, python: Path, folder: Path) -> dict[str, Any]:
    if case.stop_after_s and run.speaks():
        deadline = time.monotonic() + case.stop_after_s
        wait_for(
            "its time is over",
            lambda: time.monotonic() > deadline or run.state in FINAL,
            case.stop_after_s + 10,
            every_s=0.5,
        )
        if run.state not in FINAL:
            run.client.stop(run.id)
    state = run.end()
    run.client.wait_for_outputs(run.trial_id, timeout_s=60)
    files = run.client.outputs(run.trial_id)
    names = [m["name"] for m in run.client.metrics(run.trial_id)]
    own = {name for name in names if name.split("/")[0] not in MEASURED}
    found = {
        "state": state,
        "is_right": state == ("CANCELED" if case.stop_after_s else "COMPLETED"),
        "reason": run.trial.get("reason") if state != "COMPLETED" else None,
        "files": len(files),
        "kB": round(sum(file["size_bytes"] or 0 for file in files) / 1000, 1),
        "metrics": sorted(own),
        "measured": "time/step_ms" in names,
    }
    if case.record is None:
        return found
    run.client.download_outputs(run.trial_id, folder)
    lines = [
        str(line["text"])
        for line in run.client.log_lines(run.trial_id)
        if line["stream"] == "stdout" and (line["rank"] or 0) <= 0
    ]
    recorded = case.record(Finished(lines, folder, python))
    return found | compared(recorded, shown(run, recorded), case.tolerance)


def shown(run: Run, recorded: Mapping[str, Any]) -> Series:
    series: Series = {}
    if recorded:
        frame = run.client.series(run.trial_id, *recorded)
        for name, step, value in zip(frame["name"], frame["step"], frame["value"], strict=True):
            series.setdefault(name, {})[step] = value
    return series


def compared(recorded: Series, series: Series, tolerance: float) -> dict[str, Any]:
    """Count the values that are equal, and name the first that is not."""
    num, different = 0, ""
    for name, values in recorded.items():
        for step, value in values.items():
            got = series.get(name, {}).get(step)
            if got is not None and (
                math.isclose(got, value, rel_tol=1e-6, abs_tol=tolerance)
                or (math.isnan(got) and math.isnan(value))
            ):
                num += 1
            else:
                different = different or f"{name} at {step}: {got}, not {value}"
    total = sum(len(values) for values in recorded.values())
    return {"equal": num, "recorded": total, "different": different}


MEASURED = {"time", "comm", "throughput", "memory", "progress", "system", "straggler", "pipeline"}


def interrupted(run: Run, case: Case) -> dict[str, Any]:
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
    if case.stop_after_s:
        with contextlib.suppress(AssertionError):
            run.speaks(after=2)
        run.client.stop(run.id)
    state = run.end()
    reason = None if state == "COMPLETED" else run.trial.get("reason")
    return {"met": met, "state": state, "attempts": run.trial["attempt_no"], "reason": reason}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--quick", action="store_true", help="leave out the second run")
    args = parser.parse_args()
    only = {name for name in args.only.split(",") if name}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        stack = Stack(Path(home) / "home")
        try:
            stack.start()
            with stack.client() as client:
                for no, case in enumerate(CASES):
                    if only and case.name not in only:
                        continue
                    folder = args.checkouts / case.folder
                    if not case.folder:
                        folder = Path(home) / "empty"
                        folder.mkdir(exist_ok=True)
                        (folder / "README").write_text("")
                    row: dict[str, Any] = {"case": case.name}
                    try:
                        if case.prepare:
                            case.prepare(folder)
                        run = Run(stack, client, case, folder, args.python)
                        row |= left_alone(run, case, args.python, Path(home) / f"outputs-{no}")
                        if not args.quick:
                            run = Run(stack, client, case, folder, args.python)
                            row |= {"then": interrupted(run, case)}
                    except (RuntimeError, AssertionError, OSError, ValueError) as error:
                        row["error"] = str(error)
                    print(json.dumps(row), flush=True)
                    rows.append(row)
        finally:
            stack.close()
    print(table(rows))
    return int(any(not row.get("is_right") or row.get("different") for row in rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| script | ended | files | shown | values equal to the library's | paused, killed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        parts = (["steps"] if row.get("measured") else []) + row.get("metrics", [])[:3]
        num_more = len(row.get("metrics", [])) - 3
        values = f"{row['equal']} of {row['recorded']}" if "equal" in row else ""
        then = row.get("then")
        lines.append(
            f"| {row['case']} | {row.get('error') or row['state']} | {row.get('files', '')} "
            f"| {', '.join(parts)}{f' and {num_more} more' if num_more > 0 else ''} | {values} "
            f"| {', '.join([*then['met'], then['state']]) if then else ''} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
