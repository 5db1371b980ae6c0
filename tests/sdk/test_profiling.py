"""The profiler's window where there is nothing to profile: always one answer, which says why."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from muster import wire
from muster.measure.profiling import ProfileWindow


def ordered(no: int = 1, *, ranks: tuple[int, ...] = (0,), steps: int = 2) -> wire.Control:
    order = wire.ProfileOrder(no=no, ranks=list(ranks), num_steps=steps)
    return wire.Control(should_stop=False, profile=order)


@pytest.fixture
def told() -> list[dict[str, Any]]:
    return []


def window(told: list[dict[str, Any]], **options: Any) -> ProfileWindow:
    made = ProfileWindow(**options)
    made.answer = told.append
    return made


def test_a_script_without_torch_says_so_once(
    told: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    mine = window(told)
    mine.take(ordered())
    mine.logged(1)
    mine.logged(2)
    mine.take(ordered())  # told again after a lost connection
    mine.logged(3)
    assert told == [{"type": "profile", "no": 1, "problem": "the script has not imported torch"}]


def test_an_order_for_other_ranks_is_nothing(told: list[dict[str, Any]]) -> None:
    mine = window(told)
    mine.take(ordered(ranks=(1, 2)))
    mine.close()
    assert told == []


def test_a_script_that_ends_no_step_is_given_up_with_what_would_help(
    told: list[dict[str, Any]],
) -> None:
    mine = window(told, timeout_s=0.0)
    mine.take(ordered())
    mine.look()
    mine.look()
    assert [said["no"] for said in told] == [1]
    assert "muster.log with a step" in told[0]["problem"]


def test_a_script_that_ends_says_so(told: list[dict[str, Any]]) -> None:
    mine = window(told)
    mine.take(ordered())
    mine.close()
    assert told[0]["problem"] == "the script ended before the window was complete"
