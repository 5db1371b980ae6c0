"""Measured times against causes that are known because the test put them there."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster_server.domain.insight.bottleneck import bottleneck
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.insight.steps import StepAnalysis, analyse
from support.training.jobs import Job, Start

pytestmark = pytest.mark.torch

WORKERS = Path(__file__).with_name("workers")
DELAY_MS = 300
"""Much longer than the rest of a step, also on a busy machine; a delay costs no processor time."""
STEPS = 36


def slowed(*ranks: int, phase: str = "data_wait") -> dict[str, Any]:
    inject = [{"rank": rank, "ms": DELAY_MS, "phase": phase} for rank in ranks]
    options = {"width": 8, "rows_per_s": 0, "inject": inject}
    return {"trainer": {"model": "cnn", "steps": STEPS, "options": options}}


DOCUMENTS = {
    "late-data": slowed(1),
    "slow-forward": slowed(1, phase="forward"),
    "equally-slow": slowed(0, 1),
    # As a document says without options: steps of a millisecond or two.
    "fast": {"trainer": {"model": "mlp", "steps": 120, "width": 8}},
    "fast-again": {"trainer": {"model": "mlp", "steps": 120, "width": 8}},
    "unbalanced": {
        "trainer": {
            "model": "gpt",
            "data": "shakespeare",
            "steps": STEPS,
            "options": {
                "depth": 2,
                "width": 32,
                "context": 32,
                "rows_per_s": 0,
                "inject": [{"rank": 1, "ms": DELAY_MS / 2, "phase": "forward"}],
            },
        },
        "strategy": {"kind": "pp", "accumulate": 2},
    },
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them, one after the other, by two workers that are forked once."""
    folder = tmp_path_factory.mktemp("culprits")
    cases = [
        {"name": name, "world": 2, "document": document, "resumed": False}
        for name, document in DOCUMENTS.items()
    ]
    done = subprocess.run(
        [sys.executable, str(WORKERS / "strategies.py"), str(folder)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    return folder


def judged(trained: Path, name: str) -> tuple[Job, StepAnalysis]:
    """What the server says of a training; its first steps pay for connections and caches."""
    job = Job(trained / name / "whole", [])
    ranks = {
        rank: {
            metric: {step: row[metric] for step, row in rows.items() if metric in row}
            for metric in {m for row in rows.values() for m in row}
        }
        for rank in (0, 1)
        for rows in [{s: row for s, row in job.rows(rank).items() if s > 3}]
    }
    groups = {
        g["name"]: ProcessGroup(name=g["name"], ranks=tuple(g["ranks"])) for g in job.lines("group")
    }
    return job, analyse(ranks, list(groups.values()))


def median(job: Job, name: str, rank: int) -> float:
    return statistics.median(v for s, v in job.series(name, rank).items() if s > 3)


# Where other programs take the processor away, one worker may really be slower than the other by
# more than it was made to be, and single steps much longer. So medians are compared, with half of
# a delay that is several times a step; exact shares are those of tests/unit/insight/test_steps.py.


@pytest.mark.parametrize(
    ("name", "phase"), [("late-data", "data_wait"), ("slow-forward", "forward")]
)
def test_a_slow_worker_is_named_with_its_cause(trained: Path, name: str, phase: str) -> None:
    job, found = judged(trained, name)
    culprit = found.culprit
    assert culprit is not None
    assert (culprit.rank, culprit.part) == (1, f"time/{phase}_ms")
    assert culprit.held_up_ms > DELAY_MS / 2
    assert culprit.excess_ms > DELAY_MS / 2
    bound = bottleneck(found)
    assert bound is not None
    assert bound.kind == "waiting"
    assert bound.ms > DELAY_MS / 2
    # The slow one: the delay is in its own part, and it waits for nobody.
    assert median(job, f"time/{phase}_ms", 1) >= DELAY_MS
    assert median(job, "comm/exposed_ms", 1) < DELAY_MS / 2
    # The other: it is exposed communication, and none of it its own backward.
    assert median(job, "comm/exposed_ms", 0) > DELAY_MS / 2
    assert median(job, "time/backward_ms", 0) < DELAY_MS / 2


def test_for_a_delay_that_all_have_nobody_is_blamed(trained: Path) -> None:
    job, found = judged(trained, "equally-slow")
    bound = bottleneck(found)
    assert bound is not None
    assert bound.kind == "data"
    assert found.culprit is None or found.culprit.held_up_ms < DELAY_MS / 2
    assert all(median(job, "time/data_wait_ms", rank) >= DELAY_MS for rank in (0, 1))


def test_the_slow_stage_computes_and_the_other_one_waits(trained: Path) -> None:
    job, found = judged(trained, "unbalanced")
    first, second = found.stages
    assert (first.ranks, second.ranks) == ((0,), (1,))
    assert second.compute_ms > first.compute_ms
    assert found.imbalance is not None
    assert found.imbalance > 0.1
    # Waiting for a stage is bubble, and not communication.
    assert median(job, "pipeline/bubble_ms", 0) > DELAY_MS / 2
    bound = bottleneck(found)
    assert bound is not None
    assert bound.kind == "bubble"
    assert "The slowest stage computes" in bound.reason.english
    assert median(job, "comm/exposed_ms", 0) < DELAY_MS / 2


def test_every_kind_of_collective_is_recorded_and_unchanged(start: Start) -> None:
    start("collectives", workers=2, script=WORKERS / "collectives.py").wait()


def test_a_script_of_one_s_own_is_measured_through_hooks(start: Start) -> None:
    script = Path(__file__).parents[2] / "examples" / "sdk-script" / "train.py"
    job = start("script", workers=2, script=script, hparams={"epochs": 4}).wait()
    rows = [r for r in job.rows(0).values() if "comm/exposed_ms" in r]
    assert rows
    assert all(r["time/forward_ms"] > 0 and r["time/optimizer_ms"] > 0 for r in rows)
    assert len(job.lines("checkpoint")) == 4
    accuracy = job.series("val/accuracy")
    assert accuracy[max(accuracy)] > 0.6


def test_the_plain_script_runs_without_anything_of_ours(start: Start) -> None:
    script = Path(__file__).parents[2] / "examples" / "plain-torchrun" / "train.py"
    job = start("plain", workers=2, script=script)
    job.wait()
    assert not (job.folder / "reports.jsonl").exists()


def test_equal_trainings_of_fast_steps_have_equal_losses_at_every_step(trained: Path) -> None:
    once, again = (Job(trained / name / "whole", []) for name in ("fast", "fast-again"))
    for rank in (0, 1):
        for name in ("train/loss", "train/accuracy"):
            assert sorted(once.series(name, rank)) == list(range(1, 121))
            assert once.series(name, rank) == again.series(name, rank)
        # What is measured is of fewer rows, each over the steps since the one before.
        assert max(once.series("time/step_ms", rank)) == 120


def test_a_process_ends_in_peace_while_gloo_tells_of_a_collective() -> None:
    done = subprocess.run(
        [sys.executable, str(WORKERS / "told_at_exit.py")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
