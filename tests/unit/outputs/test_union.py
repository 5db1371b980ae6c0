"""Outputs of several nodes as one folder: nothing is hidden, nothing is there twice."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from muster.wire import OutputFile
from muster_server.domain.outputs.union import unite

A, B, C = "a" * 64, "b" * 64, "c" * 64


def kept(path, sha256, **more):
    return OutputFile(path=path, state="kept", size_bytes=1, sha256=sha256, parts=[sha256], **more)


def left_out(path, reason):
    return OutputFile(path=path, state="left_out", size_bytes=9, reason=reason)


CASES = {
    "one node": ({0: [kept("a", A), kept("b", B)]}, [("a", (0,)), ("b", (0,))]),
    "equal files are one": ({0: [kept("a", A)], 1: [kept("a", A)]}, [("a", (0, 1))]),
    "different files are both": (
        {0: [kept("ckpt.pt", A)], 1: [kept("ckpt.pt", B)]},
        [("ckpt.pt", (0,)), ("ckpt.pt @node1", (1,))],
    ),
    "of three nodes two agree": (
        {0: [kept("x", A)], 1: [kept("x", B)], 2: [kept("x", A)]},
        [("x", (0, 2)), ("x @node1", (1,))],
    ),
    "three versions": (
        {0: [kept("x", A)], 1: [kept("x", B)], 2: [kept("x", C)]},
        [("x", (0,)), ("x @node1", (1,)), ("x @node2", (2,))],
    ),
    "only the second node has it": ({0: [], 1: [kept("x", B)]}, [("x", (1,))]),
    "a name that looks like another version": (
        {0: [kept("x", A), kept("x @node1", A)], 1: [kept("x", B)]},
        [("x", (0,)), ("x @node1", (0,)), ("x @node1+", (1,))],
    ),
    "kept here, left out there": (
        {0: [kept("x", A)], 1: [left_out("x", "too large")]},
        [("x", (0,)), ("x @node1", (1,))],
    ),
    "left out for the same reason": (
        {0: [left_out("x", "too large")], 1: [left_out("x", "too large")]},
        [("x", (0, 1))],
    ),
    "a link and a file": (
        {0: [OutputFile(path="x", state="link", target="y")], 1: [kept("x", A)]},
        [("x", (0,)), ("x @node1", (1,))],
    ),
    "nothing": ({}, []),
}


@pytest.mark.parametrize(("manifests", "expected"), CASES.values(), ids=CASES.keys())
def test_the_view_of_all_nodes(manifests, expected):
    assert [(entry.name, entry.node_ranks) for entry in unite(manifests)] == expected


def test_equal_content_is_one_entry_whenever_it_was_written():
    (entry,) = unite({0: [kept("x", A, mtime_ms=1)], 1: [kept("x", A, mtime_ms=2)]})
    assert (entry.file.mtime_ms, entry.is_kept, entry.is_conflict) == (1, True, False)


manifests = st.dictionaries(
    st.integers(0, 4),
    st.dictionaries(
        st.sampled_from(["a", "b", "a @node1", "a @node1+", "c/d"]), st.sampled_from([A, B, C])
    ),
    max_size=4,
)


@given(manifests)
def test_every_content_of_every_node_is_there_under_a_name_of_its_own(given_files):
    files = {
        rank: [kept(path, sha256) for path, sha256 in sorted(found.items())]
        for rank, found in given_files.items()
    }
    entries = unite(files)
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert names == sorted(names)
    there = {(r, e.file.path, e.file.sha256) for e in entries for r in e.node_ranks}
    assert there == {(r, p, s) for r, found in given_files.items() for p, s in found.items()}
    for entry in entries:
        if not entry.is_conflict:
            assert entry.name == entry.file.path
    # Whoever has a path keeps it: a name with @node never takes it away.
    assert {path for found in given_files.values() for path in found} <= set(names)
