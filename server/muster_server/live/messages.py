"""How a hint travels through Redis: one channel, one JSON object per commit or bundle of commits."""

from __future__ import annotations

import json
from collections.abc import Iterable

CHANNEL = "muster:hints"

ANYTHING = "*"
"""In place of topics: so much changed, or was missed, that it is not listed."""


def encode(origin: str, topics: Iterable[str]) -> str:
    """`origin` names the sender, which has told its own listeners already."""
    return json.dumps({"from": origin, "topics": sorted(topics)}, separators=(",", ":"))


def decode(data: object) -> tuple[str, frozenset[str]]:
    """Origin and topics; nothing for what is not ours. A channel may carry anything."""
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
