"""What follows from the present state: tables of one situation and one decision each."""

import dataclasses
import datetime as dt

import pytest

from muster.wire import ExitInfo, WorkerExit
from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    ExperimentView,
    LifecyclePolicy,
    LifecycleSnapshot,
    LostAllocation,
    NodeLease,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetExperiment,
    SetFlags,
    SetNode,
    SetTrial,
    TrialView,
    decide,
    heartbeat_interval_s,
)
from muster_server.domain.states import Termination

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
POLICY = LifecyclePolicy()


def ago(seconds):
    return NOW - dt.timedelta(seconds=seconds)


def lease(name="n0", state="ONLINE", *, silent_s=0.0, registered_s=1000.0):
    return NodeLease(
        id=f"id-{name}",
        name=name,
        state=state,
        last_seen_at=ago(silent_s),
        registered_at=ago(registered_s),
        reason_code="node.not_heard" if state == "SUSPECT" else "",
    )


HEARD = lease("heard")
"""So that silence of another one is that of a node, and not of all of them."""


def member(rank=0, observed="RUNNING", desired="start", *, since_s=0.0, exit=None, **kwargs):
    return AllocationView(
        id=f"a{rank}",
        node_id=f"id-n{rank}",
        node_name=f"n{rank}",
        node_rank=rank,
        observed=observed,
        desired=desired,
        state_since=ago(since_s),
        exit=exit,
        **kwargs,
    )


def attempt(*members, state="RUNNING", age_s=0.0, **kwargs):
    return AttemptView(
        id=7,
        no=1,
        state=state,
        num_nodes=len(members),
        created_at=ago(age_s),
        allocations=members,
        **kwargs,
    )


def trial(the_attempt=None, state="RUNNING", **kwargs):
    return TrialView(id=1, no=1, experiment_id=5, state=state, attempt=the_attempt, **kwargs)


def ended(cause="success", *, rank=0, at_ms=0, message="", tail=()):
    failure = WorkerExit(local_rank=0, rank=rank, exit_code=1, at_ms=at_ms, message=message)
    return ExitInfo(
        cause=cause,
        message=message,
        first_failure=None if cause == "success" else failure,
        workers=[failure],
        log_tail=list(tail),
    )


def actions_of(the_trial, *nodes, now=NOW, policy=POLICY):
    members = the_trial.attempt.allocations if the_trial.attempt else ()
    known = {n.id for n in nodes}
    nodes = [HEARD, *nodes, *(lease(m.node_name) for m in members if m.node_id not in known)]
    snapshot = LifecycleSnapshot(leader_since=ago(1000), nodes=tuple(nodes), trials=(the_trial,))
    return [
        action
        for step in decide(snapshot, now=now, policy=policy)
        if step.subject.startswith("trial:")
        for action in step.actions
    ]


def only(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def one(actions, kind):
    (action,) = only(actions, kind)
    return action


# ---- starting


def test_the_barrier_waits_for_the_last_node():
    waiting = attempt(
        member(0, "READY", "prepare"), member(1, "PREPARING", "prepare"), state="PREPARING",
        has_rendezvous=True,
    )  # fmt: skip
    assert actions_of(trial(waiting, "STARTING")) == []


def test_all_ready_starts_all_in_one_step():
    ready = attempt(
        member(0, "READY", "prepare"), member(1, "READY", "prepare"), state="PREPARING",
        has_rendezvous=True,
    )  # fmt: skip
    actions = actions_of(trial(ready, "STARTING"))
    assert one(actions, SetAttempt).after == "STARTING"
    assert [a.after for a in only(actions, SetDesired)] == ["start", "start"]


def test_a_gang_over_nodes_needs_the_rendezvous_of_rank_0():
    members = (member(0, "READY", "prepare"), member(1, "READY", "prepare"))
    assert actions_of(trial(attempt(*members, state="PREPARING"), "STARTING")) == []
    alone = attempt(member(0, "READY", "prepare"), state="PREPARING")
    assert one(actions_of(trial(alone, "STARTING")), SetAttempt).after == "STARTING"


def test_running_everywhere_makes_attempt_and_trial_running():
    actions = actions_of(trial(attempt(member(0), member(1), state="STARTING"), "STARTING"))
    assert one(actions, SetAttempt).after == "RUNNING"
    assert one(actions, SetTrial).after == "RUNNING"


def test_a_slow_preparation_fails_and_names_the_node():
    slow = attempt(
        member(0, "READY", "prepare"), member(1, "PREPARING", "prepare"),
        state="PREPARING", age_s=901,
    )  # fmt: skip
    actions = actions_of(trial(slow, "STARTING"))
    assert one(actions, SetAttempt).termination is Termination.PREPARE_FAILED
    assert one(actions, SetAttempt).reason == "n1 was not ready within 900 s"
    assert [a.after for a in only(actions, SetDesired)] == ["kill", "kill"]


def test_a_slow_start_fails():
    slow = attempt(member(0, "STARTING", since_s=601), state="STARTING")
    actions = actions_of(trial(slow, "STARTING"))
    assert one(actions, SetAttempt).termination is Termination.START_TIMEOUT


def test_a_failed_preparation_restarts_the_trial_from_the_infra_budget():
    broken = attempt(
        member(0, "PREPARE_FAILED", "prepare", message="no such interpreter"), state="PREPARING"
    )
    actions = actions_of(trial(broken, "STARTING"))
    assert one(actions, SetAttempt).reason == "n0 could not prepare: no such interpreter"
    assert one(actions, SetAllocation).after == "CLEANED"
    assert one(actions, SetTrial).after == "RETRY_WAIT"
    assert one(actions, SetTrial).failures_infra == 1


# ---- ending


def test_success_when_all_exited_with_0():
    done = attempt(member(0, "EXITED", exit=ended()), member(1, "EXITED", exit=ended()))
    actions = actions_of(trial(done))
    assert one(actions, SetAttempt).after == "SUCCEEDED"
    assert [a.after for a in only(actions, SetAllocation)] == ["CLEANED", "CLEANED"]
    assert one(actions, SetTrial).after == "COMPLETED"
    assert one(actions, SetTrial).logs_complete


def test_a_trial_may_finish_before_its_first_report():
    quick = attempt(member(0, "EXITED", exit=ended()), state="STARTING")
    actions = actions_of(trial(quick, "STARTING"))
    assert one(actions, SetTrial).after == "COMPLETED"


def test_the_first_to_end_well_starts_the_winding_down():
    actions = actions_of(trial(attempt(member(0, "EXITED", exit=ended()), member(1))))
    assert one(actions, SetAttempt).after == "WINDING_DOWN"
    assert only(actions, SetDesired) == []


def test_a_member_that_does_not_wind_down_fails_the_attempt():
    late = attempt(
        member(0, "CLEANED", "forget", since_s=301, exit=ended()), member(1),
        state="WINDING_DOWN",
    )  # fmt: skip
    actions = actions_of(trial(late))
    assert one(actions, SetAttempt).reason == "n1 did not end within 300 s of n0"
    assert one(actions, SetDesired).after == "stop"


def test_the_first_failure_stops_all_others_at_once():
    failed = attempt(
        member(0, "EXITED", exit=ended("user_error", rank=0, at_ms=5, message="KeyError: 'x'")),
        member(1),
    )
    actions = actions_of(trial(failed))
    assert one(actions, SetAttempt).after == "FAILED"
    assert one(actions, SetAttempt).reason == "rank 0 on n0 exited with code 1: KeyError: 'x'"
    assert one(actions, SetDesired).after == "stop"
    assert only(actions, SetTrial) == []  # not before the others have ended


def test_an_early_exit_record_counts_before_its_logs_are_complete():
    failed = attempt(member(0, "STOPPING", exit=ended("user_error")), member(1))
    actions = actions_of(trial(failed))
    assert one(actions, SetAttempt).after == "FAILED"
    assert {a.allocation_id for a in only(actions, SetDesired)} == {"a0", "a1"}


def test_the_root_cause_is_the_earliest_rank_not_the_first_report():
    # a1 reported first (connection reset), a0 failed 2 s earlier but its report took longer.
    failed = attempt(
        member(0, "EXITED", "stop", exit=ended("user_error", rank=0, at_ms=1000, message="boom",
               tail=["Traceback", "boom"])),
        member(1, "CLEANED", "forget", exit=ended("user_error", rank=4, at_ms=3000, message="reset")),
        state="FAILED", termination="user_error", reason="rank 4 on n1: reset", ended_at=ago(1),
    )  # fmt: skip
    actions = actions_of(trial(failed))
    sharper = one(actions, SetAttempt)
    assert (sharper.before, sharper.after) == ("FAILED", "FAILED")
    assert (sharper.root_rank, sharper.root_log_tail) == (0, ("Traceback", "boom"))
    assert one(actions, SetTrial).reason.startswith("rank 0 on n0 exited with code 1: boom")


def test_a_peer_that_failed_because_its_node_vanished_is_charged_to_infra():
    gone = lease("n1", "LOST", silent_s=70)
    failed = attempt(
        member(0, "CLEANED", "forget",
               exit=ended("user_error", at_ms=int(ago(60).timestamp() * 1000), message="reset")),
        member(1, "RUNNING", "stop"),
        state="FAILED", termination="user_error", reason="rank 0 on n0: reset", ended_at=ago(60),
    )  # fmt: skip
    actions = actions_of(trial(failed), gone)
    assert one(actions, SetAttempt).termination is Termination.NODE_LOST
    restart = one(actions, SetTrial)
    assert (restart.after, restart.failures_infra, restart.failures_user) == ("RETRY_WAIT", 1, 0)


def test_a_failure_before_the_node_vanished_stays_the_users():
    gone = lease("n1", "LOST", silent_s=70)
    failed = attempt(
        member(0, "CLEANED", "forget",
               exit=ended("user_error", at_ms=int(ago(90).timestamp() * 1000), message="boom")),
        member(1, "RUNNING", "stop"),
        state="FAILED", termination="user_error", reason="rank 0 on n0: boom", ended_at=ago(90),
    )  # fmt: skip
    actions = actions_of(trial(failed), gone)
    assert one(actions, SetTrial).after == "FAILED"
    assert one(actions, SetTrial).termination is Termination.USER_ERROR


def test_workers_that_their_node_killed_are_not_blamed():
    # `muster up` was killed: its shims killed their workers, and reported once it was back.
    words = "ended by its node (the process that started this node's agent has ended)"
    killed = WorkerExit(
        local_rank=0, rank=0, signal=9, at_ms=5, message="was killed by SIGKILL (often …)"
    )
    exit_info = ExitInfo(cause="shim_lost", message=words, first_failure=killed, workers=[killed])
    actions = actions_of(trial(attempt(member(0, "EXITED", exit=exit_info))))
    assert one(actions, SetAttempt).reason == f"n0: {words}"


def told_by_site(at_ms):
    message = "ended with its node (the node's agent was told to end)"
    return ExitInfo(cause="stopped", message=message, site_stop_at_ms=at_ms)


@pytest.mark.parametrize("state", ["PREPARING", "STARTING", "RUNNING"])
def test_what_the_site_has_stopped_while_the_server_was_away_is_charged_to_nobody(state):
    taken = attempt(member(0, "EXITED", exit=told_by_site(5)), state=state)
    the_trial = trial(taken, "RUNNING" if state == "RUNNING" else "STARTING", failures_infra=1)
    actions = actions_of(the_trial)
    end = one(actions, SetAttempt)
    assert (end.after, end.termination) == ("PREEMPTED", Termination.DRAINED)
    assert end.reason == "n0 was told to end by its site, and could not tell the server"
    again = one(actions, SetTrial)
    assert (again.after, again.failures_infra, again.failures_user) == ("QUEUED", None, None)


def test_a_gang_that_fails_because_the_site_took_a_node_is_charged_to_nobody():
    lost_peer = WorkerExit(
        local_rank=0, rank=0, exit_code=1, at_ms=9_000, message="Connection reset", blames_peer=True
    )
    failed = ExitInfo(cause="user_error", message="", first_failure=lost_peer, workers=[lost_peer])
    ends = {
        "at_once": attempt(
            member(0, "EXITED", exit=failed), member(1, "EXITED", exit=told_by_site(8_000))
        ),
        # The node whose stop it was is heard later.
        "later": attempt(
            member(0, "CLEANED", "forget", exit=failed),
            member(1, "EXITED", "stop", exit=told_by_site(8_000)),
            state="FAILED", termination="user_error", reason="rank 0 on n0", ended_at=ago(2),
        ),
    }  # fmt: skip
    for when, taken in ends.items():
        last = only(actions_of(trial(taken)), SetTrial)[-1]
        assert last.after in ("QUEUED", "RETRY_WAIT"), when
        assert (last.failures_infra or 0, last.failures_user or 0) == (0, 0), when


@pytest.mark.parametrize(("desired", "after"), [("stop", "CANCELED"), ("early", "STOPPED_EARLY")])
def test_a_stopped_trial_stays_so_when_the_site_takes_its_node(desired, after):
    taken = attempt(member(0, "EXITED", "stop", exit=told_by_site(8_000)))
    assert one(actions_of(trial(taken, "STOPPING", desired=desired)), SetTrial).after == after


def test_a_failure_before_the_site_took_the_node_stays_the_users():
    failed = attempt(
        member(0, "EXITED", exit=ended("user_error", at_ms=1_000, message="boom")),
        member(1, "EXITED", exit=told_by_site(90_000)),
    )
    assert one(actions_of(trial(failed)), SetTrial).termination is Termination.USER_ERROR


def test_a_lost_node_ends_the_attempt_and_keeps_its_slots():
    gone = lease("n1", "LOST", silent_s=70)
    actions = actions_of(trial(attempt(member(0), member(1))), gone)
    assert one(actions, SetAttempt).after == "LOST"
    assert one(actions, SetAllocation).after == "LOST"
    assert one(actions, SetDesired).allocation_id == "a0"


def test_a_removed_node_counts_as_lost():
    the_trial = trial(attempt(member(0)))
    snapshot = LifecycleSnapshot(leader_since=ago(1000), trials=(the_trial,))
    (step,) = decide(snapshot, now=NOW, policy=POLICY)
    assert one(step.actions, SetAllocation).after == "LOST"
    assert one(step.actions, SetTrial).after == "RETRY_WAIT"


def test_with_on_disconnect_stop_the_restart_waits_for_the_shims_own_deadline():
    gone = lease("n0", "LOST", silent_s=10)
    actions = actions_of(trial(attempt(member(0)), on_disconnect="stop"), gone)
    # last seen 10 s ago + 15 s lease + 10 s margin
    assert one(actions, SetTrial).not_before == NOW + dt.timedelta(seconds=15)
    # In a large cluster heartbeats are rarer and leases longer.
    longer = dataclasses.replace(gone, lease_s=60.0)
    actions = actions_of(trial(attempt(member(0)), on_disconnect="stop"), longer)
    assert one(actions, SetTrial).not_before == NOW + dt.timedelta(seconds=60)


def test_what_was_lost_with_a_removed_node_is_waited_for_as_well():
    the_trial = trial(
        attempt(member(0, "LOST", since_s=5), state="LOST", ended_at=ago(5)), on_disconnect="stop"
    )
    snapshot = LifecycleSnapshot(leader_since=ago(1000), trials=(the_trial,))
    (step,) = decide(snapshot, now=NOW, policy=POLICY)
    assert one(step.actions, SetTrial).not_before == NOW + dt.timedelta(seconds=20)


def test_the_rest_of_a_gang_that_lost_a_member_gets_a_second_and_not_its_grace():
    failed = attempt(member(0, "STOPPING", exit=ended("user_error")), member(1))
    told = only(actions_of(trial(failed, stop_grace_s=600.0)), SetDesired)
    assert [(a.after, a.kind, a.grace_s) for a in told] == [("stop", "gang", 1.0)] * 2
    stuck = attempt(
        member(0, "CLEANED", "forget", exit=ended("user_error")),
        member(1, "STOPPING", "stop", since_s=12),
        state="FAILED", termination="user_error", ended_at=ago(12),
    )  # fmt: skip
    assert one(actions_of(trial(stuck, stop_grace_s=600.0)), SetDesired).after == "kill"
    stopped = trial(attempt(member(0), member(1)), desired="stop")
    assert {a.grace_s for a in only(actions_of(stopped), SetDesired)} == {None}


def test_the_log_of_a_member_that_said_how_it_ends_and_was_lost_is_not_complete():
    gone = lease("n0", "LOST", silent_s=70)
    the_trial = trial(attempt(member(0, "STOPPING", exit=ended("user_error", message="boom"))))
    ended_trial = one(actions_of(the_trial, gone), SetTrial)
    assert (ended_trial.after, ended_trial.logs_complete) == ("FAILED", False)


def test_a_stopped_member_that_does_not_end_is_told_to_kill():
    stuck = attempt(
        member(0, "CLEANED", "forget", exit=ended("user_error")),
        member(1, "STOPPING", "stop", since_s=41),
        state="FAILED", termination="user_error", ended_at=ago(45),
    )  # fmt: skip
    actions = actions_of(trial(stuck))
    assert one(actions, SetDesired).after == "kill"


def test_an_allocation_no_agent_took_up_is_written_off():
    orphan = attempt(
        member(0, "ASSIGNED", "kill"), state="CANCELED", ended_at=ago(31), termination="canceled"
    )
    actions = actions_of(trial(orphan, "STOPPING", desired="stop"))
    assert [a.after for a in only(actions, SetAllocation)] == ["EXITED", "CLEANED"]
    assert one(actions, SetTrial).after == "CANCELED"


def left_behind(**worker):
    """What an agent of before says of processes that outlived SIGKILL, whatever the workers did."""
    return ExitInfo(
        cause="unkillable",
        message="1 processes did not die of SIGKILL; before that: every worker exited with code 0",
        workers=[WorkerExit(local_rank=0, rank=0, **worker)],
    )


def test_what_its_workers_have_done_counts_and_not_what_they_left_behind():
    done = attempt(member(0, "EXITED", exit=left_behind(exit_code=0)))
    assert one(actions_of(trial(done)), SetTrial).after == "COMPLETED"
    killed = attempt(member(0, "EXITED", exit=left_behind(signal=9)))
    assert one(actions_of(trial(killed)), SetAttempt).termination is Termination.UNKILLABLE


@pytest.mark.parametrize(("desired", "after"), [("stop", "CANCELED"), ("early", "STOPPED_EARLY")])
def test_what_was_left_behind_by_a_stopped_trial_changes_nothing(desired, after):
    killed = attempt(member(0, "EXITED", "stop", exit=left_behind(signal=9)))
    assert one(actions_of(trial(killed, "STOPPING", desired=desired)), SetTrial).after == after


@pytest.mark.parametrize("cause", ["user_error", "shim_lost", "launcher_failed", "unkillable"])
def test_a_trial_that_the_search_has_stopped_stays_so_whatever_its_processes_did(cause):
    broken = attempt(member(0, "EXITED", "stop", exit=ended(cause, message="boom")))
    actions = actions_of(trial(broken, "STOPPING", desired="early"))
    assert one(actions, SetTrial).after == "STOPPED_EARLY"
    failed = attempt(
        member(0, "EXITED", "stop", exit=ended(cause)),
        state="FAILED", termination="user_error", ended_at=ago(1),
    )  # fmt: skip
    assert only(actions_of(trial(failed, desired="early")), SetTrial)[-1].after == "STOPPED_EARLY"


def test_an_end_without_an_exit_record_is_a_failure_of_the_machinery():
    actions = actions_of(trial(attempt(member(0, "EXITED"))))
    assert one(actions, SetAttempt).termination is Termination.SHIM_LOST


# ---- stopping


def test_a_stop_reaches_the_members_then_waits():
    actions = actions_of(trial(attempt(member(0), member(1)), experiment_desired="stop"))
    assert one(actions, SetTrial).after == "STOPPING"
    assert [a.after for a in only(actions, SetDesired)] == ["stop", "stop"]
    assert only(actions, SetAttempt) == []


def test_a_stop_while_preparing_kills_at_once():
    preparing = attempt(member(0, "PREPARING", "prepare"), state="PREPARING")
    actions = actions_of(trial(preparing, "STARTING", desired="stop"))
    assert one(actions, SetAttempt).after == "CANCELED"
    assert one(actions, SetDesired).after == "kill"


@pytest.mark.parametrize(
    ("desired", "after", "termination"),
    [
        ("stop", "CANCELED", Termination.CANCELED),
        ("early", "STOPPED_EARLY", Termination.STOPPED_EARLY),
    ],
)
def test_stopped_by_whom(desired, after, termination):
    stopped = attempt(member(0, "EXITED", "stop", exit=ended("stopped")))
    actions = actions_of(trial(stopped, "STOPPING", desired=desired))
    assert one(actions, SetAttempt).after == "CANCELED"
    assert one(actions, SetTrial).after == after
    assert one(actions, SetTrial).termination is termination


@pytest.mark.parametrize("desired", ["stop", "early"])
def test_what_finished_by_itself_while_stopping_is_completed(desired):
    done = attempt(member(0, "EXITED", "stop", exit=ended()))
    actions = actions_of(trial(done, "STOPPING", desired=desired))
    assert one(actions, SetTrial).after == "COMPLETED"


def test_what_failed_while_stopping_is_failed_and_not_restarted():
    broken = attempt(member(0, "EXITED", "stop", exit=ended("user_error", message="boom")))
    actions = actions_of(trial(broken, "STOPPING", desired="stop", budget_user=5))
    assert one(actions, SetTrial).after == "FAILED"


def test_a_lost_node_does_not_keep_a_stopped_trial_waiting():
    gone = lease("n0", "LOST", silent_s=70)
    actions = actions_of(
        trial(attempt(member(0, "STOPPING", "stop")), "STOPPING", desired="stop"), gone
    )
    assert one(actions, SetTrial).after == "CANCELED"
    assert not one(actions, SetTrial).logs_complete


@pytest.mark.parametrize(
    ("state", "desired", "after"),
    [
        ("QUEUED", "stop", "CANCELED"),
        ("QUEUED", "early", "STOPPED_EARLY"),
        ("RETRY_WAIT", "stop", "CANCELED"),
        ("RETRY_WAIT", "early", "STOPPED_EARLY"),
        ("PAUSED", "stop", "CANCELED"),
        ("PAUSED", "early", "STOPPED_EARLY"),
        ("QUEUED", "kill", "CANCELED"),
    ],
)
def test_a_waiting_trial_is_stopped_on_the_spot(state, desired, after):
    assert one(actions_of(trial(state=state, desired=desired)), SetTrial).after == after


@pytest.mark.parametrize(("on_disconnect", "is_due"), [("continue", True), ("stop", False)])
def test_a_clock_that_is_set_back_holds_up_only_a_restart_that_must_not_overlap(
    on_disconnect, is_due
):
    waiting = trial(state="RETRY_WAIT", not_before=ago(-3600), on_disconnect=on_disconnect)
    assert bool(actions_of(waiting)) == is_due


def test_a_restart_is_queued_when_its_back_off_is_over():
    assert actions_of(trial(state="RETRY_WAIT", not_before=ago(-1))) == []
    assert one(actions_of(trial(state="RETRY_WAIT", not_before=ago(0))), SetTrial).after == "QUEUED"


# ---- nodes


def node_actions(node, *, leader_s=1000.0, lost=()):
    snapshot = LifecycleSnapshot(leader_since=ago(leader_s), nodes=(node, HEARD), lost=lost)
    return [a for step in decide(snapshot, now=NOW, policy=POLICY) for a in step.actions]


@pytest.mark.parametrize(
    ("state", "silent_s", "leader_s", "after"),
    [
        ("ONLINE", 14, 1000, None),
        ("ONLINE", 16, 1000, "SUSPECT"),
        ("ONLINE", 500, 10, None),  # a new leader gives fresh leases
        ("SUSPECT", 1, 1000, "ONLINE"),
        ("SUSPECT", 59, 1000, None),
        ("SUSPECT", 61, 1000, "LOST"),
        ("SUSPECT", 5000, 59, None),  # take-over grace
        ("SUSPECT", 5000, 61, "LOST"),
        ("RECONCILING", 1, 1000, "ONLINE"),
        ("RECONCILING", 61, 1000, "LOST"),
        ("LOST", 9999, 1000, None),
    ],
)
def test_node_leases(state, silent_s, leader_s, after):
    actions = node_actions(lease(state=state, silent_s=silent_s), leader_s=leader_s)
    assert [a.after for a in only(actions, SetNode)] == ([after] if after else [])


def test_a_returned_node_is_open_only_when_what_it_ran_is_settled():
    back = lease(state="RECONCILING", registered_s=5)
    open_end = LostAllocation(id="a0", node_id=back.id)
    assert node_actions(back, lost=(open_end,)) == []
    assert one(node_actions(back), SetNode).after == "ONLINE"


def test_a_returned_node_that_says_nothing_is_believed_after_a_while():
    back = lease(state="RECONCILING", registered_s=61)
    actions = node_actions(back, lost=(LostAllocation(id="a0", node_id=back.id),))
    assert one(actions, SetAllocation).after == "CLEANED"


def test_removing_a_lost_node_frees_its_slots():
    snapshot = LifecycleSnapshot(
        leader_since=ago(1000), lost=(LostAllocation(id="a0", node_id="gone"),)
    )
    (step,) = decide(snapshot, now=NOW, policy=POLICY)
    assert one(step.actions, SetAllocation).after == "CLEANED"


def test_heartbeats_slow_down_in_large_clusters():
    assert heartbeat_interval_s(10, least_s=5) == 5
    assert heartbeat_interval_s(1000, least_s=5) == 20


def test_a_silent_node_flags_its_trials_and_a_heard_one_unflags_them():
    quiet = lease("n0", "SUSPECT", silent_s=20)
    actions = actions_of(trial(attempt(member(0)), flags=("STALLED",)), quiet)
    assert one(actions, SetFlags).flags == ("STALLED", "UNREACHABLE")
    actions = actions_of(trial(attempt(member(0)), flags=("UNREACHABLE",)))
    assert one(actions, SetFlags).flags == ()


# ---- experiments


@pytest.mark.parametrize(
    ("state", "desired", "finished", "trials", "path"),
    [
        ("QUEUED", "run", True, {"QUEUED": 1}, []),
        ("QUEUED", "run", True, {"STARTING": 1}, ["RUNNING"]),
        ("QUEUED", "run", True, {}, ["FAILED"]),
        ("QUEUED", "run", False, {}, []),
        ("RUNNING", "run", True, {"COMPLETED": 1}, ["COMPLETED"]),
        ("QUEUED", "run", True, {"COMPLETED": 1}, ["RUNNING", "COMPLETED"]),
        ("RUNNING", "run", False, {"COMPLETED": 1}, []),
        ("RUNNING", "run", True, {"COMPLETED": 1, "RUNNING": 1}, []),
        ("RUNNING", "run", True, {"COMPLETED": 1, "FAILED": 3}, ["COMPLETED"]),
        ("RUNNING", "run", True, {"FAILED": 3, "CANCELED": 1}, ["FAILED"]),
        ("RUNNING", "run", True, {"CANCELED": 2}, ["STOPPING", "CANCELED"]),
        ("RUNNING", "stop", False, {"RUNNING": 1}, ["STOPPING"]),
        ("QUEUED", "stop", True, {"CANCELED": 1}, ["STOPPING", "CANCELED"]),
        ("PAUSED", "stop", True, {"PAUSED": 1}, ["STOPPING"]),
        ("STOPPING", "stop", False, {"STOPPING": 1}, []),
        ("STOPPING", "stop", True, {"CANCELED": 1, "COMPLETED": 1}, ["CANCELED"]),
        ("STOPPING", "stop", True, {"COMPLETED": 2}, ["COMPLETED"]),
        ("COMPLETED", "stop", True, {"COMPLETED": 2}, []),
        ("RUNNING", "kill", False, {"RUNNING": 1}, ["STOPPING"]),
        ("QUEUED", "pause", True, {"QUEUED": 1}, []),
        ("QUEUED", "pause", True, {"PAUSED": 1}, ["PAUSED"]),
        ("RUNNING", "pause", True, {"RUNNING": 1, "PAUSED": 1}, []),
        ("RUNNING", "pause", True, {"COMPLETED": 1, "PAUSED": 1}, ["PAUSED"]),
        ("RUNNING", "pause", False, {"COMPLETED": 1}, ["PAUSED"]),
        ("RUNNING", "pause", True, {"COMPLETED": 1}, ["COMPLETED"]),
        ("PAUSED", "pause", True, {"PAUSED": 1}, []),
        ("PAUSED", "run", True, {"PAUSED": 1}, ["QUEUED"]),
        ("PAUSED", "run", True, {"PAUSED": 1, "COMPLETED": 1}, ["QUEUED", "RUNNING"]),
        ("PAUSED", "pause", True, {"CANCELED": 1}, ["STOPPING", "CANCELED"]),
        ("PAUSED", "kill", True, {"CANCELED": 1}, ["STOPPING", "CANCELED"]),
    ],
)
def test_experiments_follow_their_trials(state, desired, finished, trials, path):
    view = ExperimentView(
        id=1, state=state, desired=desired, search_finished=finished, num_by_state=trials
    )
    snapshot = LifecycleSnapshot(leader_since=ago(0), experiments=(view,))
    steps = decide(snapshot, now=NOW, policy=POLICY)
    actions = [a for step in steps for a in step.actions]
    assert [a.after for a in only(actions, SetExperiment)] == path
