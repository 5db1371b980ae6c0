"""Requests of the server that a session answers one after another, each once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from muster import wire

RequestT = TypeVar("RequestT", wire.Deletion, wire.Description, wire.Export)


class RequestQueue(ABC, Generic[RequestT]):
    """Requests of one kind in one session. `want` accepts the complete set any number of times; a
    request is answered once for as long as it stays in the set."""

    def __init__(self) -> None:
        self._wanted: dict[int, RequestT] = {}
        self._answered: set[int] = set()
        self._wake = asyncio.Event()

    def want(self, requests: Sequence[RequestT]) -> None:
        """Replace the set of requests."""
        self._wanted = {request.id: request for request in requests}
        self._answered &= self._wanted.keys()
        if self._wanted.keys() - self._answered:
            self._wake.set()

    async def run(self) -> None:
        """Answer requests until the session ends. Raises Superseded."""
        while True:
            while (wanted := self._next()) is not None:
                self._answered.add(wanted.id)
                await self._answer(wanted)
            await self._wake.wait()
            self._wake.clear()

    def _next(self) -> RequestT | None:
        return next((r for r in self._wanted.values() if r.id not in self._answered), None)

    @abstractmethod
    async def _answer(self, wanted: RequestT) -> None:
        """Do what is requested and report the result. Raises Superseded."""
