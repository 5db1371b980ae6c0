"""Lengths of time and moments as people write them."""

from __future__ import annotations

import datetime as dt

from muster.durations import duration_s

from .messages import AnyMessage, Message, english

MAX_DURATION = dt.timedelta(days=3650)
EARLIEST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LATEST = dt.datetime(2999, 12, 31, tzinfo=dt.UTC)
EXAMPLES = (
    "write a length of time such as 6h, 90min or 1d12h, or a moment with its time zone such as "
    "2026-03-01T18:00Z"
)
DURATION_EXAMPLES = "write a length of time such as 4h, 90min or 1d12h"


class InvalidMoment(ValueError):
    """What is wrong with a length of time or a moment."""

    def __init__(self, problem: AnyMessage | str) -> None:
        super().__init__(english(problem))
        self.problem = problem


def parse_duration(text: str) -> dt.timedelta:
    """Return the length of time that `text` names: "90min", "1d12h".

    Lengths add up in s, min (or m), h, d and w, more than 0 and at most ten years. Raises InvalidMoment.
    """
    seconds = duration_s(text)
    if seconds is None:
        raise InvalidMoment("is no length of time")
    if seconds <= 0:
        raise InvalidMoment("must be longer than nothing")
    if seconds > MAX_DURATION.total_seconds():
        raise InvalidMoment(f"must be at most {MAX_DURATION.days} days")
    return dt.timedelta(seconds=seconds)


def parse_deadline(text: str, start: dt.datetime) -> dt.datetime:
    """Return the moment that `text` names: "6h" counts from `start`, "2026-03-01T18:00Z" is
    absolute.

    Lengths add up ("1d12h") in s, min, h, d and w, more than 0 and at most ten years. Moments are
    ISO 8601 with a time zone. Raises InvalidMoment.
    """
    text = text.strip()
    if is_relative(text):
        return start + parse_duration(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidMoment("is neither a length of time nor a moment") from None
    if moment.tzinfo is None:
        raise InvalidMoment("has no time zone")
    return as_utc(moment)


def as_utc(moment: dt.datetime) -> dt.datetime:
    """Return the same moment in UTC.

    Raises InvalidMoment, naming it, for a moment outside of EARLIEST to LATEST: at the ends of the
    calendar neither an offset nor a duration can be added.
    """
    # Compare without the time zone first, because the conversion can overflow.
    if EARLIEST.year <= moment.year <= LATEST.year:
        found = moment.astimezone(dt.UTC)
        if EARLIEST <= found <= LATEST:
            return found
    raise InvalidMoment(
        Message(
            "field.moment",
            earliest=f"{EARLIEST:%Y-%m-%d}",
            latest=f"{LATEST:%Y-%m-%d}",
            given=moment.isoformat(),
        )
    )


def is_relative(text: str) -> bool:
    """Return whether `text` is a duration, not a moment."""
    return duration_s(text) is not None
