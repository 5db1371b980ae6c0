"""Spares: free nodes that only trials which lost a node may use."""

import pytest

from muster_server.domain.scheduling import Placement, Preempt, Resize, SchedulerPolicy, Wait
from muster_server.domain.scheduling.resources import Request
from muster_server.domain.scheduling.spares import lost_member
from muster_server.domain.scheduling.unsatisfiable import is_impossible
from muster_server.domain.states import Termination
from support.scheduling import (
    ClusterSimulation,
    Job,
    at,
    make_node,
    make_queued,
    make_running,
    make_window,
    message_of,
    placed,
    reason_of,
    run,
    under_windows,
    where,
)

HELD = "1 node is held as a spare for trainings that lose a node"


def cluster(*slots, spares=1, **changes):
    return [make_node(f"n{i}", num, pool_spares=spares, **changes) for i, num in enumerate(slots)]


def lost(trial_id, slots, **changes):
    return make_queued(trial_id, slots, lost_slots=slots, **changes)


def test_an_ordinary_trial_waits_beside_a_spare_and_says_so():
    decisions = run(cluster(2), [make_queued(1)], [])
    assert placed(decisions) == []
    decisions = run(cluster(2, 2), [make_queued(1, 2), make_queued(2, 2)])
    assert placed(decisions) == [1]
    assert where(decisions, 1) == {"n1": 2}  # n0 is the spare
    assert HELD in reason_of(decisions, 2)
    assert not is_impossible(message_of(decisions, 2).parts)


def test_a_trial_that_lost_a_node_starts_on_the_spare_while_others_wait():
    busy = [make_running(9, {"n1": 2})]
    queue = [make_queued(1, 2, priority=90), lost(2, 2, priority=1)]
    decisions = run(cluster(2, 2), queue, busy)
    assert placed(decisions) == [2]
    assert where(decisions, 2) == {"n0": 2}


def test_what_it_does_not_need_stays_held():
    decisions = run(cluster(2, 2), [lost(1, 2)])
    assert where(decisions, 1) == {"n1": 2}
    decisions = run(cluster(2, 2, 2, spares=2), [lost(1, 4, nodes=2), make_queued(2)])
    assert where(decisions, 1) == {"n0": 2, "n2": 2}
    assert placed(decisions) == [1]


def test_an_elastic_trial_gets_back_no_more_than_it_had():
    nodes = cluster(2, 2, 2, spares=3)
    trial = make_queued(1, 6, min_slots=2, lost_slots=4)
    assert sum(where(run(nodes, [trial]), 1).values()) == 4


def test_a_long_queue_does_not_keep_it_from_the_spare():
    queue = [make_queued(i, 2, expected_s=float(i), priority=90) for i in range(1, 60)]
    busy = [make_running(99, {"n1": 2}, priority=99)]
    decisions = run(cluster(2, 2), [*queue, lost(70, 2)], busy)
    assert placed(decisions) == [70]


def test_nothing_is_backfilled_on_it_and_nothing_grows_into_it():
    busy = [
        make_running(8, {"n1": 2}, expected_end_at=at(900)),
        make_running(9, {"n2": 1}, slots=4, min_slots=1, uneven=True, started_at=at(-9999)),
    ]
    nodes = cluster(2, 2, 2, free_since=at(-9999))
    decisions = run(nodes, [make_queued(1, 4, nodes=2), make_queued(2, 2, expected_s=1.0)], busy)
    assert placed(decisions) == []
    grown = [d for d in run(nodes, [], busy) if isinstance(d, Resize)]
    assert [d.slots for d in grown] == [2]  # into what is free beside it, as without spares


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "SUSPECT"},
        {"scheduling": "draining"},
        {"health": "quarantined"},
        {"is_blocked": True},
        {"problems": {0: "GPU 0 fell off the bus"}},
    ],
)
def test_a_node_that_takes_no_work_is_no_spare(changes):
    nodes = [make_node("n0", 2, pool_spares=1, **changes), *cluster(2, 2)[1:]]
    assert placed(run(nodes, [make_queued(1, 2), make_queued(2, 2)])) == []
    nodes.append(make_node("n2", 2, pool_spares=1))
    assert placed(run(nodes, [make_queued(1, 2), make_queued(2, 2)])) == [1]


def test_a_node_in_maintenance_is_no_spare():
    nodes = under_windows([make_window(-5, nodes=("n0",))], cluster(2, 2, 2))
    assert where(run(nodes, [make_queued(1, 2), make_queued(2, 2)]), 1) == {"n2": 2}


@pytest.mark.parametrize(
    ("spare", "nodes"),
    [
        ("n1", [("n0", 4, {"strikes": 1}), ("n1", 4, {})]),
        ("n1", [("n0", 4, {"free_since": at(-1)}), ("n1", 4, {"free_since": at(-9)})]),
        ("n2", [("n0", 8, {}), ("n1", 2, {}), ("n2", 4, {}), ("n3", 4, {})]),
        ("n1", [("n0", 2, {}), ("n1", 4, {}), ("n2", 8, {"scheduling": "draining"})]),
        ("n0", [("n0", 4, {}), ("n1", 4, {})]),
    ],
    ids=["no failures", "free for longest", "usual size", "largest of equals", "name"],
)
def test_which_node_is_the_spare(spare, nodes):
    views = [make_node(name, num, pool_spares=1, **how) for name, num, how in nodes]
    queue = [make_queued(i, num, nodes=1) for i, (_, num, _) in enumerate(nodes, start=1)]
    decisions = run(views, queue)
    used = {share.node_name for d in decisions if isinstance(d, Placement) for share in d.shares}
    open_nodes = {view.name for view in views if view.unavailable is None}
    assert open_nodes - used >= {spare}
    assert used == open_nodes - {spare}


def test_a_gang_that_never_fits_beside_the_spares_hears_so():
    decisions = run(cluster(2, 2), [make_queued(1, 4), make_queued(2, 2)])
    message = message_of(decisions, 1)
    assert "not enough beside 1 node held as a spare" in message.english
    assert "`muster pool spares default`" in message.english
    assert is_impossible(message.parts)
    assert placed(decisions) == [2]  # nothing is kept for it


def test_nor_is_it_impossible_while_a_node_is_only_away():
    nodes = [*cluster(2, 2), make_node("n2", 2, pool_spares=1, scheduling="draining")]
    message = message_of(run(nodes, [make_queued(1, 4)]), 1)
    assert not is_impossible(message.parts)
    assert "muster node open" in message.english


def test_free_slots_beside_work_are_used_even_if_no_node_is_left_to_hold():
    busy = [make_running(9, {"n0": 1})]
    assert where(run(cluster(2), [make_queued(1)], busy), 1) == {"n0": 1}


def test_a_trial_that_lost_a_node_waits_for_more_than_the_spare():
    busy = [make_running(9, {"n1": 2})]
    decisions = run(cluster(2, 2), [lost(1, 4)], busy)
    assert reason_of(decisions, 1).endswith("2 reserved for it, 2 held by experiment 9")


def test_it_asks_nobody_for_what_the_spare_has():
    """A slot of its own is still being freed."""
    busy = [make_running(1, {"n1": 2}, yielding=True), make_running(9, {"n2": 2}, priority=1)]
    decisions = run(cluster(2, 2, 2), [lost(1, 4)], busy)
    assert not [d for d in decisions if isinstance(d, Preempt)]
    (wait,) = (d for d in decisions if isinstance(d, Wait))
    assert wait.is_promised


def test_before_it_may_start_the_slots_that_it_held_are_reserved():
    """Its other node is free already, and its restart is still to come."""
    nodes = [make_node("gone", 2, pool_spares=1, state="LOST"), *cluster(2, 2, free_since=at(-1))]
    queue = [make_queued(1, 2, queued_at=at(-99)), lost(2, 4, is_returning=True)]
    decisions = run(nodes, queue)
    assert placed(decisions) == []
    assert [d.trial_id for d in decisions] == [1]  # nothing is said of who does not wait
    queue[1] = lost(2, 4)
    assert placed(run(nodes, queue)) == [2]


def test_it_asks_nobody_before_it_may_start():
    busy = [make_running(9, {"n0": 2, "n1": 2}, priority=1)]
    assert run(cluster(2, 2), [lost(1, 4, is_returning=True)], busy) == []


def test_estimates_know_of_spares():
    busy = [
        make_running(8, {"n0": 2}, expected_end_at=at(100)),
        make_running(9, {"n1": 2}, expected_end_at=at(200)),
    ]
    (wait,) = run(cluster(2, 2), [make_queued(1, 2)], busy)
    assert wait.estimated_start_at == at(200)  # what comes free first becomes the spare
    (wait,) = run(cluster(2, 2), [lost(1, 2)], busy)
    assert wait.estimated_start_at == at(100)


def test_nobody_is_stopped_to_make_a_spare():
    low = [
        Job(trial_id=i, request=Request(slots=2), work_s=9999.0, priority=10) for i in range(1, 4)
    ]
    high = Job(trial_id=9, request=Request(slots=4), arrives_s=100.0, work_s=50.0, priority=90)
    simulation = ClusterSimulation(cluster(2, 2, 2, spares=0), [*low, high])
    simulation.run(50.0)
    simulation.change_nodes(pool_spares=1)
    simulation.run(400.0)
    assert simulation.jobs[9].ended_s == pytest.approx(155.0)
    assert sum(len(simulation.jobs[i].asks) for i in range(1, 4)) == 2
    # One of both nodes that are free now is the spare.
    assert len(simulation.snapshot().queue) == 1


def test_spares_come_from_the_nodes_that_come_free():
    jobs = [Job(trial_id=i, request=Request(slots=2), work_s=100.0) for i in range(1, 9)]
    simulation = ClusterSimulation(cluster(2, 2, 2, spares=0), jobs)
    simulation.run(50.0)
    simulation.change_nodes(pool_spares=1)
    simulation.run(150.0)
    assert len(simulation.snapshot().running) == 2
    idle = [v.name for v in simulation.snapshot().nodes if v.slots[0].allocation_id is None]
    simulation.run(250.0)
    again = [v.name for v in simulation.snapshot().nodes if v.slots[0].allocation_id is None]
    assert idle == again  # the same node all the time


def test_priorities_hold_without_preemption_too():
    decisions = run(
        cluster(2, 2),
        [make_queued(1, 2, priority=90, promised_since=at(-5))],
        [make_running(9, {"n1": 2}, priority=1)],
        policy=SchedulerPolicy(preempt=False),
    )
    assert placed(decisions) == []


FINE = {"state": "ONLINE", "health": "healthy", "problems": []}


def problem(**changes):
    return {"kind": "gpu", "blocks": True, "slot": None, "message": "lost", **changes}


@pytest.mark.parametrize(
    ("expected", "termination", "node"),
    [
        (True, Termination.NODE_LOST, FINE),
        (True, Termination.NODE_REBOOTED, FINE),
        (False, Termination.USER_ERROR, FINE),
        (False, Termination.WORKER_KILLED, FINE),
        (True, Termination.USER_ERROR, None),
        (True, Termination.STUCK, {**FINE, "state": "LOST"}),
        (True, Termination.USER_ERROR, {**FINE, "health": "quarantined"}),
        (True, Termination.USER_ERROR, {**FINE, "problems": [problem()]}),
        (True, Termination.USER_ERROR, {**FINE, "problems": [problem(slot=1)]}),
        (False, Termination.USER_ERROR, {**FINE, "problems": [problem(slot=7)]}),
        (False, Termination.USER_ERROR, {**FINE, "problems": [problem(blocks=False)]}),
        (False, Termination.USER_ERROR, {**FINE, "problems": [problem(kind="used", slot=1)]}),
    ],
)
def test_what_counts_as_a_lost_node(expected, termination, node):
    assert lost_member(termination, [(FINE, [0, 1]), (node, [0, 1])]) is expected
