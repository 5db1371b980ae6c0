"""What is read of torch's flight recorder: kinds, bytes and standing of constructed entries."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from muster.measure.dump_files import MAX_BYTES, decode
from muster.measure.recorder import Recorder, Totals, kind_of, parse, source_of, standings
from muster.measure.uncovered import is_off


def entry(no: int, name: str = "nccl:all_reduce", **more: Any) -> dict[str, Any]:
    return {
        "record_id": no,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": no + 1,
        "p2p_seq_id": 0,
        "profiling_name": name,
        "input_sizes": [[4, 2]],
        "input_dtypes": ["Float"],
        "output_sizes": [[2, 4, 2]],
        "output_dtypes": ["BFloat16"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
    } | more


def dump(*entries: dict[str, Any], enqueued: int = 0, completed: int = 0) -> dict[str, Any]:
    status = {"last_enqueued_collective": enqueued, "last_completed_collective": completed}
    return {"version": "2.10", "entries": list(entries), "pg_status": {"0": status}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:all_gather_into_tensor_coalesced", "all_gather"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("nccl:allreduce_coalesced", "all_reduce"),
        ("nccl:_broadcast_oop", "broadcast"),
        ("nccl:all_to_allv", "all_to_all"),
        ("nccl:send 0->1", "send"),
        ("nccl:recv 0<-1", "recv"),
        ("nccl:coalesced", "coalesced"),
        ("gloo:scatter", "scatter"),
        ("gloo:gather", "gather"),
        ("xccl:something", "something"),
    ],
)
def test_kinds_have_the_names_of_the_measured_group(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_bytes_are_those_of_the_payload() -> None:
    (reduced, gathered, scattered) = parse(
        dump(
            entry(0),
            entry(1, "nccl:_all_gather_base"),
            entry(2, "nccl:barrier", input_sizes=[], input_dtypes=[]),
        )
    ).entries
    assert (reduced.num_bytes, gathered.num_bytes, scattered.num_bytes) == (32, 32, 0)


def test_every_collective_is_counted_once_and_those_that_were_lost_are_known() -> None:
    totals = Totals()
    totals.add(parse(dump(entry(0), entry(1))).entries)
    totals.add(parse(dump(entry(1), entry(2), entry(3, "nccl:send 0->1", is_p2p=True))).entries)
    totals.add(parse(dump(entry(7))).entries)
    assert totals.groups["0"].kinds == {"all_reduce": (4, 128), "send": (1, 32)}
    assert totals.num_missed == 3


def test_the_first_collective_that_is_not_over_tells_where_a_group_stands() -> None:
    frames = [
        {"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/c.py", "line": 3},
        {"name": "step", "filename": "/home/ann/train.py", "line": 42},
    ]
    trace = parse(
        dump(
            entry(0),
            entry(1, state="started", retired=False, frames=frames),
            entry(2, "nccl:broadcast", state="scheduled", retired=False),
            enqueued=3,
            completed=3,  # as gloo leaves it when the last ends before the one before it
        )
    )
    totals = Totals()
    totals.add(trace.entries)
    (found,) = standings(trace, totals)
    assert (found.kind, found.num_enqueued, found.num_completed) == ("all_reduce", 3, 1)
    assert found.source == "train.py:42 in step"


def test_what_nccl_has_retired_unfinished_has_timed_out_and_is_not_over() -> None:
    assert [e.is_over for e in parse(dump(entry(0, state="started"))).entries] == [False]
    # gloo reports no states.
    assert [
        e.is_over for e in parse(dump(entry(0, "gloo:barrier", state="scheduled"))).entries
    ] == [True]


@pytest.mark.parametrize("given", [None, [], {}, {"version": 3}, {"version": "2", "entries": 5}])
def test_what_is_no_dump_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match="flight recorder"):
        parse(given)


def test_wrong_values_in_a_dump_do_no_harm() -> None:
    odd = {
        "record_id": "x",
        "process_group": 5,
        "profiling_name": ["a"],
        "input_sizes": [[10**30, "a"], 4],
        "input_dtypes": [None, {}],
        "collective_seq_id": 10**40,
        "frames": [5, {"filename": "\x1b[31m" + "a" * 10_000, "line": []}],
    }
    (found,) = parse({"version": "2", "entries": [odd, 3], "pg_status": {"0": 1}}).entries
    assert (found.record_id, found.seq, found.group) == (-1, -1, "")
    assert len(found.source) <= 200
    assert "\x1b" not in found.source
    assert source_of("no list") == ""


def test_a_standstill_is_read_once_with_its_lines_and_little_before() -> None:
    now, asked = [0.0], []

    def ring(**what: bool) -> bytes:
        asked.append(what)
        if what.get("includeCollectives") is False:
            return pickle.dumps(dump(enqueued=1))
        return pickle.dumps(dump(entry(0, state="started"), enqueued=1))

    recorder = Recorder(ring, clock=lambda: now[0])
    assert recorder.look()[0].num_enqueued == 1
    num = len(asked)
    now[0] = 1.0
    recorder.look()
    assert asked[num:] == [{"includeCollectives": False}]
    for now[0] in (30.0, 31.0, 32.0):
        assert recorder.look()[0].num_completed == 0
    assert asked.count({"includeStackTraces": True}) == 1


@pytest.mark.parametrize(
    ("environ", "is_without"),
    [
        ({}, False),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, True),
        ({"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, True),
        ({"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, False),
    ],
)
def test_a_ring_of_no_entries_is_known(environ: dict[str, str], is_without: bool) -> None:
    assert is_off(environ) == is_without


def test_a_dump_is_read_without_unpickling_it() -> None:
    frames = [{"name": "step", "filename": "/train.py", "line": 70_000}]
    value = dump(*[entry(no, frames=frames, ratio=0.5, none=None) for no in range(300)])
    assert decode(pickle.dumps(value, protocol=2)) == value


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('was run')",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Harm(), protocol=2),
        pickle.dumps({"entries": [Harm()]}, protocol=4),
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02]q\x00h\x00R.",  # calls what it has
        b"\x80\x02X\xff\xff\xff\xffa",  # a text of 4 GiB, of which one byte is there
        b"\x80\x02h\x05.",
        b"\x80\x02u.",
        b"\x80\x02]].",
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x02",
        b"",
        b"a" * (MAX_BYTES + 1),
    ],
)
def test_what_is_more_than_plain_values_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="this dump"):
        decode(data)


def test_a_value_that_holds_itself_many_times_does_no_harm() -> None:
    nested: list[object] = []
    for _ in range(60):
        nested = [nested, nested]
    given = {"version": "2", "entries": [dict.fromkeys(entry(0), nested)], "pg_status": {}}
    assert parse(decode(pickle.dumps(given, protocol=2))).entries[0].kind == ""
