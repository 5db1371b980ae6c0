"""Who runs next, where, who makes room, and what everybody else waits for.

`schedule` is a pure function of what is running, what waits and the time; see
docs/concepts/scheduling.md for the rules.
"""

from .decisions import *
from .group_pass import WaitingTrial as WaitingTrial
from .passes import *
from .queue import queue_order as queue_order
from .views import *
