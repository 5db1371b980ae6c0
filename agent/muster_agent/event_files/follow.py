"""Finds the event files of a work folder and reads what is new of them.

A file is known by device and inode and read from the end of its last whole record. What was there
before the job started is passed over. Nothing that the job puts in place of a folder or a file is
followed out of the work folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from muster_agent.event_files.events import BadEvent, LoggedEvent, read_event
from muster_agent.event_files.records import (
    HEADER_BYTES,
    OVERHEAD_BYTES,
    RECORD_MAX_BYTES,
    DamagedRecord,
    records,
)
from muster_agent.isolation import beneath

FOLDERS_MAX = 2_000
"""Most folders that are looked into."""
FILES_MAX = 500
"""Most event files that are followed."""
DEPTH_MAX = 16
BYTES_PER_POLL = 8 * 2**20
"""Most bytes read of all files together in one poll; one longer record may be read beyond it."""
KNOWN_BYTES = 64
"""Bytes at the beginning of a file, and before what is read next, that are compared. Those at the
beginning hold the time at which it was begun, those before hold values, which differ between runs that
began in the same second."""
SETTLED_S = 2.0
"""A folder that has changed within so many seconds is listed again: its time is too coarse to tell."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages", "mlruns"})
_OF_MLFLOW = "muster-outputs/mlflow/"
"""Artifacts that MLflow's client has logged, among them copies of event files."""
_Key = tuple[int, int]
"""Device and inode of a file."""
_PID = re.compile(r"tfevents\.\d+\.(?:.+\.)?(\d+)\.\d+(?:\D|$)")
_TIME = re.compile(r"tfevents\.(\d+)")


@dataclass(frozen=True)
class FoundEvents:
    """New events of one file."""

    folder: str
    """Folder of the file relative to the work folder; "" for the work folder itself."""
    file: str
    """Path of the file relative to the work folder."""
    pid: int | None
    """Process that writes it, as the name of the file says."""
    events: list[LoggedEvent]


@dataclass
class _ListedFolder:
    """A folder as it was listed last."""

    changed_ns: int = -1
    listed_at: float = 0.0
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


@dataclass
class _File:
    """An event file that is followed."""

    offset: int = 0
    """End of the last whole record."""
    size: int = 0
    """Size at the last look."""
    is_read: bool = False
    """Whether all whole records up to that size are read."""
    changed_ns: int = 0
    """Time of the last change at the last look."""
    head: bytes = b""
    """First bytes; others mean that the file was written anew in its place."""
    tail: bytes = b""
    """Last bytes before `offset`; others mean the same."""
    is_damaged: bool = False
    num_events: int = 0
    num_bad: int = 0


class EventFiles:
    """The event files below a folder. Not for several threads at once."""

    def __init__(self, root: str) -> None:
        """Create the reader; `start` comes before the first `read`."""
        self._root = root
        self._folders: dict[str, _ListedFolder] = {}
        self._files: dict[_Key, _File] = {}
        self._new: set[_Key] = set()
        """Files that an earlier call has found, and not read yet."""
        self._said: set[str] = set()
        self._problems: list[str] = []

    def start(self) -> None:
        """Pass over all that is there already; what is appended to it later is read."""
        with self._opened() as root:
            for path in self._find(root):
                with contextlib.suppress(OSError), self._open_file(root, path) as fd:
                    now = os.fstat(fd)
                    self._files[now.st_dev, now.st_ino] = _File(
                        now.st_size, now.st_size, is_read=True, changed_ns=now.st_mtime_ns
                    )

    def read(self, *, is_last: bool = False) -> tuple[list[FoundEvents], int]:
        """Return what is new, and the number of bytes that it takes.

        A file that was not there at the last call is read from the next call on, which leaves its
        writer time to say that its values come in another way; with `is_last` it is read at once, and
        records without an end become problems."""
        found: list[FoundEvents] = []
        num_read = 0
        there: set[_Key] = set()
        with self._opened() as root:
            for path in sorted(self._find(root), key=_order):
                try:
                    with self._open_file(root, path) as fd:
                        now = os.fstat(fd)
                        key = (now.st_dev, now.st_ino)
                        if key in there or not stat.S_ISREG(now.st_mode):
                            continue  # A second name of a file that was read under its first.
                        there.add(key)
                        if num_read >= BYTES_PER_POLL or not self._is_known(key, is_last):
                            continue
                        left = BYTES_PER_POLL - num_read
                        events, num = self._read_file(path, key, fd, now, left, is_last)
                except OSError:
                    continue  # It is gone, or no file of the folder any more.
                num_read += num
                if events:
                    folder = path.rpartition("/")[0]
                    found.append(FoundEvents(folder, path, _pid_of(path), events))
        for gone in self._files.keys() - there:
            del self._files[gone]
        self._new &= there
        return found, num_read

    def problems(self) -> list[str]:
        """Return what could not be read, one sentence each, once."""
        said, self._problems = self._problems, []
        return said

    # ------------------------------------------------------------ one file

    def _is_known(self, key: _Key, is_last: bool) -> bool:
        """Return whether a file is to be read, and note it as new otherwise."""
        if key in self._files:
            return True
        if len(self._files) >= FILES_MAX:
            self._say(f"More than {FILES_MAX} event files: those found later are not read.")
            return False
        if key not in self._new and not is_last:
            self._new.add(key)
            return False
        self._files[key] = _File()
        return True

    def _read_file(
        self, path: str, key: _Key, fd: int, now: os.stat_result, max_bytes: int, is_last: bool
    ) -> tuple[list[LoggedEvent], int]:
        file, size = self._files[key], now.st_size
        is_same = size == file.size and now.st_mtime_ns == file.changed_ns
        if size < file.size or not (is_same or self._is_as_known(file, fd)):
            self._say(f"{path} was written anew: it is read from its beginning.")
            file = self._files[key] = _File()
        is_unchanged = file.is_read and size == file.size
        file.size, file.is_read, file.changed_ns = size, False, now.st_mtime_ns
        if file.is_damaged or file.offset >= size or (is_unchanged and not is_last):
            file.is_read = True
            return [], 0
        data = os.pread(fd, min(max_bytes, size - file.offset), file.offset)
        if len(data) >= HEADER_BYTES:
            needed = int.from_bytes(data[:8], "little") + OVERHEAD_BYTES
            if len(data) < needed <= RECORD_MAX_BYTES + OVERHEAD_BYTES:
                data += os.pread(fd, needed - len(data), file.offset + len(data))
        begin, end = file.offset, file.offset + len(data)
        events = self._take(path, file, data)
        file.tail = (file.tail + data[: file.offset - begin])[-KNOWN_BYTES:]
        file.is_read = end >= size
        if is_last and file.is_read and not file.is_damaged and file.offset < size:
            self._say(
                f"{path} ends within a record, at byte {file.offset}: {file.num_events} events "
                "before it were read."
            )
        return events, file.offset - begin

    @staticmethod
    def _is_as_known(file: _File, fd: int) -> bool:
        """Return whether what is known of a file is still in it; remember how it begins."""
        head = os.pread(fd, KNOWN_BYTES, 0)
        is_same = head.startswith(file.head)
        file.head = head
        if not is_same or not file.tail:
            return is_same
        return os.pread(fd, len(file.tail), file.offset - len(file.tail)) == file.tail

    def _take(self, path: str, file: _File, data: bytes) -> list[LoggedEvent]:
        events = []
        try:
            for end, record in records(data, file.offset):
                file.offset = end
                if record is None:
                    self._say(
                        f"{path}: a record of more than {RECORD_MAX_BYTES} bytes is left out."
                    )
                    continue
                file.num_events += 1
                try:
                    events.append(read_event(record))
                except BadEvent as error:
                    file.num_bad += 1
                    if file.num_bad == 1:
                        self._say(f"{path}: a record before byte {end} is not an event: {error}.")
        except DamagedRecord as error:
            file.is_damaged = True
            self._say(
                f"{path} is damaged: {error}. The {file.num_events} events before it were read; "
                "nothing behind it is."
            )
        return events

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < 100:
            self._said.add(text)
            self._problems.append("".join(c if c.isprintable() else "?" for c in text))

    # ------------------------------------------------------------ finding them

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        root = beneath.open_root(self._root)
        try:
            yield root
        finally:
            os.close(root)

    @contextlib.contextmanager
    def _open_file(self, root: int, path: str) -> Iterator[int]:
        *folders, name = path.split("/")
        with beneath.folder(root, folders) as parent:
            fd = beneath.open_file(name, parent)
        try:
            yield fd
        finally:
            os.close(fd)

    def _find(self, root: int) -> list[str]:
        """Return the paths of all event files. Only folders that have changed are listed."""
        seen: dict[str, _ListedFolder] = {}
        found: list[str] = []
        self._visit(root, "", 0, seen, found)
        if len(seen) >= FOLDERS_MAX:
            self._say(
                f"The work folder has more than {FOLDERS_MAX} folders: event files are looked for in "
                "the first of them only."
            )
        self._folders = seen
        return found

    def _visit(
        self, fd: int, prefix: str, depth: int, seen: dict[str, _ListedFolder], found: list[str]
    ) -> None:
        if len(seen) >= FOLDERS_MAX:
            return
        folder = seen[prefix] = self._listed(fd, prefix)
        found += [prefix + name for name in folder.files]
        if depth >= DEPTH_MAX:
            return
        for name in folder.folders:
            if len(seen) >= FOLDERS_MAX:
                return
            try:
                inner = beneath.open_folder(fd, [name])
            except OSError:
                continue
            try:
                self._visit(inner, f"{prefix}{name}/", depth + 1, seen, found)
            finally:
                os.close(inner)

    def _listed(self, fd: int, prefix: str) -> _ListedFolder:
        changed_ns = os.fstat(fd).st_mtime_ns
        now = time.time()
        known = self._folders.get(prefix)
        is_same = known is not None and known.changed_ns == changed_ns
        if known is not None and is_same and known.listed_at - changed_ns / 1e9 > SETTLED_S:
            return known
        folder = _ListedFolder(changed_ns, now)
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                except OSError:
                    continue
                if is_folder:
                    is_hidden = entry.name.startswith(".") or entry.name in _PASSED_OVER
                    if not is_hidden and f"{prefix}{entry.name}/" != _OF_MLFLOW:
                        folder.folders.append(entry.name)
                elif "tfevents" in entry.name and len(folder.files) < FILES_MAX:
                    folder.files.append(entry.name)
        folder.folders.sort()
        folder.files.sort()
        return folder


def _pid_of(path: str) -> int | None:
    found = _PID.search(path.rpartition("/")[2])
    return int(found[1]) if found else None


def _order(path: str) -> tuple[int, str]:
    """Order of files: by the time in their names, then by path."""
    found = _TIME.search(path.rpartition("/")[2])
    return (int(found[1]) if found else 0, path)
