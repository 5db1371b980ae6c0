"""Work of many callers in one transaction: one commit, one turn to write, one look at the database.

A call of an agent does little, and most of what it costs is around that: a thread that has to be
woken, a session, a transaction and its way to the disk. Here all that wait at the same moment share
them. Who waits alone is served at once; under load the batches grow by themselves.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from muster_server.errors import MusterError, Unavailable

from .engine import Database
from .failures import is_gone

T = TypeVar("T")
Work = Callable[[Session], Any]


class Alone(enum.Enum):
    """Instead of a result, of what `Many` leaves to the caller's own work."""

    ALONE = enum.auto()


ALONE: Final = Alone.ALONE
Many = Callable[[Session, Sequence[Any]], Sequence[Any]]
"""Does for many callers at once what they ask for, each said by a value, in statements that cover all
of them: a result for each, or ALONE. Where two callers could wait for each other's rows it has to
take them in an order that is the same for everybody. Raising: nothing of it is kept."""

log = structlog.get_logger(__name__)

MOST = 32
"""Callers whose work goes into one transaction, where no two of those wait for each other: to read,
to write to SQLite, where whoever writes is alone, and what is done by a `Many`. On PostgreSQL all
other work is written in a transaction of its own."""
WAITING_MAX = 10_000
"""Callers that wait at once for work of one kind; whoever comes after them is refused. Thousands of
agents have one or two calls under way each, so that more than that is a database that hardly moves,
and a caller that waits for long has given up before its work is done."""
REFUSED_S = 2
"""After this long it is worth to ask again."""
WRITERS = 4
"""Threads that write to PostgreSQL, each in transactions of its own."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    work: Work
    many: Many | None
    item: Any
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
        self._name = name
        self._is_shared = database.is_sqlite or not writes
        """Any work may share a transaction with any other, and not only what a `Many` does."""
        self._do_all = self._write_all if writes else self._read_all
        self._transaction = database.transaction if writes else database.read
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._asked_for_many: queue.SimpleQueue[_Asked | None] = (
            self._asked if self._is_shared else queue.SimpleQueue()
        )
        """One thread's: while it commits the next batch gathers."""
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True)
            for number in range(1 if self._is_shared else WRITERS)
        ]
        self._thread_for_many = threading.Thread(
            target=self._run_many, name=f"{name}-many", daemon=True
        )

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        if not self._is_shared:
            self._thread_for_many.start()

    async def do(
        self, work: Callable[[Session], T], *, many: Many | None = None, item: Any = None
    ) -> T:
        """What `work` returns, once it is durable. Raises what it raises, and Unavailable while as many
        wait as may.

        many: does the same for `item` together with those of other callers, where it can.
        """
        waiting = self._asked if many is None else self._asked_for_many
        if waiting.qsize() >= WAITING_MAX:
            log.warning("too_many_wait", what=self._name, most=WAITING_MAX)
            raise Unavailable(
                "server.too_many_wait",
                f"{WAITING_MAX} requests wait for the database already.",
                hint="Try again shortly.",
                retry_after_s=REFUSED_S,
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        asked = _Asked(work=work, many=many, item=item, loop=loop, answer=answer)
        waiting.put(asked)
        return await answer

    def stop(self) -> None:
        """Do what was asked for so far, and end. Blocks until then."""
        if self._thread_for_many.is_alive():  # first: it leaves work to the others
            self._asked_for_many.put(None)
            self._thread_for_many.join()
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = _take(self._asked, MOST if self._is_shared else 1)
            if left := self._do_many(batch):
                _tell_all(left, self._do_all([asked.work for asked in left]))

    def _run_many(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = _take(self._asked_for_many, MOST)
            for asked in self._do_many(batch):
                self._asked.put(dataclasses.replace(asked, many=None))

    def _do_many(self, batch: Sequence[_Asked]) -> list[_Asked]:
        """Carry out what a `Many` can; the others.

        Each kind in a transaction of its own: one locks nodes and another one allocations, which has
        to happen in the order in which everybody does it. Where whoever writes is alone, all in one.
        """
        groups: dict[Many, list[_Asked]] = {}
        for asked in batch:
            if asked.many is not None:
                groups.setdefault(asked.many, []).append(asked)
        left = [asked for asked in batch if asked.many is None]
        if self._is_shared:
            return left + (self._do_groups(groups) if groups else [])
        for many, some in groups.items():
            left += self._do_groups({many: some})
        return left

    def _do_groups(self, groups: Mapping[Many, Sequence[_Asked]]) -> list[_Asked]:
        """Carry out all of these in one transaction; those who are to be served alone."""
        batch = [asked for some in groups.values() for asked in some]
        results: list[tuple[_Asked, Any]] = []
        try:
            with self._transaction() as session:
                for many, some in groups.items():
                    found = many(session, [asked.item for asked in some])
                    results += zip(some, found, strict=True)
        except DBAPIError as error:
            if is_gone(error):
                _tell_all(batch, [_Outcome(error=error) for _ in batch])
                return []
            log.debug("done_apart", why=type(error).__name__)
            return batch
        except MusterError as error:  # one of them is refused
            log.debug("done_apart", why=error.code)
            return batch
        except Exception as error:
            log.warning("done_apart", why=type(error).__name__, exc_info=error)
            return batch
        done = [(asked, result) for asked, result in results if result is not ALONE]
        _tell_all([asked for asked, _ in done], [_Outcome(result=result) for _, result in done])
        return [asked for asked, result in results if result is ALONE]

    def _write_all(self, works: Sequence[Work]) -> list[_Outcome]:
        if len(works) > 1 and self._is_shared:
            try:
                results = []
                with self._database.transaction() as session:
                    for work in works:
                        results.append(work(session))
                        session.flush()
                        session.expunge_all()
                return [_Outcome(result=result) for result in results]
            except DBAPIError as error:
                if is_gone(error):
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


def _take(queued: queue.SimpleQueue[_Asked | None], most: int) -> tuple[list[_Asked], bool]:
    """What waits, at least one; and whether that was the last."""
    batch: list[_Asked] = []
    asked = queued.get()
    while asked is not None:
        batch.append(asked)
        if len(batch) == most:
            return batch, False
        try:
            asked = queued.get_nowait()
        except queue.Empty:
            return batch, False
    return batch, True


def _tell_all(asked: Sequence[_Asked], outcomes: Sequence[_Outcome]) -> None:
    for loop in {one.loop for one in asked}:
        mine = [
            (one.answer, outcome)
            for one, outcome in zip(asked, outcomes, strict=True)
            if one.loop is loop
        ]
        try:
            loop.call_soon_threadsafe(_tell, mine)
        except RuntimeError:
            log.debug("nobody_waits_any_more")  # the loop is closed


def _tell(outcomes: Sequence[tuple[asyncio.Future[Any], _Outcome]]) -> None:
    for answer, outcome in outcomes:
        if answer.done():
            continue  # its caller has left
        if outcome.error is not None:
            answer.set_exception(outcome.error)
        else:
            answer.set_result(outcome.result)
