"""A simulated week of 16 nodes on which something fails every two hours: where the slot time of a long
training goes.

    PYTHONPATH=tests python bench/week.py [--seeds N]

Time is simulated; the scheduler that places, preempts and keeps spare nodes is the real one, and so is the
function that computes the checkpoint interval. How long the parts of a restart take is given by the options: their
defaults are what `bench/recovery.py` has measured. Seven failures in ten kill a process, two take a node away for
half an hour, one is a hang that only `restarts.stuck_after_s` ends.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import random
import statistics
from collections import Counter
from dataclasses import dataclass, field

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


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds that the parts of a restart and of a checkpoint take."""

    kill_noticed: float
    node_noticed: float
    hang_noticed: float
    stop: float
    prepare: float
    start: float
    restore: float
    save: float
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


class Week:
    """One week. `totals` are the slot-seconds of the long training by class."""

    def __init__(self, costs: Costs, *, seed: int, spares: int) -> None:
        self.costs, self.spares = costs, spares
        self.totals: Counter[str] = Counter()
        self.num_failures = 0
        self._draw = random.Random(seed)
        self._now = 0.0
        self._down: dict[str, float] = {}
        self._trials: dict[int, Trial] = {}
        self._queue: set[int] = set()
        self._order = itertools.count()
        self._events: list[tuple[float, int, str, int, int]] = []
        self._add(Trial(LONG, LONG_NODES * SLOTS_PER_NODE, 10 * WEEK_S, 80, 0.0))
        self._arrivals()
        when = 0.0
        while (when := when + self._draw.expovariate(1 / FAILURE_EVERY_S)) < WEEK_S:
            self._at(when, "fail")

    def run(self) -> Counter[str]:
        while self._events and self._events[0][0] < WEEK_S:
            self._now, _, what, no, attempt = heapq.heappop(self._events)
            getattr(self, f"_{what}")(no, attempt)
            self._place()
        self._now = WEEK_S
        self._account(self._trials[LONG], "end of the week", waste_s=0.0)
        return self.totals

    # ------------------------------------------------ what happens

    def _arrivals(self) -> None:
        """Let short jobs come: many small ones, few large, more than their nodes can hold at times."""
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
        """Let something fail on a random node that is up."""
        name = self._draw.choice([n for n in self._names() if n not in self._down])
        kind = self._draw.choices(("kill", "node", "hang"), (7, 2, 1))[0]
        if kind == "node":
            self._down[name] = self._now + REPAIR_S
            self._at(self._now + REPAIR_S, "repair")
        for trial in self._trials.values():
            if name in trial.shares and not trial.is_ending:
                if kind != "node" and self._draw.random() > trial.shares[name] / SLOTS_PER_NODE:
                    continue  # it was another slot's process
                noticed_s = getattr(self.costs, f"{kind}_noticed")
                self._end(trial, kind, waste_s=noticed_s)

    def _repair(self, no: int, attempt: int) -> None:
        self._down = {name: until for name, until in self._down.items() if until > self._now}

    def _end(self, trial: Trial, why: str, *, waste_s: float) -> None:
        """Let an attempt end: it holds its slots until that is noticed and its processes are gone."""
        trial.is_ending = True
        if trial.no == LONG:
            self._account(trial, why, waste_s=waste_s)
            self.num_failures += why in ("kill", "node", "hang")
        elif why != "yield":
            trial.work_s += min(self._now - trial.started_s, self.costs.interval) / 2
        trial.work_s -= self._now - trial.started_s
        self._at(self._now + waste_s + self.costs.stop, "free", trial.no, trial.attempt)

    def _free(self, no: int, attempt: int) -> None:
        trial = self._trials[no]
        trial.shares, trial.is_ending = {}, False
        self._queue.add(no)

    def _done(self, no: int, attempt: int) -> None:
        trial = self._trials[no]
        if trial.attempt == attempt and not trial.is_ending and trial.shares:
            del self._trials[no]

    # ------------------------------------------------ what is decided

    def _place(self) -> None:
        nodes = [
            make_node(
                name,
                SLOTS_PER_NODE,
                **({} if name not in self._down else {"state": NodeState.LOST}),
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
                self._end(trial, "yield", waste_s=0.0)

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

    def _account(self, trial: Trial, why: str, *, waste_s: float) -> None:
        """Add up an attempt of the long training that ends now."""
        if not trial.shares:
            return
        costs, left_s = self.costs, self._now - trial.started_s
        parts: Counter[str] = Counter()

        def spend(kind: str, seconds: float) -> None:
            nonlocal left_s
            parts[kind] += min(seconds, left_s)
            left_s -= min(seconds, left_s)

        spend("preparing", costs.prepare)
        spend("starting", costs.start)
        if trial.attempt > 1:
            spend("restoring", costs.restore)
        num_saved = int(left_s // (costs.interval + costs.save))
        since_s = left_s - num_saved * (costs.interval + costs.save)
        parts["saving"] += num_saved * costs.save
        parts["productive"] += num_saved * costs.interval
        is_lost = why in ("kill", "node", "hang")
        parts["repeated" if is_lost else "productive"] += since_s
        parts["undetected"] += waste_s
        parts["stopping"] += costs.stop if is_lost else 0.0
        for kind, seconds in parts.items():
            self.totals[kind] += seconds * trial.slots

    # ------------------------------------------------ small things

    def _add(self, trial: Trial) -> None:
        self._trials[trial.no] = trial
        self._queue.add(trial.no)

    def _at(self, when: float, what: str, no: int = -1, attempt: int = 0) -> None:
        heapq.heappush(self._events, (when, next(self._order), what, no, attempt))

    def _names(self) -> list[str]:
        return [f"node-{i:02}" for i in range(NUM_NODES)]


def computed(costs: Costs) -> Costs:
    """Return the costs with the checkpoint interval that the Goodput page would advise after a week."""
    slots = LONG_NODES * SLOTS_PER_NODE
    advice = best_save_interval(
        SavingFacts(
            save_s=costs.save,
            interval_s=costs.interval,
            step_s=1.0,
            num_slots=slots,
            pool_slot_s=NUM_NODES * SLOTS_PER_NODE * WEEK_S,
            pool_failures=round(WEEK_S / FAILURE_EVERY_S),
        )
    )
    return costs if advice is None else dataclasses.replace(costs, interval=advice.interval_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20, help="weeks of each kind")
    parser.add_argument("--save", type=float, default=20.0, help="s that a save to storage blocks")
    parser.add_argument("--restore", type=float, default=20.0, help="s to read it from there")
    parser.add_argument("--local-save", type=float, default=2.0, help="s that a local save blocks")
    parser.add_argument("--local-restore", type=float, default=2.0, help="s to read it from there")
    parser.add_argument("--interval", type=float, default=1800.0, help="s between checkpoints")
    parser.add_argument("--prepare", type=float, default=1.0)
    parser.add_argument("--start", type=float, default=2.0)
    parser.add_argument("--stop", type=float, default=0.7)
    parser.add_argument("--stuck-after", type=float, default=600.0, help="restarts.stuck_after_s")
    options = parser.parse_args()
    storage = Costs(
        kill_noticed=0.3,
        node_noticed=19.5,
        hang_noticed=options.stuck_after,
        stop=options.stop,
        prepare=options.prepare,
        start=options.start,
        restore=options.restore,
        save=options.save,
        interval=options.interval,
    )
    local = dataclasses.replace(storage, save=options.local_save, restore=options.local_restore)
    kinds = {
        f"a checkpoint every {options.interval / 60:.0f} min": (storage, 0),
        "the computed interval": (computed(storage), 0),
        "the same, one spare node": (computed(storage), 1),
        "the same, local checkpoints": (computed(local), 1),
    }
    for name, (costs, spares) in kinds.items():
        weeks = [Week(costs, seed=seed, spares=spares) for seed in range(options.seeds)]
        print_weeks(name, weeks)


def print_weeks(name: str, weeks: list[Week]) -> None:
    whole = LONG_NODES * SLOTS_PER_NODE * WEEK_S
    totals: Counter[str] = Counter()
    shares = []
    for week in weeks:
        found = week.run()
        found["without slots"] = whole - sum(found.values())
        shares.append(found["productive"] / whole)
        totals.update(found)
    spread = f"{min(shares):.1%} to {max(shares):.1%}"
    failures = statistics.mean(week.num_failures for week in weeks)
    every = weeks[0].costs.interval / 60
    print(
        f"{name}: {statistics.mean(shares):.2%} of the week productive ({spread}, n={len(weeks)}), "
        f"{failures:.0f} failures, a checkpoint every {every:.1f} min"
    )
    rest = ((kind, total) for kind, total in totals.most_common() if kind != "productive")
    print("  " + ", ".join(f"{kind} {total / whole / len(weeks):.2%}" for kind, total in rest))


if __name__ == "__main__":
    main()
