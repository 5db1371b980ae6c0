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
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster import wire

MANIFEST = "manifest.json"
FORMAT = 1
_TEMPORARY = ".tmp-"
_PROBE = ".probe-"


class CheckpointDamaged(Exception):
    """The files of a checkpoint are not those its manifest promises."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    step: int
    epoch: float | None
    files: dict[str, str]
    """File name (relative, `/` separated) → SHA-256 in hex."""
    sizes: dict[str, int]
    """File name → bytes."""
    metrics: dict[str, wire.Number]

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes.values())


@dataclass(frozen=True)
class FileFacts:
    """What a file was when it was written."""

    sha256: str
    size_bytes: int


def settle(path: Path) -> FileFacts:
    """Make a written file durable, and say what it is. Raises OSError when the disk refuses."""
    _sync(path)
    return FileFacts(_sha256(path), path.stat().st_size)


def folder_name(step: int) -> str:
    return f"step-{step:08d}"


def probe(directory: Path) -> str:
    """The name of a new empty file, by which others find out whether they see the same folder."""
    with tempfile.NamedTemporaryFile(prefix=_PROBE, dir=directory, delete=False) as file:
        return Path(file.name).name


def begin(directory: Path, step: int) -> Path:
    """An empty temporary folder for the checkpoint of `step`; left-overs of dead writers go.

    A trial has one attempt at a time, and that saves one checkpoint at a time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for left_over in directory.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    folder = directory / f"{_TEMPORARY}{folder_name(step)}-{os.getpid()}"
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
    files: dict[str, str] = {}
    sizes: dict[str, int] = {}
    known = dict(settled or {})
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        facts = known.pop(name, None) or settle(path)
        files[name], sizes[name] = facts.sha256, facts.size_bytes
        if path.stat().st_size != facts.size_bytes:
            raise OSError(errno.EIO, "shorter than what was written", str(path))
    if known:
        raise OSError(
            errno.ENOENT, "written by another worker, but not to be seen here", min(known)
        )
    manifest = Manifest(
        step=step,
        epoch=epoch,
        files=files,
        sizes=sizes,
        metrics={k: wire.encode_number(v) for k, v in (metrics or {}).items()},
    )
    document = {
        "format": FORMAT,
        "step": step,
        "epoch": epoch,
        "files": {n: {"sha256": files[n], "size_bytes": sizes[n]} for n in files},
        "metrics": manifest.metrics,
    }
    manifest_path = folder / MANIFEST
    manifest_path.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    _sync(manifest_path)
    _sync(folder)
    final = folder.parent / folder_name(step)
    if final.exists():
        # Only reached when a step is trained again; the old one is moved aside first because a
        # folder cannot be replaced by rename.
        aside = folder.parent / f"{_TEMPORARY}{folder_name(step)}-old"
        shutil.rmtree(aside, ignore_errors=True)
        final.rename(aside)
        folder.rename(final)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        folder.rename(final)
    _sync(final.parent)
    return final, manifest


def verify_checkpoint(folder: str | os.PathLike[str]) -> Manifest:
    """Read the manifest and check size and SHA-256 of every file it names.

    Raises CheckpointDamaged with the first thing that is wrong.
    """
    folder = Path(folder)
    try:
        document: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(f"{folder}: no readable {MANIFEST} ({error})") from error
    for name, size in manifest.sizes.items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise CheckpointDamaged(f"{folder}: file name {name!r} leaves the checkpoint")
        if not path.is_file():
            raise CheckpointDamaged(f"{folder}: {name} is missing")
        if path.stat().st_size != size:
            raise CheckpointDamaged(
                f"{folder}: {name} has {path.stat().st_size} bytes instead of {size}"
            )
        if _sha256(path) != manifest.files[name]:
            raise CheckpointDamaged(f"{folder}: {name} does not have the SHA-256 of the manifest")
    return manifest


def newest_intact(wanted: Path) -> tuple[Path, Manifest, list[str]] | None:
    """`wanted` when it is intact, else the newest intact checkpoint before it in the same folder.

    Also returns one sentence per damaged one that was passed over. None when none is intact.
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
