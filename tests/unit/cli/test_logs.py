"""How ranks and times are written on the command line."""

from __future__ import annotations

import datetime as dt

import pytest

from muster.cli.commands.logs import parse_levels, parse_ranks, parse_time
from muster.cli.output import CommandFailure

NOW = dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.UTC)


def test_ranks_are_numbers_lists_and_ranges() -> None:
    assert parse_ranks([]) == []
    assert parse_ranks(["3", "0,4-6", "-1"]) == [-1, 0, 3, 4, 5, 6]


@pytest.mark.parametrize("text", ["", "a", "2-1", "-2", "1.5", "0-5000", "0-999,1000", "1;2"])
def test_other_ranks_are_refused(text: str) -> None:
    with pytest.raises(CommandFailure, match="--rank"):
        parse_ranks([text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", "2026-11-21T11:58:30+00:00"),
        ("1.5h", "2026-11-21T10:30:00+00:00"),
        ("3d", "2026-11-18T12:00:00+00:00"),
        ("2026-11-20T08:00:00+02:00", "2026-11-20T06:00:00+00:00"),
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00+00:00"),
    ],
)
def test_times_are_so_long_ago_or_written_out(text: str, expected: str) -> None:
    assert parse_time("--since", text, NOW) == expected


def test_a_time_of_day_is_of_today() -> None:
    local = NOW.astimezone()
    at = dt.datetime.fromisoformat(parse_time("--since", "9:05", local)).astimezone()
    assert (at.date(), at.hour, at.minute) == (local.date(), 9, 5)


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10w", "25:00", "9999999d", "2026-13-01"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(CommandFailure, match=r"--until .* is no time"):
        parse_time("--until", text, NOW)


def test_levels_are_lists() -> None:
    assert parse_levels(["Error,critical", "info"]) == ["info", "error", "critical"]
    with pytest.raises(CommandFailure, match="'loud' is no level"):
        parse_levels(["loud"])
