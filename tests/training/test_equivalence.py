"""Distribution, accumulation, measuring and interruption change nothing about the result."""

from __future__ import annotations

from typing import Any

import pytest

from support.training.jobs import Job, Start, wait_for

pytestmark = pytest.mark.torch

STEPS = 30
RELATIVE = 1e-5
"""Sums of float32 in another order: measured differences are below 1e-6 after 30 steps."""


def trainer(**values: Any) -> dict[str, Any]:
    options = {"width": 8, "rows_per_s": 0, "augment": True}
    return {
        "model": "cnn",
        "steps": STEPS,
        "optimizer": "sgd",
        "lr": 0.05,
        "options": options,
    } | values


def global_loss(job: Job, workers: int) -> list[float]:
    """Mean over the ranks: the loss of the global batch, whose parts are equally large."""
    curves = [job.series("train/loss", rank) for rank in range(workers)]
    return [sum(c[s] for c in curves) / workers for s in range(1, STEPS + 1)]


def test_the_same_global_batch_gives_the_same_training(start: Start) -> None:
    single = start("single", trainer=trainer(batch_size=64)).wait()
    reference = global_loss(single, 1)
    assert reference[-1] < reference[0]

    two = start("two", workers=2, trainer=trainer(batch_size=32)).wait()
    assert global_loss(two, 2) == pytest.approx(reference, rel=RELATIVE)

    accumulated = start(
        "accumulated",
        workers=2,
        trainer=trainer(batch_size=16),
        document={"strategy": {"accumulate": 2}},
    ).wait()
    assert global_loss(accumulated, 2) == pytest.approx(reference, rel=RELATIVE)
    # One all-reduce per step, not per micro-batch.
    sent = [set(job.series("comm/bytes").values()) for job in (two, accumulated)]
    assert sent[0] == sent[1]

    unmeasured = start(
        "unmeasured",
        workers=2,
        trainer=trainer(batch_size=32),
        document={"measure": {"comm": False}},
    ).wait()
    assert global_loss(unmeasured, 2) == global_loss(two, 2)
    assert "comm/exposed_ms" not in unmeasured.rows(0)[20]
    assert unmeasured.rows(0)[20]["time/backward_ms"] > 0

    first, last = (s.series("val/loss")[STEPS] for s in (single, two))
    assert last == pytest.approx(first, rel=RELATIVE)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_killed_and_resumed_equals_uninterrupted(start: Start, workers: int) -> None:
    def settings(**options: Any) -> dict[str, Any]:
        # Dropout, so that the generators' states matter; mid-epoch checkpoints, so that the
        # place in the data does.
        return {
            "workers": workers,
            "trainer": trainer(
                optimizer="adamw",
                lr=0.003,
                options={"width": 8, "rows_per_s": 0, "dropout": 0.3, "warmup_steps": 5} | options,
            ),
            "document": {"checkpoints": {"every": {"steps": 10}}},
        }

    whole = start("whole", **settings()).wait()

    # Slow, so that it can be killed between the checkpoint of step 10 and its end.
    killed = start("killed", **settings(inject=[{"rank": 0, "ms": 60}], prefetch=2))
    checkpoint = killed.checkpoints / "step-00000010"
    wait_for(lambda: checkpoint.exists() and killed.series("train/loss").get(12))
    killed.kill()

    resumed = start("resumed", resume_from=checkpoint, **settings(prefetch=3)).wait()
    for rank in range(workers):
        expected = {s: v for s, v in whole.series("train/loss", rank).items() if s > 10}
        assert resumed.series("train/loss", rank) == expected
    assert resumed.series("val/loss") == {
        s: v for s, v in whole.series("val/loss").items() if s > 10
    }


def test_fewer_workers_than_slots_give_the_same_training(start: Start) -> None:
    """The global batch stays that of the full size: 63 samples on 3, on 2 (32 + 31) and on 1."""

    def settings(workers: int) -> dict[str, Any]:
        return {
            "workers": workers,
            "trainer": trainer(batch_size=21),
            "document": {"resources": {"slots": 3, "min_slots": 1}},
        }

    def losses(job: Job, shares: list[int]) -> list[float]:
        curves = [job.series("train/loss", rank) for rank in range(len(shares))]
        return [
            sum(c[s] * n for c, n in zip(curves, shares, strict=True)) / 63
            for s in range(1, STEPS + 1)
        ]

    full = start("full", **settings(3)).wait()
    reference = losses(full, [21, 21, 21])
    assert reference[-1] < reference[0]
    for workers, shares in ((2, [32, 31]), (1, [63])):
        fewer = start(f"on-{workers}", **settings(workers)).wait()
        assert losses(fewer, shares) == pytest.approx(reference, rel=RELATIVE)
        assert fewer.series("val/loss")[STEPS] == pytest.approx(
            full.series("val/loss")[STEPS], rel=RELATIVE
        )
        rows = fewer.rows(0)
        for row in (rows[10], rows[20]):
            rank, everyone = row["throughput/samples_per_s_rank"], row["throughput/samples_per_s"]
            assert everyone / rank == pytest.approx(63 / shares[0])


def test_a_checkpoint_continues_on_another_number_of_workers(start: Start) -> None:
    def settings(workers: int, **more: Any) -> dict[str, Any]:
        return {
            "workers": workers,
            "trainer": trainer(batch_size=32, **more),
            "document": {
                "resources": {"slots": 2, "min_slots": 1},
                "checkpoints": {"every": {"steps": 10}},
            },
        }

    whole = start("whole", **settings(2)).wait()
    # 2 workers to step 10, 1 to step 20, 2 to the end.
    shrunk = start("shrunk", resume_from=whole.checkpoints / "step-00000010", **settings(1)).wait()
    grown = start("grown", resume_from=shrunk.checkpoints / "step-00000020", **settings(2)).wait()
    expected = global_loss(whole, 2)
    shrunk_loss = shrunk.series("train/loss")
    assert sorted(shrunk_loss) == list(range(11, STEPS + 1))
    for step in range(11, STEPS + 1):
        assert shrunk_loss[step] == pytest.approx(expected[step - 1], rel=RELATIVE)
    for step in range(21, STEPS + 1):
        both = [grown.series("train/loss", rank)[step] for rank in (0, 1)]
        assert sum(both) / 2 == pytest.approx(expected[step - 1], rel=RELATIVE)
    assert grown.series("val/loss")[STEPS] == pytest.approx(
        whole.series("val/loss")[STEPS], rel=RELATIVE
    )


def test_a_damaged_checkpoint_is_passed_over_and_said(start: Start) -> None:
    every = {"checkpoints": {"every": {"steps": 10}}}
    first = start("first", trainer=trainer(), document=every).wait()
    (first.checkpoints / "step-00000020" / "shard-00000.safetensors").write_bytes(b"cut short")
    again = start(
        "again",
        trainer=trainer(),
        document=every,
        resume_from=first.checkpoints / "step-00000020",
    ).wait()
    assert min(again.series("train/loss")) == 11
    (message,) = again.lines("message")
    assert message["level"] == "warning"
    assert "shard-00000.safetensors has 9 bytes instead of" in message["text"]


def test_another_global_batch_is_refused(start: Start) -> None:
    first = start("first", trainer=trainer(steps=10)).wait()
    job = start(
        "again",
        trainer=trainer(batch_size=16),
        resume_from=first.checkpoints / "step-00000010",
    )
    out, _ = job.workers[0].communicate(timeout=60)
    assert job.workers[0].returncode == 2
    assert "made with a global batch of 32, this training has 16" in out
