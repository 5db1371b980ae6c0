"""Retry or give up, and whose budget pays."""

import pytest

from muster_server.domain.lifecycle.restarts import (
    Failure,
    GiveUp,
    RestartPolicy,
    Retry,
    backoff_s,
    decide_restart,
)
from muster_server.domain.states import Termination

POLICY = RestartPolicy()


def decide(termination=Termination.NODE_LOST, **changes):
    values = {
        "failures_user": 0,
        "failures_infra": 0,
        "no_progress": 0,
        "has_trained": True,
        "has_progressed": False,
        "budget_user": 0,
        "budget_infra": 3,
    }
    return decide_restart(Failure(termination=termination, **values | changes), policy=POLICY)


@pytest.mark.parametrize(
    ("failed_before", "delay_s"), [(0, 0.0), (1, 10.0), (2, 20.0), (5, 160.0), (50, 600.0)]
)
def test_infra_back_off_begins_with_the_second_restart_and_doubles_to_a_limit(
    failed_before, delay_s
):
    decision = decide(failures_infra=failed_before, budget_infra=100, has_progressed=True)
    assert isinstance(decision, Retry)
    assert decision.delay_s == delay_s
    assert decision.reason.endswith("at once" if not delay_s else f"in {delay_s:g} s")
    assert decision.failures_infra == failed_before + 1


def test_user_failures_are_charged_to_their_own_budget():
    decision = decide(Termination.USER_ERROR, budget_user=1, failures_infra=3)
    assert isinstance(decision, Retry)
    assert (decision.failures_user, decision.failures_infra) == (1, 3)
    assert decision.delay_s == 10.0


def test_without_budget_it_gives_up_and_says_which():
    decision = decide(Termination.USER_ERROR)
    assert decision == GiveUp(
        termination=Termination.USER_ERROR,
        failures_user=1,
        failures_infra=0,
        no_progress=1,
        reason="not restarted: restarts.user is 0",
    )
    decision = decide(failures_infra=3, has_progressed=True)
    assert isinstance(decision, GiveUp)
    assert decision.reason == "not restarted: all 3 restarts that restarts.infra allows are used"


@pytest.mark.parametrize("termination", [Termination.USER_ERROR, Termination.WORKER_KILLED])
def test_three_attempts_without_a_newer_checkpoint_end_it_whatever_budget_is_left(termination):
    decision = decide(termination, no_progress=2, budget_user=100, budget_infra=100)
    assert isinstance(decision, GiveUp)
    assert decision.termination is Termination.NO_PROGRESS
    assert decision.reason == (
        "not restarted: 3 attempts in a row ended without a newer checkpoint, which ends a trial "
        "whatever restarts allows; save checkpoints more often (checkpoints.every)"
    )


def test_what_is_killed_for_ever_ends_by_one_rule_or_the_other():
    """Whether it saves between the kills, or never does."""
    for has_progressed, ends, num_attempts in (
        (False, Termination.NO_PROGRESS, 3),
        (True, Termination.WORKER_KILLED, 4),
    ):
        used, no_progress, attempts = 0, 0, 0
        while True:
            attempts += 1
            decision = decide(
                Termination.WORKER_KILLED,
                failures_infra=used,
                no_progress=no_progress,
                has_progressed=has_progressed,
            )
            if isinstance(decision, GiveUp):
                break
            used, no_progress = decision.failures_infra, decision.no_progress
        assert (decision.termination, attempts) == (ends, num_attempts)


def test_a_newer_checkpoint_starts_the_count_again():
    decision = decide(no_progress=2, has_progressed=True)
    assert isinstance(decision, Retry)
    assert decision.no_progress == 0


def test_an_attempt_that_never_trained_says_nothing_about_progress():
    decision = decide(Termination.PREPARE_FAILED, no_progress=2, has_trained=False)
    assert isinstance(decision, Retry)
    assert decision.no_progress == 2
    assert decision.delay_s == 1.0


def test_preemption_is_never_charged():
    decision = decide(Termination.PREEMPTED, no_progress=2, failures_infra=3)
    assert isinstance(decision, Retry)
    assert (decision.failures_infra, decision.no_progress, decision.delay_s) == (3, 2, 0.0)


def test_what_ended_on_purpose_is_not_tried_again():
    assert isinstance(decide(Termination.CANCELED), GiveUp)


def test_back_off_survives_any_exponent():
    assert backoff_s(10**6, policy=POLICY) == 600.0


def test_leaving_a_node_out_for_the_first_time_is_not_charged():
    decision = decide(Termination.PREFLIGHT_FAILED, failures_infra=3, leaves_out="n2")
    assert isinstance(decision, Retry)
    assert (decision.failures_infra, decision.delay_s) == (3, 1.0)
    assert decision.reason == "restart without n2, not charged, in 1 s"


def test_but_nothing_is_tried_again_where_no_restart_is_wanted():
    decision = decide(Termination.PREFLIGHT_FAILED, budget_infra=0, leaves_out="n2")
    assert isinstance(decision, GiveUp)
