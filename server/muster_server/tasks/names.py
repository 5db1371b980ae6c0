"""Location of Celery's queue in Redis, for readers of its length."""

from __future__ import annotations

QUEUE = "muster"
KEY_PREFIX = "muster-celery:"
QUEUE_KEY = KEY_PREFIX + QUEUE
"""Key of the Redis list of waiting jobs."""
