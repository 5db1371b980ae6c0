"""A script that saves on the node's disk first, on a real stack, while its storage is away."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk.checkpoints import FolderStore, verify_checkpoint
from muster_agent.shim.local_checkpoints import LocalCheckpoints, LocalStart
from support.guides import last_id, shell
from support.stack import Stack, started, wait_for
from support.training.jobs import Job, start_job

SCRIPT = """
import os, time
from pathlib import Path
import muster

run = muster.init()
folder = run.resume_folder()
step = int((folder / "step").read_text()) if folder else 0
print("begins after", step, flush=True)
while not Path(os.environ["ENOUGH"]).exists() or step % 100:
    step += 1
    time.sleep(0.01)
    run.log({"loss": 1 / step}, step=step)
    if step % 100 == 0:
        with run.checkpoint(step=step, metrics={"loss": 1 / step}) as folder:
            (folder / "step").write_text(str(step))
            (folder / "weights").write_bytes(bytes(100_000))
"""
DOCUMENT = """
name: local-first
entrypoint: train.py
launcher: plain
resources: {slots: 1}
stop_grace_s: 2
restarts: {user: 1}
environment: {variables: {ENOUGH: "%s"}}
checkpoints: {local: true}
"""


@pytest.fixture
def stack() -> Iterator[Stack]:
    """One node, so that a restart is on the same one."""
    with started(lambda home: Stack(home, agents=1, environment={})) as stack:
        yield stack


def test_a_restart_continues_from_the_disk_while_the_storage_is_away(
    stack: Stack, tmp_path: Path
) -> None:
    def run(line: str) -> str:
        done = shell(stack, line, code)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT)
    (code / "experiment.yaml").write_text(DOCUMENT % (tmp_path / "enough"))
    run("muster submit experiment.yaml")
    number = last_id(stack)
    with stack.client() as client:
        (trial,) = client.trials(number)

        def states() -> dict[int, str]:
            found: list[dict[str, Any]] = list(client.pages(f"/trials/{trial['id']}/checkpoints"))
            return {c["step"]: c["state"] for c in found}

        wait_for("one is stored", lambda: "complete" in states().values(), 60)
        (storage,) = stack.home.rglob(f"experiment-{number}/trial-1")
        away = storage.with_name("away")
        storage.rename(away)
        storage.touch()
        wait_for("two wait", lambda: list(states().values()).count("local") == 2, 60)
        local = sorted(step for step, state in states().items() if state == "local")
        shown = run(f"muster show {number}.1")
        assert f"Steps {local[0] - 99:,} to {local[1]:,} are only on " in " ".join(shown.split())
        assert "local, on " in run(f"muster checkpoint list {number}.1")
        (worker,) = client.get(f"/trials/{trial['id']}/workers")["items"]
        os.kill(worker["pid"], signal.SIGKILL)

        def begun() -> list[int]:
            lines = client.log_lines(experiment_id=number)
            return [int(line["text"].split()[-1]) for line in lines if "begins" in line["text"]]

        def is_given_up() -> bool:
            events = client.pages(f"/trials/{trial['id']}/events")
            return any("could not be stored in time" in event["message"] for event in events)

        wait_for("the first attempt gives up", is_given_up, 60)
        storage.unlink()
        away.rename(storage)
        wait_for("it restarts", lambda: len(begun()) == 2, 90)
        assert begun() == [0, local[1]]
        newest, *_ = client.get(f"/trials/{trial['id']}")["attempts"]
        assert newest["resume_step"] == local[1]
        (tmp_path / "enough").touch()
        client.wait(number, timeout_s=90)
        assert set(states().values()) == {"complete"}
        folders = sorted(storage.glob("step-*"))
        assert [verify_checkpoint(folder).step for folder in folders] == sorted(states())
        assert client.get(f"/trials/{trial['id']}")["notices"] == []


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


@pytest.mark.torch
@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_built_in_trainer_continues_bitwise_from_the_disk(
    copied: list[wire.CheckpointRecord],
    tmp_path: Path,
    num_workers: int,
) -> None:
    storage, disk = tmp_path / "storage", tmp_path / "disk"

    def start(name: str, **options: Any) -> Job:
        return start_job(tmp_path / name, workers=num_workers, **options)

    where = {
        "MUSTER_CHECKPOINT_DIR": str(storage),
        "MUSTER_CHECKPOINT_LOCAL": str(disk),
    }
    whole = start("whole", trainer=TRAINER, document=EVERY_STEP, **where).wait()
    told = [(r["step"], r["is_local"]) for r in whole.lines("checkpoint")]
    assert told == [(step, True) for step in range(1, 7)]
    wait_for("all are stored", lambda: [r.step for r in copied] == [1, 2, 3, 4, 5, 6])
    assert [verify_checkpoint(f).step for f in sorted(storage.glob("step-*"))] == [1, 2, 3, 4, 5, 6]
    newest = disk / "step-00000005"
    assert verify_checkpoint(newest).files == copied[4].files

    again = start(
        "again",
        trainer=TRAINER,
        document=EVERY_STEP,
        resume_from=newest,
        **where,
    ).wait()
    for rank in range(num_workers):
        assert again.series("train/loss", rank) == {6: whole.series("train/loss", rank)[6]}
