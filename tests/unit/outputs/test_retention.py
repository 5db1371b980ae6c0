"""Which outputs go by age and size, and which stay regardless."""

import datetime as dt

import pytest

from muster_server.domain.outputs.retention import OutputsPolicy, TrialOutputsView, judge

NOW = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def view(no, days, size_bytes=10, **more):
    return TrialOutputsView(
        trial_id=100 + no,
        trial_no=no,
        num_files=1,
        size_bytes=size_bytes,
        written_at=NOW - days * DAY,
        **more,
    )


def kept(views, *, maximise=False, **policy):
    verdicts = judge(views, OutputsPolicy(**policy), maximise=maximise, now=NOW)
    assert [v.outputs.trial_no for v in verdicts] == sorted(v.trial_no for v in views)
    return [v.outputs.trial_no for v in verdicts if v.is_kept]


@pytest.mark.parametrize(
    ("policy", "stay"),
    [
        ({}, [1, 2, 3, 4]),
        ({"older_than": 15 * DAY}, [3, 4]),
        ({"older_than": 20 * DAY}, [2, 3, 4]),  # exactly as old as allowed stays
        ({"max_bytes": 40}, [1, 2, 3, 4]),
        ({"max_bytes": 39}, [2, 3, 4]),
        ({"max_bytes": 20}, [3, 4]),
        ({"max_bytes": 0}, []),
        ({"older_than": 25 * DAY, "max_bytes": 30}, [2, 3, 4]),  # age alone is enough
        ({"older_than": 25 * DAY, "max_bytes": 29}, [3, 4]),
    ],
)
def test_age_and_size(policy, stay):
    assert kept([view(4, 1), view(2, 20), view(1, 30), view(3, 10)], **policy) == stay


@pytest.mark.parametrize(
    ("policy", "oldest_days", "size_bytes", "may"),
    [
        ({}, 999, 10**15, False),
        ({"older_than": DAY}, 1, 10**15, False),
        ({"older_than": DAY}, 1.001, 1, True),
        ({"max_bytes": 10}, 999, 10, False),
        ({"max_bytes": 10}, 0, 11, True),
        ({"older_than": DAY, "max_bytes": 10}, 0, 11, True),
        ({"older_than": DAY, "max_bytes": 10}, 0.5, 10, False),
    ],
)
def test_what_need_not_be_judged(policy, oldest_days, size_bytes, may):
    found = OutputsPolicy(**policy).may_exceed(
        oldest_at=NOW - oldest_days * DAY, size_bytes=size_bytes, now=NOW
    )
    assert found is may


def test_what_is_held_stays_and_counts():
    views = [view(1, 30, held="its trial may still run"), view(2, 20), view(3, 10)]
    assert kept(views, older_than=DAY) == [1]
    assert kept(views, max_bytes=20) == [1, 3]
    (held, *_) = judge(views, OutputsPolicy(max_bytes=0), maximise=False, now=NOW)
    assert (held.is_kept, held.reason) == (True, "its trial may still run")


def test_the_best_stay():
    values = [view(1, 30, value=0.1), view(2, 20, value=0.9), view(3, 10, value=float("nan"))]
    assert kept([*values, view(4, 5)], max_bytes=0, keep_best=1) == [1]
    assert kept([*values, view(4, 5)], max_bytes=0, keep_best=1, maximise=True) == [2]
    assert kept([*values, view(4, 5)], max_bytes=0, keep_best=9) == [1, 2]


def test_the_policy_as_a_sentence():
    assert OutputsPolicy().sentence() == "everything is kept"
    assert (
        OutputsPolicy(older_than=30 * DAY, max_bytes=5000, keep_best=2).sentence()
        == "outputs older than 30 d go, and the oldest go until 5,000 bytes are left; those of the "
        "best 2 trials stay"
    )
