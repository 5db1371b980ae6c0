"""One query of the database for all long polls that wait in this API process.

Hints wake a poll; should one get lost, somebody has to look. A thousand polls that each looked for
themselves would be most of what the database does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import DBAPIError

from muster_server.db.engine import Database
from muster_server.db.failures import is_unavailable
from muster_server.services.nodes import assignments
from muster_server.services.nodes.sessions import Fence
from muster_server.threads import Background, run_to_its_end

from .hub import Hub, Listener

log = structlog.get_logger(__name__)

UNHEARD_S = 1.0
"""Seconds between two looks while hints of the controller are not heard."""
HEARD_S = 5.0
"""Seconds between two looks while they are heard, in case one was lost."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    fence: Fence
    index: int
    listener: Listener


class PollWatch(Background):
    """Watches the database for long polls. Lives in the event loop of the API process."""

    def __init__(self, database: Database, hub: Hub) -> None:
        self._database = database
        self._hub = hub
        self._waiting: set[_Waiting] = set()

    @contextlib.contextmanager
    def listen(self, fence: Fence, index: int) -> Iterator[Listener]:
        """Wake the caller when `index` may no longer be the number of the node's set, or the
        session no longer its present one; at the latest HEARD_S after that, whatever hints were
        lost."""
        topic = f"assignments:{fence.node_id}"
        with self._hub.listen(topic) as listener:
            waiting = _Waiting(fence, index, listener)
            self._waiting.add(waiting)
            try:
                yield listener
            finally:
                self._waiting.discard(waiting)

    async def _run(self) -> None:
        since_s = 0.0
        while True:
            await asyncio.sleep(UNHEARD_S)
            since_s += UNHEARD_S
            if since_s < (HEARD_S if self._hub.is_connected else UNHEARD_S) or not self._waiting:
                continue
            since_s = 0.0
            try:
                await self.look()
            except DBAPIError as error:
                what = "database_unavailable" if is_unavailable(error) else "look_failed"
                log.warning(what, error=str(error).splitlines()[0])

    async def look(self) -> int:
        """Wake every poll with news; return their number."""
        asked = list(self._waiting)
        present = await run_to_its_end(self._present)
        late = [w for w in asked if present.get(w.fence) != w.index and w in self._waiting]
        for waiting in late:
            self._hub.tell(waiting.listener, f"assignments:{waiting.fence.node_id}")
        return len(late)

    def _present(self) -> dict[Fence, int]:
        with self._database.read() as session:
            return assignments.get_indexes(session)
