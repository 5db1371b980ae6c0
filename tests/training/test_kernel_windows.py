"""Communication by windows of the profiler, over gloo: the same figures as by the measured group."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import pytest

from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import analyse
from support.training.jobs import PARTS, Start

pytestmark = pytest.mark.torch

WORKERS = Path(__file__).with_name("workers")
Pair = tuple[dict[str, float], dict[str, float]]


def windowed(start: Start, strategy: str, *, workers: int, late_s: float) -> list[Pair]:
    """What windows and the measured group say of the same steps of rank 0."""
    job = start(
        "both",
        workers=workers,
        script=WORKERS / "windowed.py",
        STRATEGY=strategy,
        LATE_S=str(late_s),
        KINETO_LOG_LEVEL="6",
    )
    output = job.workers[0].communicate(timeout=200)[0]
    job.wait()
    pairs = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("both ")]
    assert len(pairs) > 5
    return pairs


def as_gloo(row: dict[str, float], kinds: Sequence[str] = ()) -> dict[str, float]:
    """Counts and bytes that a row has of these kinds, or of all. gloo reduces and scatters by an
    all_reduce, and says so."""
    found: dict[str, float] = {}
    for name, value in row.items():
        _, *parts = name.split("/")
        is_meant = len(parts) == 3 and (not kinds or parts[1] in kinds)
        if is_meant and parts[2] in ("count", "bytes"):
            own = name.replace("reduce_scatter", "all_reduce")
            found[own] = found.get(own, 0.0) + value
    return found


def messages(row: dict[str, float]) -> dict[str, float]:
    """kind → number, over all groups."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if name.endswith(("/send/count", "/recv/count")):
            found[name.split("/")[2]] = found.get(name.split("/")[2], 0.0) + value
    return found


def without_messages(row: dict[str, float]) -> dict[str, float]:
    return {name: v for name, v in row.items() if "/send/" not in name and "/recv/" not in name}


def check_sent(pairs: list[Pair]) -> set[str]:
    """Counts, bytes and groups are those of the measured group, and of messages, which gloo's recorder
    leaves out, counts; returns "group/kind" of the measured ones."""
    found = set()
    for row, measured_row in pairs:
        assert messages(row) == messages(measured_row)
        assert as_gloo(without_messages(row)) == as_gloo(without_messages(measured_row))
        found |= {"/".join(name.split("/")[1:3]) for name in measured_row if name.count("/") == 3}
    return found


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_window_agrees_with_the_measured_group(start: Start, strategy: str) -> None:
    pairs = windowed(start, strategy, workers=2, late_s=0.1)
    check_sent(pairs)
    for name in ("comm/exposed_ms", "comm/total_ms"):
        windowed_ms = statistics.median(windowed[name] for windowed, _ in pairs)
        measured_ms = statistics.median(measured[name] for _, measured in pairs)
        assert measured_ms > 100  # the other rank is late by so much
        assert windowed_ms == pytest.approx(measured_ms, rel=0.25), name


@pytest.mark.parametrize(
    ("strategy", "workers", "sent"),
    [
        ("zero1", 2, {"world/all_reduce", "world/broadcast"}),
        (
            "hsdp",
            4,
            {"mesh_shard/all_gather", "mesh_shard/reduce_scatter", "mesh_replicate/all_reduce"},
        ),
        ("tp", 2, {"world/all_reduce", "pair/all_reduce"}),
        ("pp", 2, {"world/send", "world/recv"}),
    ],
)
def test_a_window_sees_what_other_strategies_send(
    start: Start, strategy: str, workers: int, sent: set[str]
) -> None:
    assert check_sent(windowed(start, strategy, workers=workers, late_s=0.002)) >= sent


def test_an_unchanged_script_reports_communication_by_windows(start: Start) -> None:
    job = start(
        "plain",
        workers=2,
        script=WORKERS / "plain" / "ddp.py",
        DELAY_S="0.1",
        MUSTER_ATTACH="steps",
        MUSTER_KERNEL_WINDOWS="cpu",
        KINETO_LOG_LEVEL="6",
    ).wait()
    rows = {rank: job.rows(rank) for rank in (0, 1)}
    windowed = [
        {step for step, row in of_rank.items() if "comm/timeline_steps" in row}
        for of_rank in rows.values()
    ]
    assert windowed[0]
    assert windowed[0] == windowed[1]
    for step in windowed[0]:
        row = rows[0][step]
        assert row["comm/timeline_steps"] == 1
        assert row["comm/count"] >= 1
        assert row["comm/world/all_reduce/bytes"] >= 4 * (16 * 3 + 3)
        assert sum(row[name] for name in PARTS) == pytest.approx(row["time/step_ms"], rel=1e-6)
    for step in set(rows[0]) - windowed[0] - {min(rows[0])}:
        assert "comm/exposed_ms" not in rows[0][step]
        assert "time/forward_ms" not in rows[0][step]
        assert rows[0][step]["time/step_ms"] > 0
    # Rank 1 loads data slowly: rank 0 waits for it in its collectives.
    ranks = {
        rank: {
            name: {step: row[name] for step, row in of_rank.items() if name in row}
            for name in {n for row in of_rank.values() for n in row}
        }
        for rank, of_rank in rows.items()
    }
    found = analyse(ranks, [ProcessGroup(name="world", ranks=(0, 1))])
    waits = {rank.rank: rank.wait_ms for rank in found.ranks}
    assert waits[0] is not None
    assert waits[1] is not None
    # What else the machine does holds up either of them for some time.
    assert waits[0] - waits[1] > 50
    assert waits[1] < waits[0] / 2


@pytest.mark.parametrize(
    ("script", "kinds"),
    [("ddp.py", ["all_reduce"]), ("fsdp.py", ["all_gather", "reduce_scatter"])],
)
def test_all_steps_are_counted_where_windows_see_a_few(
    start: Start, script: str, kinds: list[str]
) -> None:
    """The recorder's counts and bytes of the steps between windows are those of the measured group."""

    def rows(name: str, **environ: str) -> dict[int, dict[str, float]]:
        job = start(
            name,
            workers=2,
            script=WORKERS / "plain" / script,
            DELAY_S="0",
            MUSTER_ATTACH="steps",
            **environ,
        )
        return job.wait().rows(1)

    recorded = rows("recorded", MUSTER_KERNEL_WINDOWS="cpu", KINETO_LOG_LEVEL="6")
    counted = {step: row for step, row in recorded.items() if "comm/recorder_steps" in row}
    num_windows = sum("comm/timeline_steps" in row for row in recorded.values())
    num_counted = sum(row["comm/recorder_steps"] for row in counted.values())
    assert num_counted + num_windows >= max(recorded) - 2
    assert not any("comm/timeline_steps" in row for row in counted.values())
    measured = rows("measured")
    sent = as_gloo(measured[max(measured)], [*kinds, "all_reduce"])
    assert sent
    for row in counted.values():
        assert as_gloo(row, [*kinds, "all_reduce"]) == pytest.approx(sent)


@pytest.mark.parametrize(
    ("script", "environ"),
    [("ddp.py", {"TORCH_FR_BUFFER_SIZE": "0"}), ("without_recorder.py", {})],
    ids=["ring of no entries", "no recorder"],
)
def test_without_the_recorder_one_sentence_says_what_is_missing_and_training_goes_on(
    start: Start, script: str, environ: dict[str, str]
) -> None:
    job = start(
        "without",
        workers=2,
        script=WORKERS / "plain" / script,
        DELAY_S="0",
        MUSTER_ATTACH="steps",
        MUSTER_KERNEL_WINDOWS="cpu",
        KINETO_LOG_LEVEL="6",
        **environ,
    )
    output = job.workers[0].communicate(timeout=200)[0]
    rows = job.wait().rows(0)
    assert (
        output.count("torch's flight recorder is off (TORCH_FR_BUFFER_SIZE=0) or this torch") == 1
    )
    assert not any("comm/recorder_steps" in row for row in rows.values())
    assert max(step for step, row in rows.items() if "time/step_ms" in row) == 20
