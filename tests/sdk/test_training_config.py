from __future__ import annotations

from typing import Any

import pytest

from muster.document.common import Length
from muster.document.train_config import ConfigError, Inject, resolve
from muster.training.loop import planned_steps


def test_hyperparameters_win_over_the_document() -> None:
    config = resolve(
        {"trainer": {"lr": 0.1, "model": "mlp", "options": {"width": 8}}},
        {"lr": 0.2, "width": 16},
        seed=4,
    )
    assert (config.lr, config.model, config.width, config.seed) == (0.2, "mlp", 16, 4)


@pytest.mark.parametrize(
    ("document", "epochs", "steps"),
    [
        ({}, 3, None),
        ({"trainer": {"epochs": None, "steps": None}}, 3, None),
        ({"search": {"max_length": {"epochs": 9}}}, 9, None),
        ({"search": {"max_length": {"steps": 50, "epochs": None}}}, None, 50),
        ({"trainer": {"epochs": 4}, "search": {"max_length": {"epochs": 9}}}, 4, None),
        ({"trainer": {"steps": 7}, "search": {"max_length": {"epochs": 9}}}, None, 7),
    ],
)
def test_length(document: dict[str, Any], epochs: int | None, steps: int | None) -> None:
    config = resolve(document, {})
    assert (config.epochs, config.steps) == (epochs, steps)


@pytest.mark.parametrize(
    ("checkpoints", "epochs", "steps"),
    [
        ({}, 1, None),
        ({"every": None}, None, None),
        ({"every": {"steps": 5}}, None, 5),
        ({"every": {"epochs": 2, "steps": None}}, 2, None),
    ],
)
def test_checkpoint_interval(
    checkpoints: dict[str, Any], epochs: int | None, steps: int | None
) -> None:
    every = resolve({"checkpoints": checkpoints}, {}).checkpoints.every or Length()
    assert (every.epochs, every.steps) == (epochs, steps)


@pytest.mark.parametrize(
    ("document", "hparams", "message"),
    [
        ({"trainer": {"modle": "cnn"}}, {}, "trainer.modle.*did you mean 'model'"),
        ({}, {"learning": 1}, "hyperparameters.learning: the built-in trainer does not know"),
        ({"trainer": {"model": "bert"}}, {}, "model: 'bert' is none of cnn, gpt, mlp, resnet, vit"),
        ({"trainer": {"options": {"width": 1.5}}}, {}, "width: expected a whole number"),
        ({}, {"dropout": 1.0}, "dropout: 1.0 must be below 1"),
        ({}, {"lr": "fast"}, "lr: expected a number"),
        ({}, {"beta2": 1}, "beta2: 1 must be below 1"),
        ({}, {"final_lr_ratio": 1.5}, "final_lr_ratio: 1.5 is above 1"),
        ({}, {"decay_at": [0.5, 1.0]}, "decay_at: expected shares .* such as .0.5, 0.75."),
        ({}, {"decay_at": 0.5}, "decay_at: expected shares"),
        (
            {"trainer": {"early_stopping": {"wait": 3}}},
            {},
            "early_stopping: expected a mapping with",
        ),
        ({"trainer": {"validate_every": 5}}, {}, "validate_every: expected a mapping with epochs"),
        ({}, {"nesterov": 1}, "nesterov: expected true or false"),
        ({}, {"nesterov": True, "optimizer": "sgd", "momentum": 0}, "nesterov: needs a momentum"),
        ({}, {"model": "vit", "heads": 5}, "width: 32 cannot be divided evenly among 5 heads"),
        ({}, {"model": "vit", "patch": 3}, "patch: digits has images of 8×8.* use 1, 2, 4 or 8"),
        ({}, {"lr_scaling": "log"}, "lr_scaling: 'log' is none of none, linear, sqrt"),
        ({"trainer": {"batch_size": 0}}, {}, "batch_size: 0 is below 1"),
        ({"trainer": {"options": {"inject": {"rank": 0}}}}, {}, "expected rank, ms and phase"),
    ],
)
def test_mistakes_are_named(
    document: dict[str, Any], hparams: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(document, hparams)


def test_delays_can_be_injected() -> None:
    config = resolve({"trainer": {"options": {"inject": [{"rank": 1, "ms": 30}]}}}, {})
    assert config.inject == [Inject(rank=1, ms=30, phase="data_wait")]


@pytest.mark.parametrize("probe", ["as_is", "no_sync/", "luck/1", "bucket:0/1", "bucket:x/1", 3])
def test_an_unknown_probe_is_refused_with_what_there_is(probe):
    with pytest.raises(ConfigError, match="as_is/1, no_sync/1"):
        resolve({}, {"probe": probe})


def test_a_probe_validates_nothing_and_tells_every_step():
    config = resolve({"trainer": {"save_best": True}}, {"probe": "bucket:2.5/3"})
    assert config.strategy.bucket_mb == 2.5
    assert (config.save_best, config.test, config.rows_per_s) == (False, False, 0.0)
    assert resolve({}, {"probe": None}).probe is None


def test_a_trial_holds_at_the_rungs_that_the_server_names_and_nowhere_else():
    document = {"trainer": {}, "search": {"hold": {"at": [1, 3], "unit": "epochs", "for_s": 5.0}}}
    hold = resolve(document, {}).hold
    assert hold is not None
    at = [step for step in range(1, 50) if hold.is_due((step - 1) / 10, step / 10)]
    assert at == [10, 30]
    assert hold.is_due(0, 2.5), "the first validation after a rung, where none falls on it"
    assert not hold.is_due(3, 4), "a trial that was sent on from a rung"
    assert resolve({"trainer": {}}, {}).hold is None


def test_a_search_s_length_in_samples_or_seconds_ends_the_training() -> None:
    by_samples = resolve({"trainer": {}, "search": {"max_length": {"samples": 1000}}}, {})
    assert planned_steps(by_samples, steps_per_epoch=7, global_batch=64) == 16
    assert (by_samples.epochs, by_samples.max_s) == (None, None)
    document = {"trainer": {"steps": 50}, "search": {"max_length": {"seconds": 60}}}
    by_time = resolve(document, {})
    assert (planned_steps(by_time, 7, 64), by_time.max_s) == (50, 60)
    with pytest.raises(ConfigError, match=r"trainer\.steps"):
        resolve({"trainer": {}, "search": {"max_length": {"seconds": 60}}}, {})


def test_holds_are_no_option_of_the_trainer() -> None:
    with pytest.raises(ConfigError):
        resolve({"trainer": {"options": {"hold": {}}}}, {})
