"""What budgets lead to, decided from nothing but what is passed in."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.messages import Message, Rendered
from muster_server.domain.quota.budgets import (
    Alert,
    BudgetLimits,
    BudgetSnapshot,
    EndExperiment,
    ExperimentBudget,
    Holding,
    ProjectBudget,
    SetProject,
    Spending,
    TellWaiting,
    amount,
    assess,
    decide_budgets,
    exhausted_reason,
    slot_seconds,
    spending,
    waiting_reason,
)

T0 = dt.datetime(2026, 1, 2, 3, 0, tzinfo=dt.UTC)
WHY = Rendered("why")
"""A reason that is stored already."""


def at(hours):
    return T0 + dt.timedelta(hours=hours)


def experiment(budget=None, *, hours=0.0, cost=0.0, **more):
    return ExperimentBudget(
        id=12,
        project_id=3,
        state="RUNNING",
        budget=budget,
        spent=Spending(slot_s=hours * 3600, cost=cost),
        since=T0,
        **more,
    )


def project(budget=None, *, hours=0.0, **more):
    return ProjectBudget(
        id=3,
        name="vision",
        budget=budget,
        spent=Spending(slot_s=hours * 3600),
        since=T0,
        **more,
    )


def decide(*experiments, projects=(), now=T0):
    return decide_budgets(
        BudgetSnapshot(experiments=experiments, projects=tuple(projects)), now=now
    )


# ---------------------------------------------------------------- spending


def test_held_slots_cost_from_their_reservation_until_now():
    spent = spending(
        3600.0,
        2.0,
        [
            Holding(since=at(0), slots=4, price_per_slot_hour=0.5),
            Holding(since=at(1), slots=2, price_per_slot_hour=0.0),
        ],
        at(2),
    )
    assert spent.slot_hours == 1 + 4 * 2 + 2 * 1
    assert spent.cost == 2.0 + 4 * 2 * 0.5
    assert (spent.slots, spent.cost_per_hour) == (6, 2.0)


def test_slots_of_a_lost_node_cost_until_it_was_lost():
    lost = Holding(since=at(0), until=at(1), slots=4, price_per_slot_hour=1.0)
    spent = spending(0.0, 0.0, [lost], at(10))
    assert (spent.slot_hours, spent.cost, spent.slots, spent.cost_per_hour) == (4, 4.0, 0, 0.0)


def test_a_clock_that_went_backwards_costs_nothing_and_gives_nothing_back():
    assert slot_seconds(at(1), at(0), 8) == 0.0
    assert spending(0.0, 0.0, [Holding(since=at(1), slots=8)], at(0)).slot_s == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 48), st.floats(0, 48), st.integers(1, 64)), max_size=8),
    st.floats(48, 96),
)
def test_settling_an_allocation_changes_nothing_that_was_shown(parts, now_h):
    """Spent until now is the same whether ended allocations were settled or are counted still."""
    now = at(now_h)
    held = [Holding(since=at(start), slots=n) for start, _, n in parts]
    at_the_end = sum(slot_seconds(h.since, now, h.slots) for h in held)
    settled = sum(slot_seconds(h.since, now, h.slots) for h in held[::2])
    assert spending(settled, 0.0, held[1::2], now).slot_s == pytest.approx(at_the_end)


# ---------------------------------------------------------------- assessing


def test_each_limit_is_measured_on_its_own():
    budget = BudgetLimits(slot_hours=10, cost=50, deadline_at=at(6))
    spent = Spending(slot_s=5 * 3600, cost=10, slots=5, cost_per_hour=20)
    hours, cost, deadline = assess(budget, spent, since=T0, now=at(3), currency="EUR")
    assert (hours.spent, hours.share, hours.unit) == (5, 0.5, "slot-hours")
    assert hours.exhausted_at == at(4)
    assert (cost.share, cost.unit, cost.exhausted_at) == (0.2, "EUR", at(5))
    assert (deadline.spent, deadline.share, deadline.limit_at) == (3, 0.5, at(6))


def test_nothing_is_forecast_while_nothing_is_held():
    (usage,) = assess(
        BudgetLimits(slot_hours=1), Spending(slot_s=60), since=T0, now=T0, currency="USD"
    )
    assert usage.exhausted_at is None


def test_a_deadline_counts_as_passed_exactly_when_it_is():
    budget = BudgetLimits(deadline_at=at(1))
    before, after = (
        assess(budget, Spending(), since=T0, now=now, currency="USD")[0]
        for now in (at(1) - dt.timedelta(microseconds=1), at(1))
    )
    assert not before.is_exhausted
    assert after.is_exhausted


def test_a_deadline_before_its_beginning_has_passed():
    budget = BudgetLimits(deadline_at=at(-1))
    (usage,) = assess(budget, Spending(), since=T0, now=T0, currency="USD")
    assert usage.is_exhausted


def test_the_sentence_names_the_budget_its_limit_and_what_was_spent():
    budget = BudgetLimits(slot_hours=10, cost=50, deadline_at=at(6))
    spent = Spending(slot_s=36_072)
    reason = exhausted_reason(assess(budget, spent, since=T0, now=T0, currency="EUR"))
    assert reason.english == (
        "The experiment has used up its budget of 10 slot-hours: 10.02 slot-hours spent"
    )
    spent = Spending(cost=50.5)
    reason = exhausted_reason(assess(budget, spent, since=T0, now=T0, currency="EUR"), "vision")
    assert reason.english == "Project vision has used up its budget of 50 EUR: 50.5 EUR spent"
    reason = exhausted_reason(assess(budget, Spending(), since=T0, now=at(7), currency="EUR"))
    assert reason.english == (
        "The budget deadline of the experiment, 2026-01-02 09:00:00 UTC, has passed"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (10, "10"),
        (10.023, "10.02"),
        (12345.5, "12,345.5"),
        (0.00123, "0.00123"),
        (1, "1"),
    ],
)
def test_amounts_are_short_and_never_zero_for_something(value, text):
    assert amount(value) == text


# ---------------------------------------------------------------- alerts


def test_each_threshold_alerts_once():
    budget = BudgetLimits(slot_hours=10, alert_at=(0.5, 0.9))
    (alert,) = decide(experiment(budget, hours=5))
    assert isinstance(alert, Alert)
    assert (alert.measure, alert.threshold) == ("slot_hours", 0.5)
    assert (
        alert.reason.english
        == "The experiment has spent 50% of its budget of 10 slot-hours: 5 slot-hours"
    )
    given_already = frozenset({("slot_hours", "10.0", 0.5)})
    assert decide(experiment(budget, hours=8, alerted=given_already)) == []
    (second,) = decide(experiment(budget, hours=9.5, alerted=given_already))
    assert second.threshold == 0.9


def test_a_raised_limit_alerts_anew():
    alerted = frozenset({("slot_hours", "10.0", 0.5)})
    (alert,) = decide(experiment(BudgetLimits(slot_hours=20), hours=11, alerted=alerted))
    assert (alert.limit_text, alert.threshold) == ("20.0", 0.5)


def test_thresholds_that_are_jumped_over_alert_too():
    budget = BudgetLimits(slot_hours=10, alert_at=(0.5, 0.9))
    found = decide(experiment(budget, hours=11))
    assert [a.threshold for a in found if isinstance(a, Alert)] == [0.5, 0.9, 1.0]
    assert isinstance(found[-1], EndExperiment)


@given(st.lists(st.floats(0, 40), min_size=1, max_size=20))
def test_over_any_course_of_spending_no_alert_is_given_twice(course):
    budget = BudgetLimits(slot_hours=10, cost=5, alert_at=(0.25, 0.5, 0.9))
    alerted = frozenset()
    given_alerts = []
    for hours in sorted(course):
        for decision in decide(experiment(budget, hours=hours, cost=hours / 4, alerted=alerted)):
            if isinstance(decision, Alert):
                key = (decision.measure, decision.limit_text, decision.threshold)
                given_alerts.append(key)
                alerted |= {key}
    assert len(given_alerts) == len(set(given_alerts))
    due = {t for t in (0.25, 0.5, 0.9, 1.0) if max(course) / 10 >= t}
    assert {t for m, _, t in given_alerts if m == "slot_hours"} == due


# ---------------------------------------------------------------- experiments


def ended(decisions):
    return [d for d in decisions if not isinstance(d, Alert)]


def test_an_exhausted_experiment_ends():
    (end,) = ended(decide(experiment(BudgetLimits(slot_hours=1), hours=1)))
    assert end == EndExperiment(
        experiment_id=12, reason=Message("budget.used_up", limit="1", spent="1", unit="slot-hours")
    )


def test_one_that_is_being_stopped_is_left_alone():
    for desired in ("stop", "kill"):
        assert ended(decide(experiment(BudgetLimits(slot_hours=1), hours=2, desired=desired))) == []


def test_one_that_ends_for_its_budget_is_not_ended_again():
    case = experiment(BudgetLimits(slot_hours=1), hours=2, exhausted_reason=WHY)
    assert ended(decide(case)) == []
    raised_too_late = replace(case, budget=BudgetLimits(slot_hours=100))
    assert ended(decide(raised_too_late)) == []


def test_nothing_follows_for_one_that_has_ended():
    case = replace(experiment(BudgetLimits(slot_hours=1), hours=2), state="COMPLETED")
    assert decide(case) == []


# ---------------------------------------------------------------- projects


def test_an_exhausted_project_ends_what_runs_and_keeps_back_what_waits():
    running = experiment(num_active=1)
    waiting = replace(experiment(num_active=0), id=13)
    elsewhere = replace(experiment(num_active=1), id=14, project_id=4)
    used_up = project(BudgetLimits(slot_hours=1), hours=1.5, untold=(7, 8))
    reason = Message(
        "budget.project_used_up", project="vision", limit="1", spent="1.5", unit="slot-hours"
    )
    assert ended(decide(running, waiting, elsewhere, projects=[used_up])) == [
        SetProject(project_id=3, before=None, reason=reason),
        TellWaiting(project_id=3, trial_ids=(7, 8), reason=waiting_reason(reason)),
        EndExperiment(experiment_id=12, reason=reason),
    ]


def test_a_raised_project_budget_lets_it_go_on():
    raised = project(BudgetLimits(slot_hours=10), hours=1.5, exhausted_reason=WHY)
    assert ended(decide(projects=[raised])) == [SetProject(project_id=3, before=WHY, reason=None)]
    removed = project(None, hours=1.5, exhausted_reason=WHY)
    assert decide(projects=[removed]) == [SetProject(project_id=3, before=WHY, reason=None)]


def test_the_reason_of_an_exhausted_project_is_not_rewritten_at_every_pass():
    still = project(
        BudgetLimits(slot_hours=1),
        hours=1.7,
        exhausted_reason=WHY,
        alerted=frozenset({("slot_hours", "1.0", t) for t in (0.5, 0.9, 1.0)}),
    )
    assert decide(projects=[still]) == []
    assert decide(projects=[replace(still, untold=(9,))]) == [
        TellWaiting(project_id=3, trial_ids=(9,), reason=waiting_reason(WHY))
    ]
