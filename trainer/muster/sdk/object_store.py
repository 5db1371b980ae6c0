"""Checkpoints of a trial in an object store: S3 (`s3://`) or Google Cloud Storage (`gs://`).

    s3://bucket/prefix/muster-<server's id>/experiment-12/trial-1/step-00000120/
        shard-00000.safetensors   index.json   training.pt     each sent by who has written it
        manifest.json                                          sent last

An object appears whole or not at all, and folders cannot be renamed: a checkpoint is there as soon as
its manifest is, and whatever lies in a folder without one is never looked at. Files are written on the
node's disk, hashed, sent, and read from there again after they have been fetched and verified.

Credentials are those of the process: environment, files and metadata services that s3fs and gcsfs look
at by themselves. Never in a document, which everybody may read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from muster.sdk import checkpoints
from muster.sdk.checkpoints import MANIFEST, CheckpointDamaged, FileFacts, Manifest

EXTRAS = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gcs")}
"""Package that handles a URL's scheme, and the extra of this distribution that installs it, by
scheme."""
_SENDING, _FETCHED, _LOCK = "sending", "fetched", ".fetching"
_SAID_CHARS = 300


class StoreRefused(OSError):
    """An object store cannot be used; the message says which one, and why."""

    def __init__(self, number: int, text: str, *, is_final: bool = False) -> None:
        """Create the error; `is_final` means that retrying does not help unless somebody changes
        something."""
        super().__init__(number, text)
        self.is_final = is_final


def is_url(place: str) -> bool:
    """Return whether a checkpoint is in an object store rather than at a path."""
    return "://" in place


class ObjectStore:
    """The folder of one trial in an object store. Methods raise StoreRefused if the store refuses."""

    def __init__(self, url: str, local: Path) -> None:
        """Create the store without any access; `local` is a folder of this node for files in
        transit."""
        self.url = url.rstrip("/")
        self._local = local
        self._cleared = False

    @property
    def is_everywhere(self) -> bool:
        """Whether all workers see the folder, on whatever node they are."""
        return True

    def place_of(self, name: str) -> str:
        """Return the URL under which readers find a checkpoint."""
        return f"{self.url}/{name}"

    def check(self, worker: int) -> None:
        """Check that this worker may write here, before training rather than after an epoch."""
        with _opened(self.url) as (fs, root):
            probe = f"{root}/.probe-{worker}"
            fs.pipe_file(probe, b"")
            fs.rm_file(probe)

    # ---- saving

    def begin(self, step: int) -> Path:
        """Return an empty folder on this node for the checkpoint of `step`. An existing checkpoint
        of that step is withdrawn, and folders left by dead writers are deleted: a trial has one
        attempt at a time."""
        name = checkpoints.folder_name(step)
        with _opened(self.url) as (fs, root):
            found = _objects(fs, root)
            complete = {_step_of(root, path) for path in found if path.endswith(f"/{MANIFEST}")}
            doomed = [
                path
                for path in found
                if (of := _step_of(root, path)) == name
                or (not self._cleared and of not in complete)
            ]
            _remove(fs, doomed)
            self._cleared = True
        shutil.rmtree(self._local / _SENDING, ignore_errors=True)
        return self.draft(name)

    def draft(self, name: str) -> Path:
        """Return the folder on this node for the files of a checkpoint that another worker has
        begun."""
        folder = self._local / _SENDING / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def sent(self, path: Path, facts: FileFacts) -> None:
        """Send a file of a draft, and delete it here."""
        self._send(path, path.name, facts)
        path.unlink()

    def commit(
        self,
        folder: Path,
        *,
        step: int,
        epoch: float | None = None,
        metrics: Mapping[str, float] | None = None,
        settled: Mapping[str, FileFacts] | None = None,
    ) -> tuple[Path, Manifest]:
        """Send what lies in the draft, see that what others have sent is there, then the manifest.

        The folder that is returned is no longer there; its name is that of the checkpoint.
        """
        facts = dict(settled or {})
        with _opened(self.url) as (fs, root):
            for name, fact in facts.items():
                self._has(fs, f"{root}/{folder.name}/{name}", fact)
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            name = path.relative_to(folder).as_posix()
            facts[name] = checkpoints.settle(path)
            self._send(path, name, facts[name], folder=folder.name)
        manifest = checkpoints.manifest_of(facts, step=step, epoch=epoch, metrics=metrics)
        text = checkpoints.manifest_text(manifest).encode()
        with _opened(self.url) as (fs, root):
            fs.pipe_file(f"{root}/{folder.name}/{MANIFEST}", text)
        shutil.rmtree(folder)
        return folder, manifest

    # ---- a checkpoint of which several nodes have parts on their disks; see FolderStore

    def begin_part(self, step: int, manifest: bytes, node_rank: int) -> Path:
        """Return an empty folder on this node for the files that it has of a checkpoint."""
        shutil.rmtree(self._local / _SENDING, ignore_errors=True)
        return self.draft(checkpoints.folder_name(step))

    def add_part(
        self, folder: Path, step: int, manifest: bytes, facts: Mapping[str, FileFacts]
    ) -> None:
        """Send the files of such a folder. Objects cannot be renamed, so beside each one lies another that
        says of which checkpoint it is."""
        name = checkpoints.folder_name(step)
        with _opened(self.url) as (fs, root):
            with contextlib.suppress(FileNotFoundError):  # Its files are replaced from now on.
                if fs.cat_file(f"{root}/{name}/{MANIFEST}") != manifest:
                    fs.rm_file(f"{root}/{name}/{MANIFEST}")
            for file, fact in facts.items():
                self._send(folder / file, file, fact, folder=name)
                fs.pipe_file(f"{root}/{_sent_mark(step, manifest)}/{file}", b"")
        shutil.rmtree(folder)

    def join(self, step: int, manifest: bytes) -> bool:
        """Send the manifest once all nodes have sent their parts. False: some have not yet."""
        if self.has(step, manifest):
            return True
        name, wanted = (
            checkpoints.folder_name(step),
            checkpoints.parse_manifest(manifest, called=self.url),
        )
        with _opened(self.url) as (fs, root):
            marks = f"{root}/{_sent_mark(step, manifest)}/"
            if set(wanted.files) - {path.removeprefix(marks) for path in _objects(fs, marks[:-1])}:
                return False
            for file, size in wanted.sizes.items():
                self._has(fs, f"{root}/{name}/{file}", FileFacts(wanted.files[file], size))
            fs.pipe_file(f"{root}/{name}/{MANIFEST}", manifest)
            found = _objects(fs, root)
            complete = {_step_of(root, path) for path in found if path.endswith(f"/{MANIFEST}")}
            kept = {f"{root}/{name}/{file}" for file in (MANIFEST, *wanted.files)}
            _remove(
                fs,
                [
                    path
                    for path in found
                    if ((of := _step_of(root, path)) == name and path not in kept)
                    or (0 <= checkpoints.step_of(of) < step and of not in complete)
                ],
            )
        return True

    def has(self, step: int, manifest: bytes) -> bool:
        """Return whether the store has this checkpoint, and not another one of the same step."""
        with _opened(self.url) as (fs, root):
            try:
                found: bytes = fs.cat_file(f"{root}/{checkpoints.folder_name(step)}/{MANIFEST}")
            except FileNotFoundError:
                return False
        return found == manifest

    def _send(self, path: Path, name: str, facts: FileFacts, *, folder: str = "") -> None:
        with _opened(self.url) as (fs, root):
            target = f"{root}/{folder or path.parent.name}/{name}"
            fs.put_file(str(path), target)
            self._has(fs, target, facts)

    def _has(self, fs: Any, target: str, facts: FileFacts) -> None:
        size = fs.info(target)["size"]
        if size != facts.size_bytes:
            raise StoreRefused(
                errno.EIO, f"{target} has {size} bytes instead of the {facts.size_bytes} sent"
            )


# ---------------------------------------------------------------- reading


def fetched(place: str, local: Path) -> Path:
    """Return the folder on this node of a fetched checkpoint, or the folder itself for a path."""
    return local / _FETCHED / place.rpartition("/")[2] if is_url(place) else Path(place)


def fetch(url: str, local: Path) -> tuple[Path, Manifest]:
    """Fetch a checkpoint to this node's disk and verify it. Of several workers of a node, one
    fetches it.

    local: a folder of this node; what was fetched into it before goes.
    Raises CheckpointDamaged, also when there is none, and StoreRefused.
    """
    place = local / _FETCHED
    place.mkdir(parents=True, exist_ok=True)
    final = place / url.rstrip("/").rpartition("/")[2]
    with (place / _LOCK).open("w") as lock, _opened(url) as (fs, root):
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            manifest = fs.cat_file(f"{root}/{MANIFEST}")
        except FileNotFoundError:
            raise CheckpointDamaged(f"{url}: no readable {MANIFEST} (it is not there)") from None
        if final.exists() and (final / MANIFEST).read_bytes() == manifest:
            return final, checkpoints.read_manifest(final)
        for old in place.glob("*"):
            shutil.rmtree(old, ignore_errors=True)
        draft = place / f".tmp-{final.name}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        (draft / MANIFEST).write_bytes(manifest)
        for name in checkpoints.read_manifest(draft, called=url).files:
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # verifying says so
                fs.get_file(f"{root}/{name}", str(draft / name))
        try:
            verified = checkpoints.verify_checkpoint(draft, called=url)
        except CheckpointDamaged:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        draft.rename(final)
        return final, verified


def newest_intact(url: str, local: Path) -> tuple[Path, Manifest, list[str]] | None:
    """Return the newest intact checkpoint of an object store, in a folder on this node; see
    `checkpoints.newest_intact`."""
    parent, _, wanted = url.rstrip("/").rpartition("/")
    with _opened(parent) as (fs, root):
        names = {
            _step_of(root, path) for path in _objects(fs, root) if path.endswith(f"/{MANIFEST}")
        }
    earlier = sorted((n for n in names if n.startswith("step-") and n < wanted), reverse=True)
    problems: list[str] = []
    for name in (wanted, *earlier):
        try:
            folder, manifest = fetch(f"{parent}/{name}", local)
        except CheckpointDamaged as error:
            problems.append(str(error))
        else:
            return folder, manifest, problems
    return None


def delete(url: str) -> int:
    """Delete everything below a folder; return the bytes of its objects, 0 if there were none."""
    with _opened(url) as (fs, root):
        found = _objects(fs, root)
        _remove(fs, list(found))
        return sum(found.values())


# ---------------------------------------------------------------- single objects


READ_BYTES = 4 * 2**20
"""Bytes of one piece of an object that is read."""


def put(url: str, path: Path) -> None:
    """Send a file of this node as one object; it is there as a whole or not at all."""
    with _opened(url) as (fs, root):
        fs.put_file(str(path), root)
        size = fs.info(root)["size"]
        if size != path.stat().st_size:
            raise StoreRefused(
                errno.EIO, f"{url} has {size} bytes instead of the {path.stat().st_size} sent"
            )


def copy(url: str, to: str) -> None:
    """Copy an object within its object store, which does that by itself."""
    with _opened(url) as (fs, source), _opened(to) as (_, target):
        fs.cp_file(source, target)


def put_bytes(url: str, content: bytes) -> None:
    """Write a small object."""
    with _opened(url) as (fs, root):
        fs.pipe_file(root, content)


def read(url: str) -> Iterator[bytes]:
    """Yield the content of an object in pieces. Raises StoreRefused with ENOENT if it is not there."""
    with _opened(url) as (fs, root), fs.open(root, "rb", block_size=READ_BYTES) as file:
        while piece := file.read(READ_BYTES):
            yield piece


def sizes(url: str) -> dict[str, int]:
    """Return the size in bytes of every object below a folder, by its path within the folder."""
    with _opened(url) as (fs, root):
        return {path.removeprefix(f"{root}/"): size for path, size in _objects(fs, root).items()}


def changed_at(url: str) -> float:
    """Return the time at which an object was written, in seconds since 1970."""
    with _opened(url) as (fs, root):
        return float(fs.modified(root).timestamp())


def remove(url: str) -> None:
    """Remove one object."""
    with _opened(url) as (fs, root):
        fs.rm_file(root)


# ---------------------------------------------------------------- fsspec


@contextlib.contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL and the path in it. Errors of the libraries become one
    sentence."""
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package, extra = EXTRAS.get(scheme, (scheme, ""))
        raise StoreRefused(
            errno.ENOPKG,
            f"{url} needs the package {package}, which {sys.executable} does not have: "
            f"{sys.executable} -m pip install 'muster-train[{extra}]'",
            is_final=True,
        ) from error
    try:
        yield fs, root.rstrip("/")
    except (StoreRefused, CheckpointDamaged):
        raise
    except FileNotFoundError as error:
        raise StoreRefused(
            errno.ENOENT,
            f"{url}: there is no such bucket or object ({_said(error)})",
            is_final=True,
        ) from error
    except PermissionError as error:
        raise StoreRefused(
            errno.EACCES,
            f"{url}: access refused ({_said(error)}); the credentials are those that the node's "
            "environment gives",
            is_final=True,
        ) from error
    except Exception as error:  # whatever the libraries below raise
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        raise StoreRefused(number, f"{url}: {type(error).__name__}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_SAID_CHARS]


def _sent_mark(step: int, manifest: bytes) -> str:
    return f"{checkpoints.folder_name(step)}/.sent-{checkpoints.digest_of(manifest)[:16]}"


def _objects(fs: Any, root: str) -> dict[str, int]:
    """Return the size in bytes of every object below a folder, by path."""
    fs.invalidate_cache()
    return {path: int(entry["size"]) for path, entry in fs.find(root, detail=True).items()}


def _step_of(root: str, path: str) -> str:
    """Return the name of the checkpoint that an object of a trial's folder belongs to."""
    return path.removeprefix(f"{root}/").partition("/")[0]


def _remove(fs: Any, paths: list[str]) -> None:
    """Remove objects, manifests first: half of a checkpoint must not look like a checkpoint."""
    manifests = [path for path in paths if path.endswith(f"/{MANIFEST}")]
    for group in (manifests, [path for path in paths if path not in set(manifests)]):
        if group:
            fs.rm(group)
