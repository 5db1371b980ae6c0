"""Outputs for people: made into files by an agent that has the storage, and shown in parts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import OUTPUT_PART_BYTES, OutputFile
from muster_server.db.models import (
    ExperimentRow,
    ExportChunkRow,
    ExportRow,
    NodeRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.outputs.previews import preview_bytes, preview_type
from muster_server.domain.outputs.union import OutputEntry
from muster_server.domain.states import NodeState
from muster_server.errors import Conflict, InvalidRequest, NotFound
from muster_server.schemas.exports import ExportOut
from muster_server.schemas.outputs import OutputsExportIn, OutputsExportOut
from muster_server.settings import Settings

from ..checkpoints import exports
from ..checkpoints.lookup import OBJECT_STORE, store_of
from ..core.callers import Caller
from ..core.lookup import get_trial
from ..core.output_lists import encode_files
from .manifests import outputs_folder, read_union, rows_of

FILES_PER_EXPORT = 2000
"""Most files in one archive. Its list is part of what the agent polls."""
EXPORTS_PER_REQUEST = 20
"""Most archives of one request; more is for the command line, which asks for one after another."""
KEPT_HOURS = 1
"""Outputs that were made into a file are kept this long: they are in the storage anyway."""


class StoragePlace(NamedTuple):
    """Where files of outputs are."""

    storage_id: str
    storage_url: str
    folder: str
    node_name: str
    """Node that wrote them."""


_Place = TrialOutputsRow | StoragePlace


def online_storages(session: Session) -> set[str]:
    """Return the ids of the storages that a node can read now."""
    found = set(
        session.scalars(
            select(NodeRow.storage_id).where(NodeRow.state == NodeState.ONLINE).distinct()
        )
    )
    if found:
        found.add(OBJECT_STORE)
    return found - {""}


def request(
    session: Session,
    trial_id: int,
    wanted: OutputsExportIn,
    caller: Caller,
    *,
    settings: Settings,
) -> OutputsExportOut:
    """Have outputs made into files to download.

    Raises NotFound, InvalidRequest for what has no content, and Conflict where they are too large.
    """
    trial = get_trial(session, trial_id)
    rows = rows_of(session, trial_id, with_files=True)
    chosen = _chosen(trial, read_union(rows), wanted.paths)
    if wanted.part is not None:
        entry, file = _part(chosen, wanted.part)
        made = [_row(trial, place_of(session, rows, entry), [file], caller, settings)]
    else:
        made = list(_archives(session, trial, rows, chosen, caller, settings))
    return OutputsExportOut(
        exports=[exports.request_outputs(session, row, settings=settings) for row in made]
    )


def request_preview(
    session: Session, trial_id: int, path: str, caller: Caller, *, settings: Settings
) -> ExportOut:
    """Have the beginning of a file fetched, to be shown. Raises NotFound and InvalidRequest."""
    trial = get_trial(session, trial_id)
    rows = rows_of(session, trial_id, with_files=True)
    (entry,) = _chosen(trial, read_union(rows), [path])
    num_bytes = preview_bytes(entry.file.path, entry.file.size_bytes)
    if num_bytes is None:
        raise _no_preview(path)
    first = max(1, num_bytes)
    row = _row(
        trial, place_of(session, rows, entry), [_renamed(entry)], caller, settings, first=first
    )
    return exports.request_outputs(session, row, settings=settings)


@dataclass(frozen=True, kw_only=True)
class StoredMedia:
    """Content of a media item that is a file of the outputs, collected or not."""

    path: str
    sha256: str
    size_bytes: int
    node_name: str
    storage_id: str


def request_media(
    session: Session, trial: TrialRow, stored: StoredMedia, caller: Caller, *, settings: Settings
) -> ExportOut:
    """Have the content of a media item sent. Raises Conflict when there is no room for it."""
    row = _row(trial, _place_of_media(session, trial, stored), [_file_of(stored)], caller, settings)
    return exports.request_outputs(session, row, settings=settings)


def find_media(session: Session, trial: TrialRow, stored: StoredMedia) -> int | None:
    """Return the id of the newest export of a media item's content; None for none."""
    key = _key_of(_place_of_media(session, trial, stored), [_file_of(stored)], 0)
    return session.scalar(
        select(ExportRow.id)
        .where(ExportRow.trial_id == trial.id, ExportRow.request_key == key)
        .order_by(ExportRow.id.desc())
        .limit(1)
    )


def request_file(
    session: Session,
    trial: TrialRow,
    place: StoragePlace,
    file: OutputFile,
    caller: Caller,
    *,
    settings: Settings,
) -> ExportOut:
    """Have one file sent that a version of a model consists of. Raises Conflict when there is no room
    for it."""
    row = _row(trial, place, [file], caller, settings)
    return exports.request_outputs(session, row, settings=settings)


def part_of(file: OutputFile, part: int) -> OutputFile:
    """Return a file that consists of one part of another, which has that part."""
    size_bytes = min(OUTPUT_PART_BYTES, file.size_bytes - part * OUTPUT_PART_BYTES)
    digest = file.parts[part]
    return dataclasses.replace(
        file, size_bytes=size_bytes, sha256=digest, parts=[digest], state="kept"
    )


def _place_of_media(session: Session, trial: TrialRow, stored: StoredMedia) -> _Place:
    url = ""
    if stored.storage_id == OBJECT_STORE:
        url = store_of(session.get_one(ExperimentRow, trial.experiment_id).config)
    folder = outputs_folder(trial.experiment_id, trial.no)
    return StoragePlace(stored.storage_id, url, folder, stored.node_name)


def _file_of(stored: StoredMedia) -> OutputFile:
    return OutputFile(
        path=stored.path,
        state="kept",
        size_bytes=stored.size_bytes,
        sha256=stored.sha256,
        parts=[stored.sha256],
    )


def read_preview(session: Session, export_id: int) -> tuple[bytes, str]:
    """Return what was fetched to be shown, and its media type.

    Raises NotFound, Conflict while it is not there, and InvalidRequest for what can only be
    downloaded.
    """
    found = exports.require_done(session, export_id)
    row = session.get_one(ExportRow, export_id)
    if not row.first_bytes:
        raise InvalidRequest(
            "exports.no_preview",
            f"Export {export_id} is a file to download.",
            hint=f"GET /api/v1/exports/{export_id}/file",
        )
    content = b"".join(
        session.scalars(
            select(ExportChunkRow.data)
            .where(ExportChunkRow.export_id == export_id)
            .order_by(ExportChunkRow.idx)
        )
    )
    media_type = preview_type(content)
    if media_type is None:
        raise _no_preview(found.file_name)
    return content, media_type


def _no_preview(name: str) -> InvalidRequest:
    return InvalidRequest(
        "outputs.no_preview",
        f"{name} is neither text nor an image of at most 8 MiB.",
        hint="Download it.",
    )


# ---------------------------------------------------------------- what is asked of agents


def _chosen(
    trial: TrialRow, entries: Sequence[OutputEntry], paths: Sequence[str] | None
) -> list[OutputEntry]:
    number = f"{trial.experiment_id}.{trial.no}"
    if paths is None:
        kept = [entry for entry in entries if entry.is_kept]
        if not kept:
            raise NotFound("outputs.none", f"Nothing is kept of what trial {number} wrote.")
        return kept
    by_name = {entry.name: entry for entry in entries}
    found = []
    for path in dict.fromkeys(paths):
        entry = by_name.get(path)
        if entry is None:
            raise NotFound(
                "outputs.not_found",
                f"Trial {number} has no output {path!r}.",
                hint=f"`muster outputs list {number}` lists them.",
            )
        if not entry.is_kept:
            raise InvalidRequest("outputs.not_kept", f"{path} has no content: {_why(entry)}.")
        found.append(entry)
    return found


def _why(entry: OutputEntry) -> str:
    file = entry.file
    if file.state == "link":
        return f"it is a link to {file.target}"
    return f"it was left out, {file.reason}" if file.reason else "it was left out"


def _part(chosen: Sequence[OutputEntry], part: int) -> tuple[OutputEntry, OutputFile]:
    """Return a file that consists of one part of another."""
    if len(chosen) != 1:
        raise InvalidRequest("outputs.one_path", "A part is of one file: give one path.")
    entry = chosen[0]
    file = entry.file
    if part >= len(file.parts):
        raise InvalidRequest(
            "outputs.no_part", f"{entry.name} has parts 0 to {len(file.parts) - 1}, not {part}."
        )
    return entry, part_of(_renamed(entry), part)


def _archives(
    session: Session,
    trial: TrialRow,
    rows: Sequence[TrialOutputsRow],
    chosen: Sequence[OutputEntry],
    caller: Caller,
    settings: Settings,
) -> Iterator[ExportRow]:
    """Yield one export for each storage, or several where one would be too large."""
    by_rank: dict[int, list[OutputEntry]] = defaultdict(list)
    places: dict[int, TrialOutputsRow] = {}
    online = online_storages(session)
    for entry in chosen:
        place = place_of(session, rows, entry, online)
        places[place.node_rank] = place
        by_rank[place.node_rank].append(entry)
    batches = [
        (places[rank], batch)
        for rank in sorted(by_rank)
        for batch in _batches(by_rank[rank], settings.export_max_bytes)
    ]
    if len(batches) > EXPORTS_PER_REQUEST:
        raise Conflict(
            "outputs.too_much",
            f"These outputs would be {len(batches)} archives, and {EXPORTS_PER_REQUEST} are made at "
            "a time.",
            hint=f"Use `muster outputs get {trial.experiment_id}.{trial.no}`, or name fewer files.",
        )
    for position, (place, batch) in enumerate(batches, start=1):
        suffix = f"-{position}" if len(batches) > 1 else ""
        files = [_renamed(entry) for entry in batch]
        yield _row(trial, place, files, caller, settings, suffix=suffix)


def _batches(entries: Sequence[OutputEntry], max_bytes: int) -> Iterator[list[OutputEntry]]:
    batch: list[OutputEntry] = []
    batch_bytes = exports.TAR_END_BYTES
    for entry in entries:
        if entry.file.size_bytes > max_bytes:
            raise Conflict(
                "outputs.too_large",
                f"{entry.name} has {entry.file.size_bytes:,} bytes, and {max_bytes:,} are sent in "
                "one piece.",
                hint="Use `muster outputs get`, which fetches it in parts.",
            )
        size_bytes = _tar_bytes(entry)
        is_full = len(batch) >= FILES_PER_EXPORT or batch_bytes + size_bytes > max_bytes
        if batch and is_full:
            yield batch
            batch, batch_bytes = [], exports.TAR_END_BYTES
        batch.append(entry)
        batch_bytes += size_bytes
    if batch:
        yield batch


def _tar_bytes(entry: OutputEntry) -> int:
    return entry.file.size_bytes + exports.TAR_ENTRY_BYTES + 2 * len(entry.name.encode())


def _renamed(entry: OutputEntry) -> OutputFile:
    return dataclasses.replace(entry.file, path=entry.name)


def place_of(
    session: Session,
    rows: Sequence[TrialOutputsRow],
    entry: OutputEntry,
    online: set[str] | None = None,
) -> TrialOutputsRow:
    """Return the manifest through which a file is fetched: of those that list it the first whose
    storage a node can read now."""
    online = online_storages(session) if online is None else online
    having = [row for row in rows if row.node_rank in entry.node_ranks]
    return next((row for row in having if row.storage_id in online), having[0])


def _row(
    trial: TrialRow,
    place: _Place,
    files: Sequence[OutputFile],
    caller: Caller,
    settings: Settings,
    *,
    first: int = 0,
    suffix: str = "",
) -> ExportRow:
    size_bytes = sum(file.size_bytes for file in files)
    is_one = len(files) == 1
    if is_one:
        file_name = PurePosixPath(files[0].path).name
        room_bytes = min(first, size_bytes) if first else size_bytes
    else:
        file_name = f"experiment-{trial.experiment_id}-trial-{trial.no}-outputs{suffix}.tar"
        names = sum(2 * len(file.path.encode()) + exports.TAR_ENTRY_BYTES for file in files)
        room_bytes = size_bytes + names + exports.TAR_END_BYTES
    return ExportRow(
        checkpoint_id=None,
        trial_id=trial.id,
        trial_no=trial.no,
        experiment_id=trial.experiment_id,
        step=0,
        storage_id=place.storage_id,
        storage_url=place.storage_url,
        path=place.folder,
        node_name=place.node_name,
        files=encode_files(files),
        num_files=len(files),
        first_bytes=first,
        request_key=_key_of(place, files, first),
        file_name=file_name[-255:],
        state="pending",
        message="",
        room_bytes=room_bytes,
        requested_by=caller.principal.actor,
        requested_at=caller.now,
        expires_at=caller.now + dt.timedelta(hours=min(KEPT_HOURS, settings.export_hours)),
    )


def _key_of(place: _Place, files: Sequence[OutputFile], first: int) -> str:
    """Return what is equal for requests of the same bytes from the same storage."""
    named = [[file.path, file.sha256, file.parts, file.mtime_ms, file.mode] for file in files]
    text = json.dumps([place.storage_id, place.storage_url, place.folder, named, first])
    return hashlib.sha256(text.encode()).hexdigest()
