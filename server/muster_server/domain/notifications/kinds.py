"""The kinds of notifications, and the events that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from muster_server.domain.localized_text import LocalizedText
from muster_server.domain.states import TERMINAL_EXPERIMENT, NodeState, TrialState

RuleKind = Literal[
    "trial.failed",
    "trial.stuck",
    "trial.preempted",
    "guard.fired",
    "waste.noticed",
    "experiment.ended",
    "experiment.new_best",
    "search.finished",
    "checkpoint.damaged",
    "budget.reached",
    "schedule.failed",
    "node.lost",
    "cluster.maintenance",
    "nodes.reserved",
    "summary.weekly",
]
"""Kinds that a rule can name."""

NotificationKind = Literal[RuleKind, "test"]
"""What a notification is about. The kind `test` is sent on request and needs no rule."""


@dataclass(frozen=True, kw_only=True)
class NotifiedEvent:
    """What a kind of notification is about."""

    title: LocalizedText
    """What messages and pages call it."""
    when: str
    """When it is sent, as the guide says it."""
    event_types: tuple[str, ...]
    """Types of the events that make it."""
    after: frozenset[str] = frozenset()
    """States after such an event; empty if every event of the types makes it."""
    is_cluster: bool = False
    """Whether it concerns the cluster, so that only rules of administrators may name it."""
    is_public: bool = False
    """Whether it concerns everybody, whichever experiments a user's rule is about."""
    is_personal: bool = False
    """Whether it concerns one user alone, whose own rules may name it."""


EVENTS: Mapping[RuleKind, NotifiedEvent] = {
    "trial.failed": NotifiedEvent(
        title=LocalizedText("Trial failed", "试验失败"),
        when="a trial failed and will not be restarted",
        event_types=("trial.state",),
        after=frozenset({TrialState.FAILED}),
    ),
    "trial.stuck": NotifiedEvent(
        title=LocalizedText("Trial stuck", "试验停滞"),
        when="a trial has made no progress for `MUSTER_STUCK_AFTER_S`",
        event_types=("trial.stuck",),
    ),
    "trial.preempted": NotifiedEvent(
        title=LocalizedText("Trial preempted", "试验被抢占"),
        when="a trial gives up its slots to one of higher priority; the message names it",
        event_types=("attempt.preempted",),
    ),
    "guard.fired": NotifiedEvent(
        title=LocalizedText("Guard acted", "守护规则已触发"),
        when="a guard of a document has acted",
        event_types=("guard.fired",),
    ),
    "waste.noticed": NotifiedEvent(
        title=LocalizedText("Slots wasted", "槽位闲置"),
        when="a trial holds slots and does nothing, or was stopped for that",
        event_types=("waste.noticed", "waste.ended"),
    ),
    "experiment.ended": NotifiedEvent(
        title=LocalizedText("Experiment ended", "实验结束"),
        when="an experiment is COMPLETED, FAILED or CANCELED",
        event_types=("experiment.state",),
        after=frozenset(TERMINAL_EXPERIMENT),
    ),
    "experiment.new_best": NotifiedEvent(
        title=LocalizedText("New best value", "新的最佳值"),
        when="a different trial now has the best value of a search",
        event_types=("experiment.new_best",),
    ),
    "search.finished": NotifiedEvent(
        title=LocalizedText("Search finished", "搜索结束"),
        when="a search has created its last trial",
        event_types=("search.finished",),
    ),
    "checkpoint.damaged": NotifiedEvent(
        title=LocalizedText("Checkpoint damaged", "检查点损坏"),
        when="the built-in trainer finds that a checkpoint to resume from is damaged",
        event_types=("checkpoint.damaged",),
    ),
    "budget.reached": NotifiedEvent(
        title=LocalizedText("Budget threshold reached", "达到预算阈值"),
        when="an experiment or a project reached a threshold of its budget, or all of it",
        event_types=("budget.alert", "budget.exhausted"),
    ),
    "schedule.failed": NotifiedEvent(
        title=LocalizedText("Schedule failed", "定时计划失败"),
        when="a schedule could not start its experiment; once for each cause",
        event_types=(),
    ),
    "node.lost": NotifiedEvent(
        title=LocalizedText("Node lost", "节点失联"),
        when="a node is LOST; only rules of administrators can name this event",
        event_types=("node.state",),
        after=frozenset({NodeState.LOST}),
        is_cluster=True,
    ),
    "cluster.maintenance": NotifiedEvent(
        title=LocalizedText("Maintenance", "维护"),
        when="a maintenance window was planned, has started or has ended",
        event_types=("maintenance.planned", "maintenance.started", "maintenance.ended"),
        is_public=True,
    ),
    "nodes.reserved": NotifiedEvent(
        title=LocalizedText("Nodes reserved", "节点预留"),
        when="a reservation for you or your project is made, begins or ends, or one for others takes slots of your trial",
        event_types=(),
        is_personal=True,
    ),
    "summary.weekly": NotifiedEvent(
        title=LocalizedText("Weekly summary", "每周汇总"),
        when="on Mondays at 06:00 UTC: what your runs held in the week before, and what they lost",
        event_types=(),
        is_personal=True,
    ),
}
"""What each kind is about, in the order that pages list them."""

ADMIN_KINDS: frozenset[NotificationKind] = frozenset(
    kind for kind, event in EVENTS.items() if event.is_cluster
)
"""Kinds that concern the cluster, which only rules of administrators may name."""

PUBLIC_KINDS: frozenset[NotificationKind] = frozenset(
    kind for kind, event in EVENTS.items() if event.is_public
)
"""Kinds that concern everybody, whichever experiments a user's rule is about."""

PERSONAL_KINDS: frozenset[NotificationKind] = frozenset(
    kind for kind, event in EVENTS.items() if event.is_personal
)
"""Kinds that concern one user alone."""

TITLES: Mapping[NotificationKind, str] = {
    **{kind: event.title.en for kind, event in EVENTS.items()},
    "test": "Test notification",
}

_BY_TYPE: Mapping[str, RuleKind] = {
    event_type: kind for kind, event in EVENTS.items() for event_type in event.event_types
}


def kind_of(event_type: str, data: Mapping[str, Any] | None) -> NotificationKind | None:
    """Return the kind of notification that an event makes; None for an event that makes none."""
    kind = _BY_TYPE.get(event_type)
    if kind is None:
        return None
    states = EVENTS[kind].after
    return kind if not states or (data or {}).get("after") in states else None
