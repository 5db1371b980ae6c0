"""The stamps by which an API server shows in the database that it can hear agents."""

from __future__ import annotations

import asyncio

import structlog

from muster_server import clock
from muster_server.db.batching import Batcher
from muster_server.services.core import liveness
from muster_server.threads import Background

log = structlog.get_logger(__name__)


class Stamps(Background):
    """Goes the way of every heartbeat: through the event loop, the queue of writes and a commit. So a
    process that stands still, an overload and a database that is away all leave the row as it is."""

    def __init__(self, writes: Batcher, name: str, *, every_s: float) -> None:
        self._writes = writes
        self._name = name
        self._every_s = every_s
        self._started_at = clock.now()

    async def stop(self) -> None:
        """Remove the row. If the database is away, it stays."""
        await super().stop()
        try:
            await self._writes.run(
                lambda session: liveness.server_stops(
                    session, self._name, started_at=self._started_at
                )
            )
        except Exception as error:
            log.info("stamp_left", server=self._name, why=type(error).__name__)

    async def _run(self) -> None:
        while True:
            try:
                await self._writes.run(
                    lambda session: liveness.server_hears(
                        session, self._name, started_at=self._started_at, now=clock.now()
                    )
                )
            except Exception as error:  # tried again: nothing else may end it
                log.debug("not_stamped", server=self._name, why=type(error).__name__)
            await asyncio.sleep(self._every_s)
