"""Ray Tune's ASHA on the problems of `regret.py`, in an environment that has it.

    PYTHON-WITH-RAY bench/regret_ray.py --data FOLDER --seeds N --problems NAME... --budgets N...

Its scheduler and its random draws are what it ships; they are driven by the same loop as the other
tools, without actors, since starting one takes longer than a whole search here. Prints JSON:
problem → per seed, the regret at each budget.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, TrialScheduler

sys.path.insert(0, str(Path(__file__).parent))
from regret_problems import Config, Problem, play, problems


class Asha:
    def __init__(self, problem: Problem, seed: int) -> None:
        # It draws brackets, and its search spaces, from numpy's global state.
        np.random.seed(seed)
        self.space = {name: _domain(spec) for name, spec in problem.space.items()}
        self.scheduler = AsyncHyperBandScheduler(
            time_attr="units",
            metric="value",
            mode="min",
            grace_period=1,
            max_t=problem.length,
            reduction_factor=3,
        )
        self.length, self.count = problem.length, 0

    def ask(self) -> tuple[Any, Config]:
        trial = SimpleNamespace(trial_id=str(self.count))
        self.count += 1
        if self.length > 1:
            self.scheduler.on_trial_add(None, trial)
        return trial, {name: domain.sample() for name, domain in self.space.items()}

    def report(self, trial: Any, units: int, value: float) -> bool:
        if self.length == 1:
            return True
        result = {"units": units, "value": min(value, 1e30)}
        decided = self.scheduler.on_trial_result(None, trial, result)
        return units >= self.length or decided == TrialScheduler.CONTINUE

    def end(self, trial: Any, value: float) -> None:
        result = {"units": self.length, "value": min(value, 1e30)}
        if self.length > 1:
            self.scheduler.on_trial_complete(None, trial, result)


def _domain(spec: dict[str, list[Any]]) -> Any:
    ((kind, values),) = spec.items()
    if kind == "choice":
        return tune.choice(values)
    if kind == "int":
        return tune.randint(values[0], values[1] + 1)
    return (tune.loguniform if kind == "log" else tune.uniform)(*values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--problems", nargs="+", required=True)
    parser.add_argument("--budgets", nargs="+", type=int, required=True, help="times full length")
    options = parser.parse_args()
    found: dict[str, list[list[float]]] = {}
    for problem in problems(options.data):
        if problem.name not in options.problems:
            continue
        budgets = [n * problem.length for n in options.budgets]
        for seed in range(options.seeds):
            tool = Asha(problem, seed)
            trace = play(tool, problem, budget=max(budgets), workers=options.workers, seed=seed)
            found.setdefault(problem.name, []).append([trace.at(b) for b in budgets])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
