"""What a training is bound by, from step times whose causes are known because they were made here."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.document.experiment import ExperimentConfig
from muster.document.running import ResourcesSection
from muster.document.strategy import Kind, StrategySection
from muster_server.domain.insight.diagnosis import (
    Breakdown,
    Diagnosis,
    ProbeRun,
    breakdown,
    judge,
    judge_observed,
    plan,
    step_times,
)
from muster_server.domain.insight.diagnosis.advice import accumulated
from muster_server.domain.insight.estimates import StepTimes, mean_of, pooled_mean, t_975
from muster_server.domain.insight.step_rows import Rows
from muster_server.domain.insight.step_traffic import ProcessGroup

DDP = StrategySection()


@dataclass(frozen=True)
class Made:
    """A training on two workers with a cause of one's own; times in ms per step."""

    compute: tuple[float, float] = (80.0, 80.0)
    data: tuple[float, float] = (2.0, 2.0)
    exchange: float = 4.0
    optimizer: float = 3.0
    noise: float = 0.01

    def runs(self, repeats: int = 3, seed: int = 1) -> list[ProbeRun]:
        chance = random.Random(seed)

        def at(ms: float) -> float:
            return ms * (1 + self.noise * chance.uniform(-1, 1))

        busy = [c + d for c, d in zip(self.compute, self.data, strict=True)]
        step = max(busy) + self.exchange
        found = []
        for _ in range(repeats):
            late = {r: (busy[r] - busy[1 - r]) / step for r in (0, 1)}
            longer = self.data[0] - self.data[1], self.compute[0] - self.compute[1]
            parts = Breakdown(
                step_ms=at(step),
                data=at(min(self.data)) / step,
                transfer=at(self.exchange) / step,
                late={r: at(share) for r, share in late.items()},
                cause="time/data_wait_ms"
                if abs(longer[0]) > abs(longer[1])
                else "time/forward_ms"
                if longer[1]
                else None,
                optimizer=self.optimizer / step,
                bubble=0.0,
            )
            found += [
                ProbeRun(probe="as_is", step_ms={0: at(step), 1: at(step)}, breakdown=parts),
                ProbeRun(probe="no_sync", step_ms={r: at(busy[r]) for r in (0, 1)}),
                ProbeRun(
                    probe="synthetic",
                    step_ms=dict.fromkeys((0, 1), at(max(self.compute) + self.exchange)),
                ),
                ProbeRun(probe="alone", step_ms={0: at(busy[0])}),
                ProbeRun(probe="bucket:4", step_ms=dict.fromkeys((0, 1), at(step))),
            ]
        return found


def judged(
    made: Made,
    *,
    prefetch: int = 0,
    nodes: Mapping[int, str] | None = None,
    spare: Collection[str] = (),
) -> Diagnosis:
    return judge(
        made.runs(),
        strategy=DDP,
        prefetch=prefetch,
        slots=2,
        nodes=nodes or {0: "node-1", 1: "node-2"},
        spare=spare,
    )


CASES = [
    ("compute", "compute", Made()),
    ("compute, of a long step", "compute", Made(compute=(4000.0, 4000.0), exchange=90.0)),
    ("communication", "communication", Made(exchange=40.0)),
    ("communication, most of the step", "communication", Made(compute=(9.0, 9.0), exchange=90.0)),
    ("data", "data", Made(data=(45.0, 45.0))),
    ("data, most of the step", "data", Made(compute=(8.0, 8.0), data=(120.0, 120.0))),
    ("straggler", "straggler", Made(compute=(80.0, 120.0))),
    ("straggler, for its data", "straggler", Made(data=(50.0, 2.0))),
]


@pytest.mark.parametrize(("verdict", "made"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_cause_is_named_with_its_share(verdict: str, made: Made) -> None:
    found = judged(made)
    assert found.verdict == verdict, found.reason
    busy = [c + d for c, d in zip(made.compute, made.data, strict=True)]
    step = max(busy) + made.exchange
    share = {
        "communication": made.exchange / step,
        "data": min(made.data) / step,
        "straggler": abs(busy[0] - busy[1]) / step,
    }
    for name, true in share.items():
        estimate = found.shares[name]
        # An interval may miss the truth once in twenty; the value is near in any case.
        assert estimate.value == pytest.approx(true, abs=0.05), name
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.num == 3
    if verdict != "compute":
        assert found.shares[verdict].low > 0.05
    assert (found.culprit_rank is not None) == (verdict == "straggler")


def test_who_is_late_is_named_with_the_part_of_its_step() -> None:
    by_compute, by_data = judged(Made(compute=(80.0, 120.0))), judged(Made(data=(50.0, 2.0)))
    assert (by_compute.culprit_rank, by_compute.culprit_part) == (1, "time/forward_ms")
    assert (by_data.culprit_rank, by_data.culprit_part) == (0, "time/data_wait_ms")
    assert by_data.shares["data"].value < 0.1  # what one rank alone waits for is its lateness


def test_accumulating_is_advised_with_the_gain_it_has() -> None:
    made = Made(exchange=40.0)
    (advice,) = judged(made).advice
    assert advice.kind == "accumulate"
    factor = int(advice.values["factor"])
    assert advice.overrides == (f"strategy.accumulate={factor}",)
    micro = 80 + 2 - made.optimizer
    after = factor * micro + made.optimizer + made.exchange
    true = factor * (micro + made.optimizer + made.exchange) / after - 1
    assert advice.gain is not None
    assert advice.gain.value == pytest.approx(true, abs=0.03)
    assert not advice.is_bound


def test_fetching_ahead_is_advised_with_the_gain_it_has() -> None:
    (advice,) = judged(Made(data=(45.0, 45.0))).advice
    assert advice.overrides == ("trainer.prefetch=2",)
    assert advice.gain is not None
    assert advice.gain.value == pytest.approx((80 + 45 + 4) / 84 - 1, abs=0.03)


def test_a_loader_that_is_slow_although_it_runs_ahead_is_no_case_for_more_of_it() -> None:
    (advice,) = judged(Made(data=(45.0, 45.0)), prefetch=2).advice
    assert (advice.kind, advice.overrides, advice.is_bound) == ("faster_data", (), True)


def test_another_node_is_advised_where_there_is_one() -> None:
    slow = Made(compute=(80.0, 120.0))
    (elsewhere,) = judged(slow, spare=["node-2"]).advice
    assert elsewhere.overrides == ('resources.deny_nodes=["node-2"]',)
    (nowhere,) = judged(slow, spare=["node-1"]).advice
    assert (nowhere.kind, nowhere.overrides) == ("fix_rank", ())
    (here,) = judged(slow, nodes={0: "node-1", 1: "node-1"}, spare=["node-1"]).advice
    assert (here.kind, here.overrides, here.is_bound) == ("fix_rank", (), True)


def test_a_better_bucket_size_is_advised_as_it_was_measured() -> None:
    runs = [r for r in Made(exchange=40.0).runs() if not r.probe.startswith("bucket")]
    runs += [ProbeRun(probe="bucket:4", step_ms={0: ms, 1: ms}) for ms in (100.0, 101.0, 99.0)]
    found = judge(runs, strategy=DDP, prefetch=0, slots=2, nodes={})
    bucket = next(a for a in found.advice if a.kind == "bucket")
    assert bucket.overrides == ("strategy.bucket_mb=4",)
    assert bucket.gain is not None
    assert bucket.gain.value == pytest.approx(0.22, abs=0.03)


def test_repeats_that_differ_more_than_the_effect_decide_nothing() -> None:
    found = judged(Made(exchange=20.0, noise=0.4))
    assert found.verdict == "inconclusive"
    assert "more repeats" in found.reason
    assert found.advice == ()


def test_a_single_repeat_decides_nothing() -> None:
    found = judge(Made(exchange=40.0).runs(repeats=1), strategy=DDP, prefetch=0, slots=2, nodes={})
    assert found.verdict == "inconclusive"
    assert "fewer than two" in found.reason


def test_a_probe_that_is_missing_leaves_its_share_open() -> None:
    runs = [r for r in Made().runs() if r.probe != "synthetic"]
    found = judge(runs, strategy=DDP, prefetch=0, slots=2, nodes={})
    assert found.verdict == "inconclusive"
    assert "data" not in found.shares
    assert "compute" not in found.shares


def test_where_synchronisation_cannot_be_left_out_the_ranks_own_clocks_count() -> None:
    left_out = plan(config("tp"), **LIMITS).left_out
    runs = [r for r in Made(exchange=40.0).runs() if r.probe in ("as_is", "synthetic")]
    found = judge(
        runs, left_out=left_out, strategy=StrategySection(kind="tp"), prefetch=0, slots=2, nodes={}
    )
    assert found.verdict == "communication"
    assert [a.kind for a in found.advice] == ["less_sync"]
    assert any("no_sync" in note for note in found.notes)


@settings(max_examples=60)
@given(
    exchange=st.floats(0, 150),
    data=st.floats(0, 150),
    late=st.floats(0, 150),
    scale=st.floats(0.1, 100),
    seed=st.integers(0, 1000),
)
def test_the_largest_cause_is_named_whatever_the_sizes(
    exchange: float, data: float, late: float, scale: float, seed: int
) -> None:
    made = Made(
        compute=(80 * scale, (80 + late) * scale),
        data=(data * scale, data * scale),
        exchange=exchange * scale,
        noise=0.005,
    )
    step = 80 + late + data + exchange
    shares = {"communication": exchange / step, "data": data / step, "straggler": late / step}
    found = judge(made.runs(seed=seed), strategy=DDP, prefetch=0, slots=2, nodes={})
    first, second = sorted(shares, key=lambda n: -shares[n])[:2]
    if shares[first] > 0.15 and shares[first] - shares[second] > 0.05:
        assert found.verdict == first, found.reason
    elif shares[first] < 0.05:
        assert found.verdict == "compute", found.reason
    for estimate in found.shares.values():
        assert estimate.low <= estimate.value <= estimate.high
    again = judge(made.runs(seed=seed)[::-1], strategy=DDP, prefetch=0, slots=2, nodes={})
    assert again.verdict == found.verdict
    for advice in found.advice:
        assert advice.gain is None or advice.gain.low <= advice.gain.value <= advice.gain.high


# ---------------------------------------------------------------- without probes


def test_without_probes_the_breakdown_alone_is_judged_and_nothing_is_predicted() -> None:
    blocks = [r.breakdown for r in Made(data=(45.0, 45.0)).runs(repeats=6) if r.breakdown]
    found = judge_observed(blocks, slots=2, nodes={})
    assert found.verdict == "data"
    assert all(a.is_bound and not a.overrides for a in found.advice)
    assert judge_observed(blocks[:3], slots=2, nodes={}).verdict == "inconclusive"
    assert judge_observed([], slots=2, nodes={}).shares == {}


# ---------------------------------------------------------------- which probes


LIMITS = {
    "repeats": 2,
    "max_steps": 60,
    "max_probe_s": 60.0,
    "step_ms": 50.0,
    "bytes_per_step": None,
}


def config(kind: Kind, slots: int = 2) -> ExperimentConfig:
    return ExperimentConfig(
        name="x", resources=ResourcesSection(slots=slots), strategy=StrategySection(kind=kind)
    )


def test_rounds_go_forwards_and_backwards() -> None:
    assert plan(config("ddp"), **LIMITS).probes == (
        "as_is/1", "synthetic/1", "no_sync/1", "alone/1", "bucket:100/1",
        "bucket:100/2", "alone/2", "no_sync/2", "synthetic/2", "as_is/2",
    )  # fmt: skip


def test_a_small_model_is_tried_with_smaller_buckets() -> None:
    planned = plan(config("ddp"), **{**LIMITS, "bytes_per_step": 8 * 2**20})
    assert "bucket:2/1" in planned.probes


@pytest.mark.parametrize(
    ("kind", "slots", "possible"),
    [
        ("single", 1, {"as_is", "synthetic"}),
        ("ddp", 1, {"as_is", "synthetic"}),
        ("zero1", 2, {"as_is", "synthetic", "alone", "bucket:100"}),
        ("fsdp", 2, {"as_is", "synthetic"}),
        ("diloco", 4, {"as_is", "synthetic", "no_sync", "alone"}),
        ("ps", 4, {"as_is", "synthetic"}),
    ],
)
def test_what_a_strategy_cannot_do_without_is_said(
    kind: str, slots: int, possible: set[str]
) -> None:
    planned = plan(config(kind, slots), **LIMITS)
    assert {p.rpartition("/")[0] for p in planned.probes} == possible
    assert len(possible) + len(planned.left_out) == 5
    assert all(o.reason for o in planned.left_out)


@pytest.mark.parametrize(("step_ms", "steps"), [(None, 60), (50.0, 60), (2000.0, 30), (1e6, 15)])
def test_probes_are_bounded_in_steps_and_time(step_ms: float | None, steps: int) -> None:
    assert plan(config("ddp"), **{**LIMITS, "step_ms": step_ms}).steps == steps


# ---------------------------------------------------------------- figures


def test_a_pause_of_some_steps_does_not_move_the_step_time() -> None:
    values = {s: 10.0 + 5.0 * (s % 2) for s in range(1, 46)} | {20: 900.0, 2: 5000.0}
    assert step_times({0: {"time/step_ms": values}, 1: {}}, skip=5) == {
        0: pytest.approx(12.5, abs=0.4)
    }


def test_shares_come_from_the_rows_of_all_ranks() -> None:
    def rows(wait: float, data: float) -> Rows:
        parts = {
            "time/step_ms": 100.0,
            "time/forward_ms": 60.0,
            "time/data_wait_ms": data,
            "comm/exposed_ms": 10.0 + wait,
            "comm/world/exposed_ms": 10.0 + wait,
            "time/optimizer_ms": 5.0,
        }
        return {name: dict.fromkeys(range(1, 31), value) for name, value in parts.items()}

    found = breakdown(
        {0: rows(20.0, 3.0), 1: rows(0.0, 23.0)}, [ProcessGroup(name="world", ranks=(0, 1))], skip=5
    )
    assert found is not None
    assert found.data == pytest.approx(0.03)
    assert found.transfer == pytest.approx(0.10)
    assert found.late == {0: pytest.approx(-0.2), 1: pytest.approx(0.2)}
    assert (found.cause, found.optimizer) == ("time/data_wait_ms", pytest.approx(0.05))
    assert breakdown({}, [], skip=5) is None


def test_intervals_are_student_s() -> None:
    assert mean_of([1.0]) is None
    found = mean_of([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.value, found.high - found.value) == (2, pytest.approx(4.303 / 3**0.5))
    assert t_975(30) == t_975(60) == 2.042
    with pytest.raises(ValueError, match="0 degrees"):
        t_975(0)


def test_other_probes_tell_how_much_the_lateness_of_a_rank_differs() -> None:
    alone, more = (
        mean_of([0.19, 0.21]),
        pooled_mean([0.19, 0.21], [[0.0, 0.02], [0.01, 0.03], [9.0]]),
    )
    assert alone is not None
    assert more is not None
    assert more.value == alone.value == pytest.approx(0.2)
    assert more.high - more.value == pytest.approx(3.182 * 0.01)
    assert alone.high - alone.value == pytest.approx(12.706 * 0.01)


def test_the_spread_is_pooled_over_probes() -> None:
    times = StepTimes({"a": [100.0, 102.0], "b": [50.0, 51.0], "c": [7.0]})
    ratio = times.ratio("b", "a")
    assert ratio is not None
    assert ratio.value == pytest.approx(0.5)
    assert times.ratio("c", "a") is None
    assert times.time("c") is None
    assert times.spread == pytest.approx(0.014, abs=0.001)


def test_accumulation_gains_what_the_exchange_costs_at_most() -> None:
    assert accumulated(0.8, 1, 0.1) == pytest.approx(0)
    assert accumulated(0.8, 10**6, 0.0) == pytest.approx(1 / 0.8 - 1, abs=1e-4)
    assert accumulated(1.0, 4, 0.0) == pytest.approx(0)
