import math

import pytest

from muster_server.domain.cost_model.steps import Run
from muster_server.domain.scaling import (
    SKIPPED_STEPS,
    Finish,
    Impossible,
    Launch,
    Measure,
    Point,
    Report,
    StopRun,
    Underway,
    next_action,
    points,
    size_overrides,
    sizes,
)

CONFIG = {
    "trainer": {"batch_size": 24},
    "resources": {"slots": 4},
    "strategy": {"accumulate": 1},
}


def run(size, step_s=0.1, samples=32.0):
    return Run(
        size=size, samples=samples, step_s=step_s, compute_s=0.6 * step_s, optimizer_s=0.1 * step_s,
        data_s=0.05 * step_s, exposed_s=0.2 * step_s, hidden_s=0.1 * step_s, wait_s=0.05 * step_s,
        other_s=0.05 * step_s, transfers=(), num_steps=40,
    )  # fmt: skip


def report(*given, underway=None):
    return Report(id=7, points=tuple(given), num_steps=40, underway=underway)


def test_world_sizes_alternate_so_that_a_drift_meets_all_alike():
    order = [(p.slots, p.repeat) for p in points([4, 1, 2, 2], 2)]
    assert order == [(1, 1), (2, 1), (4, 1), (4, 2), (2, 2), (1, 2)]


def test_weak_scaling_keeps_the_batch_of_a_slot_and_strong_divides_the_whole():
    assert "trainer.batch_size" not in str(size_overrides(CONFIG, {}, slots=2, mode="weak"))
    assert "trainer.batch_size=48" in size_overrides(CONFIG, {}, slots=2, mode="strong")
    tuned = size_overrides(CONFIG, {"batch_size": 8}, slots=1, mode="strong")
    assert "hyperparameters.batch_size=32" in tuned
    assert "resources.slots=1" in tuned


def test_a_batch_that_cannot_be_divided_and_a_script_are_refused_with_what_works():
    with pytest.raises(Impossible, match="96 samples") as refused:
        size_overrides(CONFIG, {}, slots=5, mode="strong")
    assert "1, 2, 3, 4, 6, 8" in refused.value.hint
    with pytest.raises(Impossible) as refused:
        size_overrides({**CONFIG, "trainer": None}, {}, slots=2, mode="strong")
    assert "weak" in refused.value.hint
    for config, hparams in (
        ({**CONFIG, "trainer": {**CONFIG["trainer"], "batch_size": "auto"}}, {}),
        (CONFIG, {"batch_size": "auto"}),
    ):
        with pytest.raises(Impossible, match="batch_size is auto"):
            size_overrides(config, hparams, slots=2, mode="weak")


def test_runs_come_one_after_another():
    first, second = Point(slots=1, repeat=1), Point(slots=2, repeat=1)
    assert next_action(report(first, second)) == Launch(
        report_id=7, index=0, reason="It is the turn of run 1 of 2, on 1 slot(s)."
    )
    going = Point(slots=1, repeat=1, experiment_id=5)
    at = Underway(state="RUNNING", step=10, is_stopping=False)
    assert next_action(report(going, second, underway=at)) is None
    ended = Underway(state="COMPLETED", step=45, is_stopping=False)
    assert isinstance(next_action(report(going, second, underway=ended)), Measure)
    over = Point(slots=1, repeat=1, experiment_id=5, run=run(1))
    assert isinstance(next_action(report(over, second)), Launch)


def test_a_script_that_would_go_on_is_stopped_after_its_steps_once():
    going = Point(slots=1, repeat=1, experiment_id=5)
    enough = Underway(state="RUNNING", step=40 + SKIPPED_STEPS, is_stopping=False)
    assert isinstance(next_action(report(going, underway=enough)), StopRun)
    told = Underway(state="RUNNING", step=60, is_stopping=True)
    assert next_action(report(going, underway=told)) is None


def test_a_deleted_run_is_passed_over_and_a_report_without_any_has_failed():
    going = Point(slots=1, repeat=1, experiment_id=5)
    gone = Underway(state=None, step=0, is_stopping=False)
    assert "deleted" in next_action(report(going, underway=gone)).reason
    failed = Point(slots=1, repeat=1, problem="It is FAILED.")
    assert next_action(report(failed)) == Finish(
        report_id=7, state="failed", reason="No run was measured: It is FAILED."
    )
    done = next_action(report(failed, Point(slots=2, repeat=1, run=run(2))))
    assert (done.state, "1 were not" in done.reason) == ("done", True)


def test_speed_up_is_throughput_over_that_of_the_smallest_size():
    measured = [
        Point(slots=slots, repeat=repeat, run=run(slots, step_s=step_s))
        for slots, times in {1: (0.1, 0.1), 2: (0.124, 0.126), 4: (0.2, 0.2)}.items()
        for repeat, step_s in enumerate(times, start=1)
    ]
    one, two, four = sizes(measured)
    assert (one.speedup.value, one.speedup.low, one.speedup.high) == (1, 1, 1)
    assert two.speedup.value == pytest.approx(1.6, rel=0.001)
    assert two.efficiency.value == pytest.approx(0.8, rel=0.001)
    assert two.efficiency.low < 0.8 < two.efficiency.high
    assert four.speedup.value == pytest.approx(2.0)
    assert sum(two.parts_s.values()) == pytest.approx(two.step_s.value)
    assert (two.num_runs, two.num_steps) == (2, 80)


def test_one_repeat_has_no_interval():
    (_, two) = sizes([Point(slots=s, repeat=1, run=run(s)) for s in (1, 2)])
    assert two.speedup.high == math.inf
