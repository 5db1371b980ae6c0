"""Every mean of measured rows is a sum over a sum."""

from __future__ import annotations

import pytest

from muster_server.domain.insight.figures import figures, source_note

STEPS = {1: 100.0, 2: 100.0, 3: 100.0, 4: 500.0}
"""Step → its time in ms: three fast ones and a slow one, each a row."""
SAMPLES = 32


def rows() -> dict[str, dict[int, float]]:
    return {
        "time/step_ms": dict(STEPS),
        "time/forward_ms": {step: ms - 20.0 for step, ms in STEPS.items()},
        "comm/exposed_ms": dict.fromkeys(STEPS, 20.0),
        "comm/overhead_ratio": {step: 20.0 / ms for step, ms in STEPS.items()},
        "throughput/samples_per_s": {step: SAMPLES / ms * 1e3 for step, ms in STEPS.items()},
        "comm/recorded_pct": dict.fromkeys(STEPS, 100.0),
    }


def test_a_rate_is_the_samples_over_the_time_not_the_mean_of_the_rates() -> None:
    found = figures({0: rows()}).values
    assert found["time/step_ms"] == pytest.approx(200)
    assert found["throughput/samples_per_s"] == pytest.approx(4 * SAMPLES / 0.8)
    # So it is the batch over the step time that stands beside it; a mean of rates says 256.
    assert found["throughput/samples_per_s"] == pytest.approx(SAMPLES / found["time/step_ms"] * 1e3)


def test_a_share_is_that_of_the_sums() -> None:
    found = figures({0: rows()}).values
    assert found["comm/overhead_ratio"] == pytest.approx(80 / 800)
    assert found["comm/overhead_ratio"] == pytest.approx(
        found["comm/exposed_ms"] / found["time/step_ms"]
    )


def test_a_row_of_many_fast_steps_counts_for_each_of_them() -> None:
    of_rank = {
        # 10 steps of 10 ms, 10 more, then one of 100 ms.
        "time/step_ms": {10: 10.0, 20: 10.0, 21: 100.0},
        "throughput/samples_per_s": {10: 800.0, 20: 800.0, 21: 80.0},
    }
    found = figures({0: of_rank})
    # The steps of the first row are not known and taken to be those of the median row.
    assert found.num_rows == 3
    first = 5.5
    assert found.values["time/step_ms"] == pytest.approx(
        (first * 10 + 10 * 10 + 100) / (first + 11)
    )
    assert found.values["throughput/samples_per_s"] == pytest.approx(
        8 / found.values["time/step_ms"] * 1e3
    )


def test_each_rank_counts_alike_and_has_no_time_in_a_part_that_it_does_not_have() -> None:
    other = {name: series for name, series in rows().items() if "/s" not in name}
    other["time/step_ms"] = STEPS
    other["pipeline/bubble_ms"] = dict.fromkeys(STEPS, 8.0)
    other["comm/exposed_ms"] = dict.fromkeys(STEPS, 60.0)
    found = figures({0: rows(), 1: other}).values
    assert found["pipeline/bubble_ms"] == pytest.approx(4)
    assert found["comm/exposed_ms"] == pytest.approx(40)
    # Rank 0 alone reports the samples of all.
    assert found["throughput/samples_per_s"] == pytest.approx(160)
    assert "comm/recorded_pct" not in found


def test_what_is_measured_without_steps_is_the_mean_of_its_rows() -> None:
    found = figures({0: {"throughput/rows_per_s": {1: 10.0, 2: 30.0}}})
    assert (found.values, found.num_rows) == ({"throughput/rows_per_s": 20.0}, 2)
    assert figures({}).values == {}


def test_windows_of_the_profiler_say_the_parts_and_not_the_speed() -> None:
    steps = range(1, 401)
    of_rank = {
        "time/step_ms": {step: 16.0 if step in (101, 301) else 10.0 for step in steps},
        "throughput/samples_per_s": {
            step: 2000.0 if step in (101, 301) else 3200.0 for step in steps
        },
        "time/forward_ms": {101: 12.0, 301: 12.0},
        "comm/exposed_ms": {101: 4.0, 301: 4.0},
        "comm/overhead_ratio": {101: 0.25, 301: 0.25},
        "comm/timeline_steps": {101: 1.0, 301: 1.0},
    }
    found = figures({0: of_rank}).values
    assert found["time/step_ms"] == pytest.approx(10.03)
    assert found["throughput/samples_per_s"] == pytest.approx(32 / 10.03 * 1e3)
    assert (found["comm/exposed_ms"], found["comm/overhead_ratio"]) == (4, 0.25)
    assert "comm/timeline_steps" not in found
    note = source_note({0: of_rank})
    assert note is not None
    assert note.english.endswith("from the kernel timeline: 2 of 300 steps.")
    assert source_note({0: rows()}) is None
    counted = of_rank | {"comm/recorder_steps": {200: 198.0, 400: 200.0}}
    assert "comm/recorder_steps" not in figures({0: counted}).values
    both = source_note({0: counted})
    assert both is not None
    assert "kernel timeline: 2 of 300 steps." in both.english
    assert both.english.endswith("from torch's flight recorder: 398 steps.")
