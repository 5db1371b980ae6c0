"""States of a pilot, from the wish for it to its end."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from ..scheduling.resources import Owner


class PilotState(StrEnum):
    WANTED = "wanted"
    """It is to be submitted."""
    SUBMITTING = "submitting"
    """It may have been submitted: its batch system is asked for its key before it is tried again."""
    PENDING = "pending"
    """It waits in its batch system."""
    STARTING = "starting"
    """Its job runs, and its agent has not registered yet."""
    UP = "up"
    """Its node is in the cluster."""
    ENDING = "ending"
    """It is to be canceled, until its batch system confirms that it has ended."""
    ENDED = "ended"


COMING = frozenset(
    {PilotState.WANTED, PilotState.SUBMITTING, PilotState.PENDING, PilotState.STARTING}
)
"""States of pilots on their way: they count before new ones are asked for."""
OPEN = frozenset(PilotState) - {PilotState.ENDED}


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """A pilot that has not ended."""

    id: str
    state: PilotState
    since: dt.datetime
    """When it came into this state."""
    ref: str = ""
    """ID of its job in the batch system; "" before the system has answered."""
    reason: str = ""
    """The batch system's word for why it waits."""
    expected_at: dt.datetime | None = None
    """When its batch system expects it to start."""
    missing_since: dt.datetime | None = None
    """Since when listings lack it; None while it is listed."""
    has_node: bool = False
    """Whether its node is registered."""
    is_heard: bool = False
    """Whether its node is ONLINE."""
    was_up: bool = False
    """Whether its node has ever been registered."""
    free_slots: int = 0
    """Slots of its node that a trial can take now."""
    ends_at: dt.datetime | None = None
    """When its node ends at the latest."""
    owner: Owner | None = None
    """The one attempt that it is for, in an exclusive pool; None for any trial of the pool."""
    is_open: bool = True
    """Whether its node takes new work; also True while there is no node."""

    @property
    def is_coming(self) -> bool:
        """Whether it is on its way. One whose node is registered, or has been, is not, whatever its state
        says until its batch system is asked next."""
        return self.state in COMING and not self.has_node and not self.was_up
