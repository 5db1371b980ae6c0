"""The recipe in trainings of this very process: no torchrun, no other worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.document.train_config import ConfigError, resolve
from muster.sdk.env import RankInfo, Surroundings, TrialConfig
from muster.sdk.reporter import Reporter
from muster.sdk.run import Run
from muster.sdk.sinks import FileSink
from support.training.jobs import Job

pytestmark = pytest.mark.torch

Train = Callable[..., Job]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Trains the given `trainer` section to its end and gives what was reported."""
    from muster.training.loop import train as run_to_the_end

    def begin(
        name: str,
        resume_from: Path | None = None,
        search: dict[str, Any] | None = None,
        **trainer: Any,
    ) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        around = Surroundings(
            info=RankInfo(),
            checkpoint_dir=str(folder / "checkpoints"),
            resume_from=str(resume_from or ""),
        )
        sink = FileSink(str(folder / "reports.jsonl"), rank=0, local_rank=0)
        document = {"trainer": trainer, "checkpoints": {"every": None}, "search": search}
        run = Run(Reporter(around, sink, TrialConfig(hparams={}, config=document, seed=3)))
        run_to_the_end(run, resolve(document, {}, seed=3))
        run.close()
        return Job(folder, [])

    return begin


SMALL = {"model": "mlp", "width": 8, "depth": 1, "rows_per_s": 0}
TEXT = {"model": "gpt", "data": "shakespeare", "width": 16, "heads": 2, "depth": 1, "context": 16}


def test_validation_early_stopping_and_the_best_checkpoint(train: Train) -> None:
    """A learning rate that ruins the model after a while: the best checkpoint is not the last."""
    job = train(
        "ruined",
        **SMALL,
        data="digits",
        steps=60,
        optimizer="sgd",
        lr=3.0,
        warmup_steps=60,
        momentum=0.95,
        validate_every={"steps": 5},
        early_stopping={"metric": "val/loss", "patience": 3},
        save_best=True,
    )
    losses = job.series("val/loss")
    steps = sorted(losses)
    assert steps == list(range(5, steps[-1] + 1, 5))
    assert steps[-1] < 60
    best = min(losses, key=lambda step: losses[step])
    assert steps[-1] == best + 3 * 5

    saved = {line["step"]: line["metrics"] for line in job.lines("checkpoint")}
    assert best in saved
    assert saved[best]["val/loss"] == losses[best]
    assert steps[-1] in saved  # to go on from
    (message,) = job.lines("message")
    assert message["text"].startswith(
        f"ended early at step {steps[-1]} of 60: val/loss has not improved for 3 validations"
    )
    # The test samples were judged once, by the best model: far better than the ruined one.
    (test_loss,) = job.series("test/loss").values()
    assert test_loss == pytest.approx(losses[best], rel=0.5)
    assert test_loss < losses[steps[-1]]

    (judged,) = job.lines("evaluation")
    assert (judged["name"], judged["step"]) == ("test", best)
    assert judged["metrics"]["test/loss"] == test_loss
    assert judged["classes"] == [str(n) for n in range(10)]
    confusion = judged["confusion"]
    assert sum(map(sum, confusion)) == 180
    right = sum(confusion[i][i] for i in range(10))
    assert right / 180 == pytest.approx(judged["metrics"]["test/accuracy"])

    # Going on from its end finds the verdict in the checkpoint and does not train on.
    last = job.checkpoints / f"step-{steps[-1]:08d}"
    again = train(
        "again",
        resume_from=last,
        **SMALL,
        data="digits",
        steps=60,
        optimizer="sgd",
        lr=3.0,
        warmup_steps=60,
        momentum=0.95,
        early_stopping={"metric": "val/loss", "patience": 3},
    )
    assert again.series("train/loss") == {}


def test_a_fork_trains_with_its_own_settings_not_with_those_of_the_checkpoint(train: Train) -> None:
    given = {**SMALL, "data": "digits", "optimizer": "sgd", "momentum": 0.9, "schedule": "linear"}
    first = train("first", **given, steps=10, lr=0.1)
    last = first.checkpoints / "step-00000010"
    same = train("same", resume_from=last, **given, steps=20, lr=0.1)
    other = train("other", resume_from=last, **given, steps=20, lr=0.02, weight_decay=0.1)
    lr = {name: job.series("train/lr") for name, job in (("same", same), ("other", other))}
    # The schedule goes on where it was: half of 20 steps are done.
    assert lr["same"][11] == pytest.approx(0.05)
    assert lr["other"][11] == pytest.approx(0.01)
    assert lr["other"][20] == pytest.approx(0.02 / 20)
    # The first step of each start says how far along the samples it is.
    (batch,) = first.series("progress/samples").values()
    assert same.series("progress/samples") == {11: 11 * batch}
    assert other.series("train/loss")[11] == same.series("train/loss")[11], "the same weights"
    assert other.series("train/loss")[20] != same.series("train/loss")[20]


def test_a_search_s_length_in_samples_or_seconds_ends_it_and_is_reported(train: Train) -> None:
    by_samples = train("samples", **SMALL, data="digits", search={"max_length": {"samples": 1000}})
    assert by_samples.series("progress/samples")[32] == 1024  # batches of 32
    assert list(by_samples.series("val/loss"))[-1] == 32
    timed = {**SMALL, "data": "digits", "steps": 1_000_000, "validate_every": {"steps": 20}}
    first = train("first", **timed, search={"max_length": {"seconds": 1}})
    seconds = list(first.series("progress/seconds").values())
    assert seconds == sorted(seconds)
    # Whether time is up is decided a moment after it is reported.
    assert all(s < 1 for s in seconds[:-1])
    last = max((first.checkpoints).iterdir())
    # What a checkpoint took counts: it goes on from there, and was at its end.
    again = train("again", resume_from=last, **timed, search={"max_length": {"seconds": 1}})
    (resumed,) = again.series("progress/seconds").values()
    assert resumed > max(1, seconds[-1])


def test_a_language_model_learns_letters(train: Train) -> None:
    job = train("gpt", **TEXT, rows_per_s=0, steps=30, batch_size=32, lr=0.01)
    losses = job.series("val/loss")
    assert list(losses) == [30]
    assert losses[30] < 4.0  # of 5.5 = log 256
    perplexity = job.series("val/perplexity")[30]
    assert perplexity == pytest.approx(2.718281828 ** losses[30], rel=1e-6)
    assert set(job.series("test/perplexity")) == {30}
    (judged,) = job.lines("evaluation")
    assert (judged["classes"], judged["confusion"]) == ([], [])


OWN = """
import torch

def pairs(num, seed):
    x = torch.rand(num, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > x[:, 1]).long() + (x[:, 0] > x[:, 2]).long()

def samples():
    return {"train": pairs(400, 1), "val": pairs(80, 2), "test": pairs(90, 3),
            "names": ["small", "middle", "large"]}

def net(inputs, classes):
    return torch.nn.Sequential(torch.nn.Linear(inputs[0], 16), torch.nn.ReLU(),
                               torch.nn.Linear(16, classes))

def no_samples():
    return {"train": (torch.zeros(3), torch.zeros(3))}

def not_a_net(inputs, classes):
    return "a net"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the folder that the worker was started in."""
    (tmp_path / "own_recipe_code.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_recipe_code", raising=False)
    return "own_recipe_code"


def test_ones_own_model_and_data_are_trained_like_the_built_in_ones(train: Train, own: str) -> None:
    both = {"model": f"{own}:net", "data": f"{own}:samples"}
    job = train("own", **both, epochs=6, batch_size=20, lr=0.02, rows_per_s=0)
    losses = job.series("val/loss")
    assert losses[120] < losses[20] < 1.1
    (judged,) = job.lines("evaluation")
    assert judged["classes"] == ["small", "middle", "large"]
    assert sum(map(sum, judged["confusion"])) == 90
    train("built-in model", **SMALL | {"data": f"{own}:samples"}, steps=2)


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"model": "no_such_module:net"}, "there is no module 'no_such_module' in .*code.path"),
        ({"model": "{own}:nett"}, "own_recipe_code has no function 'nett'"),
        ({"model": "{own}:not_a_net"}, "expected a torch.nn.Module, got str"),
        ({"data": "{own}:no_samples"}, "targets of train must be whole numbers from 0 on"),
        ({"data": "{own}:net"}, "missing 2 required"),
        ({"data": "{own}:samples", "model": "cnn"}, "cnn reads images, and .* other samples"),
    ],
)
def test_what_is_wrong_with_ones_own_code_is_said(
    own: str, trainer: dict[str, str], message: str
) -> None:
    from muster.training import tasks

    given = {key: value.replace("{own}", own) for key, value in trainer.items()}
    with pytest.raises((ConfigError, TypeError), match=message):
        tasks.make(resolve({"trainer": given}, {}), global_batch=4).model()


def test_another_seed_is_another_training_and_the_same_one_the_same(train: Train) -> None:
    def curve(name: str, seed: int) -> dict[int, float]:
        return train(name, **SMALL, steps=5, seed=seed, test=False).series("train/loss")

    first = curve("first", 1)
    assert curve("again", 1) == first
    assert curve("other", 2) != first


def test_checkpoints_tell_of_validations_at_their_own_step_only(train: Train) -> None:
    job = train("own", **SMALL, steps=4, save_best=True, validate_every={"steps": 3}, test=False)
    metrics = {line["step"]: line["metrics"] for line in job.lines("checkpoint")}
    assert sorted(metrics) == [3, 4]
    for step, values in metrics.items():
        assert values["val/loss"] == job.series("val/loss")[step]
    assert json.dumps(metrics)  # plain numbers
    assert job.series("test/loss") == {}


AUTO = {**SMALL, "batch_size": "auto"}


def test_it_is_found_said_and_kept_when_the_training_goes_on(train: Train, tmp_path: Path) -> None:
    from muster.training import tasks
    from muster.training.batch_finder import Need

    config = resolve({"trainer": AUTO}, {})
    each = Need.of(tasks.make(config, global_batch=1), config, slots=1)
    limit = (each.of_batch(64) + each.per_sample) / 1e9
    first = train("first", **AUTO, steps=4, batch_memory_gb=limit)
    assert set(first.series("train/batch_size").values()) == {64}
    (said,) = [m["text"] for m in first.lines("message") if "batch_size: auto" in m["text"]]
    assert "is 64, a global batch of 64: a worker needs" in said

    saved = tmp_path / "first" / "checkpoints" / "step-00000004"
    again = train("again", saved, **AUTO, steps=6, batch_memory_gb=1.0)
    assert set(again.series("train/batch_size").values()) == {64}
    assert sorted(again.series("train/loss")) == [5, 6]

    with pytest.raises(ConfigError, match=r"auto found no size: a worker needs .* more slots"):
        train("none", **AUTO, steps=1, batch_memory_gb=each.fixed / 1e9)
