"""Decisions about the files of a work folder: what to store when, and what to restore."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.isolation import beneath
from muster_agent.outputs.restore import choose_source, is_current
from muster_agent.outputs.scan import is_being_written, judge, link_inside

NOW = (1, 100, 5, 5)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"is_final": True, "is_written": True}, "take"),
        ({"is_written": False}, "take"),
        ({"is_written": None, "before": NOW, "age_s": 31.0}, "take"),
        ({"is_written": None, "before": NOW, "age_s": 29.0}, "wait"),
        ({"is_written": None, "before": (1, 90, 4, 4), "age_s": 31.0}, "take_prefix"),
        ({"is_written": True}, "wait"),
        ({"is_written": True, "before": NOW}, "take_prefix"),
        ({"is_written": True, "before": (2, 90, 4, 4)}, "wait"),
        ({"is_written": True, "before": (1, 110, 4, 4)}, "wait"),
        ({"is_written": True, "before": NOW, "kept": "growing", "kept_bytes": 90}, "take_prefix"),
        ({"is_written": True, "before": NOW, "kept": "kept", "kept_bytes": 90}, "compare"),
        ({"is_written": True, "before": NOW, "kept": "kept", "kept_bytes": 101}, "wait"),
        (
            {
                "is_written": True,
                "before": NOW,
                "kept": "kept",
                "kept_bytes": 90,
                "kept_signature": (9, 90, 4, 4),
            },
            "wait",
        ),
    ],
)
def test_when_a_file_is_stored(facts: dict[str, Any], verdict: str) -> None:
    known = {
        "before": None,
        "kept": "",
        "kept_signature": (1, 90, 4, 4),
        "kept_bytes": 0,
        "is_written": None,
        "age_s": 0.0,
        "is_final": False,
        **facts,
    }
    assert judge(NOW, **known) == verdict


@pytest.mark.skipif(not hasattr(fcntl, "F_SETLEASE"), reason="leases are Linux's")
def test_a_file_that_is_open_for_writing_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    fd = os.open(path, os.O_RDONLY)
    try:
        assert is_being_written(fd) is False
        with path.open("r+b"):
            assert is_being_written(fd) is True
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        assert is_being_written(fd) is True
        mapped.close()
        assert is_being_written(fd) is False
    finally:
        os.close(fd)


def source(rank: int, attempt: int) -> wire.WorkSource:
    return wire.WorkSource(
        node_rank=rank,
        attempt_no=attempt,
        seq=1,
        node_id="n1",
        storage_id="s1",
        storage_url="",
        folder="experiment-1/trial-1/outputs",
        size_bytes=1,
    )


@pytest.mark.parametrize(
    ("sources", "rank", "chosen"),
    [
        ([], 0, None),
        ([(0, 1), (1, 1)], 1, (1, 1)),
        ([(0, 1), (1, 1)], 2, (0, 1)),
        ([(0, 2), (1, 1)], 1, (0, 2)),
        ([(0, 1), (2, 2), (1, 2)], 0, (1, 2)),
    ],
)
def test_which_manifest_is_restored(
    sources: list[tuple[int, int]], rank: int, chosen: tuple[int, int] | None
) -> None:
    found = choose_source([source(*one) for one in sources], rank)
    assert chosen == (None if found is None else (found.node_rank, found.attempt_no))


@pytest.mark.parametrize(
    ("used_by", "from_", "wanted_rank", "verdict"),
    [
        ((1, 0), None, 0, True),
        ((2, 0), (0, 1), 0, True),
        ((1, 0), (0, 1), 0, True),
        ((1, 0), (0, 2), 0, False),
        ((1, 1), (0, 1), 0, False),  # The ranks were swapped.
        ((1, 1), (0, 1), 2, True),  # Nothing of its own rank is kept.
    ],
)
def test_when_the_folder_of_a_node_is_good_enough(
    used_by: tuple[int, int], from_: tuple[int, int] | None, wanted_rank: int, verdict: bool
) -> None:
    wanted = None if from_ is None else source(*from_)
    assert is_current(*used_by, source=wanted, wanted_rank=wanted_rank) is verdict


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("latest", "run-1", "run-1"),
        ("a/latest", "../b/./c", "../b/c"),
        ("a/latest", "../../etc", None),
        ("latest", "/etc/passwd", None),
        ("latest", "/job/files/a", "a"),
        ("a/latest", "/job/files", ".."),
        ("latest", "", None),
    ],
)
def test_where_a_link_leads(path: str, target: str, inside: str | None) -> None:
    assert link_inside(path, target, "/job/files") == inside


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/../b", "..", "a\0b", "x" * 256])
def test_paths_that_are_none_are_refused(path: str) -> None:
    with pytest.raises(beneath.LeadsOutside):
        beneath.parts_of(path)


def test_no_folder_is_entered_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    root = beneath.open_root(tmp_path / "root")
    try:
        with pytest.raises(NotADirectoryError):
            beneath.open_folder(root, ["link"])
        with pytest.raises(NotADirectoryError):
            beneath.open_folder(root, ["link", "new"], create=True)
        os.close(beneath.force_folder(root, ["link", "new"]))
    finally:
        os.close(root)
    assert (tmp_path / "root" / "link" / "new").is_dir()
    assert not (tmp_path / "root" / "link").is_symlink()
    assert not list((tmp_path / "outside").iterdir())
