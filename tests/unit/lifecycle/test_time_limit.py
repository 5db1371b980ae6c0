"""How long a trial has run, against the longest that its document allows."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server.domain.durations import InvalidMoment, parse_duration
from muster_server.domain.lifecycle.time_limit import RunTime, ran_for, time_limit_reason

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def run(start_h: float, end_h: float | None = None) -> RunTime:
    ended_at = None if end_h is None else NOW + end_h * HOUR
    return RunTime(started_at=NOW + start_h * HOUR, ended_at=ended_at)


@pytest.mark.parametrize(
    ("attempts", "hours"),
    [
        ([], 0),
        ([RunTime(started_at=None)], 0),
        ([run(-2)], 2),
        ([run(-9, -8), run(-2, -1), run(-0.5)], 2.5),
        ([run(1)], 0),
    ],
    ids=["never placed", "prepares", "runs", "three attempts", "a clock that was set back"],
)
def test_only_the_time_that_workers_ran_counts(attempts: list[RunTime], hours: float) -> None:
    assert ran_for(attempts, now=NOW) == hours * HOUR


def test_the_reason_comes_at_the_limit_and_says_how_to_go_on() -> None:
    assert time_limit_reason(2 * HOUR, "2h", 1.99 * HOUR, experiment_id=36) == ""
    reason = time_limit_reason(2 * HOUR, "2h", 2 * HOUR, experiment_id=36)
    assert reason.startswith("It has run for 2h, the longest that resources.max_duration allows")
    assert "muster continue 36 --set resources.max_duration=" in reason


@pytest.mark.parametrize(
    ("text", "seconds"), [("4h", 14_400), (" 90min ", 5400), ("1d12h", 129_600), ("0.5s", 0.5)]
)
def test_lengths_of_time_add_up(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "4", "h", "0s", "-4h", "4 h", "99999d", "2026-01-01T00:00Z"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidMoment):
        parse_duration(text)
