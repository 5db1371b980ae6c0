"""Who is placed where, who waits, and what they are told."""

import pytest

from muster.document.running import ResourcesSection, Topology
from muster_server.domain.scheduling import Placement, SchedulerPolicy, Wait, plan
from muster_server.domain.scheduling.resources import Request, request_of
from support.scheduling import (
    make_node,
    make_queued,
    make_running,
    message_of,
    placed,
    reason_of,
    run,
    where,
)


def test_higher_priority_first_then_who_queued_first():
    queue = [
        make_queued(1, priority=10),
        make_queued(2, priority=90),
        make_queued(3, queue_no=0.0, priority=90),
    ]
    assert placed(run([make_node("a", 2)], queue)) == [3, 2]


def test_a_gang_gets_all_slots_with_consecutive_ranks():
    decisions = run([make_node("b", 2), make_node("a", 2)], [make_queued(1, 4)])
    (place,) = decisions
    assert [(s.node_name, s.node_rank, s.rank_offset, s.slots) for s in place.shares] == [
        ("a", 0, 0, (0, 1)),
        ("b", 1, 2, (0, 1)),
    ]


def test_a_gang_waits_when_only_part_of_it_would_fit():
    decisions = run({"a": 4}, [make_queued(1, 4)], [make_running(12, {"a": 2})])
    assert placed(decisions) == []
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default: 2 reserved for it, 2 held by experiment 12"
    )


def test_an_impossible_request_waits_with_that_reason_and_blocks_nobody():
    decisions = run([make_node("a", 4)], [make_queued(1, 10_000, priority=99), make_queued(2, 4)])
    assert placed(decisions) == [2]
    assert reason_of(decisions, 1) == "Needs 10,000 cpu slots in pool default: only 4 in total"


def test_smaller_trials_do_not_take_what_is_kept_for_the_head():
    decisions = run([make_node("a", 4, held=1)], [make_queued(1, 4), make_queued(2, 1)])
    assert placed(decisions) == []
    assert "3 reserved for trial 1 of experiment 1" in reason_of(decisions, 2)


def test_smaller_trials_pass_where_they_cannot_delay_the_head():
    nodes = [make_node("a", 4, held=1), make_node("b", 2, held=1)]
    decisions = run(nodes, [make_queued(1, 4), make_queued(2, 1)])
    assert placed(decisions) == [2]
    assert next(d for d in decisions if isinstance(d, Placement)).shares[0].node_name == "b"


def test_the_head_starts_although_small_trials_keep_coming():
    # One slot frees per pass; every pass two more small trials arrive behind the head.
    held = 4
    head = make_queued(1, 4)
    for tick in range(1, 6):
        queue = [head, *(make_queued(100 * tick + i) for i in range(2))]
        decisions = run([make_node("a", 4, held=held)], queue)
        if placed(decisions):
            break
        held -= 1
    assert placed(decisions) == [1]


def test_heads_are_per_pool_and_slot_type():
    nodes = [make_node("a", 2, held=1), make_node("g", 2, pool="gpu", slot_type="cuda")]
    decisions = run(nodes, [make_queued(1, 2), make_queued(2, 1, pool="gpu", slot_type="cuda")])
    assert placed(decisions) == [2]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"state": "SUSPECT"}, "suspect"),
        ({"state": "LOST"}, "lost"),
        ({"state": "RECONCILING"}, "reconciling"),
        ({"scheduling": "cordoned"}, "cordoned"),
        ({"scheduling": "draining"}, "draining"),
        ({"health": "quarantined"}, "quarantined"),
    ],
)
def test_nothing_is_placed_on_a_node_that_is_not_open(changes, word):
    decisions = run([make_node("a", 2, **changes)], [make_queued(1)])
    assert placed(decisions) == []
    assert reason_of(decisions, 1) == (
        f"Needs 1 cpu slot in pool default: none free, 2 on {word} node a"
    )


def test_a_pool_without_nodes_is_named():
    decisions = run([make_node("a", 2)], [make_queued(1, pool="gpu")])
    assert reason_of(decisions, 1) == "Needs 1 cpu slot in pool gpu: no node there has cpu slots"


def test_a_spread_that_cannot_be_is_named():
    decisions = run([make_node("a", 8)], [make_queued(1, 4, nodes=2)])
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default, on exactly 2 nodes: "
        "the slots of 1 node cannot be divided that way"
    )


def test_the_host_of_the_newest_checkpoint_is_preferred_and_leads():
    nodes = [make_node("a", 2, host="x"), make_node("b", 4, host="y")]
    (place,) = run(nodes, [make_queued(1, 1, preferred_host="y")])
    assert place.shares[0].node_name == "b"
    (place,) = run(nodes, [make_queued(1, 4, nodes=2, preferred_host="y")])
    assert place.shares[0].node_name == "b"


def test_a_node_that_failed_to_prepare_is_avoided():
    nodes = [make_node("a", 1, strikes=1), make_node("b", 4)]
    (place,) = run(nodes, [make_queued(1)])
    assert place.shares[0].node_name == "b"


def test_waiting_trials_have_positions_from_one():
    decisions = run([make_node("a", 1)], [make_queued(i) for i in range(1, 5)])
    assert [d.position for d in decisions if isinstance(d, Wait)] == [1, 2, 3]


def test_a_pass_places_at_most_so_many():
    decisions = run(
        [make_node("a", 4)],
        [make_queued(i) for i in range(1, 5)],
        policy=SchedulerPolicy(max_placements=1),
    )
    assert placed(decisions) == [1]
    assert reason_of(decisions, 2) == (
        "Will be considered in the next scheduling pass: this one has already started 1 trial"
    )


def test_plan_tells_where_one_gang_would_go():
    shares, reason = plan(Request(slots=4), [make_node("a", 2), make_node("b", 2)])
    assert [s.node_name for s in shares] == ["a", "b"]
    assert reason.english == "4 slots: 2 on a, 2 on b"


def test_request_comes_from_the_document_with_its_defaults():
    assert request_of(ResourcesSection()) == Request(slots=1)
    resources = ResourcesSection(slots=4, slot_type="cuda", pool="p", nodes=2)
    assert request_of(resources) == Request(slots=4, slot_type="cuda", pool="p", nodes=2)


# ---- topology, labels, names


def racks(**slots):
    """Nodes named a1, b2, … in the rack of their letter."""
    return [make_node(name, num, labels={"rack": name[0]}) for name, num in slots.items()]


def test_a_required_topology_keeps_the_gang_in_one_place():
    nodes = racks(a1=4, b1=4, b2=4)
    queue = [make_queued(1, 8, topology_key="rack", topology_mode="require")]
    assert where(run(nodes, queue), 1) == {"b1": 4, "b2": 4}


def test_a_required_topology_waits_rather_than_spreads():
    nodes = racks(a1=4, b1=4)
    decisions = run(nodes, [make_queued(1, 8, topology_key="rack", topology_mode="require")])
    assert placed(decisions) == []
    assert reason_of(decisions, 1) == (
        "Needs 8 cpu slots in pool default, within one rack: "
        "no rack has room for it, even when nothing else runs"
    )


def test_a_preferred_topology_spreads_when_one_place_is_not_enough():
    queue = [make_queued(1, 8, topology_key="rack")]
    assert where(run(racks(a1=8, b1=4, b2=4), queue), 1) == {"a1": 8}
    assert where(run(racks(a1=4, a2=4, b1=4), queue), 1) == {"a1": 4, "a2": 4}
    assert where(run(racks(a1=4, b1=4), queue), 1) == {"a1": 4, "b1": 4}


def test_the_tightest_of_several_places_is_taken():
    nodes = racks(a1=4, a2=4, a3=4, b1=4, b2=4)
    assert where(run(nodes, [make_queued(1, 8, topology_key="rack")]), 1) == {"b1": 4, "b2": 4}


def test_a_single_node_is_in_one_place_without_a_label():
    nodes = [make_node("a", 4), make_node("b", 4)]
    queue = [make_queued(1, 4, topology_key="rack", topology_mode="require")]
    assert where(run(nodes, queue), 1) == {"a": 4}


def test_node_labels_are_required():
    nodes = [make_node("a", 4), make_node("b", 4, labels={"net": "ib", "zone": "1"})]
    assert where(run(nodes, [make_queued(1, 2, labels={"net": "ib"})]), 1) == {"b": 2}
    decisions = run(nodes, [make_queued(1, 2, labels={"net": "eth"})])
    assert reason_of(decisions, 1) == (
        "Needs 2 cpu slots in pool default, on nodes with net=eth: no node there meets its "
        "constraints (2 nodes in total)"
    )


def test_nodes_are_allowed_and_denied_by_name():
    nodes = {"a": 4, "b": 4, "c": 4}
    assert where(run(nodes, [make_queued(1, 4, allow_nodes=("c", "b"))]), 1) == {"b": 4}
    assert where(run(nodes, [make_queued(1, 4, deny_nodes=("a", "b"))]), 1) == {"c": 4}
    queue = [make_queued(1, 4, allow_nodes=("a",), deny_nodes=("a",))]
    assert reason_of(run(nodes, queue), 1) == (
        "Needs 4 cpu slots in pool default, only on a, not on a: no node there meets its "
        "constraints (3 nodes in total)"
    )


def test_who_may_use_other_nodes_is_not_kept_waiting():
    # The head may only use a, which is full; b is nobody's.
    queue = [make_queued(1, 4, allow_nodes=("a",)), make_queued(2, 4)]
    decisions = run({"a": 4, "b": 4}, queue, [make_running(9, {"a": 1})])
    assert where(decisions, 2) == {"b": 4}


def test_the_reason_counts_only_the_nodes_that_may_be_used():
    nodes = [make_node("a", 4, labels={"gen": "1"}), make_node("b", 4)]
    running = [make_running(7, {"a": 3}), make_running(8, {"b": 4})]
    decisions = run(nodes, [make_queued(1, 4, labels={"gen": "1"})], running)
    assert reason_of(decisions, 1) == (
        "Needs 4 cpu slots in pool default, on nodes with gen=1: 1 reserved for it, 3 held by experiment 7"
    )


def test_draining_nodes_and_other_holders_are_named():
    nodes = [
        make_node("n1", 8, slot_type="cuda", pool="a100"),
        make_node("n3", 2, slot_type="cuda", pool="a100", scheduling="draining"),
    ]
    running = [make_running(5, {"n1": 2}, slot_type="cuda", pool="a100")]
    queue = [
        make_queued(1, 8, slot_type="cuda", pool="a100"),
        make_queued(2, 7, slot_type="cuda", pool="a100"),
    ]
    decisions = run(nodes, queue, running)
    assert reason_of(decisions, 2) == (
        "Needs 7 cuda slots in pool a100: none free, 2 held by experiment 5, "
        "6 reserved for trial 1 of experiment 1 (ahead in the queue), 2 on draining node n3"
    )
    assert [(part["code"], part["params"]) for part in message_of(decisions, 2).parts] == [
        ("wish.slots", {"slots": 7, "slot_type": "cuda", "pool": "a100"}),
        ("pending.none_free", {}),
        ("pending.held", {"slots": 2, "experiment": 5}),
        ("pending.kept_for", {"slots": 6, "trial_no": 1, "experiment": 1}),
        ("pending.on_shut_node", {"slots": 2, "state": "draining", "node": "n3"}),
        ("help.wait", {}),
    ]


def test_only_the_largest_holders_are_named():
    running = [make_running(i, {"a": 1}) for i in range(10, 15)]
    decisions = run([make_node("a", 7, held=1)], [make_queued(1, 2)], running)
    assert reason_of(decisions, 1) == (
        "Needs 2 cpu slots in pool default: 1 reserved for it, 1 held by experiment 10, "
        "1 held by experiment 11, 1 held by experiment 12, 3 held by others"
    )


def test_free_slots_in_the_wrong_places_are_called_that():
    decisions = run({"a": 4, "b": 4}, [make_queued(1, 8, nodes=1), make_queued(2, 4)], [])
    assert "cannot be divided that way" in reason_of(decisions, 1)
    running = [make_running(8, {"a": 1}), make_running(9, {"b": 1})]
    queue = [make_queued(i, 4, nodes=1) for i in (1, 2, 3)]
    assert reason_of(run({"a": 4, "b": 4, "c": 3, "d": 2}, queue, running), 3) == (
        "Needs 4 cpu slots in pool default, on exactly 1 node: 5 free on 2 nodes, 1 held by "
        "experiment 8, 1 held by experiment 9, 3 reserved for trial 1 of experiment 1 (ahead in the "
        "queue), 3 reserved for trial 2 of experiment 1 (ahead in the queue), but the free slots "
        "cannot be used together"
    )


def test_what_a_request_says_of_itself():
    elastic = Request(slots=8, min_slots=2, max_nodes=2, uneven=True)
    assert [part.english for part in elastic.describe()] == [
        "2 to 8 cpu slots in pool default",
        "on at most 2 nodes",
    ]
    choosy = Request(slots=1, deny_nodes=("a", "b", "c", "d", "e"))
    assert [part.english for part in choosy.describe()] == [
        "1 cpu slot in pool default",
        "not on a, b, c (+2)",
    ]


def test_the_request_of_a_full_document():
    resources = ResourcesSection(
        slots=8,
        min_slots=2,
        uneven=True,
        labels={"net": "ib"},
        allow_nodes=("n2", "n1"),
        topology=Topology(key="rack", mode="require"),
    )
    assert request_of(resources) == Request(
        slots=8,
        min_slots=2,
        uneven=True,
        labels={"net": "ib"},
        allow_nodes=("n1", "n2"),
        topology_key="rack",
        topology_mode="require",
    )


@pytest.mark.parametrize(
    ("nodes", "slots", "files_on", "expected"),
    [
        # It starts where its files are, also where another node would fit better.
        ({"a": 4, "b": 1}, 1, ("a",), {"a": 1}),
        # Another node does not have them.
        ({"a": 0, "b": 1}, 1, ("a",), None),
        # Both do, or none: a member on a third node would start from nothing.
        ({"a": 2, "b": 2, "c": 2}, 4, ("c", "a"), {"c": 2, "a": 2}),
        ({"a": 0, "b": 2, "c": 2}, 4, ("c", "a"), None),
        # The node has left the pool.
        ({"b": 1}, 1, ("gone",), None),
    ],
)
def test_a_trial_starts_where_its_last_files_are_until_they_are_collected(
    nodes, slots, files_on, expected
):
    made = [make_node(name, num or 1, held=0 if num else 1) for name, num in nodes.items()]
    decisions = run(made, [make_queued(1, slots, files_on=files_on)])
    found = [d for d in decisions if isinstance(d, Placement)]
    if expected is not None:
        shares = {s.node_name: len(s.slots) for s in found[0].shares}
        assert list(shares.items()) == list(expected.items()), "ranks stay where their files are"
        return
    assert not found
    reason = reason_of(decisions, 1)
    assert f"the last files that it wrote on {' and '.join(files_on)} are being" in reason


def test_slots_are_reserved_for_a_trial_that_waits_for_its_last_files():
    waiting = make_queued(1, 2, files_on=("a",))
    nodes = [make_node("a", 2, held=2), make_node("b", 2)]
    assert placed(run(nodes, [waiting, make_queued(2, 1)])) == []
    collected = make_queued(1, 2)
    assert placed(run(nodes, [collected, make_queued(2, 1)])) == [1]


def test_a_slot_with_a_problem_is_given_to_nobody_and_the_others_are():
    node = make_node("a", 4, problems={0: "GPU 0 is lost", 2: "GPU 2 is used"})
    decisions = run([node], [make_queued(1, 2), make_queued(2, 1)])
    (first,) = [d for d in decisions if isinstance(d, Placement)]
    assert (first.trial_id, [list(share.slots) for share in first.shares]) == (1, [[1, 3]])
    (wait,) = [d for d in decisions if isinstance(d, Wait)]
    assert "2 held by experiment 1, GPU 0 of a is lost, GPU 2 of a is used" in wait.reason.english


def test_nothing_is_kept_for_who_needs_a_slot_that_is_used():
    """The wait may be long: what fits beside it starts."""
    node = make_node("a", 2, problems={0: "GPU 0 is used"})
    assert placed(run([node], [make_queued(1, 2), make_queued(2, 1)])) == [2]
