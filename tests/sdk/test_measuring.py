from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.measure import collectives
from muster.measure.collectives import Collective, FastestTransfers, Segment
from muster.measure.comm_use import CommUse, KindUse, comm_use
from muster.measure.intervals import intersect, length, merge
from muster.measure.peaks import peak_flops_of
from muster.measure.step_sums import MAX_KINDS, PHASES, Facts, StepSums
from muster.measure.timing import StepTimer
from muster.sdk.env import RankInfo, Surroundings, TrialConfig
from muster.sdk.reporter import Reporter
from muster.sdk.run import Run
from muster.sdk.sinks import FileSink

ME = 1
intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def covered(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


@given(intervals, intervals)
def test_interval_arithmetic_agrees_with_sets_of_points(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    assert covered(merge(a)) == covered(a)
    assert length(merge(a)) == len(covered(a))
    assert covered(intersect(merge(a), merge(b))) == covered(a) & covered(b)


def collective(
    launched: int, done: int, *, waits: list[tuple[int, int]] | None = None, future: bool = False
) -> Collective:
    record = Collective("all_reduce", 100, "world", launched)
    record.done = done
    record.is_future = future
    record.waits = [(ME, start, end) for start, end in waits or []]
    return record


STEP = [Segment("forward", 0, 100), Segment("backward", 100, 300), Segment("optimizer", 300, 350)]


def test_buckets_in_flight_together_count_once() -> None:
    use = comm_use(
        [collective(120, 200, future=True), collective(150, 220, future=True)], STEP, thread=ME
    )
    assert (use.total, use.num_bytes, use.count) == (100, 200, 2)


def test_what_ddp_waits_for_after_its_last_launch_is_exposed() -> None:
    records = [collective(120, 180, future=True), collective(240, 290, future=True)]
    use = comm_use(records, STEP, thread=ME)
    assert (use.total, use.exposed) == (110, 50)
    assert use.exposed_by_phase == {"backward": 50}


def test_the_call_that_launches_a_collective_is_exposed() -> None:
    record = collective(20, 80, waits=[(50, 80)])
    record.blocked = (ME, 20, 32)
    use = comm_use([record], STEP, thread=ME)
    assert (use.total, use.exposed, use.exposed_by_group) == (60, 42, {"world": 42})
    record.blocked = (ME + 1, 20, 32)
    assert comm_use([record], STEP, thread=ME).exposed == 30


def test_only_the_training_thread_s_waits_are_exposed() -> None:
    mine = collective(20, 80, waits=[(50, 80)])
    other = collective(20, 90)
    other.waits = [(ME + 1, 20, 90)]
    use = comm_use([mine, other], STEP, thread=ME)
    assert (use.total, use.exposed, use.exposed_by_phase) == (70, 30, {"forward": 30})


def test_a_wait_for_something_long_finished_costs_nothing() -> None:
    use = comm_use([collective(20, 40, waits=[(90, 92)])], STEP, thread=ME)
    assert (use.total, use.exposed) == (20, 0)


def test_a_collective_without_completion_ends_with_its_wait() -> None:
    use = comm_use([collective(20, 0, waits=[(60, 70)])], STEP, thread=ME)
    assert (use.total, use.exposed) == (50, 10)


def test_one_still_running_counts_to_the_end_of_the_step_and_its_bytes_once() -> None:
    running = collective(320, 0)
    assert comm_use([running], STEP, thread=ME).total == 30
    later = [Segment("forward", 350, 500)]
    running.done = 400
    use = comm_use([running], later, thread=ME)
    assert (use.total, use.num_bytes, use.count) == (50, 0, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 350), st.integers(0, 350), st.booleans(), st.integers(0, 350)),
        max_size=6,
    )
)
def test_exposed_is_part_of_total_and_of_its_phases(
    raw: list[tuple[int, int, bool, int]],
) -> None:
    records = [
        collective(min(a, b), max(a, b) + 1, future=f, waits=None if f else [(w, w + 20)])
        for a, b, f, w in raw
    ]
    use = comm_use(records, STEP, thread=ME)
    assert 0 <= use.exposed <= use.total <= 350
    assert sum(use.exposed_by_phase.values()) == use.exposed
    for segment in STEP:
        assert use.exposed_by_phase.get(segment.phase, 0) <= segment.end - segment.start


def message(launched: int, end: int) -> Collective:
    """Received from another stage, and waited for all along."""
    record = Collective("recv", 100, "pp", launched, is_pipeline=True)
    record.waits = [(ME, launched, end)]
    return record


def test_waiting_for_a_stage_that_is_not_there_yet_is_bubble_and_the_transfer_is_not() -> None:
    fastest = FastestTransfers()
    fastest.learn(message(0, 8))
    step = [Segment("other", 0, 100), Segment("forward", 100, 180), Segment("other", 180, 200)]
    use = comm_use([message(10, 90), message(180, 195)], step, thread=ME, fastest=fastest)
    assert (use.exposed, use.bubble) == (16, 79)
    assert use.exposed_by_phase == {"other": 16}
    assert use.bubble_by_phase == {"other": 79}
    assert use.kinds == {("pp", "recv"): KindUse(count=2, num_bytes=200, time=16)}
    assert use.exposed_by_group == {}  # not all members take part in a message


def test_what_a_stage_sends_shows_what_receiving_as_much_takes() -> None:
    sent = Collective("send", 100, "pp", 10, is_pipeline=True)
    sent.waits = [(ME, 10, 14)]
    use = comm_use([sent, message(20, 80)], STEP, thread=ME)
    assert (use.exposed, use.bubble) == (8, 56)


def test_a_message_still_awaited_at_the_end_of_a_step_is_not_moving() -> None:
    record = Collective("recv", 100, "pp", 10, is_pipeline=True)
    assert comm_use([record], STEP, thread=ME).total == 0


def test_figures_are_kept_apart_by_group_and_kind() -> None:
    gather = collective(20, 60, waits=[(40, 60)])
    gather.group, gather.kind = "tp", "all_gather"
    again = collective(50, 90, waits=[(80, 90)])
    again.group, again.kind = "tp", "all_gather"
    records = [gather, again, collective(240, 290, future=True)]
    use = comm_use(records, STEP, thread=ME)
    assert use.kinds == {
        ("tp", "all_gather"): KindUse(count=2, num_bytes=200, time=70),
        ("world", "all_reduce"): KindUse(count=1, num_bytes=100, time=50),
    }
    assert use.exposed_by_group == {"tp": 30, "world": 50}
    assert use.exposed == 80


def test_interference_is_what_a_backward_with_communication_computes_longer() -> None:
    step = [
        Segment("backward", 0, 100),
        Segment("forward", 100, 200),
        Segment("backward", 200, 350),
    ]
    overlapped = collective(210, 340, future=True)
    last = collective(330, 340, future=True)
    use = comm_use([overlapped, last], step, thread=ME)
    # 150 in backward, of which 10 waiting; 40 more than the 100 of the quiet one.
    assert (use.exposed, use.interference) == (10, 40)
    assert comm_use([overlapped], step[2:], thread=ME).interference is None


def test_more_collectives_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "MAX_RECORDS", 2)
    log = collectives.CollectiveLog()
    for _ in range(5):
        log.new("all_reduce", 8, "world")
    assert len(log.take()[0]) == 2
    assert log.num_lost == 3
    log.take()
    assert log.num_lost == 0


def test_kinds_beyond_the_bound_are_summed_up_and_not_lost() -> None:
    sums = StepSums()
    kinds = {(f"g{i}", "send"): KindUse(count=1, num_bytes=8, time=10) for i in range(MAX_KINDS)}
    more = {(name, "recv"): KindUse(count=1, num_bytes=8, time=10) for name in ("a", "b")}
    sums.add_step(1000, 0, 4, 8)
    sums.add_parts(1000, [Segment("other", 0, 1000)], CommUse(kinds=kinds | more))
    values = sums.values(with_comm=True, info=RankInfo(), facts=Facts())
    assert values["comm/g0/send/bytes"] == 8
    assert values["comm/more/recv/count"] == 2
    assert not any("/a/" in name for name in values)


def test_mfu_is_a_share_of_what_the_devices_together_can_do() -> None:
    sums = StepSums()
    sums.add_step(2_000_000_000, 0, 10, 40)
    facts = Facts(flops_per_sample=1e12, tokens_per_sample=16, peak_flops=50e12)
    values = sums.values(with_comm=False, info=RankInfo(world_size=4), facts=facts)
    assert values["throughput/samples_per_s"] == 20
    assert values["throughput/tokens_per_s"] == 320
    assert values["throughput/model_tflops_per_device"] == 5
    assert values["throughput/mfu"] == 0.1


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("Tesla T4", 65e12),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_a_gpu_s_peak_is_found_by_whole_words_of_its_name(name: str, peak: float | None) -> None:
    assert peak_flops_of(name) == peak


@pytest.fixture
def run(tmp_path: Path) -> Run:
    sink = FileSink(str(tmp_path / "reports.jsonl"), rank=0, local_rank=0)
    trial = TrialConfig(hparams={}, config={}, seed=0)
    return Run(Reporter(Surroundings(info=RankInfo()), sink, trial))


def rows(tmp_path: Path) -> list[dict[str, float]]:
    lines = [json.loads(x) for x in (tmp_path / "reports.jsonl").read_text().splitlines()]
    return [
        {"step": line["step"]} | {s["name"]: s["values"][0] for s in line["series"]}
        for line in lines
        if line["type"] == "metrics"
    ]


def busy(ms: float) -> None:
    end = collectives.now_ns() + int(ms * 1e6)
    while collectives.now_ns() < end:
        pass


def test_parts_sum_to_the_step_and_a_pause_is_in_none(run: Run, tmp_path: Path) -> None:
    timer = StepTimer(run=run, max_rows_per_s=0)
    for step in (1, 2, 3):
        with timer.phase("data_wait"):
            busy(2)
        with timer.forward():
            busy(3)
            with timer.phase("optimizer"):
                busy(1)
        with timer.pause():
            busy(300)
        with timer.backward():
            busy(4)
        timer.end_step(step, samples=10, metrics={"train/loss": 0.5})
    timer.flush()
    written = rows(tmp_path)
    assert [r["step"] for r in written] == [1, 2, 3]
    for row in written:
        parts = sum(row[f"time/{p}_ms"] for p in PHASES) + row["comm/exposed_ms"]
        assert parts == pytest.approx(row["time/step_ms"])
        assert row["time/forward_ms"] >= 3
        assert row["time/optimizer_ms"] >= 1
        assert row["time/step_ms"] < 300
        assert row["train/loss"] == 0.5
        assert row["throughput/samples_per_s"] == pytest.approx(1e4 / row["time/step_ms"])


def test_outside_the_phases_what_uses_no_processor_is_idle(run: Run, tmp_path: Path) -> None:
    timer = StepTimer(run=run, max_rows_per_s=0)
    for step in (1, 2):
        used = time.thread_time()
        while time.thread_time() < used + 0.01:
            pass
        with timer.forward():
            time.sleep(0.03)  # in a phase: nothing is said of it
        time.sleep(0.02)
        timer.end_step(step)
    for row in rows(tmp_path):
        assert row["time/forward_ms"] >= 30
        assert row["time/other_idle_ms"] >= 19
        assert row["time/other_ms"] - row["time/other_idle_ms"] >= 9


def test_waiting_for_others_outside_the_phases_is_not_idle() -> None:
    record = Collective("all_reduce", 4, "world", 100)
    record.done, record.waits = 400, [(threading.get_ident(), 100, 400)]
    segments = [Segment("other", 0, 1000)]
    sums = StepSums()
    sums.add_step(1000, 0, None, None)
    sums.add_parts(1000, segments, comm_use([record], segments), 200)
    values = sums.values(with_comm=True, info=RankInfo(), facts=Facts())
    assert values["comm/exposed_ms"] == pytest.approx(300e-6)
    assert values["time/other_ms"] == pytest.approx(700e-6)
    assert values["time/other_idle_ms"] == pytest.approx(500e-6)


def test_validation_is_said_beside_the_step_from_the_first_one_on(run: Run, tmp_path: Path) -> None:
    timer = StepTimer(run=run, max_rows_per_s=0)
    for step in (1, 2, 3):
        if step == 2:
            with timer.pause():
                busy(100)
                with timer.pause():
                    busy(100)
                busy(100)
        timer.end_step(step)
    first, second, third = rows(tmp_path)
    assert "time/validation_ms" not in first
    assert second["time/validation_ms"] >= 300
    assert second["time/step_ms"] < 300
    assert third["time/validation_ms"] == 0


def test_switched_off_in_the_document_nothing_is_measured_and_what_is_logged_stays(
    tmp_path: Path,
) -> None:
    sink = FileSink(str(tmp_path / "reports.jsonl"), rank=0, local_rank=0)
    trial = TrialConfig(hparams={}, config={"measure": {"steps": False}}, seed=0)
    timer = StepTimer(run=Run(Reporter(Surroundings(info=RankInfo()), sink, trial)))
    with timer.forward():
        pass
    timer.end_step(1, samples=4, metrics={"train/loss": 0.5})
    timer.flush()
    assert rows(tmp_path) == [{"step": 1, "train/loss": 0.5}]


def test_of_fast_steps_times_are_averaged_and_what_the_script_reports_is_not(
    run: Run, tmp_path: Path
) -> None:
    began_ns = collectives.now_ns()
    timer = StepTimer(run=run, max_rows_per_s=20)
    losses = {step: 1 / step for step in range(1, 201)} | {77: math.nan}
    for step, loss in losses.items():
        busy(0.5)
        timer.end_step(step, metrics={"train/loss": loss}, epoch=step / 100)
    timer.flush()
    took_s = (collectives.now_ns() - began_ns) / 1e9
    written = rows(tmp_path)
    measured = [row for row in written if "time/step_ms" in row]
    assert len(measured) <= 20 * took_s + 2
    assert measured[-1]["step"] == 200
    reported = [(row["step"], row["train/loss"]) for row in written if "train/loss" in row]
    assert [step for step, _ in reported] == list(losses)
    assert {s: v for s, v in reported if s != 77} == {s: v for s, v in losses.items() if s != 77}
    assert dict(reported)[77] == "NaN"


def test_a_loader_s_time_is_data_wait(run: Run, tmp_path: Path) -> None:
    def slow() -> object:
        for i in range(3):
            busy(5)
            yield i

    timer = StepTimer(run=run, max_rows_per_s=0)
    for step, _ in enumerate(timer.data(slow())):  # type: ignore[arg-type, var-annotated]
        timer.end_step(step)
    assert all(row["time/data_wait_ms"] >= 5 for row in rows(tmp_path)[:3])


def test_a_metric_that_is_no_number_does_not_stop_the_step(
    run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    timer = StepTimer(run=run)
    timer.end_step(1, metrics={"weird/thing": object()})
    assert "metric 'weird/thing' is not one number" in capfd.readouterr().err


def test_what_recording_costs_is_told_by_one_collective_in_so_many() -> None:
    log = collectives.CollectiveLog()
    num_timed = 0
    for _ in range(3 * collectives.TIMED_EVERY):
        if log.is_timing:
            num_timed += 1
            log.add_cost(1_000)
        log.new("all_reduce", 8, "world")
    assert num_timed == 3
    records, overhead_ns = log.take()
    assert overhead_ns == len(records) * 1_000
    log.new("all_reduce", 8, "world")
    assert log.take()[1] == 1_000  # as those before
    assert log.take()[1] == 0
    for _ in range(1_000):  # what was long ago is forgotten
        log.add_cost(3_000)
    log.new("all_reduce", 8, "world")
    assert log.take()[1] == pytest.approx(3_000, rel=0.01)
