"""The folder in which checkpoints lie: ownership of its folders, and deletion on request.

    <storage>/.muster-storage            id of this folder; agents that share it read the same
    <storage>/experiment-12/.muster-owner   id of the server whose experiment 12 this is

A server asks for a path to be deleted; it is deleted only if the storage is the one it means, the
path is one of a server's own folders without a link on the way, and the folder carries that
server's mark. So neither a mistaken request nor another server that once used the same folder, and
numbered its experiments from 1 as well, can take away anything else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from pathlib import Path

STORAGE_FILE = ".muster-storage"
OWNER_FILE = ".muster-owner"
_TRASH = ".muster-deleting-"
_EXPERIMENT = re.compile(r"experiment-[1-9][0-9]{0,18}")
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_DEPTH = 3
_MAX_MARK_BYTES = 256


class RefusedPath(Exception):
    """This path is not ours to touch; the message says why."""


class Storage:
    """One storage folder. Methods block on the file system: run them in a thread."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def id(self) -> str:
        """Return the folder's own id, created by the first agent that uses it; "" if it cannot be
        stored."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            return _read_or_create(self._root, STORAGE_FILE, secrets.token_hex(16))
        except OSError:
            return ""

    def known_id(self) -> str:
        """Return the folder's own id; "" if the folder or its id is not there. Creates neither."""
        try:
            with contextlib.ExitStack() as opened:
                return _read_mark(_open(self._root, None, opened), STORAGE_FILE)
        except (OSError, RefusedPath):
            return ""

    def claim(self, path: str, cluster_id: str) -> None:
        """Mark the experiment folder that contains `path` as this server's; create it if necessary.

        Raises RefusedPath when another server's mark is on it, and OSError.
        """
        folder = self._root / Path(path).parts[0]
        folder.mkdir(parents=True, exist_ok=True)
        owner = _read_or_create(folder, OWNER_FILE, cluster_id)
        if owner != cluster_id:
            raise RefusedPath(
                f"{folder} belongs to another Muster server: give this one a storage folder of its "
                f"own (MUSTER_AGENT_STORAGE_DIR), or move that folder away"
            )

    def own_folder(self, path: str, *, storage_id: str, cluster_id: str) -> Path:
        """Return a folder of this server for reading. Raises RefusedPath, FileNotFoundError if it
        is gone, and OSError."""
        parts = require_own_path(path, cluster_id)
        if self.id() != storage_id or not storage_id:
            raise RefusedPath("this node has another storage folder now")
        with contextlib.ExitStack() as opened:
            folder = _open(self._root, None, opened)
            for depth, part in enumerate(parts):
                folder = _open(part, folder, opened)
                if depth == 0 and _read_mark(folder, OWNER_FILE) != cluster_id:
                    raise RefusedPath(f"{part} does not carry this server's mark")
        return self._root.joinpath(*parts)

    def delete(self, path: str, *, request: int, storage_id: str, cluster_id: str) -> int:
        """Delete a folder of this server; return the bytes of its files, 0 if it was gone.

        request: number of the request, so that one that was interrupted half-way is finished.
        Raises RefusedPath, and OSError for what may go better another time.
        """
        parts = require_own_path(path, cluster_id)
        if self.id() != storage_id or not storage_id:
            raise RefusedPath("this node has another storage folder now")
        with contextlib.ExitStack() as opened:
            root = _open(self._root, None, opened)
            trash = f"{_TRASH}{cluster_id}-{request}"
            freed = _remove(root, trash)  # Left by an earlier try that was interrupted.
            try:
                parent = root
                for depth, part in enumerate(parts):
                    folder = _open(part, parent, opened)
                    if depth == 0 and _read_mark(folder, OWNER_FILE) != cluster_id:
                        raise RefusedPath(f"{part} does not carry this server's mark")
                    if depth < len(parts) - 1:
                        parent = folder
                # Renamed in one step first: half of a checkpoint must not look like a checkpoint.
                os.rename(parts[-1], trash, src_dir_fd=parent, dst_dir_fd=root)
            except FileNotFoundError:
                return freed
            return freed + _remove(root, trash)


def require_own_path(path: str, cluster_id: str) -> list[str]:
    """Return the parts of a path that a server may delete. Raises RefusedPath for any other."""
    parts = path.split("/")
    well_formed = _EXPERIMENT.fullmatch(parts[0]) and all(map(_PART.fullmatch, parts))
    if not well_formed or len(parts) > _MAX_DEPTH or not _PART.fullmatch(cluster_id):
        raise RefusedPath(f"{path[:200]!r} is not a folder of an experiment")
    return parts


def is_within(path: str, folder: str) -> bool:
    """Return whether a path, relative to the storage like `folder`, is that folder or lies in it."""
    return path == folder or path.startswith(folder + "/")


def _open(name: str | Path, parent: int | None, opened: contextlib.ExitStack) -> int:
    """Return a descriptor of a folder. Below the root no link is followed. Raises RefusedPath,
    OSError."""
    follow = 0 if parent is None else os.O_NOFOLLOW
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise RefusedPath(f"{name} is a link, or no folder") from None
        raise
    opened.callback(os.close, fd)
    return fd


def _read_mark(folder: int, name: str) -> str:
    """Return the content of a mark; "" if it does not exist. Raises OSError."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return ""
    with os.fdopen(fd, "rb") as file:
        return file.read(_MAX_MARK_BYTES).decode(errors="replace").strip()


def _read_or_create(folder: Path, name: str, content: str) -> str:
    """Return the content of a mark; if it does not exist, exactly one of several processes writes
    it first."""
    with contextlib.ExitStack() as opened:
        fd = _open(folder, None, opened)
        found = _read_mark(fd, name)
        if found:
            return found
        draft = f"{name}.{os.getpid()}-{secrets.token_hex(4)}"
        path = folder / draft
        try:
            path.write_text(content + "\n", encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(draft, name, src_dir_fd=fd, dst_dir_fd=fd)  # Complete, or not at all.
        finally:
            path.unlink(missing_ok=True)
        return _read_mark(fd, name)


def _remove(root: int, name: str) -> int:
    """Remove a folder of the root; return the bytes of its files, 0 if there is none."""
    try:
        with contextlib.ExitStack() as opened:
            size = _size_bytes(_open(name, root, opened))
    except FileNotFoundError:
        return 0
    shutil.rmtree(name, dir_fd=root)
    return size


def _size_bytes(folder: int) -> int:
    """Return the bytes of all regular files below; links are not followed."""
    total = 0
    for _, _, names, fd in os.fwalk(".", dir_fd=folder):
        for name in names:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total
