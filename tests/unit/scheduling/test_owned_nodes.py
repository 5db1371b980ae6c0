"""Nodes that belong to one attempt, as those of exclusive pools do."""

from muster_server.domain.messages import Message
from muster_server.domain.scheduling import Placement, Scheduler, SchedulerPolicy, SchedulerSnapshot
from muster_server.domain.scheduling.resources import Request
from muster_server.domain.scheduling.views import QueuedTrial
from support.scheduling import NOW, make_node

MINE, OTHERS = (1, 2), (7, 1)


def queued(trial_id=1, **request):
    return QueuedTrial(
        trial_id=trial_id,
        trial_no=1,
        experiment_id=trial_id,
        priority=50,
        queued_at=NOW,
        request=Request(**({"slots": 2} | request)),
    )


def decide(nodes, *trials, scheduler=None, supplies=None):
    """The nodes that each trial is placed on, and the reasons of those that wait."""
    snapshot = SchedulerSnapshot(nodes=tuple(nodes), queue=trials, supplies=supplies or {})
    decided = (scheduler or Scheduler()).run(snapshot, now=NOW, policy=SchedulerPolicy())
    places = {
        action.trial_id: [share.node_name for share in action.shares]
        for action in decided.actions
        if isinstance(action, Placement)
    }
    return places, {wait.trial_id: wait.reason.english for wait in decided.waits()}


def test_only_the_attempt_that_a_node_belongs_to_may_use_it():
    nodes = [make_node("mine", 4, owner=MINE), make_node("others", 4, owner=OTHERS)]
    places, waits = decide(nodes, queued(1, owner=MINE), queued(2), queued(7))
    assert places == {1: ["mine"]}
    assert set(waits) == {2, 7}, "nor the last attempt's node for the next one"


def test_a_trial_with_nodes_of_its_own_leaves_the_others_alone():
    nodes = [make_node("free", 2), make_node("mine", 2, owner=MINE)]
    places, _ = decide(nodes, queued(1, owner=MINE), queued(2))
    assert places == {2: ["free"], 1: ["mine"]}
    places, _ = decide(nodes, queued(1, slots=4, nodes=2, owner=MINE))
    assert places == {}, "its second node is still on its way"


def test_a_trial_without_a_node_of_its_own_is_told_what_its_provider_does():
    supply = Message("pilots.asked", provider="Slurm", pilots=1)
    _, waits = decide([make_node("others", 4, owner=OTHERS)], queued(1), supplies={1: supply})
    assert "1 pilot of Slurm requested" in waits[1]


def test_a_scheduler_that_remembers_notices_that_a_node_has_an_owner_now():
    scheduler, trial = Scheduler(), queued(1, slots=3)
    busy = make_node("a", 4, held=4)
    assert decide([busy], trial, scheduler=scheduler)[0] == {}
    assert decide([make_node("a", 4, owner=OTHERS)], trial, scheduler=scheduler)[0] == {}
    assert decide([make_node("a", 4)], trial, scheduler=scheduler)[0] == {1: ["a"]}
