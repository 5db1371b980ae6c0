"""MLflow's real client outside of a job, and in one that registers models."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from muster.client import Client, Target
from muster_server.app import create_app
from support.live import serving
from support.stack import Stack

TRACK = Path(__file__).with_name("track_with_mlflow.py")
REGISTER = Path(__file__).with_name("register_with_mlflow.py")
REGISTER_IN_JOB = Path(__file__).with_name("register_in_job.py")


def run(script, url, token, folder):
    """Run a script with MLflow's client; return what its last line says."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environ
        | {
            "PYTHONPATH": os.environ["MUSTER_LIBRARIES"],
            "MLFLOW_TRACKING_URI": f"{url}/mlflow",
            "MLFLOW_TRACKING_TOKEN": token,
            "HOME": str(folder),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_script_outside_reads_back_what_it_logged(settings, make_user_token, tmp_path):
    token = make_user_token("member")
    with serving(create_app(settings)) as port:
        url = f"http://127.0.0.1:{port}"
        told = run(TRACK, url, token, tmp_path)
        with Client(Target(url, token, "test")) as client:
            experiments = {each["name"]: each for each in client.experiments()}
            trial = experiments["parent"]["only_trial_id"]
            series = client.series(trial, "train/loss")
    losses = [[step, 1 / (step + 1)] for step in range(20)]
    assert told == {
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


def test_models_are_registered_named_and_loaded_with_the_client(
    settings, make_user_token, tmp_path
):
    token = make_user_token("member")
    with serving(create_app(settings)) as port:
        url = f"http://127.0.0.1:{port}"
        told = run(REGISTER, url, token, tmp_path)
        with Client(Target(url, token, "test")) as client:
            version = client.model_version("doubler:2")
            moves = [
                (m["alias"], m["previous"], m["version"]) for m in client.model_history("doubler")
            ]
            pulled = client.pull_model("doubler:2", tmp_path / "pulled")
    files = told.pop("files")
    assert {"MLmodel", "python_model.pkl"} <= set(files)
    assert told == {
        "doubled": [[2.0, 2.0, 2.0, 2.0]],
        "refusals": [
            "INVALID_PARAMETER_VALUE", "INVALID_PARAMETER_VALUE", "INVALID_PARAMETER_VALUE",
            "INVALID_STATE", "RESOURCE_DOES_NOT_EXIST",
        ],
        "tags": {"team": "vision"},
        "description": "Doubles.",
        "aliases": {"production": "2"},
        "versions": [["2", "Second.", {"checked": "yes"}, "READY"]],
        "searched": ["doubler"],
    }  # fmt: skip
    assert moves == [
        ("production", 2, None), ("production", 1, 2), ("production", None, 1)
    ]  # fmt: skip
    tensor = {"name": "x", "type": "float32", "shape": [-1, 4]}
    assert version["signature"] == {"inputs": [tensor], "outputs": [tensor]}
    assert (version["source"], version["metrics"]) == ("mlflow", {"val/loss": 0.5})
    assert version["is_unsafe"]
    assert (tmp_path / "pulled/MLmodel").is_file()
    assert pulled.num_files == version["num_files"]


def test_models_that_a_job_registers_are_versions_of_the_registry(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(REGISTER_IN_JOB.read_text())
    document = {
        "name": "registers",
        "entrypoint": "train.py",
        "launcher": "plain",
        "resources": {"slots": 1},
        "environment": {"variables": {"PYTHONPATH": os.environ["MUSTER_LIBRARIES"]}},
        "restarts": {"user": 0},
    }
    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder) / "home", agents=1)
        try:
            stack.start()
            with stack.client() as client:
                experiment_id = client.submit(document, code=code)["id"]
                ended = client.wait(experiment_id, timeout_s=150)
                log = stack.cli("logs", str(experiment_id)).stdout
                assert ended["state"] == "COMPLETED", log
                versions = [client.wait_for_model(f"digits:{n}", timeout_s=60) for n in (1, 2)]
                champion = client.model_version("digits@champion")
                pulled = client.pull_model("digits:1", tmp_path / "pulled")
        finally:
            stack.close()
    told = json.loads(next(line[line.index("{") :] for line in log.splitlines() if "{" in line))
    assert "letters, digits" in told.pop("refusal")
    assert told == {
        "first": ["1", "READY", "READY", {"team": "vision"}],
        "again": "1",
        "all": ["1", "2"],
        "by_alias": "1",
        "doubled": [[2.0, 2.0, 2.0, 2.0]],
        "is_quick": True,
    }
    assert [version["source"] for version in versions] == ["outputs", "outputs"]
    assert (champion["number"], champion["notes"]) == (1, "Doubles.")
    assert (champion["tags"], champion["metrics"]) == ({"team": "vision"}, {"val/loss": 0.25})
    tensor = {"name": "x", "type": "float32", "shape": [-1, 4]}
    assert champion["signature"] == {"inputs": [tensor], "outputs": [tensor]}
    assert pulled.num_files == len(champion["files"])
    assert (tmp_path / "pulled/MLmodel").is_file()
