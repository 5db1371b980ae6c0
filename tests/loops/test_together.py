"""Work that shares a transaction: nobody's failure is another one's, and no answer comes too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from muster_server.db import engine, together
from muster_server.db.engine import Database
from muster_server.db.models import NodeRow, ProjectRow
from muster_server.db.together import ALONE, Together
from muster_server.errors import Unavailable
from muster_server.security.tokens import hash_secret
from muster_server.testing.data import NOW


@pytest.fixture
def own(sqlite_url):
    found = Database(sqlite_url)
    yield found
    found.dispose()


def ask_all(together: Together, works: list[Callable]) -> list:
    """What each of them came to; all have asked before the first is served."""

    async def run() -> list:
        asked = [asyncio.ensure_future(together.do(work)) for work in works]
        await asyncio.sleep(0)
        together.start()
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(run())
    together.stop()
    return outcomes


def ask_all_for(together: Together, many: Callable, items: list[str], work: Callable) -> list:
    """The same, of what `many` can do for several."""

    async def run() -> list:
        asked = [
            asyncio.ensure_future(together.do(work(item), many=many, item=item)) for item in items
        ]
        await asyncio.sleep(0)
        together.start()
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(run())
    together.stop()
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

    writes = Together(own, name="w", writes=True)
    assert ask_all(writes, [touching(n) for n in "abc"]) == ["a", "b", "c"]
    assert commits == [frozenset("abc")]


def test_one_that_fails_is_told_so_and_the_others_are_kept(own):
    def refuse(session):
        session.add(ProjectRow(name="half done", created_at=NOW))
        raise KeyError("no")

    writes = Together(own, name="w", writes=True)
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
    writes = Together(own, name="w", writes=True)
    assert ask_all(writes, [rename, read])[1] == 7.0


def test_what_is_not_for_all_is_done_alone(database):
    def add_some(session, asked):
        for name in asked:
            if not name.startswith("odd"):
                session.add(ProjectRow(name=name, created_at=NOW))
        return [ALONE if name.startswith("odd") else f"many {name}" for name in asked]

    writes = Together(database, name="w", writes=True)
    asked = ["a", "odd 1", "b", "odd 2", "odd 3"]
    outcomes = ask_all_for(writes, add_some, asked, add)
    assert outcomes == ["many a", "odd 1", "many b", "odd 2", "odd 3"]
    with database.read() as session:
        assert set(names(session)) >= set(asked)


def test_when_what_is_for_all_fails_each_is_done_alone(database):
    def fail(session, asked):
        session.add(ProjectRow(name="half done", created_at=NOW))
        session.flush()
        raise KeyError("no")

    writes = Together(database, name="w", writes=True)
    assert ask_all_for(writes, fail, ["a", "b"], add) == ["a", "b"]
    with database.read() as session:
        assert {"a", "b"} <= set(names(session))
        assert "half done" not in names(session)


def test_there_is_an_end_to_how_many_wait(database, monkeypatch):
    monkeypatch.setattr(together, "WAITING_MAX", 2)
    writes = Together(database, name="w", writes=True)
    one, other, refused = ask_all(writes, [add("a"), add("b"), add("c")])
    assert (one, other) == ("a", "b")
    assert isinstance(refused, Unavailable)
    assert (refused.status, refused.retry_after_s) == (503, together.REFUSED_S)
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

    reads = Together(own, name="r", writes=False)
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
