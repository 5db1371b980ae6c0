"""Who is named when nothing moves: the pure decision."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.runtime.stuck import (
    MAX_NAMED,
    STILL_AFTER_S,
    Count,
    RankView,
    StuckVerdict,
    judge,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
LONG_AGO = NOW - dt.timedelta(seconds=STILL_AFTER_S)


def rank(no: int, counts: dict[str, tuple[int, int]] | None = None, **values: Any) -> RankView:
    """counts: group → (enqueued, completed)."""
    kinds = values.pop("kinds", {})
    view: dict[str, Any] = {
        "rank": no,
        "node_name": f"n{no // 2}",
        "is_heard": True,
        "reports": True,
        "process": "sleeps",
        "moved_at": LONG_AGO,
        "step": 7,
        "phase": "backward",
        "waits_for": None,
        "waits_kind": "",
        "counts": {
            name: Count(kind=kinds.get(name, "all_reduce"), num_enqueued=e, num_completed=c)
            for name, (e, c) in (counts or {}).items()
        },
    }
    return RankView(**(view | values))


def named(verdict: StuckVerdict) -> list[tuple[int, str, str]]:
    return [(b.rank, b.kind, b.group) for b in verdict.blamed]


WAITING = {"world": (4, 3)}
BEHIND = {"world": (3, 3)}


@pytest.mark.parametrize("kind", ["all_reduce", "broadcast"])
def test_the_rank_that_has_not_called_what_the_others_wait_in_is_named(kind: str) -> None:
    kinds, article = {"world": kind}, "an" if kind == "all_reduce" else "a"
    verdict = judge(
        [
            rank(0, WAITING, kinds=kinds),
            rank(1, BEHIND, kinds=kinds, phase="forward"),
            rank(2, WAITING, kinds=kinds),
        ],
        [],
        now=NOW,
    )
    assert named(verdict) == [(1, "absent", "world")]
    assert verdict.still_s == STILL_AFTER_S
    assert verdict.reason == (
        f"Nothing has moved for 30 s. Rank 1 on n0 has not called collective 4 of world, {article} "
        f"{kind} in which 2 others wait: it is in its forward pass."
    )


def test_nobody_is_named_while_any_rank_moves() -> None:
    moved = NOW - dt.timedelta(seconds=STILL_AFTER_S - 1)
    verdict = judge([rank(0, WAITING), rank(1, BEHIND, moved_at=moved)], [], now=NOW)
    assert (verdict.state, verdict.blamed) == ("moving", ())


def test_one_that_waits_for_its_data_is_said_to() -> None:
    late = rank(1, BEHIND, phase="data_wait")
    assert named(judge([rank(0, WAITING), late], [], now=NOW)) == [(1, "data", "world")]
    alone = judge([rank(0, {}, phase="data_wait")], [], now=NOW)
    assert named(alone) == [(0, "data", "")]


def test_a_process_that_does_not_run_is_the_cause_of_the_rest() -> None:
    stopped = rank(1, BEHIND, process="stopped")
    absent = rank(2, BEHIND)
    verdict = judge([rank(0, WAITING), stopped, absent], [], now=NOW)
    assert named(verdict) == [(1, "stopped", "world")]
    unheard = rank(2, BEHIND, is_heard=False)
    assert named(judge([rank(0, WAITING), unheard], [], now=NOW)) == [(2, "unheard", "world")]


def test_a_plain_script_is_named_only_when_its_process_is_stopped() -> None:
    silent = [rank(no, reports=False) for no in (0, 1)]
    assert judge(silent, [], now=NOW).state == "unknown"
    silent[1] = rank(1, reports=False, process="stopped")
    assert named(judge(silent, [], now=NOW)) == [(1, "stopped", "")]


def test_waiting_is_followed_across_groups_to_who_waits_for_nobody() -> None:
    """Ranks 0 and 1 are a tensor group, 0 and 2 a data group: 1 waits for 0, and 0 for 2."""
    groups = [ProcessGroup(name="tp@0", ranks=(0, 1)), ProcessGroup(name="dp@0", ranks=(0, 2))]
    ranks = [
        rank(0, {"tp@0": (5, 5), "dp@0": (3, 2)}),
        rank(1, {"tp@0": (6, 5)}),
        rank(2, {"dp@0": (2, 2)}, phase="optimizer"),
    ]
    assert named(judge(ranks, groups, now=NOW)) == [(2, "absent", "dp@0")]


def test_a_member_that_has_called_nothing_yet_counts_as_behind() -> None:
    group = [ProcessGroup(name="world", ranks=(0, 1))]
    ranks = [rank(0, {"world": (1, 0)}), rank(1, {}, phase="")]
    assert named(judge(ranks, group, now=NOW)) == [(1, "absent", "world")]


def test_who_is_waited_for_with_a_message_is_named() -> None:
    ranks = [
        rank(0, waits_for=1, waits_kind="recv"),
        rank(1, waits_for=2, waits_kind="recv"),
        rank(2, phase="forward"),
    ]
    verdict = judge(ranks, [], now=NOW)
    assert named(verdict) == [(2, "absent", "")]
    assert "Rank 2 on n1 is waited for by others: it is in its forward pass." in verdict.reason


def test_ranks_that_wait_for_each_other_are_named_together() -> None:
    """Two groups whose collectives they call in different orders."""
    ranks = [rank(0, {"a": (2, 1), "b": (1, 1)}), rank(1, {"a": (1, 1), "b": (2, 1)})]
    verdict = judge(ranks, [], now=NOW)
    assert named(verdict) == [(0, "cycle", "a"), (1, "cycle", "b")]
    assert "Rank 0 on n0 waits in collective 2 of a for rank 1" in verdict.reason


def test_a_different_collective_in_the_same_place_is_a_mismatch() -> None:
    other = rank(1, WAITING, kinds={"world": "broadcast"})
    verdict = judge([rank(0, WAITING), other, rank(2, WAITING)], [], now=NOW)
    assert named(verdict) == [(1, "mismatch", "world")]
    assert (
        "calls broadcast as collective 4 of world, where others call all_reduce" in verdict.reason
    )


def test_when_all_are_in_the_same_collective_nobody_is_to_blame() -> None:
    verdict = judge([rank(0, WAITING), rank(1, WAITING)], [], now=NOW)
    assert (verdict.state, verdict.blamed) == ("still", ())
    assert "the network between them" in verdict.reason


def test_several_in_flight_count_from_the_first_that_is_not_over() -> None:
    """A rank that has enqueued fewer than another, but all that are waited in, is not blamed."""
    ranks = [rank(0, {"world": (6, 3)}), rank(1, {"world": (5, 3)}), rank(2, BEHIND)]
    assert named(judge(ranks, [], now=NOW)) == [(2, "absent", "world")]


def test_what_is_named_is_bounded_and_says_so() -> None:
    ranks = [rank(no, process="stopped") for no in range(MAX_NAMED + 3)]
    verdict = judge(ranks, [], now=NOW)
    assert len(verdict.blamed) == MAX_NAMED
    assert verdict.reason.endswith("And 3 more.")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 3),
            st.integers(0, 3),
            st.integers(0, 3),
            st.none() | st.integers(0, 4),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_whoever_is_named_lives_and_is_named_once(
    found: list[tuple[int, int, int, int, int | None]],
) -> None:
    ranks = [
        rank(no, {"a": (a + more, a), "b": (b + other, b)}, waits_for=peer)
        for no, (a, more, b, other, peer) in enumerate(found)
    ]
    blamed = [b.rank for b in judge(ranks, [], now=NOW).blamed]
    assert len(set(blamed)) == len(blamed)
    assert set(blamed) <= set(range(len(ranks)))


@pytest.mark.parametrize("world", [1, 2, 8])
def test_without_anything_to_wait_in_nobody_is_named(world: int) -> None:
    ranks = [rank(no, {"world": (3, 3)}, phase="") for no in range(world)]
    assert judge(ranks, [], now=NOW).blamed == ()
