"""Location of Celery's queue in Redis, for readers of its length."""

from __future__ import annotations

from muster_server.live.writes import KEY_PREFIX

QUEUE = "muster"
QUEUE_KEY = KEY_PREFIX + QUEUE
"""Key of the Redis list of waiting jobs."""
