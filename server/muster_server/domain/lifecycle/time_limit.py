"""How long a trial has run, and whether that is as long as its document allows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RunTime:
    """When the workers of one attempt started and ended; None for not yet, or never."""

    started_at: dt.datetime | None
    ended_at: dt.datetime | None = None


def ran_for(attempts: Iterable[RunTime], *, now: dt.datetime) -> dt.timedelta:
    """Return the time that workers ran in all attempts together, from 0. Preparing, waiting and pauses
    do not count, nor does what a clock that was set back makes negative."""
    return sum(
        (
            max((attempt.ended_at or now) - attempt.started_at, dt.timedelta())
            for attempt in attempts
            if attempt.started_at is not None
        ),
        dt.timedelta(),
    )


def time_limit_reason(
    limit: dt.timedelta, written: str, ran: dt.timedelta, *, experiment_id: int
) -> str:
    """Return why a trial is to be stopped, with what helps; "" while it has time left.

    written: the limit as the document has it.
    """
    if ran < limit:
        return ""
    return (
        f"It has run for {written}, the longest that resources.max_duration allows; `muster continue "
        f"{experiment_id} --set resources.max_duration=…` with more goes on from its checkpoint"
    )
