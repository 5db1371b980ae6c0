"""Files of a trial's outputs as one stream: a file as it is, several as a tar archive."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Sequence

from muster import wire
from muster.sdk.checkpoints import CheckpointDamaged
from muster_agent.isolation import beneath
from muster_agent.outputs.store import OutputStore, is_absent

_BLOCK = tarfile.BLOCKSIZE


def opened_files(
    store: OutputStore, files: Sequence[wire.OutputFile]
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
    store: OutputStore, files: Sequence[wire.OutputFile], heads: Sequence[bytes]
) -> Iterator[bytes]:
    for file, head in zip(files, heads, strict=True):
        yield head
        if file.state != "link":
            yield from _content(store, file)
            yield bytes(_padded(file.size_bytes) - file.size_bytes)
    yield bytes(2 * _BLOCK)


def _content(store: OutputStore, file: wire.OutputFile) -> Iterator[bytes]:
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
