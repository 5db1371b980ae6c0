"""MLflow's real client outside of a job."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.client import Client, Target
from muster_server.app import create_app
from support.live import serving

SCRIPT = Path(__file__).with_name("track_with_mlflow.py")


@pytest.mark.timeout(300)
def test_a_script_outside_reads_back_what_it_logged(settings, make_user_token, tmp_path):
    token = make_user_token("member")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "MLFLOW_"))}
    with serving(create_app(settings)) as port:
        url = f"http://127.0.0.1:{port}"
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            cwd=tmp_path,
            env=environ
            | {
                "PYTHONPATH": os.environ["MUSTER_LIBRARIES"],
                "MLFLOW_TRACKING_URI": f"{url}/mlflow",
                "MLFLOW_TRACKING_TOKEN": token,
                "HOME": str(tmp_path),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        with Client(Target(url, token, "test")) as client:
            experiments = {each["name"]: each for each in client.experiments()}
            trial = experiments["parent"]["only_trial_id"]
            series = client.series(trial, "train/loss")
    losses = [[step, 1 / (step + 1)] for step in range(20)]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "found": ["parent"],
        "history": {"train/loss": losses, "batch": [[n, n] for n in range(1_000)]},
        "params": {"lr": "0.1", "layers": "3", "from": "batch"},
        "team": "vision",
        "best": math.inf,
        "is_nan": True,
        "files": ["settings/first.json"],
        "content": {"a": 1},
    }
    assert experiments.keys() == {"parent", "fold"}
    assert [list(row) for row in zip(series["step"], series["value"], strict=True)] == losses
