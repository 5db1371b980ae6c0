"""Times with a start and an end that people are told of: maintenance windows and reservations."""

from __future__ import annotations

import abc
import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Period(abc.ABC):
    """A time that begins and ends by the clock alone."""

    id: int
    starts_at: dt.datetime
    ends_at: dt.datetime | None
    """When it ends by itself; None if somebody has to end it."""

    def is_active(self, now: dt.datetime) -> bool:
        return self.starts_at <= now and (self.ends_at is None or now < self.ends_at)

    @property
    def span(self) -> str:
        """ "2026-12-01 18:00–19:00 UTC", "2026-12-01 18:00 UTC –": the same in every language."""
        start = f"{self.starts_at.astimezone(dt.UTC):%Y-%m-%d %H:%M}"
        if self.ends_at is None:
            return f"{start} UTC –"
        end = self.ends_at.astimezone(dt.UTC)
        is_same_day = end.date() == self.starts_at.astimezone(dt.UTC).date()
        return f"{start}–{end:%H:%M} UTC" if is_same_day else f"{start} – {end:%Y-%m-%d %H:%M} UTC"

    @property
    @abc.abstractmethod
    def started(self) -> str:
        """Return what people are told when it begins."""

    @property
    @abc.abstractmethod
    def ended(self) -> str:
        """Return what people are told when it has ended."""


@dataclass(frozen=True, kw_only=True)
class PeriodTurn:
    """A period that has begun, or has come to its end by itself, and nobody has been told."""

    period_id: int
    event: Literal["started", "ended"]
    reason: str
    """What people are told."""


def due_turns(periods: Iterable[tuple[Period, bool]], now: dt.datetime) -> list[PeriodTurn]:
    """Return what there is to tell of open periods, each with whether its start has been told."""
    turns = []
    for period, was_announced in periods:
        if period.ends_at is not None and period.ends_at <= now:
            turns.append(PeriodTurn(period_id=period.id, event="ended", reason=period.ended))
        elif period.is_active(now) and not was_announced:
            turns.append(PeriodTurn(period_id=period.id, event="started", reason=period.started))
    return turns
