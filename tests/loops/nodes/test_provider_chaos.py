"""Pools under faults, one provider after another: the real API, controller, worker and adapter, against a site
that loses answers, jobs and machines.

What can go wrong: the batch system does not answer, or its answer is lost after it has done what was asked;
pilots never come up; they are told to end (preemption, eviction, `ray job stop`), their machines die, somebody
deletes them, their job is started a second time; and the controller is killed. Whatever happens, no trial is
lost, none runs twice at once, and no pilot is left once everything has been idle for a while.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter

import pytest

from muster.wire import CheckpointRecord, PilotFacts
from muster_server import clock
from muster_server.loops.providers import PilotWorker
from muster_server.loops.runner import Controller
from support.agent import FakeAgent
from support.batch.batch_sites import FRONTS, Site

EPOCH = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
STEP_S = 10
NUM_STEPS = 48
"""Steps with faults."""
SUBMIT_EVERY = 12
"""Steps between one load of trials and the next."""
LOAD = ({"slots": 4, "nodes": 2}, {"slots": 1}, {"slots": 6, "nodes": 3})
"""Resources of the trials of a load."""
IDLE_S = 60
WALLTIME_S = 600
MAX_PILOTS = 4
WORK = 6
"""Steps that an attempt at most needs."""


NUM_SEEDS = int(os.environ.get("MUSTER_PROVIDER_SEEDS", "1"))
"""Histories of each provider. The long form has more."""
CASES = [(seed, front) for front in FRONTS for seed in range(NUM_SEEDS)]


@pytest.fixture
def database_url(sqlite_url):
    """What differs between databases is tested elsewhere."""
    return sqlite_url


class PilotAgent:
    """The agent in a job: it joins, runs what it is told to, and leaves."""

    def __init__(self, world, job):
        self.world, self.job = world, job
        ends_s = job.begun_s + WALLTIME_S
        facts = PilotFacts(
            ends_at_ms=round((EPOCH.timestamp() + ends_s) * 1000),
            provider_ref=f"{world.front.kind}:lab:{job.ref}",
        )
        self.node = FakeAgent(
            lambda token: world.connect(token=token),
            job.token,
            job.pilot_id,
            pool="elsewhere",
            pilot=facts,
        )
        self.node.join_id = self.node.instance_id
        self.phases = {}
        """Allocation → ready, running or exited."""
        self.idle_since_s = world.now_s
        self.is_closing = False

    def running(self):
        """What runs here: trial, number of the attempt and rank of the node."""
        for id_, phase in self.phases.items():
            if phase == "running":
                spec = self.node.specs[id_].spec
                yield spec.trial_id, spec.attempt_no, spec.node_rank

    def step(self):
        self.node.beat()
        if self.job.is_told_to_end and not self.is_closing:
            self.is_closing = True
            self.node.leave("draining", "its job was told to end")
        wanted = self.node.poll()
        for id_, assignment in wanted.items():
            self.follow(id_, assignment)
        if any(phase != "exited" for phase in self.phases.values()):
            self.idle_since_s = self.world.now_s
            return
        is_idle = self.world.now_s - self.idle_since_s >= IDLE_S
        if not (is_idle or self.is_closing):
            return
        self.is_closing = True
        if self.node.leave("closing", "nothing has run on it") == 0:
            self.node.leave("gone", "nothing has run on it")
            self.world.site.end(self.job, self.job.end or self.world.end_of(self.job))

    def follow(self, id_, assignment):
        phase = self.phases.get(id_)
        spec = assignment.spec
        if phase == "exited":
            return
        if assignment.desired in ("stop", "kill"):
            self.node.exit(id_, "stopped" if assignment.desired == "stop" else "killed")
            self.phases[id_] = "exited"
        elif phase is None:
            self.node.get_ready(id_, port=1234)
            self.phases[id_] = "ready"
        elif phase == "ready" and assignment.desired == "start":
            self.node.run(id_)
            self.phases[id_] = "running"
        elif phase == "running":
            self.work(id_, spec)

    def work(self, id_, spec):
        if spec.node_rank == 0 and self.world.left[spec.trial_id] > 0:
            self.world.left[spec.trial_id] -= 1
            step = WORK - self.world.left[spec.trial_id]
            record = CheckpointRecord(step=step, path=f"s{step}", size_bytes=1, files={"a": "0"})
            self.node.send(id_, record)
        if self.world.left[spec.trial_id] == 0:
            self.node.exit(id_)
            self.phases[id_] = "exited"


class World:
    def __init__(self, seed, front, *, database, settings, connect, time_machine, tmp_path):
        self.rng = random.Random(seed)
        self.site = Site(self.rng)
        self.front = FRONTS[front](self.site, tmp_path)
        self.connect = connect
        self.now_s = 0.0
        self.left = Counter()
        """Trial → steps that it needs yet."""
        self.agents = {}
        """Job (its `id`) → its agent."""
        self.told_to_end = {}
        """Job → how it ends."""
        self.joined = set()
        """Pilots whose join token has been used."""
        self.away_until_s = self.controller_back_s = 0.0
        self._database, self._settings, self._time_machine = database, settings, time_machine
        self.stays = None
        self.replace_controller()

    def replace_controller(self):
        self.controller = Controller(
            self._database, self._settings, monotonic=lambda: clock.now().timestamp()
        )
        self.worker = PilotWorker(
            self._database, lambda: self.controller.lease, system_of=self.front.system_of
        )

    def end_of(self, job):
        return self.told_to_end.get(id(job), "canceled") if job.is_told_to_end else "good"

    def kill(self, job, how):
        """The machine is gone, and the agent with it."""
        self.agents.pop(id(job), None)
        self.site.end(job, how)

    def break_something(self):
        if self.now_s >= self.away_until_s and self.site.happens("the batch system is away", 0.03):
            self.away_until_s = self.now_s + self.rng.choice([30, 120])
        self.site.is_away = bool(self.site.faults) and self.now_s < self.away_until_s
        if self.now_s >= self.controller_back_s and self.site.happens(
            "the controller is killed", 0.03
        ):
            self.controller_back_s = self.now_s + 40
            self.controller = None
        running = [job for job in self.site.jobs if job.state == "running"]
        for how in self.front.faults:
            if running and self.site.happens(how, 0.05):
                job = running.pop(self.rng.randrange(len(running)))
                if how == "preempted":
                    self.told_to_end[id(job)] = how
                    job.is_told_to_end = True
                elif how == "lost":
                    self.kill(job, how)
                elif how == "deleted":
                    self.front.delete(job)
                else:  # The same job is started again, as after a restart of slurmctld.
                    self.agents.pop(id(job), None)
                    job.state, job.is_told_to_end = "pending", False

    def advance(self):
        for job in self.site.jobs:
            if job.state == "pending" and self.rng.random() < 0.5:
                job.state, job.begun_s = "running", self.now_s
                job.is_broken = self.site.happens("a pilot never comes up", 0.2)
            elif job.state == "running" and job.is_broken:
                continue
            elif job.state == "running" and self.now_s >= job.begun_s + WALLTIME_S:
                self.kill(job, "failed")
            elif job.state == "running" and id(job) not in self.agents:
                self.join(job)

    def join(self, job):
        agent = PilotAgent(self, job)
        is_second = any(other is not job and other.token == job.token for other in self.site.jobs)
        if job.pilot_id in self.joined or is_second:
            agent.node.register(expect=401)
            self.site.end(job, "failed")
            return
        agent.node.register()
        self.joined.add(job.pilot_id)
        self.agents[id(job)] = agent

    def step(self):
        self.now_s += STEP_S
        self._time_machine.move_to(EPOCH + dt.timedelta(seconds=self.now_s), tick=False)
        self.break_something()
        self.advance()
        self.stays.beat()
        for agent in list(self.agents.values()):
            agent.step()
            if agent.job.state == "ended":
                self.agents.pop(id(agent.job), None)
        self.front.settle()
        if self.controller is None and self.now_s >= self.controller_back_s:
            self.replace_controller()
        if self.controller is not None:
            self.controller.tick()
            self.worker.run_once(clock.now())
        self.check()

    def check(self):
        """No trial runs in two attempts at once, and no rank of an attempt twice."""
        runs = [one for agent in self.agents.values() for one in agent.running()]
        assert len(set(runs)) == len(runs), runs
        attempts = {(trial_id, attempt_no) for trial_id, attempt_no, _ in runs}
        assert len(attempts) == len({trial_id for trial_id, _ in attempts}), runs
        alive = Counter(job.pilot_id for job in self.site.jobs if job.state != "ended")
        assert max(alive.values(), default=0) <= 1, f"started twice: {alive}"
        assert len(alive) <= MAX_PILOTS

    def settle(self, is_settled, steps, told):
        for _ in range(steps):
            if is_settled():
                return
            self.step()
        raise AssertionError(f"after {steps} more steps: {told()}")


@pytest.fixture
def world(request, database, settings, connect, time_machine, tmp_path, admin_client, agent):
    seed, front = request.param
    print(f"seed {seed} of {front}")
    time_machine.move_to(EPOCH, tick=False)
    world = World(
        seed,
        front,
        database=database,
        settings=settings.model_copy(update={"controller_lease_s": 30.0}),
        connect=connect,
        time_machine=time_machine,
        tmp_path=tmp_path,
    )
    try:
        # While nobody is heard, nobody's silence counts.
        world.stays = agent("stays", slots=1)
        reply = admin_client.put(
            "/api/v1/pools/elsewhere/provider",
            json={
                "kind": front,
                "slots": 2,
                "max_pilots": MAX_PILOTS,
                "walltime_s": WALLTIME_S,
                "idle_s": IDLE_S,
                "options": world.front.options,
            },
        )
        assert reply.status_code == 200, reply.text
        yield world
        print(f"faults: {dict(world.site.num_faults)}")
    finally:
        world.front.close()


@pytest.mark.parametrize(
    "world", CASES, ids=[f"{front}-{seed}" for seed, front in CASES], indirect=True
)
def test_no_trial_is_lost_none_runs_twice_and_no_pilot_is_left(world, submit, show):
    trials = []
    for number in range(NUM_STEPS):
        for resources in LOAD if number % SUBMIT_EVERY == 0 else ():
            id_ = submit("restarts: {infra: 1000}", pool="elsewhere", **resources)
            (trial,) = show(f"/experiments/{id_}/trials")["items"]
            trials.append(trial["id"])
            world.left[trial["id"]] = WORK
        world.step()
    world.site.faults = 0

    def states():
        if any(world.left.values()):
            return ["needs more steps"]
        return [show(f"/trials/{id_}")["state"] for id_ in trials]

    def pilots():
        return show("/pools/elsewhere/pilots")["items"]

    world.settle(
        lambda: set(states()) == {"COMPLETED"}, 400, lambda: (states(), pilots(), world.site.jobs)
    )
    for id_ in trials:
        attempts = show(f"/trials/{id_}")["attempts"]
        assert Counter(a["state"] for a in attempts)["SUCCEEDED"] == 1, attempts
    world.settle(
        lambda: (
            {pilot["state"] for pilot in pilots()} <= {"ended"}
            and all(job.state == "ended" for job in world.site.jobs)
        ),
        60,
        lambda: (pilots(), world.site.jobs),
    )
    assert [node["name"] for node in show("/nodes")["items"]] == ["stays"]
