"""Who runs next, where, who makes room, and what everybody else waits for.

`schedule` is a pure function of what is running, what waits and the time; see
docs/concepts/scheduling.md for the rules.
"""

from .decisions import Decision, NodeShare, Placement, Preempt, Resize, Wait
from .group_pass import WaitingTrial
from .passes import Decided, Scheduler, plan, schedule
from .queue import queue_order
from .views import (
    GroupKey,
    ProjectView,
    QueuedTrial,
    RunningTrial,
    SchedulerPolicy,
    SchedulerSnapshot,
)

__all__ = [
    "Decided",
    "Decision",
    "GroupKey",
    "NodeShare",
    "Placement",
    "Preempt",
    "ProjectView",
    "QueuedTrial",
    "Resize",
    "RunningTrial",
    "Scheduler",
    "SchedulerPolicy",
    "SchedulerSnapshot",
    "Wait",
    "WaitingTrial",
    "plan",
    "queue_order",
    "schedule",
]
