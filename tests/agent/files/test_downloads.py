"""Data sets that a job downloads: a trial starts only where there is room for them."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.inputs import data_of
from muster_agent.outputs.work import TrialWork
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation.checks import check_downloads

DATA = {
    "train": {"url": "https://example.org/train.tar", "size": "10GB"},
    "val": {"url": "s3://bucket/val", "size": "5GB"},
    "test": "s3://bucket/streamed",
}
LEFT = 64 * 2**20
OPTIONS = ShimOptions(
    default_python="",
    node_address="",
    network_interface="",
    storage_dir="",
    interpreter_cache="",
    sdk_path="",
    min_disk_free_bytes=LEFT,
)


@pytest.mark.parametrize(
    ("free_bytes", "already_bytes", "reason"),
    [
        (15 * 10**9 + LEFT, 0, ""),
        (15 * 10**9 + LEFT - 1, 0, "the job downloads 15.0 GB (train, val in data), and only 15.0 GB"),
        (4 * 10**9 + LEFT, 11 * 10**9, ""),  # An earlier attempt has most of it.
        (4 * 10**9 + LEFT, 10 * 10**9, "and only 14.0 GB are free for it at "),
        (0, 0, "and only 0.0 GB are free for it at "),
    ],
)  # fmt: skip
def test_a_job_that_downloads_needs_room(
    make_spec: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_bytes: int,
    already_bytes: int,
    reason: str,
) -> None:
    spec = make_spec(config={"data": DATA})
    work = TrialWork(tmp_path, spec.trial_id)
    (work.files / "cache").mkdir(parents=True)
    with (work.files / "cache" / "train.tar").open("wb") as file:
        file.truncate(already_bytes)
    folder = AllocationFolder(tmp_path, "a1")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free_bytes))
    if not reason:
        check_downloads(spec, OPTIONS, folder)
        return
    with pytest.raises(PrepareFailed) as refused:
        check_downloads(spec, OPTIONS, folder)
    assert reason in str(refused.value)
    assert refused.value.blames == "placement", "another node may have it"


def test_what_is_not_downloaded_needs_none_and_all_are_named(
    make_spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(config={"data": DATA})
    assert data_of(spec) == {
        "train": "https://example.org/train.tar",
        "val": "s3://bucket/val",
        "test": "s3://bucket/streamed",
    }
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    spec = dataclasses.replace(spec, config={"data": {"test": DATA["test"]}})
    check_downloads(spec, OPTIONS, AllocationFolder(tmp_path, "a1"))
