"""Play one history or many, and say what came of it."""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from .mutations import applied
from .scenario import draw
from .world import History, play

CHUNK = 20
"""Histories one process plays between two reports."""
COLLECT_EVERY = 50
"""Histories between two collections of garbage, which would otherwise take a fifth of the time."""
SHOWN_MAX = 20


@dataclass
class Summary:
    seeds: range
    outages: bool = False
    failed: list[History] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    virtual_s: float = 0.0
    num_histories: int = 0
    num_transactions: int = 0
    num_attempts: int = 0
    num_overlaps: int = 0
    num_avoided: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, history: History) -> None:
        self.num_histories += 1
        self.cpu_s += history.cpu_s
        self.virtual_s += history.virtual_s
        self.num_transactions += history.num_transactions
        self.num_attempts += history.num_attempts
        self.num_overlaps += history.num_overlaps
        self.num_avoided += history.num_avoided
        self.outcomes.update(history.outcomes)
        self.faults.update(history.faults)
        if history.violations:
            self.failed.append(history)


def run_one(
    seed: int, *, traced: bool = False, mutation: str = "", outages: bool = False
) -> History:
    """outages: of that scenario, nothing fails but the control plane."""
    scenario = draw(seed).with_outages_only() if outages else draw(seed)
    with applied(mutation):
        return play(scenario, traced=traced)


def run_many(seeds: range, *, jobs: int, mutation: str = "", outages: bool = False) -> Summary:
    """All of `seeds`, on `jobs` processes. Needs PYTHONHASHSEED=0 for histories that repeat."""
    summary = Summary(seeds, outages)
    began = time.monotonic()
    for history in _play_all(seeds, jobs, mutation, outages):
        summary.add(history)
    summary.wall_s = time.monotonic() - began
    summary.failed.sort(key=lambda h: h.seed)
    return summary


def _play_all(seeds: range, jobs: int, mutation: str, outages: bool) -> Iterator[History]:
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    if jobs <= 1:
        for chunk in chunks:
            yield from _play_chunk(chunk, mutation, outages)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        play_chunk = functools.partial(_play_chunk, mutation=mutation, outages=outages)
        for played in pool.map(play_chunk, chunks):
            yield from played


def _play_chunk(seeds: Sequence[int], mutation: str, outages: bool) -> list[History]:
    gc.disable()
    gc.freeze()
    histories = []
    for number, seed in enumerate(seeds):
        histories.append(run_one(seed, mutation=mutation, outages=outages))
        if number % COLLECT_EVERY == COLLECT_EVERY - 1:
            gc.collect()
    gc.collect()
    return histories


def explain(history: History) -> str:
    """One history for people: the timeline if it was traced, then the verdict."""
    lines = [f"{at:9.2f}  {source:<13}  {words}" for at, source, words in history.timeline]
    outcomes = ", ".join(f"{num} {state}" for state, num in sorted(history.outcomes.items()))
    lines.append(
        f"seed {history.seed}: {history.virtual_s:.0f} virtual s, "
        f"{history.num_transactions} transactions, {history.num_attempts} attempts; "
        f"trials: {outcomes or 'none judged'}"
    )
    lines += [f"BROKEN: {words}" for words in history.violations] or ["every promise was kept"]
    return "\n".join(lines)


def replay_command(seed: int, mutation: str = "", *, outages: bool = False) -> str:
    more = f" --mutation {mutation}" if mutation else ""
    more += " --outages" if outages else ""
    return f"python -m support.simulation --seed {seed} --trace{more}"


def print_summary(summary: Summary) -> None:
    num = max(1, summary.num_histories)
    print(
        f"seeds {summary.seeds.start} to {summary.seeds.stop - 1}: {summary.num_histories} "
        f"histories in {summary.wall_s:.1f} s ({os.cpu_count()} cores), "
        f"{1000 * summary.cpu_s / num:.0f} ms of CPU and {summary.virtual_s / num:.0f} virtual s each"
    )
    print(
        f"{summary.num_transactions} transactions, {summary.num_attempts} attempts, "
        f"{summary.num_overlaps} of them while an earlier one still lived somewhere; "
        f"{summary.num_avoided} times a node did not fit and was left out of the next"
    )
    for title, counter in (("faults", summary.faults), ("trials", summary.outcomes)):
        print(f"{title}: " + ", ".join(f"{n} {name}" for name, n in sorted(counter.items())))
    for history in summary.failed[:SHOWN_MAX]:
        print(f"FAILED seed {history.seed}: {history.violations[0]}")
        print(f"  {replay_command(history.seed, outages=summary.outages)}")
    if len(summary.failed) > SHOWN_MAX:
        print(f"… and {len(summary.failed) - SHOWN_MAX} more")
    print(f"{len(summary.failed)} of {summary.num_histories} histories broke a promise")
