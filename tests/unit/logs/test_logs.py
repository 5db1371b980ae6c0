"""services.logs.storage and log_reading on real databases."""

from __future__ import annotations

import datetime as dt
import math
import tracemalloc

import pytest
import re2
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from muster.log_text import visible
from muster_server.db.engine import Database
from muster_server.db.models import AllocationRow, LogChunkRow, LogStreamRow, TrialRow
from muster_server.domain.logs.lines import LineTest, level_of
from muster_server.errors import InvalidRequest, NotFound
from muster_server.schemas.data import LogPage
from muster_server.services.logs import merging, reading, storage
from muster_server.services.logs.reading import LogPosition
from muster_server.services.logs.streams import LogFilter
from support.data import NOW, add_attempt, add_experiment, add_trial, add_worker

pytestmark = pytest.mark.both_databases


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
            self.sizes[key] = storage.append(
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
            return reading.read_page(
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
    page = trial.page()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(len(line.text), line.cut) for line in page.lines] == [
        (6, False),
        (16_384, True),
        (5, False),
    ]
    assert [line.no for line in trial.page(start="head").lines] == [0, 1, 2]
    assert peak < 8 << 20


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
        found = reading.find_download(session, trial.id, rank=0, stream="stdout", attempt_no=None)
    assert b"".join(reading.download(trial.database, found)) == data
    assert found.size_bytes == len(data)
    with trial.database.read() as session:
        assert session.scalar(select(func.count()).select_from(LogChunkRow)) == 4


pieces = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(
            st.sampled_from(
                [
                    "a",
                    "b",
                    "AB",
                    "\r",
                    "\n",
                    "\x00",
                    "é",
                    "ERROR",
                    "\x1b[31m",
                    "\x1b",
                    "\x1b]0;t\x07",
                ]
            ).map(str.encode)
            | st.sampled_from([b"\xe6", b"\x8d\x9f", b"\xff"]),
            min_size=1,
            max_size=8,
        ).map(b"".join),
    ),
    min_size=1,
    max_size=8,
)


def read_all(trial: Trial, *, forwards: bool, **given: object) -> list[str]:
    page = trial.page(start="head" if forwards else "tail", **given)
    found = texts(page)
    while page.lines or page.search_stopped:
        cursor = page.newer if forwards else page.older
        if cursor is None:
            break
        page = trial.page(cursor, **given)
        found = found + texts(page) if forwards else texts(page) + found
    return found


@hypothesis_settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(pieces, st.integers(1, 5), st.sampled_from(["ab", "é", "^a", "b$", "a+b|\\x00", "(?s).b"]))
def test_every_way_of_reading_shows_what_was_written(
    database: Database, written: list[tuple[int, bytes]], limit: int, pattern: str
) -> None:
    trial = Trial(database)
    for s, (rank, data) in enumerate(written):
        trial.write(data, rank=rank, s=s)
    trial.end()
    for rank in {rank for rank, _ in written}:
        whole = b"".join(data for r, data in written if r == rank)
        lines = whole.removesuffix(b"\n").split(b"\n")
        shown = [
            line.rstrip(b"\r").split(b"\r")[-1].decode("utf-8", "replace").replace("\x00", "␀")
            for line in lines
        ]
        ranks = frozenset([rank])
        expected = re2.compile(pattern, flags(match_case=False))
        seen = [visible(text.encode()) for text in shown]
        for forwards in (True, False):
            assert read_all(trial, forwards=forwards, ranks=ranks, limit=limit) == shown
            found = read_all(
                trial, forwards=forwards, ranks=ranks, limit=limit, text=pattern, is_regex=True
            )
            assert found == [t for t, v in zip(shown, seen, strict=True) if expected.search(v)]
            errors = read_all(
                trial, forwards=forwards, ranks=ranks, limit=limit, levels=frozenset({"error"})
            )
            assert errors == [t for t, v in zip(shown, seen, strict=True) if level_of(v) == "error"]
    order = [(line.stream_id, line.no) for line in trial.page().lines]
    for at, (stream_id, no) in enumerate(order):
        page = trial.page(start=LogPosition(line=(stream_id, no)))
        assert [(line.stream_id, line.no) for line in page.lines] == order[at:]


def flags(*, match_case: bool) -> re2.Options:
    options = re2.Options()
    options.case_sensitive = match_case
    return options


def test_a_page_begins_at_a_line_a_time_or_a_part(trial: Trial) -> None:
    for s in range(10):
        trial.write(b"".join(b"a%d\n" % (10 * s + i) for i in range(10)), rank=0, s=s)
        trial.write(b"b%d\n" % s, rank=1, s=s)
    first, second = (line.stream_id for line in trial.page(start="head", limit=11).lines[-2:])
    assert texts(trial.page(start=LogPosition(line=(first, 57)), limit=4)) == [
        "a57",
        "a58",
        "a59",
        "b5",
    ]
    page = trial.page(start=LogPosition(line=(second, 5)), limit=2)
    assert texts(page) == ["b5", "a60"]
    assert texts(trial.page(page.older, limit=2)) == ["a58", "a59"]
    at = NOW + dt.timedelta(seconds=3)
    assert texts(trial.page(start=LogPosition(time=at), limit=1)) == ["a30"]
    assert texts(trial.page(start=LogPosition(time=NOW + dt.timedelta(days=1)))) == []
    assert texts(trial.page(start=LogPosition(fraction=0.5), limit=1)) == ["a50"]
    assert texts(trial.page(start=LogPosition(fraction=1.0), limit=2)) == ["a99", "b9"]
    with pytest.raises(NotFound, match="100 lines"):
        trial.page(start=LogPosition(line=(first, 100)))
    with pytest.raises(NotFound, match="none of these"):
        trial.page(start=LogPosition(line=(99999, 0)))


def test_a_time_range_has_borders_that_are_kept_both_ways(trial: Trial) -> None:
    for s in range(6):
        trial.write(b"a%d\n" % s, rank=0, s=s)
        trial.write(b"b%d\nunended" % s if s == 5 else b"b%d\n" % s, rank=1, s=s)
    given = {
        "since": NOW + dt.timedelta(seconds=2),
        "until": NOW + dt.timedelta(seconds=4),
        "limit": 3,
    }
    page = trial.page(**given)
    assert texts(page) == ["b2", "a3", "b3"]
    assert page.at_end
    page = trial.page(page.older, **given)
    assert texts(page) == ["a2"]
    assert page.older is None
    page = trial.page(start="head", **given)
    assert texts(page) == ["a2", "b2", "a3"]
    page = trial.page(page.newer, **given)
    assert (texts(page), page.at_end) == (["b3"], True)
    assert texts(trial.page(page.newer, **given)) == []


def test_lines_are_filtered_by_node_and_level(trial: Trial) -> None:
    trial.write(b"INFO ok\nWARNING slow\nValueError: bad\nplain\n")
    with trial.database.read() as session:
        node = session.scalars(select(LogStreamRow.node_name)).one()
    assert len(texts(trial.page(nodes=frozenset({node})))) == 4
    assert texts(trial.page(nodes=frozenset({"elsewhere"}))) == []
    page = trial.page(levels=frozenset({"warning", "error"}))
    assert [(line.text, line.level) for line in page.lines] == [
        ("WARNING slow", "warning"),
        ("ValueError: bad", "error"),
    ]


def test_a_search_says_how_much_it_has_looked_at(trial: Trial) -> None:
    line = b"step %06d loss 0.5 and some padding\n"
    trial.write(b"".join(line % i for i in range(20_000)))
    assert trial.page().searched is None
    page = trial.page(text="step 000100 ", start="head")
    assert page.searched is not None
    assert (page.searched.num_lines, page.searched.left_lines) == (20_000, 0)
    assert page.searched.num_bytes == 20_000 * len(line % 0)
    page = trial.page(text="nowhere", budget_s=0.0)
    assert page.search_stopped
    seen = []
    while True:
        assert page.searched is not None
        seen.append(page.searched.num_lines)
        assert sum(seen) + page.searched.left_lines == 20_000
        if page.older is None:
            break
        page = trial.page(page.older, text="nowhere", budget_s=0.0)
    assert sum(seen) == 20_000
    assert len(seen) > 3


def test_a_search_sees_text_through_its_colours(trial: Trial) -> None:
    trial.write(b"\x1b[32mloss\x1b[0m 0.5\n 10%\r 20%\rdone \x1b[1mall\x1b[0m\n")
    assert len(texts(trial.page(text="loss 0.5"))) == 1
    assert len(texts(trial.page(text="^done all$", is_regex=True))) == 1
    assert texts(trial.page(text="10%")) == [], "what was overwritten is not shown"


@pytest.mark.parametrize("pattern", ["(a", r"(a)\1", "a(?=b)", "a{2000}", r"\pL{900}{900}"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="pattern cannot be read"):
        LogFilter(text=pattern, is_regex=True).test()


def test_streams_of_many_workers_share_the_memory_of_a_page(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(8):
        for piece in range(4):
            trial.write(b"%99d\n" % piece * 650, rank=rank, s=piece)
    monkeypatch.setattr(merging, "READ_MEMORY_BYTES", 1 << 20)
    with trial.database.read() as session:
        streams = session.scalars(select(LogStreamRow)).all()
        low = {s.id: 0 for s in streams}
        high = {s.id: s.size_bytes for s in streams}
        test = LineTest("3$", is_regex=True)
        numbers = {trial.id: 1}
        walk = merging.Walk(
            session, streams, numbers, set(), low, low, high, test, 100_000, math.inf
        )
        walk.forward()
        assert len(walk.lines()) == 8 * 650
        assert sum(high.values()) > 1 << 20
        assert walk.held_bytes <= 1 << 20
