"""The scheduler's snapshot, read again and again: always what a first reading gives."""

import dataclasses
import datetime as dt
import random

import pytest
from sqlalchemy import delete, insert, select, update

from muster.document.experiment import ExperimentConfig
from muster.document.running import ResourcesSection
from muster.document.training import TrainerSection
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    ProjectRow,
    TrialRow,
)
from muster_server.services.scheduling.snapshot import (
    SnapshotLoader,
    load_scheduler_snapshot,
)

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def plain(snapshot):
    """What it says, in an order of its own."""
    return {
        name: sorted(
            (dataclasses.asdict(item) for item in getattr(snapshot, name)),
            key=lambda item: [str(item.get(key)) for key in ("id", "trial_id", "attempt_no")],
        )
        for name in ("nodes", "queue", "running", "projects")
    }


class Changes:
    """Anything that anybody may write, of which the scheduler sees something."""

    def __init__(self, session, draw):
        self.session = session
        self.draw = draw
        self.next_no = 1

    def ids(self, column):
        # Without an order a database gives them as they lie in its pages, and the draw is another one.
        return list(self.session.scalars(select(column).order_by(column)))

    def one(self, column):
        return self.draw.choice(self.ids(column) or [None])

    def at(self):
        return NOW + dt.timedelta(seconds=self.draw.randint(-300, 50))

    def no(self):
        self.next_no += 1
        return self.next_no

    def run(self):
        self.draw.choice(
            [
                self.add_node, self.add_experiment, self.add_trial, self.add_trial,
                self.start, self.start, self.start, self.add_checkpoint, self.take_slots,
                self.change_node, self.change_slots, self.change_project, self.change_experiment,
                self.change_trial, self.change_trial, self.change_attempt, self.change_attempt,
                self.change_allocation, self.delete_trial, self.delete_node,
            ]
        )()  # fmt: skip

    def add_node(self):
        no = self.no()
        self.session.add(
            NodeRow(
                id=f"n{no}", name=f"node-{no}", hostname=f"h{no % 3}", pool="default",
                state="ONLINE", credential_hash=f"{no}", registered_at=NOW, last_seen_at=NOW,
                lease_expires_at=NOW, labels={"rack": f"r{no % 2}"},
            )
        )  # fmt: skip
        self.session.flush()
        for idx in range(self.draw.randint(1, 4)):
            self.session.add(NodeSlotRow(node_id=f"n{no}", idx=idx, slot_type="cpu", device={}))

    def config(self):
        return ExperimentConfig(
            name="e",
            resources=ResourcesSection(slots=self.draw.randint(1, 4)),
            trainer=TrainerSection(steps=self.draw.choice([None, 1000])),
            stop_grace_s=5.0,
        )

    def add_experiment(self):
        project = self.one(ProjectRow.id)
        if project is None or self.draw.random() < 0.2:
            row = ProjectRow(name=f"p{self.no()}", created_at=NOW)
            self.session.add(row)
            self.session.flush()
            project = row.id
        self.session.add(
            ExperimentRow(
                project_id=project, name="e", state="RUNNING", document="", config=self.config(),
                priority=50, slots_per_trial=1, created_at=self.at(),
            )
        )  # fmt: skip

    def add_trial(self):
        experiment = self.one(ExperimentRow.id)
        if experiment is not None:
            at = self.at()
            self.session.add(
                TrialRow(
                    experiment_id=experiment, no=self.no(), hparams={}, seed=1, state="QUEUED",
                    queued_at=at, created_at=at,
                    source_checkpoint_id=self.draw.choice([None, self.one(CheckpointRow.id)]),
                )
            )  # fmt: skip

    def start(self):
        trial = self.session.get(TrialRow, self.one(TrialRow.id) or -1)
        if trial is None:
            return
        trial.attempt_no += 1
        trial.state = "RUNNING"
        trial.num_steps_planned = self.draw.choice([None, 500])
        attempt = AttemptRow(
            trial_id=trial.id, no=trial.attempt_no, state="RUNNING", world_size=1, num_nodes=1,
            resume_step=0, controller_epoch=1, created_at=NOW,
            started_at=NOW - dt.timedelta(seconds=400),
        )  # fmt: skip
        self.session.add(attempt)
        self.session.flush()
        node = self.one(NodeRow.id)
        self.session.add(
            AllocationRow(
                id=f"a{self.no()}", attempt_id=attempt.id, trial_id=trial.id,
                attempt_no=attempt.no, node_id=node or "n0", node_name="node", node_rank=0,
                slots=[0], rank_offset=0, desired="start", observed="RUNNING", spec={},
                created_at=NOW, state_since=NOW,
            )
        )  # fmt: skip
        self.session.flush()
        self.take_slots()

    def take_slots(self):
        for node_id, idx in self.session.execute(
            select(NodeSlotRow.node_id, NodeSlotRow.idx)
            .where(NodeSlotRow.allocation_id.is_(None))
            .order_by(NodeSlotRow.node_id, NodeSlotRow.idx)
        ).all():
            if self.draw.random() < 0.4:
                self.write(
                    NodeSlotRow,
                    (NodeSlotRow.node_id == node_id) & (NodeSlotRow.idx == idx),
                    allocation_id=self.one(AllocationRow.id),
                )

    def add_checkpoint(self):
        attempt = self.session.get(AttemptRow, self.one(AttemptRow.id) or -1)
        if attempt is None:
            return
        row = CheckpointRow(
            trial_id=attempt.trial_id, attempt_no=attempt.no, step=self.no(), size_bytes=1,
            files={}, metrics={}, node_name=self.one(NodeRow.name) or "x", path="/c",
            created_at=self.at(),
        )  # fmt: skip
        self.session.add(row)
        self.session.flush()
        self.write(TrialRow, TrialRow.id == attempt.trial_id, latest_checkpoint_id=row.id)

    def write(self, table, where, **values):
        self.session.execute(update(table).where(where).values(**values))

    def change(self, table, key, choices):
        name = self.draw.choice(list(choices))
        self.write(table, key == self.one(key), **{name: self.draw.choice(choices[name])})

    def change_node(self):
        choices = {
            "state": ["ONLINE", "SUSPECT"], "scheduling": ["open", "draining"], "strikes": [0, 1],
            "hostname": ["h0", "h7"], "labels": [{}, {"rack": "r9"}], "pool": ["default", "b"],
        }  # fmt: skip
        self.change(NodeRow, NodeRow.id, choices)

    def change_slots(self):
        choices = {"allocation_id": [None], "free_since": [None, NOW, self.at()]}
        self.change(NodeSlotRow, NodeSlotRow.node_id, choices)

    def change_project(self):
        choices = {"exhausted_reason": ["", "", "used up"], "weight": [1.0, 2.0]}
        self.change(ProjectRow, ProjectRow.id, choices)

    def change_experiment(self):
        choices = {
            "priority": [10, 50], "desired": ["run", "pause"], "exhausted_reason": ["", "used up"],
            "state": ["QUEUED", "RUNNING", "COMPLETED"], "project_id": self.ids(ProjectRow.id),
        }  # fmt: skip
        if not choices["project_id"]:
            return
        if self.draw.random() < 0.3:  # continued with another document
            experiment = self.session.get(ExperimentRow, self.one(ExperimentRow.id) or -1)
            if experiment is not None:
                experiment.config = self.config()
                experiment.num_continued += 1
            return
        self.change(ExperimentRow, ExperimentRow.id, choices)

    def change_trial(self):
        choices = {
            "state": ["QUEUED", "RUNNING", "STOPPING", "COMPLETED"], "desired": ["run", "stop"],
            "queue_no": [0.5, 1.5], "waiting_since": [self.at()], "promised_since": [None, NOW],
            "step": [10, 20, 400], "progress_at": [None, self.at()], "queued_at": [self.at()],
            "num_steps_planned": [None, 700],
        }  # fmt: skip
        self.change(TrialRow, TrialRow.id, choices)

    def change_attempt(self):
        choices = {
            "state": ["RUNNING", "WINDING_DOWN", "RESIZED", "FAILED"], "yield_slots": [None, 2],
            "yield_at": [None, self.at()], "ended_at": [None, self.at()], "resume_step": [0, 5],
            "started_at": [None, NOW - dt.timedelta(seconds=self.draw.randint(0, 400))],
        }  # fmt: skip
        self.change(AttemptRow, AttemptRow.id, choices)

    def change_allocation(self):
        choices = {"observed": ["RUNNING", "CLEANED"]}
        self.change(AllocationRow, AllocationRow.id, choices)

    def delete_trial(self):
        """Some databases give its number to the next one."""
        trial_id = max(self.ids(TrialRow.id), default=None)
        attempts = select(AttemptRow.id).where(AttemptRow.trial_id == trial_id)
        self.session.execute(delete(AllocationRow).where(AllocationRow.attempt_id.in_(attempts)))
        self.session.execute(delete(TrialRow).where(TrialRow.id == trial_id))

    def delete_node(self):
        if self.draw.random() < 0.3:
            self.session.execute(delete(NodeRow).where(NodeRow.id == self.one(NodeRow.id)))


@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_it_is_what_a_first_reading_gives(database, seed):
    draw = random.Random(seed)
    loader = SnapshotLoader()
    now = NOW
    num_queued = num_running = num_kept = 0
    before = {}
    with database.transaction() as session:
        changes = Changes(session, draw)
        for _ in range(6):
            changes.add_node()
            changes.add_experiment()
            session.flush()
            changes.add_trial()
            session.flush()
    for _ in range(80):
        with database.transaction() as session:
            changes.session = session
            for _ in range(draw.choice([0, 1, 1, 2, 5])):
                changes.run()
                session.flush()
        now += dt.timedelta(seconds=draw.choice([0, 1, 1, 7, 40, -20]))
        with database.read() as session:
            snapshot = loader.load(session, now=now)
            assert plain(snapshot) == plain(load_scheduler_snapshot(session, now=now))
        items = {id(item): item for item in (*snapshot.nodes, *snapshot.queue, *snapshot.running)}
        num_kept += len(before.keys() & items.keys())
        before = items
        num_queued += len(snapshot.queue)
        num_running += len(snapshot.running)
    # It saw something, and most of it was the same object as before.
    assert num_queued > 100
    assert num_running > 100
    assert num_kept > 0.6 * (num_queued + num_running)


def test_what_did_not_change_is_the_same_object(database):
    loader = SnapshotLoader()
    with database.transaction() as session:
        changes = Changes(session, random.Random(1))
        for _ in range(5):
            changes.add_node()
            changes.add_experiment()
            session.flush()
            changes.add_trial()
            changes.add_trial()
            session.flush()
        changes.start()
    with database.read() as session:
        first = loader.load(session, now=NOW)
    assert first.queue
    assert first.running
    with database.transaction() as session:
        session.execute(
            update(TrialRow).where(TrialRow.id == first.queue[0].trial_id).values(queue_no=-1.0)
        )
        session.execute(
            insert(NodeSlotRow).values(
                node_id=first.nodes[0].id, idx=50, slot_type="cpu", device={}
            )
        )
    with database.read() as session:
        second = loader.load(session, now=NOW + dt.timedelta(seconds=1))
    # A database gives rows in any order, a changed one elsewhere than before.
    changed = first.queue[0].trial_id
    after = {trial.trial_id: trial for trial in second.queue}
    assert after[changed].queue_no == -1.0
    assert all(after[t.trial_id] is t for t in first.queue if t.trial_id != changed)
    assert len(second.nodes[0].slots) == len(first.nodes[0].slots) + 1
    assert all(map(lambda a, b: a is b, first.nodes[1:], second.nodes[1:]))
    assert all(map(lambda a, b: a is b, first.running, second.running))
