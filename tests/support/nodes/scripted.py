"""A worker that does what a JSON script says. No torch: it starts in a tenth of a second.

For tests of everything around training: agents, launchers, searches, restarts.

    python -m support.nodes.scripted '[{"report": {"train/loss": 0.5}, "step": 1}, {"exit": 3}]'

The script comes from the first argument (JSON, or @FILE), else from the hyperparameter `script`,
else from trainer.script of the experiment document. Actions are done in order; after the last one
the worker exits 0. Each action may carry `"ranks": [0]` (only those ranks do it) and
`"attempts": [1]` (only in those attempts).

    {"report": {name: value, ...}, "step": 1, "epoch": 0.5}   values may be "NaN", "Infinity"
    {"checkpoint": step, "metrics": {...}, "epoch": 1.0}      writes and registers one (rank 0 only)
    {"group": "dp0", "members": [0, 1], "kind": "dp"}
    {"message": "text", "level": "warning"}
    {"log": "text", "stream": "stderr", "repeat": 1000}       lines of output; "raw": true: no newline
    {"sleep": seconds}
    {"wait_for_stop": seconds, "exit": 0}     until asked to stop, then exit; 70 when never asked
    {"hang": true}                            forever, deaf to requests but not to signals
    {"ignore_sigterm": true}
    {"sigterm_exit": code}                    exit with that code on SIGTERM
    {"fork_daemon": seconds}                  leave a process in a session of its own behind
    {"alone": "folder"}                       for good: who finds another one there notes it in "overlaps"
    {"touch": "path"} / {"wait_for_file": "path", "timeout_s": 30}
    {"print_env": ["RANK", ...]}              as NAME=value lines
    {"raise": "text"}                         an uncaught RuntimeError
    {"signal": "SIGKILL"}                     to itself
    {"exit": code}
    {"train": {...}}                          a training-like loop, see `train`
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from muster import wire
from muster.sdk.run import Run, init

NEVER_ASKED = 70
"""Exit code of `wait_for_stop` when nobody asked in time."""


def main() -> None:
    run = init()
    for action in read_script(run):
        if run.info.rank in action.get("ranks", [run.info.rank]) and (
            "attempts" not in action or _attempt_no() in action["attempts"]
        ):
            perform(run, action)


def read_script(run: Run) -> list[dict[str, Any]]:
    if len(sys.argv) > 1:
        text = sys.argv[1]
        script = json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    else:
        script = (
            run.get_hparams().get("script")
            or (run.get_config().get("trainer") or {}).get("script")
            or []
        )
        if isinstance(script, str):
            script = json.loads(script)
    return [script] if isinstance(script, dict) else list(script)


def perform(run: Run, action: dict[str, Any]) -> None:
    match action:
        case {"report": values}:
            decoded = {k: wire.decode_number(v) for k, v in values.items()}
            run.log(decoded, step=action.get("step"), epoch=action.get("epoch"))
        case {"checkpoint": step}:
            save(run, int(step), action.get("epoch"), action.get("metrics", {}))
        case {"group": name, "members": members}:
            run.report_group(name, members, action.get("kind", "custom"), backend="gloo")
        case {"evaluate": name, "classes": classes, "confusion": confusion}:
            scores = action.get("metrics", {})
            run.report_evaluation(
                name, step=1, metrics=scores, classes=classes, confusion=confusion
            )
        case {"message": text}:
            run.message(text, action.get("level", "info"))
        case {"log": text}:
            stream = sys.stderr if action.get("stream") == "stderr" else sys.stdout
            end = "" if action.get("raw") else "\n"
            for i in range(action.get("repeat", 1)):
                stream.write(str(text).replace("{i}", str(i)) + end)
            stream.flush()
        case {"sleep": seconds}:
            time.sleep(seconds)
        case {"wait_for_stop": seconds}:
            wait_for_stop(run, seconds, action.get("exit", 0))
        case {"hang": _}:
            while True:
                time.sleep(3600)
        case {"ignore_sigterm": _}:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"sigterm_exit": code}:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))
        case {"fork_daemon": seconds}:
            # Its own session and no pipes: what a badly behaved data loader leaves behind.
            code = f"import time; time.sleep({float(seconds)})"
            child = subprocess.Popen(
                [sys.executable, "-c", code],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            child.returncode = 0  # not waited for: that is the point
            print(f"daemon pid {child.pid}", flush=True)
        case {"alone": folder}:
            be_alone(Path(folder), run.info.rank)
        case {"touch": path}:
            Path(path).write_text(f"{os.getpid()}\n", encoding="utf-8")
        case {"wait_for_file": path}:
            deadline = time.monotonic() + action.get("timeout_s", 30)
            while not Path(path).exists():
                if time.monotonic() > deadline:
                    sys.exit(NEVER_ASKED)
                time.sleep(0.02)
        case {"print_env": names}:
            for name in names:
                print(f"{name}={os.environ.get(name, '')}", flush=True)
        case {"raise": text}:
            raise RuntimeError(text)
        case {"signal": name}:
            run.flush()
            sys.stdout.flush()
            os.kill(os.getpid(), getattr(signal, name))
            time.sleep(60)
        case {"exit": code}:
            sys.exit(code)
        case {"train": options}:
            train(run, **options)
        case _:
            raise ValueError(f"unknown action: {action}")


def be_alone(folder: Path, rank: int) -> None:
    """Witness that no two workers of one rank of the trial live at once, whoever says what: the
    kernel holds the lock for as long as this process lives, and not a moment longer."""
    trial = os.environ["MUSTER_TRIAL_ID"]
    who = f"rank {rank} of attempt {_attempt_no()} of trial {trial}"
    lock = os.open(folder / f"trial-{trial}-rank-{rank}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with (folder / "overlaps").open("a", encoding="utf-8") as overlaps:
            overlaps.write(f"{who} found {os.pread(lock, 200, 0).decode().strip()}\n")
        return
    os.pwrite(lock, f"{who:<80}\n".encode(), 0)
    with (folder / "starts").open("a", encoding="utf-8") as starts:
        starts.write(f"{who}\n")


def wait_for_stop(run: Run, seconds: float, code: int) -> NoReturn:
    deadline = time.monotonic() + seconds
    while not run.should_stop():
        if time.monotonic() > deadline:
            sys.exit(NEVER_ASKED)
        time.sleep(0.02)
    sys.exit(code)


def save(run: Run, step: int, epoch: float | None, metrics: dict[str, Any]) -> None:
    if run.info.rank != 0:
        return
    values = {k: wire.decode_number(v) for k, v in metrics.items()}
    with run.checkpoint(step=step, epoch=epoch, metrics=values) as folder:
        (folder / "state.json").write_text(json.dumps({"step": step}), encoding="utf-8")


def train(
    run: Run,
    *,
    epochs: int = 3,
    steps_per_epoch: int = 4,
    step_s: float = 0.01,
    best_lr: float = 0.01,
    checkpoint_every_epochs: int = 1,
    fail_at_step: int | None = None,
    nan_at_step: int | None = None,
) -> None:
    """A loop with the shape of a training: a loss per step, val/loss and a checkpoint per epoch,
    continues from MUSTER_RESUME_FROM or begins with MUSTER_WEIGHTS_FROM, ends early when asked.

    The loss falls towards |log10(lr / best_lr)| of the hyperparameter `lr`, so that a search has
    something to find and the best trial is known beforehand. fail_at_step: exit 1 there, in the
    first attempt only.
    """
    floor = abs(math.log10(float(run.get_hparams().get("lr", best_lr)) / best_lr))
    step = 0
    if (resumed := run.resume_folder()) is not None:
        with contextlib.suppress(FileNotFoundError):
            step = int(json.loads((resumed / "state.json").read_text("utf-8"))["step"])
        print(f"resumed at step {step}", flush=True)
    elif (begun := run.weights_folder()) is not None:
        taken = json.loads((begun / "state.json").read_text("utf-8"))
        print(f"weights of step {taken['step']}", flush=True)
    num_steps = epochs * steps_per_epoch
    while step < num_steps:
        time.sleep(step_s)
        step += 1
        epoch = step / steps_per_epoch
        loss = math.nan if step == nan_at_step else floor + 1.0 / step
        run.log({"train/loss": loss}, step=step, epoch=epoch, num_steps_planned=num_steps)
        if step == fail_at_step and _attempt_no() <= 1:
            run.flush()
            print("failing as told", file=sys.stderr, flush=True)
            sys.exit(1)
        ended = step % steps_per_epoch == 0
        if ended and run.info.rank == 0:
            run.log({"val/loss": floor + 1.0 / step}, step=step, epoch=epoch)
        stop = run.should_stop()
        if stop:
            print(f"stopping at step {step} ({stop.kind}): {stop.reason}", flush=True)
        if stop or (ended and int(epoch) % checkpoint_every_epochs == 0):
            save(run, step, epoch, {"val/loss": floor + 1.0 / step})
        if stop:
            return


def _attempt_no() -> int:
    return int(os.environ.get("MUSTER_ATTEMPT_NO") or 1)


if __name__ == "__main__":
    main()
