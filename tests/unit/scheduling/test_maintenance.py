"""Maintenance windows: what starts before, during and after them, and what those who wait are told."""

import pytest

from muster_server.domain.nodes.maintenance import Schedule, describe_s
from muster_server.domain.scheduling import Placement, Scheduler, SchedulerPolicy
from support.scheduling import (
    NOW,
    at,
    make_node,
    make_queued,
    make_snapshot,
    make_window,
    under_windows,
)

POLICY = SchedulerPolicy()
HOUR = 3600.0


def decide(windows, nodes, trial, *, now=NOW, scheduler=None):
    snapshot = make_snapshot(under_windows(windows, nodes, now), [trial])
    decided = (scheduler or Scheduler()).run(snapshot, now=now, policy=POLICY)
    (decision,) = [*decided.actions, *decided.waits()]
    return decision


GPU = {"pool": "gpu"}
SCOPES = {
    "the cluster": ({}, False),
    "its pool": ({"pools": ("gpu",)}, False),
    "another pool": ({"pools": ("cpu",)}, True),
    "its node": ({"nodes": ("g1",)}, False),
    "another node": ({"nodes": ("g2",)}, True),
    "another pool and its node": ({"pools": ("cpu",), "nodes": ("g1",)}, False),
}


@pytest.mark.parametrize("running", ["keep", "checkpoint"])
@pytest.mark.parametrize(("scope", "starts"), SCOPES.values(), ids=SCOPES)
def test_nothing_starts_in_the_scope_of_an_active_make_window(scope, starts, running):
    nodes, trial = [make_node("g1", 2, **GPU)], make_queued(1, 2, **GPU)
    decision = decide([make_window(running=running, **scope)], nodes, trial)
    assert isinstance(decision, Placement) is starts


@pytest.mark.parametrize(("scope", "starts"), SCOPES.values(), ids=SCOPES)
def test_a_time_limit_that_reaches_into_a_window_waits_for_it(scope, starts):
    nodes, trial = [make_node("g1", 2, **GPU)], make_queued(1, 2, limit_s=2 * HOUR, **GPU)
    decision = decide([make_window(HOUR, 2 * HOUR, **scope)], nodes, trial)
    assert isinstance(decision, Placement) is starts


@pytest.mark.parametrize("running", ["keep", "checkpoint"])
@pytest.mark.parametrize(
    ("limit_s", "starts"), [(0, True), (599, True), (600, True), (601, False), (7200, False)]
)
def test_a_trial_starts_before_a_window_if_its_limit_ends_by_then(limit_s, starts, running):
    planned = make_window(600, 4000, running=running)
    decision = decide([planned], [make_node("a", 2)], make_queued(1, 2, limit_s=limit_s))
    assert isinstance(decision, Placement) is starts


@pytest.mark.parametrize(("now_s", "starts"), [(-1, True), (0, False), (3599, False), (3600, True)])
def test_a_window_begins_and_ends_on_time_for_a_scheduler_that_remembers(now_s, starts):
    scheduler, nodes, trial = Scheduler(), [make_node("a", 2)], make_queued(1, 2)
    planned = make_window(0, HOUR)
    busy = [make_node("a", 2, held=2)]
    for earlier in (-100, *range(-60, now_s, 600)):
        decide([planned], busy, trial, now=at(earlier), scheduler=scheduler)
    decision = decide([planned], nodes, trial, now=at(now_s), scheduler=scheduler)
    assert isinstance(decision, Placement) is starts


def test_time_passes_until_a_limit_reaches_into_the_make_window():
    """Nothing changes but the clock: the same objects, seen later."""
    scheduler, trial = Scheduler(), make_queued(1, 2, limit_s=600)
    nodes = under_windows([make_window(1000, 2000)], [make_node("a", 2, held=2)])
    free = under_windows([make_window(1000, 2000)], [make_node("a", 2)])

    def reason_at(seconds, views):
        decided = scheduler.run(make_snapshot(views, [trial]), now=at(seconds), policy=POLICY)
        (decision,) = [*decided.actions, *decided.waits()]
        return decision.reason.english

    assert "none free" in reason_at(0, nodes)
    assert "none free" in reason_at(400, nodes)
    assert "its time limit of 10 min would reach into a maintenance" in reason_at(401, nodes)
    assert "would reach into" in reason_at(401, free)


def test_nodes_outside_of_the_window_are_used():
    nodes = [make_node("a", 2), make_node("b", 2)]
    trial = make_queued(1, 2, limit_s=HOUR)
    for scope in (make_window(nodes=("a",)), make_window(60, 120, nodes=("a",))):
        decision = decide([scope], nodes, trial)
        assert [share.node_name for share in decision.shares] == ["b"]
    gang = make_queued(1, 4, nodes=2, limit_s=HOUR)
    assert not isinstance(decide([make_window(60, 120, nodes=("a",))], nodes, gang), Placement)


def test_the_reason_names_the_window_and_what_helps():
    nodes = [make_node("g1", 4, **GPU), make_node("g2", 4, **GPU)]
    planned = [make_window(HOUR, 2 * HOUR, pools=("gpu",))]
    decision = decide(planned, nodes, make_queued(1, 2, limit_s=4 * HOUR, **GPU))
    assert decision.reason.english == (
        "Needs 2 cpu slots in pool gpu: its time limit of 4 h would reach into a maintenance "
        "(gpu, 2026-01-01 01:00–02:00 UTC: new switch). Starts automatically after the maintenance; "
        "lower `resources.max_duration` to start before it."
    )
    decision = decide([make_window(0, None)], nodes, make_queued(1, 2, **GPU))
    assert decision.reason.english == (
        "Needs 2 cpu slots in pool gpu: none free, 8 on 2 nodes in maintenance "
        "(2026-01-01 00:00 UTC –: new switch). Starts automatically after the maintenance."
    )


def test_a_cordoned_node_keeps_its_own_reason():
    nodes = [make_node("a", 2, scheduling="cordoned")]
    decision = decide([make_window()], nodes, make_queued(1, 2))
    assert "2 on cordoned node a" in decision.reason.english
    assert "maintenance" not in decision.reason.english


def test_a_trial_that_waits_for_busy_nodes_hears_of_the_window_too():
    nodes = [make_node("a", 2), make_node("b", 2, held=2)]
    decision = decide([make_window(60, 120, nodes=("a",))], nodes, make_queued(1, 2, limit_s=600))
    text = decision.reason.english
    assert "its time limit of 10 min would reach into a maintenance (a, 2026-01-01" in text
    assert "Starts when enough slots are free" in text


def test_only_active_windows_that_ask_for_it_stop_what_runs():
    windows = [
        make_window(running="keep", nodes=("a",)),
        make_window(id=2, nodes=("b",)),
        make_window(60, id=3),
    ]
    plan = Schedule(windows, NOW)
    assert plan.why_stopped(node="a", pool="default") == ""
    assert plan.why_stopped(node="b", pool="default") == (
        "maintenance (b, 2026-01-01 00:00–01:00 UTC: new switch)"
    )
    assert Schedule(windows, at(60)).why_stopped(node="a", pool="default") != ""


@pytest.mark.parametrize(
    ("windows", "limit_s", "code"),
    [
        ([make_window(pools=("gpu",))], 0, "pending.maintenance_pilots"),
        ([make_window()], 0, "pending.maintenance_pilots"),
        ([make_window(600, 700)], 601, "pending.maintenance_ahead"),
        ([make_window(600, 700)], 600, None),
        ([make_window(600, 700)], 0, None),
        ([make_window(pools=("cpu",)), make_window(nodes=("g1",))], 10_000, None),
        ([make_window(-100, -1)], 0, None),
    ],
)
def test_what_waits_in_a_pool_asks_for_no_pilots_that_it_could_not_use(windows, limit_s, code):
    reason = Schedule(windows, NOW).keeps_off("gpu", limit_s=limit_s)
    assert (None if reason is None else reason.code) == code


def test_spans_read_the_same_in_every_language():
    assert make_window(0, HOUR).span == "2026-01-01 00:00–01:00 UTC"
    assert make_window(0, None).span == "2026-01-01 00:00 UTC –"
    assert make_window(0, 30 * HOUR).span == "2026-01-01 00:00 – 2026-01-02 06:00 UTC"
    assert make_window(pools=("a", "b"), nodes=("c", "d", "e")).place == "a, b, c (+2)"
    assert [describe_s(s) for s in (14_400, 5400, 45, 0)] == ["4 h", "1 h 30 min", "45 s", "0 s"]
