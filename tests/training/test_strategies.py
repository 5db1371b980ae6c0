"""Every strategy against one process with the same global batch, and against itself resumed.

All of them are trained in a few processes that are forked once per world size.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster_server.domain.runtime.pipelines import (
    PipelineOperation,
    WorkerTimeline,
    on_one_clock,
    problem,
)
from support.training.jobs import PARTS, Job
from support.training.strategies import CASES, RESUME_AT, SLOW_MS, STEPS, Case, document

pytestmark = pytest.mark.torch

TO_THE_END = [case for case in CASES if case.stopped_rank is None]
SCRIPT = Path(__file__).with_name("workers") / "strategies.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all trainings, each in <name>/whole and <name>/resumed."""
    folder = tmp_path_factory.mktemp("strategies")
    cases = [
        {
            "name": c.name,
            "world": c.world,
            "document": document(c),
            "resumed": c.resumed,
            "origin": c.origin,
            "stopped_rank": c.stopped_rank,
        }
        for c in CASES
    ]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return folder


def job(trained: Path, name: str, part: str) -> Job:
    return Job(trained / name / part, [])


def losses(job: Job, case: Case) -> dict[int, float]:
    """Step → loss of the global batch: the mean over the ranks that report one."""
    curves = [curve for r in range(case.world) if (curve := job.series("train/loss", r))]
    assert curves
    return {step: sum(c[step] for c in curves) / len(curves) for step in curves[0]}


@pytest.mark.parametrize("case", TO_THE_END, ids=lambda case: case.name)
def test_trains_like_one_process_and_goes_on_where_it_was(trained: Path, case: Case) -> None:
    whole, resumed = (job(trained, case.name, part) for part in ("whole", "resumed"))
    reference = next(c for c in CASES if c.name == case.reference)
    expected = losses(job(trained, reference.name, "whole"), reference)
    assert sorted(expected) == list(range(1, STEPS + 1))
    assert expected[STEPS] < expected[1]
    found = losses(whole, case)
    assert found[STEPS] < found[1]
    assert found == pytest.approx(expected, rel=case.tolerance)
    if not case.resumed:
        return
    continued = losses(resumed, case)
    assert sorted(continued) == list(range(RESUME_AT + 1, STEPS + 1))
    if case.origin is not None:  # of another strategy
        for step, loss in continued.items():
            assert loss == pytest.approx(expected[step], rel=case.tolerance)
        return
    if not case.is_exact:
        for step, loss in continued.items():
            assert loss == pytest.approx(found[step], rel=case.tolerance)
        return
    # Bitwise: the same workers do the same sums.
    assert continued == {s: v for s, v in found.items() if s > RESUME_AT}
    assert resumed.series("val/loss") == whole.series("val/loss")


@pytest.mark.parametrize("case", TO_THE_END, ids=lambda case: case.name)
def test_the_parts_of_a_step_sum_to_it(trained: Path, case: Case) -> None:
    whole = job(trained, case.name, "whole")
    has_stages = "pp" in (case.strategy.get("kind"), *case.strategy.get("mesh", {}))
    for rank in range(case.world):
        rows = [row for row in whole.rows(rank).values() if "comm/exposed_ms" in row]
        assert any(row["comm/bytes"] > 0 for row in rows) == (case.world > 1)
        for row in rows:
            parts = sum(row[part] for part in PARTS) + row.get("pipeline/bubble_ms", 0.0)
            assert parts == pytest.approx(row["time/step_ms"], rel=0.02)
            assert ("pipeline/bubble_ms" in row) == has_stages
            if case.strategy.get("kind") == "ps" and rank == 0:
                continue  # the server computes nothing
            assert row["time/forward_ms"] > 0
            assert row["time/backward_ms"] > 0


@pytest.mark.parametrize(
    "case", [c for c in TO_THE_END if "schedule" in c.strategy], ids=lambda case: case.name
)
def test_a_pipeline_notes_what_a_step_did(trained: Path, case: Case) -> None:
    """Every stage goes forward and backward once with every micro-batch, on one worker."""
    noted = job(trained, case.name, "whole").lines("schedule")
    assert sorted((line["rank"], line["step"]) for line in noted) == [(0, 5), (1, 5)]
    columns = ("kinds", "stages", "micro_batches", "starts_us", "ends_us")
    for line in noted:
        assert problem(*(line[column] for column in columns)) is None
    lanes = [
        WorkerTimeline(
            rank=line["rank"],
            num_left_out=line["num_left_out"],
            operations=tuple(
                PipelineOperation(kind=k, stage=s, micro_batch=m, start_s=a / 1e6, end_s=b / 1e6)
                for k, s, m, a, b in zip(*(line[column] for column in columns), strict=True)
            ),
        )
        for line in sorted(noted, key=lambda line: line["rank"])
    ]
    done = [o for lane in lanes for o in lane.operations]
    forward = sorted((o.stage, o.micro_batch) for o in done if o.kind == "forward")
    stages, micros = 1 + max(s for s, _ in forward), 1 + max(m for _, m in forward)
    assert forward == [(s, m) for s in range(stages) for m in range(micros)]
    whole = {(o.stage, o.micro_batch) for o in done if o.kind == "backward"}
    halves = {(o.stage, o.micro_batch) for o in done if o.kind == "backward_weight"}
    assert whole | halves == set(forward)
    assert not whole & halves
    sent = {(o.kind[5:], o.stage, o.micro_batch) for o in done if o.kind.startswith("send_")}
    received = {(o.kind[5:], o.stage, o.micro_batch) for o in done if o.kind.startswith("recv_")}
    towards = {"forward": 1, "backward": -1}
    assert {(way, s + towards[way], m) for way, s, m in sent} == received
    step = on_one_clock(lanes)
    assert step is not None
    assert step.lanes[1].error_s is not None
    ends = {
        (o.stage, o.micro_batch): o.end_s
        for x in step.lanes
        for o in x.operations
        if o.kind == "forward"
    }
    starts = {
        (o.stage, o.micro_batch): o.start_s
        for x in step.lanes
        for o in x.operations
        if o.kind == "forward"
    }
    for (stage, micro), start in starts.items():
        if stage:
            assert start >= ends[stage - 1, micro] - step.lanes[1].error_s


def test_a_slow_worker_of_an_asynchronous_server_holds_up_nobody(trained: Path) -> None:
    slow = job(trained, "ps-async", "whole")
    assert min(slow.series("time/data_wait_ms", 1).values()) >= SLOW_MS
    # The two others together make more than two updates in one step of the slow one: they do not
    # wait for it, as they would if each step were everybody's.
    assert max(slow.series("train/staleness_updates", 1).values()) > 2
    unbounded = job(trained, "ps-unbounded", "whole")
    # Of every gradient it is known how late it came.
    histogram = {n: v for n, v in unbounded.rows(0)[STEPS].items() if n.startswith("staleness/")}
    assert sum(histogram.values()) == 3 * STEPS
    synchronous = job(trained, "ps", "whole")
    assert set(synchronous.series("train/staleness_updates", 1).values()) == {0.0}


def test_an_unbounded_server_stops_all_after_the_same_step(trained: Path) -> None:
    """However far the slow worker is behind: it does not have to make up for it."""
    stopped = job(trained, "ps-unbounded-stopped", "whole")
    (saved,) = stopped.lines("checkpoint")
    assert 0 < saved["step"] < 100_000
    assert max(stopped.series("train/loss", 0)) == saved["step"]
