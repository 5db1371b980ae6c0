"""The hint at a file that a job misses because an ignore file left it out."""

from __future__ import annotations

import pytest

from muster.wire import ExitInfo, WorkerExit
from muster_server.domain.nodes.left_out import with_hint

LEFT_OUT = ["out/", "data/shakespeare/train.bin", "datasets/large/"]


def failed(message: str) -> ExitInfo:
    worker = WorkerExit(local_rank=0, rank=0, exit_code=1, message=message)
    return ExitInfo(cause="user_error", message="", first_failure=worker, workers=[worker])


@pytest.mark.parametrize(
    ("path", "sent_as"),
    [
        ("data/shakespeare/train.bin", "data/shakespeare/train.bin"),
        ("./data/shakespeare/train.bin", "data/shakespeare/train.bin"),
        ("/agents/1/allocations/a6/code/data/shakespeare/train.bin", "data/shakespeare/train.bin"),
        ("train.bin", "data/shakespeare/train.bin"),
        ("out/run-1/ckpt.pt", "out/run-1/ckpt.pt"),
        ("/code/datasets/large/1.png", "datasets/large/1.png"),
        ("data/other/train.bin", None),
        ("out", None),
        ("large/1.png", None),
    ],
)
def test_a_missing_file_that_was_left_out_is_explained(path: str, sent_as: str | None) -> None:
    info = failed(f"FileNotFoundError: [Errno 2] No such file or directory: {path!r}")
    told = with_hint(info, LEFT_OUT)
    if sent_as is None:
        assert told == info
        return
    assert told.first_failure is not None
    assert told.first_failure.message.startswith(f"{info.workers[0].message} (not uploaded, ")
    assert f"`code: {{include: [{sent_as}]}}`" in told.first_failure.message
    assert told.workers == [told.first_failure]


@pytest.mark.parametrize(
    "message", ["ValueError: bad batch", "FileNotFoundError: train.bin", "", "exit code 1"]
)
def test_other_failures_stay_as_they_are(message: str) -> None:
    assert with_hint(failed(message), LEFT_OUT) == failed(message)
