"""Who runs next, where, who makes room, and what everybody else waits for.

`schedule` is a pure function of what is running, what waits and the time; see
docs/concepts/scheduling.md for the rules.
"""

from .decisions import Decision, NodeShare, Place, Preempt, Resize, Wait
from .group_pass import Waiting
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
    "Place",
    "Preempt",
    "ProjectView",
    "QueuedTrial",
    "Resize",
    "RunningTrial",
    "Scheduler",
    "SchedulerPolicy",
    "SchedulerSnapshot",
    "Wait",
    "Waiting",
    "plan",
    "queue_order",
    "schedule",
]
