"""Hints as they travel through Redis: one channel, one JSON object per commit or bundle of commits."""

from __future__ import annotations

import json
from collections.abc import Iterable

CHANNEL = "muster:hints"

ANYTHING = "*"
"""Placeholder for all topics: so much changed, or was missed, that it is not listed."""


def encode(origin: str, topics: Iterable[str]) -> str:
    """Return the message of a commit; `origin` names the sender, which has notified its own
    listeners."""
    return json.dumps({"from": origin, "topics": sorted(topics)}, separators=(",", ":"))


def decode(data: object) -> tuple[str, frozenset[str]]:
    """Return origin and topics; nothing for foreign messages. A channel may carry anything."""
    if not isinstance(data, bytes | str):
        return "", frozenset()
    try:
        message = json.loads(data)
        origin, topics = message["from"], message["topics"]
        if not isinstance(origin, str) or not isinstance(topics, list):
            return "", frozenset()
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", frozenset()
    return origin, frozenset(topic for topic in topics if isinstance(topic, str))
