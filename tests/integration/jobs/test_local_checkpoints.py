"""A script that saves on the node's disk first, on a real stack, while its storage is away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk import object_store
from muster.sdk.checkpoints import (
    FolderStore,
    Manifest,
    manifest_of,
    manifest_text,
    settle,
    verify_checkpoint,
)
from muster.sdk.local_store import unstored
from muster.sdk.object_store import ObjectStore
from muster_agent.shim.local_checkpoints import LocalCheckpoints, LocalStart
from support.buckets import Buckets, buckets
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


GANG = """
name: on-two-nodes
trainer: {data: digits, model: mlp, batch_size: 32, steps: 1000, test: false}
resources: {slots: 2, nodes: 2}
stop_grace_s: 2
restarts: {user: 1}
checkpoints: {local: true, every: {steps: 100}}
"""


@pytest.mark.torch
def test_a_trainer_on_two_nodes_continues_from_their_disks(tmp_path: Path) -> None:
    def refused() -> list[dict[str, Any]]:
        return [e for e in events() if "could not be stored in time" in e["message"]]

    with (
        started(lambda home: Stack(home, agents=2, slots=1, environment={})) as stack,
        stack.client() as client,
    ):
        number = client.submit(GANG)["id"]
        (trial,) = client.trials(number)

        def states() -> dict[int, str]:
            found: list[dict[str, Any]] = list(client.pages(f"/trials/{trial['id']}/checkpoints"))
            return {c["step"]: c["state"] for c in found}

        def events() -> list[dict[str, Any]]:
            return list(client.pages(f"/trials/{trial['id']}/events"))

        wait_for("one is stored", lambda: "complete" in states().values(), 60)
        (storage,) = stack.home.rglob(f"experiment-{number}/trial-1")
        away = storage.with_name("away")
        storage.rename(away)
        storage.touch()
        wait_for("two wait", lambda: list(states().values()).count("local") == 2, 60)
        local = sorted(step for step, state in states().items() if state == "local")
        (notice,) = client.get(f"/trials/{trial['id']}")["notices"]
        assert "are only on the disks of " in notice["text"]
        workers = client.get(f"/trials/{trial['id']}/workers")["items"]
        os.kill(next(w["pid"] for w in workers if w["rank"] == 1), signal.SIGKILL)
        wait_for("a node gives up", refused, 60)
        storage.unlink()
        away.rename(storage)
        client.wait(number, timeout_s=120)
        newest, *_ = client.get(f"/trials/{trial['id']}")["attempts"]
        assert newest["resume_step"] == local[1]
        lines = [line["text"] for line in client.log_lines(experiment_id=number)]
        assert any(f"resumed at step {local[1]}" in line for line in lines), lines
        wait_for("all are stored", lambda: set(states().values()) == {"complete"})
        folders = sorted(storage.glob("step-*"))
        assert [verify_checkpoint(folder).step for folder in folders] == sorted(states())
        assert list(storage.glob(".tmp-*")) == []
        assert client.get(f"/trials/{trial['id']}")["notices"] == []


TRAINER = {
    "data": "digits", "model": "mlp", "batch_size": 32, "steps": 6, "test": False,
    "validate_every": {"steps": 100},
}  # fmt: skip
EVERY_STEP = {"checkpoints": {"every": {"steps": 1}, "local": True}}


@contextlib.contextmanager
def storing(
    disk: Path, store: FolderStore | ObjectStore, node_rank: int | None = None
) -> Iterator[list[wire.CheckpointRecord]]:
    """Store what is saved to a disk; yields what has been reported."""
    records: list[wire.CheckpointRecord] = []
    disk.mkdir(exist_ok=True)
    loop = asyncio.new_event_loop()

    async def run() -> None:
        copies = LocalCheckpoints(
            disk,
            store,
            found=LocalStart(),
            node_rank=node_rank,
            record=records.append,
            warn=pytest.fail,
        )
        await copies.run()

    task = loop.create_task(run())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        yield records
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[list[wire.CheckpointRecord]]:
    with storing(tmp_path / "disk", FolderStore(tmp_path / "storage")) as records:
        yield records


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


# ---------------------------------------------------------------- several nodes


@pytest.fixture(scope="module")
def bucket() -> Iterator[Buckets]:
    with buckets("checkpoints") as started:
        yield started


@pytest.fixture(params=["folder", "object store"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[list[FolderStore | ObjectStore], dict[str, str]]:
    """Two nodes' views of one storage, and the variables that tell workers of it."""
    if request.param == "folder":
        storage = tmp_path / "storage"
        return [FolderStore(storage)] * 2, {"MUSTER_CHECKPOINT_DIR": str(storage)}
    bucket = request.getfixturevalue("bucket")
    url = f"{bucket.scheme}://checkpoints/{tmp_path.name}/trial-1"
    transit = [tmp_path / f"transit-{no}" for no in range(2)]
    return [ObjectStore(url, folder) for folder in transit], {
        "MUSTER_CHECKPOINT_DIR": str(tmp_path / "transit-{node}"),
        "MUSTER_CHECKPOINT_URL": url,
    }


@pytest.fixture
def train(tmp_path: Path, stores: Any) -> Any:
    """`train(name, …)` trains on two nodes with two workers each, which save on their own disks first."""
    _, where = stores

    def start(name: str, **options: Any) -> Job:
        trainer = {**TRAINER, **options.pop("trainer", {})}
        return start_job(
            tmp_path / name,
            workers=4,
            nodes=2,
            trainer=trainer,
            document={**EVERY_STEP, "strategy": {"kind": options.pop("strategy", "ddp")}},
            **{**where, "MUSTER_CHECKPOINT_LOCAL": str(tmp_path / "disk-{node}")},
            **options,
        )

    return start


def verified(store: FolderStore | ObjectStore, step: int, tmp_path: Path) -> Manifest:
    place = store.place_of(f"step-{step:08d}")
    if isinstance(store, ObjectStore):
        return object_store.fetch(place, tmp_path / "fetched")[1]
    return verify_checkpoint(place)


@pytest.mark.torch
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_nodes_save_their_parts_and_continue_bitwise_from_what_they_have_together(
    train: Any, stores: Any, tmp_path: Path, strategy: str
) -> None:
    disks = [tmp_path / "disk-0", tmp_path / "disk-1"]
    (first, second), _ = stores
    with storing(disks[0], first, 0) as told, storing(disks[1], second, 1) as told_by_other:
        whole = train("whole", strategy=strategy).wait()
        of_rank_0 = [(r["step"], r["is_local"]) for r in whole.lines("checkpoint")]
        assert of_rank_0 == [(step, True) for step in range(1, 7)]
        wait_for("all are stored", lambda: [r.step for r in told] == [1, 2, 3, 4, 5, 6])
        wait_for("both know it", lambda: not any(unstored(disk) for disk in disks))
        assert told_by_other == [], "one node tells of a checkpoint"
    for record in told:
        assert verified(first, record.step, tmp_path).files == record.files
    kept = [sorted(path.name for path in disk.glob("step-*")) for disk in disks]
    assert kept == [["step-00000005", "step-00000006"]] * 2
    names = [{path.name for path in (disk / "step-00000005").iterdir()} for disk in disks]
    assert names[0] & names[1] == {"manifest.json"}
    assert names[0] | names[1] == {"manifest.json", *told[4].files}

    for disk in disks:
        shutil.rmtree(disk / "step-00000006")
    again = train("again", MUSTER_RESUME_STEP="5", strategy=strategy)
    with storing(disks[0], first, 0), storing(disks[1], second, 1):
        again.wait()
    assert again.lines("message") == []
    for rank in range(4):
        assert again.series("train/loss", rank) == {6: whole.series("train/loss", rank)[6]}


@pytest.mark.torch
@pytest.mark.parametrize("stores", ["folder"], indirect=True)
def test_what_is_not_whole_on_the_disks_is_passed_over(
    train: Any, stores: Any, tmp_path: Path
) -> None:
    """Two saves wait for the storage: nobody stores them here."""
    train("whole", trainer={"steps": 2}).wait()
    disks = [tmp_path / "disk-0", tmp_path / "disk-1"]
    (lost,) = (disks[1] / "step-00000002").glob("shard-00003*")
    lost.unlink()
    with storing(disks[0], stores[0][0], 0), storing(disks[1], stores[0][1], 1):
        again = train("again", trainer={"steps": 4}, MUSTER_RESUME_STEP="2").wait()
    assert sorted(again.series("train/loss")) == [2, 3, 4]
    (told,) = again.lines("message")
    assert (told["event"], told["resume_step"]) == (wire.CHECKPOINT_DAMAGED, 1)
    assert told["text"].endswith("that of step 2 is not whole on the disks of the nodes")


@pytest.mark.parametrize("stores", ["folder", "object store"], indirect=True)
def test_a_part_of_another_attempt_never_completes_a_checkpoint(
    stores: Any, tmp_path: Path
) -> None:
    """The same step was saved before, with other numbers in files of the same length."""

    def save(no: int, content: str) -> list[Path]:
        disks = [tmp_path / f"{no}-disk-{node}" for node in range(2)]
        written = {}
        for node, disk in enumerate(disks):
            folder = disk / "step-00000003"
            folder.mkdir(parents=True)
            (folder / f"shard-{node}").write_text(content)
            written[f"shard-{node}"] = settle(folder / f"shard-{node}")
        manifest = manifest_of(written, step=3, epoch=None, metrics=None)
        for disk in disks:
            (disk / "step-00000003" / "manifest.json").write_text(manifest_text(manifest))
        return disks

    (first, second), _ = stores
    before, after = save(1, "before"), save(2, "after!")
    with storing(before[1], second, 1), storing(after[0], first, 0) as told:
        wait_for(
            "the parts are there",
            lambda: parts_of(first) >= {"shard-0", "shard-1"},
        )
        with storing(after[1], second, 1):
            wait_for("it is stored", lambda: [r.step for r in told] == [3])
    assert verified(first, 3, tmp_path).files == told[0].files
    assert set(unstored(before[1])) == {"step-00000003"}


def parts_of(store: FolderStore | ObjectStore) -> set[str]:
    if isinstance(store, ObjectStore):
        return {name.rpartition("/")[2] for name in object_store.sizes(store.url)}
    drafts = Path(store.place_of("any")).parent.glob(".tmp-step-*")
    return {path.name for draft in drafts for path in draft.iterdir()}
