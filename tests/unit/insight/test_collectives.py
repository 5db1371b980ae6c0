import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.timeline.ranks import bus_factor
from muster_server.domain.insight.cost_model.collectives import (
    KINDS,
    link_bytes,
    num_messages,
)


def ring_all_reduce(size, num_bytes):
    """(messages one after another, bytes over one link) of an all-reduce, counted round by round."""
    messages, sent = 0, 0.0
    for _phase in ("reduce-scatter", "all-gather"):
        for _ in range(size - 1):
            messages += 1
            sent += num_bytes / size
    return messages, sent


@pytest.mark.parametrize("size", [2, 3, 8, 64])
def test_an_all_reduce_goes_around_the_ring_twice(size):
    messages, sent = ring_all_reduce(size, 1e6)
    assert num_messages("all_reduce", size) == messages
    assert link_bytes("all_reduce", size, 1e6) == pytest.approx(sent)


@pytest.mark.parametrize("size", [2, 5, 16])
def test_bytes_on_the_link_are_those_of_the_bus_bandwidth_that_is_shown(size):
    for kind in set(KINDS) - {"ps_push", "ps_pull"}:
        assert link_bytes(kind, size, 10.0) == pytest.approx(10 * bus_factor(kind, size))


def test_the_link_of_a_parameter_server_carries_every_worker():
    assert link_bytes("ps_push", 5, 10.0) == 40.0
    assert num_messages("ps_pull", 5) == 4


@settings(max_examples=50)
@given(kind=st.sampled_from(KINDS), num_bytes=st.floats(0, 1e12))
def test_alone_nothing_is_sent(kind, num_bytes):
    assert num_messages(kind, 1) == 0
    assert link_bytes(kind, 1, num_bytes) == 0


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="barrier"):
        num_messages("barrier", 2)
    with pytest.raises(ValueError, match="not 0"):
        link_bytes("all_reduce", 0, 1.0)
