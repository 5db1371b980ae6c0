"""Who computes which shard, and whose result counts."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_server.domain.predictions import leasing
from muster_server.domain.predictions.leasing import (
    HELD_MAX,
    Commit,
    ShardOwner,
    ShardView,
    WorkerReport,
    decide,
    explain_errors,
    find_missing,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LEASE = dt.timedelta(seconds=60)


class Book:
    """The shards of a job, changed by decisions alone."""

    def __init__(self, num: int) -> None:
        self.shards = {
            no: ShardView(
                no=no, num_rows=100, state="free", token=0, attempt_no=0, owner=None, until=None
            )
            for no in range(num)
        }
        self.counted: dict[int, list[Commit]] = {no: [] for no in range(num)}
        self.now = NOW

    def change(self, no: int, **values: Any) -> None:
        self.shards[no] = dataclasses.replace(self.shards[no], **values)

    def report(
        self, owner: ShardOwner, attempt_no: int, done: list[Commit], *, takes_none: bool = False
    ) -> leasing.Leasing:
        free = [shard for shard in self.shards.values() if shard.state == "free"]
        named = {commit.no for commit in done}
        seen = [
            shard
            for shard in self.shards.values()
            if shard.state == "leased" or shard.no in named or shard in free[:HELD_MAX]
        ]
        changes = decide(
            WorkerReport(
                owner=owner,
                attempt_no=attempt_no,
                done=done,
                rows_per_s=100.0,
                takes_none=takes_none,
            ),
            seen,
            num_free=len(free),
            num_workers=2,
            now=self.now,
        )
        for commit in changes.committed:
            self.counted[commit.no].append(commit)
            self.change(commit.no, state="done", until=None)
        for no in changes.renewed:
            self.change(no, until=self.now + LEASE)
        for no in changes.freed:
            self.change(no, state="free", owner=None, until=None)
        for lease in changes.leased:
            shard = self.shards[lease.no]
            assert shard.state != "done"
            assert lease.token == shard.token + 1
            self.change(
                lease.no,
                state="leased",
                token=lease.token,
                attempt_no=attempt_no,
                owner=owner,
                until=self.now + LEASE,
            )
        return changes

    def held_by(self, owner: ShardOwner) -> list[Commit]:
        return [
            Commit(no=s.no, token=s.token)
            for s in self.shards.values()
            if s.state == "leased" and s.owner == owner
        ]


def worker(rank: int, attempt_no: int = 1) -> ShardOwner:
    return ShardOwner(allocation_id=f"a{attempt_no}", rank=rank)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "commit", "commit_old", "repeat", "expire", "stop", "restart"]),
        st.integers(0, 2),
        st.integers(0, 30),
    ),
    max_size=80,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_every_shard_counts_once_in_any_order_of_events(steps: list[tuple[str, int, int]]) -> None:
    book = Book(12)
    attempt_no = 1
    given_out: list[tuple[int, int, Commit]] = []
    for kind, rank, pick in steps:
        owner = worker(rank, attempt_no)
        done: list[Commit] = []
        if kind == "expire":
            book.now += LEASE * 2
        elif kind == "restart":
            attempt_no += 1
            owner = worker(rank, attempt_no)
        elif kind == "commit":
            done = book.held_by(owner)[: 1 + pick % 3]
        elif kind in ("commit_old", "repeat") and given_out:
            # Whatever this rank ever computed in this attempt: older attempts are fenced off before.
            mine = [c for a, r, c in given_out if a == attempt_no and r == rank]
            done = [mine[pick % len(mine)]] * (2 if kind == "repeat" else 1) if mine else []
        changes = book.report(owner, attempt_no, done, takes_none=kind == "stop")
        given_out += [(attempt_no, rank, lease) for lease in changes.leased]
        assert all(len(commits) <= 1 for commits in book.counted.values())
        for commit in changes.refused:
            assert book.counted[commit.no] != [commit], "its part must not be deleted"
    owner = worker(0, attempt_no + 1)
    while any(shard.state != "done" for shard in book.shards.values()):
        book.report(owner, attempt_no + 1, book.held_by(owner))
    for no, commits in book.counted.items():
        assert [c.token for c in commits] == [book.shards[no].token]


def test_a_shard_is_given_to_others_when_its_lease_is_over() -> None:
    book = Book(1)
    first = book.report(worker(0), 1, []).leased
    assert book.report(worker(1), 1, []).leased == []
    book.now += LEASE * 2
    second = book.report(worker(1), 1, []).leased
    assert second == [Commit(no=0, token=2)]
    assert book.report(worker(0), 1, first).refused == first
    assert book.report(worker(1), 1, second).committed == second
    repeated = book.report(worker(1), 1, second)
    assert (repeated.committed, repeated.refused) == ([], [])


def test_a_worker_whose_lease_is_over_keeps_what_nobody_took() -> None:
    book = Book(1)
    (lease,) = book.report(worker(0), 1, []).leased
    book.now += LEASE * 2
    assert book.report(worker(0), 1, []).renewed == [0]
    assert book.report(worker(0), 1, [lease]).committed == [lease]


def test_what_an_earlier_attempt_held_is_free_at_once() -> None:
    book = Book(1)
    book.report(worker(0, 1), 1, [])
    assert book.report(worker(0, 2), 2, []).leased == [Commit(no=0, token=2)]


def test_a_fast_worker_holds_more_and_the_last_shards_are_shared() -> None:
    def held(num_free: int, rows_per_s: float) -> int:
        shards = list(Book(min(num_free, HELD_MAX)).shards.values())
        report = WorkerReport(owner=worker(0), attempt_no=1, done=[], rows_per_s=rows_per_s)
        return len(decide(report, shards, num_free=num_free, num_workers=4, now=NOW).leased)

    assert held(1000, 0.0) == 2
    assert held(1000, 10.0) == 2
    assert held(1000, 200.0) == 8
    assert held(1000, 1e6) == HELD_MAX
    assert held(40, 1e6) == 5
    assert held(3, 1e6) == 1
    assert held(0, 1e6) == 0


def test_who_takes_none_gives_back_what_it_holds() -> None:
    book = Book(3)
    book.report(worker(0), 1, [])
    assert book.report(worker(0), 1, [], takes_none=True).freed == [0]
    assert book.report(worker(1), 1, []).leased


def test_parts_that_are_nowhere_are_computed_again() -> None:
    def done(no: int, attempt_no: int) -> ShardView:
        return ShardView(
            no=no, num_rows=1, state="done", token=2, attempt_no=attempt_no, owner=None, until=None
        )

    shards = [done(0, 1), done(1, 1), done(2, 3)]
    assert find_missing(shards, attempt_no=3, present={(0, 2), (1, 1)}) == [1]


def test_errors_are_counted_against_all_rows() -> None:
    assert explain_errors(0, 10, max_errors=0.0) == ""
    assert explain_errors(5, 100, max_errors=0.05) == ""
    assert explain_errors(6, 100, max_errors=0.05).startswith("6 rows of 100 could not")
    assert "predict.max_errors (0)" in explain_errors(1, 100, max_errors=0.0)
