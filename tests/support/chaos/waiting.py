"""What the trials are doing, told whenever it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from .world import World

KEPT_LINES = 12


def story_of(world: World) -> Mapping[str, str]:
    """By subject ("trial 2", "node local-1"): its state and why. Empty while the database is away."""
    trials = world.look("SELECT id, state, attempt_no, reason, pending_reason FROM trials")
    nodes = world.look("SELECT name, state, health, health_reason FROM nodes")
    members = world.look(
        "SELECT trial_id, attempt_no, node_name, observed FROM allocations "
        "WHERE observed <> 'CLEANED' ORDER BY trial_id, node_name"
    )
    story = {}
    for trial_id, state, attempt_no, reason, pending_reason in trials:
        parts = [
            f"{node} {seen}" for t, no, node, seen in members if (t, no) == (trial_id, attempt_no)
        ]
        why = reason or pending_reason
        text = f"{state}, attempt {attempt_no}"
        story[f"trial {trial_id}"] = text + "".join(
            [f" ({', '.join(parts)})" if parts else "", f": {why}" if why else ""]
        )
    for name, state, health, reason in nodes:
        story[f"node {name}"] = f"{state}, {health}" + (f": {reason}" if reason else "")
    return story


class Story:
    """Says what differs from before, and remembers the last of it. Safe to share by threads."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}
        self._lines: list[str] = []

    def say(self, line: str) -> None:
        with self._lock:
            self._lines = [*self._lines, line][-KEPT_LINES:]
        self._say(line)

    def tell(self, story: Mapping[str, str]) -> None:
        for subject, text in story.items():
            if self._told.get(subject) != text:
                self._told[subject] = text
                self.say(f"{subject}: {text}")

    def last_lines(self) -> str:
        with self._lock:
            return " | ".join(self._lines)
