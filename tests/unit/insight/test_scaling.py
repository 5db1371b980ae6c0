import math
from dataclasses import replace

import pytest

from muster.document.experiment import ExperimentConfig
from muster.document.running import ResourcesSection
from muster.document.training import TrainerSection
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.steps import MeasuredRun, fit_steps, predict
from muster_server.domain.insight.scaling import (
    MAX_REPEATS,
    SKIPPED_STEPS,
    FinishReport,
    Impossible,
    Launch,
    Point,
    ReadMeasurements,
    Report,
    StopRun,
    Underway,
    added,
    doubt,
    next_action,
    points,
    size_overrides,
    sizes,
)

TRAINER = TrainerSection(batch_size=24)
CONFIG = ExperimentConfig(name="x", trainer=TRAINER, resources=ResourcesSection(slots=4))


def run(size, step_s=0.1, samples=32.0):
    return MeasuredRun(
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
        size_overrides(replace(CONFIG, trainer=None), {}, slots=2, mode="strong")
    assert "weak" in refused.value.hint
    for config, hparams in (
        (replace(CONFIG, trainer=replace(TRAINER, batch_size="auto")), {}),
        (CONFIG, {"batch_size": "auto"}),
    ):
        with pytest.raises(Impossible, match="batch_size is auto"):
            size_overrides(config, hparams, slots=2, mode="weak")


def test_runs_come_one_after_another():
    first, second = Point(slots=1, repeat=1), Point(slots=2, repeat=1)
    assert next_action(report(first, second)) == Launch(
        report_id=7, index=0, reason="It is the turn of run 1 of 2, on 1 slot."
    )
    going = Point(slots=1, repeat=1, experiment_id=5)
    at = Underway(state="RUNNING", step=10, is_stopping=False)
    assert next_action(report(going, second, underway=at)) is None
    ended = Underway(state="COMPLETED", step=45, is_stopping=False)
    assert isinstance(next_action(report(going, second, underway=ended)), ReadMeasurements)
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
    assert next_action(report(failed)) == FinishReport(
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


def repeated(slots, *times):
    return [
        Point(slots=slots, repeat=n, experiment_id=n, run=run(slots, step_s=time))
        for n, time in enumerate(times, start=1)
    ]


def test_a_step_that_is_not_determined_is_measured_again_up_to_a_bound():
    steady, noisy = repeated(1, 0.1, 0.101), repeated(2, 0.1, 0.2)
    action = next_action(report(*steady, *noisy))
    assert (action.slots, action.reason) == (
        (2,), "The repeats on 2 slots differ too much: each is measured once more."
    )  # fmt: skip
    (more,) = added([*steady, *noisy], action.slots)
    assert (more.slots, more.repeat, more.is_added) == (2, 3, True)
    worst = repeated(2, *[0.02, 0.5] * (MAX_REPEATS // 2))
    done = next_action(report(*steady, *worst))
    assert isinstance(done, FinishReport)
    assert "The step on 2 slots is still not determined" in done.reason
    # What the report may spend is spent; one run of a size is what was asked for.
    assert isinstance(
        next_action(
            Report(id=7, points=tuple(noisy), num_steps=40, underway=None, has_slot_hours=False)
        ),
        FinishReport,
    )
    assert isinstance(next_action(report(*repeated(1, 0.1), *repeated(2, 0.2))), FinishReport)


def fitted(points):
    """With what each of several workers sends, so that the network is known."""
    sent = Transfer(kind="all_reduce", size=2, count=1, num_bytes=1e6, transfer_s=0.015)
    points = [
        replace(p, run=replace(p.run, transfers=(sent,), wait_s=0.01)) if p.slots > 1 else p
        for p in points
    ]
    model = fit_steps([p.run for p in points])
    return model, sizes(points)


def test_a_prediction_that_is_doubted_says_why():
    points = [*repeated(1, 0.1, 0.1, 0.1), *repeated(2, 0.1, 0.1, 0.1)]
    model, measured = fitted(points)
    found = predict(model, size=4, samples=32.0)
    assert doubt(found, model, measured, "weak") is None
    off = replace(model, error=0.208)
    assert "The model is 21% off the measured" in doubt(found, off, measured, "weak").english
    shorter = replace(found, step_s=found.step_s.scaled(0.5))
    reason = doubt(shorter, model, measured, "weak").english
    assert "less than the 100 ms measured on 2 slots" in reason
    # The same training on more slots is to be faster.
    assert doubt(shorter, model, measured, "strong") is None
    wide = replace(found, step_s=replace(found.step_s, low=0.01, high=0.3))
    assert "wider than the value" in doubt(wide, model, measured, "weak").english


def test_a_prediction_from_one_run_of_each_size_is_none():
    model, measured = fitted([*repeated(1, 0.1), *repeated(2, 0.12)])
    found = predict(model, size=4, samples=32.0)
    assert "at least 3 repeats" in doubt(found, model, measured, "weak").english
