"""Event files as they grow, break and turn up again."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from muster.tag_names import TagNames
from muster_agent.event_files import follow
from muster_agent.event_files.events import BadEvent, read_event, scalar_of
from muster_agent.event_files.follow import EventFiles
from muster_agent.event_files.records import DamagedRecord, records
from support.nodes import event_files as made

Points = dict[tuple[str, str], dict[int, float]]


def points(files: EventFiles, *, is_last: bool = False) -> Points:
    """(folder, tag) → step → value, of what is new."""
    found: Points = {}
    for each in files.read(is_last=is_last)[0]:
        for event in each.events:
            for value in event.values:
                if (number := scalar_of(value, value.plugin)) is not None:
                    found.setdefault((each.folder, value.tag), {})[event.step] = number
    return found


def new_files(root: Path) -> EventFiles:
    files = EventFiles(str(root))
    files.start()
    return files


def test_what_a_real_writer_has_written_is_read_value_by_value(tmp_path: Path) -> None:
    from tensorboardX import SummaryWriter  # It imports torch, boto3 and grpc.
    from tensorboardX.proto import event_pb2

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(20):
            writer.add_scalar("loss", 1 / (step + 3), step, walltime=1_732_000_000 + step)
        writer.add_scalar("nan", float("nan"), 1)
        writer.add_histogram("weights", [1.0, 2.0], 3)
        writer.add_text("notes", "hello", 4)
    (path,) = tmp_path.glob("*tfevents*")
    read = [read_event(data) for _, data in records(path.read_bytes()) if data is not None]
    expected = []
    for _, data in records(path.read_bytes()):
        event = event_pb2.Event()
        event.ParseFromString(data)
        expected.append(event)
    assert len(read) == len(expected) == 24
    for ours, theirs in zip(read, expected, strict=True):
        assert (ours.wall_time, ours.step) == (theirs.wall_time, theirs.step)
        assert [v.tag for v in ours.values] == [v.tag for v in theirs.summary.value]
        for value, other in zip(ours.values, theirs.summary.value, strict=True):
            number = scalar_of(value, value.plugin)
            if other.HasField("simple_value"):
                assert struct.pack("<f", number) == struct.pack("<f", other.simple_value)
            else:
                assert number is None
            assert value.plugin == other.metadata.plugin_data.plugin_name


FLOAT = made.number(1, 1)
DOUBLE = made.number(1, 2)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (FLOAT + made.block(4, struct.pack("<f", 0.5)), 0.5),
        (DOUBLE + made.block(4, struct.pack("<d", 0.1)), 0.1),
        (FLOAT + made.block(5, struct.pack("<f", 0.25)), 0.25),
        (FLOAT + made.varint(5 << 3 | 5) + struct.pack("<f", 0.75), 0.75),
        (made.number(1, 9) + made.number(10, -3), -3.0),
        (made.number(1, 3) + made.block(7, made.varint(5)), 5.0),
        (FLOAT + made.block(5, struct.pack("<2f", 1, 2)), None),
    ],
)
def test_scalars_may_be_tensors(data: bytes, value: float | None) -> None:
    encoded = made.event(7, made.tensor("acc", data, made.plugin("scalars")))
    (_, record), *rest = records(encoded)
    assert record is not None
    assert rest == []
    event = read_event(record)
    assert event.step == 7
    (found,) = event.values
    assert scalar_of(found, found.plugin) == value
    assert scalar_of(found, "images") is None


def test_a_file_that_grows_in_pieces_gives_each_value_once_and_none_early(tmp_path: Path) -> None:
    files = new_files(tmp_path)
    data = b"".join(made.event(step, made.scalar("loss", step / 2)) for step in range(50))
    path = tmp_path / "runs" / made.NAME
    got: dict[int, float] = {}
    made.write(path)
    assert points(files) == {}
    for at in range(0, len(data), 37):
        made.write(path, data[at : at + 37])
        for step, value in points(files).get(("runs", "loss"), {}).items():
            assert step not in got
            got[step] = value
    assert got == {step: step / 2 for step in range(50)}
    assert points(files, is_last=True) == {}
    assert files.problems() == []


def test_what_was_there_before_is_passed_over_and_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / made.NAME
    made.write(path, made.event(1, made.scalar("loss", 1.0)))
    files = new_files(tmp_path)
    assert points(files, is_last=True) == {}
    made.write(path, made.event(2, made.scalar("loss", 2.0)))
    assert points(files) == {("", "loss"): {2: 2.0}}


def test_a_file_is_known_by_its_inode(tmp_path: Path) -> None:
    files = new_files(tmp_path)
    path = tmp_path / made.NAME
    made.write(path, made.event(1, made.scalar("loss", 1.0)))
    assert points(files) == {}
    assert points(files) == {("", "loss"): {1: 1.0}}
    # Rotated: what is behind the new name is known, what took the old one is not.
    path.rename(tmp_path / (made.NAME + ".1"))
    os.link(tmp_path / (made.NAME + ".1"), tmp_path / (made.NAME + ".2"))
    made.write(path, made.event(2, made.scalar("loss", 2.0)))
    assert points(files) | points(files) == {("", "loss"): {2: 2.0}}
    # Cut in place: it is read anew, which is said.
    os.truncate(path, 0)
    made.write(path, made.event(3))
    assert points(files) == {}
    (problem,) = files.problems()
    assert "was written anew" in problem


def test_a_damaged_file_is_read_up_to_the_damage_and_that_is_said_once(tmp_path: Path) -> None:
    files = new_files(tmp_path)
    good = [made.event(step, made.scalar("loss", 1.0)) for step in range(4)]
    broken = bytearray(good[2])
    broken[20] ^= 1
    made.write(tmp_path / "a" / made.NAME, good[0], good[1], bytes(broken), good[3])
    made.write(tmp_path / "b" / made.NAME, b"no event file at all")
    made.write(tmp_path / "c" / made.NAME, made.record(b"\xff\xff\xff"), good[1])
    points(files)
    assert points(files) == {("a", "loss"): {0: 1.0, 1: 1.0}, ("c", "loss"): {1: 1.0}}
    assert points(files, is_last=True) == {}
    in_a, in_b, in_c = sorted(files.problems())
    assert in_a.startswith("a/")
    assert "does not match the record at byte" in in_a
    assert "The 2 events before it were read" in in_a
    assert "no record begins at byte 0" in in_b
    assert "is not an event" in in_c


def test_a_half_written_record_and_preallocated_room_are_no_damage(tmp_path: Path) -> None:
    files = new_files(tmp_path)
    record = made.event(1, made.scalar("loss", 1.0))
    made.write(tmp_path / "a" / made.NAME, record, record[:-5])
    made.write(tmp_path / "b" / made.NAME, record, bytes(64))
    points(files)
    assert points(files) == {("a", "loss"): {1: 1.0}, ("b", "loss"): {1: 1.0}}
    assert files.problems() == []
    assert points(files, is_last=True) == {}
    assert all("ends within a record, at byte" in problem for problem in files.problems())
    # More behind the zeros: they were no room.
    with pytest.raises(DamagedRecord):
        list(records(bytes(64) + record))


def test_records_beyond_the_bound_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_agent.event_files.records.RECORD_MAX_BYTES", 1_000)
    monkeypatch.setattr(follow, "RECORD_MAX_BYTES", 1_000)
    monkeypatch.setattr(follow, "BYTES_PER_POLL", 100)
    files = new_files(tmp_path)
    small = [made.event(step, made.scalar("loss", 1.0)) for step in range(2)]
    made.write(tmp_path / made.NAME, small[0], made.record(bytes(5_000)), small[1])
    got: dict[int, float] = {}
    for _ in range(10):
        got |= points(files).get(("", "loss"), {})
    assert got == {0: 1.0, 1: 1.0}
    assert any("more than 1000 bytes is left out" in text for text in files.problems())


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    made.write(outside / made.NAME, made.event(1, made.scalar("secret", 1.0)))
    root = tmp_path / "root"
    root.mkdir()
    files = new_files(root)
    (root / "runs").symlink_to(outside)
    (root / made.NAME).symlink_to(outside / made.NAME)
    os.mkfifo(root / (made.NAME + ".fifo"))
    assert points(files) == points(files, is_last=True) == {}


def test_folders_that_do_not_change_are_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.write(tmp_path / "runs" / made.NAME, made.event(1))
    for folder in (tmp_path, tmp_path / "runs"):
        os.utime(folder, (1, 1))
    files = new_files(tmp_path)
    monkeypatch.setattr(os, "scandir", None)
    assert files.read()[1] == 0


def test_what_is_no_event_is_refused() -> None:
    for data in (
        b"\xff",
        b"\x0a\xff\x01",
        b"\x09\x00",
        made.number(5, 1),
        made.number(3, 1) * 3 + b"\x0b",
    ):
        with pytest.raises(BadEvent):
            read_event(data)


def test_a_file_that_another_run_has_written_in_place_in_the_same_second_is_read_anew(
    tmp_path: Path,
) -> None:
    def fold(number: int, num_steps: int) -> bytes:
        head = made.event(0, wall_time=1e9)
        steps = (
            made.event(s, made.scalar("RMSE", number + s), wall_time=1e9) for s in range(num_steps)
        )
        return head + b"".join(steps)

    files = new_files(tmp_path)
    path = tmp_path / made.NAME
    path.write_bytes(fold(1, 3))
    assert points(files) | points(files) == {("", "RMSE"): {0: 1.0, 1: 2.0, 2: 3.0}}
    path.write_bytes(fold(10, 5))
    assert points(files) == {("", "RMSE"): {s: 10.0 + s for s in range(5)}}
    path.write_bytes(fold(20, 5))
    assert points(files) == {("", "RMSE"): {s: 20.0 + s for s in range(5)}}, "of the same size"
    assert points(files) == {}


def test_folders_of_one_fit_share_its_number() -> None:
    names = TagNames()
    first, second = "/w/logs/20261129-021057", "/w/logs/20261129-021058"
    assert names.name(f"{first}/train", "loss") == "loss"
    assert names.name(f"{first}/validation", "loss") == "validation/loss"
    assert names.name(f"{second}/train", "loss") == "run-2/loss"
    assert names.name(f"{second}/validation", "loss") == "run-2/validation/loss"
    assert names.name("/w/logs/20261129-021059", "loss") == "run-3/loss"


def test_the_first_folder_keeps_the_tag_and_others_put_theirs_in_front() -> None:
    names = TagNames()
    assert names.name("/w/logs/train", "loss") == "loss"
    assert names.name("/w/logs/validation", "loss") == "validation/loss"
    assert names.name("/w/logs/a/b", "loss") == "a/b/loss"
    assert names.name("/w/logs", "loss") == "logs/loss"
    assert names.name("/w/logs/train", "loss") == "loss"
    assert names.name("/w/logs/validation", "accuracy") == "accuracy"
    # What torch makes of add_scalars("error/top", {"one": …, "five": …}).
    assert names.name("/w/logs/error_top_one", "error/top") == "error/top/one"
    assert names.name("/w/logs/error_top_five", "error/top") == "error/top/five"
