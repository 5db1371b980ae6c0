"""batch_size: auto, on one worker and in this process; several agree as test_strategies shows."""

from __future__ import annotations

from typing import Any

import pytest

from muster.document.train_config import resolve

pytestmark = pytest.mark.torch

SETTINGS: dict[str, Any] = {"model": "mlp", "width": 64, "depth": 1, "batch_size": "auto"}
PARAMS_BYTES = 4 * (64 * 64 + 64 + 64 * 10 + 10)


def need(*, slots: int = 1, strategy: dict[str, Any] | None = None, **trainer: Any) -> Any:
    from muster.training import tasks
    from muster.training.batch_finder import Need

    document = {"trainer": {**SETTINGS, **trainer}, "strategy": strategy or {}}
    config = resolve(document, {})
    return Need.of(tasks.make(config, global_batch=slots), config, slots=slots)


def test_what_a_batch_needs_is_what_forward_keeps_and_the_optimizer_has() -> None:
    found = need()
    assert found.fixed == pytest.approx(4 * PARAMS_BYTES, rel=0.01)  # adamw
    # Inputs, hidden units before or after the activation, log-probabilities, target.
    assert 4 * (64 + 64 + 10) <= found.per_sample <= 4 * (64 + 3 * 64 + 4 * 10)
    assert need(optimizer="sgd").fixed == pytest.approx(3 * PARAMS_BYTES, rel=0.01)
    assert need(slots=2, strategy={"kind": "ddp"}).fixed > found.fixed
    blocks = {"model": "gpt", "data": "shakespeare", "width": 32, "depth": 4}
    whole = need(**blocks)
    assert need(**blocks, strategy={"recompute": True}).per_sample < 0.5 * whole.per_sample
    assert need(slots=2, **blocks, strategy={"kind": "fsdp"}).fixed < whole.fixed


def test_the_largest_power_of_two_that_fits() -> None:
    from muster.training.batch_finder import Need, largest

    each = Need(fixed=100.0, per_sample=10.0)
    assert largest(each, 100.0 + 64 * 10.0, at_most=10_000) == 64
    assert largest(each, 100.0 + 64 * 10.0 - 1, at_most=10_000) == 32
    assert largest(each, 1e9, at_most=1437) == 1024
    assert largest(each, 109.0, at_most=10_000) == 0
