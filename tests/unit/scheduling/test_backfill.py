"""Slots that are kept for a gang that waits, and who may use them meanwhile."""

import datetime as dt

from muster_server.domain.scheduling import SchedulerPolicy, Wait
from support.scheduling import (
    NOW,
    at,
    make_node,
    make_queued,
    make_running,
    placed,
    reason_of,
    run,
    where,
)


def test_a_trial_that_ends_in_time_uses_slots_that_are_kept():
    running = [make_running(9, {"a": 2}, expected_end_at=at(100))]
    gang = make_queued(1, 8)
    for expected_s, starts in ((100.0, [2]), (101.0, []), (None, [])):
        queue = [gang, make_queued(2, 4, expected_s=expected_s)]
        assert placed(run({"a": 8}, queue, running)) == starts, expected_s


def test_without_an_expected_end_nobody_uses_them():
    running = [make_running(9, {"a": 2})]
    queue = [make_queued(1, 8), make_queued(2, 1, expected_s=1.0)]
    assert placed(run({"a": 8}, queue, running)) == []


def test_an_end_that_is_overdue_is_no_expectation():
    running = [make_running(9, {"a": 2}, expected_end_at=at(-1))]
    queue = [make_queued(1, 8), make_queued(2, 1, expected_s=1.0)]
    assert placed(run({"a": 8}, queue, running)) == []


def test_one_unknown_end_among_those_needed_is_enough():
    running = [make_running(8, {"a": 1}, expected_end_at=at(50)), make_running(9, {"a": 1})]
    queue = [make_queued(1, 8), make_queued(2, 1, expected_s=1.0)]
    assert placed(run({"a": 8}, queue, running)) == []


def test_an_end_that_is_not_needed_may_be_unknown():
    running = [make_running(8, {"a": 1}, expected_end_at=at(50)), make_running(9, {"a": 1})]
    queue = [make_queued(1, 7), make_queued(2, 1, expected_s=50.0)]
    assert placed(run({"a": 8}, queue, running)) == [2]


def test_the_nodes_that_are_free_first_are_promised():
    # a needs fewer more slots, b is certain to be free.
    running = [make_running(8, {"a": 1}), make_running(9, {"b": 3}, expected_end_at=at(500))]
    queue = [make_queued(1, 4, nodes=1), make_queued(2, 3)]
    decisions = run({"a": 4, "b": 4}, queue, running)
    assert where(decisions, 2) == {"a": 3}
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default, on exactly 1 node: 1 reserved for it, "
        "3 held by experiment 1, 3 held by experiment 9, 1 held by experiment 8"
    )


def test_where_nobody_knows_the_fewest_missing_slots_decide_and_the_choice_stays():
    running = [make_running(i, {"a": 1}) for i in (10, 11, 12)]
    running += [make_running(i, {"b": 1}) for i in (20, 21, 22, 23)]
    gang = make_queued(1, 8, nodes=1)
    queue = [gang, *(make_queued(i, 1) for i in range(100, 110))]
    while running:
        decisions = run({"a": 8, "b": 8}, queue, running)
        if 1 in placed(decisions):
            break
        # a is promised; the small ones only get b, where somebody new takes every place.
        assert all(set(where(decisions, i)) == {"b"} for i in placed(decisions))
        running = [t for t in running if t.trial_id != min(t.trial_id for t in running)]
        running += [make_running(1000 + i, {"b": 1}) for i in placed(decisions)]
        queue = [t for t in queue if t.trial_id not in placed(decisions)]
    assert where(decisions, 1) == {"a": 8}


def test_several_trials_have_slots_kept_but_only_so_many():
    running = [make_running(i, {name: 1}) for i, name in enumerate("abcd", start=10)]
    queue = [*(make_queued(i, 4, nodes=1) for i in range(1, 5)), make_queued(100, 3)]
    nodes = dict.fromkeys("abcd", 4)
    assert placed(run(nodes, queue, running)) == []
    policy = SchedulerPolicy(max_reservations=3)
    assert where(run(nodes, queue, running, policy=policy), 100) == {"d": 3}


def test_slots_are_kept_in_one_place_when_the_topology_is_required():
    nodes = [make_node(n, 4, labels={"rack": n[0]}) for n in ("a1", "a2", "b1", "b2")]
    running = [make_running(9, {"a1": 1}), make_running(10, {"b1": 2, "b2": 2})]
    queue = [
        make_queued(1, 8, topology_key="rack", topology_mode="require"),
        make_queued(2, 2),
        make_queued(3, 3),
    ]
    decisions = run(nodes, queue, running)
    assert placed(decisions) == [2]
    assert set(where(decisions, 2)) <= {"b1", "b2"}


# ---- estimates


def estimates(decisions):
    return {
        d.trial_id: None if d.estimated_start_at is None else (d.estimated_start_at - NOW)
        for d in decisions
        if isinstance(d, Wait)
    }


def s(seconds):
    return dt.timedelta(seconds=seconds)


def test_the_start_is_estimated_from_expected_ends_in_order():
    running = [
        make_running(8, {"a": 2}, expected_end_at=at(100)),
        make_running(9, {"a": 2}, expected_end_at=at(300)),
    ]
    queue = [
        make_queued(1, 2, expected_s=1000.0),
        make_queued(2, 2, expected_s=50.0),
        make_queued(3, 2),
        make_queued(4, 1),
    ]
    assert estimates(run({"a": 4}, queue, running)) == {1: s(100), 2: s(300), 3: s(350), 4: s(1100)}


def test_without_expected_ends_there_is_no_estimate():
    queue = [make_queued(1, 2), make_queued(2, 1)]
    assert estimates(run({"a": 2}, queue, [make_running(8, {"a": 1})])) == {1: None, 2: None}


def test_nobody_behind_a_trial_without_an_estimate_has_one():
    running = [make_running(8, {"a": 2}), make_running(9, {"a": 2}, expected_end_at=at(10))]
    queue = [make_queued(1, 4), make_queued(2, 2)]
    assert estimates(run({"a": 4}, queue, running)) == {1: None, 2: None}


def test_who_can_never_start_or_waits_for_a_quota_delays_no_estimate():
    running = [make_running(9, {"a": 2}, expected_end_at=at(10))]
    queue = [make_queued(1, 40), make_queued(2, 2)]
    assert estimates(run({"a": 2}, queue, running)) == {1: None, 2: s(10)}


def test_trials_that_start_now_count_with_their_expected_ends():
    queue = [make_queued(1, 2, expected_s=70.0), make_queued(2, 2)]
    assert estimates(run({"a": 2}, queue)) == {2: s(70)}


def test_only_the_front_of_the_queue_is_estimated():
    running = [make_running(9, {"a": 1}, expected_end_at=at(10))]
    queue = [make_queued(i, 1, expected_s=1.0) for i in range(1, 5)]
    decisions = run({"a": 1}, queue, running, policy=SchedulerPolicy(max_estimates=2))
    assert estimates(decisions) == {1: s(10), 2: s(11), 3: None, 4: None}
