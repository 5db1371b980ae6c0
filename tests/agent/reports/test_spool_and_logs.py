"""Records and logs on disk."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import wire
from muster_agent.records import spool
from muster_agent.records.logs import (
    cut_marker,
    cut_size,
    find_logs,
    free_past_limit,
    read_cut,
    tail,
)
from muster_agent.records.spool import (
    RecordReader,
    RecordWriter,
    count_records,
    last_state,
    read_records,
)


def message(text: str) -> wire.MessageRecord:
    return wire.MessageRecord(level="info", text=text)


def metrics(step: int) -> wire.MetricsRecord:
    point = wire.SeriesPoints(name="train/loss", steps=[step], times_ms=[1], values=[0.5])
    return wire.MetricsRecord(local_rank=0, rank=0, series=[point], step=step)


def seqs(lines: list[spool.SpoolLine]) -> list[int]:
    return [line.seq for line in lines]


def test_numbers_go_on_after_a_restart_and_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.append(message("a"))
    writer.append(message("b"))
    writer.close()
    (segment,) = tmp_path.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"seq":3,"at_ms":1,"rec')
    assert count_records(tmp_path) == 2
    writer = RecordWriter(tmp_path)
    assert writer.append(message("c")) == 3
    writer.close()
    assert [(r.seq, r.record.text) for r in read_records(tmp_path)] == [  # type: ignore[union-attr]
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]


def test_reader_follows_over_segments_and_acked_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 300)
    writer, reader = RecordWriter(tmp_path), RecordReader(tmp_path)
    got: list[int] = []
    for number in range(50):
        writer.append(message(f"text {number}"))
        if number % 7 == 0:
            lines = reader.read(len(got), max_records=1000, max_bytes=1 << 20)
            got += seqs(lines)
            reader.drop_until(len(got))
    got += seqs(reader.read(len(got), max_records=1000, max_bytes=1 << 20))
    assert got == list(range(1, 51))
    reader.drop_until(50)
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert writer.append(message("last")) == 51
    assert seqs(RecordReader(tmp_path).read(50, max_records=9, max_bytes=1 << 20)) == [51]
    writer.close()
    assert RecordWriter(tmp_path).num_records == 51


def test_batches_respect_both_bounds_but_never_stall(tmp_path: Path) -> None:
    writer, reader = RecordWriter(tmp_path), RecordReader(tmp_path)
    for text in ("a", "x" * 5_000, "b", "c"):
        writer.append(message(text))
    assert seqs(reader.read(0, max_records=2, max_bytes=1 << 20)) == [1, 2]
    assert seqs(reader.read(1, max_records=9, max_bytes=100)) == [2]
    assert seqs(reader.read(2, max_records=9, max_bytes=1 << 20)) == [3, 4]
    assert reader.read(4, max_records=9, max_bytes=1 << 20) == []


def test_full_spool_drops_metrics_only_and_says_how_many(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, limit_bytes=1)
    writer.append(message("before"))
    assert writer.append(metrics(1)) == 0
    assert writer.append(metrics(2)) == 0
    writer.append(wire.StateRecord(observed="RUNNING"))
    writer.close()
    records = [r.record for r in read_records(tmp_path)]
    assert [r.type for r in records] == ["message", "message", "state"]
    assert isinstance(records[1], wire.MessageRecord)
    assert records[1].text.startswith("2 metric and media records were lost")


def test_a_spool_that_was_full_has_room_again_for_what_the_server_took(tmp_path: Path) -> None:
    limit = 50_000  # far less than a segment of a large spool
    writer, reader = RecordWriter(tmp_path, limit_bytes=limit), RecordReader(tmp_path)
    step = 0
    while step < 2_000 and (step == 0 or writer.append(metrics(step))):
        step += 1
    assert step < 2_000
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) < 3 * limit
    acked = writer.num_records
    while lines := reader.read(acked, max_records=1000, max_bytes=1 << 20):
        acked = lines[-1].seq
    reader.drop_until(acked)
    taken = [writer.append(metrics(step)) for step in range(3_000, 3_020)]
    assert all(taken[-10:])
    writer.close()
    texts = [r.record.text for r in read_records(tmp_path) if r.record.type == "message"]  # type: ignore[union-attr]
    assert len(texts) == 1
    assert "metric and media records were lost" in texts[0]


def told(folder: Path) -> list[tuple[int, int]]:
    """(lost since the last time, lost together) of each message about losses."""
    out = []
    for record in (numbered.record for numbered in read_records(folder)):
        if isinstance(record, wire.MessageRecord) and "were lost" in record.text:
            numbers = [
                int(n) for n in re.findall(r"(\d+)(?= metric and media records|\))", record.text)
            ]
            out.append((numbers[0], numbers[-1]))
    return out


def test_losses_that_go_on_are_told_ever_more_rarely_and_all_of_them(tmp_path: Path) -> None:
    seconds = 0.0
    writer = RecordWriter(tmp_path, limit_bytes=1, clock=lambda: seconds)
    writer.append(message("fills it"))
    for second in range(3600):
        seconds = float(second)
        writer.append(metrics(1))
        if second % 5 == 0:  # each is a file here, which are looked through again and again
            writer.append(message("goes on"))
    seconds += 1
    assert len(told(tmp_path)) == 11, "after 0, 10, 30, 70, … s, then every ten minutes"
    seconds += 3600
    writer.append(metrics(1))
    writer.append(message("long after"))
    assert told(tmp_path)[-1][1] == 3601, "told at once again"
    writer.append(metrics(1))
    writer.append(wire.StateRecord(observed="EXITED"))
    assert read_records(tmp_path)[-1].record.type == "state", "nothing follows the last state"
    assert sum(num for num, _ in told(tmp_path)) == 3602
    assert told(tmp_path)[-1] == (1, 3602)


def test_losses_of_a_writer_that_was_killed_are_told_by_the_next(tmp_path: Path) -> None:
    killed = RecordWriter(tmp_path, limit_bytes=1)
    killed.append(message("before"))
    for no in range(5):
        killed.append(metrics(no))
        killed.append(message("between"))
    before = sum(num for num, _ in told(tmp_path))
    assert before == 1
    RecordWriter(tmp_path).append(wire.StateRecord(observed="EXITED"))
    assert told(tmp_path) == [(1, 1), (4, 5)]


@contextlib.contextmanager
def full_disk(writer: RecordWriter) -> Iterator[None]:
    """No file of this process may grow past what the spool has now."""
    (segment,) = writer._folder.glob("*.jsonl")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A few bytes of room: the line that meets the end of it is torn, and mended.
    resource.setrlimit(resource.RLIMIT_FSIZE, (segment.stat().st_size + 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_a_full_disk_does_not_take_is_held_and_written_in_order(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, hold_bytes=1 << 20)
    writer.append(message("before"))
    with full_disk(writer):
        assert writer.append(metrics(1)) == 0
        assert writer.append(wire.StateRecord(observed="RUNNING")) == 0
        assert writer.append(metrics(2)) == 0
        assert writer.is_holding
        with pytest.raises(OSError, match="too large"):
            writer.flush()
        assert [r.record.type for r in read_records(tmp_path)] == ["message"]
    assert writer.append(message("after")) == 5
    assert not writer.is_holding
    records = read_records(tmp_path)
    assert [r.record.type for r in records] == ["message", "metrics", "state", "metrics", "message"]
    assert [r.at_ms for r in records] == sorted(r.at_ms for r in records)


def test_what_is_held_is_bounded_and_then_metrics_are_dropped_and_told(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, hold_bytes=1)
    writer.append(message("before"))
    with full_disk(writer):
        for step in range(1, 4):
            writer.append(metrics(step))
        writer.append(wire.StateRecord(observed="RUNNING"))
    writer.flush()
    writer.close()
    records = [r.record for r in read_records(tmp_path)]
    assert [r.type for r in records] == ["message", "metrics", "state", "message"]
    assert records[3].text.startswith("2 metric and media records were lost")  # type: ignore[union-attr]


def test_a_writer_that_may_not_hold_says_that_the_disk_is_full(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.append(message("before"))
    with full_disk(writer), pytest.raises(OSError, match="too large"):
        writer.append(wire.StateRecord(observed="EXITED"))
    assert writer.append(wire.StateRecord(observed="EXITED")) == 2


def test_last_state_and_exit_line(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.append(wire.StateRecord(observed="READY"))
    writer.append(wire.StateRecord(observed="EXITED"))
    state = last_state(tmp_path)
    assert state is not None
    assert state.observed == "EXITED"
    lines = RecordReader(tmp_path).read(0, max_records=9, max_bytes=1 << 20)
    assert [line.is_exit() for line in lines] == [False, True]


@given(
    size=st.integers(0, 400), limit=st.integers(1, 300), chunk=st.integers(1, 500), start=st.integers(0, 50)
)  # fmt: skip
def test_cut_view_is_the_same_however_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, size: int, limit: int, chunk: int, start: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "view.log"
    content = bytes(65 + i % 26 for i in range(size))
    path.write_bytes(content)
    whole = content if size <= limit else content[:limit] + cut_marker(limit)
    assert cut_size(path, limit_bytes=limit) == len(whole)
    offset, read = min(start, len(whole)), b""
    first = offset
    while data := read_cut(path, offset, limit_bytes=limit, max_bytes=chunk):
        assert len(data) <= chunk
        read += data
        offset += len(data)
    assert read == whole[first:]


def test_logs_of_both_launchers_are_found(tmp_path: Path) -> None:
    for name in ("launcher", "direct/0", "torchrun/run_x/attempt_0/1", "direct/notes"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text("x")
    assert [(f.local_rank, f.stream) for f in find_logs(tmp_path)] == [
        (-1, "stderr"),
        (0, "stderr"),
        (1, "stderr"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="frees blocks of open files on Linux only")
def test_disk_past_the_limit_is_given_back_and_the_tail_kept(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"x" * 8_000_000 + b"the end")
    if not free_past_limit(path, limit_bytes=100_000):
        pytest.skip("this file system cannot free part of a file")
    assert path.stat().st_size == 8_000_007
    assert path.stat().st_blocks * 512 < 2_000_000
    assert tail(path).endswith("xthe end")
    assert read_cut(path, 0, limit_bytes=100_000, max_bytes=100_000) == b"x" * 100_000
