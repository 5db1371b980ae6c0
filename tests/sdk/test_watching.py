from __future__ import annotations

import math

import pytest

from muster.document.common import Length
from muster.document.train_config import ConfigError
from muster.document.training import EarlyStopping
from muster.training.watching import EarlyStoppingWatch, goal_of


def watch(**settings: object) -> EarlyStoppingWatch:
    return EarlyStoppingWatch.of(EarlyStopping(**settings))  # type: ignore[arg-type]


def feed(found: EarlyStoppingWatch, values: list[float], metric: str = "val/loss") -> list[bool]:
    return [found.observe({metric: v}, step) for step, v in enumerate(values, start=1)]


def test_it_ends_after_so_many_validations_that_are_no_better() -> None:
    found = watch(patience=2)
    assert feed(found, [3.0, 2.0, 2.0]) == [True, True, False]
    assert found.verdict is None
    assert feed(found, [2.5]) == [False]
    assert found.verdict == ("val/loss has not improved for 2 validations; best 2 at step 2")


def test_a_better_value_begins_the_count_anew() -> None:
    found = watch(patience=2)
    feed(found, [3.0, 4.0, 2.0, 4.0])
    assert found.verdict is None
    assert (found.best, found.num_worse) == (2.0, 1)


def test_a_difference_has_to_be_large_enough() -> None:
    found = watch(patience=1, min_delta=0.1, metric="val/accuracy")
    assert feed(found, [0.5, 0.7, 0.75], "val/accuracy") == [True, True, False]
    assert found.verdict == (
        "val/accuracy has not improved by more than 0.1 for 1 validation; best 0.7 at step 2"
    )


def test_what_is_not_a_number_is_never_better() -> None:
    found = watch(patience=2)
    assert feed(found, [math.nan, math.nan]) == [False, False]
    assert found.verdict is not None
    assert "it never was a number" in found.verdict
    found = watch(patience=2)
    assert feed(found, [math.inf, math.nan, 1.0]) == [True, False, True]


def test_without_settings_the_loss_is_watched_and_nothing_ends() -> None:
    found = EarlyStoppingWatch.of(None)
    feed(found, [1.0] + [2.0] * 50)
    assert (found.verdict, found.best_step) == (None, 1)


def test_the_count_goes_on_after_a_restart() -> None:
    found, again, other = watch(), watch(), watch(metric="val/accuracy")
    feed(found, [1.0, 2.0])
    again.load(found.state())
    assert again == found
    other.load(found.state())
    assert other.best is None


def test_which_way_is_better() -> None:
    assert [goal_of(m, None) for m in ("val/loss", "val/perplexity", "val/top5_accuracy")] == [
        "min",
        "min",
        "max",
    ]
    assert goal_of("val/score", "max") == "max"
    with pytest.raises(ConfigError, match=r"less \(min\) or more \(max\) val/score"):
        goal_of("val/score", None)
    with pytest.raises(ConfigError, match="validations have no 'val/loss'; there are val/error"):
        watch().observe({"val/error": 1.0}, 1)


def test_distances() -> None:
    assert [s for s in range(1, 13) if Length(steps=4).is_due(s, 5)] == [4, 8, 12]
    assert [s for s in range(1, 13) if Length(epochs=2).is_due(s, 3)] == [6, 12]
    assert not any(Length().is_due(s, 3) for s in range(1, 13))
