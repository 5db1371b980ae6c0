"""How long one pass of the scheduler takes, and how that grows; the load from the database apart.

    python bench/scheduler.py [--nodes N] [--queued N] [--passes N] [--database-url URL] [--no-load]

A pass decides and works out the reasons of the first 1,000 waiting trials, which is what the loop
stores. Between two passes some trials end and some arrive (--churn), as in a busy cluster. The
reference is the same pass from scratch, `schedule` without a memory and with all reasons.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path

from muster_server import longlived
from muster_server.domain.scheduling import (
    ProjectView,
    QueuedTrial,
    RunningTrial,
    Scheduler,
    SchedulerPolicy,
    SchedulerSnapshot,
    schedule,
)
from muster_server.domain.scheduling.resources import NodeView, Request
from support.scheduling import at, make_node

NUM_SLOTS = 8
NUM_PROJECTS = 20
TRIALS_PER_EXPERIMENT = 50
READ = 1000
"""Waits read per pass: services.scheduling.placement.MAX_REASONS_PER_PASS."""
POLICY = SchedulerPolicy()


class BusyCluster:
    """Full nodes, a long queue of experiments of many shapes, and something that changes."""

    def __init__(self, num_nodes: int, num_queued: int, *, seed: int = 7) -> None:
        self._draw = random.Random(seed)
        self._next_id = 1
        self._requests = [
            Request(slots=slots, min_slots=least, nodes=nodes)
            for slots in (1, 1, 2, 4, 8, 16, 32, 64)
            for least in (None, max(1, slots // 2))
            for nodes in (None, max(1, slots // NUM_SLOTS))
        ]
        self.nodes: dict[str, NodeView] = {}
        self.running: dict[int, RunningTrial] = {}
        self._on_node: dict[str, int] = {}
        for i in range(num_nodes):
            self._fill(make_node(f"n{i:05}", NUM_SLOTS))
        self.queue: dict[int, QueuedTrial] = {}
        self.add_queued(num_queued)
        self.projects = tuple(
            ProjectView(id=i, name=f"p{i}", weight=1.0 + i % 3) for i in range(NUM_PROJECTS)
        )

    def snapshot(self) -> SchedulerSnapshot:
        return SchedulerSnapshot(
            nodes=tuple(self.nodes.values()),
            queue=tuple(self.queue.values()),
            running=tuple(self.running.values()),
            projects=self.projects,
        )

    def change(self, num: int) -> None:
        """`num` trials end, as many arrive, and what started in the last pass runs."""
        for node_id in self._draw.sample(sorted(self._on_node), min(num, len(self._on_node))):
            del self.running[self._on_node.pop(node_id)]
            view = self.nodes[node_id]
            slots = tuple(dataclasses.replace(s, allocation_id=None) for s in view.slots)
            self.nodes[node_id] = dataclasses.replace(view, slots=slots)
        self.add_queued(num)

    def start(self, trial_id: int, shares: dict[str, tuple[int, ...]]) -> None:
        queued = self.queue.pop(trial_id)
        for node_id, indexes in shares.items():
            view = self.nodes[node_id]
            slots = tuple(
                dataclasses.replace(s, allocation_id=f"a{trial_id}") if s.idx in indexes else s
                for s in view.slots
            )
            self.nodes[node_id] = dataclasses.replace(view, slots=slots)
        self.running[trial_id] = self._running(queued, {n: len(i) for n, i in shares.items()})

    def add_queued(self, num: int) -> None:
        for _ in range(num):
            experiment = self._next_id // TRIALS_PER_EXPERIMENT
            shape = random.Random(experiment)
            self.queue[self._next_id] = QueuedTrial(
                trial_id=self._next_id,
                trial_no=1 + self._next_id % TRIALS_PER_EXPERIMENT,
                experiment_id=experiment,
                project_id=shape.randrange(NUM_PROJECTS),
                priority=shape.choice([30, 50, 50, 50, 70]),
                queued_at=at(self._next_id),
                request=shape.choice(self._requests),
            )
            self._next_id += 1

    def _fill(self, view: NodeView) -> None:
        trial_id = self._next_id
        self._next_id += 1
        slots = tuple(dataclasses.replace(s, allocation_id=f"a{trial_id}") for s in view.slots)
        self.nodes[view.id] = dataclasses.replace(view, slots=slots)
        self._on_node[view.id] = trial_id
        queued = QueuedTrial(
            trial_id=trial_id,
            trial_no=1,
            experiment_id=trial_id,
            project_id=trial_id % NUM_PROJECTS,
            priority=50 + 10 * (trial_id % 3),
            queued_at=at(0),
            request=Request(slots=NUM_SLOTS),
        )
        self.running[trial_id] = self._running(queued, {view.id: NUM_SLOTS})

    def _running(self, queued: QueuedTrial, shares: dict[str, int]) -> RunningTrial:
        end = self._draw.uniform(100, 100_000)
        return RunningTrial(
            trial_id=queued.trial_id,
            trial_no=queued.trial_no,
            attempt_no=1,
            experiment_id=queued.experiment_id,
            project_id=queued.project_id,
            priority=queued.priority,
            request=queued.request,
            shares=shares,
            started_at=at(-1000),
            preemptible=queued.trial_id % 4 != 0,
            expected_end_at=at(end) if queued.trial_id % 2 else None,
        )


def measure(num_nodes: int, num_queued: int, *, passes: int, churn: int) -> None:
    cluster = BusyCluster(num_nodes, num_queued)
    scheduler = Scheduler()
    times_ms: list[float] = []
    cpu_ms: list[float] = []
    num_started = num_asked = 0
    for i in range(passes + 1):
        snapshot = cluster.snapshot()
        begin, cpu_begin = time.perf_counter(), time.process_time()
        decided = scheduler.run(snapshot, now=at(i), policy=POLICY)
        waits = list(decided.waits(most=READ))
        times_ms.append(1000 * (time.perf_counter() - begin))
        cpu_ms.append(1000 * (time.process_time() - cpu_begin))
        if i == 0:
            longlived.settle()  # as the loop does when what it remembers has doubled
        assert len(waits) <= READ
        for action in decided.actions:
            if hasattr(action, "shares"):
                num_started += 1
                cluster.start(action.trial_id, {s.node_id: s.slots for s in action.shares})
            else:
                num_asked += 1
        cluster.change(churn)
    begin = time.perf_counter()
    schedule(snapshot, now=at(passes), policy=POLICY)
    scratch_ms = 1000 * (time.perf_counter() - begin)
    first_ms, rest, cpu = times_ms[0], sorted(times_ms[1:]), sorted(cpu_ms[1:])
    print(
        f"{num_nodes:7,} nodes {num_queued:8,} queued: pass {statistics.median(rest):7.1f} ms median,"
        f" {rest[-1]:7.1f} ms largest of {len(rest)}, of the processor {statistics.median(cpu):7.1f}"
        f" and {cpu[-1]:7.1f} ms; first {first_ms:8.1f} ms;"
        f" from scratch with all reasons {scratch_ms:8.1f} ms;"
        f" {num_started} started, {num_asked} asked for slots"
    )


def measure_load(url: str, num_nodes: int, num_queued: int, *, passes: int, churn: int) -> None:
    from sqlalchemy import insert, update

    from muster_server import clock
    from muster_server.db.engine import Database
    from muster_server.db.models import Base, NodeRow, NodeSlotRow, TrialRow
    from muster_server.services.scheduling.snapshot import SnapshotLoader
    from support.data import add_experiment

    database = Database(url)
    Base.metadata.create_all(database.engine)
    now = clock.now()
    with database.transaction() as session:
        experiments = [add_experiment(session) for _ in range(num_queued // TRIALS_PER_EXPERIMENT)]
        for i in range(num_nodes):
            session.add(
                NodeRow(
                    id=f"n{i}", name=f"n{i:05}", pool="default", state="ONLINE",
                    credential_hash=f"{i}", registered_at=now, last_seen_at=now,
                    lease_expires_at=now,
                )
            )  # fmt: skip
        session.flush()
        session.execute(
            insert(NodeSlotRow),
            [
                {"node_id": f"n{i}", "idx": k, "slot_type": "cpu", "device": {}}
                for i in range(num_nodes)
                for k in range(NUM_SLOTS)
            ],
        )
        session.execute(
            insert(TrialRow),
            [
                {
                    "experiment_id": experiment.id, "no": no, "hparams": {}, "seed": no,
                    "state": "QUEUED", "queued_at": now, "queue_no": 0.0, "waiting_since": now,
                    "created_at": now,
                }
                for experiment in experiments
                for no in range(TRIALS_PER_EXPERIMENT)
            ],
        )  # fmt: skip
    loader, draw = SnapshotLoader(), random.Random(7)
    times_ms, cpu_ms = [], []
    for _ in range(1 + passes):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        with database.read() as session:
            snapshot = loader.load(session, now=now)
        times_ms.append(1000 * (time.perf_counter() - begin))
        cpu_ms.append(1000 * (time.process_time() - cpu_begin))
        moved = draw.sample([trial.trial_id for trial in snapshot.queue], churn)
        with database.transaction() as session:
            session.execute(
                update(TrialRow).where(TrialRow.id.in_(moved)).values(queue_no=draw.random())
            )
    print(
        f"load of {len(snapshot.nodes):,} nodes and {len(snapshot.queue):,} queued trials from "
        f"{database.url.get_backend_name()}: first {times_ms[0]:,.0f} ms, then "
        f"{statistics.median(times_ms[1:]):,.0f} ms median (of the processor "
        f"{statistics.median(cpu_ms[1:]):,.0f} ms) with {churn} trials changed between two"
    )
    database.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--churn", type=int, default=20, help="trials that end between two passes")
    parser.add_argument("--database-url", help="default: a new SQLite file")
    parser.add_argument("--no-load", action="store_true", help="leave the database out")
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    num_queued = 100
    while num_queued < arguments.queued:
        num_nodes = max(10, num_queued * arguments.nodes // arguments.queued)
        measure(num_nodes, num_queued, passes=arguments.passes, churn=arguments.churn)
        num_queued *= 10
    measure(arguments.nodes, arguments.queued, passes=arguments.passes, churn=arguments.churn)
    if not arguments.no_load:
        with tempfile.TemporaryDirectory() as folder:
            url = arguments.database_url or f"sqlite:///{Path(folder) / 'bench.db'}"
            measure_load(
                url,
                arguments.nodes,
                arguments.queued,
                passes=arguments.passes,
                churn=arguments.churn,
            )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
