"""Who is asked for slots: as few as possible, only where it helps, and only once."""

import dataclasses
import itertools

import pytest

from muster_server.domain.scheduling import Placement, Preempt, Resize, SchedulerPolicy
from support.scheduling import (
    at,
    make_node,
    make_queued,
    make_running,
    placed,
    reason_of,
    run,
)


def asked(decisions):
    return [d.trial_id for d in decisions if isinstance(d, Preempt)]


def resized(decisions):
    return {d.trial_id: d.slots for d in decisions if isinstance(d, Resize)}


def urgent(trial_id=1, slots=4, **changes):
    return make_queued(trial_id, slots, priority=90, **changes)


def test_a_more_important_gang_gets_the_slots_of_a_less_important_one():
    decisions = run({"a": 4}, [urgent(experiment_id=3)], [make_running(9, {"a": 4})])
    (preempt,) = [d for d in decisions if isinstance(d, Preempt)]
    assert (preempt.trial_id, preempt.attempt_no, preempt.for_trial_id) == (9, 1, 1)
    assert preempt.reason.english == (
        "gives up 4 slots: trial 1 of experiment 3 has priority 90 (this one 50) and "
        "needs 4 cpu slots in pool default"
    )
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default: waiting for slots of trial 9 of experiment 9"
    )


@pytest.mark.parametrize(
    "changes", [{"priority": 90}, {"priority": 95}, {"preemptible": False}, {"yielding": True}]
)
def test_equals_the_more_important_and_the_protected_are_not_asked(changes):
    assert asked(run({"a": 4}, [urgent()], [make_running(9, {"a": 4}, **changes)])) == []


def test_nobody_is_asked_when_the_policy_says_so():
    policy = SchedulerPolicy(preempt=False)
    assert asked(run({"a": 4}, [urgent()], [make_running(9, {"a": 4})], policy=policy)) == []


def test_nobody_is_asked_for_a_gang_that_would_still_not_fit():
    running = [make_running(9, {"a": 2}), make_running(10, {"a": 2}, preemptible=False)]
    assert asked(run({"a": 4}, [urgent()], running)) == []


def test_the_least_important_is_asked_first():
    running = [make_running(i, {"a": 4}, priority=p) for i, p in ((8, 30), (9, 10), (10, 20))]
    assert asked(run({"a": 12}, [urgent()], running)) == [9]


def test_of_equals_the_one_that_loses_least_is_asked():
    running = [
        make_running(8, {"a": 4}, started_at=at(-900)),
        make_running(9, {"b": 4}, started_at=at(-9000), last_checkpoint_at=at(-60)),
        make_running(10, {"c": 4}, started_at=at(-100)),
    ]
    assert asked(run(dict.fromkeys("abc", 4), [urgent()], running)) == [9]
    assert asked(run({"a": 4, "c": 4}, [urgent()], [running[0], running[2]])) == [10]


def test_the_time_in_which_a_trial_was_paused_is_no_work_to_lose():
    running = [
        make_running(8, {"a": 4}, started_at=at(-900), last_checkpoint_at=at(-500)),
        make_running(9, {"b": 4}, started_at=at(-30), last_checkpoint_at=at(-9000)),
    ]
    assert asked(run(dict.fromkeys("ab", 4), [urgent()], running)) == [9]


@pytest.mark.parametrize("order", list(itertools.permutations((8, 9, 10))), ids=str)
def test_of_those_that_lose_the_same_the_oldest_trial_is_asked(order):
    """In whatever order they are read, or every pass might ask another one."""
    running = [
        make_running(i, {"a": 4}, started_at=at(-900 + i), last_checkpoint_at=at(-60))
        for i in order
    ]
    assert asked(run({"a": 12}, [urgent()], running)) == [8]


def test_who_does_not_help_is_spared():
    # b's trial is the least important, but its node is too small.
    nodes = {"a": 4, "b": 2}
    running = [make_running(8, {"a": 3}, priority=20), make_running(9, {"b": 2}, priority=10)]
    assert asked(run(nodes, [urgent(nodes=1)], running)) == [8]


def test_not_more_than_needed_are_asked():
    # 8 loses least and would be asked first, but 9's four slots do without 8's one.
    running = [make_running(8, {"a": 1}, started_at=at(-10)), make_running(9, {"a": 4})]
    assert asked(run({"a": 5}, [urgent()], running)) == [9]


def test_free_slots_are_used_before_anybody_is_asked_for_more():
    running = [make_running(8, {"a": 2}), make_running(9, {"a": 2})]
    assert len(asked(run({"a": 6}, [urgent()], running))) == 1


def test_a_gang_over_several_nodes_is_asked_as_a_whole():
    running = [make_running(9, {"a": 4, "b": 4})]
    decisions = run({"a": 4, "b": 4}, [urgent(slots=8)], running)
    assert asked(decisions) == [9]


def test_slots_on_a_draining_node_are_no_help():
    nodes = [make_node("a", 4, scheduling="draining"), make_node("b", 4)]
    running = [make_running(8, {"a": 4}, priority=10), make_running(9, {"b": 4}, priority=40)]
    assert asked(run(nodes, [urgent()], running)) == [9]


def test_nobody_is_asked_twice_while_slots_are_being_given_up():
    running = [make_running(9, {"a": 4}, yielding=True), make_running(10, {"b": 4})]
    decisions = run({"a": 4, "b": 4}, [urgent()], running)
    assert asked(decisions) == []
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default: waiting for slots of trial 9 of experiment 9"
    )
    # What is given up counts once: for two, one more is asked.
    assert asked(run({"a": 4, "b": 4}, [urgent(1), urgent(2)], running)) == [10]


def test_slots_being_given_up_go_to_whom_they_were_asked_for():
    running = [make_running(9, {"a": 4}, yielding=True)]
    decisions = run({"a": 8}, [urgent(slots=8), make_queued(2, 4)], running)
    assert placed(decisions) == [], "the free half is kept"


def test_the_outcome_is_stable_until_the_slots_are_free():
    running = [make_running(i, {n: 4}) for i, n in ((8, "a"), (9, "b"), (10, "c"))]
    queue = [urgent(1, 8, nodes=2), make_queued(2, 4)]
    nodes = dict.fromkeys("abc", 4)
    first = asked(run(nodes, queue, running))
    assert len(first) == 2
    running = [dataclasses.replace(t, yielding=t.trial_id in first) for t in running]
    assert asked(run(nodes, queue, running)) == []
    running = [t for t in running if t.trial_id != first[0]]
    decisions = run(nodes, queue, running)
    assert asked(decisions) == []
    assert placed(decisions) == [], "what came free first is kept"
    running = [t for t in running if t.trial_id != first[1]]
    assert placed(run(nodes, queue, running)) == [1]


def test_whoever_was_asked_does_not_get_it_back():
    # The victim waits again; it is less important than who took its place.
    queue = [make_queued(9, 4, priority=50)]
    decisions = run({"a": 4}, queue, [make_running(1, {"a": 4}, priority=90)])
    assert asked(decisions) == []


def test_so_many_at_most_are_asked_in_one_pass():
    running = [make_running(i, {"a": 1}) for i in range(10, 20)]
    policy = SchedulerPolicy(max_preemptions=3)
    decisions = run({"a": 10}, [urgent(1, 2), urgent(2, 2)], running, policy=policy)
    assert len(asked(decisions)) == 2


def test_a_required_topology_is_kept_to():
    nodes = [make_node(n, 4, labels={"rack": n[0]}) for n in ("a1", "a2", "b1", "b2")]
    running = [
        make_running(8, {"a1": 4}, priority=10),
        make_running(9, {"a2": 4}, preemptible=False),
        make_running(10, {"b1": 4}, priority=40),
        make_running(11, {"b2": 4}, priority=40),
    ]
    gang = urgent(1, 8, topology_key="rack", topology_mode="require")
    assert sorted(asked(run(nodes, [gang], running))) == [10, 11]


def test_an_uneven_gang_may_ask_too():
    running = [make_running(8, {"a": 2}), make_running(9, {"b": 4}, preemptible=False)]
    gang = urgent(1, 5, uneven=True)
    assert asked(run({"a": 4, "b": 5}, [gang], running)) == [8]


def test_an_elastic_gang_asks_only_for_its_least_size():
    running = [make_running(i, {"a": 2}) for i in (8, 9)]
    assert len(asked(run({"a": 4}, [urgent(1, 4, min_slots=2)], running))) == 1


# ---- shrinking


def test_an_elastic_trial_shrinks_rather_than_stops():
    running = [make_running(9, {"a": 8}, min_slots=2)]
    decisions = run({"a": 8}, [urgent(1, 4, experiment_id=3)], running)
    assert (asked(decisions), resized(decisions)) == ([], {9: 4})
    (resize,) = [d for d in decisions if isinstance(d, Resize)]
    assert resize.reason.english == (
        "shrinks from 8 slots to 4: trial 1 of experiment 3 has priority 90 (this one 50) and "
        "needs 4 cpu slots in pool default"
    )


def test_it_stops_when_its_least_size_does_not_fit_beside():
    running = [make_running(9, {"a": 8}, min_slots=6)]
    decisions = run({"a": 8}, [urgent()], running)
    assert (asked(decisions), resized(decisions)) == ([9], {})


def test_shrinking_one_comes_before_stopping_another():
    running = [make_running(8, {"a": 4}), make_running(9, {"a": 4}, min_slots=1)]
    decisions = run({"a": 8}, [urgent(1, 2)], running)
    assert (asked(decisions), resized(decisions)) == ([], {9: 2})


def test_a_protected_elastic_trial_does_not_shrink():
    running = [make_running(9, {"a": 8}, min_slots=2, preemptible=False)]
    assert not any(isinstance(d, Resize | Placement) for d in run({"a": 8}, [urgent()], running))
