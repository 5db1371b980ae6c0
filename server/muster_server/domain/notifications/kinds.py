"""The kinds of notifications, and the events that make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from muster_server.domain.states import TERMINAL_EXPERIMENT, NodeState, TrialState

RuleKind = Literal[
    "trial.failed",
    "trial.stuck",
    "search.finished",
    "experiment.ended",
    "experiment.new_best",
    "checkpoint.damaged",
    "budget.reached",
    "node.lost",
]
"""Kinds that a rule can name."""

NotificationKind = Literal[RuleKind, "test"]
"""What a notification is about. The kind `test` is sent on request and needs no rule."""

ADMIN_KINDS: frozenset[NotificationKind] = frozenset({"node.lost"})
"""Kinds that concern the cluster, which only rules of administrators may name."""

TITLES: Mapping[NotificationKind, str] = {
    "trial.failed": "Trial failed",
    "trial.stuck": "Trial stuck",
    "search.finished": "Search finished",
    "experiment.ended": "Experiment ended",
    "experiment.new_best": "New best value",
    "checkpoint.damaged": "Checkpoint damaged",
    "budget.reached": "Budget threshold reached",
    "node.lost": "Node lost",
    "test": "Test notification",
}

_ALWAYS: Mapping[str, NotificationKind] = {
    "trial.stuck": "trial.stuck",
    "search.finished": "search.finished",
    "experiment.new_best": "experiment.new_best",
    "checkpoint.damaged": "checkpoint.damaged",
    "budget.alert": "budget.reached",
    "budget.exhausted": "budget.reached",
}


def kind_of(event_type: str, data: Mapping[str, Any] | None) -> NotificationKind | None:
    """Return the kind of notification that an event makes; None for an event that makes none."""
    after = (data or {}).get("after")
    if event_type == "trial.state":
        return "trial.failed" if after == TrialState.FAILED else None
    if event_type == "experiment.state":
        return "experiment.ended" if after in TERMINAL_EXPERIMENT else None
    if event_type == "node.state":
        return "node.lost" if after == NodeState.LOST else None
    return _ALWAYS.get(event_type)
