"""Models: uploading files piece by piece, and pulling a version so that all of it is there or nothing.

A pull writes into `DIR/.muster-pull`, verifies every file, and moves them to their places at the end. An
interrupted one continues there, whichever files it has. `DIR/.muster-model.json` then says which version
lies in the folder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from muster.byte_sizes import byte_size
from muster.wire import MODEL_MANIFEST as MANIFEST

from .connection import Connection, quoted
from .errors import ClientError, Refused, Unreachable

if TYPE_CHECKING:
    from . import schema
    from .methods.records import RecordMethods

UPLOAD_PIECE_BYTES = 8 << 20
FILES_MAX = 1000
"""Most files of one version."""
AHEAD = 4
"""Number of files that nodes are asked for before they are fetched."""
POLL_S = 0.3
TRIES = 5
"""How often the fetching of one file is begun again after the connection broke."""
DRAFTS = ".muster-pull"
EXPORT_DRAFTS = ".muster-pull-export"
CACHE_BYTES = 20 * 10**9
"""Most bytes of a cache, unless it is told otherwise."""

OnProgress = Callable[[str], None] | None


class NotPulled(ClientError):
    """A version that cannot be fetched, or not into this folder."""


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """What came of a pull."""

    model: str
    version: int
    digest: str
    folder: Path
    num_files: int
    """Number of files that were fetched, or taken from the cache."""
    num_unchanged: int
    """Number of files that were there already with the same content."""
    num_cached: int
    """Number of files that came from the cache."""
    size_bytes: int
    """Bytes of all files of the version."""
    moved_to: int | None
    """Version that the alias names by now, if it was moved during the pull."""


def find_version(client: Connection, reference: str) -> schema.ModelVersionOut:
    """Return the version that "NAME:3", "NAME@alias" or "NAME" (the newest) means. Raises
    ClientError."""
    name, at, alias = reference.partition("@")
    if at:
        return client.get(f"/models/{quoted(name)}/aliases/{quoted(alias)}")
    name, _, number = reference.partition(":")
    if not number:
        newest = client.get(f"/models/{quoted(name)}")["latest_version"]
        if newest is None:
            raise NotPulled(
                f"Model {name} has no versions yet.",
                code="models.no_version",
                hint=f"`muster model register {name} --checkpoint N` registers one",
            )
        number = str(newest)
    if not number.isdecimal():
        raise NotPulled(
            f"{reference!r} is no version: {number!r} is not a number.",
            code="models.bad_reference",
            hint="write NAME:3 for a version, or NAME@production for an alias",
        )
    return client.get(f"/models/{quoted(name)}/versions/{number}")


# ---------------------------------------------------------------- uploading


def upload_files(
    client: Connection, source: Path, *, on_progress: OnProgress = None
) -> list[dict[str, str]]:
    """Upload a file or a folder; return path and digest of each, as a new version names them.

    Links are refused: what they lead to may be anything. Raises ClientError and OSError.
    """
    paths = _files_in(source)
    found = []
    for name, path in paths:
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        _upload(client, path, digest, on_progress)
        found.append({"path": name, "sha256": digest})
    return found


def _files_in(source: Path) -> list[tuple[str, Path]]:
    if source.is_file():
        return [(unicodedata.normalize("NFC", source.name), source)]
    if not source.is_dir():
        raise NotPulled(
            f"{source} does not exist.", code="models.no_files", hint="name a file or a folder"
        )
    found = []
    for path in sorted(source.rglob("*")):
        if path.is_symlink():
            raise NotPulled(
                f"{path} is a link.",
                code="models.link",
                hint="copy what it leads to, or upload a folder without it",
            )
        name = path.relative_to(source).as_posix()
        if path.is_file() and not name.startswith((DRAFTS, MANIFEST)):
            found.append((unicodedata.normalize("NFC", name), path))
    if not 1 <= len(found) <= FILES_MAX:
        raise NotPulled(
            f"{source} has {len(found):,} files; a version has 1 to {FILES_MAX:,}.",
            code="models.too_many_files",
            hint="upload the folder of the model alone, or pack the files into one archive",
        )
    return found


def _upload(client: Connection, path: Path, digest: str, on_progress: OnProgress) -> None:
    address, size_bytes = f"/model-blobs/{digest}", path.stat().st_size
    reply = client.call("GET", address, accept=(404,))
    state = (
        reply.json() if reply.status_code == 200 else {"received_bytes": 0, "is_complete": False}
    )
    with path.open("rb") as content:
        while not state["is_complete"]:
            offset = state["received_bytes"]
            content.seek(offset)
            params = {"size_bytes": size_bytes, "offset": offset}
            try:
                state = client.send_piece(address, content.read(UPLOAD_PIECE_BYTES), params=params)
            except Refused as error:
                # An answer was lost, or somebody else sends the same file: go on where it is.
                if error.code != "models.wrong_offset":
                    raise
                state = client.get(address)
                if state["received_bytes"] == offset:
                    raise
            if on_progress is not None and size_bytes > UPLOAD_PIECE_BYTES:
                on_progress(
                    f"{path.name}: sent {byte_size(state['received_bytes'])} of "
                    f"{byte_size(size_bytes)}."
                )


# ---------------------------------------------------------------- pulling


def pull(
    client: Connection,
    reference: str,
    folder: Path,
    *,
    force: bool = False,
    cache: Path | None = None,
    cache_bytes: int | None = None,
    on_progress: OnProgress = None,
) -> Pulled:
    """Fetch a version into a folder; see Client.pull_model. Raises ClientError."""
    say = on_progress or (lambda _: None)
    version = _ready(client, reference, say)
    files = version["files"]
    paths = {file["path"]: _path_in(folder, file["path"]) for file in files}
    try:
        missing = [file for file in files if not _is_same(paths[file["path"]], file["sha256"])]
        if not force:
            _refuse_to_replace([paths[file["path"]] for file in missing])
        drafts = folder / DRAFTS
        drafts.mkdir(parents=True, exist_ok=True)
        _note_version(drafts, version, say)
        store = _Cache(cache, cache_bytes or CACHE_BYTES) if cache is not None else None
        wanted = list({file["sha256"]: file for file in missing}.values())
        cached = [file for file in wanted if store and store.take(file["sha256"], drafts)]
        _require_room(folder, drafts, version, [file for file in wanted if file not in cached])
        for file, draft in _fetched(client, version, wanted, drafts, say):
            if store is not None and file not in cached:
                store.put(file["sha256"], draft)
        _settle(folder, drafts, version, missing, paths)
    except OSError as error:
        raise _disk_problem(error, folder) from error
    moved_to = _moved_to(client, reference, version)
    if moved_to is not None:
        say(f"{reference} names version {moved_to} by now; version {version['number']} was pulled.")
    return Pulled(
        model=version["model"],
        version=version["number"],
        digest=version["digest"],
        folder=folder,
        num_files=len(missing),
        num_unchanged=len(files) - len(missing),
        num_cached=len(cached),
        size_bytes=version["size_bytes"],
        moved_to=moved_to,
    )


def pull_export(
    client: RecordMethods,
    reference: str,
    folder: Path,
    format_: str,
    *,
    force: bool = False,
    on_progress: OnProgress = None,
) -> Pulled:
    """Fetch the newest finished export of a version in a format; see Client.pull_model. Raises
    ClientError."""
    from .outputs import fetch_outputs

    say = on_progress or (lambda _: None)
    version = _ready(client, reference, say)
    trial_id, export = _newest_export(client, version, format_)
    files = export["files"]
    paths = {file["path"]: _path_in(folder, file["path"]) for file in files}
    drafts = folder / EXPORT_DRAFTS
    try:
        missing = [file for file in files if not _is_same(paths[file["path"]], file["sha256"])]
        if not force:
            _refuse_to_replace([paths[file["path"]] for file in missing])
        drafts.mkdir(parents=True, exist_ok=True)
        _require_room(folder, drafts, export, missing)
        client.wait_for_outputs(trial_id)
        names = {file["path"]: f"{export['path']}/{file['path']}" for file in missing}
        if missing:
            wanted = list(names.values())
            fetch_outputs(client, trial_id, wanted, drafts, force=True, on_progress=say)
        for file in missing:
            if not _is_same(drafts / names[file["path"]], file["sha256"]):
                shutil.rmtree(drafts)
                raise NotPulled(
                    f"{names[file['path']]} does not have the digest that was reported when it was "
                    "exported: what arrived was dropped.",
                    code="models.wrong_digest",
                    hint=f"export it again: `muster model export {reference} --format {format_}`",
                )
        for file in missing:
            (drafts / names[file["path"]]).replace(paths[file["path"]])
        _write_manifest(folder, drafts, version, export, format=format_)
        shutil.rmtree(drafts)
    except OSError as error:
        raise _disk_problem(error, folder) from error
    return Pulled(
        model=version["model"],
        version=version["number"],
        digest=export["digest"],
        folder=folder,
        num_files=len(missing),
        num_unchanged=len(files) - len(missing),
        num_cached=0,
        size_bytes=export["size_bytes"],
        moved_to=_moved_to(client, reference, version),
    )


def _newest_export(
    client: Connection, version: schema.ModelVersionOut, format_: str
) -> tuple[int, schema.ModelExportOut]:
    """Return the trial and the newest finished export. Raises NotPulled if there is none."""
    name = f"{version['model']}:{version['number']}"
    why = ""
    number = version["number"]
    for job in client.pages(f"/models/{quoted(version['model'])}/versions/{number}/exports"):
        for export in job["exports"]:
            if export["format"] != format_:
                continue
            if export["state"] == "done" and job["trial_id"] is not None:
                return job["trial_id"], export
            why = (
                why
                or f"; experiment {job['experiment_id']}: {export['message'] or export['state']}"
            )
    raise NotPulled(
        f"{name} has no finished export as {format_}{why}.",
        code="models.no_export",
        hint=f"`muster model export {name} --format {format_}` makes one",
    )


def _ready(
    client: Connection, reference: str, say: Callable[[str], None]
) -> schema.ModelVersionOut:
    told = False
    while True:
        version = find_version(client, reference)
        if version["state"] == "ready":
            return version
        if version["state"] == "failed":
            raise NotPulled(
                f"Version {version['number']} of model {version['model']} has no files: "
                f"{version['message']}.",
                code="models.not_ready",
            )
        if not told:
            say(f"Version {version['number']} is being made from its checkpoint.")
            told = True
        time.sleep(POLL_S)


def _path_in(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    path = folder.joinpath(*parts)
    is_inside = path.parent.resolve().is_relative_to(folder.resolve())
    if not parts or name.startswith("/") or ".." in parts or "\x00" in name or not is_inside:
        raise NotPulled(
            f"The file {name!r} would be written outside of {folder}.", code="models.unsafe_path"
        )
    return path


def _is_same(path: Path, sha256: str) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as content:
        return bool(hashlib.file_digest(content, "sha256").hexdigest() == sha256)


def _refuse_to_replace(paths: Sequence[Path]) -> None:
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there:
        more = f" and {len(there) - 3} more" if there[3:] else ""
        raise NotPulled(
            f"There is other content under {', '.join(str(p) for p in there[:3])}{more}.",
            code="models.exists",
            hint="use --force to replace it, or another folder",
        )


def _note_version(
    drafts: Path, version: schema.ModelVersionOut, say: Callable[[str], None]
) -> None:
    """Write down what is being pulled, and tell of an interrupted pull of another version."""
    note = drafts / "version.json"
    mine = {"model": version["model"], "version": version["number"], "digest": version["digest"]}
    with contextlib.suppress(OSError, ValueError):
        before = json.loads(note.read_text())
        if before["digest"] == mine["digest"]:
            say("Continuing an interrupted pull.")
        else:
            say(
                f"An interrupted pull was of version {before['version']} of {before['model']}; this "
                f"one is of version {mine['version']} of {mine['model']}. Only equal files are kept."
            )
    note.write_text(json.dumps(mine))
    wanted = {file["sha256"] for file in version["files"]}
    for path in drafts.iterdir():
        if path.name != note.name and path.name.partition(".")[0] not in wanted:
            path.unlink()


def _require_room(
    folder: Path,
    drafts: Path,
    content: schema.ModelVersionOut | schema.ModelExportOut,
    files: Sequence[schema.ModelFileOut] | Sequence[schema.ExportFileOut],
) -> None:
    there = sum(path.stat().st_size for path in drafts.iterdir())
    sizes = [size for file in files if (size := file["size_bytes"]) is not None]
    # Of some checkpoints only the total is known.
    need = (sum(sizes) if len(sizes) == len(files) else content["size_bytes"]) - there
    free = shutil.disk_usage(folder).free
    if need > free:
        raise NotPulled(
            f"{folder} has {byte_size(free)} free, and {byte_size(need)} are still needed.",
            code="models.disk_full",
            hint="make room and run it again: it continues where it was",
        )


def _fetched(
    client: Connection,
    version: schema.ModelVersionOut,
    files: Sequence[schema.ModelFileOut],
    drafts: Path,
    say: Callable[[str], None],
) -> Iterator[tuple[schema.ModelFileOut, Path]]:
    """Yield each file with its verified draft. Nodes are asked for some files ahead."""
    asked = 0
    for position, file in enumerate(files):
        while asked < min(len(files), position + AHEAD):
            ahead = files[asked]
            if not ahead["is_at_server"] and not (drafts / ahead["sha256"]).exists():
                _ask(client, version, ahead, 0)
            asked += 1
        draft = drafts / file["sha256"]
        if not draft.exists():
            say(f"{file['path']}{_size(file)}.")
            _fetch(client, version, file, draft, say)
        yield file, draft


def _size(file: schema.ModelFileOut) -> str:
    return f" ({byte_size(file['size_bytes'])})" if file["size_bytes"] is not None else ""


def _fetch(
    client: Connection,
    version: schema.ModelVersionOut,
    file: schema.ModelFileOut,
    draft: Path,
    say: Callable[[str], None],
) -> None:
    """Fetch a file part by part beside its draft, then verify and name it."""
    num_parts = file["num_parts"]
    whole = draft.with_name(f"{draft.name}.whole")
    done = draft.with_name(f"{draft.name}.parts")
    first, export_id = 0, None
    if num_parts > 1 and whole.is_file() and done.is_file():
        # A part counts once it was added and written down; half of one is cut off.
        first, size = (int(n) for n in done.read_text().split())
        with whole.open("r+b") as content:
            content.truncate(size)
    for no in range(first, num_parts):
        if num_parts > 1:
            say(f"{file['path']}: part {no + 1} of {num_parts}.")
        part = draft.with_name(f"{draft.name}.{no}")
        export_id = _fetch_part(client, version, file, no, part, say)
        if num_parts == 1:
            part.replace(whole)
            continue
        with whole.open("ab") as content, part.open("rb") as piece:
            shutil.copyfileobj(piece, content, 1 << 20)
            content.flush()
            os.fsync(content.fileno())
            size = content.tell()
        done.write_text(f"{no + 1} {size}")
        part.unlink()
    if not _is_same(whole, file["sha256"]):
        whole.unlink()
        done.unlink(missing_ok=True)
        _drop(client, export_id)  # Or the next pull would get the same bytes.
        raise NotPulled(
            f"{file['path']} does not have the digest of version {version['number']}: what arrived was "
            "dropped.",
            code="models.wrong_digest",
            hint="run it again; if it stays so, the file in the storage was changed or damaged",
        )
    with whole.open("rb") as content:
        os.fsync(content.fileno())
    whole.replace(draft)
    done.unlink(missing_ok=True)


def _fetch_part(
    client: Connection,
    version: schema.ModelVersionOut,
    file: schema.ModelFileOut,
    no: int,
    part: Path,
    say: Callable[[str], None],
) -> int | None:
    """Fetch a part, from where an interrupted pull left off; verified if its digest is known. Return the
    export that it came from; None where the server has it for good."""
    address = f"{_address(version)}/files/content"
    tag = part.with_name(f"{part.name}.tag")
    for attempt in range(1, TRIES + 1):
        ready = _wait(client, version, file, no, say)
        params = {"path": file["path"], "export": ready["export_id"]}
        if ready["sha256"]:
            etag = tag.read_text() if tag.is_file() else ""
            if etag != ready["sha256"]:
                part.unlink(missing_ok=True)
                tag.write_text(ready["sha256"])
        try:
            client.continue_to(address, part, etag=ready["sha256"], params=params)
        except Unreachable:
            if attempt == TRIES:
                raise
            time.sleep(POLL_S * attempt)
            continue
        except Refused as error:
            # The export expired, or was deleted by another pull, between two requests.
            is_gone = error.code in ("models.not_fetched", "exports.not_found", "exports.pending")
            if attempt == TRIES or not is_gone:
                raise
            continue
        if not ready["sha256"] or _is_same(part, ready["sha256"]):
            break
        part.unlink()
        if attempt == TRIES:
            raise NotPulled(
                f"A part of {file['path']} arrived damaged {TRIES} times.",
                code="models.wrong_digest",
                hint="run it again",
            )
    tag.unlink(missing_ok=True)
    export_id: int | None = ready["export_id"]
    if file["num_parts"] > 1:
        _drop(client, export_id)  # Room for the next parts.
    return export_id


def _drop(client: Connection, export_id: int | None) -> None:
    """Delete an export. Whoever may only look cannot; it expires anyway."""
    if export_id is not None:
        client.call("DELETE", f"/exports/{export_id}", accept=(403, 404))


def _ask(
    client: Connection, version: schema.ModelVersionOut, file: schema.ModelFileOut, no: int
) -> schema.ModelFetchOut:
    body = {"path": file["path"], "part": no}
    return client.post(f"{_address(version)}/files:fetch", body, repeatable=True)


def _wait(
    client: Connection,
    version: schema.ModelVersionOut,
    file: schema.ModelFileOut,
    no: int,
    say: Callable[[str], None],
) -> schema.ModelFetchOut:
    waits_for, first = "", None
    while True:
        fetch = _ask(client, version, file, no)
        if fetch["state"] == "ready":
            return fetch
        # The server begins another export where one failed.
        first = first or fetch["export_id"]
        if first is not None and first != fetch["export_id"]:
            failed = client.get(f"/exports/{first}")
            raise NotPulled(
                f"{file['path']} could not be read: {failed['message']}.",
                code="models.not_read",
                hint="is the storage of the node within reach?",
            )
        if fetch["waits_for"] != waits_for:
            waits_for = fetch["waits_for"]
            say(f"Waiting for {waits_for}.")
        time.sleep(POLL_S)


def _address(version: schema.ModelVersionOut) -> str:
    return f"/models/{quoted(version['model'])}/versions/{version['number']}"


def _settle(
    folder: Path,
    drafts: Path,
    version: schema.ModelVersionOut,
    missing: Sequence[schema.ModelFileOut],
    paths: dict[str, Path],
) -> None:
    """Move everything to its place: copies of equal files first, then renames, which take no room."""
    last = {file["sha256"]: file["path"] for file in missing}
    for file in missing:
        path = paths[file["path"]]
        path.parent.mkdir(parents=True, exist_ok=True)
        if last[file["sha256"]] != file["path"]:
            beside = drafts / f"{file['sha256']}.copy"
            shutil.copyfile(drafts / file["sha256"], beside)
            beside.replace(path)
    for file in missing:
        if last[file["sha256"]] == file["path"]:
            (drafts / file["sha256"]).replace(paths[file["path"]])
    _write_manifest(folder, drafts, version, version)
    shutil.rmtree(drafts)


def _write_manifest(
    folder: Path,
    drafts: Path,
    version: schema.ModelVersionOut,
    content: schema.ModelVersionOut | schema.ModelExportOut,
    **more: str,
) -> None:
    """Write down which version lies in the folder; `content` has the digest and files that do."""
    manifest = {
        "model": version["model"],
        "digest": content["digest"],
        "version": version["number"],
        "files": {file["path"]: file["sha256"] for file in content["files"]},
        **more,
    }
    beside = drafts / "manifest"
    beside.write_text(json.dumps(manifest, indent=1))
    beside.replace(folder / MANIFEST)


def _moved_to(client: Connection, reference: str, version: schema.ModelVersionOut) -> int | None:
    if "@" not in reference:
        return None
    with contextlib.suppress(ClientError):
        now = int(find_version(client, reference)["number"])
        return now if now != version["number"] else None
    return None


def _disk_problem(error: OSError, folder: Path) -> NotPulled:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NotPulled(
            f"No space is left in {folder}.",
            code="models.disk_full",
            hint="make room and run it again: it continues where it was",
        )
    name = error.filename or folder
    return NotPulled(f"{name}: {error.strerror or error}.", code="models.disk")


# ---------------------------------------------------------------- cache


class _Cache:
    """Files of pulled versions by digest. They are copied in and out: a second name of the same file
    would let a change of one change the other, and some programs refuse to open such files."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, sha256: str, drafts: Path) -> bool:
        """Copy a file into the folder of drafts; return whether the cache has it, undamaged."""
        path = self._path(sha256)
        if (drafts / sha256).exists() or not path.is_file():
            return False
        if not _is_same(path, sha256):
            path.unlink()
            return False
        beside = drafts / f"{sha256}.cached"
        shutil.copyfile(path, beside)
        beside.replace(drafts / sha256)
        os.utime(path)
        return True

    def put(self, sha256: str, draft: Path) -> None:
        """Copy a file into the cache, where it fits; the files that were used longest ago make room."""
        size = draft.stat().st_size
        path = self._path(sha256)
        if path.exists() or size > self._max_bytes:
            return
        self._make_room(size)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{sha256}.{os.getpid()}")
        try:
            shutil.copyfile(draft, beside)
            beside.replace(path)
        except OSError:
            # The pull itself does not depend on it.
            beside.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        there = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                there.append((facts.st_mtime, facts.st_size, path))
        total = sum(each[1] for each in there)
        for _, freed, path in sorted(there, key=lambda each: each[0]):
            if total + size <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= freed

    def _path(self, sha256: str) -> Path:
        return self._folder / sha256[:2] / sha256
