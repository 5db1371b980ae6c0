"""The built-in trainer with `checkpoints: {local: true}`: real workers, and what stores for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import wire
from muster.sdk.checkpoints import FolderStore, verify_checkpoint
from muster_agent.shim.local_checkpoints import LocalCheckpoints, LocalStart
from support.training.jobs import Start, wait_for

pytestmark = pytest.mark.torch

TRAINER = {
    "data": "digits", "model": "mlp", "batch_size": 32, "steps": 6, "test": False,
    "validate_every": {"steps": 100},
}  # fmt: skip
EVERY_STEP = {"checkpoints": {"every": {"steps": 1}, "local": True}}


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[list[wire.CheckpointRecord]]:
    """Stores what is saved to `disk`; yields what it has reported."""
    records: list[wire.CheckpointRecord] = []
    disk = tmp_path / "disk"
    disk.mkdir()
    loop = asyncio.new_event_loop()

    async def store() -> None:
        copies = LocalCheckpoints(
            disk,
            FolderStore(tmp_path / "storage"),
            found=LocalStart(),
            record=records.append,
            warn=pytest.fail,
        )
        await copies.run()

    task = loop.create_task(store())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    yield records
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_continue_bitwise_from_what_is_on_the_disk(
    start: Start,
    copied: list[wire.CheckpointRecord],
    tmp_path: Path,
    num_workers: int,
) -> None:
    storage, disk = tmp_path / "storage", tmp_path / "disk"
    where = {
        "MUSTER_CHECKPOINT_DIR": str(storage),
        "MUSTER_CHECKPOINT_LOCAL": str(disk),
    }
    whole = start(
        "whole", workers=num_workers, trainer=TRAINER, document=EVERY_STEP, **where
    ).wait()
    told = [(r["step"], r["is_local"]) for r in whole.lines("checkpoint")]
    assert told == [(step, True) for step in range(1, 7)]
    wait_for(lambda: [r.step for r in copied] == [1, 2, 3, 4, 5, 6])
    assert [verify_checkpoint(f).step for f in sorted(storage.glob("step-*"))] == [1, 2, 3, 4, 5, 6]
    newest = disk / "step-00000005"
    assert verify_checkpoint(newest).files == copied[4].files

    again = start(
        "again",
        workers=num_workers,
        trainer=TRAINER,
        document=EVERY_STEP,
        resume_from=newest,
        **where,
    ).wait()
    for rank in range(num_workers):
        assert again.series("train/loss", rank) == {6: whole.series("train/loss", rank)[6]}
