"""When schedules start their experiments, and what they do instead."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.experiments.schedules import (
    DueSchedule,
    InvalidSchedule,
    check,
    decide,
    next_after,
)
from muster_server.domain.messages import Message

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC") -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone))


def local(moment: dt.datetime | None) -> str:
    assert moment is not None
    return f"{moment.astimezone(zoneinfo.ZoneInfo(BERLIN)):%m-%d %H:%M %z}"


@pytest.mark.parametrize(
    ("cron", "after", "times"),
    [
        # The clocks go from 02:00 to 03:00 on 28 March 2027: 02:30 comes right after the gap.
        ("30 2 * * *", "2027-03-27 03:00", ["03-28 03:00 +0200", "03-29 02:30 +0200"]),
        # They go from 03:00 to 02:00 on 31 October 2027: 02:30 comes once.
        ("30 2 * * *", "2027-10-30 03:00", ["10-31 02:30 +0200", "11-01 02:30 +0100"]),
        # What starts every half hour goes on every half hour.
        (
            "*/30 * * * *",
            "2027-10-31 02:20",
            ["10-31 02:30 +0200", "10-31 02:00 +0100", "10-31 02:30 +0100", "10-31 03:00 +0100"],
        ),
        ("0 9 * * 1-5", "2026-11-27 10:00", ["11-30 09:00 +0100", "12-01 09:00 +0100"]),
        ("0 0 29 2 *", "2026-11-27 10:00", ["02-29 00:00 +0100"]),
    ],
)
def test_times_follow_the_clocks_of_the_time_zone(cron, after, times):
    moment: dt.datetime | None = at(after, BERLIN)
    for expected in times:
        assert moment is not None
        moment = next_after(cron, BERLIN, moment)
        assert local(moment) == expected


@pytest.mark.parametrize(
    ("cron", "timezone", "field", "problem"),
    [
        ("30 2 * *", "UTC", "cron", "has 4 fields"),
        ("0 30 2 * * *", "UTC", "cron", "has 6 fields"),
        ("@daily", "UTC", "cron", "has 1 field;"),
        ("61 * * * *", "UTC", "cron", "cannot be read: bad minute"),
        ("0 0 30 2 *", "UTC", "cron", "bad day-of-month"),
        ("0 0 * * *", "Europe/Berln", "timezone", "there is no time zone 'Europe/Berln'"),
        ("0 0 * * *", "../etc/passwd", "timezone", "there is no time zone"),
        ("0 0 * * *", "", "timezone", "there is no time zone"),
    ],
)
def test_what_cannot_work_is_named(cron, timezone, field, problem):
    with pytest.raises(InvalidSchedule) as raised:
        check(cron, timezone, now=at("2026-11-30 12:00"))
    assert (raised.value.field, problem in raised.value.problem) == (field, True)
    assert raised.value.hint


def test_a_mistyped_time_zone_is_guessed():
    with pytest.raises(InvalidSchedule) as raised:
        check("0 0 * * *", "Europe/Berln", now=at("2026-11-30 12:00"))
    assert raised.value.hint == "did you mean 'Europe/Berlin'?"


def due(**given):
    facts = {
        "id": 1, "cron": "0 2 * * *", "timezone": "UTC", "overlap": "skip",
        "next_at": at("2026-11-30 02:00"),
    }  # fmt: skip
    return DueSchedule(**{**facts, **given})


@pytest.mark.parametrize(
    ("given", "now", "starts", "stops_id", "said"),
    [
        ({}, "2026-11-30 02:00", True, None, "Started at its time."),
        ({}, "2026-11-30 09:00", True, None, "Started at its time."),
        ({}, "2026-12-03 09:00", True, None, "Started once for several times at which no"),
        ({"running_id": 7}, "2026-11-30 02:00", False, None, "Not started: experiment 7 of the"),
        ({"running_id": 7, "overlap": "allow"}, "2026-11-30 02:00", True, None, "Started at its"),
        ({"running_id": 7, "overlap": "replace"}, "2026-11-30 02:00", True, 7, "Started, after"),
        ({"overlap": "replace"}, "2026-11-30 02:00", True, None, "Started at its time."),
        (
            {"obstacle": Message("schedule.no_owner"), "running_id": 7},
            "2026-11-30 02:00",
            False,
            None,
            "Not started: its owner",
        ),
    ],
)
def test_what_a_schedule_does_at_a_time(given, now, starts, stops_id, said):
    (turn,) = decide([due(**given)], now=at(now))
    assert (turn.starts, turn.stops_id) == (starts, stops_id)
    assert turn.reason.english.startswith(said)
    assert turn.due_at == at("2026-11-30 02:00")
    assert turn.next_at is not None
    assert turn.next_at > at(now)


def test_nothing_happens_before_its_time():
    assert decide([due()], now=at("2026-11-30 01:59:59")) == []


@given(
    minute=st.integers(0, 59),
    hour=st.one_of(st.just("*"), st.integers(0, 23)),
    weekday=st.one_of(st.just("*"), st.integers(0, 6)),
    zone=st.sampled_from(
        ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]
    ),
    start=st.datetimes(dt.datetime(2026, 1, 1), dt.datetime(2028, 12, 31)),
    pauses=st.lists(st.integers(1, 3 * 86_400), min_size=1, max_size=12),
)
def test_each_time_is_taken_once_whenever_the_controller_looks(
    minute, hour, weekday, zone, start, pauses
):
    """Whoever looks at any moments takes the times in order, never one twice, and misses none but those that
    it was too late for."""
    cron, now = f"{minute} {hour} * * {weekday}", start.replace(tzinfo=dt.UTC)
    next_at = next_after(cron, zone, now)
    for pause in pauses:
        now += dt.timedelta(seconds=pause)
        assert next_at is not None
        turns = decide([due(cron=cron, timezone=zone, next_at=next_at)], now=now)
        assert len(turns) == (next_at <= now)
        for turn in turns:
            assert turn.next_at is not None
            between = next_after(cron, zone, next_at)
            assert turn.next_at > now
            assert (turn.reason.code == "schedule.made_up") == (between <= now)
            if between > now:
                assert turn.next_at == between
            next_at = turn.next_at
