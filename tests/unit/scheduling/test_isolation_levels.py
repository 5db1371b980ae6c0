"""Trials that ask for walls around their jobs start only where these, or stronger ones, are."""

from __future__ import annotations

import dataclasses

import pytest

from muster.document.codec import load
from muster.document.running import EnvironmentSection, ResourcesSection
from muster_server.domain.scheduling import Placement, Wait
from muster_server.domain.scheduling.nodes import could_hold
from muster_server.domain.scheduling.resources import (
    NodeView,
    PoolImages,
    Request,
    is_isolated,
    request_of,
)
from muster_server.domain.scheduling.room import num_fitting
from muster_server.domain.scheduling.unsatisfiable import is_impossible
from support.scheduling import make_node, make_queued, make_running, run

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


def in_pool(level: str) -> list[NodeView]:
    return [dataclasses.replace(node, pool_isolation=level) for node in NODES]


@pytest.mark.parametrize(
    ("pool_level", "level", "place"),
    [
        ("user", "none", "id-walls"),
        ("sandbox", "none", "id-walls"),
        ("user", "sandbox", "id-walls"),
        ("sandbox", "user", "id-walls"),
    ],
)
def test_a_pool_keeps_trials_off_nodes_below_its_level(
    pool_level: str, level: str, place: str
) -> None:
    (found,) = run(in_pool(pool_level), [make_queued(1, 1, isolation=level)])
    assert isinstance(found, Placement)
    assert [share.node_id for share in found.shares] == [place]


def test_an_elastic_trial_does_not_grow_onto_a_node_below_the_level_of_the_pool() -> None:
    (found,) = run(in_pool("user"), [make_queued(1, 7, min_slots=1, uneven=True)])
    assert isinstance(found, Placement)
    assert {share.node_id for share in found.shares} == {"id-users", "id-walls"}


def test_what_waits_for_the_level_of_the_pool_says_so() -> None:
    nodes = in_pool("sandbox")
    (found,) = run(nodes[:2], [make_queued(1, 1)])
    assert isinstance(found, Wait)
    why = "no node there offers isolation level sandbox, which the pool requires"
    assert why in found.reason.english
    assert found.reason.english.endswith(
        "lower the level of pool default (`muster pool isolation`)."
    )
    assert is_impossible(found.reason.parts)

    busy = make_node("walls", 1, isolation="sandbox", pool_isolation="sandbox")
    running = make_running(9, {"walls": 1})
    found, *_ = run([*nodes[:2], busy], [make_queued(1, 1)], [running])
    assert isinstance(found, Wait)
    weak = "6 on 2 nodes below isolation level sandbox, which the pool requires"
    assert weak in found.reason.english
    assert not is_impossible(found.reason.parts)


def test_previews_count_no_room_on_nodes_below_the_level_of_the_pool() -> None:
    slots = {node.id: len(node.slots) for node in NODES}
    request = Request(slots=1)
    assert num_fitting(request, in_pool("none"), slots, at_most=99) == 7
    assert num_fitting(request, in_pool("user"), slots, at_most=99) == 3
    assert not could_hold(Request(slots=2), in_pool("sandbox"))


def test_a_level_of_a_newer_agent_counts_as_none() -> None:
    assert is_isolated("sandbox", "user")
    assert not is_isolated("vault", "user")
    assert is_isolated("vault", "none")


def test_the_level_is_taken_from_the_document() -> None:
    assert request_of(load(ResourcesSection, {"isolation": "sandbox"})).isolation == "sandbox"
    assert request_of(load(ResourcesSection, {})).isolation == "none"


def test_a_trial_with_an_image_starts_only_where_a_container_engine_works() -> None:
    nodes = [*NODES, make_node("engine", 1, container_runtime="podman")]
    (found,) = run(nodes, [make_queued(1, 1, images=("a/b",))])
    assert isinstance(found, Placement)
    assert [share.node_id for share in found.shares] == ["id-engine"]
    (waits,) = run(nodes, [make_queued(1, 2, images=("a/b",))])
    assert isinstance(waits, Wait)
    assert "on nodes with a container engine" in waits.reason.english
    image = EnvironmentSection(image="ghcr.io/o/n:1")
    assert request_of(ResourcesSection(), image).is_contained
    assert not request_of(ResourcesSection(), EnvironmentSection()).is_contained


@pytest.mark.parametrize(
    ("rules", "image", "starts"),
    [
        (PoolImages(is_required=True), "", False),
        (PoolImages(is_required=True), "python:3.12", True),
        (PoolImages(allowed=("ghcr.io/acme",)), "", True),
        (PoolImages(allowed=("ghcr.io/acme",)), "ghcr.io/acme/train:2", True),
        (PoolImages(allowed=("ghcr.io/acme/",)), "ghcr.io/acme@sha256:" + "a" * 64, True),
        (PoolImages(allowed=("ghcr.io/acme",)), "ghcr.io/acme-2/train", False),
        (PoolImages(allowed=("docker.io/library",)), "python:3.12", True),
        (PoolImages(allowed=("docker.io/library/python",)), "python:3.12", True),
        (PoolImages(allowed=("docker.io",)), "reg.example:5000/docker.io/x", False),
        (PoolImages(allowed=("reg.example:5000",)), "reg.example:5000/x:1", True),
    ],
)
def test_a_pool_runs_only_jobs_with_images_that_it_takes(
    rules: PoolImages, image: str, starts: bool
) -> None:
    nodes = [make_node("engine", 2, container_runtime="podman", pool_images=rules)]
    (found,) = run(nodes, [make_queued(1, 1, images=(image,))])
    assert isinstance(found, Placement if starts else Wait)
    slots = {node.id: len(node.slots) for node in nodes}
    assert num_fitting(Request(slots=1, images=(image,)), nodes, slots, at_most=9) == 2 * starts
    assert could_hold(Request(slots=2, images=(image,)), nodes) == starts
    # Roles have an image each: all of them must be allowed.
    both = Request(slots=2, images=(image, "quay.io/x/y:1"))
    assert could_hold(both, nodes) == (starts and not rules.allowed)
