"""The images that this agent has pulled: remembered, and deleted when they take too much disk.

Only images that were not on the node before their pull belong to the agent. Each has a file with its
names and size, whose time is that of the last use, and a lock that jobs share from PREPARE until their
end. An image without a file is somebody else's and is never touched; neither is one that somebody has
given another name, or that any container uses, which the engine refuses to delete.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from muster.image_names import full_name
from muster_agent.containers.client import EngineFailed, call, call_json
from muster_agent.isolation.containers import Engine

IMAGES_FOLDER = "images"
"""Folder of the cache in the agent's home."""
REMOVE_TIMEOUT_S = 300.0
UNKNOWN_IMAGE = re.compile(r"no such image|image not known", re.IGNORECASE)
"""Words of engines about an image that is not on the node."""
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class CachedImage:
    """An image that the agent has pulled."""

    id: str
    names: list[str]
    """Full names under which it was pulled."""
    size_bytes: int
    """Bytes of all its layers, those included that it shares with other images."""
    last_used_at: float
    """Unix time in seconds of the latest start of a job with it."""
    is_in_use: bool = False
    """Whether a job of this agent uses it."""
    is_excess: bool = False
    """Whether it is deleted at the next opportunity, because the images exceed the limit."""


class ImageCache:
    """The images that the agent with this folder has pulled. Several processes may use it at once."""

    def __init__(self, folder: Path, *, limit_bytes: int) -> None:
        """Open the cache; `limit_bytes` is what all images together may take."""
        self._folder = folder
        self.locks = folder / "pulls"
        """Folder of the locks by which only one job pulls an image."""
        self.limit_bytes = limit_bytes

    def add(self, image_id: str, name: str, *, size_bytes: int) -> None:
        """Remember an image that the agent has pulled under `name`."""
        names = [name]
        with contextlib.suppress(OSError, ValueError, KeyError):
            names = sorted({name, *json.loads(self._file(image_id).read_text())["names"]})
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{image_id}.{os.getpid()}"
        temporary.write_text(json.dumps({"names": names, "size_bytes": size_bytes}))
        temporary.replace(self._file(image_id))

    def has(self, image_id: str) -> bool:
        """Return whether the agent has pulled this image."""
        return self._file(image_id).exists()

    def use(self, image_id: str) -> int | None:
        """Note that a job uses an image. Return a descriptor that keeps it from being deleted until
        it is closed; None for an image of somebody else, which is never deleted."""
        if not self.has(image_id):
            return None
        with contextlib.suppress(OSError):
            os.utime(self._file(image_id))
        lock = self._lock(image_id)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock

    def entries(self) -> list[CachedImage]:
        """Return the images, the one used last first."""
        found = []
        for path in self._folder.glob("*.json"):
            image_id = path.stem
            try:
                about = json.loads(path.read_text())
                found.append(
                    CachedImage(
                        id=image_id,
                        names=[str(name) for name in about["names"]],
                        size_bytes=int(about["size_bytes"]),
                        last_used_at=path.stat().st_mtime,
                        is_in_use=self._is_locked(image_id),
                    )
                )
            except (OSError, ValueError, KeyError):
                continue  # Deleted meanwhile.
        found.sort(key=lambda image: -image.last_used_at)
        return mark_excess(found, limit_bytes=self.limit_bytes)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all its images; layers that they share are counted several times."""
        total = 0
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                total += int(json.loads(path.read_text())["size_bytes"])
        return total

    def trim(self, engine: Engine) -> tuple[list[CachedImage], list[str]]:
        """Delete the least recently used images until the rest fits; return those that were deleted,
        and sentences about those that could not be. Blocks."""
        deleted, problems = [], []
        for image in self.entries():
            if not image.is_excess:
                continue
            try:
                with self._exclusive(image.id) as is_free:
                    if is_free and self._delete(engine, image):
                        deleted.append(image)
            except EngineFailed as error:
                problems.append(f"{image.names[0]} could not be deleted: {error}")
        return deleted, problems

    def _delete(self, engine: Engine, image: CachedImage) -> bool:
        """Delete an image and forget it; return False if it is not ours to delete. Raises
        EngineFailed, as of an image that a container uses."""
        if engine.is_plain:
            self._file(image.id).unlink(missing_ok=True)
            self.image_file(image.id).unlink(missing_ok=True)
            return True
        try:
            about = call_json(engine, "image", "inspect", image.id)[0]
        except EngineFailed as error:
            if not UNKNOWN_IMAGE.search(str(error)):
                raise
            self._file(image.id).unlink(missing_ok=True)  # Somebody else has deleted it.
            return False
        tags = [str(tag) for tag in about.get("RepoTags") or []]
        if any(_with_tag(tag) not in map(_with_tag, image.names) for tag in tags):
            self._file(image.id).unlink(missing_ok=True)  # Somebody else has named it.
            return False
        call(engine, "rmi", *(tags or [image.id]), timeout_s=REMOVE_TIMEOUT_S)
        self._file(image.id).unlink(missing_ok=True)
        return True

    def _file(self, image_id: str) -> Path:
        if not _ID.fullmatch(image_id):
            raise ValueError(f"not the id of an image: {image_id!r}")
        return self._folder / f"{image_id}.json"

    def image_file(self, image_id: str) -> Path:
        """Return where an image lies that is a file."""
        return self._folder / f"{image_id}.sif"

    def _lock(self, image_id: str) -> int:
        return os.open(self._folder / f"{image_id}.used", os.O_RDWR | os.O_CREAT, 0o600)

    def _is_locked(self, image_id: str) -> bool:
        with self._exclusive(image_id) as is_free:
            return not is_free

    @contextlib.contextmanager
    def _exclusive(self, image_id: str) -> Iterator[bool]:
        """Yield whether no job uses the image; while the block runs, none begins to."""
        lock = self._lock(image_id)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(lock)


def mark_excess(images: Iterable[CachedImage], *, limit_bytes: int) -> list[CachedImage]:
    """Return the images, the one used last first, with those marked that are to be deleted: from the
    least recently used one on, as many as it takes until the rest fits. Images in use stay."""
    found = list(images)
    total = sum(image.size_bytes for image in found)
    marked = []
    for image in reversed(found):
        is_excess = total > limit_bytes and not image.is_in_use
        if is_excess:
            total -= image.size_bytes
        marked.append(CachedImage(**{**asdict(image), "is_excess": is_excess}))
    return marked[::-1]


def _with_tag(name: str) -> str:
    full = full_name(name)
    return full if ":" in full.rpartition("/")[2] or "@" in full else f"{full}:latest"
