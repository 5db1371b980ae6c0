from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk.checkpoints import verify_checkpoint

Until = Callable[..., None]


def start(script: list[dict[str, Any]], **environ: str) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "support.nodes.scripted", json.dumps(script)],
        env={**clean, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_reports_and_exits_as_told(shim: Any, tmp_path: Path) -> None:
    shim.start()
    worker = start(
        [
            {"log": "hello {i}", "repeat": 2},
            {"report": {"train/loss": "NaN"}, "step": 1, "epoch": 0.5},
            {"checkpoint": 1, "metrics": {"val/loss": 0.5}},
            {"message": "note", "level": "warning", "ranks": [0]},
            {"message": "never", "ranks": [1]},
            {"message": "never", "attempts": [2]},
            {"exit": 3},
        ],
        MUSTER_REPORT_SOCKET=shim.path,
        MUSTER_CHECKPOINT_DIR=str(tmp_path),
    )
    out, err = worker.communicate(timeout=30)
    assert (worker.returncode, out, err) == (3, "hello 0\nhello 1\n", "")
    shim.wait_closed()
    assert [m["text"] for m in shim.of("message")] == ["note"]
    assert len(shim.points("train/loss")) == 1
    assert verify_checkpoint(tmp_path / shim.of("checkpoint")[0]["path"]).step == 1


def test_stops_when_asked(shim: Any, until: Until) -> None:
    shim.start()
    worker = start([{"wait_for_stop": 20, "exit": 0}], MUSTER_REPORT_SOCKET=shim.path)
    until(lambda: shim.of("hello"))
    shim.send(wire.Control(should_stop=True))
    assert worker.wait(20) == 0
    worker.communicate()


@pytest.mark.parametrize(
    ("action", "code"),
    [({"ignore_sigterm": True}, None), ({"sigterm_exit": 5}, 5), ({"log": ""}, -signal.SIGTERM)],
)
def test_sigterm(tmp_path: Path, until: Until, action: dict[str, Any], code: int | None) -> None:
    ready = tmp_path / "ready"
    worker = start([action, {"touch": str(ready)}, {"hang": True}])
    until(ready.exists)
    worker.terminate()
    if code is None:
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.5)
        worker.kill()
        worker.wait(10)
    else:
        assert worker.wait(10) == code
    worker.communicate()


def test_train_resumes_where_it_failed(shim: Any, tmp_path: Path) -> None:
    shim.start()
    script = [{"train": {"epochs": 3, "steps_per_epoch": 4, "step_s": 0.001, "fail_at_step": 6}}]
    environ = {"MUSTER_REPORT_SOCKET": shim.path, "MUSTER_CHECKPOINT_DIR": str(tmp_path)}
    first = start(script, MUSTER_ATTEMPT_NO="1", **environ)
    first.communicate(timeout=30)
    assert first.returncode == 1
    (checkpoint,) = tmp_path.glob("step-*")
    again = start(script, MUSTER_ATTEMPT_NO="2", MUSTER_RESUME_FROM=str(checkpoint), **environ)
    out, _ = again.communicate(timeout=30)
    assert (again.returncode, out) == (0, "resumed at step 4\n")
    shim.wait_closed()
    assert [s for s, _ in shim.points("train/loss")] == [*range(1, 7), *range(5, 13)]
    assert [c["step"] for c in shim.of("checkpoint")] == [4, 8, 12]


@pytest.mark.parametrize("folder", [None, "/checkpoints/step-4"])
def test_module_and_run_name_the_checkpoint_alike(folder: str | None) -> None:
    names = ["resume_folder()", "resume_from()", "weights_folder()", "weights_from()"]
    on_the_run = ["resume_folder()", "resume_from", "weights_folder()", "weights_from"]
    given = [f"muster.{name}" for name in names] + [f"run.{name}" for name in on_the_run]
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    if folder:
        environ |= {"MUSTER_RESUME_FROM": folder, "MUSTER_WEIGHTS_FROM": folder}
    code = f"import muster; run = muster.init(); print(*[{', '.join(given)}])"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert (ran.stdout.split(), ran.stderr) == ([str(folder)] * 8, "")


def test_module_and_run_read_what_the_trial_is_given_alike() -> None:
    forms = {
        "get_hparams()": ["get_hparams()"] * 2,
        "get_config()": ["get_config()"] * 2,
        "before": ["hparams()", "hparams"],
        "before too": ["config()", "config"],
    }
    given = ", ".join(f"muster.{module}, run.{value}" for module, value in forms.values())
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    code = (
        "import json, muster; run = muster.init(hparams={'lr': 0.5}); "
        f"print(json.dumps([{given}], default=repr))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == [{"lr": 0.5}, {"lr": 0.5}, {}, {}] * 2
