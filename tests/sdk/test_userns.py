"""The filter that refuses user namespaces, in processes of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.launch import userns

TRY = """
import ctypes, sys
from muster.launch import userns
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if sys.argv[1] == "forbid":
    userns.forbid()
for flags in (0x10000000, 0x10000000 | 0x00020000, 0):  # NEWUSER, with NEWNS, none
    print(libc.unshare(flags), ctypes.get_errno())
"""


@pytest.mark.skipif(not userns.IS_KNOWN, reason="no filter for this machine")
def test_only_calls_that_make_a_user_namespace_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRY, "forbid"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["-1 1", "-1 1", "0 1"]


def test_each_machine_s_filter_jumps_within_itself() -> None:
    for machine in ("x86_64", "aarch64"):
        program = userns.filter_for(machine)
        lines = [program[at : at + 8] for at in range(0, len(program), 8)]
        assert len(program) % 8 == 0
        for number, line in enumerate(lines):
            if line[0] in (0x15, 0x45):
                assert number + 1 + max(line[2], line[3]) < len(lines)
        assert lines[-1][0] == 0x06
