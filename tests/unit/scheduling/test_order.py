"""Whose turn it is: priority, fair share between projects, places, ageing, quotas."""

import pytest

from muster_server.domain.scheduling import Placement, ProjectView, SchedulerPolicy, Wait
from support.scheduling import (
    at,
    make_node,
    make_queued,
    make_running,
    placed,
    reason_of,
    run,
    where,
)

CPU = ("default", "cpu")


def many(project_id, num, slots=1, *, first_id, **changes):
    return [make_queued(first_id + i, slots, project_id=project_id, **changes) for i in range(num)]


def shares_of(decisions, queue):
    """Project → slots given."""
    projects = {trial.trial_id: trial.project_id for trial in queue}
    shares = {}
    for place in decisions:
        if isinstance(place, Placement):
            project = projects[place.trial_id]
            shares[project] = shares.get(project, 0) + sum(len(s.slots) for s in place.shares)
    return shares


@pytest.mark.parametrize(
    ("weights", "demands", "slots", "expected"),
    [
        ((1, 1), (10, 30), 8, (4, 4)),
        ((10, 30), (3, 7), 8, (2, 6)),
        ((3, 1), (10, 30), 8, (6, 2)),
        ((1, 1), (1, 8), 4, (1, 3)),
        ((1, 1, 1), (2, 2, 20), 12, (2, 2, 8)),
        ((2, 1, 1), (20, 20, 20), 16, (8, 4, 4)),
        ((1, 1), (0, 8), 8, (0, 8)),
    ],
)
def test_slots_are_divided_by_weight_among_those_who_want_them(weights, demands, slots, expected):
    projects = [ProjectView(id=i, name=f"p{i}", weight=w) for i, w in enumerate(weights)]
    # The last project queued first: neither order of arrival nor of ids decides.
    queue = [
        trial
        for i, demand in enumerate(demands)
        for trial in many(i, demand, first_id=1000 * (len(demands) - i))
    ]
    decisions = run({"a": slots}, queue, projects=projects)
    given = shares_of(decisions, queue)
    assert tuple(given.get(i, 0) for i in range(len(weights))) == expected


def test_what_is_held_counts():
    running = [make_running(900, {"a": 3}, project_id=1)]
    queue = [*many(1, 8, first_id=1), *many(2, 8, first_id=100)]
    decisions = run({"a": 8}, queue, running)
    assert shares_of(decisions, queue) == {1: 1, 2: 4}


def test_shares_are_counted_per_pool_and_slot_type():
    running = [make_running(900, {"g": 4}, project_id=1, slot_type="cuda")]
    nodes = [make_node("g", 4, slot_type="cuda"), make_node("a", 2)]
    queue = [*many(1, 2, first_id=1), *many(2, 2, first_id=100)]
    assert shares_of(run(nodes, queue, running), queue) == {1: 1, 2: 1}


def test_a_project_without_a_view_has_weight_one():
    queue = [*many(1, 4, first_id=1), *many(2, 4, first_id=100)]
    projects = [ProjectView(id=1, name="p", weight=3.0)]
    assert shares_of(run({"a": 4}, queue, projects=projects), queue) == {1: 3, 2: 1}


def test_priority_comes_before_fair_share():
    queue = [*many(1, 4, first_id=1, priority=90), *many(2, 4, first_id=100)]
    assert shares_of(run({"a": 4}, queue), queue) == {1: 4}


def test_an_impossible_trial_costs_its_project_nothing():
    queue = [make_queued(1, 100, project_id=1), make_queued(2, project_id=1), make_queued(3)]
    assert placed(run({"a": 1}, queue)) == [2]


def test_within_a_project_the_place_decides():
    queue = [
        make_queued(1, queue_no=5.0),
        make_queued(2, queue_no=-1.0),
        make_queued(3, queue_no=5.0),
    ]
    assert placed(run({"a": 2}, queue)) == [2, 1]


def test_two_gangs_of_half_the_cluster_each_run_and_halves_never_block_each_other():
    queue = [make_queued(1, 4, project_id=1), make_queued(2, 4, project_id=2)]
    assert placed(run({"a": 4, "b": 4}, queue)) == [1, 2]
    queue = [make_queued(1, 2, project_id=1), make_queued(2, 2, project_id=2)]
    assert placed(run({"a": 2}, queue)) == [1]


def test_positions_follow_the_order_and_start_at_one_in_every_group():
    queue = [
        *many(1, 3, first_id=1),
        *many(2, 2, first_id=100),
        make_queued(200, pool="other"),
    ]
    decisions = run({"a": 1}, queue, [make_running(9, {"a": 1})])
    positions = {d.trial_id: d.position for d in decisions if isinstance(d, Wait)}
    assert positions == {1: 1, 100: 2, 2: 3, 101: 4, 3: 5, 200: 1}


# ---- ageing

AGED = SchedulerPolicy(age_after_s=600)


def test_a_project_with_a_lasting_trial_gets_its_turn_by_ageing():
    # Project 1 holds a slot for good and wants the other 8; project 2 holds none and queues later.
    running = [make_running(900, {"a": 1}, project_id=1, started_at=at(-5000))]
    queue = [
        make_queued(1, 8, project_id=1, queued_at=at(-500)),
        make_queued(2, 1, project_id=2),
    ]
    assert placed(run({"a": 8, "b": 1}, queue, running, policy=AGED)) == [2]
    queue[0] = make_queued(1, 8, project_id=1, queued_at=at(-601))
    decisions = run({"a": 8, "b": 1}, queue, running, policy=AGED)
    waits = [d for d in decisions if isinstance(d, Wait)]
    assert [(d.trial_id, d.position) for d in waits] == [(1, 1)]
    assert placed(decisions) == [2], "it takes the slot that the gang cannot use"


def test_a_start_ahead_of_it_begins_the_time_anew():
    queue = [
        make_queued(1, project_id=1, queued_at=at(-5000), queue_no=2.0),
        make_queued(2, project_id=2),
    ]
    early = make_running(
        900, {"a": 1}, project_id=1, started_at=at(-500), priority=50, queue_no=1.0
    )
    assert placed(run({"a": 2}, queue, [early], policy=AGED)) == [2]
    # One that overtook it does not.
    overtook = make_running(
        900, {"a": 1}, project_id=1, started_at=at(-500), priority=50, queue_no=3.0
    )
    assert placed(run({"a": 2}, queue, [overtook], policy=AGED)) == [1]


def test_only_the_first_trial_of_a_project_ages():
    running = [make_running(900, {"a": 1}, project_id=1, started_at=at(-5000), queue_no=0.0)]
    queue = [
        *many(1, 3, first_id=1, queued_at=at(-5000)),
        *many(2, 3, first_id=100),
    ]
    assert placed(run({"a": 4}, queue, running, policy=AGED)) == [1, 100, 101]


def test_who_comes_back_from_a_resize_goes_first_and_takes_what_it_was_stopped_for():
    queue = [
        make_queued(1, 1),
        make_queued(2, 8, min_slots=1, resize_slots=3, queue_no=9e9),
        make_queued(3, 1, priority=60),
    ]
    decisions = run({"a": 5}, queue)
    assert placed(decisions) == [3, 2, 1]
    assert where(decisions, 2) == {"a": 3}


# ---- quotas


def vision(quota, **changes):
    return ProjectView(id=1, name="vision", quotas={CPU: quota}, **changes)


def test_a_quota_is_a_hard_limit_and_named_as_the_reason():
    running = [make_running(900, {"a": 6}, project_id=1)]
    queue = [make_queued(1, 4, project_id=1), make_queued(2, 2, project_id=2)]
    decisions = run({"a": 16}, queue, running, projects=[vision(8)])
    assert placed(decisions) == [2]
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default: the quota of project vision there is 8 slots, 6 in use"
    )


def test_a_quota_is_used_in_order():
    # The second trial would still fit into the quota, and then the first one could wait for ever.
    running = [make_running(900, {"a": 4}, project_id=1)]
    queue = [make_queued(1, 8, project_id=1), make_queued(2, 1, project_id=1)]
    decisions = run({"a": 16}, queue, running, projects=[vision(8)])
    assert placed(decisions) == []
    assert reason_of(decisions, 2) == (
        "Needs 1 cpu slot in pool default: the quota of project vision there is 8 slots, "
        "4 in use, 8 needed by its trials ahead in the queue"
    )


def test_more_than_the_quota_can_never_start_and_blocks_nobody():
    queue = [make_queued(1, 9, project_id=1), make_queued(2, 8, project_id=1)]
    decisions = run({"a": 16}, queue, projects=[vision(8)])
    assert placed(decisions) == [2]
    assert reason_of(decisions, 1) == (
        "Needs 9 cpu slots in pool default: the quota of project vision there is 8 slots"
    )


def test_an_elastic_trial_takes_what_the_quota_leaves():
    running = [make_running(900, {"a": 2}, project_id=1)]
    queue = [make_queued(1, 8, min_slots=2, project_id=1), make_queued(2, 1, project_id=1)]
    decisions = run({"a": 16}, queue, running, projects=[vision(6)])
    # One slot is for the trial behind it? No: it is ahead, so it takes all that is left.
    assert where(decisions, 1) == {"a": 4}
    assert placed(decisions) == [1]


def test_a_quota_of_one_group_leaves_the_others_alone():
    queue = [make_queued(1, 4, project_id=1, pool="other"), make_queued(2, 4, project_id=1)]
    nodes = [make_node("a", 4), make_node("b", 4, pool="other")]
    assert placed(run(nodes, queue, projects=[vision(0)])) == [1]
