"""Simulate a week of 16 nodes on which something fails every two hours: where the slot time of a long training
goes, with a checkpoint every half hour, with the computed interval, and with checkpoints that are saved on the
node first.

    .venv/bin/python bench/recovery/week.py [--seeds N]

Time is simulated. The scheduler that places and preempts is the real one, and so is the function that computes the
interval. Seven failures in ten kill a process, two take a node away for half an hour, and one is a hang that only
`restarts.stuck_after_s` ends. How long the parts of a restart take is given by the options; the defaults are what
kill_rank.py has measured, and guesses for what depends on the storage.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from muster_server.domain.goodput.summary import SavingFacts, best_save_interval
from muster_server.domain.scheduling import (
    Placement,
    Preempt,
    RunningTrial,
    SchedulerPolicy,
    schedule,
)
from muster_server.domain.states import NodeState
from support.scheduling import at, make_node, make_queued, make_running, make_snapshot

WEEK_S = 7 * 86_400.0
NUM_NODES, SLOTS_PER_NODE = 16, 8
LONG, LONG_NODES = 0, 8
"""Number of the long training, and the nodes that it wants."""
FAILURE_EVERY_S = 2 * 3600.0
REPAIR_S = 30 * 60.0
FAILURES = ("kill", "node", "hang")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds that the parts of a restart and of a checkpoint take."""

    noticed: dict[str, float]
    """Until a failure is noticed, by its kind."""
    stop: float
    prepare: float
    start: float
    restore: float
    restore_elsewhere: float
    """Restore on a node that has no copy of the checkpoint."""
    save: float
    """Time for which a save holds up the training."""
    copy: float
    """From a save until another node can read it."""
    interval: float


@dataclass
class Trial:
    no: int
    slots: int
    work_s: float
    priority: int
    queued_s: float
    started_s: float = 0.0
    shares: dict[str, int] = field(default_factory=dict)
    attempt: int = 0
    is_ending: bool = False
    has_lost_node: bool = False


class Week:
    """One week. `totals` are the slot-seconds of the long training by class."""

    def __init__(self, costs: Costs, *, seed: int) -> None:
        self.costs = costs
        self.totals: defaultdict[str, float] = defaultdict(float)
        self.num_failures = 0
        self._draw = random.Random(seed)
        self._seed = seed
        self._now = 0.0
        self._down: dict[str, float] = {}
        self._trials: dict[int, Trial] = {}
        self._queue: set[int] = set()
        self._order = itertools.count()
        self._events: list[tuple[float, int, str, int, int]] = []
        self._trials[LONG] = Trial(LONG, LONG_NODES * SLOTS_PER_NODE, 10 * WEEK_S, 80, 0.0)
        self._at(0.0, "arrive", LONG)
        self._plan_arrivals()
        when = 0.0
        for no in itertools.count():
            when += self._draw.expovariate(1 / FAILURE_EVERY_S)
            if when >= WEEK_S:
                break
            self._at(when, "fail", no)

    def run(self) -> defaultdict[str, float]:
        while self._events and self._events[0][0] < WEEK_S:
            self._now, _, what, no, attempt = heapq.heappop(self._events)
            getattr(self, f"_{what}")(no, attempt)
            self._place()
        self._now = WEEK_S
        self._account(self._trials[LONG], "end of the week")
        return self.totals

    # ------------------------------------------------ what happens

    def _plan_arrivals(self) -> None:
        """Let short jobs come: many small ones, few large, at times more than the nodes can hold."""
        when = 0.0
        for no in itertools.count(1):
            when += self._draw.expovariate(1 / 900.0)
            if when >= WEEK_S:
                return
            slots = self._draw.choice((1, 1, 1, 2, 2, 4, 8, 16))
            work_s = min(self._draw.lognormvariate(8.2, 1.2), 86_400.0)
            self._at(when, "arrive", no)
            self._trials[no] = Trial(no, slots, work_s, 50, when)

    def _arrive(self, no: int, attempt: int) -> None:
        self._queue.add(no)

    def _fail(self, no: int, attempt: int) -> None:
        """Let something fail on a random node that is up: the same for the same seed, whatever runs."""
        draw = random.Random(self._seed * 10_000 + no)
        name = draw.choice([n for n in self._names() if n not in self._down])
        kind = draw.choices(FAILURES, (7, 2, 1))[0]
        if kind == "node":
            self._down[name] = self._now + REPAIR_S
            self._at(self._now + REPAIR_S, "repair")
        share = draw.random()
        for trial in self._trials.values():
            if name in trial.shares and not trial.is_ending:
                if kind != "node" and share > trial.shares[name] / SLOTS_PER_NODE:
                    continue  # it was another slot's process
                self._end(trial, kind)

    def _repair(self, no: int, attempt: int) -> None:
        self._down = {name: until for name, until in self._down.items() if until > self._now}

    def _end(self, trial: Trial, why: str) -> None:
        """Let an attempt end: it holds its slots until that is noticed and its processes are gone."""
        trial.is_ending = True
        if trial.no == LONG:
            self._account(trial, why)
            self.num_failures += why in FAILURES
        elif why in FAILURES:
            trial.work_s += min(self._now - trial.started_s, self.costs.interval) / 2
        trial.has_lost_node = why == "node"
        trial.work_s -= self._now - trial.started_s
        held_s = self.costs.noticed.get(why, 0.0) + self.costs.stop
        self._at(self._now + held_s, "free", trial.no, trial.attempt)

    def _free(self, no: int, attempt: int) -> None:
        trial = self._trials[no]
        trial.shares, trial.is_ending = {}, False
        self._queue.add(no)

    def _done(self, no: int, attempt: int) -> None:
        trial = self._trials.get(no)
        if trial and trial.attempt == attempt and not trial.is_ending and trial.shares:
            del self._trials[no]

    # ------------------------------------------------ what is decided

    def _place(self) -> None:
        nodes = [
            make_node(
                name,
                SLOTS_PER_NODE,
                state=NodeState.LOST if name in self._down else NodeState.ONLINE,
            )
            for name in self._names()
        ]
        queue = [
            make_queued(
                no,
                self._trials[no].slots,
                experiment_id=no,
                priority=self._trials[no].priority,
                queued_at=at(self._trials[no].queued_s),
            )
            for no in sorted(self._queue)
        ]
        running = [self._running(t) for t in self._trials.values() if t.shares]
        snapshot = make_snapshot(nodes, queue, running)
        for decision in schedule(snapshot, now=at(self._now), policy=SchedulerPolicy()):
            trial = self._trials.get(decision.trial_id)
            if isinstance(decision, Placement) and trial is not None:
                self._queue.discard(trial.no)
                trial.attempt += 1
                trial.started_s = self._now
                trial.shares = {s.node_name: len(s.slots) for s in decision.shares}
                self._at(self._now + trial.work_s, "done", trial.no, trial.attempt)
            elif isinstance(decision, Preempt) and trial is not None and not trial.is_ending:
                self._end(trial, "yield")

    def _running(self, trial: Trial) -> RunningTrial:
        return make_running(
            trial.no,
            trial.shares,
            priority=trial.priority,
            started_at=at(trial.started_s),
            attempt_no=trial.attempt,
            yielding=trial.is_ending,
        )

    # ------------------------------------------------ what it cost

    def _account(self, trial: Trial, why: str) -> None:
        """Add up an attempt of the long training that ends now."""
        if not trial.shares:
            return
        costs, left_s = self.costs, self._now - trial.started_s
        parts: defaultdict[str, float] = defaultdict(float)

        def spend(kind: str, seconds: float) -> None:
            nonlocal left_s
            parts[kind] += min(seconds, left_s)
            left_s -= min(seconds, left_s)

        spend("preparing", costs.prepare)
        spend("starting", costs.start)
        if trial.attempt > 1:
            restore_s = costs.restore_elsewhere if trial.has_lost_node else costs.restore
            spend("restoring", restore_s)
        num_saved = int(left_s // (costs.interval + costs.save))
        since_s = left_s - num_saved * (costs.interval + costs.save)
        is_lost = why in FAILURES
        if why == "node" and num_saved and since_s < costs.copy:
            since_s += costs.interval  # the last checkpoint went with its node
            parts["productive"] -= costs.interval
        parts["saving"] += num_saved * costs.save
        parts["productive"] += num_saved * costs.interval
        parts["repeated" if is_lost else "productive"] += since_s
        parts["undetected"] += costs.noticed.get(why, 0.0)
        parts["stopping"] += costs.stop if is_lost else 0.0
        for kind, seconds in parts.items():
            self.totals[kind] += seconds * trial.slots

    # ------------------------------------------------ small things

    def _at(self, when: float, what: str, no: int = -1, attempt: int = 0) -> None:
        heapq.heappush(self._events, (when, next(self._order), what, no, attempt))

    def _names(self) -> list[str]:
        return [f"node-{i:02}" for i in range(NUM_NODES)]


def computed(costs: Costs) -> Costs:
    """Return the costs with the checkpoint interval that Muster would advise after such a week."""
    advice = best_save_interval(
        SavingFacts(
            save_s=costs.save,
            interval_s=costs.interval,
            step_s=1.0,
            num_slots=LONG_NODES * SLOTS_PER_NODE,
            pool_slot_s=NUM_NODES * SLOTS_PER_NODE * WEEK_S,
            pool_failures=round(WEEK_S / FAILURE_EVERY_S),
        )
    )
    return costs if advice is None else dataclasses.replace(costs, interval=advice.interval_s)


def show(name: str, weeks: Sequence[Week]) -> None:
    """Run the weeks, and print what share of the long training's slot time was productive, and the rest."""
    whole = LONG_NODES * SLOTS_PER_NODE * WEEK_S
    totals: defaultdict[str, float] = defaultdict(float)
    shares = []
    for week in weeks:
        found = week.run()
        found["without slots"] = whole - sum(found.values())
        shares.append(found["productive"] / whole)
        for kind, seconds in found.items():
            totals[kind] += seconds
    failures = statistics.mean(week.num_failures for week in weeks)
    print(
        f"{name}: {statistics.mean(shares):.2%} of the week productive "
        f"({min(shares):.1%} to {max(shares):.1%}, n={len(weeks)}), {failures:.0f} failures, "
        f"a checkpoint every {weeks[0].costs.interval / 60:.1f} min"
    )
    del totals["productive"]
    rest = sorted(totals.items(), key=lambda item: -item[1])
    print("  " + ", ".join(f"{kind} {total / whole / len(weeks):.2%}" for kind, total in rest))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="weeks of each kind")
    parser.add_argument("--save", type=float, default=20.0, help="s that a save to storage blocks")
    parser.add_argument("--restore", type=float, default=20.0, help="s to read it from there")
    parser.add_argument("--local-save", type=float, default=2.0, help="s that a local save blocks")
    parser.add_argument("--local-restore", type=float, default=2.0, help="s to read it from there")
    parser.add_argument("--interval", type=float, default=1800.0, help="s between checkpoints")
    parser.add_argument("--prepare", type=float, default=0.2)
    parser.add_argument("--start", type=float, default=2.2)
    parser.add_argument("--stop", type=float, default=0.3)
    parser.add_argument("--stuck-after", type=float, default=600.0, help="restarts.stuck_after_s")
    given = parser.parse_args(arguments)
    storage = Costs(
        noticed={"kill": 0.1, "node": 19.5, "hang": given.stuck_after},
        stop=given.stop,
        prepare=given.prepare,
        start=given.start,
        restore=given.restore,
        restore_elsewhere=given.restore,
        save=given.save,
        copy=0.0,
        interval=given.interval,
    )
    local = dataclasses.replace(
        storage, save=given.local_save, restore=given.local_restore, copy=given.save
    )
    for name, costs in (
        (f"a checkpoint every {given.interval / 60:.0f} min", storage),
        ("the computed interval", computed(storage)),
        ("the computed interval, saved on the node first", computed(local)),
    ):
        show(name, [Week(costs, seed=seed) for seed in range(given.seeds)])


if __name__ == "__main__":
    main()
