"""The reason of an end is the exception that ended the worker, whatever its log says afterwards."""

from __future__ import annotations

from typing import Any

import pytest

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
