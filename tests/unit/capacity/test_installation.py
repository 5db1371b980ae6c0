"""An installation follows the law of utilisation, and shares transactions when it is busy."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest


def costs_of(capacity: SimpleNamespace, **more: float) -> Any:
    costs = capacity.costs
    call = costs.CallCost(
        **{
            "loop": 0.001,
            "each": 0.0005,
            "batch": 0.0015,
            "database_each": 0.0004,
            "database_batch": 0.0008,
            "controller": 0.0002,
            "spread": (1.0,),
            "database_spread": (1.0,),
            **more,
        }
    )
    used = costs.Used(server=0.02, controller=0.02, database=0.01)
    trial = costs.TrialCost(alone=used, burst=used, burst_per_s=50.0)
    return costs.Costs(
        machine="none", load="0", base=costs.Used(controller=0.02), node=costs.Used(),
        running=costs.Used(), calls=dict.fromkeys(costs.CALLS, call), trials={1: trial, 64: trial},
    )  # fmt: skip


def test_loads_follow_the_law_of_utilisation(capacity: SimpleNamespace) -> None:
    """Without anything to share, what a part is busy is rate times cost."""
    costs = costs_of(capacity, batch=0.0, database_batch=0.0)
    size = capacity.installation.Installation(nodes=500, training=100)
    outcome = capacity.installation.simulate(costs, size)
    rate = sum(capacity.installation.call_rates(size).values())
    assert rate == pytest.approx(50 + 500 / 25 + 2 * 100 / 5)
    assert outcome.loads["server"] == pytest.approx(rate * 0.0015, rel=0.03)
    assert outcome.loads["database"] == pytest.approx(rate * 0.0004, rel=0.03)
    assert outcome.loads["controller"] == pytest.approx(0.02 + rate * 0.0002)


def test_heartbeats_that_wait_share_transactions(capacity: SimpleNamespace) -> None:
    """The busier a server, the more of its heartbeats share one, and the less each of them takes."""
    outcomes = [
        capacity.installation.simulate(
            costs_of(capacity), capacity.installation.Installation(nodes=300, training=n)
        )
        for n in (10, 300, 550)
    ]
    shared = [one.shared for one in outcomes]
    assert shared[0] == pytest.approx(1.0, abs=0.15)
    assert shared == sorted(shared)
    assert shared[-1] > shared[0] + 0.02
    assert outcomes[-1].p95_ms > outcomes[0].p95_ms


def test_more_nodes_are_never_less_load(capacity: SimpleNamespace) -> None:
    outcomes = [
        capacity.installation.simulate(
            costs_of(capacity), capacity.installation.Installation(nodes=n, training=n)
        )
        for n in (50, 200, 500, 2_000, 20_000)
    ]
    for part in ("server", "controller", "database"):
        loads = [one.loads[part] for one in outcomes]
        assert loads == sorted(loads), part
    assert outcomes[-1].p95_ms == math.inf, "more than one server can do"
    assert outcomes[-1].fullest()[0][0] == "server"
