"""Artifacts of runs as files of the trial's work folder, where they are outputs like any other.

muster-outputs/mlflow/<run>/
  artifacts/        what the script logs
  models/<name>/    models that MLflow 3 logs
  run.json          the run, for a later attempt

The job may write there as well: no link is followed, and what is created belongs to its user.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from muster.tracking import TrackedRun, TrackingError, invalid, missing, run_from_json, run_to_json
from muster_agent.isolation import beneath
from muster_agent.outputs.work import OUTPUT_FOLDER

FOLDER = (OUTPUT_FOLDER, "mlflow")
RUN_FILE = "run.json"
RUN_FILE_MAX_BYTES = 32 * 2**20
READ_BYTES = 256 * 1024
LISTED_MAX = 10_000
"""Most entries of a folder in one answer."""


class ArtifactStore:
    """The artifacts of one trial on this node."""

    def __init__(
        self,
        files: Path,
        *,
        uid: int | None,
        min_free_bytes: int,
        folder: Sequence[str] = FOLDER,
    ) -> None:
        """Create the store.

        files: the files of the work folder.
        uid: user that new files belong to; None for that of this process.
        min_free_bytes: what must stay free on the disk.
        folder: where the store is within the files."""
        self._files = files
        self._place = tuple(folder)
        self._uid = uid
        self._min_free_bytes = min_free_bytes

    def check_room(self, size_bytes: int) -> None:
        """Raise TrackingError if so many bytes do not fit."""
        found = os.statvfs(self._files)
        free = found.f_bavail * found.f_frsize
        if size_bytes + self._min_free_bytes > free:
            # 507 is not repeated by clients, unlike 503.
            raise TrackingError(
                507,
                "RESOURCE_EXHAUSTED",
                f"the artifact has {size_bytes} bytes, and of the {free} bytes that are free on the "
                f"node's disk {self._min_free_bytes} are kept for logs and reports",
            )

    @contextlib.contextmanager
    def created(self, path: Sequence[str]) -> Iterator[int]:
        """Yield a descriptor to write a file to, which appears under its name when complete."""
        with self._folder(path[:-1], create=True) as parent:
            name = f".upload-{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(name, flags, 0o644, dir_fd=parent)
            try:
                try:
                    if self._uid is not None:
                        os.fchown(fd, self._uid, self._uid)
                    yield fd
                finally:
                    os.close(fd)
                os.rename(name, path[-1], src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                beneath.remove(parent, name)
                raise

    @contextlib.contextmanager
    def opened(self, path: Sequence[str]) -> Iterator[int]:
        """Yield a descriptor of whatever has this path. Raises OSError."""
        with self._folder(path[:-1]) as parent:
            fd = beneath.open_file(path[-1], parent)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, path: Sequence[str]) -> tuple[int, Iterator[bytes]]:
        """Return the size of a file and its content. Raises OSError and TrackingError."""
        with self._folder(path[:-1]) as parent:
            fd = beneath.open_file(path[-1], parent)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            raise missing(f"No such artifact: {'/'.join(path[1:])}")

        def pieces() -> Iterator[bytes]:
            with os.fdopen(fd, "rb") as file:
                left = found.st_size
                while left > 0 and (piece := file.read(min(left, READ_BYTES))):
                    left -= len(piece)
                    yield piece

        return found.st_size, pieces()

    def entries(self, path: Sequence[str]) -> list[dict[str, Any]]:
        """Return the entries of a folder as MLflow shows them; none for a file or for nothing."""
        try:
            with self._folder(path) as folder, os.scandir(folder) as children:
                found: list[dict[str, Any]] = []
                for entry in children:
                    is_dir = entry.is_dir(follow_symlinks=False)
                    if entry.name.startswith(".upload-") or len(found) >= LISTED_MAX:
                        continue
                    item: dict[str, Any] = {"path": entry.name, "is_dir": is_dir}
                    if not is_dir:
                        item["file_size"] = entry.stat(follow_symlinks=False).st_size
                    found.append(item)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(found, key=lambda item: str(item["path"]))

    def delete(self, path: Sequence[str]) -> None:
        """Delete a file or folder; nothing if there is none."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folder(path[:-1]) as parent,
        ):
            beneath.remove(parent, path[-1])

    # ------------------------------------------------------------ runs of earlier attempts

    def save(self, run: TrackedRun) -> None:
        """Keep a run for a later attempt. Raises OSError."""
        with self.created([run.folder, RUN_FILE]) as fd:
            os.write(fd, json.dumps(run_to_json(run), indent=1).encode())

    def runs(self, *, limit: int) -> dict[str, TrackedRun]:
        """Return the runs that earlier attempts have left here, by id."""
        found: dict[str, TrackedRun] = {}
        for entry in self.entries([])[:limit]:
            with contextlib.suppress(OSError, TrackingError, ValueError, KeyError, TypeError):
                size, pieces = self.read([entry["path"], RUN_FILE])
                if size <= RUN_FILE_MAX_BYTES:
                    run = run_from_json(json.loads(b"".join(pieces)))
                    if run.folder == entry["path"]:
                        found[run.run_id] = run
        return found

    # ------------------------------------------------------------ paths

    @staticmethod
    def parts_of(path: str) -> list[str]:
        """Return the names in the path of an artifact. Raises TrackingError."""
        try:
            return beneath.parts_of(path) if path else []
        except beneath.LeadsOutside as error:
            raise invalid(f"Invalid path of an artifact: {error}") from error

    @contextlib.contextmanager
    def _folder(self, path: Sequence[str], *, create: bool = False) -> Iterator[int]:
        fd = beneath.open_root(self._files)
        try:
            for part in (*self._place, *path):
                inner = beneath.open_folder(fd, [part], create=create)
                os.close(fd)
                fd = inner
                if create and self._uid is not None and os.fstat(fd).st_uid != self._uid:
                    os.fchown(fd, self._uid, self._uid)
            yield fd
        except OSError as error:
            if create and error.errno == errno.ENOTDIR:
                raise invalid(f"A part of {'/'.join(path)} is a file, not a folder") from error
            raise
        finally:
            os.close(fd)
