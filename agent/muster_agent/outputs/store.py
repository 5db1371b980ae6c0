"""The folder of a trial's outputs in the storage, or in an object store.

<storage>/experiment-12/trial-1/outputs/
    objects/ab/<sha256>                       one part of a file, named after its digest
    manifests/n<rank>-a<attempt>-<seq>.json   written last
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from muster.sdk import object_store
from muster_agent.isolation import beneath
from muster_agent.outputs.storage import RefusedPath, Storage

CHUNK_BYTES = 4 * 2**20
"""Bytes that are read and written at a time."""
MANIFEST_MAX_BYTES = 256 * 2**20
KEPT_UNUSED_S = 900.0
"""Seconds that a part must be old before it is deleted because no manifest names it: another node may
be about to name it, and somebody may be downloading it."""
_MANIFEST = re.compile(r"n(\d{1,6})-a(\d{1,9})-(\d{1,12})\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DRAFT = ".tmp-"
_NO_SECOND_NAME = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""Errors of file systems in which a file has one name."""
_LISTED_FROM = 50
"""Number of parts from which the objects of a bucket are listed instead of asked for one by one."""


class StorageAway(Exception):
    """The storage cannot be used now; the message is one sentence about it."""


class OutputStore(Protocol):
    """Parts of files and manifests. Methods block, and raise OSError."""

    id: str
    """Identity of the folder: what was stored under another one has to be stored again."""

    def write(self, content: Iterable[bytes]) -> tuple[str, int]:
        """Store a part; return its SHA-256 and its size in bytes."""
        ...

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yield the content of a part, unverified."""
        ...

    def take_part(self, source: OutputStore, sha256: str) -> None:
        """Store a part that another folder of the same storage has."""
        ...

    def find_missing(self, parts: dict[str, int]) -> set[str]:
        """Return which of these parts, with their sizes in bytes, are not stored. Those that are
        count as used now."""
        ...

    def manifests(self) -> list[str]:
        """Return the names of all manifests."""
        ...

    def read_manifest(self, name: str) -> bytes: ...

    def write_manifest(self, name: str, content: bytes) -> None: ...

    def remove_manifest(self, name: str) -> None: ...

    def remove_unused(self, used: set[str]) -> int:
        """Delete parts that are not in `used` and older than KEPT_UNUSED_S; return the bytes."""
        ...

    def close(self) -> None: ...


def manifest_name(node_rank: int, attempt_no: int, seq: int) -> str:
    return f"n{node_rank}-a{attempt_no}-{seq}.json"


def parse_manifest_name(name: str) -> tuple[int, int, int] | None:
    """Return node rank, attempt and number of a manifest; None for any other file."""
    found = _MANIFEST.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


class FolderOutputs:
    """Outputs in a storage folder. A job may write to the trial's folder: no link is followed."""

    def __init__(
        self, storage: Path, folder: str, *, create: bool = True, writer: str = ""
    ) -> None:
        """Open the folder. Raises OSError; the storage folder itself is never created.

        writer: name of whoever writes here one collection at a time; what an interrupted one of
            the same name has left is deleted by `clear_drafts`."""
        self.id = ""
        root = beneath.open_root(storage)
        try:
            self._root = beneath.open_folder(root, beneath.parts_of(folder), create=create)
        finally:
            os.close(root)
        self._drafts = f"{_DRAFT}{writer}-"
        self._mark = secrets.token_hex(6)

    def close(self) -> None:
        os.close(self._root)

    def clear_drafts(self) -> None:
        """Delete parts that an earlier collection of this writer has not completed."""
        with beneath.folder(self._root, ["objects"], create=True) as objects:
            for name in beneath.names_in(objects):
                if name.startswith(self._drafts):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=objects)

    def write(self, content: Iterable[bytes]) -> tuple[str, int]:
        with beneath.folder(self._root, ["objects"], create=True) as objects:
            draft = f"{self._drafts}{self._mark}"
            fd = _create(draft, objects)
            try:
                digest, size = hashlib.sha256(), 0
                for chunk in content:
                    digest.update(chunk)
                    size += len(chunk)
                    _write_all(fd, chunk)
                os.fdatasync(fd)
                _drop_cache(fd)
                sha256 = digest.hexdigest()
                with beneath.folder(objects, [sha256[:2]], create=True) as shelf:
                    os.rename(draft, sha256, src_dir_fd=objects, dst_dir_fd=shelf)
                return sha256, size
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=objects)
                raise
            finally:
                os.close(fd)

    def read(self, sha256: str) -> Iterator[bytes]:
        with beneath.folder(self._root, ["objects", _checked(sha256)[:2]]) as shelf:
            yield from _read(sha256, shelf)

    def take_part(self, source: OutputStore, sha256: str) -> None:
        if isinstance(source, FolderOutputs):
            with (
                beneath.folder(source._root, ["objects", _checked(sha256)[:2]]) as there,
                beneath.folder(self._root, ["objects", sha256[:2]], create=True) as shelf,
            ):
                try:
                    os.link(
                        sha256, sha256, src_dir_fd=there, dst_dir_fd=shelf, follow_symlinks=False
                    )
                    return
                except FileExistsError:
                    return
                except OSError as error:
                    if error.errno not in _NO_SECOND_NAME:
                        raise
        self.write(source.read(sha256))

    def find_missing(self, parts: dict[str, int]) -> set[str]:
        missing = set(parts)
        for sha256, size in parts.items():
            with (
                contextlib.suppress(FileNotFoundError),
                beneath.folder(self._root, ["objects", _checked(sha256)[:2]]) as shelf,
            ):
                if os.stat(sha256, dir_fd=shelf, follow_symlinks=False).st_size == size:
                    os.utime(sha256, dir_fd=shelf, follow_symlinks=False)
                    missing.discard(sha256)
        return missing

    def manifests(self) -> list[str]:
        try:
            with beneath.folder(self._root, ["manifests"]) as folder:
                return [name for name in beneath.names_in(folder) if parse_manifest_name(name)]
        except FileNotFoundError:
            return []

    def read_manifest(self, name: str) -> bytes:
        with beneath.folder(self._root, ["manifests"]) as folder:
            return _bounded(_read(name, folder))

    def write_manifest(self, name: str, content: bytes) -> None:
        with beneath.folder(self._root, ["manifests"], create=True) as folder:
            draft = f"{self._drafts}{self._mark}"
            fd = _create(draft, folder)
            try:
                _write_all(fd, content)
                os.fsync(fd)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
            finally:
                os.close(fd)
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def remove_manifest(self, name: str) -> None:
        with (
            contextlib.suppress(FileNotFoundError),
            beneath.folder(self._root, ["manifests"]) as folder,
        ):
            os.unlink(name, dir_fd=folder)

    def remove_unused(self, used: set[str]) -> int:
        freed = 0
        with beneath.folder(self._root, ["objects"], create=True) as objects:
            for shelf_name in beneath.names_in(objects):
                if len(shelf_name) != 2:
                    continue
                with beneath.folder(objects, [shelf_name]) as shelf:
                    for name in beneath.names_in(shelf):
                        if name in used or not _SHA256.fullmatch(name):
                            continue
                        found = os.stat(name, dir_fd=shelf, follow_symlinks=False)
                        if time.time() - found.st_mtime > KEPT_UNUSED_S:
                            os.unlink(name, dir_fd=shelf)
                            freed += found.st_size
        return freed


class BucketOutputs:
    """Outputs in an object store. Parts are collected in a file on this node before they are sent,
    because an object is named after a digest that is known at its end only."""

    def __init__(self, url: str, sending: Path) -> None:
        """Create the store without any access; `sending` is a folder for parts on their way."""
        self.id = url
        self._url = url.rstrip("/")
        self._sending = sending

    def close(self) -> None:
        """Do nothing: there is no connection of its own."""

    def clear_drafts(self) -> None:
        """Delete the part that was on its way when an earlier collection ended."""
        for path in self._sending.glob("*"):
            path.unlink(missing_ok=True)

    def write(self, content: Iterable[bytes]) -> tuple[str, int]:
        self._sending.mkdir(exist_ok=True)
        draft = self._sending / secrets.token_hex(6)
        try:
            digest, size = hashlib.sha256(), 0
            with draft.open("xb") as file:
                for chunk in content:
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
            sha256 = digest.hexdigest()
            object_store.put(self._object(sha256), draft)
            return sha256, size
        finally:
            draft.unlink(missing_ok=True)

    def read(self, sha256: str) -> Iterator[bytes]:
        return object_store.read(self._object(_checked(sha256)))

    def take_part(self, source: OutputStore, sha256: str) -> None:
        if isinstance(source, BucketOutputs):
            object_store.copy(source._object(_checked(sha256)), self._object(sha256))
        else:
            self.write(source.read(sha256))

    def find_missing(self, parts: dict[str, int]) -> set[str]:
        if not parts:
            return set()
        found: dict[str, int] = {}
        if len(parts) >= _LISTED_FROM:
            listed = object_store.sizes(f"{self._url}/objects")
            found = {path.rpartition("/")[2]: size for path, size in listed.items()}
        else:
            for sha256 in parts:
                for size in object_store.sizes(self._object(_checked(sha256))).values():
                    found[sha256] = size
        return {sha256 for sha256, size in parts.items() if found.get(sha256) != size}

    def manifests(self) -> list[str]:
        found = object_store.sizes(f"{self._url}/manifests")
        return [name for name in found if parse_manifest_name(name)]

    def read_manifest(self, name: str) -> bytes:
        return _bounded(object_store.read(f"{self._url}/manifests/{name}"))

    def write_manifest(self, name: str, content: bytes) -> None:
        object_store.put_bytes(f"{self._url}/manifests/{name}", content)

    def remove_manifest(self, name: str) -> None:
        object_store.remove(f"{self._url}/manifests/{name}")

    def remove_unused(self, used: set[str]) -> int:
        freed = 0
        for path, size in object_store.sizes(f"{self._url}/objects").items():
            sha256 = path.rpartition("/")[2]
            if sha256 in used or not _SHA256.fullmatch(sha256):
                continue
            url = self._object(sha256)
            if time.time() - object_store.changed_at(url) > KEPT_UNUSED_S:
                object_store.remove(url)
                freed += size
        return freed

    def _object(self, sha256: str) -> str:
        return f"{self._url}/objects/{sha256[:2]}/{sha256}"


def open_outputs(
    *, storage: Path, folder: str, url: str, sending: Path, cluster_id: str, writer: str
) -> FolderOutputs | BucketOutputs:
    """Open the outputs of a trial for writing. Raises StorageAway."""
    if url:
        return BucketOutputs(url, sending)
    found = Storage(storage)
    storage_id = found.known_id()
    if not storage_id:
        raise StorageAway(f"the storage folder {storage} is not there")
    try:
        if cluster_id:
            found.claim(folder, cluster_id)
        opened = FolderOutputs(storage, folder, writer=writer)
    except (RefusedPath, beneath.LeadsOutside) as error:
        raise StorageAway(str(error)) from error
    except OSError as error:
        raise StorageAway(
            f"the folder {folder} in {storage} cannot be used: {why(error)}"
        ) from error
    opened.id = f"{storage_id}/{folder}"
    return opened


def why(error: OSError) -> str:
    """Return the reason of an error without its number."""
    if isinstance(error, object_store.StoreRefused) or not error.strerror:
        return str(error)
    return error.strerror


def is_absent(error: OSError) -> bool:
    """Return whether an error says that something is not there."""
    return error.errno == errno.ENOENT


def _checked(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise OSError(errno.EINVAL, f"{sha256[:80]!r} is no SHA-256")
    return sha256


def _create(name: str, parent: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o644, dir_fd=parent)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _drop_cache(fd: int) -> None:
    """Give back the memory of what was written: the job's own files need it more."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _read(name: str, parent: int) -> Iterator[bytes]:
    with os.fdopen(beneath.open_file(name, parent), "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _bounded(pieces: Iterable[bytes]) -> bytes:
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > MANIFEST_MAX_BYTES:
            raise OSError(errno.EFBIG, "the manifest is larger than any that Muster writes")
    return bytes(content)
