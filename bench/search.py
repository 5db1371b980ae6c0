"""Decisions per second and memory of one large search, beside Optuna's and Ray Tune's own loops.

    python bench/search.py [--trials N] [--optuna-trials N] [--ray-python PATH [--ray-trials N]]

The objective is trivial: each trial has a quality drawn before, and reports it at every rung. So all
that is timed is deciding. Muster plays the whole search in memory, as its preview does; a pass of the
search loop also reads and writes the state, which is timed apart. Optuna runs its study in memory with
random draws and its successive halving, with the same rungs and in the same process. Ray Tune runs its
ASHA with two actors that are used again, in the Python that is given; starting Ray is not counted. Then
what asking a sampler for a point and telling it a result takes, by how many trials have ended.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import optuna

from muster.document.searching import SamplerName
from muster_server.domain.search import (
    Action,
    CreateTrial,
    ResumeTrial,
    Searcher,
    SearchSpec,
    Started,
    TrialEnded,
    Validated,
    sampling,
)
from muster_server.domain.search.proposals import Proposer
from muster_server.domain.search.simulate import simulate
from support import search_specs

T = TypeVar("T")
SPACE = {"lr": {"log": [1e-4, 1e-1]}, "width": {"int": [1, 8]}}
DIVISOR = 4
TOP = 256
WIDE_SPACE = {
    "lr": {"log": [1e-5, 1.0]}, "weight_decay": {"log": [1e-6, 0.1]}, "momentum": {"uniform": [0, 1]},
    "dropout": {"uniform": [0, 1]}, "depth": {"int": [1, 64]}, "width": {"int": [1, 512], "log": True},
    "optimizer": {"choice": ["sgd", "adam", "lamb"]}, "nesterov": {"choice": [True, False]},
}  # fmt: skip
ASKED_AT = {"gp": (100,)}
"""A Gaussian process takes seconds with 1,000."""
CONCURRENT = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--optuna-trials", type=int, default=2_000)
    parser.add_argument("--ray-python", help="a Python with ray[tune]")
    parser.add_argument("--ray-trials", type=int, default=40)
    parser.add_argument("--samplers", nargs="*", default=["random", "tpe", "cmaes", "gp"])
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
    compare(rates, options.optuna_trials, rate)
    if options.ray_python:
        told = ray_loop(options.ray_python, options.ray_trials)
        rate = told["trials"] / told["seconds"]
        print(
            f"\nRay Tune {told['version']}: {told['trials']} trials, {told['seconds']:.1f} s wall: "
            f"{rate:.1f} trials/s"
        )
        compare(rates, options.optuna_trials, rate)
    print("\none ask, one tell of a sampler, ms CPU (median of 5 trials):")
    for sampler in options.samplers:
        for finished in ASKED_AT.get(sampler, (100, 1_000, 10_000)):
            ask_ms, tell_ms = ask_and_tell(sampler, finished)
            print(f"  {sampler}, {finished:,} ended: ask {ask_ms:.1f}, tell {tell_ms:.2f}")


def compare(rates: dict[tuple[str, int], float], trials: int, rate: float) -> None:
    for rule in ("stopping", "promotion"):
        print(f"  Muster, {rule}, {trials:,} trials: {rates[rule, trials] / rate:,.1f} ×")


def ray_loop(python: str, trials: int) -> dict[str, Any]:
    rungs = asha("stopping", 1000).rungs
    script = str(Path(__file__).with_name("search_ray.py"))
    command = [python, script, str(trials), *map(str, rungs)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def ask_and_tell(sampler: SamplerName, finished: int) -> tuple[float, float]:
    """ms of processor time to propose a point, and to take note of a result.

    8 hyperparameters, 8 trials under way.
    """
    spec = SearchSpec(
        method="random", space=WIDE_SPACE, seed=1, trials=finished + 100, concurrent=8,
        metric="val/loss", sampler=sampler,
    )  # fmt: skip
    searcher = Searcher(spec)
    proposer, history = Proposer(spec), searcher.history
    parameters, _ = sampling.parse_space(WIDE_SPACE)
    rng = random.Random(1)
    for no in range(1, finished + 9):
        history.add(no, sampling.sample(parameters, seed=1, trial_no=no))
        if no <= finished:
            history.end(no, rng.random(), "completed")
    asks: list[float] = []
    tells: list[float] = []
    proposer.propose(finished + 9, history)  # imports, once
    for no in range(finished + 9, finished + 14):
        seconds, _ = timed(partial(proposer.propose, no, history))
        asks.append(1000 * seconds)
        history.add(no, sampling.sample(parameters, seed=1, trial_no=no))
        seconds, _ = timed(partial(history.end, no - 8, rng.random(), "completed"))
        tells.append(1000 * seconds)
    return statistics.median(asks), statistics.median(tells)


def asha(rule: str, trials: int) -> SearchSpec:
    return search_specs.asha(
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
