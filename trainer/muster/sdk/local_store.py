"""Checkpoints of a trial on the node's disk, which the agent copies to the storage.

    <folder>/step-00000120      complete, laid out as in the storage
    <folder>/stored-00000120    SHA-256 of its manifest, once the storage has it; written by the agent

On several nodes each one has the files that its own workers have written, and the manifest of all. The
node with the first file of the manifest completes the checkpoint in the storage.

Training waits until a checkpoint is complete here. While two are not stored, the next one waits too:
the disk holds few, and none has to be left out.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.sdk import checkpoints
from muster.sdk.checkpoints import CheckpointDamaged, FileFacts, FolderStore, Manifest, digest_of
from muster.sdk.object_store import ObjectStore

UNSTORED_MAX = 2
"""Checkpoints that may wait for the storage before the next save waits for them."""
POLL_S = 0.02
_STORED = "stored-"
READ = f"{checkpoints.TEMPORARY}read-"
"""Beginning of the names of folders in which parts are put together."""
_PART = f"{checkpoints.TEMPORARY}part-"
"""Beginning of the names of drafts of which each node has a part."""


def mark_of(name: str) -> str:
    """Return the name of the file that says that the checkpoint in the folder `name` is stored."""
    return _STORED + name.removeprefix("step-")


@dataclass(frozen=True)
class LocalPart:
    """What one node has of a checkpoint."""

    digest: str
    """SHA-256 of its manifest."""
    num_files: int
    """Files of the whole checkpoint."""
    files: tuple[str, ...]
    """Names of those that are here."""


class LocalStore(FolderStore):
    """The folder of one trial on this node's disk."""

    def __init__(
        self,
        directory: Path,
        behind: FolderStore | ObjectStore,
        *,
        spans_nodes: bool = False,
        say: Callable[[str], None],
    ) -> None:
        """Create the store without any access.

        behind: the storage, in which a checkpoint is saved at once when the disk has no room.
        spans_nodes: whether the attempt has workers on other nodes, each with such a folder of its own.
        say: takes a message for the trial's events.
        """
        super().__init__(directory)
        self.spans_nodes = spans_nodes
        self.behind = behind
        self._say = say
        self._has_said = False

    @property
    def is_everywhere(self) -> bool:
        """Whether all workers see the storage behind, on whatever node they are."""
        return self.behind.is_everywhere

    def holds(self, folder: Path) -> bool:
        """Return whether a folder is one of this disk rather than of the storage."""
        return folder.parent == self._directory

    def place_of(self, name: str) -> str:
        """Return the path or URL under which workers of this node find a checkpoint."""
        here = super().place_of(name)
        return here if Path(here).is_dir() and not self.spans_nodes else self.behind.place_of(name)

    def check(self, worker: int) -> None:
        """Check that the storage can be written; see ObjectStore."""
        self.behind.check(worker)

    def has_room(self) -> bool:
        """Return whether the disk has room for two more checkpoints like those that are on it."""
        largest_bytes = self._largest_bytes()
        return shutil.disk_usage(self._directory).free >= 2 * largest_bytes

    def begin(self, step: int, *, is_short: bool = False) -> Path:
        """Return an empty folder for the checkpoint of `step`, on this disk if it has room for it.
        Waits for the storage as described above.

        is_short: whether another node's disk has no room.
        """
        largest_bytes = self._largest_bytes()
        self._clear()
        if not is_short and shutil.disk_usage(self._directory).free >= 2 * largest_bytes:
            self._wait(UNSTORED_MAX - 1)
            draft = super().begin(step)
            return draft.rename(draft.with_name(_PART + draft.name)) if self.spans_nodes else draft
        if not self._has_said:
            self._has_said = True
            where = "another node's disk" if is_short else self._directory
            self._say(
                f"{where} has no room for {2 * largest_bytes:,} bytes: checkpoints are saved to the "
                "storage at once, and training waits for it"
            )
        self._wait(0)  # A storage folder is written by one at a time.
        return self.behind.begin(step)

    def _largest_bytes(self) -> int:
        """Return the size of the largest checkpoint on this disk. Half of one counts, too: it is of a
        writer that was killed, or that has found the disk full."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return max((_size_bytes(folder) for folder in self._directory.iterdir()), default=0)

    def _clear(self, kept: str = "") -> None:
        for left_over in self._directory.glob(f"{checkpoints.TEMPORARY}*"):
            if left_over.name != kept:
                shutil.rmtree(left_over, ignore_errors=True)

    def draft(self, name: str) -> Path:
        """Return the folder on this node for the files of a checkpoint that another worker has begun, by
        the name of its folder."""
        here = super().draft(name)
        if name.startswith(_PART) and not here.is_dir():
            self._clear(name)
            here.mkdir(parents=True, exist_ok=True)
        return here if here.is_dir() else self.behind.draft(name)

    def is_part(self, draft: Path) -> bool:
        """Return whether a draft has the files of this node alone."""
        return self.spans_nodes and self.holds(draft)

    def publish_part(self, name: str, manifest: bytes, step: int) -> Path:
        """Publish the files of this node in a draft, by its name, with the manifest of all nodes."""
        return checkpoints.publish(self.draft(name), step, manifest)

    def parts(self) -> dict[int, LocalPart]:
        """Return what this disk has of each checkpoint, by step."""
        found = {}
        for folder in self._directory.glob("step-*"):
            try:
                manifest = (folder / checkpoints.MANIFEST).read_bytes()
                files = checkpoints.parse_manifest(manifest, called=str(folder)).files
            except (OSError, CheckpointDamaged):
                continue
            here = tuple(name for name in sorted(files) if (folder / name).is_file())
            found[checkpoints.step_of(folder.name)] = LocalPart(
                digest_of(manifest), len(files), here
            )
        return found

    def own_place(self, step: int) -> Path:
        """Return the folder of what this disk has of a checkpoint."""
        return self._directory / checkpoints.folder_name(step)

    def to_read(self, step: int) -> Path:
        """Return where the files of a checkpoint are put together that other nodes have parts of. It is
        emptied by the next save."""
        return self._directory / f"{READ}{checkpoints.folder_name(step)}"

    def sent(self, path: Path, facts: FileFacts) -> None:
        """Send a file of a draft, unless it lies where it belongs."""
        if not self.holds(path.parent):
            self.behind.sent(path, facts)

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
        commit = super().commit if self.holds(folder) else self.behind.commit
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
