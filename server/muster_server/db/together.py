"""Work of many callers in one transaction: one commit, one turn to write, one look at the database.

A call of an agent does little, and most of what it costs is around that: a thread that has to be
woken, a session, a transaction and its way to the disk. Here all that wait at the same moment share
them. Who waits alone is served at once; under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

from .engine import Database

T = TypeVar("T")
Work = Callable[[Session], Any]

log = structlog.get_logger(__name__)

MOST = 32
"""Callers whose work goes into one transaction, where no two of those wait for each other: to read,
and to write to SQLite, where whoever writes is alone. On PostgreSQL each writes in one of its own."""
WRITERS = 4
"""Threads that write to PostgreSQL."""
AWAY = ("08", "57P")
"""How the codes begin with which PostgreSQL says that it ends, or is not there."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    work: Work
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    result: Any = None
    error: BaseException | None = None


class Together:
    """Threads of its own that do what coroutines ask for. `write`: acknowledged after the commit.

    Each caller's work sees a session in which nothing is loaded yet, and in a `write` what those
    before it in the same transaction have written. When the work of one raises, nothing of the
    transaction is kept and every work is done once more in a transaction of its own: so work may
    be done twice, and must do nothing but use its session and return.
    """

    def __init__(self, database: Database, *, name: str, writes: bool) -> None:
        self._database = database
        is_shared = database.is_sqlite or not writes
        self._most, threads = (MOST, 1) if is_shared else (1, WRITERS)
        self._do_all = self._write_all if writes else self._read_all
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    async def do(self, work: Callable[[Session], T]) -> T:
        """What `work` returns, once it is durable. Raises what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._asked.put(_Asked(work=work, loop=loop, answer=answer))
        return await answer

    def stop(self) -> None:
        """Do what was asked for so far, and end. Blocks until then."""
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        while (first := self._asked.get()) is not None:
            batch, is_last = [first], False
            while len(batch) < self._most and not is_last:
                try:
                    asked = self._asked.get_nowait()
                except queue.Empty:
                    break
                if asked is None:
                    is_last = True
                else:
                    batch.append(asked)
            outcomes = self._do_all([asked.work for asked in batch])
            for loop in {asked.loop for asked in batch}:
                mine = [
                    (asked.answer, outcome)
                    for asked, outcome in zip(batch, outcomes, strict=True)
                    if asked.loop is loop
                ]
                try:
                    loop.call_soon_threadsafe(_tell, mine)
                except RuntimeError:
                    log.debug("nobody_waits_any_more")  # the loop is closed
            if is_last:
                return

    def _write_all(self, works: Sequence[Work]) -> list[_Outcome]:
        if len(works) > 1:
            try:
                results = []
                with self._database.transaction() as session:
                    for work in works:
                        results.append(work(session))
                        session.flush()
                        session.expunge_all()
                return [_Outcome(result=result) for result in results]
            except DBAPIError as error:
                if _is_away(error):
                    return [_Outcome(error=error) for _ in works]
            except Exception as error:
                log.debug("done_apart", why=type(error).__name__)
        return [_outcome(functools.partial(self._write, work)) for work in works]

    def _write(self, work: Work) -> Any:
        with self._database.transaction() as session:
            return work(session)

    def _read_all(self, works: Sequence[Work]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        try:
            with self._database.read() as session:
                for work in works:
                    outcome = _outcome(functools.partial(work, session))
                    outcomes.append(outcome)
                    if isinstance(outcome.error, DBAPIError):
                        break  # it takes the transaction with it
                    session.expunge_all()
        except Exception as error:
            outcomes += [_Outcome(error=error) for _ in works[len(outcomes) :]]
        if len(outcomes) < len(works):
            return outcomes + self._read_all(works[len(outcomes) :])
        return outcomes


def _outcome(work: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(result=work())
    except Exception as error:
        return _Outcome(error=error)


def _is_away(error: DBAPIError) -> bool:
    """Whether trying again at once would fail, too: not where PostgreSQL says that this transaction
    alone was ended, of two that waited for each other or because a lock was not to be had."""
    is_operational = isinstance(error, OperationalError | InterfaceError)
    state = getattr(error.orig, "sqlstate", None) or ""
    return (is_operational or error.connection_invalidated) and (
        not state or state.startswith(AWAY)
    )


def _tell(outcomes: Sequence[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for answer, outcome in outcomes:
        if answer.done():
            continue  # its caller has left
        if outcome.error is not None:
            answer.set_exception(outcome.error)
        else:
            answer.set_result(outcome.result)
