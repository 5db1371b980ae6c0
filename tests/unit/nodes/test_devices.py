"""Which slots of a node are the same ones when it registers again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.nodes.devices import match_slots

SLOTS = st.dictionaries(st.integers(0, 5), st.sampled_from(["", "A", "B", "C"]), max_size=5).filter(
    lambda slots: len([u for u in slots.values() if u]) == len({u for u in slots.values() if u})
)


@pytest.mark.parametrize(
    ("known", "reported", "former"),
    [
        ({0: "A", 1: "B"}, {0: "A", 1: "B"}, {0: 0, 1: 1}),
        ({0: "A", 1: "B"}, {0: "B"}, {0: 1}),
        ({0: "A"}, {0: "B"}, {}),
        ({0: "A"}, {0: ""}, {0: 0}),
        ({0: "", 1: ""}, {0: "A", 1: "B"}, {0: 0, 1: 1}),
        # The device of a slot whose UUID is not told any more is at another place.
        ({0: "A", 1: ""}, {0: "", 1: "A"}, {1: 0}),
    ],
)
def test_a_device_keeps_its_slot(
    known: Mapping[int, str], reported: Mapping[int, str], former: Mapping[int, int]
) -> None:
    assert match_slots(known, reported) == former


@given(known=SLOTS, reported=SLOTS)
def test_no_slot_is_two_afterwards(known: dict[int, str], reported: dict[int, str]) -> None:
    former = match_slots(known, reported)
    assert len(set(former.values())) == len(former)
    assert former.keys() <= reported.keys()
    assert set(former.values()) <= known.keys()
    for index, before in former.items():
        assert not (known[before] and reported[index]) or known[before] == reported[index]
