"""Checkpoints that are saved on the node's disk first: real shims, real kills."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster.sdk.checkpoints import manifest_of, manifest_text, settle, verify_checkpoint
from muster_agent.outputs.work import TrialWork

SAVES = """
import os, sys, time
from muster.sdk.run import init
run = init()
folder = run.resume_folder()
begin = int((folder / "step").read_text()) if folder else 0
print("from", begin, run.resume_step, folder and folder.parent.name, flush=True)
size = int(os.environ.get("SIZE", "1000"))
for step in range(begin + 1, int(os.environ["UNTIL"]) + 1):
    run.log({"loss": 1.0 / step}, step=step)
    with run.checkpoint(step=step, metrics={"loss": 1.0 / step}) as folder:
        (folder / "step").write_text(str(step))
        (folder / "sub").mkdir()
        (folder / "sub" / "weights").write_bytes(bytes([step % 256]) * size)
    run.flush()
print("saved", flush=True)
while os.environ.get("STAY") and not os.path.exists(os.environ["STAY"]):
    time.sleep(0.02)
"""
ONE = {"slots": [0], "world_size": 1}
LOCAL: dict[str, Any] = {**ONE, "config": {"name": "digits", "checkpoints": {"local": True}}}


def attempt(
    shims: Any, no: int, *, until: int, stay: str = "", size: int = 1000, **more: Any
) -> Any:
    return shims(
        SAVES,
        allocation_id=f"a{no}",
        trial_id=7,
        attempt_no=no,
        variables={"UNTIL": str(until), "STAY": stay, "SIZE": str(size)},
        **{**LOCAL, **more},
    )


def of_steps(shim: Any, *, local: bool) -> list[int]:
    return [r.step for r in shim.of(wire.CheckpointRecord) if r.is_local == local]


def steps_in(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in sorted(folder.glob("step-*"))]


def expected(*shims_: Any) -> list[wire.LocalCheckpoint]:
    """What the server would send with the next attempt: what was saved here and never stored."""
    found: dict[int, wire.LocalCheckpoint] = {}
    for shim in shims_:
        spec = shim.folder.read_spec()
        for record in shim.of(wire.CheckpointRecord):
            if record.is_local:
                found[record.step] = wire.LocalCheckpoint(
                    attempt_no=spec.attempt_no,
                    step=record.step,
                    path=record.path,
                    files=record.files,
                    is_stored=False,
                )
            else:
                found.pop(record.step, None)
    return [one for _, one in sorted(found.items(), reverse=True)]


def refuse(storage: Path) -> None:
    """Put a file where the trial's folder was, so that nothing can be written there."""
    storage.rename(storage.with_name("away"))
    storage.touch()


def allow(storage: Path) -> None:
    storage.unlink()
    storage.with_name("away").rename(storage)


@pytest.fixture
def storage(shims: Any) -> Path:
    return shims.home / "storage" / "trial-7"


@pytest.fixture
def disk(shims: Any) -> Path:
    return TrialWork(shims.home, 7).checkpoints


def test_every_save_is_reported_as_local_and_then_as_stored(
    shims: Any, storage: Path, disk: Path
) -> None:
    shim = attempt(shims, 1, until=5)
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert of_steps(shim, local=True) == of_steps(shim, local=False) == [1, 2, 3, 4, 5]
    assert steps_in(storage) == [1, 2, 3, 4, 5]
    for folder in storage.glob("step-*"):
        manifest = verify_checkpoint(folder)
        assert (folder / "step").read_text() == str(manifest.step)
        assert manifest.metrics == {"loss": 1.0 / manifest.step}
    assert steps_in(disk) == [4, 5], "the disk keeps two"
    assert not list(storage.glob(".tmp-*"))


def test_nothing_is_saved_locally_by_default_nor_on_several_nodes(shims: Any, disk: Path) -> None:
    shim = attempt(shims, 1, until=2, config={"name": "digits"})
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert (of_steps(shim, local=True), of_steps(shim, local=False)) == ([], [1, 2])
    assert not disk.exists()


def test_training_waits_only_while_two_are_not_stored(
    shims: Any, storage: Path, wait_for: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    shim = attempt(shims, 1, until=2, stay=str(go))
    shim.wait_state("READY")
    refuse(storage)
    shim.command("start", rendezvous=None)
    wait_for(lambda: "saved" in shim.printed(0), what="two saves without the storage")
    wait_for(lambda: of_steps(shim, local=True) == [1, 2])
    wait_for(lambda: any("storage refuses" in m.text for m in shim.of(wire.MessageRecord)))
    assert of_steps(shim, local=False) == []
    allow(storage)
    wait_for(lambda: of_steps(shim, local=False) == [1, 2], what="both are stored")
    go.touch()
    assert shim.wait_exit().cause == "success"


def test_a_third_save_waits_for_the_storage(shims: Any, storage: Path, wait_for: Any) -> None:
    shim = attempt(shims, 1, until=3)
    shim.wait_state("READY")
    refuse(storage)
    shim.command("start", rendezvous=None)
    wait_for(lambda: any("storage refuses" in m.text for m in shim.of(wire.MessageRecord)))
    wait_for(lambda: of_steps(shim, local=True) == [1, 2])
    worker = [w for w in shim.of(wire.WorkerRecord) if w.reports][-1]
    before = psutil.Process(worker.pid).cpu_times().user
    wait_for(lambda: psutil.Process(worker.pid).cpu_times().user > before, what="it polls")
    assert "saved" not in shim.printed(0)
    allow(storage)
    assert shim.wait_exit().cause == "success"
    assert of_steps(shim, local=False) == [1, 2, 3]


@pytest.mark.parametrize("who", ["worker", "shim"])
def test_a_restart_here_continues_from_what_only_this_disk_has_and_stores_it(
    shims: Any, storage: Path, wait_for: Any, tmp_path: Path, who: str
) -> None:
    first = attempt(shims, 1, until=2, stay=str(tmp_path / "never"), stop_grace_s=0.5)
    first.wait_state("READY")
    refuse(storage)
    first.command("start", rendezvous=None)
    wait_for(lambda: of_steps(first, local=True) == [1, 2])
    if who == "worker":
        os.kill([w for w in first.of(wire.WorkerRecord) if w.reports][-1].pid, signal.SIGKILL)
        assert first.wait_exit().cause == "killed_by_signal"
        texts = [m.text for m in first.of(wire.MessageRecord)]
        assert any("step-00000001, step-00000002 could not be stored" in text for text in texts)
    else:
        first.process.kill()
        first.process.wait()
        wait_for(lambda: not [p for p in first.folder.processes() if not _end(p)])
    allow(storage)
    assert steps_in(storage) == []
    second = attempt(shims, 2, until=4, local_checkpoints=expected(first))
    second.start()
    assert second.wait_exit().cause == "success"
    assert second.printed(0).startswith("from 2 2 checkpoints\n")
    stored = [r for r in second.of(wire.CheckpointRecord) if not r.is_local]
    assert [(r.attempt_no, r.step) for r in stored] == [(1, 1), (1, 2), (0, 3), (0, 4)]
    assert steps_in(storage) == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["byte", "short", "link", "missing", "manifest", "gone"])
def test_a_damaged_copy_is_passed_over_for_what_the_storage_has(
    shims: Any, storage: Path, disk: Path, wait_for: Any, tmp_path: Path, damage: str
) -> None:
    first = attempt(shims, 1, until=1)
    first.start()
    first.wait_exit()
    (stored,) = [r for r in first.of(wire.CheckpointRecord) if not r.is_local]
    newest = disk / "step-00000002"
    shutil.copytree(disk / "step-00000001", newest)
    files = {**stored.files}
    file = newest / "sub" / "weights"
    if damage == "byte":
        file.write_bytes(b"\xff" + file.read_bytes()[1:])
    elif damage == "short":
        os.truncate(file, 10)
    elif damage == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif damage == "missing":
        file.unlink()
    elif damage == "manifest":
        (newest / "manifest.json").write_text("{")
    else:
        shutil.rmtree(newest)
    here = [
        wire.LocalCheckpoint(
            attempt_no=1, step=2, path="step-00000002", files=files, is_stored=False
        )
    ]
    second = attempt(
        shims, 2, until=3, local_checkpoints=here, resume_from="step-00000001", resume_step=1
    )
    second.start()
    assert second.wait_exit().cause == "success"
    assert second.printed(0).startswith("from 1 1 trial-7\n")
    (said,) = [m for m in second.of(wire.MessageRecord) if m.event == wire.CHECKPOINT_DAMAGED]
    assert (said.resume_step, said.level) == (1, "warning")
    assert "step-00000002" in said.text
    assert steps_in(storage) == [1, 2, 3]
    assert {verify_checkpoint(f).step for f in storage.glob("step-*")} == {1, 2, 3}


def test_what_the_server_does_not_expect_goes_from_the_disk(
    shims: Any, storage: Path, disk: Path
) -> None:
    first = attempt(shims, 1, until=2)
    first.start()
    first.wait_exit()
    second = attempt(shims, 2, until=2, resume_from="step-00000001", resume_step=1)
    second.start()
    second.wait_exit()
    assert second.printed(0).startswith("from 1 1 trial-7\n")
    assert steps_in(disk) == [2]


def test_a_stored_checkpoint_is_read_from_this_disk(shims: Any, storage: Path) -> None:
    first = attempt(shims, 1, until=2)
    first.start()
    first.wait_exit()
    newest = [r for r in first.of(wire.CheckpointRecord) if r.step == 2][-1]
    here = [
        wire.LocalCheckpoint(
            attempt_no=1, step=2, path=newest.path, files=newest.files, is_stored=True
        )
    ]
    second = attempt(
        shims, 2, until=3, local_checkpoints=here, resume_from=newest.path, resume_step=2
    )
    second.start()
    assert second.wait_exit().cause == "success"
    assert second.printed(0).startswith("from 2 2 checkpoints\n")
    assert of_steps(second, local=False) == [3]


def test_a_disk_without_room_saves_to_the_storage_at_once_and_says_so_once(
    shims: Any, storage: Path, disk: Path
) -> None:
    disk.mkdir(parents=True)
    half = disk / ".tmp-step-00000001-1"  # Of a writer that found the disk full.
    script = SAVES.replace(
        "run = init()",
        "run = init()\nimport shutil\nshutil.disk_usage = lambda p: type('U', (), {'free': 1500})",
    )
    shim = shims(
        f"import os\nos.makedirs({str(half)!r})\nopen({str(half / 'w')!r}, 'wb').write(bytes(1000))\n"
        + script,
        trial_id=7,
        variables={"UNTIL": "3"},
        **LOCAL,
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert of_steps(shim, local=False) == [1, 2, 3]
    assert steps_in(storage) == [1, 2, 3]
    texts = [m.text for m in shim.of(wire.MessageRecord)]
    assert len([t for t in texts if "has no room" in t]) == 1


def test_a_job_in_a_sandbox_saves_locally_too(shims: Any, sandbox: Any, storage: Path) -> None:
    first = attempt(shims, 1, until=2, options={"isolation": sandbox})
    first.start()
    assert first.wait_exit().cause == "success", first.log(0, "stderr").read_text()
    assert of_steps(first, local=True) == of_steps(first, local=False) == [1, 2]
    (newest,) = [r for r in first.of(wire.CheckpointRecord) if r.step == 2 and not r.is_local]
    here = wire.LocalCheckpoint(
        attempt_no=1, step=2, path=newest.path, files=newest.files, is_stored=False
    )
    second = attempt(shims, 2, until=3, options={"isolation": sandbox}, local_checkpoints=[here])
    second.start()
    assert second.wait_exit().cause == "success", second.log(0, "stderr").read_text()
    assert second.printed(0).startswith("from 2 2 checkpoints\n")
    assert steps_in(storage) == [1, 2, 3]


@pytest.mark.parametrize("what", ["file", "folder", "pipe"])
def test_no_link_of_a_job_is_followed_to_a_file_of_the_agent(
    shims: Any, storage: Path, disk: Path, tmp_path: Path, what: str
) -> None:
    secret = tmp_path / "private"
    secret.mkdir()
    (secret / "key").write_text("secret")
    manifest = manifest_text(
        manifest_of({"key": settle(secret / "key")}, step=9, epoch=None, metrics=None)
    )
    (secret / "manifest.json").write_text(manifest)
    folder = str(disk / "step-00000009")
    link = (
        f"os.symlink({str(secret)!r}, {folder!r})\n"
        if what == "folder"
        else f"os.mkdir({folder!r}); os.mkfifo({folder + '/manifest.json'!r})\n"
        if what == "pipe"
        else f"os.mkdir({folder!r}); open({folder + '/manifest.json'!r}, 'w').write({manifest!r})\n"
        f"os.symlink({str(secret / 'key')!r}, {folder + '/key'!r})\n"
    )
    shim = shims("import os\n" + link, trial_id=7, **LOCAL)
    shim.start()
    assert shim.wait_exit().cause == "success"
    texts = [m.text for m in shim.of(wire.MessageRecord)]
    assert any("was not stored" in text for text in texts) == (what == "file")
    assert shim.of(wire.CheckpointRecord) == []
    assert steps_in(storage) == []
    assert (secret / "key").read_text() == "secret"


def test_kills_at_any_moment_leave_only_whole_checkpoints_and_lose_none(
    shims: Any, storage: Path, disk: Path, wait_for: Any
) -> None:
    """The shim is killed while checkpoints of 40 MB are hashed, copied, published and registered."""
    rng = random.Random(48)
    done: list[Any] = []
    for no in range(1, 7):
        here = expected(*done)
        stored = steps_in(storage)
        start = (
            {"resume_from": f"step-{stored[-1]:08d}", "resume_step": stored[-1]} if stored else {}
        )
        shim = attempt(shims, no, until=1000, size=40_000_000, local_checkpoints=here, **start)
        shim.start()
        wait_for(lambda shim=shim: of_steps(shim, local=True), what="a save")
        time.sleep(rng.uniform(0.0, 0.4))  # The moment is what the test varies.
        shim.process.kill()
        shim.process.wait()
        wait_for(lambda shim=shim: not [p for p in shim.folder.processes() if not _end(p)])
        done.append(shim)
        for folder in storage.glob("step-*"):
            verify_checkpoint(folder)
        for folder in disk.glob("step-*"):  # a copy that is stored may be half deleted
            if not (storage / folder.name).exists():
                verify_checkpoint(folder)
        registered = {
            r.step for one in done for r in one.of(wire.CheckpointRecord) if not r.is_local
        }
        assert registered <= set(steps_in(storage))
        saved = max(s for one in done for s in of_steps(one, local=True))
        begun = int(shim.printed(0).split()[1])
        assert begun == (max((one.step for one in here), default=0) or max(stored, default=0))
    last = attempt(
        shims,
        7,
        until=saved + 1,
        size=1000,
        local_checkpoints=expected(*done),
        resume_from=f"step-{max(registered):08d}",
        resume_step=max(registered),
    )
    last.start()
    assert last.wait_exit().cause == "success"
    all_saved = {s for one in [*done, last] for s in of_steps(one, local=True)}
    assert all_saved == set(steps_in(storage))


def _end(identity: Any) -> bool:
    try:
        os.kill(identity.pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return False
