"""Everything is killed and frozen while real trainings run; and the judges see what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from support.chaos import judge_curve, judge_tables, run
from support.chaos.disks import SmallDisk, can_mount
from support.chaos.links import Links
from support.postgres import find_binaries

SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "8"))
DURATION_S = float(os.environ.get("MUSTER_CHAOS_S", "14"))


def test_what_is_promised_holds_while_everything_is_killed_and_frozen() -> None:
    # PostgreSQL is one more that can be killed; without it, what everybody has.
    database = "postgres" if find_binaries() is not None else "sqlite"
    report = run(seed=SEED, duration_s=DURATION_S, database=database, say=print)
    print(report)
    assert report.problems == []
    assert sum(report.blows.values()) >= 5
    assert report.num_points > 300


def curve(num: int = 5) -> tuple[list[int], list[float]]:
    return list(range(1, num + 1)), [1 / step for step in range(1, num + 1)]


def test_a_whole_curve_is_fine() -> None:
    steps, values = curve()
    assert judge_curve(steps, values, num_steps=5) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s, v: (s[:2] + s[3:], v[:2] + v[3:]), "1 missing steps: [3]"),
        (lambda s, v: ([*s, 5], [*v, 1 / 5]), "doubled steps: [5]"),
        (lambda s, v: ([*s, 6], [*v, 1 / 6]), "steps that were never done: [6]"),
        (lambda s, v: (s, [*v[:-1], 7.0]), "wrong values at steps [5]"),
    ],
)
def test_a_curve_with_a_fault_is_found_out(change, problem) -> None:
    steps, values = change(*curve())
    assert judge_curve(steps, values, num_steps=5) == [problem]


def test_the_last_step_may_never_miss() -> None:
    steps, values = curve(4)
    assert judge_curve(steps, values, num_steps=5, may_miss=True) == ["1 missing steps: [5]"]
    assert judge_curve([1, 3], [1.0, 1 / 3], num_steps=3, may_miss=True) == []


def test_tables_in_which_something_is_left_are_found_out() -> None:
    with create_engine("sqlite://").connect() as tables:
        tables.connection.executescript(
            """
            CREATE TABLE node_slots(allocation_id);
            CREATE TABLE allocations(observed);
            CREATE TABLE attempts(trial_id, no, created_at, ended_at);
            INSERT INTO node_slots VALUES (NULL);
            INSERT INTO allocations VALUES ('CLEANED');
            INSERT INTO attempts VALUES (1, 1, '10', '20'), (1, 2, '20', '30'), (2, 1, '11', '40');
            """
        )
        assert judge_tables(tables) == []
        tables.connection.executescript(
            """
            INSERT INTO node_slots VALUES ('a1');
            INSERT INTO allocations VALUES ('RUNNING');
            INSERT INTO attempts VALUES (2, 2, '39', NULL);
            """
        )
        assert judge_tables(tables) == [
            "1 slots are still taken",
            "1 allocations are not cleaned",
            "1 attempts have not ended",
            "1 attempts began before the one before had ended",
        ]


def test_two_workers_of_one_rank_at_once_are_noticed(tmp_path: Path) -> None:
    def worker(attempt: int, rank: int, then: dict[str, object]) -> subprocess.Popen[bytes]:
        script = [{"alone": str(tmp_path)}, {"touch": str(tmp_path / f"up-{attempt}")}, then]
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")},
            "MUSTER_TRIAL_ID": "7",
            "MUSTER_ATTEMPT_NO": str(attempt),
            "RANK": str(rank),
            "WORLD_SIZE": "2",
        }
        command = [sys.executable, "-m", "support.nodes.scripted", json.dumps(script)]
        return subprocess.Popen(command, env=environment, cwd=tmp_path)

    go = {"wait_for_file": str(tmp_path / "go"), "timeout_s": 120}
    first = worker(1, 0, go)
    assert worker(2, 1, {"wait_for_file": str(tmp_path / "up-1"), "timeout_s": 120}).wait(120) == 0
    assert not (tmp_path / "overlaps").exists()  # another rank
    assert worker(3, 0, {"log": "up"}).wait(120) == 0
    (tmp_path / "go").touch()
    assert first.wait(120) == 0
    assert worker(4, 0, {"log": "up"}).wait(120) == 0  # after it has ended
    assert (tmp_path / "overlaps").read_text().splitlines() == [
        "rank 0 of attempt 3 of trial 7 found rank 0 of attempt 1 of trial 7"
    ]


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says back what it hears, and counts how often."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk(peer: socket.socket) -> None:
            with peer, contextlib.suppress(ConnectionError):  # a link that is reset
                while data := peer.recv(100):
                    peer.sendall(data)

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=[peer], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_link_can_be_cut_in_each_way_and_mended(echo: int) -> None:
    with Links(echo, num_links=2) as links:

        def connect(number: int = 0) -> socket.socket:
            return socket.create_connection(("127.0.0.1", links.ports[number]), timeout=30)

        with connect() as peer, connect(1) as other:
            peer.sendall(b"a")
            assert peer.recv(1) == b"a"
            links.set(0, "silent")
            peer.sendall(b"b")
            peer.settimeout(0.1)
            with pytest.raises(TimeoutError):
                peer.recv(1)
            other.sendall(b"c")
            assert other.recv(1) == b"c"  # the other way is open
            links.set(0, "open")
            peer.settimeout(30)
            assert peer.recv(1) == b"b"  # late
            links.set(0, "slow")
            began_at = time.monotonic()
            peer.sendall(b"d")
            assert peer.recv(1) == b"d"
            assert time.monotonic() - began_at >= 0.2  # there and back
            links.set(0, "deaf")
            peer.sendall(b"e")
            links.set(0, "open")
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
        with connect() as peer:
            peer.sendall(b"f")
            assert peer.recv(1) == b"f"
            links.set(0, "reset")
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
            with pytest.raises(ConnectionResetError), connect() as refused:
                refused.recv(1)


@pytest.mark.skipif(not can_mount(), reason="this process may not mount")
def test_a_small_disk_is_full_to_the_last_byte_and_empty_again(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk")
    disk.mount(size_mib=1)
    try:
        (disk.folder / "kept").write_bytes(b"x")
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "more").write_bytes(b"x")
        disk.empty()
        (disk.folder / "more").write_bytes(b"x")
    finally:
        disk.unmount()
