"""The verdict on a training's step: every bottleneck, under every strategy."""

from __future__ import annotations

from typing import get_args

import pytest

from muster.document.strategy import Kind as Strategy
from muster_server.domain.insight.bottleneck import bottleneck
from muster_server.domain.insight.costs import KINDS
from muster_server.domain.insight.step_rows import Rows
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import PARTS, StepAnalysis, analyse

STEPS = range(1, 61)
USUAL = {
    "time/data_wait_ms": 1.0,
    "time/host_to_device_ms": 0.5,
    "time/forward_ms": 30.0,
    "time/backward_ms": 55.0,
    "time/optimizer_ms": 6.0,
    "time/checkpoint_ms": 0.0,
    "time/other_ms": 3.0,
}
COLLECTIVES: dict[str, tuple[tuple[str, str], ...]] = {
    "single": (),
    "ddp": (("world", "all_reduce"),),
    "zero1": (("world", "all_reduce"), ("world", "broadcast")),
    "fsdp": (("world", "all_gather"), ("world", "reduce_scatter")),
    "hsdp": (("mesh_shard", "all_gather"), ("mesh_replicate", "all_reduce")),
    "tp": (("mesh_tp", "all_reduce"), ("mesh_tp", "all_gather")),
    "pp": (("world", "send"), ("world", "recv")),
    "mesh": (("mesh_pp", "send"), ("mesh_dp", "all_reduce"), ("mesh_tp", "all_gather")),
    "local_sgd": (("world", "all_reduce"),),
    "diloco": (("world", "all_reduce"),),
    "ps": (("world", "ps_push"), ("world", "ps_pull")),
}
"""Strategy → the groups and kinds that its workers communicate by."""
PIPELINES = {"pp", "mesh"}
RARE = {"local_sgd", "diloco"}
NEVER_WAIT = {"single", "pp", "ps"}
"""Messages between two ranks have no last member: nobody can be named as late."""
PART = {
    "communication": "comm/exposed_ms",
    "bubble": "pipeline/bubble_ms",
    "data": "time/data_wait_ms",
    "optimizer": "time/optimizer_ms",
    "checkpoint": "time/checkpoint_ms",
    "without_gradients": "time/no_grad_ms",
    "outside": "time/other_ms",
    "outside_busy": "time/other_ms",
    "outside_idle": "time/other_ms",
    "validation": "time/validation_ms",
}
COST = 80.0


def training(
    strategy: str, kind: str, *, ranks: int = 4, cost: float = COST, steps: range = STEPS
) -> StepAnalysis:
    """What the ranks of such a training measure when it is bound by `kind`."""
    size = 1 if strategy == "single" else ranks
    groups: dict[str, ProcessGroup] = {}
    rows: dict[int, Rows] = {}
    for rank in range(size):
        parts = dict(USUAL)
        if strategy != "single":
            parts["comm/exposed_ms"] = 4.0
        if strategy in PIPELINES:
            parts["pipeline/bubble_ms"] = 5.0
        if kind in PART:
            parts[PART[kind]] = parts.get(PART[kind], 0.0) + cost
        if kind in ("outside_busy", "outside_idle"):
            parts["time/other_idle_ms"] = COST if kind == "outside_idle" else 0.0
        if kind == "waiting":
            late = "time/forward_ms" if rank == 1 else "comm/exposed_ms"
            parts[late] += cost
        rows[rank] = _rows(strategy, rank, parts, steps)
    for group, _ in COLLECTIVES[strategy]:
        groups[group] = ProcessGroup(name=group, ranks=tuple(range(size)), backend="gloo")
    return analyse(rows, list(groups.values()))


def _rows(strategy: str, rank: int, parts: dict[str, float], steps: range) -> Rows:
    """Of one rank, every step a row. Where communication is rare, one step in four has it all."""
    with_comm = [s for s in steps if strategy not in RARE or s % 4 == 0]
    often = len(steps) / len(with_comm)
    exposed = parts.get("comm/exposed_ms")
    found = {name: dict.fromkeys(steps, value) for name, value in parts.items()}
    if exposed is not None:
        found["comm/exposed_ms"] = dict.fromkeys(steps, 0.0) | dict.fromkeys(
            with_comm, exposed * often
        )
    found["time/step_ms"] = {
        s: sum(series[s] for name, series in found.items() if name in PARTS) for s in steps
    }
    if strategy in PIPELINES:
        found["pipeline/stage"] = dict.fromkeys(steps, float(rank % 2))
    waited_in = {
        group
        for group, name in COLLECTIVES[strategy]
        if not name.startswith(("send", "recv", "ps"))
    }
    for group, collective in COLLECTIVES[strategy]:
        values = {
            f"comm/{group}/{collective}/count": 1.0,
            f"comm/{group}/{collective}/bytes": 1e6,
            f"comm/{group}/{collective}/time_ms": (exposed or 0.0) * often,
        }
        if collective not in ("send", "recv", "ps_push", "ps_pull"):
            values[f"comm/{group}/exposed_ms"] = (exposed or 0.0) * often / len(waited_in)
        found |= {name: dict.fromkeys(with_comm, value) for name, value in values.items()}
    return found


def cases() -> list[tuple[str, str]]:
    """Every strategy with every bottleneck that it can have."""
    return [
        (strategy, kind)
        for strategy in get_args(Strategy)
        for kind in KINDS
        if not (kind == "bubble" and strategy not in PIPELINES)
        and not (kind == "communication" and strategy == "single")
        and not (kind == "waiting" and strategy in NEVER_WAIT)
    ]


@pytest.mark.parametrize(("strategy", "kind"), cases())
def test_the_verdict_names_what_the_step_is_bound_by(strategy: str, kind: str) -> None:
    found = bottleneck(training(strategy, kind))
    assert found is not None
    assert found.kind == kind
    assert found.num_rows == len(STEPS)
    if kind == "computation":
        assert found.ms == pytest.approx(85)
    elif kind == "waiting":
        assert found.ms == pytest.approx(COST)
    else:
        assert COST <= found.ms <= COST + 9
    whole_ms = found.step_ms + (found.ms if kind == "validation" else 0.0)
    assert found.share == pytest.approx(found.ms / whole_ms)
    assert f"{found.share:.0%} of the step" in found.headline.english
    is_bound = found.share > 0.5
    assert found.headline.english.startswith("Bound by" if is_bound else "Largest avoidable cost:")
    assert found.costs[0].ms == max(cost.ms for cost in found.costs)
    assert sum(cost.ms for cost in found.costs) == pytest.approx(whole_ms)


def test_every_strategy_is_among_them() -> None:
    assert set(COLLECTIVES) == set(get_args(Strategy))


def test_a_pipeline_that_waits_is_not_called_computing() -> None:
    """Its bubble is most of the step, and computing more than half of what is left."""
    ranks: dict[int, Rows] = {
        rank: {
            name: dict.fromkeys(STEPS, value)
            for name, value in {
                "time/step_ms": 407.0,
                "time/forward_ms": 60.0,
                "time/backward_ms": 100.0,
                "pipeline/bubble_ms": bubble,
                "comm/exposed_ms": 12.0,
                "pipeline/stage": float(rank),
            }.items()
        }
        for rank, bubble in ((0, 226.0), (1, 126.0))
    }
    found = bottleneck(analyse(ranks, []))
    assert found is not None
    assert (found.kind, found.ms) == ("bubble", pytest.approx(176))
    assert found.headline.english == (
        "Largest avoidable cost: the pipeline bubble, 43% of the step (176 of 407 ms); computing takes 39%."
    )


def test_uneven_stages_are_said_to_be_a_cause_of_the_bubble() -> None:
    def stage(no: int, forward: float, bubble: float) -> Rows:
        values = {"time/step_ms": 100.0, "time/forward_ms": forward, "pipeline/bubble_ms": bubble}
        return {
            name: dict.fromkeys(STEPS, value)
            for name, value in (values | {"pipeline/stage": float(no)}).items()
        }

    found = bottleneck(analyse({0: stage(0, 90.0, 10.0), 1: stage(1, 30.0, 70.0)}, []))
    assert found is not None
    assert "The slowest stage computes 50% longer than the mean" in found.reason.english


def test_what_communication_is_brought_to_is_said_with_a_number() -> None:
    found = bottleneck(training("ddp", "communication", ranks=2))
    assert found is not None
    # 84 of 179.5 ms: over 8 micro-batches 84 of 84 + 8 × 95.5.
    assert "over 8 micro-batches (`strategy.accumulate`) to bring it to 10%" in found.reason.english


def test_what_nobody_measured_is_not_said_to_be_absent() -> None:
    """Over NCCL the phases are known, and communication is not."""
    rows: Rows = {name: dict.fromkeys(STEPS, value) for name, value in USUAL.items()}
    rows = {**rows, "time/step_ms": dict.fromkeys(STEPS, sum(USUAL.values()))}
    found = bottleneck(analyse({0: rows, 1: rows}, []))
    assert found is not None
    assert found.kind == "computation"
    assert "Communication of these ranks is not measured" in found.reason.english
    alone = bottleneck(analyse({0: rows}, []))
    assert alone is not None
    assert "not measured" not in alone.reason.english


def single(**parts: float) -> StepAnalysis:
    """Sixty equal steps of one process."""
    named = {f"time/{name}_ms": value for name, value in parts.items()}
    step_ms = sum(value for name, value in named.items() if name in PARTS)
    rows = {n: dict.fromkeys(STEPS, v) for n, v in (named | {"time/step_ms": step_ms}).items()}
    return analyse({0: rows}, [])


def test_a_fifth_of_the_step_does_not_bind_it() -> None:
    found = bottleneck(training("ddp", "communication", ranks=2, cost=20.0))
    assert found is not None
    assert found.headline.english == (
        "Largest avoidable cost: communication, 20% of the step (24 of 120 ms); computing takes 71%."
    )


def test_computing_binds_a_step_only_as_most_of_it() -> None:
    many = dict.fromkeys(("data_wait", "checkpoint", "no_grad", "other", "host_to_device"), 9.0)
    many["host_to_device"] = 0.0
    found = bottleneck(single(forward=20.0, backward=25.0, optimizer=19.0, **many))
    assert found is not None
    assert found.kind == "no_single_cost"
    assert "No single cost stands out" in found.headline.english
    assert "computing takes 45%" in found.headline.english


def test_nothing_is_firm_after_nine_steps() -> None:
    few = training("ddp", "communication", ranks=2, steps=range(1, 10))
    found = bottleneck(few)
    assert found is not None
    assert (found.kind, found.num_steps) == ("too_early", 9)
    assert found.headline.english == (
        "Too early to say after 9 steps: so far computation takes 47% of the step (180 ms), communication 47%."
    )


def test_what_differs_by_chance_alone_is_not_told_apart() -> None:
    """Data and checkpoints take as much as each other, now one and now the other of them."""
    rows = {
        "time/step_ms": dict.fromkeys(STEPS, 100.0),
        "time/forward_ms": dict.fromkeys(STEPS, 40.0),
        "time/data_wait_ms": {s: 60.0 * (s * 7 % 13 < 7) for s in STEPS},
        "time/checkpoint_ms": {s: 60.0 * (s * 7 % 13 >= 7) for s in STEPS},
    }
    found = bottleneck(analyse({0: rows}, []))
    assert found is not None
    assert found.kind == "too_early"
    assert "the difference may be chance" in found.headline.english


def test_an_evaluation_in_each_tenth_step_is_named_once_it_was_seen_often_enough() -> None:
    def until(last: int) -> str:
        steps = range(1, last + 1)
        rows = {
            "time/forward_ms": dict.fromkeys(steps, 50.0),
            "time/no_grad_ms": {s: 1000.0 * (s % 10 == 0) for s in steps},
            "time/step_ms": {s: 50.0 + 1000.0 * (s % 10 == 0) for s in steps},
        }
        found = bottleneck(analyse({0: rows}, []))
        assert found is not None
        return found.kind

    assert until(9) == until(19) == until(29) == "too_early"
    assert until(100) == "without_gradients"


def test_rows_of_several_steps_do_not_tell_communication_from_waiting_by_turns() -> None:
    rows: Rows = {
        "time/step_ms": dict.fromkeys(range(5, 1001, 5), 10.0),
        "time/forward_ms": dict.fromkeys(range(5, 1001, 5), 4.0),
        "comm/exposed_ms": dict.fromkeys(range(5, 1001, 5), 6.0),
        "comm/world/exposed_ms": dict.fromkeys(range(5, 1001, 5), 6.0),
    }
    world = ProcessGroup(name="world", ranks=(0, 1), backend="gloo")
    found = bottleneck(analyse({0: rows, 1: rows}, [world], bucket_steps=25))
    assert found is not None
    assert found.kind == "communication_or_waiting"
    assert found.headline.english.startswith("Bound by communication, or waiting for other")
    assert "means of about 5 steps" in found.reason.english
    assert "Accumulate" not in found.reason.english


def test_a_receiver_that_waits_for_its_message_is_not_called_communication() -> None:
    """Two stages by hand: what is not moving data cannot be told from it."""
    rows: Rows = {
        "time/step_ms": dict.fromkeys(STEPS, 66.0),
        "time/forward_ms": dict.fromkeys(STEPS, 33.0),
        "comm/exposed_ms": dict.fromkeys(STEPS, 33.0),
        "comm/world/exposed_ms": dict.fromkeys(STEPS, 33.0),
        "comm/world/recv/time_ms": dict.fromkeys(STEPS, 33.0),
        "comm/world/recv/count": dict.fromkeys(STEPS, 1.0),
        "comm/world/recv/bytes": dict.fromkeys(STEPS, 128.0),
    }
    world = ProcessGroup(name="world", ranks=(0, 1), backend="gloo")
    found = bottleneck(analyse({0: rows, 1: rows}, [world]))
    assert found is not None
    assert found.kind == "communication_or_waiting"
    assert "timer.pipeline" in found.reason.english
    assert "Accumulate" not in found.reason.english


def test_validation_before_which_nothing_was_reported_counts_as_none_then() -> None:
    """The series begins with the first pause: 450 ms after the tenth step, in rows of three."""
    steps = range(3, 121, 3)
    rows: Rows = {
        "time/step_ms": dict.fromkeys(steps, 22.0),
        "time/forward_ms": dict.fromkeys(steps, 21.0),
        "time/validation_ms": {s: 150.0 if s % 30 == 0 else 0.0 for s in steps if s >= 60},
    }
    found = bottleneck(analyse({0: rows}, [], bucket_steps=15))
    assert found is not None
    (validation,) = (cost for cost in found.costs if cost.kind == "validation")
    assert validation.ms == pytest.approx(3 * 450 / 120)
    assert found.validation_ms == pytest.approx(validation.ms)
    assert sum(cost.share for cost in found.costs) <= 1


def test_a_few_stretches_of_many_steps_are_enough_if_they_agree() -> None:
    """Sixty steps in rows of three, compared in stretches of ten."""
    steps = range(3, 61, 3)
    rows: Rows = {
        "time/step_ms": dict.fromkeys(steps, 20.0),
        "time/forward_ms": dict.fromkeys(steps, 5.0),
        "time/data_wait_ms": dict.fromkeys(steps, 15.0),
    }
    found = bottleneck(analyse({0: rows}, [], bucket_steps=10))
    assert found is not None
    assert found.kind == "data"


def test_nothing_measured_has_no_verdict() -> None:
    assert bottleneck(analyse({}, [])) is None
