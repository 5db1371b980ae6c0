"""Public training scripts made to misbehave: does their guard act once, at the right step?

    PYTHONPATH=tests:bench python bench/guards/guarded_scripts.py CHECKOUTS --libraries FOLDER

CHECKOUTS is a folder with clones of karpathy/nanoGPT and pytorch/examples. The other scripts are those of
tests/libraries, which are written as the documentation of their library shows; FOLDER has these libraries,
for example one that `scripts/test libraries` has installed.

Each script gets the fault that the table names, by an edit of a line or two, and a guard. It runs on a
real `muster up` with three nodes. The edit says which step is the right one; of a script that diverges by
itself, it is read from the stored values. The controller is
killed with SIGKILL when the guard has acted, so that what it did is done by another one if at all.

Each row is a line of JSON; the Markdown table comes last. Exits 1 when a guard did not act once, acted at
another step, or the trial did not go on or end as it says.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import public_scripts

from muster.client import Client
from support.stack import Stack, wait_for

RUN_S = 300
SCRIPTS = Path(__file__).parents[2] / "tests" / "libraries" / "scripts"
FIRST = 'int(__import__("os").environ["MUSTER_ATTEMPT_NO"]) == 1'
SLEEP = '__import__("time").sleep'
Values = Mapping[int, float]


def above_100(values: Values) -> int:
    return min(step for step, value in values.items() if value > 100)


@dataclass(frozen=True)
class Case:
    """A public script, what is made wrong with it, and the guard that is to notice."""

    name: str
    fault: str
    place: str
    """Its folder below CHECKOUTS, or a script of tests/libraries."""
    edits: tuple[tuple[str, str], ...]
    """(text, what takes its place): the fault."""
    guard: str
    right: Callable[[Values], int] | range
    """The steps at one of which it is to act, or a function that finds it in the values of its metric."""
    command: str = "train.py"
    ends: str = "CANCELED"
    attempts: int = 1
    resumed_at: int | None = None
    nodes: int = 1
    more: str = ""
    """Further lines of the document."""


NANO_GPT = public_scripts.NANO_GPT.replace("--lr_decay_iters=400", "--decay_lr=False")
CASES = (
    Case(
        "nanoGPT",
        "NaN at step 60, at the learning rate that it began with",
        "nanoGPT",
        (
            ("import torch\n", "import torch\nimport muster\nrun = muster.init()\n"),
            (
                "config = {k: globals()[k] for k in config_keys}",
                "learning_rate = run.hparams['lr']; out_dir = str(run.resume_folder() or out_dir)\n"
                "init_from = 'resume' if run.resume_folder() else 'scratch'\n"
                "config = {k: globals()[k] for k in config_keys}",
            ),
            (
                "torch.save(checkpoint, os.path.join(out_dir, 'ckpt.pt'))",
                "\n                with run.checkpoint(step=iter_num) as folder:"
                "\n                    torch.save(checkpoint, folder / 'ckpt.pt')",
            ),
            (
                "loss = loss / gradient_accumulation_steps #",
                "loss = loss * (float('nan') if iter_num >= 60 and learning_rate > 6e-4 else 1) #",
            ),
            (
                "    iter_num += 1\n",
                "    if run.should_stop(): break\n    " + SLEEP + "(0.05)\n    iter_num += 1\n",
            ),
        ),
        "{metric: loss, not_finite: true, action: rollback, set: {lr: x0.5}, max_times: 3}",
        range(60, 61),
        command=NANO_GPT.replace(
            "--max_iters=400", "--max_iters=160 --always_save_checkpoint=True"
        ),
        ends="COMPLETED",
        attempts=2,
        resumed_at=40,
        more="hyperparameters: {lr: 1.0e-3}",
    ),
    Case(
        "PyTorch word language model",
        "its loader hangs at batch 200",
        "examples/word_language_model",
        (
            (
                "    data = source[i:i+seq_len]",
                f"    if i == 200 * args.bptt and {FIRST}: {SLEEP}(3600)\n"
                "    data = source[i:i+seq_len]",
            ),
        ),
        "{no_step_for_min: 0.1, action: restart_elsewhere, max_times: 3}",
        range(200, 201),
        command="main.py --epochs 1 --emsize 32 --nhid 32 --bptt 4 --log-interval 20 --use-optimizer",
        ends="COMPLETED",
        attempts=2,
    ),
    Case(
        "Hugging Face Trainer on 2 nodes",
        "the node of rank 1 computes 0.1 s longer",
        "use_transformers.py",
        (
            (
                "        out = self.layer(x)",
                f"        if __import__('os').environ['RANK'] == '1' and {FIRST}: {SLEEP}(0.1)\n"
                f"        {SLEEP}(0.02)\n        out = self.layer(x)",
            ),
            ("num_train_epochs=2", "num_train_epochs=50, ddp_backend='gloo'"),
            ('eval_strategy="epoch", report_to=["tensorboard"]', "report_to=[]"),
        ),
        "{straggler: {share: 0.4, minutes: 0.05}, action: restart_elsewhere, max_times: 3}",
        range(10, 100),
        ends="COMPLETED",
        attempts=2,
        nodes=2,
    ),
    Case(
        "Lightning",
        "NaN from step 300 on",
        "use_lightning.py",
        (
            (
                '        self.log("train_loss", loss)',
                "        if self.global_step >= 300: loss = loss * float('nan')\n"
                f'        {SLEEP}(0.01)\n        self.log("train_loss", loss)',
            ),
            ("max_epochs=2", "max_epochs=1000"),
        ),
        "{metric: train_loss, not_finite: true, action: stop, max_times: 3}",
        range(300, 305),  # every fifth is logged
    ),
    Case(
        "Accelerate",
        "a spike at step 400",
        "use_accelerate.py",
        (
            ("range(0, 20, 4)", "range(0, 800, 4)"),
            (
                '"loss": 1 / (step + 1)',
                f'"loss": 30.0 if step == 400 else 1 + ({SLEEP}(0.05) or 0) + 1 / (step + 1)',
            ),
        ),
        "{metric: loss, spike: {times: 10, window: 20}, action: notify, max_times: 3}",
        range(400, 401),
        ends="COMPLETED",
    ),
    Case(
        "Keras",
        "it diverges at a learning rate of 1.5",
        "use_keras.py",
        (
            ('optimizer="sgd"', "optimizer=keras.optimizers.SGD(1.5)"),
            ("epochs=3", "epochs=3000"),
        ),
        "{metric: loss, above: 100, action: stop, max_times: 3}",
        above_100,
    ),
    Case(
        "XGBoost",
        "nothing is learned any more",
        "use_xgboost.py",
        (
            ('{"objective": "binary:logistic"}', '{"objective": "binary:logistic", "eta": 0.0}'),
            ("train, 30", "train, 300_000"),
            ("early_stopping_rounds=3", "early_stopping_rounds=None"),
        ),
        "{metric: train/logloss, plateau: {values: 100, min_change: 0.001}, action: checkpoint_and_stop,"
        " max_times: 3}",
        range(100, 101),
    ),
    Case(
        "LightGBM",
        "labels are noise: it has learned nothing at round 200",
        "use_lightgbm.py",
        (
            ("n_estimators=20", "n_estimators=100_000"),
            ("early_stopping(3", "early_stopping(100_000"),
        ),
        "{metric: held_out/binary_logloss, above: 0.5, at_step: 200, action: stop, max_times: 3}",
        range(200, 201),
    ),
)
DOCUMENT = """
name: {name}
entrypoint: {command}
code: {{path: ., include: ["*.bin", "*.pkl"]}}
launcher: {launcher}
resources: {{slots: {nodes}, nodes: {nodes}}}
environment:
  variables: {{PYTHONPATH: "{libraries}", KERAS_BACKEND: torch}}
guards: [{guard}]
{more}
"""


def prepared(case: Case, checkouts: Path, libraries: Path, folder: Path) -> None:
    """Write the script with its fault and its document into an empty folder."""
    if case.place.endswith(".py"):
        script = folder / "train.py"
        shutil.copy(SCRIPTS / case.place, script)
    else:
        shutil.copytree(
            checkouts / case.place,
            folder,
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns(".git"),
        )
        script = folder / case.command.split()[0]
        if case.place == "nanoGPT":
            text = checkouts / "examples/distributed/minGPT-ddp/mingpt/data/input.txt"
            made = folder.parent / "examples/distributed/minGPT-ddp/mingpt/data"
            made.mkdir(parents=True, exist_ok=True)
            shutil.copy(text, made)
            public_scripts.nano_gpt(folder)
        else:
            public_scripts.word_language_model(folder)
    source = script.read_text()
    for text, fault in case.edits:
        if text not in source:
            raise ValueError(f"{case.name}: the script has no {text!r} any more")
        source = source.replace(text, fault, 1)
    script.write_text(source)
    document = DOCUMENT.format(
        name=folder.name,
        command=case.command,
        launcher="torchrun" if case.nodes > 1 else "plain",
        nodes=case.nodes,
        libraries=libraries,
        guard=case.guard,
        more=case.more,
    )
    (folder / "experiment.yaml").write_text(document)


def run(case: Case, stack: Stack, client: Client, folder: Path) -> dict[str, Any]:
    """Submit a case, and return what its guard did and whether that was right."""
    done = subprocess.run(
        [sys.executable, "-m", "muster.cli", "submit", "experiment.yaml", "--json"],
        cwd=folder,
        env=stack.environment(stack.home),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    experiment_id = int(json.loads(done.stdout)["id"])
    trial_id = int(client.trials(experiment_id)[0]["id"])

    def fired() -> list[dict[str, Any]]:
        found = client.get(f"/trials/{trial_id}/events", type="guard.fired")["items"]
        return [dict(event) for event in found]

    def state() -> str:
        return str(client.experiment(experiment_id)["state"])

    wait_for("its guard acts", lambda: fired() or state() in public_scripts.FINAL, RUN_S)
    stack.kill_part("controller")
    wait_for("it ends", lambda: state() in public_scripts.FINAL, RUN_S, every_s=0.5)
    trial, events = client.get(f"/trials/{trial_id}"), fired()
    row: dict[str, Any] = {
        "case": case.name,
        "acted": [(event["data"]["step"], event["message"]) for event in events],
        "state": state(),
        "attempts": trial["attempt_no"],
        "resumed_at": trial["attempts"][0]["resume_step"] or None,
    }
    right = case.right
    if not isinstance(right, range):
        name = case.guard.split("metric: ")[1].split(",")[0]
        frame = client.series(trial_id, name)
        step = right(dict(zip(frame["step"], frame["value"], strict=True)))
        right = range(step, step + 1)
    row["right"] = [right[0], right[-1]]
    row["is_right"] = (
        len(events) == 1
        and events[0]["data"]["step"] in right
        and (row["state"], row["attempts"]) == (case.ends, case.attempts)
        and (case.resumed_at is None or case.resumed_at == row["resumed_at"])
    )
    if not row["is_right"]:
        row["log"] = [line["text"] for line in client.log_lines(trial_id)][-15:]
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    cases = {case.name: case for case in CASES}
    lines = [
        "| script | made to misbehave | guard | acted | then |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        case = cases[row["case"]]
        if "error" in row:
            acted, then = row["error"], ""
        else:
            acted = ", ".join(f"step {step:,}" for step, _ in row["acted"]) or "never"
            then = row["state"]
            if row["attempts"] > 1:
                then = f"attempt {row['attempts']} from step {row['resumed_at'] or 0}: {then}"
        lines.append(f"| {case.name} | {case.fault} | `{case.guard}` | {acted} | {then} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--libraries", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    args = parser.parse_args()
    only = {name for name in args.only.split(",") if name}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as home:
        stack = Stack(Path(home) / "home", agents=3, slots=1)
        try:
            stack.start()
            with stack.client() as client:
                for no, case in enumerate(CASES):
                    if only and case.name not in only:
                        continue
                    folder = Path(home) / f"case-{no}"
                    folder.mkdir()
                    try:
                        prepared(case, args.checkouts.resolve(), args.libraries.resolve(), folder)
                        row = run(case, stack, client, folder)
                    except (RuntimeError, AssertionError, OSError, ValueError) as error:
                        row = {"case": case.name, "error": str(error)}
                    print(json.dumps(row), flush=True)
                    rows.append(row)
        finally:
            stack.close()
    print(table(rows))
    return int(not all(row.get("is_right") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
