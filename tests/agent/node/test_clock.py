"""Clocks of a node: they never jump within a process, and are compared with the server's."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_agent.clock import DRIFT, ClockSync, boot_clock, unix_at_boot_ms, unix_ms


def test_stamps_follow_the_boot_clock() -> None:
    before, stamp, after = boot_clock(), unix_ms(), boot_clock()
    assert before * 1000 - 1 <= stamp - unix_at_boot_ms() <= after * 1000 + 1
    assert abs(stamp - time.time() * 1000) < 60_000


def test_nothing_is_known_before_the_first_answer() -> None:
    assert ClockSync().read(5.0) is None


@given(
    offset_s=st.floats(-1e6, 1e9),
    wall_skew_s=st.floats(-4000, 4000),
    trips=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=20),
)
def test_the_offset_is_right_to_within_its_error(
    offset_s: float, wall_skew_s: float, trips: list[tuple[float, float]]
) -> None:
    """Whatever the way there and the way back take, and however they differ."""
    boot_s = 100.0
    sync = ClockSync(wall=lambda: boot_s + offset_s + wall_skew_s)
    for there_s, back_s in trips:
        boot_s += 5.0
        sent_s, served_s = boot_s, boot_s + there_s
        boot_s = served_s + back_s
        sync.add(
            sent_boot_s=sent_s,
            received_boot_s=boot_s,
            server_time_ms=(served_s + offset_s) * 1000,
        )
        reading = sync.read(boot_s)
        assert reading is not None
        assert abs(reading.offset_ms / 1000 - offset_s) <= reading.error_ms / 1000 + 1e-3
        assert abs(reading.skew_s - wall_skew_s) <= reading.error_ms / 1000 + 1e-3
    quickest_ms = min(sum(trip) for trip in trips) / 2 * 1000
    longest_ms = boot_s * DRIFT * 1000
    assert reading.error_ms <= quickest_ms + longest_ms + 1e-3


def test_a_quick_answer_counts_until_drift_has_eaten_it_up() -> None:
    sync = ClockSync()
    sync.add(sent_boot_s=10.0, received_boot_s=10.01, server_time_ms=1_010_005.0)
    sync.add(sent_boot_s=20.0, received_boot_s=24.0, server_time_ms=1_020_000.0)
    reading = sync.read(24.0)
    assert reading is not None
    assert reading.offset_ms == pytest.approx(1_000_000)
    assert reading.error_ms == pytest.approx(5 + 14 * DRIFT * 1000, rel=0.01)
