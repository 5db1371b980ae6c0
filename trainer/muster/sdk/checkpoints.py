"""Checkpoints that are either complete or absent.

A checkpoint is a folder `step-00000120` holding files and a `manifest.json` with their SHA-256. It
is written under a temporary name and renamed when everything is on disk; a process that dies on the
way leaves a `.tmp-…` folder that nobody will ever load.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster import wire

MANIFEST = "manifest.json"
FORMAT = 1
TEMPORARY = ".tmp-"
"""Beginning of the names of folders that are not complete."""
_PROBE = ".probe-"
_PART = ".part-"


class CheckpointDamaged(Exception):
    """A checkpoint's files differ from its manifest."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    step: int
    epoch: float | None
    files: dict[str, str]
    """SHA-256 in hex by file name (relative, `/` separated)."""
    sizes: dict[str, int]
    """Bytes by file name."""
    metrics: dict[str, wire.Number]

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes.values())


@dataclass(frozen=True)
class FileFacts:
    """Size and hash of a file when it was written."""

    sha256: str
    size_bytes: int


def settle(path: Path) -> FileFacts:
    """Make a written file durable and return its size and hash. Raises OSError if the disk refuses."""
    _sync(path)
    return FileFacts(_sha256(path), path.stat().st_size)


def folder_name(step: int) -> str:
    return f"step-{step:08d}"


def step_of(name: str) -> int:
    """Return the step in the name of a checkpoint's folder, or of its draft; -1 for any other name."""
    found = re.match(r"step-(\d+)", name)
    return int(found[1]) if found else -1


def probe(directory: Path) -> str:
    """Return the name of a new empty file, by which others find out whether they see the same
    folder."""
    with tempfile.NamedTemporaryFile(prefix=_PROBE, dir=directory, delete=False) as file:
        return Path(file.name).name


def begin(directory: Path, step: int) -> Path:
    """Return an empty temporary folder for the checkpoint of `step`; folders left by dead writers
    are deleted.

    A trial has one attempt at a time, and that saves one checkpoint at a time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for left_over in directory.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    folder = directory / f"{TEMPORARY}{folder_name(step)}-{os.getpid()}"
    folder.mkdir()
    return folder


def commit(
    folder: Path,
    *,
    step: int,
    epoch: float | None = None,
    metrics: Mapping[str, float] | None = None,
    settled: Mapping[str, FileFacts] | None = None,
) -> tuple[Path, Manifest]:
    """Hash and sync what lies in the temporary `folder`, then give it its final name.

    settled: file name → what its writer said of it, for files that others have written. They are
        not read again, but have to be there, and as long.
    An earlier checkpoint of the same step is replaced. Raises OSError when the disk refuses.
    """
    found: dict[str, FileFacts] = {}
    known = dict(settled or {})
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        facts = found[name] = known.pop(name) if name in known else settle(path)
        if path.stat().st_size != facts.size_bytes:
            raise OSError(errno.EIO, "shorter than what was written", str(path))
    if known:
        raise OSError(
            errno.ENOENT, "written by another worker, but not to be seen here", min(known)
        )
    manifest = manifest_of(found, step=step, epoch=epoch, metrics=metrics)
    return publish(folder, step, manifest_text(manifest).encode()), manifest


def publish(folder: Path, step: int, manifest: bytes) -> Path:
    """Give a temporary folder its manifest and its final name."""
    (folder / MANIFEST).write_bytes(manifest)
    _sync(folder / MANIFEST)
    _sync(folder)
    final = folder.parent / folder_name(step)
    if final.exists():
        # Only reached when a step is trained again; the old one is moved aside first because a
        # folder cannot be replaced by rename.
        aside = folder.parent / f"{TEMPORARY}{folder_name(step)}-old"
        shutil.rmtree(aside, ignore_errors=True)
        final.rename(aside)
        folder.rename(final)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        folder.rename(final)
    _sync(final.parent)
    return final


def manifest_of(
    found: Mapping[str, FileFacts],
    *,
    step: int,
    epoch: float | None,
    metrics: Mapping[str, float] | None,
) -> Manifest:
    """Return the manifest of a checkpoint with these files, by name."""
    return Manifest(
        step=step,
        epoch=epoch,
        files={name: facts.sha256 for name, facts in found.items()},
        sizes={name: facts.size_bytes for name, facts in found.items()},
        metrics={k: wire.encode_number(v) for k, v in (metrics or {}).items()},
    )


def manifest_text(manifest: Manifest) -> str:
    """Return the content of a manifest's file."""
    files = {
        name: {"sha256": sha256, "size_bytes": manifest.sizes[name]}
        for name, sha256 in manifest.files.items()
    }
    document = {
        "format": FORMAT,
        "step": manifest.step,
        "epoch": manifest.epoch,
        "files": files,
        "metrics": manifest.metrics,
    }
    return json.dumps(document, indent=1, allow_nan=False)


def digest_of(manifest: bytes) -> str:
    """Return what tells a checkpoint from another one of the same step."""
    return hashlib.sha256(manifest).hexdigest()


def read_manifest(folder: Path, *, called: str = "") -> Manifest:
    """Read the manifest of a folder. Raises CheckpointDamaged if it is not valid, or names files
    outside of the folder.

    called: what errors call the folder, where it is a copy.
    """
    called = called or str(folder)
    try:
        content = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise CheckpointDamaged(f"{called}: no readable {MANIFEST} ({error})") from error
    return parse_manifest(content, called=called)


def parse_manifest(content: bytes, *, called: str) -> Manifest:
    """Return the manifest with this content; see `read_manifest`."""
    try:
        document: dict[str, Any] = json.loads(content)
        entries = {
            str(n): (str(e["sha256"]), int(e["size_bytes"])) for n, e in document["files"].items()
        }
        manifest = Manifest(
            step=int(document["step"]),
            epoch=document.get("epoch"),
            files={n: e[0] for n, e in entries.items()},
            sizes={n: e[1] for n, e in entries.items()},
            metrics=dict(document.get("metrics") or {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(f"{called}: no readable {MANIFEST} ({error})") from error
    for name in manifest.files:
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise CheckpointDamaged(f"{called}: file name {name!r} leaves the checkpoint")
    return manifest


def verify_checkpoint(folder: str | os.PathLike[str], *, called: str = "") -> Manifest:
    """Read the manifest and check size and SHA-256 of every file it names.

    called: what errors call the folder, where it is a copy.
    Raises CheckpointDamaged with the first thing that is wrong.
    """
    folder = Path(folder)
    called = called or str(folder)
    manifest = read_manifest(folder, called=called)
    for name, size in manifest.sizes.items():
        path = folder / name
        if not path.is_file():
            raise CheckpointDamaged(f"{called}: {name} is missing")
        if path.stat().st_size != size:
            raise CheckpointDamaged(
                f"{called}: {name} has {path.stat().st_size} bytes instead of {size}"
            )
        if _sha256(path) != manifest.files[name]:
            raise CheckpointDamaged(f"{called}: {name} does not have the SHA-256 of the manifest")
    return manifest


class FolderStore:
    """The folder of a trial's checkpoints, with the methods of object_store.ObjectStore."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def is_everywhere(self) -> bool:
        """Whether all workers see the folder, on whatever node they are. False here: only a
        probe can tell."""
        return False

    def place_of(self, name: str) -> str:
        """Return the path under which readers find a checkpoint."""
        return str(self._directory / name)

    def check(self, worker: int) -> None:
        """Do nothing: the agent has checked that the folder is writable."""

    def begin(self, step: int) -> Path:
        """Return an empty folder for the checkpoint of `step`; see `begin`."""
        return begin(self._directory, step)

    def draft(self, name: str) -> Path:
        """Return the folder that another worker has begun, by its name."""
        return self._directory / name

    def sent(self, path: Path, facts: FileFacts) -> None:
        """Do nothing: a written file of a draft already lies where it belongs."""

    def commit(
        self,
        folder: Path,
        *,
        step: int,
        epoch: float | None = None,
        metrics: Mapping[str, float] | None = None,
        settled: Mapping[str, FileFacts] | None = None,
    ) -> tuple[Path, Manifest]:
        """Publish the content of a folder; see `commit`."""
        return commit(folder, step=step, epoch=epoch, metrics=metrics, settled=settled)

    # ---- a checkpoint of which several nodes have parts on their disks, see muster.sdk.local_store

    def begin_part(self, step: int, manifest: bytes, node_rank: int) -> Path:
        """Return an empty folder for the files that one node has of a checkpoint.

        manifest: content of the manifest that all its nodes have.
        """
        folder = self._parts(step, manifest) / f"{_PART}{node_rank}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def add_part(
        self, folder: Path, step: int, manifest: bytes, facts: Mapping[str, FileFacts]
    ) -> None:
        """Add the files of such a folder, complete and durable, to those of the other nodes."""
        for name in facts:
            target = self._parts(step, manifest) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (folder / name).replace(target)
        shutil.rmtree(folder, ignore_errors=True)  # With the last file, another node may publish.

    def join(self, step: int, manifest: bytes) -> bool:
        """Publish the checkpoint once all nodes have added their parts. False: some have not yet."""
        if self.has(step, manifest):
            return True
        folder = self._parts(step, manifest)
        for name, size in parse_manifest(manifest, called=str(folder)).sizes.items():
            try:
                if (folder / name).stat().st_size != size:
                    return False
            except FileNotFoundError:
                return False
        for left_over in folder.glob(f"{_PART}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        publish(folder, step, manifest)
        # Nobody completes what is older: it is of an attempt whose nodes do not continue it.
        for old in self._directory.glob(f"{TEMPORARY}step-*"):
            if step_of(old.name.removeprefix(TEMPORARY)) <= step:
                shutil.rmtree(old, ignore_errors=True)
        return True

    def has(self, step: int, manifest: bytes) -> bool:
        """Return whether the storage has this checkpoint, and not another one of the same step."""
        try:
            return (self._directory / folder_name(step) / MANIFEST).read_bytes() == manifest
        except FileNotFoundError:
            return False

    def _parts(self, step: int, manifest: bytes) -> Path:
        return self._directory / f"{TEMPORARY}{folder_name(step)}-{digest_of(manifest)[:16]}"


def newest_intact(wanted: Path) -> tuple[Path, Manifest, list[str]] | None:
    """Return `wanted` if it is intact, else the newest intact checkpoint before it in the same
    folder. Also returns one sentence per damaged checkpoint that was skipped. None if none is
    intact.
    """
    candidates = [wanted]
    if wanted.parent.is_dir():
        earlier = sorted(
            (p for p in wanted.parent.glob("step-*") if p.name < wanted.name), reverse=True
        )
        candidates += earlier
    problems: list[str] = []
    for folder in candidates:
        try:
            return folder, verify_checkpoint(folder), problems
        except CheckpointDamaged as error:
            problems.append(str(error))
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
