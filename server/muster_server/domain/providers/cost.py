"""What the pilots of a pool may cost.

A pilot that has not ended counts with its whole wall time, as in Slurm's own limits: so the limit is never
exceeded, and what a pilot does not use is free again once it has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CostLimit:
    """One limit of a pool, in slot-hours or in money."""

    currency: str
    """What its numbers are; "" for slot-hours."""
    limit: float
    used: float
    """What the pilots that have ended cost."""
    reserved: float
    """The most that those that have not ended will have cost at their end."""
    per_pilot: float
    """The most that another pilot can cost."""

    def num_affordable(self) -> float:
        """Return how many more pilots it allows; infinite if pilots cost nothing."""
        left = self.limit - self.used - self.reserved
        if self.per_pilot <= 0:
            return math.inf
        return max(0, math.floor(left / self.per_pilot + 1e-9))


def slot_hours(slots: int, seconds: float) -> float:
    """Return what `slots` cost in `seconds`, in slot-hours; 0 for a negative time."""
    return slots * max(0.0, seconds) / 3600
