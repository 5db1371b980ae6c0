"""Which step a recorded collective belongs to."""

from __future__ import annotations

import pytest

from muster.measure import step_counts
from muster.measure.recorder import RecordedCollective
from muster.measure.step_counts import StepCounts, StepSpan

LABELS = {"0": "world", "7": "mesh_tp"}


def called(
    at: int, *, group: str = "0", kind: str = "all_reduce", num_bytes: int = 8
) -> RecordedCollective:
    return RecordedCollective(
        at, "0", group, "", kind, num_bytes, at, False, True, "", created_ns=at
    )


def test_a_row_is_the_mean_of_the_steps_that_are_over() -> None:
    counts = StepCounts()
    counts.add_step(StepSpan(4, ((100, 200),)))
    counts.add_step(StepSpan(5, ((200, 300),)))
    counts.add_step(StepSpan(6, ((300, 400),)))
    counts.add([called(100), called(199, num_bytes=4), called(200, kind="broadcast", group="7")])
    counts.add([called(299, group="9"), called(310), called(50)])
    assert counts.take(LABELS, until_ns=350) == (
        5,
        {
            "comm/recorder_steps": 2.0,
            "comm/world/all_reduce/count": 1.0,
            "comm/world/all_reduce/bytes": 6.0,
            "comm/mesh_tp/broadcast/count": 0.5,
            "comm/mesh_tp/broadcast/bytes": 4.0,
        },
    )
    assert counts.take(LABELS, until_ns=399) is None
    counts.add([called(390)])
    assert counts.take(LABELS, until_ns=400) == (
        6,
        {
            "comm/recorder_steps": 1.0,
            "comm/world/all_reduce/count": 2.0,
            "comm/world/all_reduce/bytes": 16.0,
        },
    )


def test_a_pause_is_no_part_of_its_step() -> None:
    counts = StepCounts()
    counts.add_step(StepSpan(1, ((0, 10), (90, 100))))
    counts.add([called(5), called(10), called(50), called(95)])
    found = counts.take(LABELS, until_ns=100)
    assert found is not None
    assert found[1]["comm/world/all_reduce/count"] == 2


def test_a_step_of_which_the_ring_has_lost_some_is_left_out() -> None:
    counts = StepCounts()
    for no in range(3):
        counts.add_step(StepSpan(no, ((100 * no, 100 * no + 100),)))
    counts.add([called(150), called(250)], lost_before=150)
    found = counts.take(LABELS, until_ns=300)
    assert found is not None
    assert found[1]["comm/recorder_steps"] == 1
    assert found[1]["comm/world/all_reduce/count"] == 1
    counts.add_step(StepSpan(3, ((300, 400),)))
    counts.add([called(390)], lost_before=390)
    assert counts.take(LABELS, until_ns=400) is None


def test_what_waits_for_the_end_of_a_long_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_counts, "MAX_WAITING", 10)
    counts = StepCounts()
    counts.add(called(at) for at in range(30))
    counts.add_step(StepSpan(0, ((0, 25),)))
    counts.add_step(StepSpan(1, ((25, 100),)))
    found = counts.take(LABELS, until_ns=100)
    assert found is not None
    assert found[1]["comm/recorder_steps"] == 1
    assert found[1]["comm/world/all_reduce/count"] == 5
