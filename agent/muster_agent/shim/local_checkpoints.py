"""Checkpoints that the job saves on this node's disk: the shim stores them, and finds those of earlier attempts.

The job writes the folder, so no link in it is followed, and what is stored has the digests of its
manifest. A checkpoint is reported as stored after the storage has all of it, and marked after that:
whoever is killed in between leaves one that is stored once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster import wire
from muster.sdk import checkpoints
from muster.sdk.checkpoints import (
    CheckpointDamaged,
    FileFacts,
    FolderStore,
    Manifest,
    digest_of,
)
from muster.sdk.local_store import mark_of
from muster.sdk.object_store import ObjectStore
from muster_agent.isolation import beneath
from muster_agent.jobs.launch import LaunchContext, is_built_in
from muster_agent.shim.control import Commands

STORE_S = 600.0
"""Longest wait in seconds after a finished job until the storage has its last checkpoint."""
KEPT = 2
"""Stored checkpoints that stay on the disk."""
LOOK_S = 1.0
JOIN_S = 0.2
"""Seconds between two looks whether the storage has the parts of all nodes."""
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0
_MANIFEST_MAX_BYTES = 64 * 2**20
_PIECE_BYTES = 4 * 2**20


def saves_locally(spec: wire.AllocationSpec) -> bool:
    """Return whether the workers save on this disk first. On several nodes, the built-in trainer alone can
    read a checkpoint of which each node has a part."""
    is_asked = bool((spec.config.get("checkpoints") or {}).get("local"))
    return is_asked and (spec.num_nodes == 1 or is_built_in(spec))


# ---------------------------------------------------------------- before the start


@dataclass(frozen=True, kw_only=True)
class LocalStart:
    """What the disk has of the checkpoints that the server expects on it."""

    start: wire.LocalCheckpoint | None = None
    """The newest intact one; None: the attempt starts from the storage, or the workers of several nodes
    find out what these have together."""
    step: int | None = None
    """Step that the attempt is expected to start from; None: that of the storage."""
    attempts: Mapping[int, int] | None = None
    """Attempt that saved it, by step, for each that is not stored."""
    damaged: tuple[str, ...] = ()
    """Sentence parts on those that are not as they were saved."""


def settle(spec: wire.AllocationSpec, folder: Path) -> LocalStart:
    """Find the newest intact checkpoint, and delete what the server does not expect in the folder of the
    trial. Reads that checkpoint as a whole; of an attempt on several nodes, all that is here. Raises OSError.
    """
    if saves_locally(spec):
        folder.mkdir(exist_ok=True)
    elif not folder.is_dir():
        return LocalStart()
    wanted = spec.local_checkpoints if saves_locally(spec) else []
    attempts = {w.step: w.attempt_no for w in wanted if not w.is_stored}
    is_gang = spec.num_nodes > 1
    root = beneath.open_root(folder)
    try:
        kept = {name for one in wanted for name in (one.path, mark_of(one.path))}
        for name in beneath.names_in(root):
            if name not in kept:
                beneath.remove(root, name)
        damaged: list[str] = []
        for one in sorted(wanted, key=lambda one: -one.step):
            try:
                with beneath.folder(root, beneath.parts_of(one.path)) as fd:
                    manifest, _ = _manifest(fd, one.path)
                    if manifest.files != one.files:
                        raise CheckpointDamaged("not the files that were reported")
                    _copy(fd, _here(fd, manifest) if is_gang else manifest.files, None)
            except FileNotFoundError:
                if (
                    not one.is_stored and not is_gang
                ):  # Another would be here only if this node has saved it.
                    damaged.append(f"{one.path} is not there")
            except (CheckpointDamaged, beneath.LeadsOutside, OSError) as error:
                damaged.append(f"{one.path}: {error}")
            else:
                if is_gang:
                    continue
                return LocalStart(
                    start=one, step=one.step, attempts=attempts, damaged=tuple(damaged)
                )
            beneath.remove(root, one.path)
        expected = max(attempts, default=None) if is_gang else None
        return LocalStart(step=expected, attempts=attempts, damaged=tuple(damaged))
    finally:
        os.close(root)


# ---------------------------------------------------------------- while the job runs


class LocalCheckpoints:
    """Copies what the workers have saved to the storage, one checkpoint at a time and the oldest first."""

    def __init__(
        self,
        folder: Path,
        store: FolderStore | ObjectStore,
        *,
        found: LocalStart,
        node_rank: int | None = None,
        record: Callable[[wire.CheckpointRecord], object],
        warn: Callable[[str], None],
    ) -> None:
        """Create the copier.

        node_rank: which of several nodes this is, each with a part of a checkpoint; None: this node has all
            of it.
        record: takes what the storage has. warn: takes a message for the trial's events.
        """
        self.has_news = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._folder = folder
        self._store = store
        self._attempts = dict(found.attempts or {})
        self._start = found.start.path if found.start else ""
        self._node_rank = node_rank
        self._added = b""
        """Manifest of the checkpoint of which the storage has this node's part."""
        self._record = record
        self._warn = warn
        self._said = self._doubted = ""

    def left(self) -> list[str]:
        """Return the names of the checkpoints that the storage does not have, oldest first."""
        root = beneath.open_root(self._folder)
        try:
            return [name for name in beneath.names_in(root) if _is_left(root, name)]
        finally:
            os.close(root)

    async def run(self) -> None:
        """Store until canceled."""
        pause_s = RETRY_FIRST_S
        while True:
            try:
                looks_s = LOOK_S
                for name in await asyncio.to_thread(self.left):
                    if not await self._store_one(name):
                        looks_s = JOIN_S
                        break
                pause_s = RETRY_FIRST_S
            except OSError as error:
                text = f"checkpoints wait on this node's disk, because the storage refuses: {error}"
                if text != self._said:
                    self._said = text
                    self._warn(text)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(looks_s):
                    await self.has_news.wait()
            self.has_news.clear()

    def heard(self, record: str) -> None:
        """Look at once if a report of a worker, as JSON, is of a checkpoint."""
        if '"type":"checkpoint"' in record[:40]:
            self.has_news.set()

    async def finish(
        self,
        commands: Commands,
        tick: Callable[[float], Awaitable[None]],
        *,
        until: float,
        grace_s: float,
    ) -> None:
        """Wait until the storage has all, or until a monotonic time; a stop that is asked for meanwhile
        leaves `grace_s`, and a kill nothing."""
        is_stopping = commands.must_end()
        while left := self.left():
            if commands.must_end() and not is_stopping:
                is_stopping, until = True, min(until, time.monotonic() + grace_s)
            if commands.kill is not None or time.monotonic() >= until:
                self._warn(
                    f"{', '.join(left)} could not be stored in time: the next attempt can continue "
                    "from there on this node only"
                )
                return
            self.has_news.set()
            await tick(0.05)

    async def _store_one(self, name: str) -> bool:
        """Store a checkpoint. False: the parts of other nodes are not stored yet."""
        try:
            stored = await asyncio.to_thread(self._copy_one, name)
        except (CheckpointDamaged, beneath.LeadsOutside) as error:
            if self._doubted != name:  # The job may just have saved the step again.
                self._doubted = name
                return True
            self._warn(f"{name} is damaged on this node's disk and was not stored: {error}")
            await asyncio.to_thread(self._remove, name)
            return True
        if stored is None:
            return False
        manifest, digest, is_ours = stored
        if is_ours:
            self._record(
                wire.CheckpointRecord(
                    step=manifest.step,
                    epoch=manifest.epoch,
                    path=name,
                    size_bytes=manifest.size_bytes,
                    files=manifest.files,
                    metrics=manifest.metrics,
                    attempt_no=self._attempts.pop(manifest.step, 0),
                )
            )
        await asyncio.to_thread(self._mark, name, digest)
        return True

    def _copy_one(self, name: str) -> tuple[Manifest, str, bool] | None:
        """Return the manifest, what the mark has to say, and whether it is this node that tells of the
        checkpoint; None while other nodes have not stored their parts."""
        root = beneath.open_root(self._folder)
        try:
            with beneath.folder(root, [name]) as fd:
                manifest, content = _manifest(fd, name)
                if checkpoints.folder_name(manifest.step) != name:
                    raise CheckpointDamaged(f"{name}: the manifest is of step {manifest.step}")
                if self._node_rank is not None:
                    return self._add_part(fd, manifest, content, self._node_rank)
                draft = self._store.begin(manifest.step)
                facts = _copy(fd, manifest.files, draft)
        finally:
            os.close(root)
        self._store.commit(
            draft,
            step=manifest.step,
            epoch=manifest.epoch,
            metrics={name: wire.decode_number(v) for name, v in manifest.metrics.items()},
            # An object store has to be sent them yet.
            settled=None if self._store.is_everywhere else facts,
        )
        return manifest, digest_of(content), True

    def _add_part(
        self, fd: int, manifest: Manifest, content: bytes, node_rank: int
    ) -> tuple[Manifest, str, bool] | None:
        """Do the part of one node in `_copy_one`."""
        step, here = manifest.step, _here(fd, manifest)
        is_ours = min(manifest.files) in here
        if self._added != content and not self._store.has(step, content):
            draft = self._store.begin_part(step, content, node_rank)
            facts = _copy(fd, here, draft)
            self._store.add_part(draft, step, content, facts)
        self._added = content
        if not (self._store.join if is_ours else self._store.has)(step, content):
            return None
        return manifest, digest_of(content), is_ours

    def _mark(self, name: str, digest: str) -> None:
        """Mark a checkpoint as stored, and delete stored ones that are older than the newest ones."""
        root = beneath.open_root(self._folder)
        try:
            beneath.remove(root, mark_of(name))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(mark_of(name), flags, 0o644, dir_fd=root), "w") as file:  # noqa: PTH123
                file.write(digest)
            left = self.left()
            names = [n for n in beneath.names_in(root) if n.startswith("step-")]
            for old in names[:-KEPT]:
                if old not in left and old != self._start:
                    beneath.remove(root, old)
                    beneath.remove(root, mark_of(old))
        finally:
            os.close(root)

    def _remove(self, name: str) -> None:
        root = beneath.open_root(self._folder)
        try:
            beneath.remove(root, name)
        finally:
            os.close(root)


def open_local(
    spec: wire.AllocationSpec,
    place: LaunchContext,
    found: LocalStart,
    record: Callable[[wire.Record], object],
    warn: Callable[[str], None],
) -> LocalCheckpoints | None:
    """Begin to store what the workers save on this disk, and what earlier attempts have left there. None
    where they do not save there. Reports what was found damaged."""
    resume_step = spec.resume_step if found.start is None else found.start.step
    is_gang = spec.num_nodes > 1
    for text in found.damaged:
        record(
            wire.MessageRecord(
                level="warning",
                text=f"checkpoint on this node's disk passed over: {text}"[:2000],
                event=wire.CHECKPOINT_DAMAGED,
                # Of several nodes, the workers say what is left of it.
                resume_step=None if is_gang else resume_step,
            )
        )
    if not place.checkpoint_local:
        return None
    folder, url = Path(place.checkpoint_dir), spec.checkpoint_url
    store = ObjectStore(url, folder) if url else FolderStore(folder)
    copies = LocalCheckpoints(
        Path(place.checkpoint_local),
        store,
        found=found,
        node_rank=spec.node_rank if is_gang else None,
        record=record,
        warn=warn,
    )
    copies.task = asyncio.create_task(copies.run())
    return copies


# ---------------------------------------------------------------- files


def _is_left(root: int, name: str) -> bool:
    """Return whether this is a checkpoint without the mark that it is stored."""
    if not name.startswith("step-"):
        return False
    try:
        with beneath.folder(root, [name]) as fd:
            _, content = _manifest(fd, name)
    except (OSError, CheckpointDamaged):
        return False  # A link, or what the job deletes at this moment.
    with contextlib.suppress(CheckpointDamaged), _opened(root, mark_of(name)) as mark:
        return os.read(mark, 64) != digest_of(content).encode()
    return True


def _manifest(folder: int, name: str) -> tuple[Manifest, bytes]:
    with _opened(folder, checkpoints.MANIFEST) as source:
        content = os.read(source, _MANIFEST_MAX_BYTES)
    return checkpoints.parse_manifest(content, called=name), content


def _here(folder: int, manifest: Manifest) -> dict[str, str]:
    """Return those of a checkpoint's files that this node has, with their SHA-256."""
    found = {}
    for name, sha256 in manifest.files.items():
        with contextlib.suppress(CheckpointDamaged), _opened(folder, name):
            found[name] = sha256
    return found


def _copy(folder: int, files: Mapping[str, str], to: Path | None) -> dict[str, FileFacts]:
    """Copy files of a checkpoint, given with their SHA-256, to disk, or only read them. Raises
    CheckpointDamaged for the first one that is not what the manifest says."""
    facts = {}
    for name, sha256 in files.items():
        digest, size_bytes = hashlib.sha256(), 0
        with contextlib.ExitStack() as opened:
            source = opened.enter_context(_opened(folder, name))
            target = None
            if to is not None:
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                target = opened.enter_context((to / name).open("wb", buffering=0))
            while piece := os.read(source, _PIECE_BYTES):
                digest.update(piece)
                size_bytes += len(piece)
                rest = memoryview(piece)
                while target is not None and rest:
                    rest = rest[target.write(rest) :]
            if target is not None:
                os.fsync(target.fileno())
        if digest.hexdigest() != sha256:
            raise CheckpointDamaged(f"{name} does not have the SHA-256 of the manifest")
        facts[name] = FileFacts(sha256, size_bytes)
    return facts


@contextlib.contextmanager
def _opened(folder: int, name: str) -> Iterator[int]:
    """Yield a descriptor of a regular file below a folder. Raises CheckpointDamaged if there is none."""
    *above, last = beneath.parts_of(name)
    with contextlib.ExitStack() as opened:
        try:
            fd = beneath.open_file(last, opened.enter_context(beneath.folder(folder, above)))
        except OSError as error:
            raise CheckpointDamaged(f"{name} cannot be read: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise CheckpointDamaged(f"{name} is no file")
            yield fd
        finally:
            os.close(fd)
