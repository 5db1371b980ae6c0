"""services.logs and log_reading on real databases."""

from __future__ import annotations

import datetime as dt
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, Base, LogChunkRow, LogStreamRow, TrialRow
from muster_server.errors import InvalidRequest
from muster_server.schemas.data import LogPage
from muster_server.services import log_reading, logs
from muster_server.services.log_reading import LogFilter
from muster_server.testing.data import NOW, add_attempt, add_experiment, add_trial, add_worker


@pytest.fixture
def database_url(any_database_url: str) -> str:
    return any_database_url


class Trial:
    def __init__(self, database: Database, *, slots: int = 2) -> None:
        self.database = database
        with database.transaction() as session:
            trial = add_trial(session, add_experiment(session))
            (allocation,) = add_attempt(session, trial, slots=slots, log_limit_bytes=100_000_000)
            self.id, self.allocation_id = trial.id, allocation.id
        self.sizes: dict[tuple[int, str], int] = {}

    def write(
        self,
        data: bytes,
        *,
        rank: int = 0,
        stream: str = "stdout",
        s: float = 0.0,
        offset: int | None = None,
    ) -> int:
        """Append `data` as received s seconds after NOW."""
        key = (rank, stream)
        with self.database.transaction() as session:
            self.sizes[key] = logs.append(
                session,
                allocation=session.get_one(AllocationRow, self.allocation_id),
                local_rank=rank,
                stream=stream,  # type: ignore[arg-type]
                offset=self.sizes.get(key, 0) if offset is None else offset,
                data=data,
                now=NOW + dt.timedelta(seconds=s),
            )
        return self.sizes[key]

    def page(self, cursor: str | None = None, **given: object) -> LogPage:
        budget_s = given.pop("budget_s", 10.0)
        start = given.pop("start", "tail")
        limit = given.pop("limit", 100)
        with self.database.read() as session:
            return log_reading.read_page(
                session,
                self.id,
                LogFilter(**given),  # type: ignore[arg-type]
                cursor=cursor,
                start=start,  # type: ignore[arg-type]
                limit=limit,  # type: ignore[arg-type]
                budget_s=budget_s,  # type: ignore[arg-type]
            )

    def end(self) -> None:
        with self.database.transaction() as session:
            trial = session.get_one(TrialRow, self.id)
            trial.state, trial.logs_complete = "COMPLETED", True


@pytest.fixture
def trial(database: Database) -> Trial:
    return Trial(database)


def texts(page: LogPage) -> list[str]:
    return [line.text for line in page.lines]


def test_bytes_are_taken_from_the_stored_size_on_and_only_there(trial: Trial) -> None:
    assert trial.write(b"one\ntwo\n") == 8
    assert trial.write(b"one\ntwo\n", offset=0) == 8, "sent again"
    assert trial.write(b"wo\nthree\n", offset=5) == 14, "an overlap gives its new part"
    assert trial.write(b"five\n", offset=20) == 14, "a gap is not filled"
    assert trial.write(b"", offset=14) == 14
    assert texts(trial.page()) == ["one", "two", "three"]
    with trial.database.read() as session:
        row = session.scalars(select(LogStreamRow)).one()
        assert (row.size_bytes, row.num_lines) == (14, 3)


def test_lines_of_all_streams_come_in_the_order_received(trial: Trial) -> None:
    trial.write(b"a0\na1\n", rank=0, s=0)
    trial.write(b"b0\n", rank=1, s=1)
    trial.write(b"e0\n", rank=0, stream="stderr", s=1)
    trial.write(b"a2\n", rank=0, s=2)
    trial.write(b"launched\n", rank=-1, s=1)
    page = trial.page()
    assert texts(page) == ["a0", "a1", "launched", "e0", "b0", "a2"]
    assert [line.no for line in page.lines] == [0, 1, 0, 0, 0, 2]
    assert (page.num_lines, page.older, page.complete) == (6, None, False)
    assert texts(trial.page(ranks=frozenset([0]), stream="stdout")) == ["a0", "a1", "a2"]
    assert texts(trial.page(attempt_no=2)) == []


def test_pages_backwards_and_forwards_hold_every_line_once(trial: Trial) -> None:
    for i in range(60):
        trial.write(f"line {i}\n".encode(), rank=i % 3 - 1, s=i // 4)
    whole = texts(trial.page())
    assert len(whole) == 60

    page = trial.page(limit=7)
    newest = page.newer
    seen = texts(page)
    while page.older:
        page = trial.page(page.older, limit=7)
        seen = texts(page) + seen
    assert seen == whole

    page = trial.page(start="head", limit=7)
    seen = texts(page)
    while page.lines:
        page = trial.page(page.newer, limit=7)
        seen += texts(page)
    assert seen == whole

    assert newest is not None
    trial.write(b"new\n", rank=1, s=99)
    assert texts(trial.page(newest)) == ["new"]


def test_going_back_and_forth_meets_at_the_same_line(trial: Trial) -> None:
    trial.write(b"".join(b"%d\n" % i for i in range(50)))
    older = trial.page(trial.page(limit=10).older, limit=10)
    assert texts(older) == [str(i) for i in range(30, 40)]
    assert texts(trial.page(older.newer, limit=5)) == [str(i) for i in range(40, 45)]


def test_a_line_whose_end_has_not_come_is_shown_and_comes_again_whole(trial: Trial) -> None:
    trial.write(b"done\nEpoch 1: 10%\rEpoch 1: 20%\r")
    page = trial.page()
    assert [(line.text, line.partial) for line in page.lines] == [
        ("done", False),
        ("Epoch 1: 20%", True),
    ]
    trial.write(b"Epoch 1: 100%\nnext\n", s=5)
    page = trial.page(page.newer)
    assert [(line.text, line.no, line.partial) for line in page.lines] == [
        ("Epoch 1: 100%", 1, False),
        ("next", 2, False),
    ]


def test_many_unfinished_lines_do_not_keep_finished_ones_back(trial: Trial) -> None:
    cursor = trial.page(start="head").newer
    for rank in (-1, 0, 1):
        trial.write(b"unfinished", rank=rank)
    trial.write(b"a\nb\nc\n", stream="stderr", s=1)
    page = trial.page(cursor, limit=2)
    assert texts(page) == ["a", "b"]
    assert texts(trial.page(page.newer, limit=2)) == ["unfinished", "c"]


def test_the_end_is_told_when_the_trial_is_terminal_and_everything_was_read(trial: Trial) -> None:
    trial.write(b"one\nlast without an end")
    assert not trial.page().complete
    trial.end()
    first = trial.page(start="head", limit=1)
    assert not first.complete
    page = trial.page(first.newer)
    assert [(line.text, line.partial) for line in page.lines] == [("last without an end", False)]
    assert page.complete
    assert trial.page(page.newer).complete


def test_nothing_more_comes_from_a_node_that_was_lost(trial: Trial) -> None:
    trial.write(b"torn off")
    with trial.database.transaction() as session:
        session.get_one(TrialRow, trial.id).state = "FAILED"
    assert not trial.page().complete
    with trial.database.transaction() as session:
        session.get_one(AllocationRow, trial.allocation_id).observed = "LOST"
    page = trial.page()
    assert [(line.text, line.partial) for line in page.lines] == [("torn off", False)]
    assert page.complete


def test_the_last_line_of_a_complete_stream_is_whole(trial: Trial) -> None:
    trial.write(b"no end")
    with trial.database.transaction() as session:
        session.scalars(select(LogStreamRow)).one().is_complete = True
    (line,) = trial.page().lines
    assert (line.text, line.partial) == ("no end", False)


def test_a_50_mb_line_is_cut_and_costs_little_memory(trial: Trial) -> None:
    trial.write(b"before\n")
    piece = b"x" * (1 << 20)
    for _ in range(50):
        trial.write(piece)
    trial.write(b"\nafter\n", s=1)
    tracemalloc.start()
    started = time.perf_counter()
    page = trial.page()
    seconds = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(len(line.text), line.cut) for line in page.lines] == [
        (6, False),
        (16_384, True),
        (5, False),
    ]
    assert [line.no for line in trial.page(start="head").lines] == [0, 1, 2]
    assert peak < 8 << 20
    assert seconds < 3


def test_a_very_long_progress_bar_shows_its_last_state(trial: Trial) -> None:
    trial.write(b"".join(b"%6d of 100000\r" % i for i in range(50_000)) + b"done\n")
    assert texts(trial.page()) == ["done"]


def test_broken_bytes_are_shown_as_such(trial: Trial) -> None:
    trial.write(b"\xff\xfe caf\xc3\xa9 \x00nul\r\n" + "损失".encode() + b"\n")
    assert texts(trial.page()) == ["�� café ␀nul", "损失"]


def test_a_letter_cut_by_a_chunk_border_is_whole(trial: Trial) -> None:
    trial.write("损".encode()[:1])
    trial.write("损".encode()[1:] + b"\n")
    assert texts(trial.page()) == ["损"]


@pytest.mark.parametrize("start", ["head", "tail"])
def test_a_search_finds_lines_in_any_case_wherever_chunks_end(trial: Trial, start: str) -> None:
    line = b"step %d loss 0.5 accuracy 0.9 some padding to fill the chunk\n"
    trial.write(b"".join(line % i for i in range(4_000)))
    trial.write(b"Traceback: CUDA Out of Me", s=1)
    trial.write(b"mory\n" + b"".join(line % i for i in range(2_000)), s=2)
    page = trial.page(text="out of memory", start=start)
    assert [(line.text, line.no) for line in page.lines] == [
        ("Traceback: CUDA Out of Memory", 4000)
    ]
    assert not page.search_stopped
    found = trial.page(text="STEP 1999 ", start=start)
    assert [line.no for line in found.lines] == [1999, 6000]


def test_a_search_in_letters_that_have_case_beyond_ascii(trial: Trial) -> None:
    trial.write("ÄRGER\nMühe\n损失 Loss\n".encode())
    assert texts(trial.page(text="ärger")) == ["ÄRGER"]
    assert texts(trial.page(text="损失 LOSS")) == ["损失 Loss"]


def test_a_search_out_of_time_says_so_and_goes_on_from_there(trial: Trial) -> None:
    trial.write(b"needle 1\n" + b"hay\n" * 100_000 + b"needle 2\n")
    page = trial.page(text="needle", budget_s=0.0)
    assert page.search_stopped
    found = texts(page)
    for _ in range(100):
        if not page.older:
            break
        page = trial.page(page.older, text="needle", budget_s=0.0)
        found = texts(page) + found
    assert found == ["needle 1", "needle 2"]


def test_a_stream_takes_its_rank_from_the_worker_once_it_is_known(trial: Trial) -> None:
    trial.write(b"a\n", rank=1)
    with trial.database.transaction() as session:
        add_worker(session, session.get_one(AllocationRow, trial.allocation_id), 1, rank=7)
    trial.write(b"b\n", rank=1)
    assert {line.rank for line in trial.page().lines} == {7}


def test_a_stream_at_its_limit_is_named(database: Database) -> None:
    trial = Trial(database)
    with database.transaction() as session:
        session.get_one(AllocationRow, trial.allocation_id).spec = {"log_limit_bytes": 4}
    trial.write(b"1234")
    trial.write(b"12", stream="stderr")
    assert trial.page().truncated_streams == ["rank 0 stdout"]


def test_a_clock_that_was_set_back_does_not_reorder_a_stream(trial: Trial) -> None:
    trial.write(b"first\n", s=10)
    trial.write(b"second\n", s=0)
    assert texts(trial.page()) == ["first", "second"]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "eJyLVorViQUACSECfw", "é"])
def test_a_foreign_cursor_is_refused(trial: Trial, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        trial.page(cursor)


def test_a_download_is_the_bytes_as_written(trial: Trial) -> None:
    data = bytes(range(256)) * 1000
    trial.write(data)
    with trial.database.read() as session:
        found = log_reading.find_download(
            session, trial.id, rank=0, stream="stdout", attempt_no=None
        )
    assert b"".join(log_reading.download(trial.database, found)) == data
    assert found.size_bytes == len(data)
    with trial.database.read() as session:
        assert session.scalar(select(func.count()).select_from(LogChunkRow)) == 4


pieces = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.text("ab\r\n\x00é", min_size=1, max_size=30),
    ),
    min_size=1,
    max_size=12,
)


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pieces, st.integers(1, 5))
def test_every_way_of_reading_shows_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[int, str]], limit: int
) -> None:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('l') / 'l.db'}")
    try:
        Base.metadata.create_all(database.engine)
        trial = Trial(database)
        for s, (rank, text) in enumerate(written):
            trial.write(text.encode(), rank=rank, s=s)
        trial.end()
        for rank in (0, 1):
            whole = "".join(text for r, text in written if r == rank)
            expected = whole.removesuffix("\n").split("\n") if whole else []
            shown = [e.rstrip("\r").split("\r")[-1].replace("\x00", "␀") for e in expected]
            page = trial.page(ranks=frozenset([rank]), limit=limit)
            backwards = texts(page)
            while page.older:
                page = trial.page(page.older, ranks=frozenset([rank]), limit=limit)
                backwards = texts(page) + backwards
            assert backwards == shown
            page = trial.page(ranks=frozenset([rank]), start="head", limit=limit)
            forwards = texts(page)
            while page.lines:
                page = trial.page(page.newer, ranks=frozenset([rank]), limit=limit)
                forwards += texts(page)
            assert forwards == shown
            matching = trial.page(ranks=frozenset([rank]), text="AB", start="head")
            assert texts(matching) == [t for t in shown if "ab" in t]
    finally:
        database.dispose()
