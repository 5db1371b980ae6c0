"""How many pilots are asked for, and why not more."""

import dataclasses
import datetime as dt
import random

import pytest

from muster_server.domain.providers import (
    CostLimit,
    Gang,
    Pilot,
    PilotState,
    Provider,
    plan_pilots,
)
from muster_server.domain.providers.planning import backoff_s

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def after(seconds):
    return NOW + dt.timedelta(seconds=seconds)


def provider(**changes):
    fields = {
        "name": "Slurm partition main",
        "slots": 8,
        "min_pilots": 0,
        "max_pilots": 100,
        "walltime_s": 43_200.0,
    }
    return Provider(**(fields | changes))


def gang(trial_id=1, nodes=1, slots=8, *, limit_s=3600.0, waits_s=100.0):
    return Gang(
        trial_id=trial_id,
        nodes=nodes,
        slots_per_node=slots,
        limit_s=limit_s,
        grace_s=30.0,
        since=after(-waits_s),
    )


def pilot(id_="a", state="pending", *, age_s=10.0, free=0, ends_s=None, **changes):
    is_up = state == "up"
    return Pilot(
        id=id_,
        state=PilotState(state),
        since=after(-age_s),
        ref="7",
        has_node=is_up,
        is_heard=is_up,
        was_up=is_up,
        free_slots=free,
        ends_at=None if ends_s is None else after(ends_s),
        **changes,
    )


def plan(gangs, pilots=(), **changes):
    return plan_pilots(provider(**changes), gangs, pilots, now=NOW)


def test_a_gang_gets_a_pilot_for_each_of_its_nodes():
    found = plan([gang(nodes=4)])
    assert (found.submit, found.cancel) == (4, ())
    assert found.told[1].english == "4 pilots of Slurm partition main requested"


def test_pilots_on_their_way_count_before_new_ones_are_asked_for():
    assert plan([gang(nodes=4)], [pilot("a"), pilot("b", "starting")]).submit == 2
    found = plan(
        [gang(nodes=2)], [pilot("a", reason="other jobs are ahead of it (Priority)"), pilot("b")]
    )
    assert found.submit == 0
    assert found.told[1].english == (
        "waiting for 2 pilots of Slurm partition main (job 7: other jobs are ahead of it (Priority))"
    )


def test_a_free_pilot_with_enough_time_is_used_and_one_without_is_not():
    assert plan([gang()], [pilot(state="up", free=8, ends_s=40_000)]).submit == 0
    assert plan([gang()], [pilot(state="up", free=8, ends_s=3000)]).submit == 1
    assert plan([gang()], [pilot(state="up", free=4, ends_s=40_000)]).submit == 1


def test_small_trials_share_a_pilot():
    assert plan([gang(n, slots=2) for n in range(9)]).submit == 3
    assert (
        plan([gang(n, slots=2) for n in range(4)], [pilot(state="up", free=4), pilot("b")]).submit
        == 0
    )


def test_a_gang_never_counts_one_pilot_as_two_nodes():
    assert plan([gang(nodes=2, slots=4)], [pilot(state="up", free=8)]).submit == 1


def test_gangs_are_served_whole_or_not_at_all():
    found = plan([gang(1, nodes=4), gang(2, nodes=2)], max_pilots=5)
    assert found.submit == 4
    assert found.told[2].code == "pilots.limit"
    found = plan([gang(1, nodes=4), gang(2)], [pilot("a"), pilot("b")], max_pilots=4)
    assert (found.submit, found.cancel) == (2, ())
    held = [pilot(str(n), "up") for n in range(3)]
    found = plan([gang(1, nodes=2), gang(2)], held, max_pilots=4)
    assert found.submit == 1, "the smaller gang behind still gets one"
    assert found.told[1].code == "pilots.limit"


@pytest.mark.parametrize(
    ("a_gang", "code"),
    [
        (gang(slots=9), "pilots.too_few_slots"),
        (gang(nodes=101), "pilots.too_many_nodes"),
        (gang(limit_s=43_200), "pilots.too_long"),
    ],
)
def test_what_pilots_can_never_hold_is_told(a_gang, code):
    found = plan([a_gang])
    assert (found.submit, found.told[1].code) == (0, code)


def test_failures_are_told_and_put_the_next_pilot_off():
    found = plan(
        [gang()], failures=2, not_before=after(60), problem="invalid account", min_pilots=3
    )
    assert found.submit == 0
    assert found.told[1].english == (
        "Slurm partition main is asked again at 12:01:00 UTC: invalid account"
    )
    assert plan([gang()], failures=2, not_before=after(-1)).submit == 1
    assert [backoff_s(n) for n in (1, 2, 3, 6, 99)] == [30, 60, 120, 900, 900]


def test_the_scheduler_has_a_moment_before_a_pilot_is_asked_for():
    assert plan([gang(waits_s=1)]).submit == 0


def test_a_minimum_is_kept_and_a_surplus_canceled_the_newest_first():
    assert plan([], min_pilots=2).submit == 2
    old, new = pilot("old", age_s=50), pilot("new", age_s=5)
    assert plan([], [old, new]).cancel == ("new", "old")
    assert plan([], [old, new], min_pilots=1).cancel == ("new",)
    assert plan([gang()], [old, new]).cancel == ("new",)


def test_what_runs_or_starts_is_never_canceled():
    assert (
        plan([], [pilot("a", "up", free=8), pilot("b", "starting"), pilot("c", "up")]).cancel == ()
    )


def test_each_attempt_of_an_exclusive_pool_has_pilots_of_its_own():
    small = [gang(1, slots=2), gang(2, nodes=2, slots=2)]
    found = plan(small, is_exclusive=True)
    assert found.owners == {(1, 1): 1, (2, 1): 2}
    assert found.submit == 3
    mine = pilot("mine", owner=(1, 1))
    others = [pilot("b", owner=(9, 1)), pilot("c", "up", free=8, owner=(9, 1)), pilot("d")]
    found = plan([gang(1)], [mine, *others], is_exclusive=True)
    assert (found.owners, found.cancel) == ({}, ("b", "d"))
    assert found.told[1].english == "waiting for 1 pilot of Slurm partition main"
    assert plan([gang(1)], [pilot("c", "up", free=8)], is_exclusive=True).submit == 1


def test_the_next_attempt_does_not_count_on_the_pilots_of_the_last_one():
    last = pilot("a", "up", free=8, owner=(1, 1))
    again = dataclasses.replace(gang(1), attempt_no=2)
    assert plan([again], [last], is_exclusive=True).owners == {(1, 2): 1}
    assert plan([gang(1)], [last], is_exclusive=True).owners == {}


def test_a_pool_that_is_shared_again_cancels_pilots_of_single_attempts():
    found = plan([gang(1)], [pilot("a", owner=(1, 1)), pilot("b", "starting", owner=(2, 1))])
    assert (found.submit, found.cancel) == (1, ("a",))


def cost(**changes):
    fields = {"currency": "", "limit": 300.0, "used": 0.0, "reserved": 0.0, "per_pilot": 96.0}
    return CostLimit(**(fields | changes))


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_a_limit_of_cost_holds_whole_gangs_back_and_is_told(is_exclusive):
    gangs = [gang(1, nodes=2), gang(2, nodes=2), gang(3)]
    found = plan(gangs, costs=(cost(),), is_exclusive=is_exclusive)
    assert found.submit == 3
    assert found.told[2].english == (
        "Slurm partition main may use 300 slot-hours: 0 are used, its pilots may use up to 192 more, and "
        "2 other pilots up to 192"
    )
    euros = cost(currency="EUR", limit=10.5, used=10.0, per_pilot=0.75)
    assert plan(gangs, costs=(cost(), euros)).told[3].english == (
        "Slurm partition main may cost 10.5 EUR: 10 are spent, its pilots may cost up to 0 more, and "
        "1 other pilot up to 0.75"
    )
    assert plan(gangs, costs=(cost(per_pilot=0.0),)).submit == 5, (
        "what costs nothing is not limited"
    )


def test_a_minimum_of_pilots_stays_within_the_limit_of_cost():
    assert plan([], min_pilots=5, costs=(cost(),)).submit == 3
    assert plan([], min_pilots=5, costs=(cost(used=300.0),)).submit == 0


@pytest.mark.parametrize("seed", range(30))
def test_a_plan_that_was_carried_out_asks_for_nothing_more(seed):
    rng = random.Random(seed)
    gangs = [
        gang(
            n, rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 8]), limit_s=rng.choice([0, 600, 40_000])
        )
        for n in range(rng.randrange(40))
    ]
    pilots = [
        pilot(str(n), rng.choice(["pending", "starting", "up", "ending"]), free=rng.randrange(9))
        for n in range(rng.randrange(30))
    ]
    limit = rng.randrange(5, 60)
    first = plan(gangs, pilots, max_pilots=limit)
    held = sum(p.state is not PilotState.ENDING for p in pilots)
    assert first.submit == 0 or held + first.submit <= limit, f"seed {seed}"
    kept = [p for p in pilots if p.id not in first.cancel]
    asked = [pilot(f"new{n}", "wanted", age_s=0) for n in range(first.submit)]
    second = plan(gangs, kept + asked, max_pilots=limit)
    assert (second.submit, second.cancel) == (0, ()), f"seed {seed}"
