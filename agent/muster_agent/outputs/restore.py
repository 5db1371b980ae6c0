"""A work folder from the manifest of an earlier attempt.

A manifest is written by agents, into a folder that jobs may write to as well. So nothing in it is
trusted: a path must be a plain one, a file is created anew in a folder that is no link, and its content
must have the digest that the manifest names.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster import wire
from muster_agent.isolation import beneath
from muster_agent.outputs.index import IndexEntry, part_sizes, read_manifest
from muster_agent.outputs.scan import link_inside, signature_of
from muster_agent.outputs.store import OutputStore, manifest_name

TELL_EVERY_BYTES = 10**9


class OutputsDamaged(Exception):
    """A manifest or a part of a file cannot be used; the message is one sentence."""


def choose_source(sources: Sequence[wire.WorkSource], node_rank: int) -> wire.WorkSource | None:
    """Return the manifest to restore: of the newest attempt, that of the same node rank, else of
    the lowest one. None if there is none. Pure."""
    if not sources:
        return None
    newest = max(source.attempt_no for source in sources)
    found = sorted(
        (s for s in sources if s.attempt_no == newest),
        key=lambda s: (s.node_rank != node_rank, s.node_rank),
    )
    return found[0]


def is_current(
    attempt_no: int, node_rank: int, *, source: wire.WorkSource | None, wanted_rank: int
) -> bool:
    """Return whether a folder that an attempt used as a node rank is at least as new as a manifest.
    Pure.

    wanted_rank: rank of this node now. After a swap of ranks the files of its new rank are wanted,
        if they are kept."""
    if source is None or attempt_no > source.attempt_no:
        return True
    if attempt_no < source.attempt_no:
        return False
    return node_rank == wanted_rank or source.node_rank != wanted_rank


def read_source(store: OutputStore, source: wire.WorkSource) -> list[wire.OutputFile]:
    """Return the files of a manifest that can be restored. Raises OutputsDamaged, and OSError with
    ENOENT if it is not there."""
    name = manifest_name(source.node_rank, source.attempt_no, source.seq)
    content = store.read_manifest(name)
    try:
        files = read_manifest(content)
    except ValueError as error:
        raise OutputsDamaged(f"the manifest {name} cannot be read: {error}") from error
    restorable = [file for file in files if file.state != "left_out"]
    for file in restorable:
        try:
            beneath.parts_of(file.path)
        except beneath.LeadsOutside as error:
            raise OutputsDamaged(f"the manifest {name} was refused: {error}") from error
        if file.state == "link" and link_inside(file.path, file.target, "/") != file.target:
            raise OutputsDamaged(
                f"the manifest {name} was refused: {file.path!r} links to something outside"
            )
    return restorable


@dataclass
class _Progress:
    total_bytes: int
    done_bytes: int = 0
    told_bytes: int = 0


def restore(
    store: OutputStore,
    files: Sequence[wire.OutputFile],
    root: int,
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, IndexEntry]:
    """Write the files of a manifest below a folder; what is in their way is replaced.

    tell: takes a word on the progress from time to time.
    Returns what the collector may remember of them. Raises OutputsDamaged and OSError.
    """
    progress = _Progress(sum(part_sizes(files).values()))
    entries = {}
    for file in files:
        if file.state == "link":
            continue
        *folders, name = file.path.split("/")
        parent = beneath.force_folder(root, folders)
        try:
            beneath.remove(parent, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name, flags, 0o600, dir_fd=parent)
            try:
                _fill(fd, file, store, progress, tell)
                os.fchmod(fd, file.mode & 0o777)
                os.utime(fd, ns=(file.mtime_ms * 1_000_000,) * 2)
                signature = signature_of(os.fstat(fd))
            finally:
                os.close(fd)
        finally:
            os.close(parent)
        entries[file.path] = IndexEntry(signature, "kept", _as_kept(file))
    for file in files:  # Links last: none of them leads anywhere while files are written.
        if file.state == "link":
            *folders, name = file.path.split("/")
            parent = beneath.force_folder(root, folders)
            try:
                beneath.remove(parent, name)
                os.symlink(file.target, name, dir_fd=parent)
            finally:
                os.close(parent)
    return entries


def _fill(
    fd: int,
    file: wire.OutputFile,
    store: OutputStore,
    progress: _Progress,
    tell: Callable[[str], None],
) -> None:
    """Write the content of a file and verify it. Raises OutputsDamaged."""
    whole = hashlib.sha256()
    size = 0
    for sha256 in file.parts:
        digest = hashlib.sha256()
        for chunk in store.read(sha256):
            digest.update(chunk)
            whole.update(chunk)
            size += len(chunk)
            progress.done_bytes += len(chunk)
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
            if progress.done_bytes - progress.told_bytes >= TELL_EVERY_BYTES:
                progress.told_bytes = progress.done_bytes
                tell(
                    f"{progress.done_bytes / 1e9:.1f} of {progress.total_bytes / 1e9:.1f} GB of the "
                    "work folder are restored"
                )
        if digest.hexdigest() != sha256:
            raise OutputsDamaged(f"a part of {file.path} does not have the SHA-256 {sha256}")
    if whole.hexdigest() != file.sha256 or size != file.size_bytes:
        raise OutputsDamaged(f"{file.path} is not what its manifest says")
    with contextlib.suppress(OSError):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _as_kept(file: wire.OutputFile) -> wire.OutputFile:
    """Return the entry of a file that has just been written: nobody has it open."""
    return wire.OutputFile(**{**vars(file), "state": "kept"})
