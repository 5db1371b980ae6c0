"""Attempts that must give up their slots: each state in which it is asked, each way it can go."""

import datetime as dt

import pytest

from muster.wire import STOP_KINDS, ExitInfo, WorkerExit
from muster_server.domain.lifecycle import (
    AllocationView,
    AttemptView,
    LifecyclePolicy,
    LifecycleSnapshot,
    NodeLease,
    SetAllocation,
    SetAttempt,
    SetDesired,
    SetTrial,
    SetYield,
    TrialView,
    decide,
)
from muster_server.domain.states import Termination, YieldKind

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
POLICY = LifecyclePolicy()
ENDS = {
    "preempt": ("PREEMPTED", Termination.PREEMPTED, "QUEUED"),
    "drain": ("PREEMPTED", Termination.DRAINED, "QUEUED"),
    "resize": ("RESIZED", Termination.RESIZED, "QUEUED"),
    "pause": ("PREEMPTED", Termination.PAUSED, "PAUSED"),
    "budget": ("CANCELED", Termination.BUDGET_EXHAUSTED, "CANCELED"),
    "time_limit": ("CANCELED", Termination.TIME_LIMIT, "CANCELED"),
}


def ago(seconds):
    return NOW - dt.timedelta(seconds=seconds)


def member(rank=0, observed="RUNNING", desired="start", *, since_s=0.0, exit=None):
    return AllocationView(
        id=f"a{rank}",
        node_id=f"n{rank}",
        node_name=f"n{rank}",
        node_rank=rank,
        observed=observed,
        desired=desired,
        state_since=ago(since_s),
        exit=exit,
    )


def gone(cause="stopped", rank=0, observed="EXITED"):
    """A member that was told to stop, and how it ended."""
    failure = WorkerExit(local_rank=0, rank=rank, exit_code=1, at_ms=5, message="boom")
    info = ExitInfo(
        cause=cause, message="", first_failure=failure if cause == "user_error" else None
    )
    return member(rank, observed, "stop", exit=info)


def attempt(*members, state="RUNNING", kind=None, asked_s=1.0, **kwargs):
    return AttemptView(
        id=7,
        no=1,
        state=state,
        num_nodes=len(members),
        created_at=ago(100),
        started_at=ago(90) if state in ("RUNNING", "WINDING_DOWN") else None,
        yield_kind=YieldKind(kind) if kind else None,
        yield_reason="trial 9 needs them" if kind else "",
        yield_at=ago(asked_s) if kind else None,
        allocations=members,
        **kwargs,
    )


def trial(the_attempt=None, state="RUNNING", **kwargs):
    if the_attempt is not None and the_attempt.yield_kind is YieldKind.BUDGET:
        kwargs.setdefault("exhausted_reason", the_attempt.yield_reason)
    if the_attempt is not None and the_attempt.yield_kind is YieldKind.TIME_LIMIT:
        kwargs.setdefault("time_limit_reason", the_attempt.yield_reason)
    return TrialView(id=1, no=1, experiment_id=5, state=state, attempt=the_attempt, **kwargs)


def actions_of(the_trial, *, draining=(), lost=()):
    members = the_trial.attempt.allocations if the_trial.attempt else ()
    nodes = tuple(
        NodeLease(
            id=m.node_id,
            name=m.node_name,
            state="LOST" if m.node_id in lost else "ONLINE",
            last_seen_at=ago(70) if m.node_id in lost else NOW,
            registered_at=ago(1000),
            scheduling="draining" if m.node_id in draining else "open",
        )
        for m in members
    )
    snapshot = LifecycleSnapshot(leader_since=ago(1000), nodes=nodes, trials=(the_trial,))
    return [
        action
        for step in decide(snapshot, now=NOW, policy=POLICY)
        if step.subject.startswith("trial:")
        for action in step.actions
    ]


def only(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def one(actions, kind):
    (action,) = only(actions, kind)
    return action


# ---- being told


@pytest.mark.parametrize("kind", ["preempt", "resize", "drain", "pause", "budget", "time_limit"])
def test_running_members_are_told_why_and_keep_running_until_they_have_left(kind):
    actions = actions_of(trial(attempt(member(0), member(1), kind=kind)))
    told = only(actions, SetDesired)
    assert [(a.after, a.kind) for a in told] == [("stop", kind)] * 2
    assert {a.reason for a in told} == {"trial 9 needs them"}
    assert only(actions, SetAttempt) == []
    assert kind in STOP_KINDS


@pytest.mark.parametrize("kind", ["preempt", "resize", "drain", "pause"])
def test_before_the_start_the_attempt_ends_at_once_and_its_members_are_killed(kind):
    preparing = attempt(
        member(0, "READY", "prepare"), member(1, "PREPARING", "prepare"),
        state="PREPARING", kind=kind,
    )  # fmt: skip
    actions = actions_of(trial(preparing, "STARTING"))
    after, termination, _ = ENDS[kind]
    assert (one(actions, SetAttempt).after, one(actions, SetAttempt).termination) == (
        after,
        termination,
    )
    assert [a.after for a in only(actions, SetDesired)] == ["kill", "kill"]
    assert only(actions, SetTrial) == []  # only when nothing of it is left


def test_while_starting_those_that_run_are_stopped_and_those_that_do_not_are_killed():
    starting = attempt(
        member(0, "READY"), member(1, "STARTING"), member(2, "RUNNING"), state="STARTING",
        kind="preempt",
    )  # fmt: skip
    actions = actions_of(trial(starting, "STARTING"))
    assert [a.after for a in only(actions, SetDesired)] == ["kill", "stop", "stop"]


def test_it_does_not_become_running_while_it_gives_up_its_slots():
    starting = attempt(member(0, "RUNNING", "stop"), state="STARTING", kind="preempt")
    assert actions_of(trial(starting, "STARTING")) == []


@pytest.mark.parametrize(("asked_s", "after"), [(39, []), (41, ["kill"])])
def test_who_ignores_the_request_is_killed_after_the_grace(asked_s, after):
    deaf = attempt(member(0, "RUNNING", "stop"), kind="preempt", asked_s=asked_s)
    actions = actions_of(trial(deaf, stop_grace_s=30))
    assert [a.after for a in only(actions, SetDesired)] == after


@pytest.mark.parametrize(("since_s", "after"), [(39, []), (41, ["kill"])])
def test_the_grace_of_a_member_begins_when_it_was_told(since_s, after):
    slow = attempt(member(0, "STOPPING", "stop", since_s=since_s), kind="preempt", asked_s=500)
    actions = actions_of(trial(slow, stop_grace_s=30))
    assert [a.after for a in only(actions, SetDesired)] == after


# ---- having left


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("state", ["STARTING", "RUNNING", "WINDING_DOWN"])
@pytest.mark.parametrize("cause", ["stopped", "killed"])
def test_having_left_as_asked_or_killed_after_the_grace_charges_nobody(kind, state, cause):
    left = attempt(gone(cause, 0), gone("stopped", 1), state=state, kind=kind)
    before = "STARTING" if state == "STARTING" else "RUNNING"
    actions = actions_of(
        trial(left, before, failures_user=1, failures_infra=2, no_progress=1, budget_user=1)
    )
    after, termination, trial_after = ENDS[kind]
    end = one(actions, SetAttempt)
    assert (end.after, end.termination) == (after, termination)
    assert [a.after for a in only(actions, SetAllocation)] == ["CLEANED", "CLEANED"]
    last = only(actions, SetTrial)[-1]
    assert last.after == trial_after
    assert (last.failures_user, last.failures_infra, last.no_progress) == (None, None, None)
    assert "trial 9 needs them" in end.reason


def test_the_slots_must_be_free_before_the_trial_waits_again():
    half = attempt(gone("stopped", 0), member(1, "STOPPING", "stop"), kind="preempt")
    actions = actions_of(trial(half))
    assert only(actions, SetAttempt) == only(actions, SetTrial) == []
    assert one(actions, SetAllocation).after == "CLEANED"


def test_progress_made_before_it_left_counts():
    left = attempt(gone(), kind="preempt", resume_step=10)
    actions = actions_of(trial(left, no_progress=2, checkpoint_step=11))
    assert one(actions, SetTrial).no_progress == 0


def test_it_may_finish_instead():
    done = attempt(gone("success", 0), gone("success", 1), kind="preempt")
    actions = actions_of(trial(done))
    assert one(actions, SetAttempt).after == "SUCCEEDED"
    assert one(actions, SetTrial).after == "COMPLETED"


def test_half_finished_and_half_stopped_goes_on_later():
    mixed = attempt(gone("success", 0), gone("stopped", 1), kind="preempt")
    assert one(actions_of(trial(mixed)), SetTrial).after == "QUEUED"


def test_who_fails_because_its_peers_left_is_not_charged_but_named():
    broken = attempt(gone("stopped", 0), gone("user_error", 1), kind="preempt")
    actions = actions_of(trial(broken, budget_user=0))
    assert one(actions, SetAttempt).after == "PREEMPTED"
    assert "rank 1 on n1 exited with code 1: boom, while it left" in one(actions, SetAttempt).reason
    assert one(actions, SetTrial).after == "QUEUED"


@pytest.mark.parametrize("others", [[], [gone("success", 1)], [gone("user_error", 1)]])
@pytest.mark.parametrize(("budget", "after"), [(0, "FAILED"), (1, "RETRY_WAIT")])
def test_a_crash_of_its_own_is_a_failure_like_any_other(others, budget, after):
    crashed = attempt(gone("user_error", 0), *others, kind="preempt")
    actions = actions_of(trial(crashed, budget_user=budget))
    assert one(actions, SetAttempt).after == "FAILED"
    assert one(actions, SetTrial).after == after
    assert one(actions, SetTrial).failures_user == 1


def test_a_trial_that_the_search_has_paused_is_paused_whatever_its_processes_did():
    crashed = attempt(gone("user_error", 0), kind="pause")
    by_search = one(actions_of(trial(crashed, desired="pause", budget_user=0)), SetTrial)
    assert (by_search.after, by_search.failures_user) == ("PAUSED", None)
    by_user = one(actions_of(trial(crashed, experiment_desired="pause", budget_user=0)), SetTrial)
    assert by_user.after == "FAILED"


def test_a_crash_waits_for_the_others_that_were_told_to_leave():
    crashed = attempt(gone("user_error", 0), member(1, "STOPPING", "stop"), kind="preempt")
    assert only(actions_of(trial(crashed)), SetAttempt) == []


@pytest.mark.parametrize("other", [gone("stopped", 1), gone("success", 1), gone("user_error", 1)])
def test_a_node_lost_meanwhile_is_a_failure_of_the_infrastructure(other):
    cut = attempt(member(0, "STOPPING", "stop"), other, kind="preempt")
    actions = actions_of(trial(cut, on_disconnect="stop", budget_user=3), lost=("n0",))
    assert only(actions, SetAllocation)[0].after == "LOST"
    after = one(actions, SetTrial)
    assert after.after == "RETRY_WAIT"
    # What was cut off may still run for a while.
    assert after.not_before >= ago(70) + dt.timedelta(seconds=15 + 30 + 10)


@pytest.mark.parametrize(("kind", "wanted"), [("preempt", "stop"), ("pause", "early")])
def test_a_stop_goes_before_a_yield(kind, wanted):
    left = attempt(gone(), kind=kind)
    actions = actions_of(trial(left, "STOPPING", desired=wanted))
    assert one(actions, SetAttempt).after == "CANCELED"
    assert one(actions, SetTrial).after == ("CANCELED" if wanted == "stop" else "STOPPED_EARLY")


def test_a_stop_after_it_left_ends_the_trial():
    left = attempt(gone(), state="PREEMPTED", kind="preempt", termination="preempted")
    actions = actions_of(trial(left, desired="stop"))
    assert [a.after for a in only(actions, SetTrial)] == ["STOPPING", "CANCELED"]


# ---- what the lifecycle itself asks for


def test_a_pause_is_recorded_and_told():
    actions = actions_of(trial(attempt(member(0)), experiment_desired="pause"))
    assert one(actions, SetYield).kind is YieldKind.PAUSE
    assert (one(actions, SetDesired).after, one(actions, SetDesired).kind) == ("stop", "pause")


def test_draining_one_node_moves_the_whole_gang():
    actions = actions_of(trial(attempt(member(0), member(1))), draining=("n1",))
    assert one(actions, SetYield).kind is YieldKind.DRAIN
    assert one(actions, SetYield).reason == "n1 is being drained"
    assert [a.kind for a in only(actions, SetDesired)] == ["drain", "drain"]


@pytest.mark.parametrize("kind", ["preempt", "resize", "drain"])
def test_the_first_to_ask_stands_and_the_pause_follows_when_it_waits(kind):
    asked = attempt(member(0, "STOPPING", "stop"), kind=kind)
    assert actions_of(trial(asked, experiment_desired="pause"), draining=("n0",)) == []
    left = attempt(gone(), kind=kind)
    assert one(actions_of(trial(left, experiment_desired="pause")), SetTrial).after == "QUEUED"
    waiting = trial(state="QUEUED", experiment_desired="pause")
    assert one(actions_of(waiting), SetTrial).after == "PAUSED"


def test_one_that_is_nearly_done_is_let_finish():
    winding = attempt(member(0, "EXITED", exit=gone("success").exit), member(1))
    (done,) = only(actions_of(trial(winding)), SetAttempt)
    assert done.after == "WINDING_DOWN"
    winding = attempt(gone("success"), member(1), state="WINDING_DOWN")
    actions = actions_of(trial(winding, experiment_desired="pause"), draining=("n1",))
    assert only(actions, SetYield) == only(actions, SetDesired) == []


def test_a_node_whose_part_has_ended_needs_no_draining():
    actions = actions_of(
        trial(attempt(member(0, "CLEANED", "forget", exit=gone("success").exit), member(1))),
        draining=("n0",),
    )
    assert only(actions, SetYield) == []


def test_a_used_up_budget_ends_the_trial_with_its_sentence_after_a_checkpoint():
    sentence = "the budget of 10 slot-hours of experiment 5 is used up"
    actions = actions_of(trial(attempt(member(0)), exhausted_reason=sentence))
    assert (one(actions, SetYield).kind, one(actions, SetYield).reason) == (
        YieldKind.BUDGET,
        sentence,
    )
    assert (one(actions, SetTrial).after, one(actions, SetTrial).reason) == ("STOPPING", sentence)
    assert (one(actions, SetDesired).after, one(actions, SetDesired).kind) == ("stop", "budget")

    waiting = one(actions_of(trial(state="QUEUED", exhausted_reason=sentence)), SetTrial)
    assert (waiting.after, waiting.termination, waiting.reason) == (
        "CANCELED",
        Termination.BUDGET_EXHAUSTED,
        sentence,
    )


@pytest.mark.parametrize("by", ["desired", "experiment_desired"])
def test_a_kill_does_not_wait(by):
    actions = actions_of(trial(attempt(member(0), member(1, "STOPPING", "stop")), **{by: "kill"}))
    assert [(a.after, a.kind) for a in only(actions, SetDesired)] == [("kill", "user")] * 2
    killed = attempt(gone("killed"))
    assert only(actions_of(trial(killed, "STOPPING", **{by: "kill"})), SetTrial)[-1].after == (
        "CANCELED"
    )


# ---- waiting


@pytest.mark.parametrize("state", ["QUEUED", "RETRY_WAIT"])
def test_a_pause_keeps_the_time_before_which_it_must_not_run(state):
    later = ago(-100)
    actions = actions_of(trial(state=state, experiment_desired="pause", not_before=later))
    assert (one(actions, SetTrial).after, one(actions, SetTrial).not_before) == ("PAUSED", later)


@pytest.mark.parametrize(("in_s", "after"), [(100, "RETRY_WAIT"), (0, "QUEUED")])
def test_a_resumed_trial_waits_for_its_slots_once_it_may(in_s, after):
    actions = actions_of(trial(state="PAUSED", not_before=ago(-in_s)))
    assert one(actions, SetTrial).after == after
    assert actions_of(trial(state="PAUSED", experiment_desired="pause")) == []
