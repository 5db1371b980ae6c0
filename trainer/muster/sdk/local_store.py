"""Checkpoints of a trial on the node's disk, which the agent copies to the storage.

    <folder>/step-00000120      complete, laid out as in the storage
    <folder>/stored-00000120    SHA-256 of its manifest, once the storage has it; written by the agent

Training waits until a checkpoint is complete here. While two are not stored, the next one waits too:
the disk holds few, and none has to be left out.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from muster.sdk import checkpoints
from muster.sdk.checkpoints import FileFacts, FolderStore, Manifest
from muster.sdk.object_store import ObjectStore

UNSTORED_MAX = 2
"""Checkpoints that may wait for the storage before the next save waits for them."""
POLL_S = 0.02
_STORED = "stored-"


def mark_of(name: str) -> str:
    """Return the name of the file that says that the checkpoint in the folder `name` is stored."""
    return _STORED + name.removeprefix("step-")


def digest_of(manifest: bytes) -> str:
    """Return what tells a checkpoint from another one of the same step: the content of its mark."""
    return hashlib.sha256(manifest).hexdigest()


class LocalStore(FolderStore):
    """The folder of one trial on this node's disk, for an attempt whose workers are all here."""

    def __init__(
        self, directory: Path, behind: FolderStore | ObjectStore, *, say: Callable[[str], None]
    ) -> None:
        """Create the store without any access.

        behind: the storage, in which a checkpoint is saved at once when the disk has no room.
        say: takes a message for the trial's events.
        """
        super().__init__(directory)
        self._behind = behind
        self._say = say
        self._has_said = False

    def holds(self, folder: Path) -> bool:
        """Return whether a folder is one of this disk rather than of the storage."""
        return folder.parent == self._directory

    def place_of(self, name: str) -> str:
        """Return the path or URL under which workers of this node find a checkpoint."""
        here = super().place_of(name)
        return here if Path(here).is_dir() else self._behind.place_of(name)

    def check(self, worker: int) -> None:
        """Check that the storage can be written; see ObjectStore."""
        self._behind.check(worker)

    def begin(self, step: int) -> Path:
        """Return an empty folder for the checkpoint of `step`, on this disk if it has room for it.
        Waits for the storage as described above."""
        self._directory.mkdir(parents=True, exist_ok=True)
        # Half of a checkpoint is of a writer that was killed, or that has found the disk full.
        largest = max((_size_bytes(folder) for folder in self._directory.iterdir()), default=0)
        for left_over in self._directory.glob(f"{checkpoints.TEMPORARY}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        if shutil.disk_usage(self._directory).free >= 2 * largest:
            self._wait(UNSTORED_MAX - 1)
            return super().begin(step)
        if not self._has_said:
            self._has_said = True
            self._say(
                f"{self._directory} has no room for {2 * largest:,} bytes: checkpoints are saved to "
                "the storage at once, and training waits for it"
            )
        self._wait(0)  # A storage folder is written by one at a time.
        return self._behind.begin(step)

    def draft(self, name: str) -> Path:
        """Return the folder that another worker has begun, by its name."""
        here = super().draft(name)
        return here if here.is_dir() else self._behind.draft(name)

    def sent(self, path: Path, facts: FileFacts) -> None:
        """Send a file of a draft, unless it lies where it belongs."""
        if not self.holds(path.parent):
            self._behind.sent(path, facts)

    def commit(
        self,
        folder: Path,
        *,
        step: int,
        epoch: float | None = None,
        metrics: Mapping[str, float] | None = None,
        settled: Mapping[str, FileFacts] | None = None,
    ) -> tuple[Path, Manifest]:
        """Publish the content of a folder; see `checkpoints.commit`."""
        commit = super().commit if self.holds(folder) else self._behind.commit
        return commit(folder, step=step, epoch=epoch, metrics=metrics, settled=settled)

    def _wait(self, num: int) -> None:
        while len(unstored(self._directory)) > num:
            time.sleep(POLL_S)


def unstored(directory: Path) -> list[str]:
    """Return the names of the checkpoints on the disk that the storage does not have, oldest first."""
    found = []
    for folder in sorted(directory.glob("step-*")):
        try:
            digest = digest_of((folder / checkpoints.MANIFEST).read_bytes())
        except OSError:
            continue  # The agent deletes it at this moment.
        try:
            is_stored = (directory / mark_of(folder.name)).read_text() == digest
        except OSError:
            is_stored = False
        if not is_stored:
            found.append(folder.name)
    return found


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total
