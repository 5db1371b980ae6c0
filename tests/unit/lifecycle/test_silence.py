"""Which silence counts: of a node that is gone, and not of a control plane that cannot hear."""

import dataclasses
import datetime as dt

import pytest

from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    LifecyclePolicy,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    ServerLease,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetNode,
    SetTrial,
    TrialView,
    decide,
)

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
POLICY = LifecyclePolicy()


def ago(seconds):
    return NOW - dt.timedelta(seconds=seconds)


def node(name, silent_s, *, by="a", state="SUSPECT", code=""):
    return NodeLease(
        id=name, name=name, state=state, last_seen_at=ago(silent_s), registered_at=ago(9000),
        heard_by=by, reason_code=code,
    )  # fmt: skip


def server(name, stamp_s, **kwargs):
    return ServerLease(name=name, stamped_at=None if stamp_s is None else ago(stamp_s), **kwargs)


def changes(*nodes, servers=(), hearing_s=9000, policy=POLICY, leader_s=9000, **kwargs):
    """Node → (state it becomes, code of the reason)."""
    snapshot = LifecycleSnapshot(
        leader_since=ago(leader_s), hearing_since=ago(hearing_s), nodes=nodes, servers=servers,
        **kwargs,
    )  # fmt: skip
    actions = [a for step in decide(snapshot, now=NOW, policy=policy) for a in step.actions]
    return {
        a.node_id: (a.after, a.reason.parts[0]["code"] if a.reason.parts else "")
        for a in actions
        if isinstance(a, SetNode)
    }


@pytest.mark.parametrize("num_nodes", [1, 2, 50])
def test_silence_of_all_is_no_silence_of_any_however_long(num_nodes):
    for silent_s in (61, 600, 1e6):
        found = changes(*(node(f"n{i}", silent_s + i / 100) for i in range(num_nodes)))
        assert set(found.values()) == {("SUSPECT", "node.nobody_heard")}


def test_one_that_is_silent_alone_is_lost_in_the_usual_time():
    assert changes(node("n1", 60), node("n2", 1, state="ONLINE")) == {
        "n1": ("SUSPECT", "node.not_heard")
    }
    assert changes(node("n1", 62), node("n2", 1, state="ONLINE")) == {"n1": ("LOST", "node.lost")}


def test_silence_counts_up_to_the_moment_at_which_somebody_was_heard():
    """What ended then may have been the control plane's hearing; that shows only after a lease."""
    gone = node("n1", 70, code="node.not_heard")
    for silent_s in (11, 14.9):
        assert changes(gone, node("n2", silent_s, state="ONLINE")) == {}
    found = changes(gone, node("n2", 9, state="ONLINE"))
    assert found == {"n1": ("LOST", "node.lost")}


def test_after_a_common_silence_everybody_has_a_fresh_full_lease():
    back = node("n2", 1, state="ONLINE")
    code = "node.not_heard"
    assert changes(node("n1", 600, code=code), back, hearing_s=1) == {}
    assert changes(node("n1", 660, code=code), back, hearing_s=59) == {}
    assert changes(node("n1", 663, code=code), back, hearing_s=62) == {"n1": ("LOST", "node.lost")}


def test_the_reason_is_told_once_and_again_when_it_is_another_one():
    told = node("n1", 70, code="node.nobody_heard")
    assert changes(told, node("n2", 70, code="node.nobody_heard")) == {}
    assert changes(told, node("n2", 1, state="ONLINE"), hearing_s=1) == {
        "n1": ("SUSPECT", "node.not_heard")
    }


SILENT = node("n1", 80, by="a", code="node.server_away")
HEARD_BY_B = node("n9", 1, by="b", state="ONLINE")


def test_the_nodes_of_a_server_that_is_away_are_excused_up_to_a_bound():
    b = server("b", 1)
    for away_s in (80, 600, 900):
        silent = dataclasses.replace(SILENT, last_seen_at=ago(away_s))
        assert changes(silent, HEARD_BY_B, servers=(server("a", away_s), b)) == {}
    late = dataclasses.replace(SILENT, last_seen_at=ago(962))
    assert changes(late, HEARD_BY_B, servers=(server("a", 962), b)) == {"n1": ("LOST", "node.lost")}


def test_it_is_not_excused_when_its_server_hears_or_stopped_in_good_order():
    for stamp_s in (1, None):
        found = changes(SILENT, HEARD_BY_B, servers=(server("a", stamp_s), server("b", 1)))
        assert found == {"n1": ("LOST", "node.lost")}


def test_it_is_not_excused_when_as_many_others_went_to_another_server():
    away = (server("a", 80, num_left=1), server("b", 1))
    assert changes(SILENT, HEARD_BY_B, servers=away) == {"n1": ("LOST", "node.lost")}
    both = (SILENT, dataclasses.replace(SILENT, id="n2", name="n2"))
    assert changes(*both, HEARD_BY_B, servers=away) == {}


def test_all_nodes_of_a_server_silent_at_once_are_cut_off_with_it():
    """What is in front of it is away, and it cannot know."""
    both = (SILENT, dataclasses.replace(SILENT, id="n2", name="n2"))
    assert changes(*both, HEARD_BY_B, servers=(server("a", 1), server("b", 1))) == {}
    one_is_heard = (SILENT, node("n2", 1, by="a", state="ONLINE"))
    found = changes(*one_is_heard, HEARD_BY_B, servers=(server("a", 1), server("b", 1)))
    assert found == {"n1": ("LOST", "node.lost")}


@pytest.mark.parametrize(("proven_s", "found"), [(14, {}), (9, {"n1": ("LOST", "node.lost")})])
def test_silence_counts_up_to_the_moment_at_which_its_server_could_hear(proven_s, found):
    """By its stamp, or by any of its nodes if there are several."""
    gone = node("n1", 70, code="node.not_heard")
    b = server("b", 1)
    assert changes(gone, HEARD_BY_B, servers=(server("a", proven_s), b)) == found
    other = node("n2", proven_s, state="ONLINE")
    assert changes(gone, other, HEARD_BY_B, servers=(server("a", 1), b)) == found


def test_once_its_server_hears_again_its_lease_is_fresh():
    back = server("a", 1, returned_at=ago(30))
    silent = dataclasses.replace(SILENT, reason_code="node.not_heard")
    assert changes(silent, HEARD_BY_B, servers=(back, server("b", 1))) == {}
    back = server("a", 1, returned_at=ago(62))
    assert changes(silent, HEARD_BY_B, servers=(back, server("b", 1))) == {
        "n1": ("LOST", "node.lost")
    }


# ---- what else is waited for


def waiting(state, *, age_s, observed="RUNNING", others=()):
    member = AllocationView(
        id="a0", node_id="n1", node_name="n1", node_rank=0, observed=observed, desired="start",
        state_since=ago(age_s),
    )  # fmt: skip
    attempt = AttemptView(
        id=1, no=1, state=state, num_nodes=1 + len(others), created_at=ago(age_s),
        allocations=(member, *others),
    )  # fmt: skip
    return TrialView(id=1, no=1, experiment_id=1, state="STARTING", attempt=attempt)


while_it_could_not_be_heard = pytest.mark.parametrize(
    ("nodes", "hearing_s", "leader_s", "ends"),
    [
        ([node("n1", 700)], 9000, 9000, False),  # nobody is heard
        ([node("n1", 20), node("n2", 1, state="ONLINE")], 9000, 9000, False),  # it is silent
        ([node("n1", 1, state="ONLINE")], 40, 9000, False),  # all were silent until now
        ([node("n1", 1, state="ONLINE")], 9000, 59, False),  # who leads knows nothing yet
        ([node("n1", 1, state="ONLINE")], 9000, 9000, True),
    ],
)


@while_it_could_not_be_heard
def test_no_deadline_passes_while_its_end_could_not_be_heard(nodes, hearing_s, leader_s, ends):
    for state, observed in (("PREPARING", "PREPARING"), ("STARTING", "STARTING")):
        snapshot = LifecycleSnapshot(
            leader_since=ago(leader_s), hearing_since=ago(hearing_s), nodes=tuple(nodes),
            trials=(waiting(state, age_s=1000, observed=observed),),
        )  # fmt: skip
        steps = decide(snapshot, now=NOW, policy=POLICY)
        actions = [a for step in steps for a in step.actions]
        assert any(isinstance(a, SetAttempt) for a in actions) is ends


@pytest.mark.parametrize(
    ("observed", "kind", "after"),
    [("STOPPING", SetDesired, "kill"), ("ASSIGNED", SetAllocation, "EXITED")],
)
@while_it_could_not_be_heard
def test_no_grace_of_a_member_passes_either(
    nodes, hearing_s, leader_s, ends, observed, kind, after
):
    stops = waiting("FAILED", age_s=1000, observed=observed)
    (member,) = stops.attempt.allocations
    told = "stop" if observed == "STOPPING" else "kill"
    attempt = dataclasses.replace(
        stops.attempt, ended_at=ago(1000), termination="user_error",
        allocations=(dataclasses.replace(member, desired=told),),
    )  # fmt: skip
    snapshot = LifecycleSnapshot(
        leader_since=ago(leader_s), hearing_since=ago(hearing_s), nodes=tuple(nodes),
        trials=(dataclasses.replace(stops, state="RUNNING", attempt=attempt),),
    )  # fmt: skip
    actions = [a for step in decide(snapshot, now=NOW, policy=POLICY) for a in step.actions]
    assert any(isinstance(a, kind) and a.after == after for a in actions) is ends


@while_it_could_not_be_heard
def test_nor_does_that_of_a_node_to_say_what_still_runs(nodes, hearing_s, leader_s, ends):
    """It may not even know that it is to end it: the answer to its registration was lost."""
    back = tuple(dataclasses.replace(n, registered_at=ago(1000)) for n in nodes)
    snapshot = LifecycleSnapshot(
        leader_since=ago(leader_s), hearing_since=ago(hearing_s), nodes=back,
        lost=(LostAllocation(id="a0", node_id="n1"),),
    )  # fmt: skip
    actions = [a for step in decide(snapshot, now=NOW, policy=POLICY) for a in step.actions]
    assert any(isinstance(a, SetAllocation) for a in actions) is ends


@pytest.mark.parametrize(
    ("away_s", "ends"), [(10, True), (20, False), (654, False), (657, True), (9000, True)]
)
def test_a_deadline_leaves_out_how_long_a_server_that_is_away_may_hold_a_poll(away_s, ends):
    """The node is heard by another server, and the poll that tells it to start hangs at this one."""
    snapshot = LifecycleSnapshot(
        leader_since=ago(9000), nodes=(node("n1", 1, by="b", state="ONLINE"),),
        servers=(server("a", away_s, num_left=1), server("b", 1)),
        trials=(waiting("STARTING", age_s=700, observed="STARTING"),),
    )  # fmt: skip
    steps = decide(snapshot, now=NOW, policy=POLICY)
    actions = [a for step in steps for a in step.actions]
    assert any(isinstance(a, SetAttempt) for a in actions) is ends


@pytest.mark.parametrize("who", ["everybody", "its server"])
@pytest.mark.parametrize(("heard_s", "ends"), [(601, False), (634, False), (636, True)])
def test_a_deadline_leaves_out_how_long_a_report_may_hang_after_an_outage(who, heard_s, ends):
    """What was sent just before the end of an outage got lost. Nobody says when that was: calls that
    a server kept while it stood still are heard before the agents are."""
    snapshot = LifecycleSnapshot(
        leader_since=ago(9000),
        hearing_since=ago(heard_s if who == "everybody" else 9000),
        nodes=(node("n1", 1, state="ONLINE"),),
        servers=(server("a", 1, returned_at=ago(heard_s) if who == "its server" else None),),
        trials=(waiting("STARTING", age_s=2000, observed="STARTING"),),
    )  # fmt: skip
    actions = [a for s in decide(snapshot, now=NOW, policy=POLICY) for a in s.actions]
    assert any(isinstance(a, SetAttempt) for a in actions) is ends


def test_a_kill_does_not_wait_for_a_node_that_is_silent_for_long():
    """Also where it is the only one, and so never LOST."""

    def kill(silent_s, desired):
        trial = dataclasses.replace(waiting("RUNNING", age_s=9000), state="STOPPING")
        snapshot = LifecycleSnapshot(
            leader_since=ago(9000), nodes=(node("n1", silent_s),),
            trials=(dataclasses.replace(trial, desired=desired),),
        )  # fmt: skip
        return [a for s in decide(snapshot, now=NOW, policy=POLICY) for a in s.actions]

    def last_state(actions):
        return [a.after for a in actions if isinstance(a, SetTrial)][-1:]

    assert last_state(kill(59, "kill")) == []
    ended = kill(61, "kill")
    assert last_state(ended) == ["CANCELED"]
    assert [a.after for a in ended if isinstance(a, SetAllocation)] == ["LOST"]
    assert last_state(kill(6000, "stop")) == []
