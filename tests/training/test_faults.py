"""What goes wrong while two workers save: afterwards the curve is the one of a training without it,
and nothing is continued from a bad checkpoint. Why the bitwise comparison holds on any machine: the
same workers do the same sums in the same order, whatever the time between them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.sdk import checkpoints
from support.buckets import buckets
from support.chaos.disks import SmallDisk, can_mount
from support.training.jobs import Job
from support.training.training_faults import names

pytestmark = pytest.mark.torch

SCRIPT = Path(__file__).with_name("workers") / "faults.py"
AT, STEPS = 3, 4


class Played:
    def __init__(self, folder: Path, said: str, stored: list[str]) -> None:
        """stored: objects that are in the bucket in the end."""
        self.folder, self.said, self.stored = folder, said, stored
        self.ends = json.loads((folder / "ends.json").read_text())

    def losses(self, name: str, part: str) -> dict[int, dict[int, float]]:
        return {rank: self.job(name, part).series("train/loss", rank) for rank in range(2)}

    def job(self, name: str, part: str) -> Job:
        return Job(self.folder / name / part, [])

    def saved(self, name: str, part: str) -> list[int]:
        """Steps that were published, each of them intact; and registered, just those."""
        folder = self.folder / name / part / "checkpoints"
        found = [checkpoints.verify_checkpoint(f).step for f in sorted(folder.glob("step-*"))]
        assert [r["step"] for r in self.job(name, part).lines("checkpoint")] == found
        return found

    def goes_on_like_the_whole(self, name: str, after: int) -> None:
        whole = self.losses("whole", "first")
        expected = {
            rank: {s: v for s, v in curve.items() if s > after} for rank, curve in whole.items()
        }
        assert self.losses(name, "second") == expected
        assert sorted(expected[0]) == list(range(after + 1, STEPS + 1))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("faults")
    disk = SmallDisk(folder / "disk-full" / "first" / "checkpoints")
    with contextlib.ExitStack() as undo:
        s3 = undo.enter_context(buckets("checkpoints"))
        if can_mount():
            disk.mount(size_mib=1)
            undo.callback(disk.unmount)
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(folder), "s3://checkpoints/trial-1"],
            capture_output=True,
            text=True,
            timeout=540,
        )
        stored = s3.keys("s3://checkpoints/trial-1/")
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
        names = [key.removeprefix("s3://checkpoints/trial-1/") for key in stored]
        yield Played(folder, done.stdout, names)


def test_without_a_fault_every_step_is_saved(played: Played) -> None:
    assert played.ends["whole"] == {"first": [0, 0]}
    assert {*played.ends, "disk-full"} == {"whole", *names("workers")}, "what is documented is done"
    assert played.saved("whole", "first") == list(range(1, STEPS + 1))


def test_a_worker_killed_while_it_saves(played: Played) -> None:
    first, second = played.ends["killed"]["first"], played.ends["killed"]["second"]
    assert (first[1], second) == (-signal.SIGKILL, [0, 0])
    assert first[0] != 0
    assert played.saved("killed", "first") == [1, 2]
    played.goes_on_like_the_whole("killed", 2)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("disk-full", "[Errno 28] rank"),  # a disk of 1 MiB; whichever worker is refused first
        ("cut-short", "[Errno 27] rank 1: File too large"),  # a limit, in the middle of a file
        ("publishing-refused", "[Errno 28] No space left on device"),  # worker 0 writes the index
    ],
)
def test_a_disk_that_refuses_while_workers_save(played: Played, fault: str, said: str) -> None:
    """The first needs a disk of its own. Who may not mount one has the other two, as real."""
    if fault == "disk-full" and fault not in played.ends:
        assert not can_mount()
        return
    assert played.ends[fault] == {"first": [1, 1], "second": [0, 0]}
    assert played.said.count(said) >= 2, "on every rank"
    assert played.saved(fault, "first") == [1, 2]
    played.goes_on_like_the_whole(fault, 2)


def test_sigterm_while_a_checkpoint_is_saved(played: Played) -> None:
    """Both are there: the one that was under way, and the one of the step the ranks agreed on."""
    assert played.ends["told-to-stop"] == {"first": [0, 0], "second": [0, 0]}
    *_, last = saved = played.saved("told-to-stop", "first")
    assert saved == list(range(1, last + 1))
    assert AT <= last <= STEPS
    if last < STEPS:
        played.goes_on_like_the_whole("told-to-stop", last)


def test_shards_that_are_cut_short_or_changed_are_passed_over(played: Played) -> None:
    assert played.ends["damaged"]["second"] == [0, 0]
    texts = [m["text"] for m in played.job("damaged", "second").lines("message")]
    assert len(texts) == 2
    assert "shard-00001.safetensors has" in texts[0]
    assert "shard-00000.safetensors does not have the SHA-256" in texts[1]
    played.goes_on_like_the_whole("damaged", 2)


def test_a_worker_killed_while_it_saves_into_a_bucket(played: Played) -> None:
    first = played.ends["bucket"]["first"]
    assert first[1] == -signal.SIGKILL
    assert [r["step"] for r in played.job("bucket", "first").lines("checkpoint")] == [1, 2]
    # The next attempt, of as many workers: bitwise, and every step is in the bucket in the end.
    assert played.ends["bucket"]["second"] == [0, 0]
    played.goes_on_like_the_whole("bucket", 2)
    files = ["index.json", "manifest.json", "shard-00000.safetensors", "shard-00001.safetensors"]
    assert played.stored == [
        f"step-{step:08d}/{file}"
        for step in range(1, STEPS + 1)
        for file in [*files, "training.pt"]
    ]
    for part in ("first", "second"):
        left = (played.folder / "bucket" / part / "checkpoints").rglob("*.safetensors")
        assert [p for p in left if "sending" in p.parts and "00000003" not in str(p)] == []


def test_one_worker_goes_on_from_what_two_have_put_into_a_bucket(played: Played) -> None:
    assert played.ends["bucket"]["alone"] == [0]
    alone = played.job("bucket", "alone")
    (said,) = [m["text"] for m in alone.lines("message")]
    assert "step-00000003: no readable manifest.json" in said
    whole = played.losses("whole", "first")
    # Of one process the loss is that of the whole batch, of several the mean of theirs.
    expected = {s: (v + whole[1][s]) / 2 for s, v in whole[0].items() if s > 2}
    assert alone.series("train/loss") == pytest.approx(expected, rel=2e-5)
