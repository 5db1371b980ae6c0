"""Nodes that leave at a known time, and trials that would still run then."""

import pytest

from muster_server.domain.scheduling import Placement, Scheduler, SchedulerPolicy, SchedulerSnapshot
from muster_server.domain.scheduling.decisions import Wait
from muster_server.domain.scheduling.resources import Request
from muster_server.domain.scheduling.views import QueuedTrial
from support.scheduling import NOW, at, make_node

POLICY = SchedulerPolicy()


def queued(trial_id=1, **request):
    fields = {"slots": 2, "limit_s": 0.0, "grace_s": 30.0, **request}
    return QueuedTrial(
        trial_id=trial_id,
        trial_no=1,
        experiment_id=trial_id,
        priority=50,
        queued_at=NOW,
        request=Request(**fields),
    )


def decide(nodes, trial, *, now=NOW, scheduler=None):
    snapshot = SchedulerSnapshot(nodes=tuple(nodes), queue=(trial,))
    decided = (scheduler or Scheduler()).run(snapshot, now=now, policy=POLICY)
    (decision,) = [*decided.actions, *decided.waits()]
    return decision


@pytest.mark.parametrize(
    ("limit_s", "ends_s", "fits"),
    [(600, 690, True), (600, 689, False), (0, 90, True), (0, 89, False)],
)
def test_a_trial_starts_where_its_limit_and_its_grace_end_before_the_node(limit_s, ends_s, fits):
    node = make_node("pilot", 2, ends_at=at(ends_s))
    assert isinstance(decide([node], queued(limit_s=limit_s)), Placement) is fits


def test_a_node_that_stays_is_taken_instead():
    nodes = [make_node("a-pilot", 2, ends_at=at(300)), make_node("stays", 2)]
    decision = decide(nodes, queued(limit_s=600))
    assert [share.node_name for share in decision.shares] == ["stays"]


def test_a_gang_needs_the_time_on_all_of_its_nodes():
    nodes = [make_node("a", 2, ends_at=at(300)), make_node("b", 2, ends_at=at(3000))]
    assert isinstance(decide(nodes, queued(slots=4, nodes=2, limit_s=600)), Wait)
    assert isinstance(decide(nodes, queued(slots=4, nodes=2, limit_s=200)), Placement)


def test_the_reason_names_the_limit():
    decision = decide([make_node("a", 2, ends_at=at(300))], queued(limit_s=600))
    text = decision.reason.english
    assert "too little time left on 1 node there for its time limit of 10 min" in text
    assert "Lower `resources.max_duration`" in text


def test_time_passes_for_a_scheduler_that_remembers():
    """Nothing changes but the clock: what fitted a moment ago does not fit any more."""
    scheduler, node, trial = Scheduler(), make_node("a", 2, ends_at=at(1000)), queued(limit_s=600)
    busy = make_node("a", 2, held=2, ends_at=at(1000))
    assert isinstance(decide([busy], trial, scheduler=scheduler), Wait)
    late = decide([busy], trial, now=at(320), scheduler=scheduler)
    assert "for its time limit" in late.reason.english
    assert isinstance(decide([node], trial, now=at(320), scheduler=scheduler), Wait)
    assert isinstance(
        decide([node], queued(limit_s=500), now=at(320), scheduler=scheduler), Placement
    )
