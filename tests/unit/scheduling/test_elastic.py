"""Elastic trials: the largest size that fits, growing into what stays idle, never to and fro."""

import pytest

from muster_server.domain.scheduling import ProjectView, Resize, SchedulerPolicy
from muster_server.domain.scheduling.resources import Request
from support.scheduling import (
    ClusterSimulation,
    Job,
    at,
    make_node,
    make_queued,
    make_running,
    placed,
    run,
    where,
)

POLICY = SchedulerPolicy(grow_after_s=300)


def idle(name, num_slots, since_s=-1000.0, **changes):
    return make_node(name, num_slots, free_since=at(since_s), **changes)


def grown(decisions):
    return {d.trial_id: d.slots for d in decisions if isinstance(d, Resize)}


@pytest.mark.parametrize(
    ("free", "changes", "expected"),
    [
        ([8], {}, [8]),
        ([5], {}, [5]),
        ([4, 4], {}, [4, 4]),
        ([4, 3], {}, [3, 3]),
        ([4, 3], {"uneven": True}, [4, 3]),
        ([7, 2], {}, [7]),
        ([7, 2], {"max_nodes": 1}, [7]),
        ([3, 2], {"nodes": 2}, [2, 2]),
        ([1], {}, None),
        ([1, 1], {}, [1, 1]),
        ([1, 1], {"max_nodes": 1}, None),
    ],
)
def test_it_starts_with_the_most_slots_that_fit(free, changes, expected):
    nodes = {f"n{i}": num for i, num in enumerate(free)}
    decisions = run(nodes, [make_queued(1, 8, min_slots=2, **changes)])
    if expected is None:
        assert placed(decisions) == []
    else:
        assert sorted(where(decisions, 1).values(), reverse=True) == expected


def test_it_grows_into_slots_that_have_been_free_for_a_while():
    running = [make_running(9, {"a": 2}, slots=8, min_slots=2)]
    decisions = run([idle("a", 8)], running=running, policy=POLICY)
    assert grown(decisions) == {9: 8}
    assert decisions[0].reason.english == (
        "grows from 2 slots to 8: they have been free for 300 s, and no waiting trial could use them"
    )


@pytest.mark.parametrize("since_s", [-299.0, 0.0])
def test_it_does_not_grow_into_slots_that_came_free_lately(since_s):
    running = [make_running(9, {"a": 2}, slots=8, min_slots=2)]
    assert grown(run([idle("a", 8, since_s)], running=running, policy=POLICY)) == {}


def test_it_does_not_grow_when_nobody_knows_since_when_they_are_free():
    running = [make_running(9, {"a": 2}, slots=8, min_slots=2)]
    assert grown(run({"a": 8}, running=running, policy=POLICY)) == {}


@pytest.mark.parametrize(
    "changes", [{"started_at": at(-200)}, {"yielding": True}, {"slots": 2, "min_slots": None}]
)
def test_who_does_not_grow(changes):
    values = {"slots": 8, "min_slots": 2, **changes}
    running = [make_running(9, {"a": 2}, **values)]
    assert grown(run([idle("a", 8)], running=running, policy=POLICY)) == {}


def test_it_does_not_grow_while_somebody_waits_who_could_use_the_slots():
    nodes = [idle("a", 4), idle("b", 4, labels={"net": "ib"})]
    running = [make_running(9, {"a": 2}, slots=4, min_slots=2), make_running(10, {"b": 1})]
    assert grown(run(nodes, [make_queued(1, 8)], running, policy=POLICY)) == {}
    # One that may only use b is not in the way of a.
    queue = [make_queued(1, 4, labels={"net": "ib"})]
    assert grown(run(nodes, queue, running, policy=POLICY)) == {9: 4}
    # Nor is one that can never start.
    assert grown(run(nodes, [make_queued(1, 800)], running, policy=POLICY)) == {9: 4}


def test_small_gains_are_not_worth_a_restart():
    running = [make_running(9, {"a": 8}, slots=16, min_slots=2)]
    assert grown(run([idle("a", 9)], running=running, policy=POLICY)) == {}
    assert grown(run([idle("a", 10)], running=running, policy=POLICY)) == {9: 10}
    running = [make_running(9, {"a": 8}, slots=9, min_slots=2)]
    assert grown(run([idle("a", 9)], running=running, policy=POLICY)) == {9: 9}


def test_it_grows_within_the_quota():
    running = [make_running(9, {"a": 2}, slots=8, min_slots=2, project_id=1)]
    projects = [ProjectView(id=1, name="p", quotas={("default", "cpu"): 5})]
    decisions = run([idle("a", 8)], running=running, projects=projects, policy=POLICY)
    assert grown(decisions) == {9: 5}


def test_idle_slots_are_given_once_and_to_the_more_important():
    running = [
        make_running(8, {"a": 2}, slots=8, min_slots=2, priority=10),
        make_running(9, {"b": 2}, slots=8, min_slots=2, priority=20),
    ]
    decisions = run([idle("a", 5), idle("b", 8)], running=running, policy=POLICY)
    assert grown(decisions) == {9: 8, 8: 5}
    running = [
        make_running(8, {"a": 2}, slots=8, min_slots=2, priority=10),
        make_running(9, {"a": 2}, slots=8, min_slots=2, priority=20),
    ]
    assert grown(run([idle("a", 8)], running=running, policy=POLICY)) == {9: 6}


def test_sizes_settle_in_an_idle_cluster():
    job = Job(trial_id=1, request=Request(slots=8, min_slots=2), work_s=20_000, arrives_s=1)
    first = Job(trial_id=2, request=Request(slots=6), work_s=100)
    nodes = [make_node("a", 8)]
    simulation = ClusterSimulation(nodes, [first, job], policy=POLICY)
    simulation.run(200_000)
    assert [size for _, size in simulation.jobs[1].starts] == [2, 8]


def test_it_shrinks_for_a_more_important_trial_and_grows_again_once():
    jobs = [
        Job(trial_id=1, request=Request(slots=8, min_slots=2), work_s=10_000),
        Job(trial_id=2, request=Request(slots=4), work_s=1000, arrives_s=500, priority=90),
    ]
    simulation = ClusterSimulation([make_node("a", 8)], jobs, policy=POLICY)
    simulation.run(100_000)
    assert [size for _, size in simulation.jobs[1].starts] == [8, 4, 8]
    grew_s = simulation.jobs[1].starts[2][0]
    ended_s = simulation.jobs[2].ended_s
    assert ended_s + 300 <= grew_s <= ended_s + 300 + 120
