"""What `muster up` says where PyTorch is not installed."""

from __future__ import annotations

import subprocess
import sys


def said(before: str) -> str:
    code = f"import sys; {before}; from muster.cli.commands.local import torch_notice"
    return subprocess.run(
        [sys.executable, "-c", f"{code}; print(torch_notice())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_a_missing_torch_is_said_in_one_line() -> None:
    assert said("pass") == "\n"
    line = said("sys.modules['torch'] = None")
    assert "pip install torch" in line
    assert line.count("\n") == 1
