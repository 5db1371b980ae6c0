"""Images that are pulled by a real engine from a real registry on this machine, and deleted again."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster_agent.containers import images
from muster_agent.containers.cache import CachedImage, ImageCache, mark_excess
from muster_agent.containers.client import EngineFailed, call
from muster_agent.environments.failures import BuildCanceled
from muster_agent.isolation.containers import Engine
from support.nodes import containers
from support.nodes.registry import Registry

LOGIN = "ann:right"


@dataclasses.dataclass
class Node:
    """A node that pulls from a registry."""

    engine: Engine
    registry: Registry
    cache: ImageCache
    log: Path
    pulled: list[str] = dataclasses.field(default_factory=list)

    def name(self, reference: str) -> str:
        return f"{self.registry.address}/{reference}"

    def get(self, reference: str, **changes: Any) -> images.Image:
        given: dict[str, Any] = {
            "policy": "missing",
            "login": self.registry.login,
            "cache": self.cache,
            "log": self.log,
            "is_canceled": lambda: False,
        }
        found = images.get(self.engine, self.name(reference), **{**given, **changes})
        self.pulled.append(found.id)
        return found

    def has(self, image: images.Image) -> bool:
        return image.id in self.ids()

    def ids(self) -> str:
        return call(self.engine, "images", "--all", "--quiet", "--no-trunc")

    def words(self) -> str:
        return self.log.read_text()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    engine, reason = containers.find_engine()
    if engine is None:
        pytest.skip(reason)
    with Registry().serving() as registry:
        engine = containers.with_registry(engine, registry.address, tmp_path)
        cache = ImageCache(tmp_path / "images", limit_bytes=10**12)
        node = Node(engine, registry, cache, tmp_path / "log")
        yield node
        for image_id in set(node.pulled):
            if image_id in node.ids():
                call(engine, "rmi", "--force", image_id)


@pytest.mark.parametrize("login", ["", LOGIN])
def test_an_image_is_pulled_once_and_told_by_its_digest(node: Node, login: str) -> None:
    node.registry.login = login
    digest = node.registry.push("acme/train", "1", content=b"one")
    image = node.get("acme/train:1")
    assert image.digest == f"{node.registry.address}/acme/train@{digest}"
    assert re.fullmatch("[0-9a-f]{64}", image.id)
    assert re.search(
        rf"\[setup\] pulling {node.name('acme/train:1')}\n(.|\n)*\[setup\] pulled ", node.words()
    )
    num_asked = len(node.registry.paths)
    again = node.get("acme/train:1")
    assert (again.id, again.was_pulled) == (image.id, False)
    assert len(node.registry.paths) == num_asked
    moved = node.registry.push("acme/train", "1", content=b"two")
    assert node.get("acme/train:1").id == image.id
    newer = node.get("acme/train:1", policy="always")
    assert newer.digest.endswith(moved)
    assert node.get(f"acme/train@{digest}").id == image.id
    assert "right" not in node.words()


@pytest.mark.parametrize(
    ("trouble", "reference", "fault", "words"),
    [
        ("none", "acme/train:2", "document", "manifest unknown"),
        ("none", f"acme/train@sha256:{'0' * 64}", "document", "manifest unknown"),
        (
            "password",
            "acme/train:1",
            "document",
            "unauthorized|authentication required|no basic auth",
        ),
        ("tampered", "acme/train@DIGEST", "document", "does not match|failed.*verif|mismatch"),
        ("away", "acme/train:1", "node", "refused"),
    ],
)
def test_a_pull_that_fails_says_why_and_whose_fault_it_is(
    node: Node, trouble: str, reference: str, fault: str, words: str
) -> None:
    digest = node.registry.push("acme/train", "1")
    reference = reference.replace("DIGEST", digest)
    login = ""
    if trouble == "password":
        node.registry.login, login = LOGIN, "ann:wrong"
    node.registry.is_tampered = trouble == "tampered"
    if trouble == "away":
        name = "127.0.0.1:1/acme/train:1"
        engine = containers.with_registry(node.engine, "127.0.0.1:1", node.log.parent)
        node = dataclasses.replace(node, engine=engine)
        node.name = lambda _: name  # type: ignore[method-assign]
    with pytest.raises(images.NoImage, match=f"(?i){words}") as raised:
        node.get(reference, login=login)
    assert raised.value.fault == fault
    assert "could not be pulled: " in str(raised.value)
    assert node.cache.entries() == []
    assert "wrong" not in node.words() + str(raised.value)


def test_a_slow_pull_shows_that_it_goes_on_and_ends_when_it_is_canceled(
    node: Node, wait_for: Callable[..., Any]
) -> None:
    node.registry.login = LOGIN
    node.registry.push("acme/large", "1", content=bytes(3_000_000))
    node.registry.go_on.clear()
    is_canceled = threading.Event()
    outcome: list[BaseException] = []

    def pull() -> None:
        try:
            node.get("acme/large:1", is_canceled=is_canceled.is_set)
        except BuildCanceled as error:
            outcome.append(error)

    thread = threading.Thread(target=pull)
    thread.start()
    assert node.registry.is_slow.wait(60)
    wait_for(lambda: "[setup] pulling" in node.words())
    assert "[setup] pulled" not in node.words()
    is_canceled.set()
    thread.join(60)
    assert len(outcome) == 1
    address = node.registry.address
    pulls = [
        p for p in psutil.process_iter(["cmdline"]) if address in " ".join(p.info["cmdline"] or ())
    ]
    assert pulls == []
    node.registry.go_on.set()
    assert node.get("acme/large:1").was_pulled


def test_the_least_recently_used_images_are_deleted_and_only_ours(node: Node) -> None:
    for number in range(4):
        node.registry.push(f"acme/i{number}", "1", content=str(number).encode() + bytes(200_000))
    call(node.engine, "pull", node.name("acme/i3:1"))
    found = [node.get(f"acme/i{number}:1") for number in range(4)]
    ours, (first, second, third, theirs) = found[:3], found
    assert theirs.lock is None
    assert [image.id for image in node.cache.entries()] == [i.id for i in (third, second, first)]
    assert node.cache.size_bytes == sum(image.size_bytes for image in ours)
    small = ImageCache(node.log.parent / "images", limit_bytes=third.size_bytes + 1)
    assert small.trim(node.engine) == ([], []), "jobs use them all"

    for image in ours:
        assert image.lock is not None
        os.close(image.lock)
    os.utime(small._file(first.id), (1, 1))
    os.utime(small._file(second.id), (2, 2))
    assert [image.is_excess for image in small.entries()] == [False, True, True]
    container = call(
        node.engine, "create", "--name", f"keeps-{os.getpid()}", first.id, "/hello"
    ).strip()
    deleted, problems = small.trim(node.engine)
    assert [image.id for image in deleted] == [second.id]
    (problem,) = problems
    assert node.name("acme/i0:1") in problem
    assert [node.has(image) for image in found] == [True, False, True, True]
    call(node.engine, "rm", "--force", container)
    call(node.engine, "tag", third.id, "localhost/kept-by-ann:1")
    none = ImageCache(node.log.parent / "images", limit_bytes=0)
    deleted, problems = none.trim(node.engine)
    assert ([image.id for image in deleted], problems) == ([first.id], [])
    assert [node.has(image) for image in found] == [False, False, True, True]
    assert none.entries() == [], "what somebody has named is not ours any more"


def test_images_go_from_the_least_recently_used_one_on_until_the_rest_fits() -> None:
    def image(number: int, size: int, **more: Any) -> CachedImage:
        return CachedImage(
            id=str(number), names=["n"], size_bytes=size, last_used_at=-number, **more
        )

    def gone(limit: int, *given: CachedImage) -> list[str]:
        return [one.id for one in mark_excess(given, limit_bytes=limit) if one.is_excess]

    three = [image(1, 10), image(2, 20), image(3, 30)]
    assert gone(60, *three) == []
    assert gone(59, *three) == ["3"]
    assert gone(29, *three) == ["2", "3"]
    assert gone(0, *three) == ["1", "2", "3"]
    assert gone(29, three[0], image(2, 20, is_in_use=True), three[2]) == ["1", "3"]


def test_a_broken_engine_is_the_nodes_fault(node: Node) -> None:
    broken = dataclasses.replace(node.engine, path="/bin/false")
    with pytest.raises(images.NoImage) as raised:
        dataclasses.replace(node, engine=broken).get("acme/train:1")
    assert raised.value.fault == "node"
    with pytest.raises(EngineFailed):
        call(broken, "info")
