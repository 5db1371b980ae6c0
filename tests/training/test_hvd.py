"""Horovod's names over torch.distributed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
WORKER = Path(__file__).with_name("workers") / "hvd_names.py"


def test_collectives_and_an_optimizer_that_equals_one_process() -> None:
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(WORKER)]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine") == 2


def test_a_script_that_torchrun_has_not_started() -> None:
    code = (
        "import torch, muster.hvd as hvd; hvd.init()\n"
        "print(hvd.size(), hvd.rank(), hvd.allreduce(torch.tensor([2.0])).item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout == "1 0 2.0\n", done.stderr
