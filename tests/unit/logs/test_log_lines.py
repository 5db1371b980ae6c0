"""domain.logs.lines: levels by their marks, text as a reader sees it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.log_text import visible
from muster_server.domain.logs.lines import LineTest, count_levels, level_of


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-11-21 10:00:00 INFO step 1", "info"),
        ("DEBUG:root:x", "debug"),
        ("[rank0]:W1121 10:00:00.123000 torch/x.py:1] slow", "warning"),
        ("E1121 10:00:00.123 x", "error"),
        ("error: cannot open", "error"),
        ("time=1 level=warn msg=x", "warning"),
        ('{"level": "critical", "msg": "x"}', "critical"),
        ("[Warning] x", "warning"),
        ("train.py:12: UserWarning: x", "warning"),
        ("Traceback (most recent call last):", "error"),
        ("[rank1]: torch.OutOfMemoryError: CUDA out of memory", "error"),
        ("KeyboardInterrupt", "error"),
        ("INFO again after an ERROR", "info"),
        ("no error here", None),
        ("ERRORS 3", None),
        ("error rate: 3 %", None),
        ("x" * 200 + " ERROR", None),
        ("é" * 150 + " ERROR", "error"),
        ("", None),
    ],
)
def test_the_first_mark_of_a_line_is_its_level(text: str, level: str | None) -> None:
    assert level_of(text.encode()) == level


def test_visible_text_keeps_line_ends_and_nothing_that_a_terminal_obeys() -> None:
    data = b"\x1b[1;31mred\x1b[0m\n 1%\r 2%\r\n\x1b]8;;http://x\x07link\n\x00\xff\x1b\xe6\x8d\x9f"
    assert visible(data).decode() == "red\n 2%\nlink\n␀�损"


def test_candidates_are_the_lines_that_pass() -> None:
    text = b"loss\nERROR\nERROR loss\nx\nloss ERROR"
    assert list(LineTest("LOSS", levels={"error"}).candidates(text)) == [2, 4]
    assert list(LineTest("^$", is_regex=True).candidates(b"a\n\nb\n")) == [1, 3]
    # What depends on where the text ends is left to the lines one by one.
    assert list(LineTest(r"x\z", is_regex=True).candidates(b"x\ny")) == [0, 1]


def test_a_pattern_that_makes_others_back_track_for_ever_is_linear() -> None:
    test = LineTest(r"(a+)+$|(.*.*)*=", is_regex=True)
    assert not test.passes(b"a" * 200_000 + b"b", None)


words = st.sampled_from(
    ["ERROR", "error:", "[warn]", "INFO", "x", "é" * 90, "y" * 120, "ValueError: no", "W1121 10:00:00",
     "level=debug", " ", "FATAL", "[rank1]: "]
)  # fmt: skip


@given(st.lists(st.lists(words, max_size=6).map(" ".join), max_size=60), st.booleans())
def test_levels_of_many_lines_are_those_of_each(lines: list[str], is_finished: bool) -> None:
    text = ("\n".join(lines) + ("\n" if is_finished else "")).encode()
    finished = text.split(b"\n")[:-1]
    expected = Counter(level for line in finished if (level := level_of(line)) is not None)
    assert count_levels(text) == expected
