"""Measured times against causes that are known because the test put them there."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from muster.testing.jobs import Job, Start

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]  # importing torch on a busy machine

WORKERS = Path(__file__).with_name("workers")
DELAY_MS = 40


def median(job: Job, name: str, rank: int) -> float:
    return statistics.median(v for s, v in job.series(name, rank).items() if s > 5)


@pytest.mark.parametrize("phase", ["data_wait", "forward"])
def test_a_slow_worker_is_seen_where_it_is_slow_and_by_whom_waits(start: Start, phase: str) -> None:
    inject = [{"rank": 1, "ms": DELAY_MS, "phase": phase}]
    options = {"width": 8, "rows_per_s": 0, "inject": inject}
    job = start("slow", workers=2, trainer={"model": "cnn", "steps": 40, "options": options}).wait()
    slow_part, other = f"time/{phase}_ms", {"data_wait": "forward", "forward": "data_wait"}[phase]
    # The slow one: the delay is in its own part, in no other, and it waits for nobody.
    assert DELAY_MS <= median(job, slow_part, 1) < 1.5 * DELAY_MS
    assert median(job, f"time/{other}_ms", 1) < DELAY_MS / 2
    assert median(job, "comm/exposed_ms", 1) < DELAY_MS / 2
    # The other: all of it is exposed communication, none of it its own backward.
    waited = median(job, "comm/exposed_ms", 0) - median(job, "comm/exposed_ms", 1)
    assert 0.7 * DELAY_MS <= waited <= 1.3 * DELAY_MS
    assert median(job, slow_part, 0) < DELAY_MS / 2
    assert median(job, "time/backward_ms", 0) < DELAY_MS / 2


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
