"""Any interleaving of reports, losses, stops and passes keeps to the tables and comes to an end."""

import dataclasses
import datetime as dt
import os
import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster.wire import ExitInfo, WorkerExit
from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    BeginPreflight,
    GangPreflight,
    LifecyclePolicy,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetFlags,
    SetNode,
    SetTrial,
    SetYield,
    TrialView,
    Warn,
    decide,
)
from muster_server.domain.states import TERMINAL_ATTEMPT, TERMINAL_TRIAL, YieldKind

pytestmark = pytest.mark.timeout(1800)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POLICY = LifecyclePolicy(takeover_grace_s=0)
NEXT = {
    "ASSIGNED": ["PREPARING"],
    "PREPARING": ["READY", "PREPARE_FAILED"],
    "READY": ["STARTING"],
    "STARTING": ["RUNNING", "STOPPING", "EXITED"],
    "RUNNING": ["STOPPING", "EXITED"],
    "STOPPING": ["EXITED"],
}
CAUSES = ["success", "user_error", "out_of_memory", "stopped", "killed", "shim_lost", "unkillable"]


class Histories(RuleBasedStateMachine):
    """One trial on up to three nodes, its tables held in memory."""

    @initialize(num_nodes=st.integers(1, 3), user=st.integers(0, 2), infra=st.integers(0, 3))
    def begin(self, num_nodes, user, infra):
        self.now = START
        self.nodes = {
            f"n{i}": NodeLease(
                id=f"n{i}", name=f"n{i}", state="ONLINE", last_seen_at=START, registered_at=START
            )
            for i in range(num_nodes)
        }
        self.num_nodes = num_nodes
        self.trial = TrialView(
            id=1, no=1, experiment_id=1, state="QUEUED", budget_user=user, budget_infra=infra
        )
        self.attempt = None
        self.members = {}
        self.ended = None
        self.lost = {}

    # what happens outside

    @rule(
        seconds=st.sampled_from([1, 1, 5, 20, 70, 400, 1000]),
        heard=st.sampled_from([True, True, True, True, False]),
    )
    def time_passes(self, seconds, heard):
        self.now += dt.timedelta(seconds=seconds)
        if heard:
            for node in list(self.nodes):
                self.hear(node)

    @rule(i=st.integers(0, 2))
    def node_is_heard(self, i):
        if i < self.num_nodes:
            self.hear(f"n{i}")

    def hear(self, node_id):
        node = self.nodes[node_id]
        if node.state == "LOST":
            self.nodes[node_id] = dataclasses.replace(
                node, state="RECONCILING", last_seen_at=self.now, registered_at=self.now
            )
        else:
            kept = node.registered_at
            if node.state == "SUSPECT" and any(m.node_id == node_id for m in self.lost.values()):
                kept = self.now  # it has to register again
            self.nodes[node_id] = dataclasses.replace(
                node, last_seen_at=self.now, registered_at=kept
            )

    @precondition(
        lambda self: self.trial.state == "QUEUED" and self.trial.experiment_desired == "run"
    )
    @rule()
    def scheduler_places(self):
        for node in self.nodes:
            self.hear(node)
        self.a_pass_comes_to_rest()
        if any(node.state != "ONLINE" for node in self.nodes.values()):
            return
        no = self.attempt.no + 1 if self.attempt else 1
        self.attempt = AttemptView(
            id=no, no=no, state="PREPARING", num_nodes=self.num_nodes, created_at=self.now
        )
        self.members = {
            f"a{no}.{i}": AllocationView(
                id=f"a{no}.{i}",
                node_id=f"n{i}",
                node_name=f"n{i}",
                node_rank=i,
                observed="ASSIGNED",
                desired="prepare",
                state_since=self.now,
            )
            for i in range(self.num_nodes)
        }
        self.trial = dataclasses.replace(self.trial, state="STARTING")

    @rule(i=st.integers(0, 2), choice=st.integers(0, 2), cause=st.sampled_from(CAUSES))
    def agent_reports(self, i, choice, cause):
        member = next((m for m in self.members.values() if m.node_rank == i), None)
        if member is None or member.observed not in NEXT:
            return
        options = NEXT[member.observed]
        if member.desired in ("stop", "kill"):
            options = ["EXITED"]  # also from PREPARING and READY
        elif member.observed == "READY" and member.desired != "start":
            return
        observed = options[choice % len(options)]
        info = None
        if observed == "EXITED":
            failure = WorkerExit(local_rank=0, rank=i, exit_code=1, at_ms=choice)
            info = ExitInfo(
                cause=cause, message="", first_failure=None if cause == "success" else failure
            )
        if observed == "READY" and i == 0:
            self.attempt = dataclasses.replace(self.attempt, has_rendezvous=True)
        self.members[member.id] = dataclasses.replace(
            member, observed=observed, state_since=self.now, exit=info
        )

    @rule(choice=st.integers(0, 2), cause=st.sampled_from(CAUSES))
    def every_agent_goes_on(self, choice, cause):
        ready = all(m.observed == "READY" for m in self.members.values())
        going = "success" if choice else cause
        for i in range(self.num_nodes):
            self.agent_reports(i, 0 if not ready else choice, going)

    @rule()
    def it_comes_to_run(self):
        if self.trial.state == "QUEUED" and self.trial.experiment_desired == "run":
            self.scheduler_places()
        for _ in range(4):
            if any(m.desired in ("stop", "kill") for m in self.members.values()):
                return
            self.every_agent_goes_on(0, "success")
            self.a_pass_comes_to_rest()

    @rule(state=st.sampled_from(["passed", "failed"]), is_of_network=st.booleans())
    def preflight_ends(self, state, is_of_network):
        if self.attempt is None or self.attempt.preflight is None:
            return
        if self.attempt.preflight.state == "running":
            ended = GangPreflight(state=state, message=state, is_of_network=is_of_network)
            self.attempt = dataclasses.replace(self.attempt, preflight=ended)

    @rule(kind=st.sampled_from([YieldKind.PREEMPT, YieldKind.RESIZE]))
    def scheduler_wants_its_slots(self, kind):
        if self.attempt is None or self.attempt.yield_kind is not None:
            return
        if self.attempt.state in ("PREPARING", "STARTING", "RUNNING"):
            self.attempt = dataclasses.replace(
                self.attempt, yield_kind=kind, yield_reason="others", yield_at=self.now
            )

    @rule(desired=st.sampled_from(["run", "run", "pause"]), chance=st.integers(0, 2))
    def user_pauses_or_resumes(self, desired, chance):
        if chance == 2 and self.trial.desired == "run":
            self.trial = dataclasses.replace(self.trial, experiment_desired=desired)

    @rule(i=st.integers(0, 2), scheduling=st.sampled_from(["open"] * 5 + ["draining"]))
    def admin_drains_or_opens(self, i, scheduling):
        if i < self.num_nodes:
            self.nodes[f"n{i}"] = dataclasses.replace(self.nodes[f"n{i}"], scheduling=scheduling)

    @rule(
        desired=st.sampled_from(["stop", "early", "kill"]),
        chance=st.integers(0, 7),
    )
    def somebody_stops_it(self, desired, chance=7):
        if self.trial.desired == "run" and chance == 7:
            self.trial = dataclasses.replace(self.trial, desired=desired)

    @rule(chance=st.integers(0, 15))
    def its_budget_is_used_up(self, chance):
        if chance == 15:
            self.trial = dataclasses.replace(self.trial, exhausted_reason="used up")

    # the controller

    @rule()
    def controller_passes(self):
        self.one_pass()

    def one_pass(self):
        trials = ()
        if self.trial.state not in TERMINAL_TRIAL:
            attempt = self.attempt and dataclasses.replace(
                self.attempt, allocations=tuple(self.members.values())
            )
            trials = (dataclasses.replace(self.trial, attempt=attempt),)
        snapshot = LifecycleSnapshot(
            leader_since=START,
            nodes=tuple(self.nodes.values()),
            trials=trials,
            lost=tuple(
                LostAllocation(id=m.id, node_id=m.node_id)
                for m in (*self.members.values(), *self.lost.values())
                if m.observed == "LOST"
            ),
        )
        steps = decide(snapshot, now=self.now, policy=POLICY)
        assert steps == decide(snapshot, now=self.now, policy=POLICY)
        for step in steps:
            for action in step.actions:
                self.apply(action)
        return bool(steps)

    def apply(self, action):
        match action:
            case SetNode():
                node = self.nodes[action.node_id]
                assert node.state == action.before
                parts = action.reason.parts
                self.nodes[action.node_id] = dataclasses.replace(
                    node, state=action.after, reason_code=parts[0]["code"] if parts else ""
                )
            case SetAllocation():
                where = self.members if action.allocation_id in self.members else self.lost
                member = where[action.allocation_id]
                assert member.observed == action.before
                where[member.id] = dataclasses.replace(
                    member,
                    observed=action.after,
                    state_since=self.now,
                    desired="forget" if action.after == "CLEANED" else member.desired,
                )
            case SetDesired():
                member = self.members[action.allocation_id]
                assert member.desired == action.before
                self.members[member.id] = dataclasses.replace(member, desired=action.after)
            case SetYield():
                assert self.attempt.state == action.before
                assert self.attempt.yield_kind is None
                self.attempt = dataclasses.replace(
                    self.attempt, yield_kind=action.kind, yield_at=self.now
                )
            case SetAttempt():
                assert self.attempt.state == action.before
                values = {"state": action.after, "reason": action.reason}
                if action.termination is not None:
                    values["termination"] = action.termination.value
                if action.after == "RUNNING":
                    values["started_at"] = self.now
                if action.after in TERMINAL_ATTEMPT and action.before != action.after:
                    values["ended_at"] = self.now
                self.attempt = dataclasses.replace(self.attempt, **values)
            case SetTrial():
                assert self.trial.state == action.before
                values = {"state": action.after, "not_before": action.not_before}
                for name in ("failures_user", "failures_infra", "no_progress"):
                    if getattr(action, name) is not None:
                        values[name] = getattr(action, name)
                self.trial = dataclasses.replace(self.trial, **values)
                if action.after in ("QUEUED", "PAUSED", "RETRY_WAIT", *TERMINAL_TRIAL):
                    # Nothing of the attempt runs any more, as far as can be known.
                    states = {m.observed for m in self.members.values()}
                    assert states <= {"CLEANED", "LOST"}
                    self.lost |= self.members
                    self.members = {}
            case SetFlags():
                self.trial = dataclasses.replace(self.trial, flags=action.flags)
            case BeginPreflight():
                assert self.attempt.state == action.before
                assert self.attempt.preflight is None
                begun = GangPreflight(state="running")
                self.attempt = dataclasses.replace(self.attempt, preflight=begun)
            case Warn():
                pass  # An event; nothing is decided from it.
            case _:
                raise AssertionError(f"this test does not apply {action}")

    # what always holds

    @invariant()
    def budgets_hold(self):
        if getattr(self, "trial", None) is not None and self.trial.state == "QUEUED":
            assert self.trial.failures_user <= self.trial.budget_user
            assert self.trial.failures_infra <= self.trial.budget_infra

    @invariant()
    def a_pass_comes_to_rest(self):
        if getattr(self, "trial", None) is None:
            return
        for _ in range(10):
            if not self.one_pass():
                return
        raise AssertionError("passes keep deciding although nothing happens")

    def teardown(self):
        """Once every agent is heard again and told to stop, the trial ends."""
        if getattr(self, "trial", None) is None:
            return
        self.somebody_stops_it("stop")
        for _ in range(6):
            self.now += dt.timedelta(seconds=30)
            for i in range(self.num_nodes):
                self.hear(f"n{i}")
            while self.one_pass():
                pass
            for i in range(self.num_nodes):
                member = next((m for m in self.members.values() if m.node_rank == i), None)
                if member is not None and member.desired in ("stop", "kill"):
                    self.agent_reports(i, 0, "stopped")
            while self.one_pass():
                pass
        assert self.trial.state in TERMINAL_TRIAL
        assert "LOST" not in {m.observed for m in self.lost.values()}


Histories.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestHistories = Histories.TestCase


def play(seed):
    """One history without Hypothesis, which spends most of its time choosing: 80 things happen."""
    draw = random.Random(seed)
    history = Histories()
    history.begin(draw.randint(1, 3), draw.randint(0, 4), draw.randint(0, 6))
    things = {
        "time_passes": lambda: history.time_passes(
            draw.choice([1, 1, 5, 20, 70, 400, 1000]), draw.random() < 0.8
        ),
        "node_is_heard": lambda: history.node_is_heard(draw.randrange(3)),
        "it_comes_to_run": history.it_comes_to_run,
        "agent_reports": lambda: history.agent_reports(
            draw.randrange(3), draw.randrange(3), draw.choice(CAUSES)
        ),
        "every_agent_goes_on": lambda: history.every_agent_goes_on(
            draw.choice([0, 0, 0, 1]), draw.choice(CAUSES)
        ),
        "preflight_ends": lambda: history.preflight_ends(
            draw.choice(["passed", "failed"]), draw.random() < 0.5
        ),
        "scheduler_wants_its_slots": lambda: history.scheduler_wants_its_slots(
            draw.choice([YieldKind.PREEMPT, YieldKind.RESIZE])
        ),
        "user_pauses_or_resumes": lambda: history.user_pauses_or_resumes(
            draw.choice(["run", "run", "pause"]), draw.randrange(3)
        ),
        "admin_drains_or_opens": lambda: history.admin_drains_or_opens(
            draw.randrange(3), draw.choice(["open"] * 5 + ["draining"])
        ),
        "somebody_stops_it": lambda: history.somebody_stops_it(
            draw.choice(["stop", "early", "kill"]), draw.randrange(80)
        ),
        "its_budget_is_used_up": lambda: history.its_budget_is_used_up(draw.randrange(160)),
    }
    for _ in range(80):
        if history.trial.state in TERMINAL_TRIAL:
            break
        things[draw.choice(list(things))]()
        history.budgets_hold()
        history.a_pass_comes_to_rest()
    history.teardown()
    return history


NUM_PLAYED = int(os.environ.get("MUSTER_LIFECYCLES", "2000"))


@pytest.mark.parametrize(
    "seeds", [range(i, i + 500) for i in range(1, NUM_PLAYED + 1, 500)], ids=str
)
def test_thousands_of_histories(seeds):
    ends = Counter()
    num_attempts = 0
    for seed in seeds:
        try:
            history = play(seed)
        except Exception as error:
            raise AssertionError(f"history {seed}: `play({seed})` plays it again") from error
        ends[history.trial.state] += 1
        num_attempts += history.attempt.no if history.attempt else 0
    print(f"{num_attempts} attempts; trials: {dict(ends)}")
    assert num_attempts > len(seeds)
    assert set(ends) == {"COMPLETED", "STOPPED_EARLY", "FAILED", "CANCELED"}
