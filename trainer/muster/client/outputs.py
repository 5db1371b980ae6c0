"""Fetching the files that a trial wrote: checked against their digests, resumed where it was cut off.

Small files come together as archives, large ones in parts of 256 MiB. A file appears under its name only
when it is whole. No name that the server gives leads out of the folder that was asked for.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from muster.wire import OUTPUT_PART_BYTES

from .connection import Connection
from .errors import ClientError
from .exports import wait_for_export

if TYPE_CHECKING:
    from . import schema

LIST_PAGE = 1000
ARCHIVE_FILES = 500
ARCHIVE_BYTES = 256 * 2**20
"""Most files, and about how many bytes of content, that are fetched as one archive."""
SMALL_BYTES = 32 * 2**20
"""Files up to this size come in archives."""
ROUNDS = 3
"""How often files are fetched again that changed on the way: the job may still be writing them."""


@dataclass
class Fetched:
    """What came of fetching outputs or media."""

    num_files: int = 0
    size_bytes: int = 0
    num_unchanged: int = 0
    """Number of files that were there already with the same content."""
    skipped: list[schema.OutputFileOut] = field(default_factory=list)
    """Files without content in the storage: links that lead elsewhere, and what was left out."""


class NotFetched(ClientError):
    """Something that was asked for cannot be had."""


class NotSafe(ClientError):
    """A name in the list of outputs that leads out of the folder."""


class ExistsAlready(ClientError):
    """Files are there with other content."""


def list_outputs(client: Connection, trial_id: int) -> list[schema.OutputFileOut]:
    """Return all outputs of a trial, by path."""
    return list(client.pages(f"/trials/{trial_id}/outputs", page_size=LIST_PAGE))


def matching(
    files: Sequence[schema.OutputFileOut], patterns: Sequence[str]
) -> list[schema.OutputFileOut]:
    """Return the files that one of the patterns names: a path, a folder, or `*.pt`. No pattern: all.

    Raises NotFetched for a pattern that names nothing.
    """
    if not patterns:
        return list(files)
    found: dict[str, schema.OutputFileOut] = {}
    for pattern in patterns:
        folder = pattern.rstrip("/") + "/"
        named = [
            file
            for file in files
            if file["path"] == pattern
            or file["path"].startswith(folder)
            or fnmatch.fnmatchcase(file["path"], pattern)
        ]
        if not named:
            raise NotFetched(
                f"No output is called {pattern!r}.",
                code="outputs.not_found",
                hint="`muster outputs list` shows them; a pattern such as '*.pt' needs quotes",
            )
        found |= {file["path"]: file for file in named}
    return [found[path] for path in sorted(found)]


def fetch_outputs(
    client: Connection,
    trial_id: int,
    patterns: Sequence[str],
    folder: Path,
    *,
    force: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Fetch outputs of a trial into a folder, and return what came of it.

    What is there already with the same content is left alone; other content is replaced only with
    `force`. A large file that was cut off goes on where it was. on_progress: called with sentences for
    people. Raises ClientError.
    """
    result = Fetched()
    done: set[str] = set()
    for _ in range(ROUNDS):
        files = matching(list_outputs(client, trial_id), patterns)
        wanted = [file for file in files if file["path"] not in done]
        kept = [file for file in wanted if file["state"] in ("kept", "growing")]
        paths = {file["path"]: _path_in(folder, file["path"]) for file in wanted}
        missing = [file for file in kept if not _is_same(paths[file["path"]], file)]
        result.num_unchanged += len(kept) - len(missing)
        done |= {file["path"] for file in kept} - {file["path"] for file in missing}
        if not force:
            _refuse_to_replace([paths[f["path"]] for f in missing])
        for file in _fetch(client, trial_id, missing, paths, on_progress):
            done.add(file["path"])
            result.num_files += 1
            result.size_bytes += file["size_bytes"]
        others = [file for file in wanted if file not in kept]
        if {file["path"] for file in kept} <= done:
            result.skipped = [f for f in others if not _link(folder, paths[f["path"]], f)]
            return result
        on_progress("Some files changed meanwhile; fetching them again.")
    raise NotFetched(
        "Some files changed each time they were fetched.",
        code="outputs.changing",
        hint="the job is still writing them: try again later, or name the files you need",
    )


# ---------------------------------------------------------------- names and what is there


def _path_in(folder: Path, name: str) -> Path:
    """Return where an output goes. Raises NotSafe."""
    parts = PurePosixPath(name).parts
    path = folder.joinpath(*parts)
    is_inside = path.parent.resolve().is_relative_to(folder.resolve())
    if not parts or name.startswith("/") or ".." in parts or "\x00" in name or not is_inside:
        raise NotSafe(
            f"The output {name!r} would be written outside of {folder}.",
            code="outputs.unsafe",
            hint="nothing was written for it; name the other files to fetch them",
        )
    return path


def _is_same(path: Path, file: schema.OutputFileOut) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != file["size_bytes"]:
        return False
    with path.open("rb") as content:
        return bool(hashlib.file_digest(content, "sha256").hexdigest() == file["sha256"])


def _refuse_to_replace(paths: Collection[Path]) -> None:
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there:
        shown = ", ".join(str(path) for path in there[:3])
        more = f" and {len(there) - 3} more" if there[3:] else ""
        raise ExistsAlready(
            f"There is other content under {shown}{more}.",
            code="outputs.exists",
            hint="use --force to replace it, or --output for another folder",
        )


def _link(folder: Path, path: Path, file: schema.OutputFileOut) -> bool:
    """Create a symbolic link as the job did; return whether that was possible and safe."""
    target = str(file["target"])
    if file["state"] != "link" or not target or Path(target).is_absolute():
        return False
    inside = Path(os.path.normpath(path.parent / target))
    if not inside.is_relative_to(Path(os.path.normpath(folder))):
        return False
    if path.is_symlink() and str(path.readlink()) == target:
        return True
    if path.exists() or path.is_symlink():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return True


# ---------------------------------------------------------------- fetching


def _fetch(
    client: Connection,
    trial_id: int,
    files: Sequence[schema.OutputFileOut],
    paths: dict[str, Path],
    on_progress: Callable[[str], None],
) -> Iterator[schema.OutputFileOut]:
    """Yield each file as soon as it is there; one that changed meanwhile is left out."""
    small = [file for file in files if file["size_bytes"] <= SMALL_BYTES]
    for batch in _batches(small):
        yield from _fetch_batch(client, trial_id, batch, paths, on_progress)
    for file in files:
        if file["size_bytes"] > SMALL_BYTES and _fetch_large(
            client, trial_id, file, paths[file["path"]], on_progress
        ):
            yield file


def _batches(files: Sequence[schema.OutputFileOut]) -> Iterator[list[schema.OutputFileOut]]:
    batch: list[schema.OutputFileOut] = []
    size_bytes = 0
    for file in files:
        if batch and (len(batch) >= ARCHIVE_FILES or size_bytes >= ARCHIVE_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(file)
        size_bytes += file["size_bytes"]
    if batch:
        yield batch


def _fetch_batch(
    client: Connection,
    trial_id: int,
    batch: Sequence[schema.OutputFileOut],
    paths: dict[str, Path],
    on_progress: Callable[[str], None],
) -> Iterator[schema.OutputFileOut]:
    by_path = {file["path"]: file for file in batch}
    with tempfile.TemporaryDirectory(prefix="muster-outputs-") as temporary:
        exports = _request(client, trial_id, {"paths": list(by_path)})
        for export, archive in _download(client, exports, Path(temporary), on_progress):
            if export["num_files"] > 1:
                yield from _unpack(archive, by_path, paths)
                continue
            name = export["file_name"]
            file = _named(batch, name, archive)
            if file is not None and _install(archive, paths[file["path"]], file):
                yield file


def _named(
    batch: Sequence[schema.OutputFileOut], name: str, content: Path
) -> schema.OutputFileOut | None:
    """Return the file of a batch that was sent as it is, found by its name and its digest."""
    with content.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return next(
        (
            file
            for file in batch
            if PurePosixPath(file["path"]).name == name and file["sha256"] == digest
        ),
        None,
    )


def _unpack(
    archive: Path, by_path: dict[str, schema.OutputFileOut], paths: dict[str, Path]
) -> Iterator[schema.OutputFileOut]:
    with tarfile.open(archive) as opened:
        for member in opened:
            file = by_path.get(member.name)
            content = opened.extractfile(member) if member.isreg() else None
            if file is None or content is None:  # not what was asked for
                continue
            draft = archive.with_name("draft")
            with draft.open("wb") as written:
                shutil.copyfileobj(content, written)
            if _install(draft, paths[file["path"]], file):
                yield file


def _install(draft: Path, path: Path, file: schema.OutputFileOut) -> bool:
    """Move a file to its place; return False if it is not what the list says."""
    with draft.open("rb") as content:
        if hashlib.file_digest(content, "sha256").hexdigest() != file["sha256"]:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _draft_of(path)
    shutil.move(draft, beside)
    _put(beside, path, file)
    return True


def _put(draft: Path, path: Path, file: schema.OutputFileOut) -> None:
    modified = dt.datetime.fromisoformat(file["modified_at"]).timestamp()
    os.utime(draft, (modified, modified))
    draft.replace(path)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _fetch_large(
    client: Connection,
    trial_id: int,
    file: schema.OutputFileOut,
    path: Path,
    on_progress: Callable[[str], None],
) -> bool:
    """Fetch a file part by part beside its place; return False if it changed meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft_of(path)
    there = draft.stat().st_size // OUTPUT_PART_BYTES if draft.is_file() else 0
    with draft.open("r+b" if there else "wb") as written:
        written.truncate(there * OUTPUT_PART_BYTES)
    num_parts = max(1, file["num_parts"])
    for part in range(there, num_parts):
        on_progress(f"{file['path']}: part {part + 1} of {num_parts}.")
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".muster-") as temporary:
            exports = _request(client, trial_id, {"paths": [file["path"]], "part": part})
            for _, piece in _download(client, exports, Path(temporary), on_progress):
                with draft.open("ab") as written, piece.open("rb") as content:
                    shutil.copyfileobj(content, written, 2**20)
    with draft.open("rb") as content:
        is_whole = hashlib.file_digest(content, "sha256").hexdigest() == file["sha256"]
    if not is_whole:
        draft.unlink()
        return False
    _put(draft, path, file)
    return True


def _request(client: Connection, trial_id: int, body: dict[str, Any]) -> list[schema.ExportOut]:
    asked = client.post(f"/trials/{trial_id}/outputs:export", body, repeatable=True)
    exports: list[schema.ExportOut] = asked["exports"]
    return exports


def _download(
    client: Connection,
    exports: Sequence[schema.ExportOut],
    folder: Path,
    on_progress: Callable[[str], None],
) -> Iterator[tuple[schema.ExportOut, Path]]:
    """Yield each export with its file, which is deleted here and on the server afterwards."""
    for asked in exports:
        export = wait_for_export(
            client, asked, on_wait=lambda what: on_progress(f"Waiting for {what}.")
        )
        if export["state"] == "failed":
            raise NotFetched(
                f"{export['file_name']} could not be fetched: {export['message']}.",
                code="outputs.export_failed",
                hint="is the storage of the node within reach? `muster outputs list` says where it is",
            )
        file = folder / f"export-{export['id']}"
        client.download_to(f"/exports/{export['id']}/file", file)
        yield export, file
        file.unlink(missing_ok=True)
        # Whoever may only look cannot delete; it expires anyway.
        client.call("DELETE", f"/exports/{export['id']}", accept=(403, 404))
