"""The long poll for what a node should run."""

from __future__ import annotations

import asyncio

from muster import wire
from muster_agent.client import ControlPlane, ServerUnreachable, Session

LATE_ANSWER_S = 3.0
"""An answer to a poll that the server has given for so long was lost on its way."""


class AssignmentsPoll:
    """The poll under way, at most one, which can be given up when its answer will not come."""

    def __init__(self, plane: ControlPlane) -> None:
        """Create it without a poll under way."""
        self._plane = plane
        self._patience: asyncio.Timeout | None = None
        """Ends the poll under way."""
        self._index: int | None = None

    async def ask(self, session: Session, index: int | None) -> wire.AssignmentsReply:
        """Return the server's answer, which the server holds back while its state still has number
        `index`. Raises ServerUnreachable."""
        self._index = index
        try:
            async with asyncio.timeout(None) as self._patience:
                return await self._plane.assignments(session, index)
        except TimeoutError as error:
            raise ServerUnreachable(
                "the server was away meanwhile, or its answer was lost"
            ) from error
        finally:
            self._patience = None

    def expect(self, index: int | None) -> None:
        """Note the number of the server's assignments: if the poll under way was asked with a smaller
        one, its answer must be on its way. Through a connection that broke unnoticed it never comes,
        and the poll would wait for it until its own time is over."""
        poll, known = self._patience, self._index
        if poll is None or index is None or (known is not None and index <= known):
            return

        def give_up() -> None:
            if self._patience is poll:
                self.ask_anew()

        asyncio.get_running_loop().call_later(LATE_ANSWER_S, give_up)

    def ask_anew(self) -> None:
        """Give up the poll under way: the server is reached again, and whoever held the poll may have
        forgotten it. What is wanted now should not wait until that is given up."""
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())
            self._patience = None
