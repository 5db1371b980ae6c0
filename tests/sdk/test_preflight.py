"""The process of a preflight: real sockets, real gloo, and ports that swallow everything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.launch.preflight import (
    CONNECT_TIMEOUT_S,
    ConnectionListener,
    PreflightRun,
    driver_problem,
    rounds,
    try_devices,
    try_peer,
)

TOKEN = "t" * 32


class Node:
    """One `python -m muster.launch.preflight`."""

    def __init__(self, rank: int, address: str = "127.0.0.1", token: str = TOKEN) -> None:
        self.rank = rank
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "muster.launch.preflight",
                f"--address={address}",
                f"--rank={rank}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        self.say(token)
        self.listening = self.answer()

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def order(self, order: str, **more: Any) -> None:
        self.say(json.dumps({"order": order, **more}))

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def peer(self) -> dict[str, Any]:
        return {"rank": self.rank, "host": self.listening["host"], "port": self.listening["port"]}

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@contextmanager
def running(count: int, **more: Any) -> Iterator[list[Node]]:
    nodes = [Node(rank, **more) for rank in range(count)]
    try:
        yield nodes
    finally:
        assert [node.close() for node in nodes] == [0] * count


@contextmanager
def swallowing() -> Iterator[int]:
    """A port as a firewall makes it: what is sent there is never answered. Its backlog is full."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = int(full.getsockname()[1])
        waiting = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            waiting.append(filler)
        yield port
        for filler in waiting:
            filler.close()


def connect_all(nodes: list[Node], peers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for node in nodes:
        node.order("connect", peers=peers, slots=[])
    return [node.answer() for node in nodes]


@pytest.mark.torch
@pytest.mark.parametrize("count", [2, 3])
def test_all_connect_and_add_up(count: int) -> None:
    with running(count) as nodes:
        found = connect_all(nodes, [node.peer() for node in nodes])
        for rank, answer in enumerate(found):
            assert [link["rank"] for link in answer["links"]] == [
                r for r in range(count) if r != rank
            ]
            assert all(not link["message"] and link["ms"] > 0 for link in answer["links"])
            assert answer["torch_version"]
        assert [bool(a["store_port"]) for a in found] == [True] + [False] * (count - 1)
        store = {"host": "127.0.0.1", "port": found[0]["store_port"]}
        for node in nodes:
            node.order("reduce", store=store, num_nodes=count)
        for answer in [node.answer() for node in nodes]:
            assert answer["problems"] == []
            assert answer["reduce_ms"] > 0
            assert all(not x["message"] and x["ms"] > 0 for x in answer["links"])
            assert len(answer["links"]) == count - 1


@pytest.mark.torch
def test_the_sum_by_the_library_that_training_uses() -> None:
    """With gloo, as there need be no device here; it is NCCL that takes the same way on one."""
    preflight = PreflightRun("127.0.0.1", 0, TOKEN)
    store = {"host": "127.0.0.1", "port": preflight._reducer.open_store()}
    assert preflight._reducer.reduce_on("gloo", "cpu", 1, 30.0) > 0
    nobody_has = 63
    preflight._slots = [nobody_has]
    (problem,) = preflight.reduce({"store": store, "num_nodes": 1})["problems"]
    assert problem.startswith("the all-reduce with NCCL on cuda:63 failed: ")
    (problem,) = try_devices([nobody_has])
    assert problem.startswith("device 63 cannot be used: ")


WHL = "https://download.pytorch.org/whl"


@pytest.mark.parametrize(
    ("torch_cuda", "driver", "problem"),
    [
        ("13.0", (13, 0), ""),
        ("12.8", (13, 1), ""),
        ("12.8", (12, 4), ""),  # any driver of the same major version
        (
            "13.0",
            (12, 8),
            "torch 2.13 is built for CUDA 13.0, and the driver supports CUDA 12.8: install the wheel of "
            f"`pip install torch --index-url {WHL}/cu128` or a newer driver",
        ),
        (
            "13.0",
            (12, 4),
            "torch 2.13 is built for CUDA 13.0, and the driver supports CUDA 12.4: install the wheel of "
            f"`pip install torch --index-url {WHL}/cu126` or a newer driver",
        ),
        (
            None,
            (14, 1),
            "torch 2.13 is built without CUDA, and the driver supports CUDA 14.1: install the wheel of "
            f"`pip install torch --index-url {WHL}/cu130`",
        ),
        (
            "12.8",
            (10, 2),
            "torch 2.13 is built for CUDA 12.8, and the driver supports CUDA 10.2: install a newer driver",
        ),
        ("12.8", (0, 0), "CUDA's driver (libcuda.so.1) is not found where its jobs run"),
    ],
)
def test_the_wheel_to_install_is_named(
    torch_cuda: str | None, driver: tuple[int, int], problem: str
) -> None:
    assert driver_problem("2.13", torch_cuda, driver) == problem


@pytest.mark.torch
def test_a_blocked_port_names_its_rank_and_the_others_work() -> None:
    with running(3) as nodes, swallowing() as port:
        peers = [node.peer() for node in nodes]
        peers[2]["port"] = port
        zero, one, two = connect_all(nodes, peers)
        words = f"no connection to 127.0.0.1:{port} within {CONNECT_TIMEOUT_S:g} s"
        assert [x["message"] for x in zero["links"]] == ["", words]
        assert [x["message"] for x in one["links"]] == ["", words]
        assert [x["message"] for x in two["links"]] == ["", ""]


@pytest.mark.torch
def test_a_rank_that_never_comes_to_the_all_reduce_is_named() -> None:
    with running(2) as nodes:
        found = connect_all(nodes, [node.peer() for node in nodes])
        store = {"host": "127.0.0.1", "port": found[0]["store_port"]}
        nodes[0].order("reduce", store=store, num_nodes=2)
        answer = nodes[0].answer()
        (link,) = answer["links"]
        assert link["rank"] == 1
        assert link["message"].startswith("the all-reduce failed: ")
        assert link["ms"] is None


def test_a_closed_port_and_something_else_that_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    message, took_ms = try_peer("127.0.0.1", port, TOKEN)
    assert (message, took_ms) == (f"no connection to 127.0.0.1:{port}: Connection refused", None)
    # A preflight of others: it knows another token.
    stranger = ConnectionListener("127.0.0.1", "s" * 32)
    message, took_ms = try_peer("127.0.0.1", stranger.port, TOKEN)
    assert message.startswith(f"127.0.0.1:{stranger.port} answered, but not as this preflight")
    assert took_ms is None


def test_where_only_small_messages_pass_it_is_said() -> None:
    """As over a link whose MTU is smaller than both ends believe."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(connection.recv(len(TOKEN))[::-1])
                for _ in range(3):
                    connection.sendall(connection.recv(5)[4:])
                while connection.recv(65536):
                    pass  # the rest is lost on its way back

        thread = threading.Thread(target=serve)
        thread.start()
        message, took_ms = try_peer("127.0.0.1", port, TOKEN)
        thread.join()
    assert message == (
        f"127.0.0.1:{port} was reached, but 256 KiB did not come back within "
        f"{CONNECT_TIMEOUT_S:g} s"
    )
    assert took_ms is None


def test_an_address_that_is_not_its_own_is_said_at_once() -> None:
    node = Node(1, address="192.0.2.77")
    (problem,) = node.listening["problems"]
    assert problem.startswith("it advertises 192.0.2.77, which it cannot listen on: ")
    assert "MUSTER_AGENT_ADDRESS" in problem
    assert node.listening["port"] > 0  # the others try it all the same
    assert node.close() == 0


@pytest.mark.parametrize("count", range(2, 10))
def test_every_pair_meets_once_and_nobody_waits_for_two(count: int) -> None:
    orders = [list(rounds(rank, count)) for rank in range(count)]
    for rank, order in enumerate(orders):
        assert sorted(order) == [r for r in range(count) if r != rank]
    # Played through: everybody waits only for who also waits for them.
    while any(orders):
        met = [
            (a, b)
            for a in range(count)
            for b in range(a)
            if orders[a] and orders[b] and orders[a][0] == b and orders[b][0] == a
        ]
        assert met, orders
        for a, b in met:
            orders[a].pop(0)
            orders[b].pop(0)
