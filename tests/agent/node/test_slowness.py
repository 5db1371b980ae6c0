"""A node that is slow is not a sick one: it gets no strike for what took too long."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from muster_agent.outputs.work import TrialWork
from muster_agent.shim.failures import goes_by_itself


def test_files_that_are_read_for_long_are_no_fault_of_the_node(tmp_path: Path) -> None:
    work = TrialWork(tmp_path, 7)
    work.path.mkdir(parents=True)
    reads = work.lock_files()
    assert reads is not None
    with (
        pytest.raises(OSError, match="is being read for longer than") as caught,
        work.files_alone(timeout_s=0.05),
    ):
        pytest.fail("somebody reads them")
    os.close(reads)
    assert goes_by_itself(caught.value)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, True),
        (errno.EDQUOT, True),
        (errno.EIO, False),
        (errno.EROFS, False),
        (errno.ETIMEDOUT, False),  # What the kernel says of a storage that is away.
    ],
)
def test_a_full_disk_goes_by_itself_and_a_broken_one_does_not(number: int, expected: bool) -> None:
    assert goes_by_itself(OSError(number, "x")) == expected
