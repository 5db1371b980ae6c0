"""Decisions per second and memory of one large search, beside Optuna's own loop.

    python bench/search.py [--trials N] [--optuna-trials N]

The objective is trivial: each trial has a quality drawn before, and reports it at every rung. So all
that is timed is deciding. Muster plays the whole search in memory, as its preview does; a pass of the
search loop also reads and writes the state, which is timed apart. Optuna runs its study in memory with
random draws and its successive halving, with the same rungs and in the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import optuna

from muster_server.domain.search import (
    Action,
    CreateTrial,
    ResumeTrial,
    Searcher,
    SearchSpec,
    Started,
    TrialEnded,
    Validated,
)
from muster_server.domain.search.simulate import simulate

T = TypeVar("T")
SPACE = {"lr": {"log": [1e-4, 1e-1]}, "width": {"int": [1, 8]}}
DIVISOR = 4
TOP = 256
CONCURRENT = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--optuna-trials", type=int, default=2_000)
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    print(f"rungs {asha('stopping', 1000).rungs}, {CONCURRENT} trials at once\n")
    rng = random.Random(1)
    quality = [rng.random() for _ in range(options.trials + 1)]
    rates: dict[tuple[str, int], float] = {}
    for trials in sorted({options.optuna_trials, options.trials}):
        for rule in ("stopping", "promotion"):
            spec = asha(rule, trials)
            seconds, played = timed(partial(simulate, spec, lambda no, _h, _u: quality[no]))
            rates[rule, trials] = trials / seconds
            events = sum(played.per_rung) + trials
            print(
                f"Muster, {rule}: {trials:,} trials, rungs {played.per_rung}, {seconds:.2f} s CPU: "
                f"{trials / seconds:,.0f} trials/s, {events / seconds:,.0f} events/s"
            )
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"most memory of this process: {peak_mib:,.0f} MiB\n")
    state_cost("promotion", options.trials, quality)
    seconds, _ = timed(lambda: optuna_loop(options.optuna_trials, quality))
    rate = options.optuna_trials / seconds
    print(
        f"\nOptuna {optuna.__version__} in memory: {options.optuna_trials:,} trials, "
        f"{seconds:.2f} s CPU: {rate:,.0f} trials/s"
    )
    for rule in ("stopping", "promotion"):
        print(
            f"  Muster, {rule}, as many trials: {rates[rule, options.optuna_trials] / rate:.1f} ×"
        )


def asha(rule: str, trials: int) -> SearchSpec:
    return SearchSpec.asha(
        space=SPACE,
        trials=trials,
        max_units=TOP,
        divisor=DIVISOR,
        concurrent=CONCURRENT,
        rule="promotion" if rule == "promotion" else "stopping",
    )


def timed(do: Callable[[], T]) -> tuple[float, T]:
    """(seconds of processor time, answer)."""
    start = time.process_time()
    answer = do()
    return time.process_time() - start, answer


def state_cost(rule: str, trials: int, quality: list[float]) -> None:
    """What a pass of the search loop adds: the state out of the database and into it."""
    searcher = Searcher(asha(rule, trials))
    todo = searcher.apply(Started())
    reached: dict[int, int] = {}
    while todo and searcher.num_created < trials:
        todo += advance(searcher, todo.pop(0), reached, quality)
    text = json.dumps(searcher.state())
    out, _ = timed(lambda: Searcher.from_state(json.loads(text)))
    back, _ = timed(lambda: json.dumps(searcher.state()))
    print(
        f"state of {searcher.num_created:,} trials: {len(text) / 2**20:.1f} MiB of JSON, "
        f"read in {out * 1000:,.0f} ms CPU, written in {back * 1000:,.0f} ms CPU"
    )


def advance(
    searcher: Searcher, action: Action, reached: dict[int, int], quality: list[float]
) -> list[Action]:
    """Let the trial an action is about train to its next rung."""
    if not isinstance(action, CreateTrial | ResumeTrial):
        return []
    no, rungs = action.no, searcher.spec.rungs
    reached[no] = reached.get(no, -1) + 1
    units = rungs[reached[no]]
    actions = searcher.apply(Validated(trial_no=no, units=units, value=quality[no]))
    if units == rungs[-1]:
        ended = TrialEnded(trial_no=no, outcome="completed", value=quality[no])
        actions += searcher.apply(ended)
    elif not actions:
        # Sent on at once.
        actions = advance(searcher, ResumeTrial(no=no, reason=""), reached, quality)
    return actions


def optuna_loop(trials: int, quality: list[float]) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=DIVISOR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1), pruner=pruner)

    rungs = asha("stopping", 1000).rungs

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        trial.suggest_int("width", 1, 8)
        value = quality[trial.number + 1]
        for units in rungs:
            trial.report(value, units)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=trials)


if __name__ == "__main__":
    main()
