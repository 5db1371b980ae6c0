"""domain.metrics: names, bucket widths, visible limits, summaries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.metrics import (
    bucket_width,
    epoch_at,
    headline_name,
    headline_of,
    summarize,
    visible_limits,
)


@given(first=st.integers(0, 2**50), span=st.integers(0, 2**40), max_buckets=st.integers(1, 5000))
def test_bucket_width_is_the_least_power_of_two_that_fits(
    first: int, span: int, max_buckets: int
) -> None:
    last = first + span
    width = bucket_width(first, last, max_buckets)

    def buckets(w: int) -> int:
        return last // w - first // w + 1

    assert width & (width - 1) == 0
    assert buckets(width) <= max_buckets
    assert width == 1 or buckets(width // 2) > max_buckets


def test_an_attempt_hides_what_earlier_ones_reported_from_its_first_step_on() -> None:
    assert visible_limits({1: 1, 2: 101}) == {1: 100, 2: None}
    assert visible_limits({1: 0, 2: 100})[1] == 99
    assert visible_limits({1: 0, 2: 0})[1] == -1


def test_an_attempt_that_goes_further_back_hides_of_all_earlier_ones() -> None:
    assert visible_limits({1: 1, 2: 101, 3: 51}) == {1: 50, 2: 50, 3: None}


def test_an_attempt_without_the_series_hides_nothing_of_it() -> None:
    assert visible_limits({1: 1, 3: 101}) == {1: 100, 3: None}
    assert visible_limits({1: 1}) == {1: None}


def test_summary_leaves_out_what_is_not_finite_and_takes_the_last_of_the_highest_step() -> None:
    s = summarize([1, 3, 3, 2], [10, 30, 31, 20], [math.inf, 5.0, 4.0, math.nan])
    assert (s.count, s.num_non_finite, s.min, s.max) == (4, 2, 4.0, 5.0)
    assert (s.first_step, s.last_step, s.last, s.last_time_ms) == (1, 3, 4.0, 31)


def test_epoch_of_an_earlier_step_in_a_record_is_in_proportion() -> None:
    assert epoch_at(100, record_step=300, record_epoch=3.0) == 1.0
    assert epoch_at(300, record_step=300, record_epoch=3.0) == 3.0
    assert epoch_at(1, record_step=0, record_epoch=1.0) == 1.0
    assert epoch_at(1, record_step=2, record_epoch=None) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train/loss", "val/loss", "val/accuracy"], "val/loss"),
        (["train/loss", "lr"], "train/loss"),
        (["test/loss", "train/loss"], "train/loss"),
        (["Loss/test", "Loss/train"], "Loss/train"),
        (["eval_loss", "loss", "train_loss"], "eval_loss"),
        (["train_loss_epoch", "train_loss"], "train_loss"),
        (["validation_0-logloss", "validation_0-error"], "validation_0-logloss"),
        (["train/rmse", "validation/rmse"], "validation/rmse"),
        (["val/rmse", "train/loss"], "train/loss"),
        (["time/step_ms", "comm/lossy_ms", "evaluation_s", "lossless"], None),
        ([], None),
    ],
)
def test_the_metric_that_stands_for_a_training_is_its_loss(
    names: list[str], expected: str | None
) -> None:
    assert headline_name(names) == expected
    assert headline_name(reversed(names)) == expected


@pytest.mark.parametrize(
    ("steps", "compared", "expected"),
    [
        # nanoGPT prints train_loss and val_loss once, before it trains.
        ({"train_loss": 0, "val_loss": 0}, None, "val_loss"),
        ({"train_loss": 0, "val_loss": 0, "loss": 10, "iter_ms": 10}, None, "loss"),
        ({"train_loss": 2000, "val_loss": 2000, "loss": 3990}, None, "val_loss"),
        # An error that goes on is better than a loss that does not.
        ({"val_loss": 0, "rmse": 500}, None, "rmse"),
        ({"val/loss": 0, "train/loss": 10, "accuracy": 3}, "accuracy", "accuracy"),
        ({"val/loss": 10}, "accuracy", "val/loss"),
        # Runs within the trial: its own values come first, then those of the newest run.
        ({"loss": 3, "run-2/loss": 10, "run-2/val/loss": 10}, None, "loss"),
        ({"mean_val_loss": 0, "fold-0/val/loss": 9, "fold-1/val/loss": 9}, None, "mean_val_loss"),
        ({f"fold-{n}/val/loss": 9 for n in range(11)} | {"lr": 9}, None, "fold-10/val/loss"),
        ({"fold-0/val/loss": 9, "fold-1/loss": 9, "fold-2/val/loss": 1}, None, "fold-1/loss"),
        ({"valid_0/loss": 9, "training_1/loss": 9}, None, "valid_0/loss"),
        ({"loss": 9, "fold_0/loss": 9}, "fold_0/loss", "fold_0/loss"),
        ({"lr": 10, "accuracy": 10}, None, None),
        ({}, None, None),
    ],
)
def test_the_headline_is_the_metric_that_still_moves(
    steps: dict[str, int], compared: str | None, expected: str | None
) -> None:
    assert headline_of(steps, compared) == expected
    assert headline_of(dict(reversed(steps.items())), compared) == expected


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 500), st.integers(0, 100))
def test_what_is_reported_at_intervals_from_the_start_always_moves(
    every: int, validated_every: int, num_steps: int, start: int
) -> None:
    """Both report at the ends of their intervals, from the step after `start` on."""

    def newest(interval: int) -> int | None:
        return start + num_steps // interval * interval if num_steps >= interval else None

    reported = {"train/loss": newest(every), "val/loss": newest(validated_every)}
    steps = {name: step for name, step in reported.items() if step is not None}
    expected = "val/loss" if "val/loss" in steps else "train/loss" if steps else None
    assert headline_of(steps, None) == expected
