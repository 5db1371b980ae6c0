"""Files of traces, well-formed and not."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.timeline.arithmetic import breakdown, extent
from muster.timeline.kineto_file import MAX_MEMORY_BYTES, TraceUnreadable, read_file
from muster.timeline.summary import summarize


def kernel(
    name: str, start: float, duration: float, stream: int = 7, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start,
        "dur": duration, "args": {"stream": stream, **args},
    }  # fmt: skip


def nccl(start: float, duration: float, **args: Any) -> dict[str, Any]:
    told = {
        "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
        "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg",
    }  # fmt: skip
    return kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL()", start, duration, 20, **told, **args)


def cpu(name: str, start: float, duration: float, category: str = "cpu_op") -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": duration,
    }


def mark(no: int, start: float, duration: float) -> dict[str, Any]:
    return cpu(f"ProfilerStep#{no}", start, duration, "user_annotation")


def write(path: Path, events: list[Any], **info: Any) -> Path:
    text = json.dumps({"schemaVersion": 1, **info, "traceEvents": events, "traceName": "x"})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_trace_is_summed_up_whole_and_by_step(tmp_path: Path, name: str) -> None:
    path = write(
        tmp_path / name,
        [
            {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
            mark(3, 0, 100),
            mark(4, 100, 100),
            cpu("aten::mm", 0, 190),
            kernel("gemm", 10.125, 50),
            nccl(40.125, 80),
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 150, "dur": 10, "tid": 7},
        ],
        distributedInfo={"backend": "nccl", "rank": 5, "world_size": 8},
    )
    (found,) = summarize([(None, path)])["ranks"]
    assert (found["rank"], found["world_size"], found["device"]) == (5, 8, "gpu")
    assert (found["communication_us"], found["computation_us"]) == (80, 50)
    assert (found["overlap_us"], found["exposed_us"], found["copy_us"]) == (20, 60, 10)
    assert (found["span_us"], found["idle_us"]) == (149.875, 29.875)
    third, fourth = found["steps"]
    assert (third["step"], third["communication_us"], third["idle_us"]) == (3, 59.875, 10.125)
    assert (fourth["step"], fourth["communication_us"], fourth["overlap_us"]) == (4, 20.125, 0)
    assert found["kinds"] == [
        {
            "group": "world", "kind": "all_reduce", "count": 1, "bytes": 2000,
            "communication_us": 80, "exposed_us": 60,
        }
    ]  # fmt: skip


def test_a_replayed_graph_says_no_groups_and_its_time_counts(tmp_path: Path) -> None:
    replayed = {"graph id": 4, "graph node id": 9}
    path = write(
        tmp_path / "t.json",
        [
            kernel("gemm", 0, 10, **replayed),
            kernel("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL()", 5, 10, 21, **replayed),
        ],
    )
    (found,) = summarize([(None, path)])["ranks"]
    assert (found["communication_us"], found["exposed_us"]) == (10, 5)
    (kind,) = found["kinds"]
    assert (kind["group"], kind["kind"], kind["bytes"]) == ("unknown", "reduce_scatter", None)


def test_a_trace_of_processors_says_so(tmp_path: Path) -> None:
    waits = cpu("c10d::allreduce_", 20, 60)
    sent = {**cpu("gloo:all_reduce", 20, 60, "user_annotation"), "tid": 99}
    sent["args"] = {"Input Dims": [[10, 10]], "Input type": ["float"]}
    other_thread = {**cpu("aten::copy_", 0, 100), "tid": 98}
    path = write(
        tmp_path / "t.json",
        [
            cpu("step 0", 0, 100, "user_annotation"),
            cpu("aten::mm", 0, 30),
            waits,
            sent,
            other_thread,
        ],
        distributedInfo={"backend": "gloo", "rank": 1, "pg_config": [{"pg_name": "0"}]},
    )
    (found,) = summarize([(None, path)])["ranks"]
    assert (found["device"], found["rank"]) == ("cpu", 1)
    assert (found["computation_us"], found["communication_us"], found["overlap_us"]) == (30, 60, 10)
    (kind,) = found["kinds"]
    assert (kind["group"], kind["kind"], kind["bytes"]) == ("world", "all_reduce", 400)


def test_four_files_tell_who_waits_for_whom(tmp_path: Path) -> None:
    files = []
    for rank in range(4):
        late = 300 if rank == 1 else 0
        events = [nccl(1e6 * rank + 1000 * n + late, 400 - late, Seq=n) for n in range(5)]
        files.append((None, write(tmp_path / f"trace-rank{rank}.json.gz", events)))
    waiting = summarize(files)["waiting"]
    assert (waiting["collectives"], waiting["transfer_us"]) == (5, 500)
    assert [one["last"] for one in waiting["ranks"]] == [0, 5, 0, 0]
    assert [one["waiting_us"] for one in waiting["ranks"]] == [1500, 0, 1500, 1500]
    assert waiting["pairs"][0] == {"rank": 0, "waits_for": 1, "waiting_us": 1500}
    assert summarize([files[0], files[0]])["waiting"] is None, "one rank twice"


_WHOLE = json.dumps({"schemaVersion": 1, "traceEvents": [kernel("gemm", 0, 5)] * 40}).encode()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "The file is empty."),
        (b" \n", "The file is empty."),
        (gzip.compress(b""), "The file is empty."),
        (_WHOLE[: len(_WHOLE) // 2], "The trace is truncated"),
        (_WHOLE[:-1], "The trace is truncated"),
        (gzip.compress(_WHOLE)[:-30], "The trace is truncated"),
        (gzip.compress(_WHOLE)[:-8] + b"\xff" * 8, "The file is damaged"),
        (b'[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]', "This is not a trace of torch's"),
        (b'{"traceEvents": [{"ph": "X", "cat": "v8", "name": "a"}]}', "This is not a trace of"),
        (b'{"nodes": [], "edges": []}', "This is not a trace of torch's profiler"),
        (b"SQLite format 3\0", "This is not a trace of torch's profiler"),
        (b'{"schemaVersion": ' + b"[" * 200_000, "This is not a trace of torch's profiler"),
        (
            b'{"schemaVersion": "' + b"x" * 9_000_000 + b'"}',
            "The trace has an entry that is longer",
        ),
    ],
    ids=range(13),
)
def test_what_is_no_trace_is_refused_in_a_sentence(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    (tmp_path / "t.json").write_bytes(data)
    with pytest.raises(TraceUnreadable, match=problem) as refused:
        read_file(tmp_path / "t.json")
    assert str(refused.value).count("\n") == 0


def test_events_that_say_nonsense_are_passed_over(tmp_path: Path) -> None:
    good = kernel("gemm", 0, 5)
    wrong: list[Any] = [
        7, [], {}, {**good, "ts": "0"}, {**good, "ts": 1e300}, {**good, "dur": -1},
        {**good, "dur": None}, {**good, "name": 5}, {**good, "cat": []}, {**good, "ts": float("nan")},
        {**nccl(0, 5), "args": "none"}, nccl(0, 5, Seq="x") | {"tid": [[]]},
    ]  # fmt: skip
    trace = read_file(write(tmp_path / "t.json", [*wrong, good]))
    start, end = extent(trace.activities)
    found = breakdown(trace.activities, start_ns=start, end_ns=end)
    assert (found.communication, found.computation) == (5000, 5000)


def test_a_trace_that_unpacks_to_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(b'{"schemaVersion": 1,' + b" " * 50_000_000))
    with pytest.raises(TraceUnreadable, match="longer than 20,000,000 bytes unpacked"):
        read_file(tmp_path / "bomb", max_bytes=20_000_000)


def test_200_mb_are_read_within_the_memory_that_is_stated(tmp_path: Path) -> None:
    """Mostly operations of the processor, as in a real trace, and 130,000 kernels of known time."""
    path = tmp_path / "large.json"
    padding = "x" * 700
    stack = {"args": {"Call stack": padding}}
    events = [
        json.dumps(one).replace('"ts": -1', '"ts": %d')
        for one in (cpu("aten::mm", -1, 8) | stack, kernel("gemm" + padding, -1, 6), nccl(-1, 6))
    ]
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [')
        for n in range(130_000):
            file.write(events[0] % (n * 10) + ",\n" + events[2 if n % 10 == 0 else 1] % (n * 10))
            file.write("]}" if n == 129_999 else ",\n")
    assert path.stat().st_size > 190e6
    script = (
        "import re, sys, pathlib, muster.timeline.summary as s\n"
        "found = s.summarize([(None, pathlib.Path(sys.argv[1]))])['ranks'][0]\n"
        "print(found['computation_us'], found['communication_us'])\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(1024 * int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [float(one) for one in shown[:2]] == [117_000 * 6, 13_000 * 6]
    # Not ru_maxrss, which begins with what the parent held when it forked.
    assert int(shown[2]) < MAX_MEMORY_BYTES / 3
