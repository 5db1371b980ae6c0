"""Documents that are valid, and what is said of them all the same."""

import pytest

from muster_server.domain.messages import english
from muster_server.services.documents import resolve

GPT = "name: x\nresources: {slots: 2}\ntrainer: {model: gpt, data: shakespeare"
ASYNC = "strategy: {kind: pp, schedule: async}\n"
STALE = "strategy: {kind: ps, staleness: 3}\n"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (GPT + "}\n" + ASYNC, ["strategy.schedule"]),
        (GPT + ", optimizer: lamb}\n" + ASYNC, ["strategy.schedule"]),
        (GPT + ", optimizer: sgd}\n" + ASYNC, []),
        (GPT + "}\nstrategy: {kind: pp}\n", []),
        (GPT + "}\n" + STALE, ["strategy.staleness"]),
        (GPT + "}\nstrategy: {kind: ps, staleness: unbounded}\n", ["strategy.staleness"]),
        (GPT + ", optimizer: sgd}\n" + STALE, []),
        (GPT + "}\nstrategy: {kind: ps}\n", []),
        (
            GPT
            + ", optimizer: sgd}\nhyperparameters: {optimizer: {choice: [sgd, adamw]}}\n"
            + "search: {method: random, trials: 4}\n"
            + STALE,
            ["strategy.staleness"],
        ),
        ("name: x\nentrypoint: train.py\nresources: {slots: 2}\n", []),
    ],
)
def test_asynchronous_updates_of_an_adaptive_optimizer(text: str, paths: list[str]) -> None:
    resolved = resolve(text)
    assert resolved.problems == ()
    assert [warning.path for warning in resolved.warnings] == paths
    for warning in resolved.warnings:
        assert warning.hint is not None
        assert "optimizer: sgd" in warning.hint
        assert "sgd" not in english(warning.message)
