"""Experiments that start at the times of a cron expression."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import Field

from muster_server.domain.experiments.schedules import Overlap

from .base import Input, Output, PartOut, SafeStr
from .experiments import ExperimentIn

Cron = Annotated[SafeStr, Field(min_length=1, max_length=120)]
TimeZone = Annotated[SafeStr, Field(min_length=1, max_length=64)]


class ScheduleIn(Input):
    cron: Cron
    """Five fields: minute, hour, day of month, month, day of week. `30 2 * * 1-5` is 02:30 from Monday to
    Friday."""
    timezone: TimeZone = "UTC"
    """Name of the time zone of these times, such as Europe/Berlin."""
    overlap: Overlap = "skip"
    """What happens when the experiment of the time before has not ended. `skip`: nothing starts this time.
    `allow`: another one starts. `replace`: the old one is stopped, with time for a last checkpoint, and
    another one starts."""
    experiment: ExperimentIn
    """What is submitted each time, in the name of who created the schedule."""


class SchedulePatch(Input):
    cron: Cron | None = None
    timezone: TimeZone | None = None
    overlap: Overlap | None = None
    is_paused: bool | None = None
    """Whether nothing starts. Times that pass meanwhile are not made up for."""


class ScheduleOut(Output):
    id: int
    name: str
    """The name in the document."""
    project: str
    owner: str | None
    """Who created it; null for an account that was removed: nothing starts then."""
    cron: str
    cron_in_words: str
    """In English."""
    timezone: str
    overlap: Overlap
    is_paused: bool
    upcoming: list[dt.datetime]
    """The next times, at most three; none while it is paused."""
    last_at: dt.datetime | None
    """When it last started something, or did not; null: never so far."""
    last_experiment_id: int | None
    """Newest experiment that it started; it may have been deleted since."""
    last_reason: str
    """What came of it, and why; empty before the first time."""
    last_reason_parts: list[PartOut]
    created_at: dt.datetime


class ScheduleListOut(Output):
    items: list[ScheduleOut]
    """All that the caller sees, the next to start first; at most 500."""
