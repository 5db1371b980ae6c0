"""Which work folders may be deleted: never one that is the only copy of what a job wrote."""

import datetime as dt

import hypothesis.strategies as st
import pytest
from hypothesis import given

from muster.wire import WorkFolder
from muster_server.domain.outputs.cleaning import FolderOwner, deletable

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
KEEP = dt.timedelta(hours=24)


def folder(**changes):
    fields = {
        "experiment_id": 1,
        "trial_id": 7,
        "attempt_no": 1,
        "is_collected": True,
        "size_bytes": 10,
    }
    return WorkFolder(**fields | changes)


def owner(ended_h=None, **changes):
    fields = {
        "ended_at": None if ended_h is None else NOW - dt.timedelta(hours=ended_h),
        "newest_attempt_no": 1,
        "collected_attempt_no": 1,
        "is_in_use_here": False,
        "ran_here": True,
    }
    return FolderOwner(**fields | changes)


ELSEWHERE = {"newest_attempt_no": 2, "collected_attempt_no": 2, "ran_here": False}
CASES = {
    "it may run again": (folder(), owner(), None),
    "ended a moment ago": (folder(), owner(ended_h=1), None),
    "ended long ago": (folder(), owner(ended_h=24), "more than 24 h ago"),
    "ended long ago, not collected": (folder(is_collected=False), owner(ended_h=1000), None),
    "ended, its processes may live": (folder(), owner(ended_h=48, is_in_use_here=True), None),
    "a newer attempt ran elsewhere": (folder(), owner(**ELSEWHERE), "attempt 2 ran on other nodes"),
    "… and is not collected yet": (
        folder(),
        owner(**{**ELSEWHERE, "collected_attempt_no": 1}),
        None,
    ),
    "… and this one was not collected": (folder(is_collected=False), owner(**ELSEWHERE), None),
    "… and runs here, too": (folder(), owner(**{**ELSEWHERE, "ran_here": True}), None),
}


@pytest.mark.parametrize(("found", "known", "reason"), CASES.values(), ids=CASES.keys())
def test_what_may_go_and_why(found, known, reason):
    deletions = deletable([found], {7: known}, deleted=(), keep=KEEP, now=NOW)
    if reason is None:
        assert deletions == []
    else:
        assert [deletion.trial_id for deletion in deletions] == [7]
        assert reason in deletions[0].reason


def test_of_a_deleted_trial_everything_goes_and_of_an_unknown_one_nothing():
    folders = [folder(trial_id=8, is_collected=False), folder(trial_id=9)]
    deletions = deletable(folders, {}, deleted={8}, keep=KEEP, now=NOW)
    assert [(d.trial_id, d.reason) for d in deletions] == [(8, "the trial was deleted")]


@given(
    is_collected=st.booleans(),
    ended_h=st.none() | st.floats(0, 1e4),
    in_use=st.booleans(),
    ran_here=st.booleans(),
    attempt_no=st.integers(1, 3),
    newest=st.integers(1, 3),
    collected=st.integers(0, 3),
)
def test_what_is_not_collected_or_in_use_is_never_deleted(
    is_collected, ended_h, in_use, ran_here, attempt_no, newest, collected
):
    known = owner(
        ended_h,
        newest_attempt_no=newest,
        collected_attempt_no=collected,
        is_in_use_here=in_use,
        ran_here=ran_here,
    )
    found = folder(is_collected=is_collected, attempt_no=attempt_no)
    if deletable([found], {7: known}, deleted=(), keep=KEEP, now=NOW):
        assert is_collected
        assert not in_use
        assert ended_h is not None or (attempt_no < newest and not ran_here)
