"""Reservations of nodes: what starts before, during and after them, who leaves and where to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.nodes.reservations import ReservableNode, choose, overlapping
from muster_server.domain.scheduling import (
    Placement,
    Preempt,
    Resize,
    Scheduler,
    SchedulerPolicy,
    Wait,
)
from muster_server.domain.scheduling.resources import Request
from support.scheduling import (
    NOW,
    ClusterSimulation,
    Job,
    at,
    make_node,
    make_queued,
    make_reservation,
    make_running,
    make_snapshot,
    placed,
    under_reservations,
    where,
)

HOUR = 3600.0
OURS = {"reservations": (1,)}
"""What a request has whose trial the reservation is for."""
LEAD_S = 30 + 10
"""Stop grace of a trial, and what it takes to be gone."""


def decide(reservations, nodes, queue=(), running=(), *, now=NOW, scheduler=None):
    snapshot = make_snapshot(under_reservations(reservations, nodes, now), queue, running)
    decided = (scheduler or Scheduler()).run(snapshot, now=now, policy=SchedulerPolicy())
    return [*decided.actions, *decided.waits()]


@pytest.mark.parametrize(
    ("now_s", "limit_s", "min_runtime_s", "others", "own"),
    [
        (-7200, 0, 0, True, True),  # long before: who has no limit may start
        (-7200, HOUR, 0, True, True),
        (-7200, 2 * HOUR, 0, False, True),  # would not have ended by then
        (-7200, 0, 2 * HOUR, False, True),  # neither would its guaranteed time
        (-3600 - 90, HOUR, 0, True, True),  # 30 s to save a checkpoint, and a margin of 60 s
        (-3600 - 89, HOUR, 0, False, True),
        (-90, 0, 0, True, True),
        (-89, 0, 0, False, True),
        (0, 0, 0, False, True),
        (3599, HOUR, 0, False, True),
        (3600, HOUR, 0, True, True),  # it has ended
    ],
)
def test_who_may_start_when(now_s, limit_s, min_runtime_s, others, own):
    for mine, starts in ((False, others), (True, own)):
        trial = make_queued(
            1, 2, limit_s=limit_s, min_runtime_s=min_runtime_s, **(OURS if mine else {})
        )
        (decision,) = decide([make_reservation()], {"a": 2}, [trial], now=at(now_s))
        assert isinstance(decision, Placement) is starts, mine


def test_a_reservation_begins_and_ends_for_a_scheduler_that_remembers():
    scheduler, trial = Scheduler(), make_queued(1, 2)
    nodes = under_reservations([make_reservation()], {"a": 2})

    def starts(now_s, views):
        decided = scheduler.run(make_snapshot(views, [trial]), now=at(now_s), policy=POLICY)
        return placed([*decided.actions]) == [1]

    POLICY = SchedulerPolicy()
    assert starts(-91, nodes)
    for now_s in (-89, 0, 3599):
        assert not starts(now_s, nodes)
    assert starts(3600, under_reservations([], {"a": 2}))


def test_the_beneficiary_uses_reserved_nodes_first_and_nobody_loses_them():
    nodes = {"a": 2, "b": 2}
    decisions = decide([make_reservation(nodes=("b",))], nodes, [make_queued(1, 2, **OURS)])
    assert where(decisions, 1) == {"b": 2}
    both = [make_queued(1, 2), make_queued(2, 2, **OURS)]
    decisions = decide([make_reservation(nodes=("b",))], nodes, both)
    assert (where(decisions, 1), where(decisions, 2)) == ({"a": 2}, {"b": 2})


def test_one_of_several_reservations_admits_only_its_own():
    first, second = make_reservation(-HOUR, 0, id=1), make_reservation(0, HOUR, id=2)
    theirs = make_queued(2, 2, reservations=(2,))
    for now_s, expected in ((-1800, [1]), (0, [2])):
        queue = [make_queued(1, 2, **OURS), theirs]
        decisions = decide([first, second], {"a": 2}, queue, now=at(now_s))
        assert placed(decisions) == expected


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "Needs 2 cpu slots in pool default: 2 on 1 node reserved (reservation 1 for vision, "
            "2026-01-01 00:00–01:00 UTC: deadline). Starts automatically when the reservation ends or is "
            "cancelled; another pool starts it sooner.",
        ),
        (
            {"limit_s": 4 * HOUR},
            "Needs 2 cpu slots in pool default: its time limit of 4 h would reach into reservation 1 (for "
            "vision, 2026-01-01 00:00–01:00 UTC: deadline). Starts automatically after the reservation; lower "
            "`resources.max_duration` to start before it.",
        ),
    ],
)
def test_the_reason_names_the_reservation_and_what_helps(changes, text):
    now = at(-HOUR) if changes else NOW
    one = make_reservation(reason="deadline")
    (decision,) = decide([one], {"a": 2}, [make_queued(1, 2, **changes)], now=now)
    assert decision.reason.english == text


def test_who_waits_for_busy_nodes_hears_of_the_reservation_too():
    nodes = [make_node("a", 2), make_node("b", 2, held=2)]
    (decision,) = decide([make_reservation()], nodes, [make_queued(1, 2)])
    assert "reservation 1 for vision" in decision.reason.english
    assert "Starts when enough slots are free" in decision.reason.english


# ---- who leaves


@pytest.mark.parametrize(
    ("now_s", "changes", "is_asked"),
    [
        (-LEAD_S, {}, False),
        (1 - LEAD_S, {}, True),
        (0, {}, True),
        (-309, {"grace_s": 300}, True),
        (0, {"preemptible": False}, True),
        (0, OURS, False),
        (0, {"yielding": True}, False),
        (0, {"is_ending": True}, False),
        (3600, {}, False),
    ],
)
def test_others_are_asked_in_time_for_the_start(now_s, changes, is_asked):
    running = make_running(1, {"a": 2}, **changes)
    decisions = decide([make_reservation()], {"a": 2, "b": 2}, (), [running], now=at(now_s))
    assert [type(d) for d in decisions] == ([Preempt] if is_asked else [])
    if is_asked:
        assert (decisions[0].for_trial_id, decisions[0].for_reservation) == (None, 1)
        assert decisions[0].reason.english == (
            "reservation 1 takes a (vision, 2026-01-01 00:00–01:00 UTC)"
        )


@pytest.mark.parametrize(
    ("nodes", "held", "size"),
    [
        ({"a": 2, "b": 2}, {"a": 2, "b": 2}, 2),  # shrinks to what is left
        ({"a": 2, "b": 2, "c": 2}, {"a": 2, "b": 2}, 4),  # moves, and loses nothing
        ({"a": 2, "b": 1}, {"a": 2, "b": 1}, 1),
        ({"a": 4}, {"a": 4}, None),  # nowhere to go
    ],
)
def test_an_elastic_trial_moves_away_as_large_as_it_can(nodes, held, size):
    running = make_running(1, held, min_slots=1, uneven=True)
    (decision,) = decide([make_reservation()], nodes, (), [running])
    if size is None:
        assert isinstance(decision, Preempt)
    else:
        assert isinstance(decision, Resize)
        assert decision.slots == size
        assert "continues elsewhere with" in decision.reason.english


@pytest.mark.parametrize(("starts_s", "grows"), [(300 + 90, True), (300 + 89, False), (-10, False)])
def test_nothing_grows_into_a_node_that_it_would_have_to_leave_at_once(starts_s, grows):
    nodes = [make_node(name, 2, free_since=at(-HOUR)) for name in ("a", "b")]
    running = make_running(1, {"b": 2}, slots=4, min_slots=1)
    decisions = decide([make_reservation(starts_s, 2 * HOUR)], nodes, (), [running])
    assert [d.slots for d in decisions if isinstance(d, Resize)] == ([4] if grows else [])


def test_several_do_not_count_on_the_same_slots():
    running = [make_running(i, {"a": 2}, slots=2, min_slots=1, priority=i) for i in (1, 2)]
    nodes = {"a": 4, "b": 2}
    first, second = decide([make_reservation()], nodes, (), running)
    assert (first.trial_id, first.slots) == (2, 2)
    assert isinstance(second, Preempt)


def test_slots_that_are_given_up_are_promised_to_the_beneficiary():
    running = make_running(1, {"a": 2})
    ours, theirs = make_queued(2, 2, **OURS), make_queued(3, 2)
    decisions = decide([make_reservation()], {"a": 2}, [ours, theirs], [running])
    waits = {d.trial_id: d for d in decisions if isinstance(d, Wait)}
    assert waits[2].is_promised
    assert "waiting for slots of trial 1" in waits[2].reason.english
    assert not waits[3].is_promised


def test_the_beneficiary_leaves_other_nodes_to_whoever_makes_room():
    """An elastic trial that shrinks frees one node before the other."""
    leaving = make_running(1, {"b": 2}, yielding=True)
    nodes, one = {"a": 2, "b": 2}, make_reservation(nodes=("b",))
    decisions = decide([one], nodes, [make_queued(2, 2, **OURS)], [leaving])
    assert placed(decisions) == []
    assert "waiting for slots" in decisions[0].reason.english or decisions[0].is_promised
    back = make_queued(1, 4, min_slots=1, resize_slots=2)
    decisions = decide([one], nodes, [make_queued(2, 2, **OURS), back])
    assert (where(decisions, 1), where(decisions, 2)) == ({"a": 2}, {"b": 2})
    too_large = make_queued(2, 4, nodes=2, **OURS)
    three = {"a": 2, "b": 2, "c": 2}
    assert where(decide([one], three, [too_large], [leaving]), 2) == {"a": 2, "c": 2}


def test_a_reserved_node_is_no_spare():
    nodes = [make_node(name, 2, pool_spares=1) for name in ("a", "b")]
    decisions = decide([make_reservation()], nodes, [make_queued(1, 2, **OURS), make_queued(2, 2)])
    assert where(decisions, 1) == {"a": 2}
    assert placed(decisions) == [1]  # b is the spare


# ---- properties


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(1, 40),
    st.lists(
        st.tuples(
            st.integers(0, 60), st.integers(1, 30), st.integers(1, 4), st.booleans(), st.booleans()
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_others_never_hold_reserved_slots_and_everything_ends(start_min, length_min, jobs):
    """Whatever comes, nobody else is on the node during the window but for the seconds that a trial takes
    to leave, and everybody gets their turn."""
    start, end = 60.0 * start_min + 60, 60.0 * (start_min + length_min) + 60
    one = make_reservation(start, end)
    simulation = ClusterSimulation(
        [make_node(name, 4) for name in ("a", "b")],
        [
            Job(
                trial_id=number,
                request=Request(
                    slots=slots, min_slots=1 if is_elastic else None, **(OURS if is_ours else {})
                ),
                arrives_s=60.0 * arrives,
                work_s=60.0 * work,
            )
            for number, (arrives, work, slots, is_elastic, is_ours) in enumerate(jobs, start=1)
        ],
        look_every_s=5.0,
    )
    now = 0.0
    while not simulation.is_done and now < 24 * HOUR:
        now += 5.0
        simulation.run(now)
        simulation.reserve([one] if now < end else [])
        if start + 10 <= now < end:
            others = [t for t in simulation.running() if not t.request.reservations]
            assert not any("id-a" in t.shares for t in others)
    assert simulation.is_done


# ---- choosing nodes


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        ({"num_nodes": 1}, ("c",)),
        ({"num_nodes": 2}, ("b", "c")),
        ({"num_slots": 4}, ("c",)),
        ({"num_slots": 5}, ("b", "c")),
        ({"num_nodes": 4}, ("a", "b", "c", "d")),
        ({"num_nodes": 5}, None),
        ({"num_slots": 15}, None),
    ],
)
def test_the_nodes_are_chosen_from_which_least_is_taken(wish, chosen):
    nodes = [
        ReservableNode(name="a", slots=4, takes_work=True, num_held=4),
        ReservableNode(name="b", slots=2, takes_work=True),
        ReservableNode(name="c", slots=4, takes_work=True),
        ReservableNode(name="d", slots=4, takes_work=False),
    ]
    assert choose(nodes, **{"num_nodes": None, "num_slots": None} | wish) == chosen


@pytest.mark.parametrize(
    ("start", "end", "number"),
    [(-10, 0, None), (-10, 1, 1), (10, 20, 1), (3599, 4000, 1), (3600, 4000, None), (0, 9000, 1)],
)
def test_reservations_may_touch_and_not_overlap(start, end, number):
    others = [make_reservation(7200, 8000, id=2), make_reservation()]
    found = overlapping("a", at(start), at(end), others)
    assert (None if found is None else found.id) == number
    assert overlapping("b", at(start), at(end), others) is None
