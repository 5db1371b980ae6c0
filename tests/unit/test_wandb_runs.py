"""Runs that the real client of wandb 0.31 has recorded offline."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from muster.importing.wandb import UnreadableRun, WandbRun, read_run

FILE = Path(__file__).parent / "wandb_runs/run-ab12cd34.wandb"


def test_a_run_is_read_as_it_was_logged() -> None:
    run = WandbRun()
    with FILE.open("rb") as file:
        rows = list(read_run(file, run))
    assert [row.step for row in rows] == [*range(50), 60]
    assert [row.values["train/loss"] for row in rows[:50]] == [1 / (s + 1) for s in range(50)]
    assert [row.values["nested.a"] for row in rows[:50]] == [s * 2.0 for s in range(50)]
    assert math.isnan(rows[-1].values["val/loss"])
    assert (rows[-1].values["worst"], rows[-1].values["least"]) == (math.inf, -math.inf)
    assert (run.project, run.name, run.run_id, run.group) == (
        "digits", "base line", "ab12cd34", "folds",
    )  # fmt: skip
    assert (run.notes, run.tags, run.exit_code) == ("a first try", ["vision", "first"], 0)
    assert run.config["opt"] == {"name": "adam"}
    assert run.config["late"] is True
    assert rows[0].time_s == pytest.approx(run.started_s, abs=60)


def test_a_file_that_breaks_off_ends_with_its_last_whole_record() -> None:
    run = WandbRun()
    rows = list(read_run(io.BytesIO(FILE.read_bytes()[:9_000]), run))
    assert 10 < len(rows) < 51
    assert run.exit_code is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"hello, this is text", "does not begin as a run file"),
        (b":W&B\xe1\xbe\x01" + bytes(100), "0xbee1 version 1"),
        (b"", "does not begin as a run file"),
    ],
)
def test_other_files_are_refused_with_what_was_found(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableRun, match=message):
        list(read_run(io.BytesIO(data), WandbRun()))


def test_what_precedes_a_flipped_bit_is_read() -> None:
    data = bytearray(FILE.read_bytes())
    data[9_000] ^= 1
    run = WandbRun()
    rows = list(read_run(io.BytesIO(bytes(data)), run))
    assert 10 < len(rows) < 51
    assert run.run_id == "ab12cd34"
    assert "damaged at byte" in run.damage
    assert run.exit_code is None
