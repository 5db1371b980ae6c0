"""Configurations of Determined as experiment documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from muster.cli.all_commands import app
from muster.importing.determined import import_determined
from muster.importing.determined_code import ModelFolder
from muster_server.services.documents.resolving import resolve

SMALL = {"entrypoint": "python3 train.py", "searcher": {"name": "single", "metric": "loss"}}


def imported(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a document that has no errors and is valid."""
    draft = import_determined(SMALL | config, slot_type="cpu", **options)
    assert [e.text() for e in draft.errors] == []
    problems = resolve(yaml.safe_dump(draft.document)).problems
    assert [(p.path, str(p.message)) for p in problems] == []
    return draft.document


def lines(config: dict[str, Any], **options: Any) -> list[str]:
    return [t.text() for t in import_determined(SMALL | config, **options).translations]


def errors(config: dict[str, Any]) -> list[str]:
    return [t.text() for t in import_determined(SMALL | config).errors]


def test_everything_that_a_configuration_may_say() -> None:
    document = imported(
        {
            "name": "mine",
            "description": "words",
            "labels": ["vision", "old"],
            "workspace": "team/a",
            "project": "cats",
            "max_restarts": 2,
            "preemption_timeout": 7200,
            "reproducibility": {"experiment_seed": 7},
            "data": {"url": "s3://x"},
            "bind_mounts": [
                {"host_path": "/mnt/data", "container_path": "/data", "read_only": True}
            ],
            "environment": {
                "image": "an/image",
                "environment_variables": ["NCCL_DEBUG=INFO", "A=b=c"],
            },
            "checkpoint_storage": {
                "type": "s3",
                "bucket": "bucket",
                "prefix": "/p/",
                "secret_key": "hidden",
                "save_trial_latest": 5,
            },
            "resources": {
                "slots_per_trial": 4,
                "resource_pool": "default",
                "priority": 42,
                "max_slots": 9,
                "is_single_node": True,
                "shm_size": 1024,
            },
            "searcher": {"name": "random", "metric": "acc", "smaller_is_better": False,
                         "max_trials": 8, "max_length": {"epochs": 3}},
        }
    )  # fmt: skip
    assert document["notes"] == "words"
    assert document["labels"] == {"vision": "", "old": ""}
    assert document["project"] == "team-a cats"
    assert document["restarts"] == {"user": 2}
    assert document["stop_grace_s"] == 3600
    assert document["data"] == {"data": "/mnt/data"}
    assert document["environment"]["variables"] == {
        "DET_USER_DATA": '{"url": "s3://x"}',
        "NCCL_DEBUG": "INFO",
        "A": "b=c",
    }
    assert document["checkpoints"] == {
        "keep": {"best": 1, "last": 5, "experiment_best": 0},
        "storage": "s3://bucket/p",
    }
    assert "hidden" not in str(document)
    assert document["resources"] == {
        "slots": 4,
        "slot_type": "cpu",
        "pool": "default",
        "priority": 58,
        "nodes": 1,
    }
    assert document["search"] == {
        "seed": 7,
        "method": "random",
        "metric": "val/acc",
        "goal": "max",
        "trials": 8,
        "max_length": {"epochs": 3},
        "concurrent": 2,
    }


def test_hyperparameters_of_every_type() -> None:
    document = imported(
        {
            "hyperparameters": {
                "a": 1,
                "none": None,
                "list": [1, 2],
                "const": {"type": "const", "val": "x"},
                "int": {"type": "int", "minval": 1, "maxval": 8, "count": 3},
                "double": {"type": "double", "minval": 0.5, "maxval": 1.5},
                "log": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
                "same": {"type": "int", "minval": 4, "maxval": 4},
                "nested": {"deep": {"act": {"type": "categorical", "vals": ["x", "y"]}}},
            },
            "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
        }
    )
    found = document["hyperparameters"]
    assert found["log"] == {"log": [pytest.approx(0.001), pytest.approx(0.1)]}, "exponents"
    assert found["int"] == {"int": [1, 8], "count": 3}
    assert found["double"] == {"uniform": [0.5, 1.5]}
    assert (found["a"], found["list"], found["none"]) == (1, {"const": [1, 2]}, {"const": None})
    assert (found["const"], found["same"]) == ({"const": "x"}, {"const": 4})
    assert found["nested"]["deep"]["act"] == {"choice": ["x", "y"]}


@pytest.mark.parametrize(
    ("searcher", "expected"),
    [
        ({"name": "single"}, {"method": "random", "trials": 1}),
        ({"name": "grid", "max_concurrent_trials": 4}, {"method": "grid", "concurrent": 4}),
        ({"name": "random", "max_trials": 5}, {"method": "random", "trials": 5}),
        (
            {"name": "adaptive_asha", "max_trials": 9, "max_time": 100, "time_metric": "batches",
             "max_rungs": 3, "divisor": 3, "mode": "aggressive"},
            {"method": "asha", "trials": 9, "max_length": {"steps": 100}, "rungs": 3, "divisor": 3,
             "brackets": "aggressive"},
        ),
        (
            {"name": "async_halving", "max_trials": 9, "max_time": 9, "time_metric": "epochs",
             "num_rungs": 2},
            {"method": "asha", "trials": 9, "max_length": {"epochs": 9}, "rungs": 2},
        ),
        (
            {"name": "adaptive_simple", "max_trials": 9, "max_length": {"records": 1000}},
            {"method": "asha", "trials": 9, "max_length": {"samples": 1000},
             "brackets": "standard"},
        ),
    ],
)  # fmt: skip
def test_searchers(searcher: dict[str, Any], expected: dict[str, Any]) -> None:
    space = {"n": {"type": "int", "minval": 1, "maxval": 8}}
    document = imported({"hyperparameters": space, "searcher": {"metric": "x", **searcher}})
    assert document["search"] == {"metric": "val/x", "goal": "min", **expected}


@pytest.mark.parametrize(
    ("entrypoint", "expected", "launcher"),
    [
        ("python3 x.py --a b", ["python", "-m", "muster.det_compat", "x.py", "--a", "b"], "shell"),
        (
            "python3 -m determined.launch.torch_distributed python3 x.py",
            ["-m", "muster.det_compat", "x.py"],
            "torchrun",
        ),
        (
            ["python3", "-m", "determined.launch.deepspeed", "--", "python3", "-u", "x.py"],
            ["-m", "muster.det_compat", "x.py"],
            "torchrun",
        ),
        (
            "cd src && python3 x.py",
            ["python", "-m", "muster.det_compat", "--", "bash", "-c", "cd src && python3 x.py"],
            "shell",
        ),
        ("bash run.sh", ["python", "-m", "muster.det_compat", "--", "bash", "run.sh"], "shell"),
    ],
)
def test_entry_points(entrypoint: Any, expected: list[str], launcher: str) -> None:
    document = imported({"entrypoint": entrypoint, "resources": {"slots_per_trial": 2}})
    assert (document["entrypoint"], document["launcher"]) == (expected, launcher)


def test_the_folder_of_the_code() -> None:
    plain = ModelFolder(path="src", scripts={"x.py": "import torch\n"})
    document = imported({"entrypoint": "python3 x.py"}, model=plain)
    assert document["entrypoint"] == ["python", "x.py"], "nothing imports determined"
    assert document["code"] == {"path": "src"}
    for text, is_trial in [
        ("import determined as det\n", False),
        ("from determined import core\n", False),
        ("from determined import pytorch\n", True),
        ("from determined.keras import callbacks\n", True),
        ("import determined.transformers\n", True),
    ]:
        model = ModelFolder(path=".", scripts={"x.py": text}, others=["startup-hook.sh"])
        told = "\n".join(lines({}, model=model))
        assert ("x.py dropped" in told) == is_trial, text
        assert "startup-hook.sh dropped" in told


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"serch": {}}, "serch: there is no such key; did you mean searcher?"),
        ({"resources": {"slots_per_trail": 2}}, "did you mean slots_per_trial?"),
        ({"hyperparameters": {"a": {"type": "duoble"}}}, "did you mean double?"),
        ({"searcher": {"name": "adaptive_asah", "metric": "x"}}, "did you mean adaptive_asha?"),
        ({"searcher": {"name": "custom", "metric": "x"}}, "search.sampler: external"),
        ({"searcher": {"name": "random", "metric": "x"}}, "searcher.max_trials: random needs it"),
        ({"searcher": {"name": "adaptive_asha", "metric": "x", "max_trials": 2}}, "max_time"),
        (
            {"searcher": {"name": "adaptive_asha", "metric": "x", "max_trials": 2, "max_time": 9,
                          "time_metric": "tokens"}},
            "'tokens' cannot be a trial's length here",
        ),
        ({"searcher": "single"}, "searcher: 'single' is not a mapping"),
        ({"entrypoint": "model_def:Trial"}, "is a class of the Trial API"),
        ({"hyperparameters": {"a": {"type": "log", "base": 10, "minval": 1, "maxval": 999}}},
         "too large"),
        ({"hyperparameters": {"a": {"type": "int", "minval": 9, "maxval": 1}}}, "above maxval"),
        ({"hyperparameters": {"a": {"choice": 1}}}, "a group with the name 'choice'"),
        ({"idle_timeout": "2h"}, "a notebook or a command"),
        ({"bind_mounts": [{"host_path": "data"}]}, "not an absolute path"),
        ({"resources": 3}, "resources: 3 is not a mapping"),
        ({"environment": "x"}, "environment: 'x' is not a mapping"),
        ({"max_restarts": "many"}, "'many' is not a number"),
    ],
)  # fmt: skip
def test_mistakes(config: dict[str, Any], message: str) -> None:
    assert message in "\n".join(errors(config))


def test_what_is_no_configuration() -> None:
    assert [e.text() for e in import_determined([1]).errors] == [
        "error: the file holds no mapping of keys"
    ]


def test_every_dropped_key_has_a_reason() -> None:
    told = lines(
        {
            "optimizations": {"aggregation_frequency": 4},
            "environment": {"environment_variables": ["HOME", "HF_TOKEN=x"], "image": "i"},
            "checkpoint_storage": {"type": "azure", "container": "c"},
            "log_policies": [{"pattern": ".*OOM.*", "action": "cancel_retries"}],
        }
    )
    dropped = [line for line in told if " dropped" in line]
    assert len(dropped) == 5
    assert all(line.endswith(")") for line in dropped)
    assert any("HF_TOKEN" in line and "muster secret set" in line for line in told)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["import", "determined", *arguments])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_URL", raising=False)
    config = tmp_path / "const.yaml"
    config.write_text(
        "entrypoint: python3 train.py\n"
        "hyperparameters: {lr: 5e-4}\n"
        "searcher: {name: single, metric: loss}\n"
    )
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("import determined as det\n")
    output = tmp_path / "out.yaml"
    arguments = (str(config), "--model-dir", str(tmp_path / "code"), "-o", str(output))
    done = run(*arguments, "--no-check")
    assert done.exit_code == 0, done.output
    document = yaml.safe_load(output.read_text())
    assert document["name"] == "const"
    assert document["code"] == {"path": "code"}
    assert document["hyperparameters"]["lr"] == pytest.approx(5e-4), "a number, as there"
    assert "searcher.metric → search: {metric: val/loss, goal: min}" in done.output
    assert run(*arguments, "--no-check").exit_code != 0, "the file exists"
    config.write_text(config.read_text().replace("searcher", "serch"))
    output.unlink()
    refused = run(*arguments)
    assert refused.exit_code != 0
    assert "did you mean searcher?" in refused.output
    assert not output.exists()
