"""Rows of a batch inference: found, cut into shards, and read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from arro3.core import Array, DataType, RecordBatch
from arro3.io import write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.inference.batch.inputs import MARK_ROWS, BadInput, ShardPlan, make_plan
from muster.inference.batch.parquet import NotParquet, read_layout, read_rows
from muster.inference.batch.rows import BadRow, ShardRows, read_shard


def plan_of(*paths: Path | str, batch_size: int = 1, shard_rows: int | None = 3) -> ShardPlan:
    return make_plan(
        [str(path) for path in paths], batch_size=batch_size, shard_rows=shard_rows, num_workers=4
    )


def shards_of(plan: ShardPlan) -> list[ShardRows]:
    columns = zip(
        plan.input_nos, plan.first_rows, plan.nums_rows, plan.starts, plan.ends, strict=True
    )
    return [
        ShardRows(file=plan.inputs[no], first_row=first, num_rows=num, start=start, end=end)
        for no, first, num, start, end in columns
    ]


def read_all(plan: ShardPlan) -> list[Any]:
    return [row for shard in shards_of(plan) for row in read_shard(shard)]


def parquet(path: Path, num: int, *, per_group: int) -> Path:
    batch = RecordBatch.from_pydict(
        {
            "id": Array(list(range(num)), type=DataType.int64()),
            "text": Array([f"a\nb {i}" for i in range(num)], type=DataType.string()),
        }
    )
    write_parquet(batch, path, max_row_group_size=per_group)
    return path


# ---------------------------------------------------------------- JSON lines


def test_newlines_in_texts_and_a_last_line_without_one_change_nothing(tmp_path: Path) -> None:
    rows = [
        {"text": "one\ntwo\r\n\u2028three"},
        {"text": ""},
        [1, 2],
        "é",
        5,
        None,
        {"a": "x" * 99},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    for shard_rows in (1, 2, 3, 100):
        plan = plan_of(path, shard_rows=shard_rows)
        assert read_all(plan) == rows
        assert sum(plan.nums_rows) == plan.inputs[0].num_rows == len(rows)


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=60),
    st.integers(1, 20),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_any_lines_are_cut_between_rows(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shard_rows: int, ends: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    rows = ["y" * n for n in lengths]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n" * ends)
    assert read_all(plan_of(path, shard_rows=shard_rows)) == rows


def test_positions_between_the_remembered_ones_are_found(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    num = 2 * MARK_ROWS + 7
    path.write_text("".join(f"{i}\n" for i in range(num)))
    plan = plan_of(path, shard_rows=MARK_ROWS - 1)
    assert read_all(plan) == list(range(num))
    assert plan.first_rows == [0, MARK_ROWS - 1, 2 * MARK_ROWS - 2]


def test_a_broken_row_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n\n\xff\xfe\n{"a": 2}\n')
    found = read_all(plan_of(path))
    assert [isinstance(row, BadRow) for row in found] == [False, True, True, True, False]
    assert "not JSON" in found[1].problem
    assert found[2].problem == "the line is empty"


def test_a_compressed_file_is_one_shard(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(f"{i}\n" for i in range(50))
    plan = plan_of(path)
    assert plan.nums_rows == [50]
    assert read_all(plan) == list(range(50))
    assert "a compressed file is not divided" in plan.remarks[0]


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b"1\n" * 1000)[:-4])
    with pytest.raises(BadInput, match=r"rows\.jsonl\.gz"):
        plan_of(path)


def test_an_empty_file_has_no_rows_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "b.jsonl").write_text("1\n")
    plan = plan_of(tmp_path / "*.jsonl")
    assert [file.num_rows for file in plan.inputs] == [0, 1]
    assert plan.input_nos == [1]
    with pytest.raises(BadInput, match="there are no rows"):
        plan_of(tmp_path / "a.jsonl")


def test_shards_are_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n" * 20)
    assert plan_of(path, batch_size=4, shard_rows=5).nums_rows == [8, 8, 4]


# ---------------------------------------------------------------- Parquet


def test_row_groups_are_read_one_by_one(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", 100, per_group=7)
    plan = plan_of(path, shard_rows=20)
    assert plan.nums_rows == [14] * 6 + [16]
    rows = read_all(plan)
    assert [row["id"] for row in rows] == list(range(100))
    assert rows[41] == {"id": 41, "text": "a\nb 41"}


def test_many_row_groups_at_once(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", 60, per_group=1)
    assert [row["id"] for row in read_rows(path, 10, 40)] == list(range(10, 40))


def test_a_giant_row_group_is_one_shard_and_said_to_be(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", 100, per_group=1000)
    plan = plan_of(path)
    assert plan.nums_rows == [100]
    assert (
        "a row group is not divided, so one worker predicts 100 of the 100 rows" in plan.remarks[0]
    )


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"PAR1\xff\xff\xff\xff\xff\x7fPAR1", b"x" * 99])
def test_what_is_no_parquet_file_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(damage)
    with pytest.raises(BadInput, match=r"rows\.parquet"):
        plan_of(path)


def test_a_damaged_footer_is_an_error_and_nothing_else(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", 10, per_group=5)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for position in range(length):
        damaged = bytearray(whole)
        damaged[-8 - length + position] ^= 0x5A
        path.write_bytes(damaged)
        try:
            layout = read_layout(path)
        except NotParquet:
            continue
        assert all(num >= 0 for num in layout.nums_rows)


# ---------------------------------------------------------------- images, and what is none


def test_images_are_rows_by_name(tmp_path: Path) -> None:
    for name in ("b/2.png", "a/1.JPG", "notes.txt", "c.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    plan = plan_of(tmp_path, shard_rows=2)
    assert plan.nums_rows == [2, 1]
    names = [Path(row["path"]).relative_to(tmp_path).as_posix() for row in read_all(plan)]
    assert names == ["a/1.JPG", "b/2.png", "c.webp"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing/*.jsonl", "matches no file"), ("rows.csv", "no kind that is known"), ("empty", "folder without images")],
)  # fmt: skip
def test_inputs_that_cannot_be_used_are_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=message):
        plan_of(tmp_path / name)


# ---------------------------------------------------------------- change


def test_inputs_that_have_changed_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n2\n3\n4\n")
    shard = shards_of(plan_of(path))[0]
    os.utime(path, ns=(1, 1))
    assert list(read_shard(shard)) == [1, 2, 3], "a copy on another node has other times"
    path.write_text("1\n2\n3\n5\n")
    with pytest.raises(BadInput, match="has changed since the job began: its content is another"):
        list(read_shard(shard))
    path.write_text("1\n2\n3\n4\n5\n")
    with pytest.raises(BadInput, match="it has 10 bytes, and had 8"):
        list(read_shard(shard))
    path.unlink()
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_shard(shard))


def test_another_parquet_file_of_the_same_size_is_noticed(tmp_path: Path) -> None:
    path = parquet(tmp_path / "rows.parquet", 100, per_group=50)
    shard = shards_of(plan_of(path))[0]
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="has changed"):
        list(read_shard(shard))
