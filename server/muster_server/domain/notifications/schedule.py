"""When a message is sent, sent again, and given up; and how many notifications it holds."""

from __future__ import annotations

import datetime as dt

DIGEST_FROM = 10
"""Number of waiting notifications from which they are sent as one digest."""
DIGEST_MAX = 1000
"""Most notifications of one digest; what is left makes the next one."""
DIGEST_SHOWN = 20
"""Most notifications that a digest shows in full; it counts the others by kind."""
DIGEST_PAUSE = dt.timedelta(minutes=1)
"""Pause after a digest, in which the next one collects what goes on happening."""
FIRST_RETRY = dt.timedelta(seconds=10)
LAST_RETRY = dt.timedelta(hours=3)
"""Longest pause between two attempts."""
GIVE_UP_AFTER = dt.timedelta(days=3)
"""Age at which a message that could not be sent is given up, counted from its first attempt."""
RETRY_AFTER_MAX = dt.timedelta(hours=6)
"""Longest pause that a receiver can ask for."""


def batch_size(num_waiting: int) -> int:
    """Return how many of the waiting notifications the next message holds: 0 when none waits, 1, or
    all of them, up to DIGEST_MAX, as a digest."""
    return min(num_waiting, 1 if num_waiting < DIGEST_FROM else DIGEST_MAX)


def retry_pause(num_tries: int, *, asked: dt.timedelta | None = None) -> dt.timedelta:
    """Return the pause after the given number of failed attempts, from 1: 10 s, 20 s, 40 s, … up to
    3 hours.

    asked: pause that the receiver asked for. It makes the pause longer, up to 6 hours.
    """
    pause = min(FIRST_RETRY * (1 << min(max(num_tries - 1, 0), 16)), LAST_RETRY)
    return pause if asked is None else max(pause, min(asked, RETRY_AFTER_MAX))


def is_given_up(first_tried_at: dt.datetime, now: dt.datetime) -> bool:
    """Return whether a message that fails again is not tried any more."""
    return now - first_tried_at >= GIVE_UP_AFTER
