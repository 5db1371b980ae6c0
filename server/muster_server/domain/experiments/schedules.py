"""Experiments that start at times of a cron expression: when, and what happens if the last one still runs.
Pure."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cronsim import CronSim, CronSimError

from muster.counting import counted
from muster.nearest import nearest

from ..messages import Message

Overlap = Literal["skip", "allow", "replace"]
"""What happens when the experiment of the time before has not ended: the new one is not started, starts
beside it, or starts after the old one was told to stop."""


class InvalidSchedule(ValueError):
    """A cron expression or a time zone that cannot be read."""

    def __init__(self, field: Literal["cron", "timezone"], problem: str, hint: str) -> None:
        super().__init__(problem)
        self.field, self.problem, self.hint = field, problem, hint


@dataclass(frozen=True, kw_only=True)
class DueSchedule:
    """A schedule whose time has come."""

    id: int
    cron: str
    timezone: str
    overlap: Overlap
    next_at: dt.datetime
    """The time that has come, or the first of several."""
    running_id: int | None = None
    """Its newest experiment, while that has not ended."""
    obstacle: Message | None = None
    """Why nothing can be started in its owner's name."""


@dataclass(frozen=True, kw_only=True)
class ScheduleTurn:
    """What a schedule does at a time."""

    schedule_id: int
    due_at: dt.datetime
    """`next_at` of the schedule as it was decided."""
    next_at: dt.datetime | None
    """Its time after this one; None: there is none."""
    starts: bool
    stops_id: int | None = None
    """Experiment that is told to stop before."""
    reason: Message


def check(cron: str, timezone: str, *, now: dt.datetime) -> None:
    """Raise InvalidSchedule unless there is a time after `now`."""
    num = len(cron.split())
    if num != 5:
        raise InvalidSchedule(
            "cron",
            f"has {counted(num, 'field')}; there are five: minute, hour, day of month, month, day of week",
            "write 30 2 * * 1-5 for 02:30 from Monday to Friday",
        )
    try:
        zoneinfo.ZoneInfo(timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(timezone, sorted(zoneinfo.available_timezones()))
        hint = f"did you mean {near!r}?" if near else "write a name such as Europe/Berlin, or UTC"
        raise InvalidSchedule("timezone", f"there is no time zone {timezone!r}", hint) from None
    try:
        found = next_after(cron, timezone, now)
    except CronSimError as error:
        raise InvalidSchedule(
            "cron",
            f"cannot be read: {str(error).lower()}",
            "five fields: minute 0-59, hour 0-23, day of month 1-31, month 1-12, day of week 0-7",
        ) from None
    if found is None:
        raise InvalidSchedule("cron", "never comes to pass", "choose a day that exists")


def times_after(cron: str, timezone: str, after: dt.datetime) -> Iterator[dt.datetime]:
    """Return the times of a schedule after a moment, in UTC. A time that the clocks leave out in spring comes
    right after the gap, one that they repeat in autumn comes once, and those of every hour or minute go on by
    the elapsed time, as in Debian's cron."""
    return (
        at.astimezone(dt.UTC) for at in CronSim(cron, after.astimezone(zoneinfo.ZoneInfo(timezone)))
    )


def next_after(cron: str, timezone: str, after: dt.datetime) -> dt.datetime | None:
    """Return the first time after a moment; None if there is none within fifty years."""
    return next(times_after(cron, timezone, after), None)


def in_words(cron: str) -> str:
    """Return a cron expression in English."""
    return CronSim(cron, dt.datetime(2000, 1, 1)).explain()


def decide(due: Sequence[DueSchedule], *, now: dt.datetime) -> list[ScheduleTurn]:
    """Return what each schedule whose time has come does. Of several times that were missed, one is made up
    for."""
    return [_turn(schedule, now) for schedule in due if schedule.next_at <= now]


def _turn(schedule: DueSchedule, now: dt.datetime) -> ScheduleTurn:
    second = next_after(schedule.cron, schedule.timezone, schedule.next_at)
    starts, stops_id = True, None
    if schedule.obstacle is not None:
        starts, reason = False, schedule.obstacle
    elif schedule.running_id is not None and schedule.overlap == "skip":
        starts, reason = False, Message("schedule.skipped", experiment=schedule.running_id)
    elif schedule.running_id is not None and schedule.overlap == "replace":
        stops_id = schedule.running_id
        reason = Message("schedule.replaced", experiment=stops_id)
    elif second is not None and second <= now:
        reason = Message("schedule.made_up")
    else:
        reason = Message("schedule.started")
    return ScheduleTurn(
        schedule_id=schedule.id,
        due_at=schedule.next_at,
        next_at=next_after(schedule.cron, schedule.timezone, now),
        starts=starts,
        stops_id=stops_id,
        reason=reason,
    )
