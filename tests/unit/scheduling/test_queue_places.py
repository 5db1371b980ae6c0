"""Places in the queue: there is always room, and nobody ends up behind who comes later."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.scheduling.queue_places import places_between, spread

NOW = 1_780_000_000.0
places = st.floats(0, NOW, allow_subnormal=False)  # times: nobody waits so briefly


def is_ascending(numbers):
    return all(a < b for a, b in pairwise(numbers))


@given(before=st.none() | places, after=st.none() | places, num=st.integers(1, 500))
def test_places_lie_in_order_between_the_two(before, after, num):
    found = places_between(before, after, num, now_s=NOW)
    if found is None:
        # No room: the two are the same, or so close that there is no number between them.
        assert before is not None
        assert after is not None
        assert after - before <= abs(after) * num * 1e-15 or after <= before
        return
    assert len(found) == num
    ends = ([] if before is None else [before], [] if after is None else [after])
    assert is_ascending([*ends[0], *found, *ends[1]])


@pytest.mark.parametrize("before", [None, NOW - 100, NOW])
def test_the_back_is_in_the_present_so_that_later_ones_come_behind(before):
    found = places_between(before, None, 3, now_s=NOW)
    assert is_ascending(found)
    assert found[-1] <= NOW + 0.004
    assert found[0] >= NOW - 0.004


def test_twice_to_the_front_and_in_between_for_long():
    low = high = NOW
    for _ in range(1000):
        (low,) = places_between(None, low, 1, now_s=NOW)
    assert low == NOW - 1000
    middle, num = places_between(low, high, 1, now_s=NOW), 0
    while middle is not None:
        num, high = num + 1, middle[0]
        middle = places_between(low, high, 1, now_s=NOW)
    assert num > 25  # then they are numbered anew


@given(numbers=st.lists(places, min_size=1, max_size=20), num=st.integers(1, 200))
def test_numbered_anew_they_end_where_the_last_one_was(numbers, num):
    found = spread(numbers, num)
    assert len(found) == num
    assert found[-1] == max(numbers)
    if max(numbers) > 1e6:
        assert is_ascending(found)
