"""The network between agents and server: it loses, delays, repeats and reorders.

A request is a function run at the server, some time after it was sent; an answer is what that
function calls back with, maybe much later (a long poll). Either may get lost, and a request may be
executed although its sender gave up long ago, or twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from muster_agent.client import ServerUnreachable

from .clock import VirtualLoop
from .scenario import Weather

Respond = Callable[[Any], None]
"""Takes the answer, or the exception the caller is to see."""
Serve = Callable[[Respond], None]


@dataclass(eq=False)
class Link:
    """One computer's way to the server."""

    up: bool = True
    """Requests get through."""
    down: bool = True
    """Answers get through."""
    keeps: bool = True
    """What is sent while it is cut arrives when it heals (TCP sends again); else it is lost."""
    held: list[Callable[[], None]] = field(default_factory=list)
    late_until_s: float = 0.0
    """Until then a sender may wait for the answer to a request that is late."""

    @property
    def is_whole(self) -> bool:
        return self.up and self.down


class Network:
    def __init__(self, loop: VirtualLoop, rng: random.Random, weather: Weather) -> None:
        self._loop = loop
        self._rng = rng
        self.weather = weather

    async def call(self, link: Link, serve: Serve, *, timeout_s: float) -> Any:
        """What the server answers. Raises what it answers with, and Unreachable when no answer
        comes within `timeout_s`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        chance = self._rng.random()
        weather = self.weather
        if chance < weather.loss / 2:
            self._loop.call_later(self._delay(), _fail, future, "connection reset")
        else:
            is_answer_lost = chance < weather.loss
            if is_answer_lost:
                self._loop.call_later(
                    self._delay() + self._delay(), _fail, future, "connection reset"
                )

            def respond(answer: Any) -> None:
                if not is_answer_lost:
                    self._carry(link, "down", self._delay(), lambda: _settle(future, answer))

            late_s = self._rng.uniform(5, 60) if self._rng.random() < weather.late else 0.0
            if late_s:
                until_s = self._loop.time() + min(late_s, timeout_s)
                link.late_until_s = max(link.late_until_s, until_s)
            self._carry(link, "up", self._delay() + late_s, lambda: serve(respond))
            if self._rng.random() < weather.duplication:
                again_s = self._delay() + self._rng.choice([0.0, self._rng.uniform(0, 30)])
                self._carry(link, "up", again_s, lambda: serve(_ignore))
        timer = self._loop.call_later(timeout_s, _fail, future, f"no answer in {timeout_s:g} s")
        try:
            return await future
        finally:
            timer.cancel()

    def heal(self, link: Link) -> None:
        link.up = link.down = True
        held, link.held = link.held, []
        self._rng.shuffle(held)
        for arrive in held:
            self._loop.call_later(self._delay(), arrive)

    def _carry(self, link: Link, way: str, delay_s: float, arrive: Callable[[], None]) -> None:
        def land() -> None:
            if getattr(link, way):
                arrive()
            elif link.keeps:
                link.held.append(arrive)

        self._loop.call_later(delay_s, land)

    def _delay(self) -> float:
        mean = self.weather.delay_s
        return self._rng.expovariate(1 / mean) if mean else 0.0


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _fail(future: asyncio.Future[Any], why: str) -> None:
    _settle(future, ServerUnreachable(why))


def _ignore(answer: Any) -> None:
    pass
