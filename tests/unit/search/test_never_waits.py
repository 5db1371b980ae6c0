"""No search waits for ever: when nothing of it runs and nothing is queued, it is over.

A small cluster plays every method with scripts that nobody here wrote: they train past their rung while
the message to pause is under way, save no checkpoint or a late one, skip reports, fail, restart, end
early or never.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.search import (
    Action,
    ContinueTrial,
    CreateTrial,
    Event,
    Finish,
    PauseTrial,
    Rested,
    ResumeTrial,
    Searcher,
    SearchSpec,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
)
from muster_server.domain.search.population import Explore
from muster_server.domain.search.rungs import Bracket
from support import search_specs

SPACE = {"lr": {"log": [1e-4, 1e-1]}}
STEPS_MAX = 20_000


@dataclass(frozen=True, kw_only=True)
class Script:
    """How the script of a search behaves. Probabilities are per unit of training."""

    length: int
    """Units after which it ends by itself, whatever the search allows."""
    every: int
    """Units between two reports."""
    saves: float
    """Probability of a checkpoint at a unit: 0 for a script without, 1 for one at each."""
    saves_on_pause: bool
    is_slow_to_pause: float
    """Probability that it trains another unit before the message to pause reaches it."""
    fails: float
    restarts: int
    meddles: float
    """Probability at each step of the cluster that a user stops a trial, pauses the experiment or
    resumes it."""


@dataclass
class Job:
    """A trial as the cluster sees it."""

    state: str = "queued"
    desired: str = "run"
    outcome: str = ""
    units: int = 0
    saved: int = 0
    heard: float = 0
    restarts: int = 0


class Cluster:
    """Runs the trials of one search, one random step after the other."""

    def __init__(self, spec: SearchSpec, script: Script, rng: random.Random, slots: int) -> None:
        self.spec, self.script, self.rng, self.slots = spec, script, rng, slots
        self.searcher = Searcher(spec)
        self.jobs: dict[int, Job] = {}
        self.events: list[Event] = [Started()]
        self.is_paused = False
        """By a user."""

    def play(self, steps: int = STEPS_MAX) -> None:
        """Go on until nothing can move any more, or for so many steps."""
        for _ in range(steps):
            if self.jobs and self.rng.random() < self.script.meddles:
                self.meddle()
            moves: list[Any] = [self.hear] if self.events else []
            running = [no for no, job in self.jobs.items() if job.state == "running"]
            moves += [(self.train, no) for no in running]
            for no, job in self.jobs.items():
                wanted = self.wanted(job)
                if job.state == "queued" and (wanted != "run" or len(running) < self.slots):
                    moves.append((self.start, no))
                elif job.state == "paused" and wanted != "pause":
                    moves.append((self.wake, no))
            if not moves and not self.is_paused:
                return
            if not moves:
                self.is_paused = False
                continue
            move = self.rng.choice(moves)
            if isinstance(move, tuple):
                move[0](move[1])
            else:
                move()
        assert steps < STEPS_MAX, "the search goes on for ever"

    def stop_and_continue(self) -> None:
        """A user stops the experiment, and continues it once everything of it has ended."""
        self.events.clear()
        self.searcher.close("stopped by a user")
        open_ones = [no for no, job in self.jobs.items() if job.state != "ended"]
        for no in open_ones:
            self.jobs[no].state, self.jobs[no].outcome = "ended", "canceled"
        self.is_paused = False
        again = [no for no in open_ones if no in self.searcher.unfinished]
        if again or self.searcher.num_created < self.spec.trials:
            self.carry_out(self.searcher.reopen(self.spec, again))

    def wanted(self, job: Job) -> str:
        return "pause" if self.is_paused and job.desired == "run" else job.desired

    def meddle(self) -> None:
        no = self.rng.choice(sorted(self.jobs))
        if self.rng.random() < 0.5:
            self.is_paused = not self.is_paused
        elif self.jobs[no].desired in ("run", "pause"):
            self.jobs[no].desired = "stop"

    def hear(self) -> None:
        searcher = Searcher.from_state(json.loads(json.dumps(self.searcher.state())))
        for _ in range(self.rng.randint(1, len(self.events))):
            self.carry_out(searcher.apply(self.events.pop(0)))
        self.searcher = searcher

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, CreateTrial):
                parent = self.jobs.get(action.parent_no or 0)
                start = parent.saved if parent is not None else 0
                if self.script.every == 1 and action.parent_no is not None:
                    assert start < (self.spec.max_units or 0), "a clone has something to train"
                self.jobs[action.no] = Job(units=start, saved=start)
                continue
            if isinstance(action, Finish):
                continue
            job = self.jobs[action.no]
            is_stopped = job.outcome == "canceled" and job.desired != "stop"
            if isinstance(action, ContinueTrial) or (
                isinstance(action, ResumeTrial) and is_stopped
            ):
                job.state, job.desired, job.outcome = "queued", "run", ""
            if job.state == "ended" or job.desired in ("stop", "early"):
                continue
            if isinstance(action, StopTrial):
                job.desired = "early"
            elif isinstance(action, PauseTrial) and job.desired == "run":
                job.desired = "pause"
                if job.state == "paused":
                    self.rest(action.no)
            elif isinstance(action, ResumeTrial) and job.desired == "pause":
                job.desired = "run"

    def start(self, no: int) -> None:
        job = self.jobs[no]
        if self.wanted(job) == "run":
            job.state, job.units = "running", job.saved
        else:
            self.leave(no)

    def wake(self, no: int) -> None:
        if self.wanted(self.jobs[no]) == "run":
            self.jobs[no].state = "queued"
        else:
            self.leave(no)

    def train(self, no: int) -> None:
        job, script, rng = self.jobs[no], self.script, self.rng
        if self.wanted(job) != "run" and rng.random() >= script.is_slow_to_pause:
            if script.saves_on_pause:
                job.saved = job.units
            if rng.random() < script.fails:
                self.fail(no)
            else:
                self.leave(no)
            return
        if job.units >= script.length:
            self.end(no, "completed")
            return
        if rng.random() < script.fails:
            self.fail(no)
            return
        job.units += 1
        if rng.random() < script.saves:
            job.saved = job.units
        if job.units % script.every == 0:
            value = math.nan if rng.random() < 0.03 else round(rng.random(), 1)
            self.report(no, job, value)

    def report(self, no: int, job: Job, value: float) -> None:
        """As `services.search.events.on_metrics` does: one event for the highest mark reached."""
        limit = self.spec.max_units
        if limit is None:
            return
        reached = [float(mark) for mark in self.spec.marks if job.units >= mark]
        if job.units > limit:
            reached.append(limit + 1)
        if reached and reached[-1] > job.heard:
            job.heard = reached[-1]
            self.events.append(Validated(trial_no=no, units=job.units, value=value))

    def rest(self, no: int) -> None:
        job = self.jobs[no]
        job.state = "paused"
        if self.spec.rule == "population":
            checkpoint = no * 100 + job.saved if job.saved else None
            self.events.append(Rested(trial_no=no, checkpoint_id=checkpoint))

    def leave(self, no: int) -> None:
        """Do what is wanted of a trial that does not train."""
        wanted = self.wanted(self.jobs[no])
        if wanted == "pause":
            self.rest(no)
        else:
            self.end(no, "canceled" if wanted == "stop" else "stopped")

    def fail(self, no: int) -> None:
        job = self.jobs[no]
        if job.restarts < self.script.restarts and job.desired in ("run", "pause"):
            job.restarts += 1
            job.state = "queued"
        else:
            self.end(no, self.rng.choice(["failed", "failed", "canceled"]))

    def end(self, no: int, outcome: Any) -> None:
        self.jobs[no].state, self.jobs[no].outcome = "ended", outcome
        self.events.append(TrialEnded(trial_no=no, outcome=outcome))


def pbt(size: int, **given: Any) -> SearchSpec:
    return search_specs.pbt(space=SPACE, explore=Explore(size=size), **given)


def plain(method: Any, **given: Any) -> SearchSpec:
    space = {"lr": {"choice": [1, 2, 3, 4, 5]}} if method == "grid" else SPACE
    return SearchSpec(method=method, space=space, seed=1, unit="epochs", **given)


def median(**given: Any) -> SearchSpec:
    return SearchSpec(
        method="median",
        space=SPACE,
        seed=1,
        unit="epochs",
        rule="median",
        brackets=(Bracket(trials=given["trials"], rungs=tuple(range(1, given["max_units"] + 1))),),
        **given,
    )


UNITS, CONCURRENT = st.integers(1, 9), st.integers(1, 6)
ASHA = {
    "space": st.just(SPACE),
    "trials": st.integers(1, 12),
    "max_units": UNITS,
    "divisor": st.integers(2, 4),
    "concurrent": CONCURRENT,
    "breadth": st.sampled_from(["aggressive", "standard", "conservative"]),
}
SPECS = {
    "pbt": st.builds(
        pbt, st.integers(2, 6), max_units=UNITS, interval=st.integers(1, 3), concurrent=CONCURRENT
    ),
    "promotion": st.builds(search_specs.asha, rule=st.just("promotion"), **ASHA),
    "stopping": st.builds(search_specs.asha, rule=st.just("stopping"), **ASHA),
    "hyperband": st.builds(
        search_specs.hyperband,
        space=st.just(SPACE),
        max_units=UNITS,
        divisor=st.integers(2, 3),
        concurrent=CONCURRENT,
    ),
    "median": st.builds(median, trials=st.integers(1, 8), max_units=UNITS, concurrent=CONCURRENT),
    "random": st.builds(plain, st.just("random"), trials=st.integers(1, 8), concurrent=CONCURRENT),
    "grid": st.builds(
        plain, st.just("grid"), trials=st.just(5), max_units=UNITS, concurrent=CONCURRENT
    ),
}
SCRIPTS = st.builds(
    Script,
    length=st.integers(1, 12),
    every=st.sampled_from([1, 1, 1, 2, 3]),
    saves=st.sampled_from([0.0, 0.3, 1.0]),
    saves_on_pause=st.booleans(),
    is_slow_to_pause=st.sampled_from([0.0, 0.5, 0.9]),
    fails=st.sampled_from([0.0, 0.0, 0.05]),
    restarts=st.integers(0, 2),
    meddles=st.sampled_from([0.0, 0.0, 0.02]),
)


@pytest.mark.parametrize("method", SPECS)
@settings(max_examples=60)
@given(
    data=st.data(),
    script=SCRIPTS,
    seed=st.integers(0, 10_000),
    slots=st.integers(1, 6),
    stopped_after=st.none() | st.integers(1, 150),
)
def test_no_search_waits_when_nothing_of_it_runs(
    method: str,
    data: st.DataObject,
    script: Script,
    seed: int,
    slots: int,
    stopped_after: int | None,
) -> None:
    cluster = Cluster(data.draw(SPECS[method]), script, random.Random(seed), slots)
    if stopped_after is not None:
        cluster.play(stopped_after)
        cluster.stop_and_continue()
    cluster.play()
    states = {no: job.state for no, job in cluster.jobs.items()}
    assert cluster.searcher.is_finished, states
    assert set(states.values()) == {"ended"}
