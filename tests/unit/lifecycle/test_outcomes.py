"""Which member ended a gang, whatever the clocks of its nodes say."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.wire import ExitInfo, WorkerExit
from muster_server.domain.lifecycle.outcomes import member_outcome, on_server_clock, root_cause
from muster_server.domain.states import TERMINATIONS, RetryClass, Termination

NOW_MS = 1_700_000_000_000


def failed(rank, at_ms, *, blames_peer=False, error_ms=5.0, cause="user_error"):
    failure = WorkerExit(
        local_rank=0,
        rank=rank,
        exit_code=1,
        at_ms=at_ms,
        message=f"words of {rank}",
        blames_peer=blames_peer,
    )
    info = ExitInfo(cause=cause, message="", first_failure=failure, at_error_ms=error_ms)
    return member_outcome("EXITED", "start", info, node_name=f"n{rank}")


def lost(rank, at_ms):
    at = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    return member_outcome("LOST", "start", None, node_name=f"n{rank}", last_seen_at=at)


def root(*outcomes):
    found = {root_cause(order) for order in itertools.permutations(outcomes)}
    assert len(found) == 1  # the order of arrival does not matter
    cause = found.pop()
    return None if cause is None else cause.node_name


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], None),
        ([failed(0, 2000), failed(1, 1000)], "n1"),
        # Who fails closes its connections before it is gone: its peer was gone first.
        ([failed(0, 1000, blames_peer=True), failed(1, 1800)], "n1"),
        # Half a minute later it is another story.
        ([failed(0, 1000, blames_peer=True), failed(1, 31_000)], "n0"),
        ([failed(0, 1000, blames_peer=True), failed(1, 1100, blames_peer=True)], "n0"),
        ([failed(0, 1000, blames_peer=True), lost(1, 500)], "n1"),
        ([failed(0, 1000, blames_peer=True), lost(1, 5000)], "n1"),
        ([failed(0, 1000), lost(1, 5000)], "n0"),
        # A clock that is an hour off, and nobody knows: words count more than times.
        ([failed(0, 1000, blames_peer=True, error_ms=None), failed(1, 3_600_000, error_ms=None)], "n1"),
        ([failed(0, 1000, blames_peer=True), failed(1, 3_600_000, error_ms=None)], "n1"),
        # A time that is not known at all.
        ([failed(0, 1000), failed(1, 0)], "n0"),
        ([failed(0, 1000, blames_peer=True), failed(1, 0)], "n1"),
    ],
)  # fmt: skip
def test_the_first_to_fail_is_the_root_cause(outcomes, expected):
    assert root(*outcomes) == expected


offsets = st.floats(-1e9, 1e9)


@given(
    boot_offsets=st.lists(offsets, min_size=3, max_size=3),
    wall_skews_ms=st.lists(st.floats(-1e8, 1e8), min_size=3, max_size=3),
    errors_ms=st.lists(st.floats(0, 20), min_size=3, max_size=3),
    first=st.integers(0, 2),
    gap_ms=st.integers(50, 5_000),
)
def test_measured_offsets_make_any_clocks_comparable(
    boot_offsets, wall_skews_ms, errors_ms, first, gap_ms
):
    """Each node has its own boot, its own wall clock, and an offset measured with an error."""
    outcomes = []
    for rank in range(3):
        happened_ms = NOW_MS + (0 if rank == first else gap_ms)
        wall_ms = round(happened_ms + wall_skews_ms[rank])
        boot_ms = happened_ms - boot_offsets[rank]  # what its boot clock showed
        failure = WorkerExit(local_rank=0, rank=rank, exit_code=1, at_ms=wall_ms)
        info = ExitInfo(
            cause="user_error",
            message="",
            first_failure=failure,
            workers=[failure],
            unix_at_boot_ms=wall_ms - boot_ms,
        )
        moved = on_server_clock(
            info, offset_ms=boot_offsets[rank] + errors_ms[rank], error_ms=errors_ms[rank]
        )
        assert abs(moved.first_failure.at_ms - happened_ms) <= errors_ms[rank] + 2
        assert moved.workers == [moved.first_failure]
        outcomes.append(member_outcome("EXITED", "start", moved, node_name=f"n{rank}"))
    assert root_cause(outcomes).rank == first


def test_without_an_offset_times_are_left_alone_and_said_to_be_uncertain():
    info = ExitInfo(cause="user_error", message="", unix_at_boot_ms=5.0, at_error_ms=1.0)
    for left in (
        on_server_clock(info, offset_ms=None, error_ms=None),
        on_server_clock(
            ExitInfo(cause="user_error", message="", at_error_ms=1.0), offset_ms=1.0, error_ms=1.0
        ),
    ):
        assert left.at_error_ms is None


@pytest.mark.parametrize(
    ("cause", "signal", "termination", "retry_class"),
    [
        ("killed_by_signal", 9, Termination.WORKER_KILLED, RetryClass.INFRA),
        ("out_of_memory", 9, Termination.OUT_OF_MEMORY, RetryClass.USER),
        ("limit_exceeded", None, Termination.LIMIT_EXCEEDED, RetryClass.NONE),
        ("killed_by_signal", 11, Termination.KILLED_BY_SIGNAL, RetryClass.USER),
        ("killed_by_signal", 6, Termination.KILLED_BY_SIGNAL, RetryClass.USER),
        ("killed", 9, Termination.WORKER_KILLED, RetryClass.INFRA),
        ("stopped", None, Termination.WORKER_KILLED, RetryClass.INFRA),
    ],
)
def test_no_program_kills_itself_by_sigkill(cause, signal, termination, retry_class):
    info = ExitInfo(cause=cause, message="it ended", signal=signal)
    outcome = member_outcome("EXITED", "start", info, node_name="n0")
    assert outcome is not None
    assert outcome.termination is termination
    assert TERMINATIONS[termination][1] is retry_class


@pytest.mark.parametrize("desired", ["stop", "kill", "forget"])
def test_what_was_killed_on_request_has_not_failed(desired):
    info = ExitInfo(cause="killed", message="killed (a user stopped it)", signal=9)
    outcome = member_outcome("EXITED", desired, info, node_name="n0")
    assert outcome is not None
    assert outcome.stopped
    assert not outcome.failed
