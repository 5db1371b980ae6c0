"""Trainings of two workers that go wrong while they save, and that go on afterwards.

    python faults.py FOLDER URL

URL: a folder of an object store, which one of them saves to. Where FOLDER/disk-full/first/checkpoints
is a small disk, it is filled while two workers save to it.
Writes FOLDER/<name>/<part>/{reports.jsonl, checkpoints/}, and FOLDER/ends.json: name → part → exit
codes of the ranks, -9 for one that was killed. What goes wrong, goes wrong in the worker itself, in
the middle of writing its file of step AT; everything around it is real.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from strategies import train

import muster
from muster.measure import comm
from muster.sdk import checkpoints, shards
from muster.training.saving import files
from support.chaos.disks import SmallDisk
from support.training.forked import fork
from support.training.strategies import CASES, document

AT = 3
WORLD = 2
PATIENCE_S = 120
ROOM_BYTES = 5_000
STEPS = 4
DOCUMENT = document(next(c for c in CASES if c.name == "ddp")) | {
    "checkpoints": {"every": {"steps": 1}}
}
DOCUMENT["trainer"] |= {"steps": STEPS, "depth": 1, "test": False}
Write = Callable[..., checkpoints.FileFacts]


def killed(write: Write, path: Path, tensors: Any) -> checkpoints.FileFacts:
    path.write_bytes(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still there")


def disk_full(write: Write, path: Path, tensors: Any) -> checkpoints.FileFacts:
    SmallDisk(path.parent.parent).fill()
    return write(path, tensors)


def cut_short(write: Write, path: Path, tensors: Any) -> checkpoints.FileFacts:
    # Fails in the middle of the file, as a quota does.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, hard))
    try:
        return write(path, tensors)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def told_to_stop(write: Write, path: Path, tensors: Any) -> checkpoints.FileFacts:
    os.kill(os.getpid(), signal.SIGTERM)
    return write(path, tensors)


def publishing_refused(write: Write, path: Path, tensors: Any) -> checkpoints.FileFacts:
    # The kernel says of this device that it is full, to anybody, root or not.
    (path.parent / shards.INDEX).symlink_to("/dev/full")
    return write(path, tensors)


FAULTS: dict[str, Callable[..., checkpoints.FileFacts]] = {
    "killed": killed,
    "disk-full": disk_full,
    "cut-short": cut_short,
    "publishing-refused": publishing_refused,
    "told-to-stop": told_to_stop,
}


def work(folder: Path, fault: str, resume: str, url: str, world: int, rank: int) -> None:
    if world > 1:
        dist.init_process_group(
            comm.backend("gloo", measure=False),
            store=dist.FileStore(str(folder.with_suffix(".store")), world),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=PATIENCE_S),
        )
    signal.signal(signal.SIGTERM, lambda *_: muster.init().request_stop("received SIGTERM"))
    if fault in FAULTS and rank == 1:
        write, happens = files.write, FAULTS[fault]

        def faulty(path: Path, tensors: Any) -> checkpoints.FileFacts:
            is_it = checkpoints.folder_name(AT) in str(path)
            return happens(write, path, tensors) if is_it else write(path, tensors)

        files.write = faulty
    train(folder, DOCUMENT, rank, world, resume, url=url)


def run(
    folder: Path, fault: str = "", resume: str = "", *, url: str = "", world: int = WORLD
) -> list[int]:
    children = {}
    folder.parent.mkdir(exist_ok=True)
    for rank in range(world):
        mine = functools.partial(work, folder, fault, resume, url, world, rank)
        children[fork(mine, f"{folder.name}, rank {rank}")] = rank
    codes = [0] * world
    deadline = time.monotonic() + PATIENCE_S
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[children.pop(pid)] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            deadline += PATIENCE_S
        else:
            time.sleep(0.02)
    return codes


def newest(folder: Path) -> Path:
    """What the server would let the next attempt start from: the newest that was registered."""
    lines = [json.loads(line) for line in (folder / "reports.jsonl").open()]
    paths = [line["path"] for line in lines if line["type"] == "checkpoint"]
    return folder / "checkpoints" / paths[-1]


def main() -> None:
    folder = Path(sys.argv[1])
    ends: dict[str, dict[str, list[int]]] = {"whole": {"first": run(folder / "whole" / "first")}}
    for fault in FAULTS:
        here = folder / fault
        disk = SmallDisk(here / "first" / "checkpoints")
        if fault == "disk-full" and not disk.folder.is_mount():
            continue  # only who may mount has a disk to fill
        ends[fault] = {"first": run(here / "first", fault)}
        disk.empty()
        # An attempt that goes on finds the folder as the one before has left it.
        ends[fault]["second"] = run(here / "second", resume=str(newest(here / "first")))
    here = folder / "damaged"
    shutil.copytree(folder / "whole" / "first", here / "first")
    saved = here / "first" / "checkpoints"
    cut = saved / checkpoints.folder_name(AT + 1) / files.file_name(1)
    cut.write_bytes(cut.read_bytes()[:-1])
    flipped = saved / checkpoints.folder_name(AT) / files.file_name(0)
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    wanted = str(saved / checkpoints.folder_name(AT + 1))
    ends["damaged"] = {"second": run(here / "second", resume=wanted)}
    here, url = folder / "bucket", sys.argv[2]
    ends["bucket"] = {
        "first": run(here / "first", "killed", url=url),
        # One worker goes on from what two have saved, and from the step that they did not finish.
        "alone": run(here / "alone", resume=f"{url}/{checkpoints.folder_name(AT)}", world=1),
        "second": run(here / "second", resume=f"{url}/{checkpoints.folder_name(AT - 1)}", url=url),
    }
    (folder / "ends.json").write_text(json.dumps(ends))


if __name__ == "__main__":
    main()
