"""Trials that ask for walls around their jobs start only where these, or stronger ones, are."""

from __future__ import annotations

import pytest

from muster.document.codec import load
from muster.document.running import ResourcesSection
from muster_server.domain.scheduling import Placement, Wait
from muster_server.domain.scheduling.resources import is_isolated, request_of
from support.scheduling import make_node, make_queued, run

NODES = [
    make_node("open", 4),
    make_node("users", 2, isolation="user"),
    make_node("walls", 1, isolation="sandbox"),
]


@pytest.mark.parametrize(
    ("level", "slots", "place"),
    [
        ("none", 4, "id-open"),
        ("user", 2, "id-users"),
        ("user", 1, "id-walls"),
        ("sandbox", 1, "id-walls"),
    ],
)
def test_a_trial_starts_on_a_node_of_its_level_or_a_stronger_one(
    level: str, slots: int, place: str
) -> None:
    (found,) = run(NODES, [make_queued(1, slots, isolation=level)])
    assert isinstance(found, Placement)
    assert [share.node_id for share in found.shares] == [place]


def test_the_reason_to_wait_names_the_level() -> None:
    (found,) = run(NODES[:2], [make_queued(1, 1, isolation="sandbox")])
    assert isinstance(found, Wait)
    assert "on nodes with isolation level sandbox" in found.reason.english
    assert "no node offers isolation level sandbox" in found.reason.english


def test_a_level_of_a_newer_agent_counts_as_none() -> None:
    assert is_isolated("sandbox", "user")
    assert not is_isolated("vault", "user")
    assert is_isolated("vault", "none")


def test_the_level_is_taken_from_the_document() -> None:
    assert request_of(load(ResourcesSection, {"isolation": "sandbox"})).isolation == "sandbox"
    assert request_of(load(ResourcesSection, {})).isolation == "none"
