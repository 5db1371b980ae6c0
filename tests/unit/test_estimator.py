"""Estimators: the documents that their arguments become, and what a script finds in its job."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from muster.estimator import CategoricalParameter, ContinuousParameter, Estimator, Tuner
from muster.estimator.document import JobSpec, channels_of, document_of
from muster.estimator.progress import PlainView, html_of
from muster.launch.estimator_job import MetricReader, arguments_of, variables_of
from muster_server.services.documents.resolving import resolve


def resolved(document: dict[str, Any]) -> dict[str, Any]:
    found = resolve(json.dumps(document))
    assert [problem.path for problem in found.problems] == []
    return document


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("")
    return tmp_path


def test_workers_on_each_slot_of_several_nodes() -> None:
    spec = JobSpec(
        entry_point="train.py",
        instance_count=2,
        slots_per_node=4,
        distribution={"torchrun": {"enabled": True}},
        hyperparameters={"lr": 0.1, "layers": [8, 8]},
        max_run_s=1800,
        max_retry_attempts=2,
        use_spot_instances=True,
    )
    document = resolved(document_of(spec, {"train": "/data"}))
    assert document["resources"] == {
        "slots": 8,
        "slot_type": "cpu",
        "nodes": 2,
        "preemptible": True,
    }
    assert document["launcher"] == "torchrun"
    assert document["entrypoint"][:2] == ["-m", "muster.launch.estimator_job"]
    assert document["hyperparameters"]["layers"] == {"const": [8, 8]}, "a value, never a space"
    assert document["budget"] == {"slot_hours": 4}
    assert document["restarts"] == {"user": 2}


def test_without_a_distribution_one_process_runs_on_each_node() -> None:
    document = resolved(document_of(JobSpec(entry_point="t.py", instance_count=2), {}))
    assert (document["launcher"], document["resources"]["slots"]) == ("shell", 2)
    assert document["entrypoint"][0] == "python"


def test_mpi_says_how_many_processes_a_node_has() -> None:
    mpi = {"mpi": {"enabled": True, "processes_per_host": 3}}
    document = resolved(document_of(JobSpec(entry_point="t.py", distribution=mpi), {}))
    assert (document["launcher"], document["resources"]["slots"]) == ("torchrun", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distribution": {"torchrn": {"enabled": True}}}, "did you mean 'torchrun'"),
        (
            {"distribution": {"torchrun": {"enabled": True}, "mpi": {"enabled": True}}},
            "enable one of torchrun, mpi",
        ),
        ({"instance_count": 0}, "instance_count=0"),
        ({"metric_definitions": [{"Name": "loss", "Regex": "loss=.*"}]}, "has no group"),
        ({"metric_definitions": [{"Name": "loss", "Regex": "loss=("}]}, "unterminated|missing"),
        ({"metric_definitions": [{"name": "loss"}]}, "is not like"),
    ],
)
def test_arguments_that_cannot_work(script: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Estimator("train.py", source_dir=script, **arguments)


def test_arguments_of_another_service(script: Path) -> None:
    with pytest.warns(UserWarning, match="image_uri is ignored: jobs run in the nodes' Python"):
        Estimator("train.py", source_dir=script, image_uri="an/image")
    with pytest.raises(
        TypeError, match="no argument 'instance_cnt'; did you mean 'instance_count'"
    ):
        Estimator("train.py", source_dir=script, instance_cnt=2)
    with pytest.raises(ValueError, match="there is no file"):
        Estimator("trian.py", source_dir=script)


def test_channels(tmp_path: Path) -> None:
    found = channels_of({"train": "data", "test": "s3://bucket/test", "x": "file:///d"}, tmp_path)
    assert found == {"train": str(tmp_path / "data"), "test": "s3://bucket/test", "x": "/d"}
    assert channels_of("/data", tmp_path) == {"training": "/data"}
    with pytest.raises(ValueError, match="'my-data' is no name of a channel"):
        channels_of({"my-data": "/data"}, tmp_path)


@pytest.mark.parametrize(
    ("strategy", "more", "method", "sampler"),
    [
        ("Bayesian", {}, "random", "tpe"),
        ("Random", {}, "random", None),
        ("Hyperband", {"max_epochs": 9}, "asha", None),
    ],
)
def test_a_search(
    script: Path, strategy: str, more: dict[str, Any], method: str, sampler: str | None
) -> None:
    tuner = Tuner(
        Estimator("train.py", source_dir=script, hyperparameters={"epochs": 3}),
        "validation:accuracy",
        {"lr": ContinuousParameter(1e-5, 1e-1), "act": CategoricalParameter(["relu", "gelu"])},
        strategy=strategy,
        max_jobs=8,
        max_parallel_jobs=2,
        **more,
    )
    document = resolved(document_of(tuner.estimator.spec, {}, search=tuner._search))
    search = document["search"]
    assert (search["method"], search.get("sampler"), search["goal"]) == (method, sampler, "max")
    assert search["metric"] == "validation:accuracy", "as the job reports it"
    assert document["hyperparameters"] == {
        "epochs": {"const": 3},
        "lr": {"log": [1e-5, 1e-1]},
        "act": {"choice": ["relu", "gelu"]},
    }


def test_arguments_and_variables_of_a_worker() -> None:
    hparams = {"lr": 0.1, "flag": True, "layers": [8, 4]}
    assert arguments_of(hparams) == ["--lr", "0.1", "--flag", "True", "--layers", "[8, 4]"]
    environ = {
        "MUSTER_OUTPUT_DIR": "/work/muster-outputs",
        "MUSTER_DATA_TRAIN": "/data",
        "MUSTER_NODE_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    found = variables_of(hparams, environ, num_nodes=2, num_cpus=8)
    assert found["SM_MODEL_DIR"] == "/work/muster-outputs/model"
    assert (found["SM_CHANNEL_TRAIN"], found["SM_CHANNELS"]) == ("/data", '["train"]')
    assert (found["SM_HOSTS"], found["SM_CURRENT_HOST"]) == ('["algo-1", "algo-2"]', "algo-2")
    assert (found["SM_NUM_GPUS"], found["SM_HP_LR"]) == ("2", "0.1")


def test_metrics_of_what_a_script_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[dict[str, float], int]] = []
    monkeypatch.setattr("muster.log", lambda values, *, step: logged.append((values, step)))
    inner = io.StringIO()
    reader = MetricReader(inner, [["loss", r"loss=(\S+)"], ["acc", r"acc=([0-9.]+)"]])
    print("epoch 1 lo", end="", file=reader)
    print("ss=0.5 acc=0.1\nloss=much\nloss=nan", file=reader)
    reader.flush()
    assert [values for values, _ in logged[:2]] == [{"loss": 0.5}, {"acc": 0.1}]
    assert [step for _, step in logged] == [1, 1, 2], "what is no number is not counted"
    assert inner.getvalue() == "epoch 1 loss=0.5 acc=0.1\nloss=much\nloss=nan\n"


EXPERIMENT = {
    "id": 7,
    "name": "<b>",
    "state": "RUNNING",
    "progress": 0.5,
    "num_trials": 1,
    "best_metric": 0.25,
    "metric_name": "val/loss",
    "reason": "",
}


def test_a_terminal_shows_each_state_once() -> None:
    written: list[str] = []
    view = PlainView(written.append)
    view.show(EXPERIMENT, [{"rank": 1, "text": "hello"}])
    view.show(EXPERIMENT, [])
    view.show({**EXPERIMENT, "state": "COMPLETED"}, [])
    assert written == [
        "[rank 1] hello",
        "<b> (7): RUNNING · 50% · val/loss 0.25",
        "<b> (7): COMPLETED · 50% · val/loss 0.25",
    ]


def test_a_notebook_shows_text_of_a_job_as_text() -> None:
    shown = html_of(EXPERIMENT, ["<script>alert(1)</script>"])
    assert "<script>" not in shown
    assert '<progress value="0.500"' in shown
