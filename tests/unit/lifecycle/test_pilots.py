"""Pilots that come to their end, announced or not."""

import dataclasses
import datetime as dt

import pytest

from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    DrainNode,
    LifecyclePolicy,
    LifecycleSnapshot,
    NodeLease,
    RemoveNode,
    SetNode,
    SetYield,
    TrialView,
    decide,
)

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
POLICY = LifecyclePolicy(node_lost_s=60.0, pilot_notice_s=60.0, pilot_forgotten_s=300.0)


def after(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def pilot(state="ONLINE", *, ends_s=None, silent_s=0.0, **changes):
    return NodeLease(
        id="p1",
        name="slurm-1",
        state=state,
        last_seen_at=after(-silent_s),
        registered_at=after(-1000),
        reason_code="node.not_heard" if state == "SUSPECT" else "",
        is_pilot=True,
        ends_at=None if ends_s is None else after(ends_s),
        **changes,
    )


def trial_on(node, *, grace_s=30.0):
    member = AllocationView(
        id="a0",
        node_id=node.id,
        node_name=node.name,
        node_rank=0,
        observed="RUNNING",
        desired="start",
        state_since=NOW,
    )
    attempt = AttemptView(
        id=7, no=1, state="RUNNING", num_nodes=1, created_at=NOW, allocations=(member,)
    )
    return TrialView(
        id=1, no=1, experiment_id=5, state="RUNNING", attempt=attempt, stop_grace_s=grace_s
    )


def decided(*nodes, trials=(), leader_since=None):
    snapshot = LifecycleSnapshot(
        leader_since=leader_since or after(-5000), nodes=nodes, trials=trials
    )
    return [a for step in decide(snapshot, now=NOW, policy=POLICY) for a in step.actions]


@pytest.mark.parametrize(
    ("ends_s", "grace_s", "drains"),
    [(91, 30, False), (90, 30, True), (361, 300, False), (60, 0, True)],
)
def test_a_pilot_is_drained_before_its_end_and_the_longest_grace_on_it(ends_s, grace_s, drains):
    node = pilot(ends_s=ends_s)
    actions = decided(node, trials=(trial_on(node, grace_s=grace_s),))
    assert any(isinstance(action, DrainNode) for action in actions) is drains


def test_what_runs_on_a_drained_pilot_is_asked_for_its_slots_at_nobodys_expense():
    node = pilot(ends_s=20, scheduling="draining")
    (action,) = [a for a in decided(node, trials=(trial_on(node),)) if isinstance(a, SetYield)]
    assert action.kind == "drain"


def test_a_pilot_that_is_draining_is_not_drained_again_and_one_without_an_end_never_is():
    assert decided(pilot(ends_s=10, scheduling="draining")) == []
    assert decided(pilot()) == []


def test_a_machine_that_stays_has_no_end_whatever_its_row_says():
    assert decided(dataclasses.replace(pilot(ends_s=-5), is_pilot=False)) == []


def test_silence_after_its_end_counts_even_if_nobody_else_is_heard():
    alone = pilot("SUSPECT", ends_s=-61, silent_s=70)
    (action,) = decided(alone)
    assert isinstance(action, SetNode)
    assert (action.after, action.reason.code) == ("LOST", "node.pilot_ended")
    assert not [
        a for a in decided(pilot("SUSPECT", ends_s=-30, silent_s=70)) if isinstance(a, SetNode)
    ]


def test_a_lost_pilot_is_removed_after_its_end_or_a_while():
    for node in (
        pilot("LOST", silent_s=301),
        pilot("LOST", ends_s=-1, silent_s=70),
        pilot("LOST", silent_s=70, job_has_ended=True),
    ):
        (action,) = decided(node)
        assert isinstance(action, RemoveNode)
    assert decided(pilot("LOST", ends_s=500, silent_s=299)) == []
    # Heard of as lost first: what the batch system says of its job is not said of its node.
    assert not [
        a
        for a in decided(pilot("SUSPECT", silent_s=70, job_has_ended=True))
        if isinstance(a, RemoveNode)
    ]


def test_a_new_leader_gives_up_no_pilot():
    fresh = after(-5)
    assert decided(pilot("LOST", silent_s=900), leader_since=fresh) == []
