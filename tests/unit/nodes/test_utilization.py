"""How many slots were held over time."""

from __future__ import annotations

import pytest

from muster_server.domain.nodes.utilization import mean_held


def held(*spans: tuple[float, float], now_s: float = 140.0) -> list[float]:
    return mean_held(spans, start_s=100.0, bucket_s=10.0, num=4, now_s=now_s)


def test_a_slot_counts_for_the_part_of_each_bucket_that_it_was_held() -> None:
    assert held((105, 125)) == [0.5, 1.0, 0.5, 0.0]
    assert held((112, 114)) == [0.0, 0.2, 0.0, 0.0]
    assert held((110, 120)) == [0.0, 1.0, 0.0, 0.0]


def test_slots_add_up() -> None:
    assert held((100, 140), (100, 140), (120, 130)) == [2.0, 2.0, 3.0, 2.0]


def test_what_lies_outside_of_the_period_does_not_count() -> None:
    assert held((0, 105), (135, 999), (0, 90), (150, 160)) == [0.5, 0.0, 0.0, 0.5]
    assert held((120, 120), (130, 120)) == [0.0] * 4


def test_the_present_bucket_is_measured_by_what_has_passed_of_it() -> None:
    assert held((110, 999), now_s=124.0) == [0.0, 1.0, pytest.approx(1.0), 0.0]
    assert held((122, 999), now_s=124.0) == [0.0, 0.0, pytest.approx(0.5), 0.0]
