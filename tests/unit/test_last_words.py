"""What is taken from a log as the reason of an end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster.launch.last_words import MAX_CHARS, last_words, sum_up

TRACE = "Traceback (most recent call last):\n  File x\n"
IGNORED = (
    "Exception ignored in: <function A.__del__ at 0x7f>\n"
    + TRACE
    + "TypeError: 'NoneType' object is not callable\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE + "ValueError: bad\n", "ValueError: bad"),
        (
            "[rank1]: Traceback (most recent call last):\n[rank1]:   File x\n[rank1]: KeyError: 'a'\n",
            "KeyError: 'a'",
        ),
        (
            TRACE + "OSError: 1\n\nDuring handling of the above exception, another exception "
            "occurred:\n\n" + TRACE + "my.pkg.Oops: 2\nlater noise\n",
            "my.pkg.Oops: 2",
        ),
        (TRACE + "KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("something\nSegfault in native code\n\n", "Segfault in native code"),
        ("", ""),
        # What Python says of exceptions that ended nothing.
        (TRACE + "ValueError: learning rate is negative\n" + IGNORED, "ValueError: learning rate is negative"),
        (IGNORED + "no module of that name\n", "no module of that name"),
        (IGNORED, ""),
        ("Error in sys.excepthook:\n" + TRACE + "KeyError: 1\n\nOriginal exception was:\n" + TRACE + "ValueError: it\n", "ValueError: it"),
        # Advice, rules and torchrun's lines are no reasons.
        (
            "Could not override 'schema'.\nTo append to your config use +schema=x\n"
            "Key 'schema' is not in struct\n    full_key: schema\n    object_type=dict\n\n"
            "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
            "Key 'schema' is not in struct · full_key: schema · object_type=dict",
        ),
        ("epoch 1\nepoch 2\nepoch 3\nepoch 4\n", "epoch 2 · epoch 3 · epoch 4"),
        ("epoch 4\nerror: no such data set: cifar\n======\n", "error: no such data set: cifar"),
        (
            "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --foo\n",
            "usage: train.py [-h] [--lr LR] · train.py: error: unrecognized arguments: --foo",
        ),
        (
            "CUDA is not available\n[W1128 10:00:00.1 socket.cpp:7] Warning: slow\n"
            "x.py:3: UserWarning: old\n  warnings.warn(\n",
            "CUDA is not available",
        ),
        # Messages whose first line says nothing.
        (
            TRACE + "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config\nlr\n"
            "  Field required [type=missing, input_value={}, input_type=dict]\n"
            "    For further information visit https://errors.pydantic.dev/2/v/missing\n",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config: lr: "
            "Field required [type=missing, input_value={}, input_type=dict]",
        ),
        (
            TRACE + 'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): "w".\n',
            'RuntimeError: Error(s) in loading state_dict for Net: Missing key(s): "w".',
        ),
        # Another process's exception within this one's.
        (
            TRACE + "RuntimeError: Caught ValueError in DataLoader worker process 3.\nOriginal "
            + TRACE + "ValueError: bad sample\n\n",
            "ValueError: bad sample (in DataLoader worker process 3)",
        ),
        (
            TRACE + "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated "
            "with the following error:\n" + TRACE + "ValueError: in rank 1\n\n",
            "ValueError: in rank 1",
        ),
    ],
)  # fmt: skip
def test_last_words(text: str, expected: str) -> None:
    assert last_words(text) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "raise ExceptionGroup('two', [ValueError('bad a'), ExceptionGroup('in', [KeyError('k')])])",
            "ExceptionGroup: two: ValueError: bad a; KeyError: 'k'",
        ),
        (
            "class A:\n  def __del__(self): raise TypeError('late')\na = A()\nraise ValueError('it')",
            "ValueError: it",
        ),
    ],
)
def test_what_this_python_prints_is_read(code: str, expected: str) -> None:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert last_words(ran.stderr) == expected


def test_the_colors_of_a_message_are_no_part_of_the_reason() -> None:
    assert sum_up("UnpicklingError", "\x1b[1mWeights only\x1b[0m failed") == (
        "UnpicklingError: Weights only failed"
    )


def test_a_reason_has_a_bound() -> None:
    assert len(sum_up("ValueError", "x" * 1_000_000)) == MAX_CHARS
    assert len(last_words("x" * 1_000_000)) == MAX_CHARS
