"""Which nodes a gang is fitted on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.document.roles import RoleMember
from muster_server.domain.scheduling import fitting
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import Request


def fit(request: Request, offered: dict[str, int], **kwargs) -> dict[str, int] | None:
    return fitting.fit(request, Offer.of(offered), **kwargs)


def shares(request: Request, *free: int) -> list[int] | None:
    chosen = fit(request, {f"n{i}": slots for i, slots in enumerate(free)})
    return None if chosen is None else sorted(chosen.values(), reverse=True)


@pytest.mark.parametrize(
    ("slots", "free", "expected"),
    [
        (1, [4, 1, 2], [1]),
        (4, [8, 4, 6], [4]),
        (16, [8, 7, 7, 4, 4, 4, 4], [4, 4, 4, 4]),
        (16, [3, 3, 3, 3, 3], None),
        (12, [8, 8, 3, 3, 3], [6, 6]),
        (8, [4, 4, 4, 4, 4], [4, 4]),
        (4, [2, 1, 1], None),
        (4, [2, 1, 1, 1, 1], [1, 1, 1, 1]),
        (8, [2, 1, 1], None),
        (3, [2, 2], None),
        (1, [], None),
    ],
)
def test_even_shares_on_the_fewest_nodes(slots, free, expected):
    assert shares(Request(slots=slots), *free) == expected


@pytest.mark.parametrize(
    ("slots", "free", "expected"),
    [
        (4, [2, 1, 1], [2, 1, 1]),
        (4, [2, 1, 1, 1, 1], [1, 1, 1, 1]),
        (63, [32, 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1], [32, 31]),
        (8, [2, 1, 1], None),
        (3, [2, 2], [2, 1]),
    ],
)
def test_uneven_shares_only_when_allowed_and_no_even_ones_exist(slots, free, expected):
    assert shares(Request(slots=slots, uneven=True), *free) == expected


def test_the_smallest_node_that_holds_it_is_taken():
    assert fit(Request(slots=2), {"a": 8, "b": 2, "c": 4}) == {"b": 2}


def test_the_last_uneven_share_goes_to_the_smallest_node_that_holds_it():
    assert fit(Request(slots=5, uneven=True), {"a": 4, "b": 3, "c": 1}) == {"a": 4, "c": 1}


def test_exactly_n_nodes_are_used_even_when_fewer_would_do():
    assert shares(Request(slots=4, nodes=2), 8, 8, 8) == [2, 2]
    assert shares(Request(slots=4, nodes=3), 8, 8, 8) is None
    assert shares(Request(slots=4, nodes=3, uneven=True), 8, 8, 8) == [2, 1, 1]


def test_more_nodes_than_allowed_are_not_used():
    assert shares(Request(slots=4, max_nodes=2), 1, 1, 1, 1) is None
    assert shares(Request(slots=4, max_nodes=2), 2, 2, 1) == [2, 2]


def test_preference_comes_before_best_fit():
    chosen = fit(Request(slots=1), {"a": 1, "b": 4}, first=["b"])
    assert chosen == {"b": 1}


@given(
    slots=st.integers(1, 24),
    free=st.lists(st.integers(0, 8), max_size=8),
    nodes=st.none() | st.integers(1, 6),
    max_nodes=st.none() | st.integers(1, 6),
    uneven=st.booleans(),
)
def test_a_fit_is_whole_and_within_what_is_offered(slots, free, nodes, max_nodes, uneven):
    request = Request(
        slots=slots, nodes=nodes, max_nodes=None if nodes else max_nodes, uneven=uneven
    )
    offered = {f"n{i}": num for i, num in enumerate(free)}
    chosen = fit(request, offered)
    if chosen is None:
        if nodes is None and uneven and request.max_nodes is None:
            assert sum(free) < slots
        return
    assert sum(chosen.values()) == slots
    assert all(1 <= num <= offered[node] for node, num in chosen.items())
    assert nodes is None or len(chosen) == nodes
    assert request.max_nodes is None or len(chosen) <= request.max_nodes
    assert uneven or len(set(chosen.values())) == 1


def members(**slots_by_role: list[int]) -> tuple[RoleMember, ...]:
    return tuple(
        RoleMember(role=role, index=index, slots=num)
        for role, slots in slots_by_role.items()
        for index, num in enumerate(slots)
    )


@pytest.mark.parametrize(
    ("gang", "free", "expected"),
    [
        (members(trainer=[2], rollout=[1, 1]), {"a": 4, "b": 4}, {"a": 4}),
        (members(trainer=[2], rollout=[1, 1]), {"a": 2, "b": 2}, {"a": 2, "b": 2}),
        (members(trainer=[4], rollout=[1, 1]), {"a": 3, "b": 3}, None),
        (members(rollout=[1, 1], trainer=[4]), {"a": 2, "b": 4}, {"b": 4, "a": 2}),
        (members(trainer=[2], rollout=[2, 2]), {"a": 3, "b": 3}, None),
    ],
)
def test_each_member_of_a_gang_of_roles_is_whole_on_one_node(gang, free, expected):
    request = Request(slots=sum(member.slots for member in gang), members=gang)
    assert fit(request, free) == expected


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_members_are_given_the_nodes_that_they_were_counted_for(sizes, free):
    gang = members(worker=sizes)
    request = Request(slots=sum(sizes), members=gang)
    chosen = fit(request, {f"n{i}": slots for i, slots in enumerate(free)})
    if chosen is None:
        return
    nodes = fitting.assign(gang, chosen)
    held = {
        name: sum(m.slots for m, n in zip(gang, nodes, strict=True) if n == name) for name in chosen
    }
    assert held == chosen


def test_a_gang_of_roles_keeps_to_its_greatest_number_of_nodes():
    gang = members(worker=[1, 1, 1])
    assert fit(Request(slots=3, members=gang, max_nodes=2), {"a": 1, "b": 1, "c": 1}) is None
    assert fit(Request(slots=3, members=gang, max_nodes=2), {"a": 2, "b": 1}) == {"a": 2, "b": 1}
