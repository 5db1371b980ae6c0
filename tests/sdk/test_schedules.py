from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.document.train_config import TrainConfig
from muster.training import schedules


def curve(num_steps: int, *, warmup: int = 0, **values: Any) -> list[float]:
    config = TrainConfig(warmup_steps=warmup, **values)
    return [schedules.factor(config, step, num_steps=num_steps) for step in range(num_steps)]


def test_shapes() -> None:
    assert curve(4, schedule="constant") == [1, 1, 1, 1]
    assert curve(4, schedule="linear") == pytest.approx([1, 0.75, 0.5, 0.25])
    assert curve(4, schedule="linear", final_lr_ratio=0.2) == pytest.approx([1, 0.8, 0.6, 0.4])
    assert curve(4) == pytest.approx([1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)])
    assert curve(4, final_lr_ratio=0.5)[2] == pytest.approx(0.75)
    assert curve(8, schedule="step", decay_at=(0.25, 0.5), decay_factor=0.1) == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01]
    )


def test_it_rises_first() -> None:
    assert curve(6, schedule="constant", warmup=4) == [0.25, 0.5, 0.75, 1, 1, 1]
    assert curve(6, schedule="linear", warmup=2) == [0.5, 1, 1, 0.75, 0.5, 0.25]
    assert curve(3, warmup=5) == pytest.approx([0.2, 0.4, 0.6])  # longer than the training
    for config, steps in ((TrainConfig(warmup_epochs=0.5), 4), (TrainConfig(warmup_steps=3), 3)):
        assert schedules.settled(config, global_batch=32, steps_per_epoch=7).warmup_steps == steps


@given(
    schedule=st.sampled_from(["constant", "cosine", "linear", "step"]),
    num_steps=st.integers(1, 200),
    warmup=st.integers(0, 250),
    final=st.floats(0, 1),
)
def test_it_never_leaves_0_to_1_and_falls_after_the_warm_up(
    schedule: str, num_steps: int, warmup: int, final: float
) -> None:
    values = curve(num_steps, warmup=warmup, schedule=schedule, final_lr_ratio=final)
    assert all(0 <= v <= 1 for v in values)
    assert values[:warmup] == sorted(values[:warmup])
    assert values[warmup:] == sorted(values[warmup:], reverse=True)


@pytest.mark.parametrize(
    ("scaling", "reference", "global_batch", "expected"),
    [
        ("none", 256, 8192, 0.1),
        ("linear", 256, 8192, 3.2),
        ("linear", None, 128, 0.4),  # four slots of 32
        ("sqrt", 256, 1024, 0.2),
        ("linear", 256, 64, 0.025),
    ],
)
def test_the_learning_rate_grows_with_the_global_batch(
    scaling: Any, reference: int | None, global_batch: int, expected: float
) -> None:
    config = TrainConfig(lr=0.1, lr_scaling=scaling, reference_batch=reference, batch_size=32)
    settled = schedules.settled(config, global_batch=global_batch, steps_per_epoch=1)
    assert settled.lr == pytest.approx(expected)
    assert schedules.settled(settled, global_batch=global_batch, steps_per_epoch=1) == settled
