"""Gangs of several roles: whose end ends the others, and what becomes of a failure."""

import dataclasses

import pytest

from muster.document.roles import RoleSection
from muster_server.domain.lifecycle import AllocationView, SetAttempt, SetDesired, SetTrial
from muster_server.domain.states import Termination

from .test_lifecycle import actions_of, ago, attempt, ended, one, only, trial

TRAINER = RoleSection(entrypoint=("trainer.py",), on_end="finish")
ROLLOUT = RoleSection(entrypoint=("rollout.py",), on_end="wait", count=2)


def member(number, role, index, observed="RUNNING", desired="start", exit=None):
    return AllocationView(
        id=f"a{number}",
        node_id=f"id-n{number % 2}",
        node_name=f"n{number % 2}",
        node_rank=number,
        observed=observed,
        desired=desired,
        state_since=ago(1),
        exit=exit,
        role=role,
        role_index=index,
    )


def gang(trainer, first, second, *, state="RUNNING", rollout=ROLLOUT, **kwargs):
    """trainer, first, second: what differs from a member that runs."""
    members = (
        member(0, "trainer", 0, **trainer),
        member(1, "rollout", 0, **first),
        member(2, "rollout", 1, **second),
    )
    roles = {"trainer": TRAINER, "rollout": rollout}
    return trial(attempt(*members, state=state, **kwargs), roles=roles)


WELL = {"observed": "EXITED", "exit": ended()}
FAILED = {"observed": "EXITED", "exit": ended("user_error", rank=1, message="no data")}


def test_all_start_once_each_is_ready_and_meet_without_a_rendezvous():
    ready = {"observed": "READY", "desired": "prepare"}
    preparing = {"observed": "PREPARING", "desired": "prepare"}
    waiting = gang(ready, ready, preparing, state="PREPARING")
    assert only(actions_of(waiting), SetDesired) == []
    told = only(actions_of(gang(ready, ready, ready, state="PREPARING")), SetDesired)
    assert {(t.allocation_id, t.after) for t in told} == {(f"a{n}", "start") for n in range(3)}


def test_the_end_of_the_deciding_role_asks_the_others_to_stop():
    actions = actions_of(gang(WELL, {}, {}))
    assert one(actions, SetAttempt).after == "WINDING_DOWN"
    told = [t for t in only(actions, SetDesired) if t.after == "stop"]
    assert [(t.allocation_id, t.kind, t.grace_s) for t in told] == [
        ("a1", "finished", None),
        ("a2", "finished", None),
    ]
    assert told[0].reason == "every member of trainer has ended"


@pytest.mark.parametrize("last", [ended("stopped"), ended("user_error", message="hung up")])
def test_the_trial_is_completed_however_the_others_then_end(last):
    asked = {"observed": "EXITED", "desired": "stop", "exit": last}
    actions = actions_of(gang(WELL, asked, asked, state="WINDING_DOWN"))
    assert one(actions, SetAttempt).after == "SUCCEEDED"
    assert one(actions, SetTrial).after == "COMPLETED"
    assert "every member of trainer exited with 0" in one(actions, SetTrial).reason


def test_a_role_that_waits_ends_alone_and_the_others_have_all_the_time_they_need():
    early = {"observed": "CLEANED", "exit": ended()}
    since = dataclasses.replace(gang({}, early, early).attempt.allocations[1], state_since=ago(9e5))
    running = gang({}, early, early)
    members = (running.attempt.allocations[0], since, running.attempt.allocations[2])
    whole = dataclasses.replace(
        running, attempt=dataclasses.replace(running.attempt, allocations=members)
    )
    assert actions_of(whole) == []


def test_a_failure_ends_the_attempt_and_names_the_member():
    actions = actions_of(gang({}, FAILED, {}))
    attempt_end = one(actions, SetAttempt)
    assert (attempt_end.after, attempt_end.termination) == ("FAILED", Termination.USER_ERROR)
    assert attempt_end.reason == "rollout/0 on n1 exited with code 1: no data"
    assert {t.allocation_id for t in only(actions, SetDesired)} == {"a0", "a2"}


def test_an_ignored_failure_ends_nothing():
    ignoring = dataclasses.replace(ROLLOUT, on_failure="ignore")
    gone = {**FAILED, "observed": "CLEANED"}
    assert actions_of(gang({}, gone, {}, rollout=ignoring)) == []


def test_what_could_not_be_prepared_is_not_ignored():
    ignoring = dataclasses.replace(ROLLOUT, on_failure="ignore")
    ready = {"observed": "READY", "desired": "prepare"}
    lacking = {"observed": "PREPARE_FAILED", "desired": "prepare"}
    actions = actions_of(gang(ready, ready, lacking, state="PREPARING", rollout=ignoring))
    assert one(actions, SetAttempt).after == "FAILED"


def test_a_user_who_stops_it_goes_before_the_deciding_role():
    stopped = dataclasses.replace(gang(WELL, {}, {}), desired="stop")
    told = only(actions_of(stopped), SetDesired)
    assert {t.kind for t in told} == {"user"}
