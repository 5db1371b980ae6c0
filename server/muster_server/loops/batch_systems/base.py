"""What every batch system is asked for. No clock, no database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster_server.domain.providers import Pilot, Seen


class BatchSystemUnreachable(Exception):
    """The batch system gave no usable answer: nothing is known of what was asked or submitted."""


class SubmissionRefused(Exception):
    """The batch system refused a job, in its own words. It has not been submitted."""


@dataclass(frozen=True, kw_only=True)
class PilotJob:
    """A pilot to be submitted."""

    id: str
    pool: str
    join_token: str
    slots: int
    slot_type: str
    walltime_s: int
    idle_s: int
    once: bool = False
    """Whether the agent is started with `--once`: it leaves when its first allocation has ended."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a batch system says of pilots."""

    jobs: Mapping[str, Seen]
    """Pilot → its job."""
    absent: Collection[str]
    """Pilots that it does not know. One in neither of both is not known of."""


class BatchSystem(Protocol):
    """A batch system with the options of one provider. Every method raises BatchSystemUnreachable."""

    def submit(self, job: PilotJob) -> str:
        """Submit a pilot; return the ID of its job. Raises SubmissionRefused."""

    def look(self, pilots: Collection[Pilot]) -> Listing:
        """Look for the jobs of these pilots, whether or not their ID is known."""

    def cancel(self, refs: Collection[str]) -> None:
        """Ask for the end of these jobs. One that has ended is no error."""
