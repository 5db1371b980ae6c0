"""Whether Redis takes writes. One that is a replica, or has no room on its disk, answers all the same."""

from __future__ import annotations

import redis

KEY_PREFIX = "muster-celery:"
"""Beginning of the keys that Celery's worker writes."""
PROBE_KEY = KEY_PREFIX + "probe"
PROBE_MS = 1_000
"""Milliseconds after which the probe is gone."""


def why_refused(url: str, *, timeout_s: float) -> str:
    """Return why Redis refuses writes, in its own words; "" if it takes them. Raises RedisError, OSError or
    ValueError if it does not answer."""
    with redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
    ) as connection:
        connection.ping()
        try:
            connection.set(PROBE_KEY, "", px=PROBE_MS)
        except redis.ResponseError as error:
            # The client takes the first word off where it has a class for it.
            word = "READONLY " if isinstance(error, redis.exceptions.ReadOnlyError) else ""
            return f"{word}{error}"
    return ""
