"""Checkpoints of which each node has a part on its own disk; see muster/sdk/local_store.py.

A node that lacks files gets them from the others before anything is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from muster.measure import agreement
from muster.sdk import checkpoints
from muster.sdk.checkpoints import Manifest
from muster.sdk.local_store import LocalPart, LocalStore
from muster.sdk.run import Run

_PIECE_BYTES = 4 * 2**20


def publish(
    run: Run, store: LocalStore, begun: Sequence[tuple[str, Manifest]], *, group: Any
) -> None:
    """Publish what all workers have written: on each node its files, then the checkpoint as a whole.
    Every rank must call it. Raises OSError when a disk refuses, the same on every rank.

    begun: name of the draft and manifest, on rank 0; empty when the storage has got it at once.
    """
    told: list[Any] = [begun[0] if begun else None]
    dist.broadcast_object_list(told, 0, group=group)
    if told[0] is None:
        return
    name, manifest = told[0]
    final, problem = Path(), None
    if run.info.local_rank == 0:
        try:
            content = checkpoints.manifest_text(manifest).encode()
            final = store.publish_part(name, content, manifest.step)
        except OSError as error:
            problem = (run.info.rank, error.errno, error.strerror, error.filename)
    problems: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(problems, problem, group=group)
    for rank, number, text, file in filter(None, problems):
        raise OSError(number, f"rank {rank}: {text}", file)
    if run.info.rank == 0:
        run.reporter.register_checkpoint(final, manifest)


def newest(run: Run, store: LocalStore, *, step: int | None = None) -> Path | None:
    """Return a folder on this node with all files of the newest checkpoint, or of that of a step, that the
    disks of all nodes have together. None if they have none. Every rank must call it."""
    mine = store.parts() if run.info.local_rank == 0 else None
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine, group=agreement.control_group())
    of_nodes: dict[int, dict[int, LocalPart]] = {r: t for r, t in enumerate(told) if t is not None}
    steps = {found for parts in of_nodes.values() for found in parts}
    whole = {}
    for found in sorted(steps, reverse=True):
        have = {rank: parts[found] for rank, parts in of_nodes.items() if found in parts}
        if step in (None, found) and _is_whole(have.values()):
            whole[found] = have
    if not whole:
        return None
    leaders = dist.new_group(list(of_nodes), backend="gloo", group_desc="muster_parts")
    try:
        for found, have in whole.items():
            problem = None
            if mine is not None:
                problem = _exchange(run.info.rank, store, found, have, leaders)
            # Nobody leaves the group before all have joined it.
            if not agreement.agree_any(problem is not None):
                folder = store.to_read(found)
                return folder if folder.is_dir() else store.own_place(found)
        return None
    finally:
        if mine is not None:
            dist.destroy_process_group(leaders)


def _is_whole(parts: Any) -> bool:
    known = list(parts)
    return (
        len({part.digest for part in known}) == 1
        and len({name for part in known for name in part.files}) == known[0].num_files
    )


def _exchange(
    rank: int, store: LocalStore, step: int, have: dict[int, LocalPart], group: Any
) -> str | None:
    """Get the files that this node lacks, and give the others theirs. All first ranks of nodes call it
    together. Return what was wrong; a disk that refuses keeps nobody waiting."""
    folder, source = store.to_read(step), store.own_place(step)
    first, problem = min(have), None
    told: list[Any] = [(source / checkpoints.MANIFEST).read_bytes() if rank == first else None]
    dist.broadcast_object_list(told, first, group=group)
    manifest = checkpoints.parse_manifest(told[0], called=folder.name)
    own = set(have[rank].files) if rank in have else set()
    if own != set(manifest.files):
        try:
            _begin_to_read(folder, source, own, told[0])
        except OSError as error:
            problem = str(error)
    for name, size in manifest.sizes.items():
        holders = [r for r, part in have.items() if name in part.files]
        if len(holders) == dist.get_world_size(group):
            continue
        given = source / name if rank == holders[0] else None
        target = None if name in own or problem else folder / name
        if not _broadcast(given, target, size, manifest.files[name], holders[0], group):
            problem = f"{name} has not arrived as it was saved"
    return problem


def _begin_to_read(folder: Path, source: Path, own: set[str], manifest: bytes) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / checkpoints.MANIFEST).write_bytes(manifest)
    for name in own:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(source / name)


def _broadcast(
    source: Path | None, target: Path | None, size: int, sha256: str, first: int, group: Any
) -> bool:
    """Send a file from the rank `first` to all of a group; `target` says where to write it, if at all.
    Return False if it has not arrived there as it was saved."""
    piece = torch.empty(_PIECE_BYTES, dtype=torch.uint8)
    digest, is_right = hashlib.sha256(), True
    with contextlib.ExitStack() as opened:
        reading = writing = None
        try:
            if source is not None:
                reading = opened.enter_context(source.open("rb"))
            if target is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                writing = opened.enter_context(target.open("wb", buffering=0))
        except OSError:
            is_right = False
        for begin in range(0, size, _PIECE_BYTES):
            part = piece[: min(_PIECE_BYTES, size - begin)]
            view = part.numpy().data
            try:
                if reading is not None:
                    reading.readinto(view)
            except OSError:
                is_right = False
            dist.broadcast(part, first, group=group)
            try:
                if writing is not None:
                    digest.update(view)
                    writing.write(view)
            except OSError:
                is_right = False
        return is_right and (writing is None or digest.hexdigest() == sha256)
