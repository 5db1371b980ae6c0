"""The process that calls the model: what it returns, and what becomes of rows that kill it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.inference.batch.computing import Computing, ComputingFailed, ShardJob
from muster.inference.batch.inputs import make_plan
from muster.inference.batch.parts import OpenPart, find_parts, remove_part, write_manifest
from muster.inference.batch.predictor_settings import PredictorSettings
from muster.inference.batch.rows import ShardRows
from muster.wire import CommittedPart

from .test_inference import saved

pytestmark = pytest.mark.torch

CODE = """
import os, signal, time
import torch

def double(rows):
    return [2 * row["x"] for row in rows]

def moody(rows):
    found = []
    for row in rows:
        if row["x"] == 5:
            raise ValueError("five\\nis bad")
        if row["x"] == 7:
            found.append(float("nan"))
        elif row["x"] == 8:
            found.append({"vector": torch.tensor([1.0, 0.5])})
        else:
            found.append(row["x"])
    return found

def deadly(rows):
    if any(row["x"] == 6 for row in rows):
        os.kill(os.getpid(), signal.SIGSEGV)
    return [row["x"] for row in rows]

def short(rows):
    return [1] * (len(rows) - 1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(folder: Path, num: int) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f'{{"id": "r{x}", "x": {x}}}\n' for x in range(num)))
    return path


def predicted(
    path: Path, *, batch_size: int = 4, key: str | None = "id", kill: bool = False, **settings: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], OpenPart]:
    """Predict all rows of a file as one shard."""
    plan = make_plan([str(path)], batch_size=batch_size, shard_rows=10**6, num_workers=1)
    chosen = {"folder": str(path.parent), "function": None, "column": None, **settings}
    computing = Computing(PredictorSettings(key=key, **chosen))
    part = OpenPart(no=0, token=1)
    computing.start()
    try:
        shard = ShardRows(
            file=plan.inputs[0],
            first_row=0,
            num_rows=plan.nums_rows[0],
            start=plan.starts[0],
            end=plan.ends[0],
        )
        computing.add(ShardJob(no=0, token=1, shard=shard, batch_size=batch_size, key=key))
        killed = 0
        while True:
            if (found := computing.poll(60)) is None:
                continue
            part.add(found.lines, found.num_rows, found.errors, found.num_errors)
            if found.is_last:
                break
            if kill and killed < 2 and computing.pid is not None:
                killed += 1
                os.kill(computing.pid, signal.SIGKILL)
    finally:
        computing.close()
    lines = [json.loads(line) for line in b"".join(part.lines).splitlines()]
    errors = [json.loads(line) for line in b"".join(part.errors).splitlines()]
    return lines, errors, part


def test_a_function_of_the_project_predicts_rows(folder: Path) -> None:
    path = rows_of(folder, 10)
    lines, errors, _ = predicted(path, function="mine:double")
    assert lines == [{"id": f"r{x}", "prediction": 2 * x} for x in range(10)]
    assert errors == []
    lines, _, _ = predicted(path, function="mine:double", key=None)
    assert lines[3] == {"file": str(path), "row": 3, "prediction": 6}


def test_rows_that_fail_are_errors_and_no_others(folder: Path) -> None:
    path = rows_of(folder, 10)
    path.write_text(path.read_text() + "{broken\n" + '{"x": 11}\n')
    lines, errors, part = predicted(path, function="mine:moody")
    assert [line["id"] for line in lines] == [f"r{x}" for x in (0, 1, 2, 3, 4, 6, 8, 9)]
    assert lines[6]["prediction"] == {"vector": [1.0, 0.5]}
    assert [(e["row"], e["file"]) for e in errors] == [(n, str(path)) for n in (5, 7, 10, 11)]
    assert errors[0]["error"] == "ValueError: five is bad"
    assert "cannot be written as JSON" in errors[1]["error"]
    assert "not JSON" in errors[2]["error"]
    assert errors[3]["error"] == "it has no column 'id', which predict.key names"
    assert (part.num_rows, part.num_errors) == (8, 4)


def test_a_row_that_kills_the_process_is_found(folder: Path) -> None:
    lines, errors, _ = predicted(rows_of(folder, 10), function="mine:deadly")
    assert [line["prediction"] for line in lines] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert [e["row"] for e in errors] == [6]
    assert errors[0]["error"] == "the process was ended by SIGSEGV when it predicted this row"


def test_a_process_that_is_killed_changes_nothing(folder: Path) -> None:
    path = rows_of(folder, 100)
    _, _, undisturbed = predicted(path, function="mine:double")
    _, errors, disturbed = predicted(path, function="mine:double", kill=True)
    assert errors == []
    assert b"".join(disturbed.lines) == b"".join(undisturbed.lines)


def test_a_function_that_returns_too_little_is_named(folder: Path) -> None:
    lines, errors, _ = predicted(rows_of(folder, 2), function="mine:short")
    assert lines == []
    assert errors[0]["error"] == "ValueError: 0 predictions were returned for 1 rows"


def test_what_cannot_be_loaded_ends_the_job(folder: Path) -> None:
    path = rows_of(folder, 2)
    with pytest.raises(ComputingFailed, match="there is no module 'nothing'"):
        predicted(path, function="nothing:predict")
    with pytest.raises(ComputingFailed, match=r"has no model\.safetensors"):
        predicted(path)
    (folder / "dies.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(ComputingFailed, match="could not be loaded: its process exited with 3"):
        predicted(path, function="dies:predict")


def test_the_model_of_a_version_predicts_classes(tmp_path: Path) -> None:
    import torch

    module = saved(tmp_path / "model", model="mlp", data="digits")
    torch.manual_seed(0)
    x = torch.rand(6, 64)
    path = tmp_path / "rows.jsonl"
    rows = [{"id": n, "pixels": row} for n, row in enumerate(x.tolist())]
    rows[4]["pixels"] = rows[4]["pixels"][:-1]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines, errors, _ = predicted(path, folder=str(tmp_path / "model"))
    with torch.inference_mode():
        wanted = module(x.reshape(6, 1, 8, 8)).argmax(-1).tolist()
    assert [line["prediction"]["label"] for line in lines] == wanted[:4] + wanted[5:]
    assert errors[0]["error"] == "ValueError: it has 63 values, and the model takes 1 × 8 × 8"


def test_parts_are_whole_and_listed(tmp_path: Path) -> None:
    part = OpenPart(no=3, token=2)
    part.add(b'{"a": 1}\n', 1, b'{"row": 1}\n', 1)
    done = part.write(tmp_path)
    (tmp_path / ".part-00001-1.jsonl.tmp").write_text("cut off")
    (tmp_path / "other.txt").touch()
    assert find_parts(tmp_path) == [[3, 2]]
    assert not list(tmp_path.glob(".*"))
    committed = CommittedPart(
        token=2, num_rows=1, num_errors=1, size_bytes=done.size_bytes, sha256=done.sha256
    )
    manifest = write_manifest(tmp_path, [committed], {"shards": 1})
    assert json.loads((tmp_path / "_manifest.json").read_text()) == manifest
    assert manifest["parts"][0]["part"] == "part-00000-2.jsonl"
    remove_part(tmp_path, 3, 2)
    assert find_parts(tmp_path) == []


def test_the_worker_itself_does_without_torch() -> None:
    import subprocess

    code = "import sys, muster.inference.batch.worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
