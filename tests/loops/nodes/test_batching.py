"""Requests that share a transaction: nobody's failure is another one's, and no answer comes too early."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from muster_server.db import batching, engine
from muster_server.db.batching import Batcher
from muster_server.db.engine import Database
from muster_server.db.models import NodeRow, ProjectRow
from muster_server.errors import NotFound, Unavailable
from muster_server.security.tokens import hash_secret
from support.data import NOW


@pytest.fixture
def own(sqlite_url):
    found = Database(sqlite_url)
    yield found
    found.dispose()


def ask_all(batcher: Batcher, works: list[Callable]) -> list:
    """What each of them came to; all are submitted before the first is served."""
    return serve_all(batcher, lambda work: batcher.run(work), works)


def serve_all(batcher: Batcher, submit: Callable, requests: list) -> list:
    async def run() -> list:
        submitted = [asyncio.ensure_future(submit(request)) for request in requests]
        await asyncio.sleep(0)
        batcher.start()
        return await asyncio.gather(*submitted, return_exceptions=True)

    outcomes = asyncio.run(run())
    batcher.stop()
    return outcomes


def add(name: str) -> Callable:
    def work(session):
        session.add(ProjectRow(name=name, created_at=NOW))
        return name

    return work


def names(session) -> list[str]:
    return list(session.scalars(select(ProjectRow.name).order_by(ProjectRow.name)))


def test_all_that_wait_share_one_commit(own):
    commits: list[frozenset[str]] = []
    own.on_commit = commits.append

    def touching(name: str) -> Callable:
        def work(session):
            session.info.setdefault("muster_topics", set()).add(name)
            return add(name)(session)

        return work

    writes = Batcher(own, name="w", writes=True)
    assert ask_all(writes, [touching(n) for n in "abc"]) == ["a", "b", "c"]
    assert commits == [frozenset("abc")]


def test_one_that_fails_is_told_so_and_the_others_are_kept(own):
    def refuse(session):
        session.add(ProjectRow(name="half done", created_at=NOW))
        raise KeyError("no")

    writes = Batcher(own, name="w", writes=True)
    one, refused, same_again, other = ask_all(writes, [add("a"), refuse, add("a"), add("b")])
    assert (one, other) == ("a", "b")
    assert isinstance(refused, KeyError)
    assert isinstance(same_again, DBAPIError), "the name is taken: the database says so"
    with own.read() as session:
        assert {"a", "b"} <= set(names(session))
        assert "half done" not in names(session)


def test_what_one_has_loaded_the_next_one_reads_anew(own):
    def rename(session):
        project = session.scalars(select(ProjectRow).limit(1)).one()
        session.connection().execute(update(ProjectRow.__table__).values(weight=7.0))
        return project

    def read(session):
        return session.scalars(select(ProjectRow).limit(1)).one().weight

    with own.transaction() as session:
        session.add(ProjectRow(name="p", created_at=NOW))
    writes = Batcher(own, name="w", writes=True)
    assert ask_all(writes, [rename, read])[1] == 7.0


def test_a_handler_gets_all_that_wait_and_refuses_some(database):
    batches: list[list[str]] = []

    def add_all(session, requests):
        batches.append(list(requests))
        for name in requests:
            if not name.startswith("odd"):
                session.add(ProjectRow(name=name, created_at=NOW))
        return [NotFound("x", name) if name.startswith("odd") else name for name in requests]

    writes = Batcher(database, name="w", writes=True)
    asked = ["a", "odd 1", "b", "odd 2"]
    one, odd, other, odd_too = serve_all(writes, lambda name: writes.submit(add_all, name), asked)
    assert (one, other) == ("a", "b")
    assert [str(refused) for refused in (odd, odd_too)] == ["odd 1", "odd 2"]
    assert batches == [asked]
    with database.read() as session:
        assert {"a", "b"} <= set(names(session))


def test_when_a_batch_fails_each_of_its_requests_is_served_by_itself(database):
    def add_all(session, requests):
        for name in requests:
            session.add(ProjectRow(name=name, created_at=NOW))
        session.flush()
        if "bad" in requests:
            raise KeyError("no")
        return list(requests)

    writes = Batcher(database, name="w", writes=True)
    one, bad, other = serve_all(
        writes, lambda name: writes.submit(add_all, name), ["a", "bad", "b"]
    )
    assert (one, other) == ("a", "b")
    assert isinstance(bad, KeyError)
    with database.read() as session:
        found = names(session)
    assert {"a", "b"} <= set(found)
    assert "bad" not in found


def test_requests_with_the_same_key_never_share_a_transaction(database):
    batches: list[list[int]] = []

    def note(session, requests):
        batches.append(list(requests))
        return [None] * len(requests)

    writes = Batcher(database, name="w", writes=True)
    serve_all(writes, lambda number: writes.submit(note, number, key=number % 3), list(range(8)))
    assert batches == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_no_batch_is_larger_than_it_may_be(database, monkeypatch):
    sizes: list[int] = []

    def note(session, requests):
        sizes.append(len(requests))
        return [None] * len(requests)

    monkeypatch.setattr(batching, "BATCH_MAX", 3)
    writes = Batcher(database, name="w", writes=True)
    serve_all(writes, lambda number: writes.submit(note, number), list(range(7)))
    assert sizes == [3, 3, 1]


def test_on_postgresql_what_shares_rows_has_a_transaction_of_its_own(postgres_url):
    batches: list[list[int]] = []

    def note(session, requests):
        batches.append(list(requests))
        return [None] * len(requests)

    theirs = Database(postgres_url)
    writes = Batcher(theirs, name="w", writes=True)
    serve_all(
        writes, lambda number: writes.submit(note, number, shares_rows=number > 1), list(range(4))
    )
    assert sorted(batches) == [[0, 1], [2], [3]]
    theirs.dispose()


def test_there_is_an_end_to_how_many_wait(database, monkeypatch):
    monkeypatch.setattr(batching, "WAITING_MAX", 2)
    writes = Batcher(database, name="w", writes=True)
    one, other, refused = ask_all(writes, [add("a"), add("b"), add("c")])
    assert (one, other) == ("a", "b")
    assert isinstance(refused, Unavailable)
    assert (refused.status, refused.retry_after_s) == (503, batching.RETRY_AFTER_S)
    with database.read() as session:
        assert "c" not in names(session)


def test_a_connection_that_died_while_nobody_used_it_is_replaced(postgres_url, monkeypatch):
    monkeypatch.setattr(engine, "ALIVE_S", 0.0)
    theirs = Database(postgres_url)
    with theirs.read() as one, theirs.read() as other:
        pids = [session.scalar(text("SELECT pg_backend_pid()")) for session in (one, other)]
    admin = Database(postgres_url)
    with admin.transaction() as session:
        for pid in pids:
            session.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})
    with theirs.read() as one, theirs.read() as other:
        now = {session.scalar(text("SELECT pg_backend_pid()")) for session in (one, other)}
    assert len(now - set(pids)) == 2
    admin.dispose()
    theirs.dispose()


def test_readers_do_not_see_each_others_failures(own):
    def count(session):
        return session.scalar(select(func.count()).select_from(ProjectRow))

    def refuse(session):
        raise KeyError("no")

    reads = Batcher(own, name="r", writes=False)
    one, refused, other = ask_all(reads, [count, refuse, count])
    assert one == other
    assert isinstance(refused, KeyError)


def test_a_credential_is_void_from_the_commit_that_takes_it_away(database, agent):
    """Although the server remembers who presented it a moment ago."""
    n1 = agent("n1")
    n1.beat()
    with database.transaction() as session:
        session.execute(
            update(NodeRow)
            .where(NodeRow.id == n1.node_id)
            .values(credential_hash=hash_secret("mst_agt_another"), next_credential_hash=None)
        )
    n1.beat(expect=401)
    query = {"node_id": n1.node_id, "session_epoch": n1.epoch, "wait": 0}
    assert n1.client.get("/agent/v1/assignments", params=query).status_code == 401


def test_every_thread_ends_whichever_takes_the_end_first(monkeypatch):
    class Ending(queue.SimpleQueue):
        """Waits until a thread that was told to end is gone."""

        def put(self, item):
            num = threading.active_count()
            super().put(item)
            while item is None and threading.active_count() >= num:
                pass

    monkeypatch.setattr(batching.queue, "SimpleQueue", Ending)
    postgres = SimpleNamespace(is_sqlite=False, transaction=None, read=None)
    batcher = Batcher(postgres, name="ends", writes=True)
    batcher.start()
    batcher._single_threads.reverse()  # the one that has waited longest is not the first looked at
    stopping = threading.Thread(target=batcher.stop, daemon=True)
    stopping.start()
    stopping.join(20)
    assert not stopping.is_alive()
