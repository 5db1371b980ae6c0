"""The reason of an end is the exception that ended the worker, whatever its log says afterwards."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from muster import wire

LATE = """
class Late:
    def __del__(self):
        raise OSError(28, "No space left on device")

late = Late()
"""
HYDRAS_WAY = """
import sys

try:
    raise KeyError("schema is not in struct")
except KeyError as error:
    print("Could not override.\\n\\nSet the environment variable FULL_ERROR=1", file=sys.stderr)
    sys.exit(1)
"""
OWN_HOOK = """
import sys

sys.excepthook = lambda *_: print("oh no", file=sys.stderr)
raise ValueError("learning rate is negative")
"""
GROUP = "raise ExceptionGroup('two', [ValueError('bad a'), ValueError('bad b')])"
AFTER_ONE_THAT_WAS_CAUGHT = """
import sys

try:
    try:
        raise ValueError("caught")
    except ValueError:
        sys.exit(3)
except SystemExit:
    pass
raise KeyError("it")
"""
CASES = [
    (LATE + "raise ValueError('learning rate is negative')", "ValueError: learning rate is negative"),
    (HYDRAS_WAY, "KeyError: 'schema is not in struct'"),
    (OWN_HOOK, "ValueError: learning rate is negative"),
    (GROUP, "ExceptionGroup: two: ValueError: bad a; ValueError: bad b"),
    (AFTER_ONE_THAT_WAS_CAUGHT, "KeyError: 'it'"),
    ("import sys; sys.exit('no data set at /data')", "no data set at /data"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "words"), CASES)
@pytest.mark.parametrize("launcher", ["direct", "plain"])
def test_the_exception_is_the_reason(shims: Any, launcher: str, script: str, words: str) -> None:
    shim = shims(script, launcher=launcher, slots=[0])
    shim.start()
    info = shim.wait_exit(timeout_s=60)
    assert (info.cause, info.message) == ("user_error", f"rank 0 exited with code 1: {words}")


@pytest.mark.torch
def test_under_torchrun_too(shims: Any) -> None:
    shim = shims(LATE + "raise ValueError('learning rate is negative')", launcher="torchrun")
    shim.start()
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "user_error"
    assert info.message.endswith("exited with code 1: ValueError: learning rate is negative")


RAISES = "raise ValueError('bad')"


@pytest.mark.parametrize(
    ("script", "doubt"),
    [
        ("python main.py 2>&1 | tee train.log", "a Python process of the job ended with ValueError: bad"),
        ("echo trained; exit 0", ""),
        ("exit 0", "it ran for 0."),
        ("touch made", ""),
        ("sleep 600 & echo begun", "1 process was still running in the background"),
    ],
)  # fmt: skip
def test_exit_code_0_is_doubted_where_the_job_says_otherwise(
    shims: Any, script: str, doubt: str
) -> None:
    (shims.code / "run.sh").write_text(script.replace("python", sys.executable))
    shim = shims(RAISES, launcher="shell", entrypoint=["bash", "run.sh"], slots=[0])
    shim.start(wire.Rendezvous(host="127.0.0.1", port=29_555, run_id="x"))
    info = shim.wait_exit(timeout_s=60)
    assert info.cause == "success"
    assert info.doubt.startswith(doubt) if doubt else info.doubt == ""


def test_a_job_that_reports_without_a_word_leaves_no_doubt(shims: Any) -> None:
    script = "import muster\nfor step in range(3): muster.log({'loss': 1.0}, step=step)\n"
    shim = shims(script, launcher="plain", slots=[0])
    shim.start()
    info = shim.wait_exit(timeout_s=60)
    assert (info.cause, info.doubt) == ("success", "")


def test_a_process_that_was_caught_leaves_no_doubt(shims: Any) -> None:
    script = "import sys\ntry:\n    sys.exit(2)\nexcept SystemExit:\n    print('trained')\n"
    shim = shims(script, launcher="plain", slots=[0])
    shim.start()
    info = shim.wait_exit(timeout_s=60)
    assert (info.cause, info.doubt) == ("success", "")


KILLED_CHILD = """
import os, signal, time
import torch.utils.data

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

for _ in torch.utils.data.DataLoader(Data(), num_workers=2):
    pass
"""


@pytest.mark.torch
def test_a_loader_worker_that_was_killed_is_no_error_of_the_script(shims: Any) -> None:
    shim = shims(KILLED_CHILD, launcher="plain", slots=[0])
    shim.start()
    info = shim.wait_exit(timeout_s=120)
    assert info.cause == "killed_by_signal"
    assert "The kernel counted no out-of-memory kill" in info.message
