"""Files of a trial's outputs as one stream: a file as it is, several as a tar archive."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from muster import wire
from muster.sdk.checkpoints import CheckpointDamaged, read_manifest
from muster_agent.isolation import beneath
from muster_agent.outputs.store import OutputStore, is_absent
from muster_agent.outputs.work import MEDIA

_BLOCK = tarfile.BLOCKSIZE
_CHECKPOINT = re.compile(r".*/step-\d{8,}")
_READ_BYTES = 2**20


class PartSource(Protocol):
    """Where parts of files are read from."""

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yield the content of a part, unverified. Raises OSError."""
        ...


class WithUncollected:
    """A store, and behind it the media in a work folder of this node that no collection has stored yet.
    Their names are digests, so they do not change."""

    def __init__(
        self,
        open_store: Callable[[], OutputStore],
        work: Path | None,
        files: Sequence[wire.OutputFile],
    ) -> None:
        """Create the source; `open_store` raises OSError while nothing was ever collected."""
        self._open_store = open_store
        self._work = work
        self._media = {
            file.sha256: file for file in files if file.path.startswith("/".join((*MEDIA, "")))
        }
        self._store: OutputStore | None = None

    def read(self, sha256: str) -> Iterator[bytes]:
        try:
            if self._store is None:
                self._store = self._open_store()
            yield from self._store.read(sha256)
        except OSError as error:
            file = self._media.get(sha256)
            if not is_absent(error) or file is None or self._work is None:
                raise
            yield _uncollected(self._work, file)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _uncollected(work: Path, file: wire.OutputFile) -> bytes:
    """Return the content of a file of a work folder. Raises OSError."""
    *folders, name = beneath.parts_of(file.path)
    root = beneath.open_root(work)
    try:
        with beneath.folder(root, folders) as parent:
            fd = beneath.open_file(name, parent)
    finally:
        os.close(root)
    with os.fdopen(fd, "rb") as opened:
        return opened.read(file.size_bytes + 1)


def is_checkpoint_folder(path: str) -> bool:
    """Return whether a path of the storage is the folder of a checkpoint that the SDK saved, which
    holds its files under their names, unlike those of outputs."""
    return _CHECKPOINT.fullmatch(path) is not None


def checkpoint_file(folder: Path, file: wire.OutputFile) -> tuple[int, Iterator[bytes]]:
    """Return the size in bytes of a file of a checkpoint's folder, and its content, whose digest is
    verified on the way: reading raises CheckpointDamaged and OSError.

    Raises CheckpointDamaged for a file that the checkpoint does not have, or has with other content.
    """
    manifest = read_manifest(folder)
    if manifest.files.get(file.path) != file.sha256:
        raise CheckpointDamaged(
            f"{folder.name} has other content for {file.path}: it was saved again since"
        )
    return manifest.sizes[file.path], _verified(folder, file)


def _verified(folder: Path, file: wire.OutputFile) -> Iterator[bytes]:
    digest = hashlib.sha256()
    root = beneath.open_root(folder)
    try:
        *folders, name = beneath.parts_of(file.path)
        with beneath.folder(root, folders) as parent:
            fd = beneath.open_file(name, parent)
    finally:
        os.close(root)
    with os.fdopen(fd, "rb") as opened:
        while piece := opened.read(_READ_BYTES):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != file.sha256:
        raise CheckpointDamaged(f"{file.path} does not have the SHA-256 of the manifest")


def opened_files(
    store: PartSource, files: Sequence[wire.OutputFile]
) -> tuple[int, Iterator[bytes]]:
    """Return the size in bytes of what is sent, and its content, whose digests are verified on the
    way: reading raises CheckpointDamaged and OSError.

    Raises CheckpointDamaged for a file that is not in the storage.
    """
    for file in files:
        _require_stored(file)
    if len(files) == 1 and files[0].state != "link":
        return files[0].size_bytes, _content(store, files[0])
    heads = [_head(file) for file in files]
    padded = sum(_padded(file.size_bytes) for file in files if file.state != "link")
    return sum(map(len, heads)) + padded + 2 * _BLOCK, _archive(store, files, heads)


def _require_stored(file: wire.OutputFile) -> None:
    try:
        beneath.parts_of(file.path)
    except beneath.LeadsOutside as error:
        raise CheckpointDamaged(str(error)) from error
    if file.state == "left_out":
        raise CheckpointDamaged(f"{file.path} is not in the storage: {file.reason}")
    num_parts = -(-file.size_bytes // wire.OUTPUT_PART_BYTES)
    if file.state != "link" and len(file.parts) != num_parts:
        raise CheckpointDamaged(f"{file.path} has {len(file.parts)} parts instead of {num_parts}")


def _archive(
    store: PartSource, files: Sequence[wire.OutputFile], heads: Sequence[bytes]
) -> Iterator[bytes]:
    for file, head in zip(files, heads, strict=True):
        yield head
        if file.state != "link":
            yield from _content(store, file)
            yield bytes(_padded(file.size_bytes) - file.size_bytes)
    yield bytes(2 * _BLOCK)


def _content(store: PartSource, file: wire.OutputFile) -> Iterator[bytes]:
    """Yield the content of a file. The last piece of a part comes after the part was verified."""
    size = 0
    for sha256 in file.parts:
        digest = hashlib.sha256()
        held = b""
        try:
            for piece in store.read(sha256):
                digest.update(piece)
                size += len(piece)
                yield held
                held = piece
        except OSError as error:
            if not is_absent(error):
                raise
            raise CheckpointDamaged(
                f"{file.path} is no longer in the storage: a newer version has replaced it"
            ) from error
        if digest.hexdigest() != sha256:
            raise CheckpointDamaged(f"a part of {file.path} does not have the SHA-256 {sha256}")
        yield held
    if size != file.size_bytes:
        raise CheckpointDamaged(f"{file.path} has {size} bytes instead of {file.size_bytes}")


def _head(file: wire.OutputFile) -> bytes:
    info = tarfile.TarInfo(file.path)
    info.mtime = file.mtime_ms // 1000
    info.mode = file.mode & 0o777
    if file.state == "link":
        info.type, info.linkname = tarfile.SYMTYPE, file.target
    else:
        info.size = file.size_bytes
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
