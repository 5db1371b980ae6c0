"""One training under the real torchrun, looked at from several sides."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from muster.sdk.checkpoints import verify_checkpoint
from support.training.jobs import PARTS, Job, start_job

pytestmark = pytest.mark.torch

EPOCHS = 12


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    trainer = {
        "model": "cnn",
        "data": "digits",
        "epochs": EPOCHS,
        "lr": 0.003,
        "options": {"rows_per_s": 0},
    }
    folder: Path = tmp_path_factory.mktemp("digits")
    return start_job(folder, workers=2, trainer=trainer, torchrun=True).wait()


def test_reaches_95_percent(job: Job) -> None:
    accuracy = job.series("val/accuracy")
    assert len(accuracy) == EPOCHS
    assert accuracy[max(accuracy)] >= 0.95
    loss = job.series("val/loss")
    assert loss[max(loss)] < loss[min(loss)] / 5


def test_every_step_of_every_rank_is_reported(job: Job) -> None:
    planned = {line["num_steps_planned"] for line in job.lines("metrics")} - {None}
    assert planned == {EPOCHS * 22}
    for rank in (0, 1):
        assert sorted(job.series("train/loss", rank)) == list(range(1, EPOCHS * 22 + 1))
        assert max(line["epoch"] for line in job.lines("metrics")) == EPOCHS


def test_parts_sum_to_the_step(job: Job) -> None:
    for rank in (0, 1):
        rows = [row for row in job.rows(rank).values() if "comm/exposed_ms" in row]
        assert len(rows) > 30  # the first 33 are recorded all
        for row in rows:
            parts = sum(row[part] for part in PARTS)
            assert parts == pytest.approx(row["time/step_ms"], rel=0.02)
            assert all(row[part] >= 0 for part in PARTS)
            assert row["comm/total_ms"] == pytest.approx(
                row["comm/exposed_ms"] + row["comm/overlapped_ms"]
            )
            assert 0 <= row["comm/overhead_ratio"] <= 1


def test_bytes_per_step_are_the_parameters_bytes(job: Job) -> None:
    # width 32, depth 2: 1→32→32, 32→64→64 convolutions, 256→128→10 head; float32
    num_params = (9 + 1) * 32 + (9 * 32 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 64
    num_params += (256 + 1) * 128 + (128 + 1) * 10
    counted = [b for s, b in job.series("comm/bytes").items() if s > 5]
    assert set(counted) == {4.0 * num_params}


def test_checkpoints_are_complete_and_come_after_their_metrics(job: Job) -> None:
    records = job.lines("checkpoint")
    assert [r["step"] for r in records] == [22 * e for e in range(1, EPOCHS + 1)]
    for record in records[-2:]:
        manifest = verify_checkpoint(job.checkpoints / record["path"])
        assert manifest.files == record["files"]
        assert sorted(manifest.files) == [
            "index.json",
            "shard-00000.safetensors",
            "shard-00001.safetensors",
            "training.pt",
        ]
    seen: set[int] = set()
    for line in job.lines():
        if line["type"] == "metrics" and line["rank"] == 0:
            seen |= {step for series in line["series"] for step in series["steps"]}
        if line["type"] == "checkpoint":
            assert line["step"] in seen


def test_says_who_it_is(job: Job) -> None:
    last = {line["rank"]: line for line in job.lines("hello")}
    assert [last[r]["backend"] for r in (0, 1)] == ["gloo", "gloo"]
    assert last[1]["world_size"] == 2
    assert last[0]["torch_version"]
    (group,) = {(g["name"], g["kind"], tuple(g["ranks"])) for g in job.lines("group")}
    assert group == ("world", "world", (0, 1))


def test_throughput_adds_up(job: Job) -> None:
    row = job.rows(0)[100]
    assert row["throughput/samples_per_s"] == pytest.approx(
        2 * row["throughput/samples_per_s_rank"]
    )
    assert "throughput/samples_per_s" not in job.rows(1)[100]


def test_measuring_says_what_it_costs(job: Job) -> None:
    # The goal of 1 % is for steps of 50 ms and more; these take 7 ms, and the machine is shared.
    assert statistics.median(job.series("time/instrumentation_pct").values()) < 4
