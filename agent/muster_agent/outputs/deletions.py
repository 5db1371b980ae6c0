"""Deletion of files on request, repeated until the server has acknowledged the result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from muster import wire
from muster_agent.client import ControlPlane, RequestRefused, Session, persistently
from muster_agent.outputs.storage import RefusedPath
from muster_agent.requests import RequestQueue

log = structlog.get_logger("muster.agent")

RETRY_S = 60.0
"""Seconds before a deletion is tried again that failed or whose files are in use on this node."""


class FileDeleter(RequestQueue[wire.Deletion]):
    """File deletions of one session. One that failed is tried again."""

    def __init__(
        self,
        plane: ControlPlane,
        session: Session,
        *,
        delete: Callable[[wire.Deletion], int],
        in_use: Callable[[str], bool],
    ) -> None:
        """Create the deleter.

        delete: deletes a path and returns the bytes freed; blocks. Raises RefusedPath or OSError.
        in_use: tells whether something on this node uses a path."""
        super().__init__()
        self._plane = plane
        self._session = session
        self._delete = delete
        self._in_use = in_use
        self._not_before: dict[int, float] = {}

    async def run(self) -> None:
        """Delete until the session ends. Raises Superseded."""
        while True:
            now = time.monotonic()
            for wanted in list(self._wanted.values()):
                if wanted.id in self._answered or self._not_before.get(wanted.id, 0.0) > now:
                    continue
                await self._answer(wanted)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S / 2 if self._wanted else None):
                    await self._wake.wait()
            self._wake.clear()

    async def _answer(self, wanted: wire.Deletion) -> None:
        result = await self._try(wanted)
        log.info("deletion", path=wanted.path, outcome=result.outcome, message=result.message)
        if result.outcome == "failed":
            self._not_before[wanted.id] = time.monotonic() + RETRY_S
        try:
            await persistently(
                lambda: self._plane.deletions(self._session, [result]), what="deletions"
            )
        except RequestRefused as error:
            log.warning("deletion_not_taken", id=wanted.id, error=str(error))
            self._not_before[wanted.id] = time.monotonic() + RETRY_S
            return
        if result.outcome != "failed":
            self._answered.add(wanted.id)

    async def _try(self, wanted: wire.Deletion) -> wire.DeletionResult:
        if self._in_use(wanted.path):
            return wire.DeletionResult(
                id=wanted.id, outcome="failed", message="something that uses it still runs here"
            )
        try:
            freed = await asyncio.to_thread(self._delete, wanted)
        except RefusedPath as error:
            return wire.DeletionResult(id=wanted.id, outcome="refused", message=str(error))
        except OSError as error:
            reason = f"{error.strerror or error}"
            return wire.DeletionResult(id=wanted.id, outcome="failed", message=reason)
        return wire.DeletionResult(id=wanted.id, outcome="done", freed_bytes=freed)
