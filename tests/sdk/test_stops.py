"""What ranks agree on when only some of them were asked to stop."""

from __future__ import annotations

import time

import pytest

from muster import wire
from muster.sdk.stops import CONTINUING, StopNotice, as_vote, from_control, from_vote


@pytest.mark.parametrize("kind", ["", *wire.STOP_KINDS])
def test_a_rank_that_was_not_asked_learns_the_kind_from_the_vote(kind: str) -> None:
    vote = as_vote(StopNotice(kind=kind, reason="why"))
    assert vote > 0
    heard = from_vote(max(vote, as_vote(None)), None)
    assert heard is not None
    assert (heard.kind, heard.seconds_left) == (kind, None)


def test_nobody_asked_and_everybody_asked() -> None:
    assert from_vote(as_vote(None), None) is None
    own = StopNotice(kind="pause", reason="why", deadline_boot_s=1.0)
    assert from_vote(99, own) is own
    assert own.seconds_left == 0.0  # long over, never negative


def test_a_kind_of_a_newer_server_is_kept_here_and_unnamed_to_the_others() -> None:
    own = from_control(wire.Control(should_stop=True, kind="moved", reason="why"))
    assert own is not None
    assert own.kind == "moved"
    heard = from_vote(as_vote(own), None)
    assert heard is not None
    assert heard.kind == ""


def test_what_continues_later_is_a_known_kind() -> None:
    assert set(wire.STOP_KINDS) > CONTINUING
    left = StopNotice(kind="resize", reason="", deadline_boot_s=_in(5)).seconds_left
    assert left is not None
    assert 0 < left <= 5


def _in(seconds: float) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) + seconds
