"""Scores of evaluations, which of them are ranked together, and what a version says of its module."""

from __future__ import annotations

import json
import math

import pytest

from muster.document.model_config import BadModelConfig, ModelConfig
from muster.document.train_config import resolve
from muster.inference.scores import (
    calibration_error,
    class_scores,
    macro_f1,
    percentile,
    wilson_interval,
)
from muster_models.domain.registry.leaderboard import Evaluated, leaderboards


def test_the_interval_of_wilson_is_that_of_the_textbook() -> None:
    low, high = wilson_interval(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)  # Newcombe 1998, table I
    assert wilson_interval(0, 10)[0] == 0
    assert wilson_interval(10, 10)[1] == pytest.approx(1)


def test_scores_follow_from_counts() -> None:
    # Two bins: 4 samples at confidence 0.9 of which 2 are right, 6 at 0.6 of which 6 are.
    error = calibration_error([4, 6], [2, 6], [3.6, 3.6])
    assert error == pytest.approx((4 * 0.4 + 6 * 0.4) / 10)
    scores = class_scores(["a", "b", "never"], [[8, 2, 0], [0, 10, 0], [0, 0, 0]])
    assert macro_f1(scores) == pytest.approx((16 / 18 + 20 / 22) / 2), (
        "what never occurs counts not"
    )
    assert macro_f1([]) is None
    assert [percentile([4, 1, 3, 2], p) for p in (50, 95, 100)] == [2, 4, 4]


def evaluation(use_id: int, version_id: int, **more: object) -> Evaluated:
    fields = {
        "data": "digits",
        "split": "test",
        "data_digest": "sha256:1",
        "metrics_version": 1,
        "metrics": {"accuracy": 0.9, "log_loss": 0.3},
    }
    return Evaluated(use_id=use_id, version_id=version_id, **{**fields, **more})  # type: ignore[arg-type]


def test_only_what_can_be_compared_is_ranked_together() -> None:
    boards = leaderboards(
        [
            evaluation(1, 1, metrics={"accuracy": 0.5}),
            evaluation(2, 1, metrics={"accuracy": 0.8}),
            evaluation(3, 2, metrics={"accuracy": 0.9}),
            evaluation(4, 3, metrics={"accuracy": 0.9}),
            evaluation(5, 4, metrics={"accuracy": math.nan}),
            evaluation(6, 5, data_digest="sha256:2"),
            evaluation(7, 5, metrics_version=2),
            evaluation(8, 5, split="val"),
            evaluation(9, 5, data="text", metrics={"accuracy": 0.5, "bits_per_byte": 2.0}),
            evaluation(10, 6, data="text", metrics={"accuracy": 0.4, "bits_per_byte": 1.5}),
        ]
    )
    ranked = {
        (b.key.data, b.key.split, b.key.data_digest, b.key.metrics_version): [
            (r.evaluation.version_id, r.rank) for r in b.rows
        ]
        for b in boards
    }
    assert ranked == {
        ("text", "test", "sha256:1", 1): [(6, 1), (5, 2)],
        ("digits", "val", "sha256:1", 1): [(5, 1)],
        ("digits", "test", "sha256:1", 2): [(5, 1)],
        ("digits", "test", "sha256:2", 1): [(5, 1)],
        ("digits", "test", "sha256:1", 1): [(2, 1), (3, 1), (1, 3), (4, None)],
    }
    assert [(b.metric, b.goal) for b in boards][:2] == [
        ("bits_per_byte", "min"),
        ("accuracy", "max"),
    ]


def test_the_description_of_a_module_comes_back_as_it_was() -> None:
    gpt = {"trainer": {"model": "gpt", "data": "shakespeare", "context": 32, "heads": 2}}
    config = ModelConfig.of(resolve(gpt, {"width": 48}))
    assert ModelConfig.read(config.text()) == config
    document = json.loads(config.text())
    assert document["format"] == "muster-model"
    assert document["inputs"] == {"shape": [32], "dtype": "int64"}
    assert (document["classes"], document["trainer"]["width"]) == (256, 48)
    assert config.train_config().heads == 2
    own = ModelConfig.of(resolve({"trainer": {"model": "mlp", "data": "mine:load"}}, {}))
    assert (own.shape, own.classes) == (None, None), "only the user's own data tell"
    for text, words in (
        ("{", "is not JSON"),
        ('{"format": "gpt2"}', "its format is not 'muster-model'"),
        ('{"format": "muster-model", "format_version": 9}', "format_version 9"),
        ('{"format": "muster-model", "format_version": 1}', "lacks or misstates 'inputs'"),
    ):
        with pytest.raises(BadModelConfig, match=words):
            ModelConfig.read(text)
