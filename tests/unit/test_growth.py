"""When the disk is full is said from enough history, or not at all."""

from __future__ import annotations

import pytest

from muster_server.domain.growth import Forecast, forecast, per_day


@pytest.mark.parametrize(
    ("added", "history", "free", "days", "reason"),
    [
        (7_000, 30.0, 10_000, 10, ""),
        (3_000, 3.0, 10_000, 10, ""),  # of the days that there are
        (7_000, 1.9, 10_000, None, "not_enough_history"),
        (0, 0.0, 10_000, None, "not_enough_history"),
        (7_000, 30.0, None, None, "unknown_disk"),
        (0, 30.0, 10_000, None, "no_growth"),
        (7_000, 30.0, 0, 0, ""),
    ],
)
def test_forecast(added, history, free, days, reason):
    found = forecast(added_bytes=added, history_days=history, free_bytes=free)
    assert found == Forecast(days=days, reason=reason)


def test_growth_is_per_day_of_the_window():
    assert per_day(7_000, 365.0) == 1_000
    assert per_day(7_000, 1.0) is None
