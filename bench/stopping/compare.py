"""How much training each rule for stopping trials needs on recorded learning curves.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install --no-deps scan-bench mf-prior-bench
    /tmp/peers/bin/pip download --no-deps --no-binary :all: --dest /tmp/lcdb lcdb
    python bench/stopping/compare.py --data /tmp/peers/lib/python3.*/site-packages \
        --lcdb /tmp/lcdb/lcdb-0.1.0.tar.gz [--seeds 30] [--only TEXT] [--figure FILE]

Every rule gets the same random trials in the same order, so only the stopping differs. What counts is
the regret of the model in hand, that with the best reported value so far: its true value, less the
best end there is, where 1 is the median end. Prints, for each problem, the median regret at each budget,
and how many units each rule needs to be as good as ASHA by promotion is at the largest budget.
Curves come from `stopping/recorded_curves`, rules from `stopping/rules` and `stopping/curve_model`,
and the figure from `stopping/ecdf_figure`.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import optuna

sys.path.insert(0, str(Path(__file__).parent))
import ecdf_figure
from recorded_curves import CurveSet, curve_sets
from rules import RULES, WORKERS, Spent

BUDGETS = (2, 5, 10)
"""In full trainings."""
REFERENCE = "Muster ASHA, promotion"
TARGETS = tuple(float(t) for t in np.geomspace(1.0, 0.01, 21))
"""Regrets of which it is counted how many are reached."""
RESAMPLES = 2_000
Trace = list[tuple[int, float]]
"""(units spent, regret of the model in hand) at each change."""
Traces = dict[str, dict[str, list[Trace]]]
"""Problem → rule → one per seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="site-packages with the curves")
    parser.add_argument("--lcdb", type=Path, help="source archive of lcdb")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--only", default="", help="problems whose name has this in it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--known", type=Path, help="results to begin with, and to write to")
    parser.add_argument("--figure", type=Path, help="where to draw, as SVG")
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, Optuna {optuna.__version__}, {options.seeds} seeds, "
        f"{WORKERS} workers, load {os.getloadavg()[0]:.1f}\n"
    )
    known = options.known if options.known and options.known.exists() else None
    traces: Traces = json.loads(known.read_text()) if known else {}
    lengths: dict[str, int] = {}
    for problem in curve_sets(options.data, options.lcdb):
        if options.only not in problem.name:
            continue
        lengths[problem.name] = problem.length
        measure(problem, traces.setdefault(problem.name, {}), options)
        if options.known:
            options.known.write_text(json.dumps(traces))
        print(row(problem, traces[problem.name]), flush=True)
    whole = {name: traces[name] for name in lengths}
    print("\n" + "\n".join(summary(whole, lengths)))
    if options.figure:
        reached = {rule: ecdf(whole, lengths, rule) for rule in RULES}
        options.figure.write_text(ecdf_figure.draw(reached, max(BUDGETS)))


# ---------------------------------------------------------------- the searches

_problem: CurveSet
"""What the processes of a pool are about: they are forked, since closures cannot be sent."""


def measure(problem: CurveSet, known: dict[str, list[Trace]], options: argparse.Namespace) -> None:
    global _problem
    _problem = problem
    missing = [rule for rule in RULES if rule not in known]
    jobs = [(rule, seed) for rule in missing for seed in range(options.seeds)]
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.processes, mp_context=fork) as pool:
        for (rule, _), trace in zip(jobs, pool.map(one, jobs, chunksize=5), strict=True):
            known.setdefault(rule, []).append(trace)


def one(job: tuple[str, int]) -> Trace:
    """Train until the budget is used up; what was in hand after how many units."""
    rule, seed = job
    budget = max(BUDGETS) * _problem.length
    values, regrets = _problem.draw(budget + WORKERS, seed)
    trace: Trace = []
    spent, best = 0, math.inf

    def reach(trial: int, unit: int) -> float:
        nonlocal spent, best
        if spent >= budget:
            raise Spent
        spent += 1
        value = float(values[trial, unit - 1])
        if value < best:
            best = value
            trace.append((spent, float(regrets[trial, unit - 1])))
        return value

    try:
        RULES[rule](_problem.length, budget, reach)
    except Spent:
        return trace
    raise AssertionError(f"{_problem.name}: {rule} ended after {spent} of {budget} units")


# ---------------------------------------------------------------- what came out


def regret_at(trace: Trace, units: float) -> float:
    """Return the regret after so many units; 1 while nothing was reported."""
    return next((regret for spent, regret in reversed(trace) if spent <= units), 1.0)


def units_to(trace: Trace, regret: float) -> float:
    """Return the units after which the model in hand is as good; infinite if it never is."""
    return next((spent for spent, reached in trace if reached <= regret), math.inf)


def row(problem: CurveSet, of: dict[str, list[Trace]]) -> str:
    lines = [f"{problem.name}: {len(problem.true)} curves of {problem.length} units"]
    for rule, seeds in of.items():
        cells = []
        for budget in BUDGETS:
            found = [regret_at(trace, budget * problem.length) for trace in seeds]
            low, middle, high = np.quantile(found, (0.25, 0.5, 0.75))
            cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
        lines.append(f"  {rule:<26} " + " | ".join(cells))
    return "\n".join(lines)


def summary(traces: Traces, lengths: dict[str, int]) -> Iterator[str]:
    """Yield the units each rule needs of those that the reference needs: per group, the median over
    its problems, and its 95 % interval by drawing seeds and problems anew; and the share of the targets
    that it reaches within the largest budget."""
    groups = {"recorded": [n for n in traces if not n.startswith(("MF-", "Synthetic"))]}
    groups["MF-Hartmann"] = [n for n in traces if n.startswith("MF-")]
    groups["synthetic"] = [n for n in traces if n.startswith("Synthetic")]
    for group, names in groups.items():
        if not names:
            continue
        yield f"{group}, {len(names)} problems: units to the same regret, and reached targets"
        for rule in traces[names[0]]:
            ratio = np.array([ratios(traces[name], lengths[name], rule) for name in names])
            rng = np.random.default_rng(0)
            drawn = [np.median(ratio[rng.integers(len(names), size=len(names)), rng.integers(1, RESAMPLES + 1, size=len(names))]) for _ in range(RESAMPLES)]  # fmt: skip
            low, high = np.quantile(drawn, (0.025, 0.975))
            share = ecdf({name: traces[name] for name in names}, lengths, rule)[-1][1]
            yield (
                f"  {rule:<26} {np.median(ratio[:, 0]):.2f} ({low:.2f} to {high:.2f}), "
                f"{100 * share:.1f}% of targets"
            )


def ratios(of: dict[str, list[Trace]], length: int, rule: str) -> list[float]:
    """Return mean units to the target, of the reference's: of all seeds, then of seeds drawn anew.

    The target is the median regret of the reference at the largest budget. Seeds that never reach it
    count as twice the budget.
    """
    budget = max(BUDGETS) * length
    target = statistics.median(regret_at(trace, budget) for trace in of[REFERENCE])
    mine, theirs = (
        np.array([min(units_to(trace, target), 2 * budget) for trace in of[name]])
        for name in (rule, REFERENCE)
    )
    rng = np.random.default_rng(0)
    rows = [np.arange(len(mine)), *rng.integers(len(mine), size=(RESAMPLES, len(mine)))]
    return [float(mine[seeds].mean() / theirs[seeds].mean()) for seeds in rows]


def ecdf(traces: Traces, lengths: dict[str, int], rule: str) -> list[tuple[float, float]]:
    """Return (full trainings, share of all targets of all problems and seeds that are reached)."""
    steps = np.geomspace(0.1, max(BUDGETS), 60)
    needed = [
        units_to(trace, target) / lengths[name]
        for name, of in traces.items()
        for trace in of[rule]
        for target in TARGETS
    ]
    return [(float(step), float(np.mean(np.array(needed) <= step))) for step in steps]


if __name__ == "__main__":
    main()
