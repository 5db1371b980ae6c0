"""Who is placed, who waits, and what they are told."""

import datetime as dt
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.resources import NodeView, Request, SlotView, request_from_config
from muster_server.domain.scheduler import (
    Place,
    QueuedTrial,
    SchedulerPolicy,
    SchedulerSnapshot,
    Wait,
    plan,
    queue_order,
    schedule,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
POLICY = SchedulerPolicy()


def node(name, num_slots, *, held=(), slot_type="cpu", **kwargs):
    """A node; `held` gives, per busy slot from index 0 on, the experiment that holds it."""
    slots = tuple(
        SlotView(
            idx=i,
            slot_type=slot_type,
            allocation_id=f"a{i}" if i < len(held) else None,
            experiment_id=held[i] if i < len(held) else None,
        )
        for i in range(num_slots)
    )
    kwargs.setdefault("pool", "default")
    return NodeView(id=f"id-{name}", name=name, slots=slots, **kwargs)


def trial(trial_id, slots=1, *, priority=50, queued_s=None, experiment_id=1, **kwargs):
    host = kwargs.pop("preferred_host", None)
    return QueuedTrial(
        trial_id=trial_id,
        trial_no=trial_id,
        experiment_id=experiment_id,
        priority=priority,
        queued_at=NOW + dt.timedelta(seconds=trial_id if queued_s is None else queued_s),
        request=Request(slots=slots, **kwargs),
        preferred_host=host,
    )


def run(nodes, queue, policy=POLICY):
    snapshot = SchedulerSnapshot(nodes=tuple(nodes), queue=tuple(queue))
    return schedule(snapshot, now=NOW, policy=policy)


def placed(decisions):
    return [d.trial_id for d in decisions if isinstance(d, Place)]


def reason_of(decisions, trial_id):
    return next(d.reason for d in decisions if d.trial_id == trial_id)


def test_higher_priority_first_then_who_queued_first():
    queue = [trial(1, priority=10), trial(2, priority=90), trial(3, queued_s=-5, priority=90)]
    assert placed(run([node("a", 2)], queue)) == [3, 2]


def test_a_gang_gets_all_slots_with_consecutive_ranks():
    decisions = run([node("b", 2), node("a", 2)], [trial(1, 4)])
    (place,) = decisions
    assert [(s.node_name, s.node_rank, s.rank_offset, s.slots) for s in place.shares] == [
        ("a", 0, 0, (0, 1)),
        ("b", 1, 2, (0, 1)),
    ]


def test_a_gang_waits_when_only_part_of_it_would_fit():
    decisions = run([node("a", 4, held=(12, 12))], [trial(1, 4)])
    assert placed(decisions) == []
    assert reason_of(decisions, 1) == (
        "needs 4 cpu slots in pool default: 2 free on 1 node; 2 held by experiment 12"
    )


def test_an_impossible_request_waits_with_that_reason_and_blocks_nobody():
    decisions = run([node("a", 4)], [trial(1, 10_000, priority=99), trial(2, 4)])
    assert placed(decisions) == [2]
    assert reason_of(decisions, 1) == "needs 10,000 cpu slots in pool default; it has 4"


def test_smaller_trials_do_not_take_what_is_kept_for_the_head():
    nodes = [node("a", 4, held=(7,))]
    decisions = run(nodes, [trial(1, 4), trial(2, 1)])
    assert placed(decisions) == []
    assert "3 kept for trial 1 of experiment 1" in reason_of(decisions, 2)


def test_smaller_trials_pass_where_they_cannot_delay_the_head():
    nodes = [node("a", 4, held=(7,)), node("b", 2, held=(7,))]
    decisions = run(nodes, [trial(1, 4), trial(2, 1)])
    assert placed(decisions) == [2]
    assert next(d for d in decisions if isinstance(d, Place)).shares[0].node_name == "b"


def test_the_head_starts_although_small_trials_keep_coming():
    # One slot frees per pass; every pass two more small trials arrive behind the head.
    held = [9, 9, 9, 9]
    head = trial(1, 4)
    for tick in range(1, 6):
        queue = [head, *(trial(100 * tick + i) for i in range(2))]
        decisions = run([node("a", 4, held=held)], queue)
        if placed(decisions):
            break
        held = held[:-1]
    assert placed(decisions) == [1]


def test_heads_are_per_pool_and_slot_type():
    nodes = [node("a", 2, held=(1,)), node("g", 2, pool="gpu", slot_type="cuda")]
    decisions = run(nodes, [trial(1, 2), trial(2, 1, pool="gpu", slot_type="cuda")])
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
    decisions = run([node("a", 2, **changes)], [trial(1)])
    assert placed(decisions) == []
    assert f"2 on a ({word})" in reason_of(decisions, 1)


def test_a_pool_without_nodes_is_named():
    decisions = run([node("a", 2)], [trial(1, pool="gpu")])
    assert reason_of(decisions, 1) == "needs 1 cpu slot in pool gpu: no node there has cpu slots"


def test_a_spread_that_cannot_be_is_named():
    decisions = run([node("a", 8)], [trial(1, 4, nodes=2)])
    assert reason_of(decisions, 1) == (
        "needs 4 cpu slots on exactly 2 nodes in pool default: "
        "its 1 node cannot be divided that way"
    )


def test_the_host_of_the_newest_checkpoint_is_preferred_and_leads():
    nodes = [node("a", 2, host="x"), node("b", 4, host="y")]
    (place,) = run(nodes, [trial(1, 1, preferred_host="y")])
    assert place.shares[0].node_name == "b"
    (place,) = run(nodes, [trial(1, 4, nodes=2, preferred_host="y")])
    assert place.shares[0].node_name == "b"


def test_a_node_that_failed_to_prepare_is_avoided():
    nodes = [node("a", 1, strikes=1), node("b", 4)]
    (place,) = run(nodes, [trial(1)])
    assert place.shares[0].node_name == "b"


def test_waiting_trials_have_positions_from_one():
    decisions = run([node("a", 1)], [trial(i) for i in range(1, 5)])
    assert [d.position for d in decisions if isinstance(d, Wait)] == [1, 2, 3]


def test_a_pass_places_at_most_so_many():
    decisions = run(
        [node("a", 4)], [trial(i) for i in range(1, 5)], SchedulerPolicy(max_placements=1)
    )
    assert placed(decisions) == [1]
    assert reason_of(decisions, 2) == "will be placed in the next pass"


def test_plan_tells_where_one_gang_would_go():
    shares, reason = plan(Request(slots=4), [node("a", 2), node("b", 2)])
    assert [s.node_name for s in shares] == ["a", "b"]
    assert reason == "4 slots: 2 on a, 2 on b"


def test_request_comes_from_the_document_with_its_defaults():
    assert request_from_config({}) == Request(slots=1)
    config = {"resources": {"slots": 4, "slot_type": "cuda", "pool": "p", "nodes": 2}}
    assert request_from_config(config) == Request(slots=4, slot_type="cuda", pool="p", nodes=2)


node_views = st.builds(
    lambda i, slots, held, state, scheduling: node(
        f"n{i}", slots, held=(5,) * min(held, slots), state=state, scheduling=scheduling
    ),
    st.integers(0, 1_000_000),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from(["ONLINE", "ONLINE", "ONLINE", "SUSPECT"]),
    st.sampled_from(["open", "open", "open", "cordoned"]),
)
trials = st.builds(
    lambda i, slots, priority, queued_s, nodes, uneven: trial(
        i, slots, priority=priority, queued_s=queued_s, nodes=nodes, uneven=uneven
    ),
    st.integers(1, 1_000_000),
    st.integers(1, 10),
    st.integers(0, 3),
    st.integers(0, 5),
    st.none() | st.integers(1, 3),
    st.booleans(),
)


@settings(max_examples=300)
@given(
    nodes=st.lists(node_views, max_size=6, unique_by=lambda n: n.id),
    queue=st.lists(trials, max_size=12, unique_by=lambda t: t.trial_id),
    data=st.data(),
)
def test_decisions_hold_in_any_cluster(nodes, queue, data):
    decisions = run(nodes, queue)

    assert Counter(d.trial_id for d in decisions) == Counter(t.trial_id for t in queue)
    assert all(d.reason for d in decisions)
    by_id = {n.id: n for n in nodes}
    wanted = {t.trial_id: t.request for t in queue}
    taken: Counter[tuple[str, int]] = Counter()
    for place in (d for d in decisions if isinstance(d, Place)):
        request = wanted[place.trial_id]
        assert sum(len(s.slots) for s in place.shares) == request.slots  # all or nothing
        assert request.nodes in (None, len(place.shares))
        for share in place.shares:
            view = by_id[share.node_id]
            assert view.unavailable is None
            free = {s.idx for s in view.slots if s.allocation_id is None}
            assert set(share.slots) <= free
            taken.update((share.node_id, idx) for idx in share.slots)
    assert all(num == 1 for num in taken.values())  # nothing placed twice

    shuffled = data.draw(st.permutations(queue))
    other_order = data.draw(st.permutations(nodes))
    assert run(other_order, shuffled) == decisions  # deterministic, whatever the order

    # Nobody ahead in the queue waits although it would fit what was left for it at its turn.
    first_waiting = next((d for d in decisions if isinstance(d, Wait)), None)
    if first_waiting is not None:
        ahead = [t for t in queue if t.trial_id == first_waiting.trial_id]
        earlier = [t for t in queue if queue_order(t) < queue_order(ahead[0])]
        again = run(nodes, [*earlier, *ahead])
        assert isinstance(again[-1], Wait)
