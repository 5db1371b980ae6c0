"""A pilot leaves the cluster: it notices when it is time, and tells the server step by step."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, ServerUnreachable, Session
from muster_agent.client import SessionSuperseded as Superseded
from muster_agent.pilot import PilotUse, Tenure, grace_s, why_close, why_leave_now
from muster_agent.settings import AgentSettings

log = structlog.get_logger("muster.agent")

LOOK_S = 0.2
TERM_GRACE_S = 30.0
"""Time from SIGTERM to SIGKILL of a site that does not say: Slurm's, where nobody has changed it."""
ASK_AGAIN_S = 1.0
ANNOUNCE_TIMEOUT_S = 3.0
"""A pilot that is told to end has half a minute: it does not spend it on a server that does not
answer."""
LAST_WORD_MARGIN_S = 2.0
"""Time before its end in which a pilot goes, whether or not the server has its last reports."""
UNHEARD_S = 60.0
"""An empty pilot whose server does not answer for so long leaves without a word."""


@dataclass(frozen=True, kw_only=True)
class Tenancy:
    """What runs on the node."""

    num_open: int
    """Allocations that have not ended, or whose records the server does not have yet."""
    num_finished: int
    """Allocations that have ended since the agent started."""
    longest_grace_s: float
    """Longest stop grace of what runs; 0 if nothing does."""


class Departure:
    """When and how the agent of these settings leaves. For an agent that is no pilot it is never
    due."""

    def __init__(
        self,
        settings: AgentSettings,
        plane: ControlPlane,
        session: Callable[[], Session | None],
    ) -> None:
        """Prepare to leave; `session` returns the present session, None before the first."""
        self._settings = settings
        self._plane = plane
        self._session = session
        self._tenure = Tenure(
            once=settings.once,
            idle_exit_s=settings.idle_exit_s,
            ends_at_s=settings.ends_at,
        )

    def facts(self) -> wire.PilotFacts | None:
        """Return what the server is told of the pilot at registration; None if this is none."""
        if not self._settings.is_pilot:
            return None
        ends_at_s = self._tenure.ends_at_s
        return wire.PilotFacts(
            ends_at_ms=None if ends_at_s is None else round(ends_at_s * 1000),
            provider_ref=self._settings.provider_ref,
        )

    def hurry(self, *, told_at_s: float) -> None:
        """Take note that all processes of the job got a SIGTERM at this Unix time."""
        self._tenure = self._tenure.told_to_end(
            now_s=told_at_s, term_grace_s=self._settings.term_grace_s or TERM_GRACE_S
        )

    def grace_s(self, wanted_s: float) -> float:
        """Return how long something may take to stop now, in seconds: at most `wanted_s`."""
        return grace_s(self._tenure, now_s=time.time(), wanted_s=wanted_s)

    def last_word_s(self) -> float:
        """Return for how long a server that does not answer may be waited for, in seconds; 0 if no end
        is set."""
        ends_at_s = self._tenure.ends_at_s
        return 0.0 if ends_at_s is None else max(0.0, ends_at_s - LAST_WORD_MARGIN_S - time.time())

    async def is_due(self, tenancy: Callable[[], Tenancy]) -> str:
        """Wait until it is time to leave; return why. Nothing runs then, or it must be stopped."""
        if self._tenure == Tenure():
            await asyncio.Event().wait()
        idle_since = time.monotonic()
        asked_at = unheard_since = -float("inf")
        while True:
            now = time.monotonic()
            held = tenancy()
            if held.num_open:
                idle_since = now
            use = PilotUse(
                now_s=time.time(),
                num_finished=held.num_finished,
                idle_s=now - idle_since,
                longest_grace_s=held.longest_grace_s,
            )
            if (reason := why_leave_now(self._tenure, use)) is not None:
                return reason
            reason = why_close(self._tenure, use)
            if reason is None:
                unheard_since = -float("inf")
            elif now - asked_at >= ASK_AGAIN_S:
                asked_at = now
                reply = await self.announce("closing", reason)
                if reply is not None:
                    unheard_since = -float("inf")
                elif unheard_since == -float("inf"):
                    unheard_since = now
                is_unheard = reply is None and now - unheard_since > UNHEARD_S
                is_empty = reply is not None and reply.num_open == 0
                if not tenancy().num_open and (is_empty or is_unheard):
                    return reason
            await asyncio.sleep(LOOK_S)

    async def announce(self, stage: wire.LeaveStage, reason: str) -> wire.LeaveReply | None:
        """Tell the server that the node leaves; return its answer, None if it gave none in time."""
        session = self._session()
        if session is None:
            return None
        request = wire.LeaveRequest(
            node_id=session.node_id, session_epoch=session.epoch, stage=stage, reason=reason
        )
        try:
            async with asyncio.timeout(ANNOUNCE_TIMEOUT_S):
                reply = await self._plane.leave(request)
        except (TimeoutError, ServerUnreachable, RequestRefused, Superseded) as error:
            log.warning("leaving_not_announced", stage=stage, error=str(error) or "no answer")
            return None
        log.info("leaving", stage=stage, reason=reason, num_open=reply.num_open)
        return reply


async def until(condition: Callable[[], bool], *, timeout_s: float) -> None:
    """Wait for a condition that shows on disk only, so no event announces it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
