"""One pilot moves on, by what its batch system lists and what its node shows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal

from .reasons import reason_of
from .states import Pilot, PilotState

START_S = 300.0
"""A job that runs for so long without a node is broken."""
PENDING_S = 7 * 86_400.0
"""A job may wait for so long in its queue."""
SUBMIT_S = 60.0
"""A submission whose answer was lost is tried again after so long, if the job is not listed."""
MISSING_S = 60.0
LEFT = "its node has left the cluster"
"""A job is gone when two listings so far apart lack it, and its node is not heard."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A job in a listing of its batch system."""

    ref: str
    state: Literal["pending", "running", "ended"]
    reason: str = ""
    """The batch system's word for it."""
    expected_at: dt.datetime | None = None
    """When it is expected to start."""
    exit_code: str = ""
    """How an ended job exited, as its batch system prints it; "" if that is not known, or it was 0."""
    node: str = ""
    """The site's name for the machine that it runs on; "" if that is not known."""
    node_problem: str = ""
    """Why the site's node that it runs on takes no more jobs, such as "n1 is drained (disk)"; "" if it
    does."""


@dataclass(frozen=True, kw_only=True)
class PilotChange:
    """What becomes of a pilot. A field that is None stays as it is."""

    pilot_id: str
    before: PilotState
    after: PilotState
    ref: str | None = None
    reason: str | None = None
    expected_at: dt.datetime | None = None
    missing_since: dt.datetime | None = None
    """Since when listings lack it; it is always written, None while it is listed."""
    is_failure: bool = False
    """It ended, or is canceled, without ever having come up: the next one is asked for later."""
    is_leaving: bool = False
    """Its node has left and its job ends by itself: it is canceled only if it does not."""


def follow(
    pilot: Pilot, seen: Seen | None, *, is_listed: bool, now: dt.datetime
) -> PilotChange | None:
    """Return what becomes of a pilot; None if nothing does.

    seen: its job in a listing that was taken after the pilot came into its state; None if it is not in
    it. is_listed: whether there is such a listing. A listing that failed, or is empty, says nothing:
    somebody else's outage must not end what runs.
    """
    waited_s = (now - pilot.since).total_seconds()
    if pilot.state is PilotState.WANTED:
        return None
    if pilot.has_node and pilot.state in (
        PilotState.SUBMITTING,
        PilotState.PENDING,
        PilotState.STARTING,
    ):
        return _change(pilot, PilotState.UP, ref=seen.ref if seen else None, reason="")
    if seen is not None and seen.state == "ended" and not pilot.is_heard:
        return _end(pilot, _how_it_ended(seen))
    # Its node may have come and gone since the last look.
    if pilot.was_up and not pilot.has_node and pilot.state is not PilotState.ENDING:
        if seen is None and is_listed:
            return _end(pilot, LEFT)
        return PilotChange(
            pilot_id=pilot.id,
            before=pilot.state,
            after=PilotState.ENDING,
            ref=seen.ref if seen else None,
            reason=LEFT,
            is_leaving=True,
        )
    if pilot.state is PilotState.ENDING:
        return _follow_missing(pilot, is_listed=is_listed, now=now) if seen is None else None
    if seen is None:
        if pilot.state is PilotState.SUBMITTING:
            is_lost = is_listed and waited_s > SUBMIT_S
            return _change(pilot, PilotState.WANTED, reason="") if is_lost else None
        return _follow_missing(pilot, is_listed=is_listed, now=now)
    if pilot.state is PilotState.UP or seen.state == "ended":
        return _found_again(pilot)  # Its heartbeat counts more than the word of its batch system.
    if seen.state == "running":
        if pilot.state is not PilotState.STARTING:
            return _change(pilot, PilotState.STARTING, ref=seen.ref, reason="")
        if waited_s > START_S:
            minutes = round(START_S / 60)
            return _give_up(pilot, f"its job ran for {minutes} min without joining; see its log")
        return _found_again(pilot)
    why = reason_of(seen.reason)
    if why.kind == "wrong":
        return _give_up(pilot, why.text)
    if pilot.state is PilotState.PENDING and waited_s > PENDING_S:
        return _give_up(pilot, "it waited for a week")
    is_same = (pilot.ref, pilot.reason, pilot.expected_at) == (seen.ref, why.text, seen.expected_at)
    if pilot.state is PilotState.PENDING and is_same and pilot.missing_since is None:
        return None
    return PilotChange(
        pilot_id=pilot.id,
        before=pilot.state,
        after=PilotState.PENDING,
        ref=seen.ref,
        reason=why.text,
        expected_at=seen.expected_at,
    )


def why_keep_off(pilot: Pilot, seen: Seen | None) -> str | None:
    """Return why nothing new is to be placed on the node of a pilot; None if that may go on."""
    if seen is None or seen.state != "running" or not (pilot.has_node and pilot.is_open):
        return None
    return seen.node_problem or None


def _how_it_ended(seen: Seen) -> str:
    text = reason_of(seen.reason).text or "its job has ended"
    return f"{text}, exit code {seen.exit_code}" if seen.exit_code else text


def _follow_missing(pilot: Pilot, *, is_listed: bool, now: dt.datetime) -> PilotChange | None:
    """Two listings MISSING_S apart that lack a job, and a node that is not heard: it is gone."""
    if not is_listed or pilot.is_heard:
        return None
    if pilot.missing_since is None:
        return PilotChange(
            pilot_id=pilot.id, before=pilot.state, after=pilot.state, missing_since=now
        )
    if (now - pilot.missing_since).total_seconds() < MISSING_S:
        return None
    return _end(pilot, "its job is not listed any more")


def _found_again(pilot: Pilot) -> PilotChange | None:
    if pilot.missing_since is None:
        return None
    return PilotChange(pilot_id=pilot.id, before=pilot.state, after=pilot.state)


def _change(pilot: Pilot, after: PilotState, *, reason: str, ref: str | None = None) -> PilotChange:
    return PilotChange(pilot_id=pilot.id, before=pilot.state, after=after, ref=ref, reason=reason)


def _end(pilot: Pilot, reason: str) -> PilotChange:
    was_wanted = pilot.state is not PilotState.ENDING
    # Of a pilot that was canceled or given up, why that was says more.
    return PilotChange(
        pilot_id=pilot.id,
        before=pilot.state,
        after=PilotState.ENDED,
        reason=reason if was_wanted or pilot.reason == LEFT else None,
        is_failure=was_wanted and not pilot.was_up,
    )


def _give_up(pilot: Pilot, reason: str) -> PilotChange:
    return PilotChange(
        pilot_id=pilot.id,
        before=pilot.state,
        after=PilotState.ENDING,
        reason=reason,
        is_failure=True,
    )
