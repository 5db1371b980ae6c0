"""Which version of its data a job has read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.document.running import DataSection
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation import data_sets
from muster_agent.shim.preparation.data_sets import read_data

READS = """
import json, os
import muster
run = muster.init()
print(json.dumps([os.environ["MUSTER_DATA_TRAIN"], str(run.data["train"]), run.data["train"].is_dir()]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set whose files have not changed for a while."""
    top = tmp_path / "digits"
    (top / "more").mkdir(parents=True)
    (top / "a.bin").write_bytes(b"1" * 100)
    (top / "more" / "b.bin").write_bytes(b"2" * 10)
    return top


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "SETTLED_S", -1.0)


def read(folder: Path, cache: Path, **more: Any) -> wire.DataRead:
    told: list[str] = more.pop("told", [])
    section = DataSection(folder=str(folder), **more.pop("section", {}))
    found = read_data(
        {"train": section}, cache=cache, tell=lambda _, text: told.append(text), **more
    )
    return found["train"]


def test_the_digest_is_that_of_names_and_contents(tmp_path: Path, folder: Path) -> None:
    known = read(folder, tmp_path / "cache", section={"version": "3"})
    assert (known.num_files, known.size_bytes, known.version) == (2, 110, "3")
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("more/b.bin", "a.bin"):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_bytes((folder / name).read_bytes())
    assert read(other, tmp_path / "cache").digest == known.digest
    (other / "a.bin").write_bytes(b"3" * 100)
    assert read(other, tmp_path / "cache").digest != known.digest
    # A single file is a data set, too.
    assert read(folder / "a.bin", tmp_path / "cache").num_files == 1


def test_unchanged_files_are_not_read_again(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    cache = tmp_path / "cache"
    first = read(folder, cache)
    (store,) = cache.iterdir()
    known = json.loads(store.read_text())
    # What is kept is believed: a wrong entry shows that the file was not read.
    known["a.bin"][3] = "0" * 64
    store.write_text(json.dumps(known))
    assert read(folder, cache).digest != first.digest
    # A file that has the size and the time of before, and other contents, is read.
    before = (folder / "a.bin").stat()
    (folder / "a.bin").write_bytes(b"1" * 100)
    os.utime(folder / "a.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(folder, cache).digest == first.digest
    store.write_text("[")
    assert read(folder, cache).digest == first.digest


def test_a_file_that_has_just_changed_is_not_believed_next_time(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_sets, "SETTLED_S", 3600.0)
    read(folder, tmp_path / "cache")
    stores = list((tmp_path / "cache").iterdir()) if (tmp_path / "cache").exists() else []
    assert all(json.loads(store.read_text()) == {} for store in stores)


def test_what_is_too_much_is_said_and_refused_where_a_digest_is_asked_for(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    cache, told = tmp_path / "cache", []
    found = read(folder, cache, max_files=1, told=told)
    assert (found.digest, found.problem) == ("", "it has more than 1 files")
    assert told == ["The digest of the data set train is not known: it has more than 1 files."]
    wanted = {"digest": "sha256:" + "0" * 64}
    with pytest.raises(PrepareFailed, match="its own is not known: it has more than 1 files"):
        read(folder, cache, max_files=1, section=wanted)
    assert "takes longer than" in read(folder, tmp_path / "slow", max_s=-1.0).problem
    (folder / "loop").symlink_to(folder)
    assert read(folder, cache, max_files=50).digest == ""


def test_a_job_reads_what_its_document_asks_for_and_nothing_else(
    shims: Any, folder: Path, tmp_path: Path
) -> None:
    digest = read(folder, tmp_path / "cache").digest
    data = {"train": {"folder": str(folder), "version": "2", "digest": digest}}
    shim = shims(READS, slots=[0], world_size=1, config={"name": "d", "data": data})
    ready = shim.wait_state("READY")
    assert ready.environment.data["train"] == wire.DataRead(
        path=str(folder), version="2", digest=digest, num_files=2, size_bytes=110
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert json.loads(shim.printed(0)) == [str(folder), str(folder), True]
    (folder / "a.bin").write_bytes(b"other")
    refused = shims(READS, allocation_id="a2", config={"name": "d", "data": data})
    failed = refused.wait_state("PREPARE_FAILED")
    changed = read(folder, tmp_path / "cache").digest
    assert failed.message == (
        f"the data set train ({folder}) has the digest {changed} on this node, and the document asks "
        f"for {digest}"
    )
