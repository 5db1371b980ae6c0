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
            + "search: {method: random, trials: 2}\n"
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


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("entrypoint: train.py --out ${MUSTER_CHECKPOINT_DIR}/x ${MUSTER_DATA_TRAIN}", {}),
        (
            "entrypoint: train.py --out $MUSTER_CHECKPOINT_DIR/x",
            {"entrypoint": ("$MUSTER_CHECKPOINT_DIR", "write ${MUSTER_CHECKPOINT_DIR}")},
        ),
        ("entrypoint: train.py ${SCRATCH}", {"entrypoint": ("${SCRATCH}", "shell script")}),
        ("entrypoint: train.py --price $5", {}),
        ("entrypoint: [bash, -c, 'echo $SCRATCH']", {}),
        (
            "entrypoint: bash run.sh $SCRATCH\nenvironment: {variables: {A: $OTHER/x, B: '$'}}",
            {
                "entrypoint": ("$SCRATCH", "shell script"),
                "environment.variables.A": ("$OTHER", "shell script"),
            },
        ),
    ],
)
def test_what_looks_like_a_variable_and_stays(
    text: str, warned: dict[str, tuple[str, str]]
) -> None:
    found = {w.path: w for w in resolve(f"name: x\n{text}").warnings}
    assert found.keys() == warned.keys()
    for path, (variable, hint) in warned.items():
        assert english(found[path].message) == f"contains {variable}, which no shell replaces"
        assert hint in (found[path].hint or "")


SPACE = "hyperparameters: {width: {choice: [1, 2, 4]}, bias: {choice: [true, false]}, lr: %s}"


@pytest.mark.parametrize(
    ("method", "lr", "trials", "warned"),
    [
        ("random", "0.1", 12, True),
        ("random, sampler: tpe", "0.1", 7, True),
        ("random", "0.1", 6, False),
        ("random", "{int: [1, 2], count: 1}", 12, False),
        ("random", "{log: [0.1, 1]}", 12, False),
        ('random, constraints: ["width > 1"]', "0.1", 5, True),
    ],
)
def test_a_space_with_fewer_points_than_trials_says_how_many_there_are(
    method: str, lr: str, trials: int, warned: bool
) -> None:
    resolved = resolve(
        f"name: x\nentrypoint: train.py\ncode: {{installed: /srv}}\n{SPACE % lr}\n"
        f"search: {{method: {method}, metric: loss, goal: min, trials: {trials}}}"
    )
    assert resolved.problems == ()
    found = [english(w.message) for w in resolved.warnings if w.path == "search.trials"]
    num = 4 if "constraints" in method else 6
    told = f"is {trials}, but the space has only {num} different points: some will be tried again"
    assert found == ([told] if warned else [])
