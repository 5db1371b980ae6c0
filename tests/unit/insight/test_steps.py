"""What the measured steps of several ranks say together."""

from __future__ import annotations

import random

import pytest

from muster.timeline.ranks import bus_factor
from muster_server.domain.insight.step_rows import Rows
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import analyse

STEPS = range(1, 41)
WORLD = ProcessGroup(name="world", ranks=(0, 1))


def rows(step_ms: float = 100.0, **values: float) -> Rows:
    """Forty equal rows; `__` in a keyword stands for a slash."""
    named = {"time/step_ms": step_ms, "time/forward_ms": 20.0} | {
        key.replace("__", "/"): value for key, value in values.items()
    }
    return {name: dict.fromkeys(STEPS, value) for name, value in named.items()}


def exposed(ms: float, **values: float) -> Rows:
    return rows(comm__exposed_ms=ms, comm__world__exposed_ms=ms, **values)


def test_what_a_rank_waits_above_the_last_one_is_waiting_and_the_rest_transfer() -> None:
    found = analyse(
        {
            0: exposed(30.0, time__data_wait_ms=1.0),
            1: exposed(5.0, time__data_wait_ms=26.0),
        },
        [WORLD],
    )
    first, second = found.ranks
    assert (first.wait_ms, first.held_up_ms) == (pytest.approx(25), pytest.approx(0))
    assert (second.wait_ms, second.held_up_ms) == (pytest.approx(0), pytest.approx(25))
    culprit = found.culprit
    assert culprit is not None
    assert (culprit.rank, culprit.part) == (1, "time/data_wait_ms")
    assert (culprit.share, culprit.held_up_ms) == (pytest.approx(0.25), pytest.approx(25))
    assert culprit.num_buckets == 40
    assert (culprit.num_late, culprit.late_ms) == (40, pytest.approx(25))


def test_a_culprit_whose_step_explains_nothing_is_named_without_a_part() -> None:
    found = analyse({0: exposed(40.0), 1: exposed(5.0)}, [WORLD])
    assert found.culprit is not None
    assert found.culprit.part is None
    # With less to show for it, chance would do.
    assert analyse({0: exposed(25.0), 1: exposed(5.0)}, [WORLD]).culprit is None


def test_ranks_that_take_turns_in_being_late_are_no_culprits() -> None:
    one, other = exposed(5.0), exposed(5.0)
    for step in STEPS:
        (one if step % 2 else other)["comm/world/exposed_ms"][step] = 45.0  # type: ignore[index]
    found = analyse({0: one, 1: other}, [WORLD])
    assert found.culprit is None
    assert [r.wait_ms for r in found.ranks] == [pytest.approx(20), pytest.approx(20)]


def test_being_late_once_by_a_lot_is_no_reason_to_be_blamed() -> None:
    late = exposed(5.0)
    usual = exposed(5.0)
    usual["comm/world/exposed_ms"][7] = 5000.0  # type: ignore[index]
    assert analyse({0: usual, 1: late}, [WORLD]).culprit is None


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_blamed_for_what_chance_does(seed: int) -> None:
    """Each rank's work is late by chance, often by a little and now and then by more than a step."""
    draw = random.Random(seed)
    ranks = {rank: exposed(0.0) for rank in range(4)}
    world = ProcessGroup(name="world", ranks=(0, 1, 2, 3))
    for step in STEPS:
        late = {
            rank: draw.expovariate(1 / 8) * (30 if draw.random() < 0.02 else 1) for rank in ranks
        }
        for rank, rank_rows in ranks.items():
            waited = 5.0 + max(late.values()) - late[rank]
            rank_rows["comm/world/exposed_ms"][step] = waited  # type: ignore[index]
    assert analyse(ranks, [world]).culprit is None


def test_little_is_known_from_few_rows() -> None:
    few = {
        rank: {name: {s: v for s, v in values.items() if s < 6} for name, values in r.items()}
        for rank, r in {0: exposed(30.0), 1: exposed(5.0)}.items()
    }
    assert analyse(few, [WORLD]).culprit is None


def test_rows_of_several_steps_that_end_at_different_ones_are_compared_in_buckets() -> None:
    def every_third(rank_rows: Rows, first: int) -> Rows:
        return {n: {s: v for s, v in r.items() if s % 3 == first} for n, r in rank_rows.items()}

    ranks = {0: every_third(exposed(30.0), 0), 1: every_third(exposed(5.0), 1)}
    assert analyse(ranks, [WORLD]).culprit is None
    assert analyse(ranks, [WORLD]).ranks[0].wait_ms is None
    found = analyse(ranks, [WORLD], bucket_steps=3)
    assert found.culprit is not None
    assert found.culprit.rank == 1


def kind(name: str, num_bytes: float, time_ms: float) -> dict[str, float]:
    prefix = f"comm__{name}__"
    return {
        f"{prefix}count": 2.0,
        f"{prefix}bytes": num_bytes,
        f"{prefix}time_ms": time_ms,
    }


def test_bandwidth_is_of_the_transfer_and_not_of_the_waiting() -> None:
    ranks = {
        0: rows(**kind("world__all_reduce", 1e6, 50.0)),
        1: rows(**kind("world__all_reduce", 1e6, 10.0)),
    }
    (traffic,) = analyse(ranks, [WORLD]).traffic
    assert (traffic.group, traffic.kind, traffic.count) == ("world", "all_reduce", 2)
    assert (traffic.time_ms, traffic.transfer_ms, traffic.wait_ms) == (30, 10, 20)
    assert traffic.algorithm_bytes_per_s == pytest.approx(1e8)
    assert traffic.bus_bytes_per_s == pytest.approx(1e8)


def test_a_kind_without_a_row_among_those_read_is_left_out() -> None:
    """As what happens before the first step alone: its series is there, and no value of it is."""
    ranks = {
        rank: rows(**kind("world__all_reduce", 1e6, 10.0))
        | {f"comm/world/broadcast/{what}": {} for what in ("count", "bytes", "time_ms")}
        | {"comm/world/barrier/count": {1: 1.0}}
        for rank in (0, 1)
    }
    assert [t.kind for t in analyse(ranks, [WORLD]).traffic] == ["all_reduce"]


def test_slices_of_a_mesh_are_compared_among_themselves() -> None:
    ranks = {
        rank: rows(**kind("mesh_tp__all_gather", 1e6, ms))
        for rank, ms in enumerate((10.0, 30.0, 5.0, 5.0))
    }
    groups = [
        ProcessGroup(name="mesh_tp@0", ranks=(0, 1)),
        ProcessGroup(name="mesh_tp@2", ranks=(2, 3)),
    ]
    found = analyse(ranks, groups).traffic
    assert [(t.group, t.ranks, t.transfer_ms) for t in found] == [
        ("mesh_tp@0", (0, 1), 10),
        ("mesh_tp@2", (2, 3), 5),
    ]
    assert found[0].bus_bytes_per_s == pytest.approx(0.5e8)


def test_messages_between_two_ranks_have_no_last_member() -> None:
    ranks = {
        0: rows(**kind("world__ps_push", 1e6, 50.0)),
        1: rows(**kind("world__ps_push", 1e6, 10.0)),
    }
    found = analyse(ranks, [WORLD])
    (traffic,) = found.traffic
    assert (traffic.transfer_ms, traffic.wait_ms, traffic.time_ms) == (None, None, 30)
    assert found.ranks[0].wait_ms is None
    assert found.culprit is None


def test_a_group_nobody_reported_is_of_those_that_name_it() -> None:
    ranks = {r: rows(**kind("group-7__broadcast", 8.0, 1.0)) for r in (0, 2)}
    (traffic,) = analyse(ranks, [WORLD]).traffic
    assert (traffic.group, traffic.ranks) == ("group-7", (0, 2))


def test_the_slowest_stage_over_the_mean_is_the_imbalance() -> None:
    def stage(no: float, compute: float, bubble: float) -> Rows:
        return rows(pipeline__stage=no, time__backward_ms=compute - 20, pipeline__bubble_ms=bubble)

    ranks = {0: stage(0, 60, 40), 1: stage(1, 90, 10), 2: stage(0, 60, 40), 3: stage(1, 90, 10)}
    found = analyse(ranks, [])
    assert [(s.stage, s.ranks, s.compute_ms, s.bubble_ms) for s in found.stages] == [
        (0, (0, 2), 60, 40),
        (1, (1, 3), 90, 10),
    ]
    assert found.imbalance == pytest.approx(90 / 75 - 1)


def test_nothing_measured_gives_nothing() -> None:
    found = analyse({0: {"train/loss": {1: 0.5}}}, [WORLD])
    assert (found.ranks, found.traffic, found.stages) == ((), (), ())
    assert (found.culprit, found.imbalance) == (None, None)


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 1.5),
        ("all_gather", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_all", 0.75),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("recv", 1.0),
        ("barrier", None),
        ("gather", None),
    ],
)
def test_bus_bandwidth_is_what_the_busiest_link_carries(kind: str, factor: float | None) -> None:
    assert bus_factor(kind, 4) == factor


@pytest.mark.parametrize(("backend", "factor"), [("gloo", 1.5), ("nccl", 0.75), ("", 0.75)])
def test_gloo_carries_twice_as_much_for_a_reduce_scatter(backend: str, factor: float) -> None:
    rows: Rows = {
        "comm/world/exposed_ms": {1: 4.0},
        "comm/world/reduce_scatter/count": {1: 1.0},
        "comm/world/reduce_scatter/bytes": {1: 4e6},
        "comm/world/reduce_scatter/time_ms": {1: 4.0},
        "time/step_ms": {1: 10.0},
        "time/forward_ms": {1: 6.0},
    }
    world = ProcessGroup(name="world", ranks=(0, 1, 2, 3), backend=backend)
    (traffic,) = analyse(dict.fromkeys(range(4), rows), [world]).traffic
    assert traffic.algorithm_bytes_per_s == pytest.approx(1e9)
    assert traffic.bus_bytes_per_s == pytest.approx(1e9 * factor)


def sometimes(values: dict[str, float], of: set[int]) -> Rows:
    """Rows of which only these steps have a collective: elsewhere its series say nothing."""
    return {name: dict.fromkeys(of, value) for name, value in values.items()}


def local_sgd(wait_ms: float = 0.0, steps: range = range(1, 15)) -> dict[int, Rows]:
    """Two ranks that exchange parameters in every fourth step; the first waits before it."""
    with_it = {step for step in steps if step % 4 == 0}
    ranks: dict[int, Rows] = {}
    for rank, waits in ((0, wait_ms), (1, 0.0)):
        ms = 30.0 + waits
        ranks[rank] = {
            "time/step_ms": {s: 20.0 + (ms if s in with_it else 0.0) for s in steps},
            "time/forward_ms": dict.fromkeys(steps, 20.0),
            "comm/exposed_ms": {s: ms if s in with_it else 0.0 for s in steps},
        } | sometimes(
            {
                "comm/world/exposed_ms": ms,
                "comm/world/all_reduce/count": 4.0,
                "comm/world/all_reduce/bytes": 1_100_800.0,
                "comm/world/all_reduce/time_ms": ms,
            },
            with_it,
        )
    return ranks


def test_rare_communication_counts_per_step_of_all_measured_steps() -> None:
    (traffic,) = analyse(local_sgd(wait_ms=10.0), [WORLD]).traffic
    assert (traffic.num_rows_with, traffic.num_rows) == (3, 14)
    assert traffic.num_bytes == pytest.approx(3 * 1_100_800 / 14)
    assert traffic.count == pytest.approx(12 / 14)
    assert traffic.time_ms == pytest.approx(3 * 35 / 14)
    assert traffic.transfer_ms == pytest.approx(3 * 30 / 14)
    assert traffic.time_ms_with == pytest.approx(35)
    # What a link carried while something was under way, and not on average.
    assert traffic.algorithm_bytes_per_s == pytest.approx(1_100_800 / 30e-3)


def test_what_happens_once_is_no_cost_of_every_step() -> None:
    ranks = {rank: rows(comm__exposed_ms=5.0) for rank in (0, 1)}
    for rank_rows in ranks.values():
        rank_rows |= sometimes(  # type: ignore[operator]
            {
                "comm/world/broadcast/count": 2.0,
                "comm/world/broadcast/bytes": 16.0,
                "comm/world/broadcast/time_ms": 19.7,
            },
            {2},
        )
    (traffic,) = analyse(ranks, [WORLD]).traffic
    assert (traffic.num_rows_with, traffic.num_rows) == (1, 40)
    assert traffic.time_ms == pytest.approx(19.7 / 40)
    assert traffic.time_ms_with == pytest.approx(19.7)


def test_what_is_waited_in_some_steps_is_shared_out_over_all() -> None:
    found = analyse(local_sgd(wait_ms=200.0, steps=range(1, 61)), [WORLD])
    assert found.ranks[0].wait_ms == pytest.approx(50)
    assert found.culprit is not None
    assert found.culprit.held_up_ms == pytest.approx(50)
    assert 0 < found.culprit.share < 1


def test_a_row_counts_as_much_as_it_has_steps() -> None:
    """Ten fast steps are one row beside a slow one that is a row of its own."""
    many = {n: v for i in range(20) for n, v in ((11 * i + 10, 5.0), (11 * i + 11, 105.0))}
    found = analyse({0: {"time/step_ms": many, "time/forward_ms": many}}, [])
    assert found.ranks[0].step_ms == pytest.approx((10 * 5 + 105) / 11, rel=0.05)
