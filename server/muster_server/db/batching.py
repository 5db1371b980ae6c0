"""Batching: requests of many callers share one transaction, one commit and one turn to write.

A call of an agent does little, and most of what it costs is around that: a thread that has to be
woken, a session, a transaction and its way to the disk. Here all that wait at the same moment share
them. A request that waits by itself is served at once, as a batch of one; under load the batches grow
by themselves.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from sqlalchemy.orm import Session

from muster.launch import traces
from muster_server.errors import MusterError, Unavailable

from .engine import Database
from .failures import is_gone

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Handler = Callable[[Session, Sequence[Request]], Sequence[Reply | MusterError]]
"""Serves a batch of requests with statements that cover all of them. Returns a reply for each, or the
error for its caller, who has then changed nothing. Where two transactions could wait for each other's
rows, it locks them in an order that is the same for everybody. When it raises, nothing of the batch is
kept, and each request is served once more, as a batch of one: so it does nothing but use its session
and return."""

log = structlog.get_logger(__name__)

BATCH_MAX = 32
"""Most requests in one transaction."""
WAITING_MAX = 10_000
"""Most requests that wait at once; further ones are refused. Thousands of agents have one or two calls
under way each, so that more than that is a database that hardly moves, and a caller that waits for long
has given up before its request is served."""
RETRY_AFTER_S = 2
"""Time after which a refused caller should ask again."""
NUM_WRITERS = 4
"""Number of threads that write to PostgreSQL what does not share a transaction."""


@dataclass(frozen=True, kw_only=True)
class _Call:
    handler: Handler[Any, Any]
    request: Any
    key: Hashable
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    trace: Any
    """Place in a trace; that of the first request has what the batch does."""


_Outcome = Any
"""A reply, or the exception to raise at the caller."""


class Batcher:
    """Threads that serve what coroutines submit. With `writes`, replies are sent after the commit."""

    def __init__(self, database: Database, *, name: str, writes: bool) -> None:
        self._name = name
        self._shares_all = database.is_sqlite or not writes
        """Any requests may share a transaction: readers wait for nobody, and on SQLite a writer is alone."""
        self._transaction = database.transaction if writes else database.read
        self._batched: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        """Served by one thread: while it commits, the next batch gathers."""
        self._single: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        """Served by several threads, each request in a transaction of its own."""
        self._batch_thread = threading.Thread(
            target=self._run, args=(self._batched, BATCH_MAX), name=f"{name}-batch", daemon=True
        )
        self._single_threads = [
            threading.Thread(
                target=self._run, args=(self._single, 1), name=f"{name}-{number}", daemon=True
            )
            for number in range(0 if self._shares_all else NUM_WRITERS)
        ]

    def start(self) -> None:
        for thread in (self._batch_thread, *self._single_threads):
            thread.start()

    def stop(self) -> None:
        """Serve what was submitted so far, then end. Blocks until that is done."""
        served = [
            (self._batch_thread, self._batched),
            *((thread, self._single) for thread in self._single_threads),
        ]
        # Looked at before the first end is said: any thread of a queue may take it, and be gone.
        alive = [(thread, waiting) for thread, waiting in served if thread.is_alive()]
        for _, waiting in alive:
            waiting.put(None)
        for thread, _ in alive:
            thread.join()

    async def submit(
        self,
        handler: Handler[Request, Reply],
        request: Request,
        *,
        key: Hashable = None,
        shares_rows: bool = False,
    ) -> Reply:
        """Return the handler's reply to `request` once it is durable, or raise its error.

        key: Requests of one handler with the same key never share a transaction.
        shares_rows: The request changes rows that others change, too, in an order of its own. On
        PostgreSQL it gets a transaction of its own.
        Raises Unavailable while too many requests wait.
        """
        waiting = self._single if shares_rows and not self._shares_all else self._batched
        if waiting.qsize() >= WAITING_MAX:
            log.warning("too_many_wait", what=self._name, most=WAITING_MAX)
            raise Unavailable(
                "server.too_many_wait",
                f"{WAITING_MAX} requests wait for the database already.",
                hint="Try again shortly.",
                retry_after_s=RETRY_AFTER_S,
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reply] = loop.create_future()
        waiting.put(
            _Call(
                handler=handler,
                request=request,
                key=key,
                loop=loop,
                answer=answer,
                trace=traces.here(),
            )
        )
        return await answer

    async def run(self, work: Callable[[Session], Reply]) -> Reply:
        """Return what `work` returns once it is durable, or raise what it raises.

        Like a handler, it may be called twice and does nothing but use its session.
        """
        return await self.submit(_run_each, work, shares_rows=True)

    def _run(self, waiting: queue.SimpleQueue[_Call | None], batch_max: int) -> None:
        is_last = False
        while not is_last:
            calls, is_last = _take(waiting, batch_max)
            for batch in self._split(calls):
                with traces.span(self._name, parent=batch[0].trace):
                    outcomes = self._serve(batch)
                _answer(batch, outcomes)

    def _split(self, calls: Sequence[_Call]) -> list[list[_Call]]:
        """Split calls into those that may share a transaction.

        On PostgreSQL each handler has transactions of its own: one locks nodes and another one
        allocations, which has to happen in the order in which everybody does it.
        """
        batches: dict[tuple[Any, int], list[_Call]] = {}
        seen: dict[Any, int] = {}
        for call in calls:
            turn = 0
            if call.key is not None:
                keyed = (call.handler, call.key)
                turn = seen.get(keyed, 0)
                seen[keyed] = turn + 1
            batches.setdefault((None if self._shares_all else call.handler, turn), []).append(call)
        return list(batches.values())

    def _serve(self, batch: Sequence[_Call]) -> list[_Outcome]:
        groups: dict[Handler[Any, Any], list[int]] = {}
        for place, call in enumerate(batch):
            groups.setdefault(call.handler, []).append(place)
        outcomes: list[_Outcome] = [None] * len(batch)
        try:
            with self._transaction() as session:
                for handler, places in groups.items():
                    replies = handler(session, [batch[place].request for place in places])
                    session.flush()
                    session.expunge_all()
                    for place, reply in zip(places, replies, strict=True):
                        outcomes[place] = reply
        except Exception as error:
            if len(batch) == 1 or is_gone(error):
                return [error] * len(batch)
            log.debug("batch_served_singly", why=type(error).__name__)
            return [self._serve([call])[0] for call in batch]
        return outcomes


def _run_each(session: Session, works: Sequence[Callable[[Session], Any]]) -> list[Any]:
    """Return the handler of work that has none; what one has loaded, the next one reads anew."""
    results = []
    for work in works:
        results.append(work(session))
        session.flush()
        session.expunge_all()
    return results


def _take(waiting: queue.SimpleQueue[_Call | None], batch_max: int) -> tuple[list[_Call], bool]:
    """Return the calls that wait, at least one unless it was the end, and whether it was."""
    batch: list[_Call] = []
    call = waiting.get()
    while call is not None:
        batch.append(call)
        if len(batch) == batch_max:
            return batch, False
        try:
            call = waiting.get_nowait()
        except queue.Empty:
            return batch, False
    return batch, True


def _answer(batch: Sequence[_Call], outcomes: Sequence[_Outcome]) -> None:
    for loop in {call.loop for call in batch}:
        answers = [
            (call.answer, outcome)
            for call, outcome in zip(batch, outcomes, strict=True)
            if call.loop is loop
        ]
        try:
            loop.call_soon_threadsafe(_set_answers, answers)
        except RuntimeError:
            log.debug("nobody_waits_any_more")  # the loop is closed


def _set_answers(answers: Sequence[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for answer, outcome in answers:
        if answer.done():
            continue  # its caller has left
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
