"""One look at the database for all live channels of this API process: who may still listen.

Whoever signs out, is deactivated or has a token revoked may do so at another API server, or by a
command; hints of that may be lost, or there may be no Redis. So nobody is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import SQLAlchemyError

from muster_server import clock
from muster_server.db.engine import Database
from muster_server.security.principal import Principal
from muster_server.services.core.accounts import identity
from muster_server.threads import Background, run_to_its_end

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
"""Seconds between two looks while anybody listens. A channel ends within this and one look."""


class ListenerWatch(Background):
    """Watches the permissions of listeners. Lives in the event loop of the API process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: dict[asyncio.Event, Principal] = {}

    @contextlib.contextmanager
    def watch(self, principal: Principal) -> Iterator[asyncio.Event]:
        """Return an event that is set once this caller would not be let in any more."""
        ended = asyncio.Event()
        self._ended[ended] = principal
        try:
            yield ended
        finally:
            del self._ended[ended]

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            asked = dict(self._ended)
            if not asked:
                continue
            try:
                valid = await run_to_its_end(self._valid, set(asked.values()))
            except SQLAlchemyError as error:
                # A database that is away tells nobody anything; it is asked again.
                log.warning("database_unavailable", error=str(error).splitlines()[0])
                continue
            for ended, principal in asked.items():
                if principal not in valid:
                    ended.set()

    def _valid(self, principals: set[Principal]) -> set[Principal]:
        with self._database.read() as session:
            return identity.still_valid(session, principals, now=clock.now())
