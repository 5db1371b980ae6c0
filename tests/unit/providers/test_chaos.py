"""Pools under faults: plan_pilots and follow drive a batch system that loses answers, jobs and machines.

Everything else here is a model: a site that starts and kills jobs, agents that join, idle and leave, and a
scheduler that places whole gangs. Whatever goes wrong, no trial is lost, none runs twice at once, and no
job is left once everything has been idle for a while.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
from dataclasses import dataclass, field

import pytest

from muster_server.domain.providers import (
    CostLimit,
    Gang,
    Pilot,
    PilotChange,
    PilotState,
    Provider,
    Seen,
    follow,
    plan_pilots,
    slot_hours,
)
from muster_server.domain.providers.planning import backoff_s

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEP_S = 5
SLOTS = 4
WALLTIME_S = 2400
IDLE_S = 120
LOST_S = 60
MAX_PILOTS = 9
MAX_SLOT_HOURS = 300.0


@dataclass
class Job:
    """A job of the site, with the agent in it."""

    ref: str
    pilot_id: str
    state: str = "pending"
    reason: str = "Priority"
    begun_s: float = 0.0
    has_agent: bool = False
    is_broken: bool = False
    is_listed: bool = True
    idle_since_s: float = 0.0
    is_closing: bool = False

    @property
    def ends_s(self):
        return self.begun_s + WALLTIME_S


@dataclass
class Node:
    """A node of the cluster, as the server knows it."""

    job: Job
    owner: tuple[int, int] | None
    heard_s: float
    free: int = SLOTS


@dataclass
class Trial:
    id: int
    nodes: int
    slots: int
    work_s: float
    limit_s: float = 0.0
    attempt_no: int = 0
    since_s: float = 0.0
    held: list[str] = field(default_factory=list)
    num_ends: int = 0


class World:
    def __init__(self, seed, *, is_exclusive):
        self.rng = random.Random(seed)
        self.is_exclusive = is_exclusive
        self.now_s = 0.0
        self.faults = 1.0
        self.rows: dict[str, Pilot] = {}
        self.started_s: dict[str, float] = {}
        self.acted_s: dict[str, float] = {}
        self.spent = 0.0
        self.failures, self.not_before_s = 0, 0.0
        self.jobs: list[Job] = []
        self.nodes: dict[str, Node] = {}
        self.tokens: set[str] = set()
        """Pilots whose join token has not been used."""
        self.trials = [
            Trial(
                id=number,
                nodes=(nodes := self.rng.choice([1, 1, 1, 2, 3])),
                slots=self.rng.choice([1, 2, 4]) if nodes == 1 else 4,
                work_s=self.rng.choice([30, 200, 900, 3000]),
                limit_s=self.rng.choice([0, 0, 1200]),
            )
            for number in range(1, 13)
        ]

    # ---- what the site does

    def happens(self, chance):
        return self.faults and self.rng.random() < chance * self.faults

    def site(self):
        for job in list(self.jobs):
            if job.state == "pending" and self.rng.random() < 0.3:
                job.state, job.begun_s, job.reason = "running", self.now_s, "None"
                job.is_broken = self.happens(0.1)
            elif job.state == "running":
                self.run_agent(job)
            if job.state == "running" and self.now_s >= job.ends_s:
                self.kill(job, "TIMEOUT")
        if self.happens(0.02) and self.running():
            self.kill(self.rng.choice(self.running()), self.rng.choice(["NODE_FAIL", "PREEMPTED"]))
        if self.happens(0.01) and self.running():  # slurmctld from an old state: the same job again
            job = self.rng.choice(self.running())
            self.kill(job, "RUNNING")
            job.state, job.reason, job.has_agent = "pending", "None", False
        if self.happens(0.02) and self.running():  # the machine is cut off, and comes back
            self.rng.choice(self.running()).is_listed = False
        for job in self.jobs:
            if (
                job.state == "ended"
            ):  # The controller forgets it, at times before anybody has asked.
                job.is_listed = job.is_listed and self.rng.random() > 0.2
            else:
                job.is_listed = job.is_listed or self.rng.random() < 0.02

    def running(self):
        return [job for job in self.jobs if job.state == "running"]

    def kill(self, job, reason):
        job.state, job.reason, job.has_agent = "ended", reason, False

    def run_agent(self, job):
        node = self.nodes.get(job.pilot_id)
        if not job.has_agent:
            if job.is_broken or self.now_s - job.begun_s < 2 * STEP_S:
                return
            is_known = node is not None and node.job is job
            if not is_known and job.pilot_id not in self.tokens:
                self.kill(job, "FAILED")  # It cannot join: another one has.
                return
            self.tokens.discard(job.pilot_id)
            job.has_agent, job.idle_since_s = True, self.now_s
            if not is_known:
                assert node is None, "two agents of one pilot"
                row = self.rows.get(job.pilot_id)
                node = Node(job, row.owner if row else None, self.now_s)
                self.nodes[job.pilot_id] = node
        assert node is not None
        if not job.is_listed:
            return  # Nor is it heard.
        node.heard_s = self.now_s
        if node.free < SLOTS:
            job.idle_since_s = self.now_s
        elif job.is_closing or self.now_s - job.idle_since_s >= IDLE_S:
            del self.nodes[job.pilot_id]
            job.has_agent = False
            if self.happens(0.1):
                job.is_broken = True  # Its job hangs.
            else:
                self.kill(job, "COMPLETED")

    # ---- what the scheduler does

    def is_heard(self, pilot_id):
        node = self.nodes.get(pilot_id)
        return node is not None and self.now_s - node.heard_s < LOST_S / 4

    def run_trials(self):
        for pilot_id, node in list(self.nodes.items()):
            if self.now_s - node.heard_s > LOST_S:
                for trial in self.trials:
                    if pilot_id in trial.held:
                        self.release(trial)
                del self.nodes[pilot_id]
                node.job.has_agent = False
                self.kill(node.job, "NODE_FAIL")  # Its lifeline is cut, or its machine is gone.
        for trial in self.trials:
            if trial.held:
                trial.work_s -= STEP_S
                if trial.work_s <= 0:
                    trial.num_ends += 1
                    self.release(trial)
                elif any(self.nodes[p].job.ends_s - self.now_s < 90 for p in trial.held):
                    self.release(trial)  # It is drained with a checkpoint.
            elif trial.work_s > 0:
                self.place(trial)

    def place(self, trial):
        owner = (trial.id, trial.attempt_no + 1)
        until = self.now_s + trial.limit_s + 90
        fit = [
            pilot_id
            for pilot_id, node in self.nodes.items()
            if node.owner in (None, owner)
            and self.is_heard(pilot_id)
            and node.free >= trial.slots
            and not node.job.is_closing
            and node.job.ends_s >= until
        ]
        if len(fit) < trial.nodes:
            return
        trial.held, trial.attempt_no = fit[: trial.nodes], trial.attempt_no + 1
        for pilot_id in trial.held:
            self.nodes[pilot_id].free -= trial.slots
            assert self.nodes[pilot_id].free >= 0

    def release(self, trial):
        for pilot_id in trial.held:
            node = self.nodes[pilot_id]
            node.free += trial.slots
            node.job.is_closing = node.job.is_closing or node.owner is not None
        trial.held, trial.since_s = [], self.now_s

    # ---- what Muster does

    @property
    def now(self):
        return BEGIN + dt.timedelta(seconds=self.now_s)

    def views(self):
        for row in self.rows.values():
            node = self.nodes.get(row.id)
            is_heard = self.is_heard(row.id)
            ends_at = None if node is None else BEGIN + dt.timedelta(seconds=node.job.ends_s)
            is_taking = node is not None and is_heard and not node.job.is_closing
            yield dataclasses.replace(
                row,
                has_node=node is not None,
                is_heard=is_heard,
                free_slots=node.free if is_taking else 0,
                ends_at=ends_at,
            )

    def cost(self):
        per_pilot = slot_hours(SLOTS, WALLTIME_S)
        return CostLimit(
            currency="",
            limit=MAX_SLOT_HOURS,
            used=self.spent,
            reserved=per_pilot * len(self.rows),
            per_pilot=per_pilot,
        )

    def plan(self):
        not_before = BEGIN + dt.timedelta(seconds=self.not_before_s)
        provider = Provider(
            name="Slurm",
            slots=SLOTS,
            min_pilots=0,
            max_pilots=MAX_PILOTS,
            walltime_s=WALLTIME_S,
            is_exclusive=self.is_exclusive,
            costs=(self.cost(),),
            failures=self.failures,
            not_before=not_before,
        )
        gangs = [
            Gang(
                trial_id=trial.id,
                nodes=trial.nodes,
                slots_per_node=trial.slots,
                limit_s=trial.limit_s,
                grace_s=30,
                since=BEGIN + dt.timedelta(seconds=trial.since_s),
                attempt_no=trial.attempt_no + 1,
            )
            for trial in self.trials
            if trial.work_s > 0 and not trial.held
        ]
        plan = plan_pilots(provider, gangs, list(self.views()), now=self.now)
        asked = plan.owners or ({None: plan.submit} if plan.submit else {})
        for owner, num in asked.items():
            # As where they are inserted: an ending pilot still counts there.
            for _ in range(
                min(num, MAX_PILOTS - len(self.rows), int(self.cost().num_affordable()))
            ):
                id_ = f"p{len(self.started_s) + len(self.rows)}-{self.rng.randrange(10**9)}"
                self.rows[id_] = Pilot(id=id_, state=PilotState.WANTED, since=self.now, owner=owner)
        for id_ in plan.cancel:
            row = self.rows[id_]
            if row.state is PilotState.WANTED:
                del self.rows[id_]
            elif row.state is not PilotState.SUBMITTING and id_ not in self.nodes:
                self.move(id_, state=PilotState.ENDING, reason="nothing waits for it")

    def move(self, id_, **changes):
        if "state" in changes:
            changes["since"] = self.now
            self.acted_s.pop(id_, None)
        self.rows[id_] = dataclasses.replace(self.rows[id_], **changes)

    def work(self):
        is_away = self.happens(0.1)
        for view in list(self.views()):
            if view.state is PilotState.WANTED:
                continue
            mine = [j for j in self.jobs if j.pilot_id == view.id and j.is_listed]
            mine.sort(key=lambda job: job.state == "ended")
            seen = None
            if mine and not is_away:
                seen = Seen(ref=mine[0].ref, state=mine[0].state, reason=mine[0].reason)
            is_listed = not is_away and seen is None
            if (change := follow(view, seen, is_listed=is_listed, now=self.now)) is not None:
                self.apply(change)
        if is_away:
            return
        for row in list(self.rows.values()):
            if row.state is PilotState.ENDING and self.now_s - self.acted_s.get(row.id, -99) >= 30:
                self.acted_s[row.id] = self.now_s
                for job in self.jobs:
                    if job.pilot_id == row.id and job.state != "ended" and job.is_listed:
                        self.kill(job, "CANCELLED")
            if row.state is PilotState.WANTED:
                self.submit(row)

    def apply(self, change: PilotChange):
        if change.after in (PilotState.STARTING, PilotState.UP):
            self.started_s.setdefault(change.pilot_id, self.now_s)
        if change.is_failure:
            self.failures += 1
            self.not_before_s = self.now_s + min(60, backoff_s(self.failures))
        if change.after is PilotState.ENDED:
            del self.rows[change.pilot_id]
            begun_s = self.started_s.setdefault(change.pilot_id, self.now_s)
            self.spent += slot_hours(SLOTS, self.now_s - begun_s)
            return
        values = {"missing_since": change.missing_since}
        if change.after is not change.before:
            values["state"] = change.after
        if change.ref is not None:
            values["ref"] = change.ref
        if change.reason is not None:
            values["reason"] = change.reason
        if change.after is PilotState.UP:
            values["was_up"] = True
        self.move(change.pilot_id, **values)
        if change.is_leaving:
            self.acted_s[change.pilot_id] = self.now_s

    def submit(self, row):
        if self.happens(0.05):
            self.apply(
                PilotChange(
                    pilot_id=row.id,
                    before=row.state,
                    after=PilotState.ENDED,
                    reason="Invalid account",
                    is_failure=True,
                )
            )
            return
        self.move(row.id, state=PilotState.SUBMITTING)
        self.tokens.add(row.id)
        if self.happens(0.05):
            return  # Neither the job nor an answer.
        job = Job(ref=str(len(self.jobs) + 1), pilot_id=row.id)
        self.jobs.append(job)
        if not self.happens(0.1):
            self.move(row.id, state=PilotState.PENDING, ref=job.ref)

    def step(self):
        self.now_s += STEP_S
        self.site()
        self.run_trials()
        self.plan()
        self.work()
        self.check()

    def check(self):
        assert len(self.rows) <= MAX_PILOTS
        cost = self.cost()
        assert cost.used + cost.reserved <= cost.limit + 1
        used: dict[str, int] = {}
        for trial in self.trials:
            assert len(set(trial.held)) in (0, trial.nodes)
            for pilot_id in trial.held:
                used[pilot_id] = used.get(pilot_id, 0) + trial.slots
                owner = self.nodes[pilot_id].owner
                assert owner in (None, (trial.id, trial.attempt_no))
        assert used == {id_: SLOTS - n.free for id_, n in self.nodes.items() if n.free < SLOTS}

    def settle(self, is_settled, within_s):
        end_s = self.now_s + within_s
        while not is_settled():
            assert self.now_s < end_s, (self.rows, self.trials, self.running())
            self.step()


@pytest.mark.parametrize("is_exclusive", [False, True], ids=["pool", "exclusive"])
@pytest.mark.parametrize("seed", range(12))
def test_no_trial_is_lost_none_runs_twice_and_no_pilot_is_left(seed, is_exclusive):
    print(f"seed {seed}")
    world = World(seed, is_exclusive=is_exclusive)
    for _ in range(400):
        world.step()
    world.faults = 0
    world.settle(lambda: all(t.work_s <= 0 for t in world.trials), 8 * 3600)
    assert [trial.num_ends for trial in world.trials] == [1] * len(world.trials)
    world.settle(lambda: not world.rows and not any(j.state != "ended" for j in world.jobs), 600)
    assert world.nodes == {}
