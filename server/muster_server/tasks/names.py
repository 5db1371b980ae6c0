"""Where Celery's queue is in Redis, for those that only look at it."""

from __future__ import annotations

QUEUE = "muster"
KEY_PREFIX = "muster-celery:"
QUEUE_KEY = KEY_PREFIX + QUEUE
"""A Redis list of the jobs that wait."""
