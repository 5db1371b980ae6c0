"""The work folder of a trial on this node. It outlives the allocations that use it.

work/<trial id>/ (or work/<trial id>.<number>/ of a further member of a gang of roles)
  files/         the job's working directory
  lock           held by the shim of the attempt that uses the folder
  collect.lock   held by whoever reads the files as a whole, or replaces them
  yield          somebody waits for collect.lock: a collection ends as soon as it sees this
  attempt.json   WorkUse, written by the shim
  base.json      the files that came with the code, written by the shim
  index.json     what of which file is in the storage, written by the collector
  manifest.json  WrittenManifest: the last one, written by the collector
  acked.json     AckedManifest: what the server has answered, written by the agent
  adopted.json   AdoptedList: checkpoints of the script, written by the collector
  sending/       parts on their way to an object store
  checkpoints/   what was saved on this disk first, see muster.sdk.local_store
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from muster import wire
from muster_agent.isolation import beneath
from muster_agent.jobs.folder import write_atomically

T = TypeVar("T")

WORK = "work"
OUTPUT_FOLDER = "muster-outputs"
"""Folder within the files whose content is always kept: MUSTER_OUTPUT_DIR."""
MEDIA = (OUTPUT_FOLDER, "media")
"""Folder of media, named after their digests."""
ASIDE_KEPT_DAYS = 30
"""Days after which the agent deletes what was moved aside; events say so when it is moved."""
ASIDE = f".aside-{ASIDE_KEPT_DAYS}d-"
"""Beginning of the names of folders with files that were in no storage when they had to make room.
Folders without the days were moved when nothing was said of a bound: they stay."""
_POLL_S = 0.05
_NAME = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class WorkUse:
    """The attempt that used a work folder last, and where its outputs go."""

    cluster_id: str
    experiment_id: int
    trial_id: int
    attempt_no: int
    allocation_id: str
    node_rank: int
    code_sha256: str
    """Digest of the unpacked code; "" if none was unpacked."""
    outputs: wire.OutputsSpec | None
    """What is kept; None: nothing."""
    storage_id: str
    """Id of the storage folder when the attempt began."""
    folder: str
    """Folder of the trial's outputs, relative to the storage folder."""
    url: str
    """URL of the folder in an object store; "" for the storage folder."""
    first_seq: int
    """Number that no earlier manifest of this rank exceeds: the attempt's own come after it."""


@dataclass(frozen=True, kw_only=True)
class WrittenManifest:
    """The last manifest of a work folder, as the server is told of it."""

    allocation_id: str
    storage_id: str
    storage_url: str
    folder: str
    summary: wire.OutputsSummary
    files: str
    """See wire.OutputsRequest.files."""


@dataclass(frozen=True, kw_only=True)
class AckedManifest:
    """The last manifest that the server has answered."""

    allocation_id: str
    seq: int
    is_final: bool
    problem: str
    is_taken: bool
    """Whether the server uses it; False if a newer attempt has written since."""
    adopted_no: int = 0
    """Number of the last adopted checkpoint that the server has answered."""


@dataclass(frozen=True, kw_only=True)
class AdoptedList:
    """Checkpoints of the script that the server may not know yet."""

    last_no: int = 0
    """Number of the last one ever."""
    checkpoints: list[wire.AdoptedCheckpoint] = field(default_factory=list)


class TrialWork:
    """Paths and files of one work folder."""

    def __init__(self, home: Path, trial_id: int, member: int = 0) -> None:
        """Name the folder. member: number in a gang of roles, whose members have a folder each."""
        self.trial_id = trial_id
        self.path = home / WORK / (f"{trial_id}.{member}" if member else str(trial_id))

    @classmethod
    def of(cls, home: Path, spec: wire.AllocationSpec) -> TrialWork:
        """Return the folder that an allocation uses."""
        return cls(home, spec.trial_id, spec.node_rank if spec.role else 0)

    @classmethod
    def named(cls, home: Path, name: str) -> TrialWork:
        """Return the folder of this name."""
        trial, _, member = name.partition(".")
        return cls(home, int(trial), int(member or 0))

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def files(self) -> Path:
        """The job's working directory."""
        return self.path / "files"

    @property
    def output_dir(self) -> Path:
        """The folder whose content is always kept."""
        return self.files / OUTPUT_FOLDER

    @property
    def base(self) -> Path:
        return self.path / "base.json"

    @property
    def index(self) -> Path:
        return self.path / "index.json"

    @property
    def sending(self) -> Path:
        return self.path / "sending"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of `checkpoints: {local: true}`."""
        return self.path / "checkpoints"

    def size_bytes(self) -> int:
        """Return the bytes of all files in the folder, which may be written at this moment; 0 if it is
        not there."""
        with contextlib.suppress(FileNotFoundError):
            parent = beneath.open_root(self.path.parent)
            try:
                return _size_bytes(parent, self.path.name)
            finally:
                os.close(parent)
        return 0

    def read_use(self) -> WorkUse | None:
        return self._read("attempt.json", WorkUse)

    def write_use(self, use: WorkUse) -> None:
        write_atomically(self.path / "attempt.json", wire.dump(use))

    def read_manifest(self) -> WrittenManifest | None:
        return self._read("manifest.json", WrittenManifest)

    def write_manifest(self, manifest: WrittenManifest) -> None:
        write_atomically(self.path / "manifest.json", wire.dump(manifest))

    def read_acked(self) -> AckedManifest | None:
        return self._read("acked.json", AckedManifest)

    def write_acked(self, acked: AckedManifest) -> None:
        write_atomically(self.path / "acked.json", wire.dump(acked))

    def read_adopted(self) -> AdoptedList:
        return self._read("adopted.json", AdoptedList) or AdoptedList()

    def write_adopted(self, adopted: AdoptedList) -> None:
        write_atomically(self.path / "adopted.json", wire.dump(adopted))

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            return wire.loads(kind, (self.path / name).read_text())
        except (OSError, ValueError):
            return None

    # ------------------------------------------------------------ locks

    def lock(self) -> int | None:
        """Take the folder for an attempt: return a descriptor, or None while another has it."""
        return _lock(self.path / "lock")

    def is_used(self) -> bool:
        """Return whether a living shim has the folder."""
        return _is_locked(self.path / "lock")

    def lock_files(self) -> int | None:
        """Take the content for reading as a whole; None while somebody else has it."""
        return _lock(self.path / "collect.lock")

    @property
    def is_wanted(self) -> bool:
        """Whether a collection should end because somebody waits for the files."""
        return (self.path / "yield").exists()

    @contextlib.contextmanager
    def files_alone(self, *, timeout_s: float) -> Iterator[None]:
        """Hold the content while it is replaced; a collection under way is asked to end. Raises
        TimeoutError."""
        wish = self.path / "yield"
        wish.touch()
        try:
            deadline = time.monotonic() + timeout_s
            while (fd := self.lock_files()) is None:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.path} is being read for longer than {timeout_s:g} s")
                time.sleep(_POLL_S)
        finally:
            wish.unlink(missing_ok=True)
        try:
            yield
        finally:
            os.close(fd)

    def delete(self) -> bool:
        """Delete the folder with everything in it; return False while an attempt uses it.

        It is renamed first, so that half of it is never taken for a work folder."""
        fd = self.lock()
        if fd is None:
            return False
        try:
            trash = f".old-{self.name}-{secrets.token_hex(4)}"
            parent = beneath.open_root(self.path.parent)
            try:
                os.rename(self.name, trash, src_dir_fd=parent, dst_dir_fd=parent)
                beneath.remove(parent, trash)
            finally:
                os.close(parent)
        finally:
            os.close(fd)
        return True


def find_work(home: Path) -> list[TrialWork]:
    """Return the work folders of a home, by trial."""
    try:
        names = sorted(path.name for path in (home / WORK).iterdir())
    except FileNotFoundError:
        return []
    return [TrialWork.named(home, name) for name in names if _NAME.fullmatch(name)]


def clear_trash(home: Path) -> None:
    """Delete what interrupted deletions have left."""
    with contextlib.suppress(FileNotFoundError):
        parent = beneath.open_root(home / WORK)
        try:
            for name in beneath.names_in(parent):
                if name.startswith(".old-"):
                    with contextlib.suppress(OSError):
                        beneath.remove(parent, name)
        finally:
            os.close(parent)


def clear_aside(home: Path, *, now_s: float) -> list[tuple[str, int]]:
    """Delete what was moved aside more than ASIDE_KEPT_DAYS ago; names and bytes of what went.

    now_s: the time in seconds since 1970. One that cannot be deleted stays until the next time."""
    gone = []
    with contextlib.suppress(FileNotFoundError):
        parent = beneath.open_root(home / WORK)
        try:
            for name in beneath.names_in(parent):
                if not name.startswith(ASIDE):
                    continue
                with contextlib.suppress(OSError):
                    moved = os.stat(name, dir_fd=parent, follow_symlinks=False)
                    if now_s - max(moved.st_ctime, moved.st_mtime) < ASIDE_KEPT_DAYS * 86_400:
                        continue
                    size_bytes = _size_bytes(parent, name)
                    beneath.remove(parent, name)
                    gone.append((name, size_bytes))
        finally:
            os.close(parent)
    return gone


def _size_bytes(parent: int, name: str) -> int:
    """Return the bytes of all regular files below a folder; links are not followed."""
    total = 0
    for _, _, names, fd in os.fwalk(name, dir_fd=parent):
        for file in names:
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(file, dir_fd=fd, follow_symlinks=False)
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def _lock(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may have been deleted since the file was opened.
        is_there = path.stat().st_ino == os.fstat(fd).st_ino
    except (BlockingIOError, FileNotFoundError):
        is_there = False
    if not is_there:
        os.close(fd)
        return None
    return fd


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
