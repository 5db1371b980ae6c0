"""Deadlines as people write them."""

import datetime as dt

import pytest

from muster_server.domain.durations import is_relative, parse_deadline

T0 = dt.datetime(2026, 1, 2, 3, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("6h", 6),
        ("90min", 1.5),
        ("30m", 0.5),
        ("1d12h", 36),
        ("30s", 30 / 3600),
        ("1.5h", 1.5),
        ("2w", 336),
    ],
)
def test_a_length_of_time_counts_from_the_start(text, hours):
    assert parse_deadline(text, T0) == T0 + dt.timedelta(hours=hours)
    assert is_relative(text)


@pytest.mark.parametrize(
    "text", ["2026-01-02T06:00:00Z", "2026-01-02 08:00+02:00", "2026-01-02T06:00+00:00"]
)
def test_a_moment_is_what_it_says(text):
    assert parse_deadline(text, T0) == T0 + dt.timedelta(hours=3)
    assert not is_relative(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "neither"),
        ("soon", "neither"),
        ("6", "neither"),
        ("6 h", "neither"),
        ("-6h", "neither"),
        ("0h", "longer than nothing"),
        ("9999w", "at most 3650 days"),
        ("2026-01-02T06:00:00", "no time zone"),
        ("9" * 40 + "h", "neither"),
    ],
)
def test_what_is_wrong_is_said(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_deadline(text, T0)
