"""The bytes of a version's files: in the database, or read by an agent when somebody wants them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import OUTPUT_PART_BYTES, OutputFile
from muster_models.schemas.registry import ModelFetchOut
from muster_server.db.engine import Database
from muster_server.db.models import (
    ExportChunkRow,
    ExportRow,
    ModelFileRow,
    ModelRow,
    ModelVersionRow,
    RunArtifactChunkRow,
    TrialRow,
)
from muster_server.errors import Conflict, InvalidRequest, NotFound
from muster_server.schemas.exports import ExportOut
from muster_server.services.checkpoints import exports
from muster_server.services.core import chunks
from muster_server.services.core.callers import Caller
from muster_server.services.outputs.downloads import StoragePlace, part_of, request_file
from muster_server.settings import Settings

from . import uploads
from .models import find_model, find_version


@dataclass(frozen=True)
class Content:
    """Bytes that the server has."""

    sha256: str
    size_bytes: int
    blob_sha256: str | None = None
    artifact_id: int | None = None
    export_id: int | None = None

    def stream(self, database: Database, start: int) -> chunks.Pieces:
        """Yield the bytes from `start` on."""
        if self.blob_sha256 is not None:
            return uploads.stream(database, self.blob_sha256, start=start)
        if self.artifact_id is not None:
            artifact = RunArtifactChunkRow
            return chunks.stream(
                database,
                lambda index: select(artifact.data).where(
                    artifact.artifact_id == self.artifact_id, artifact.idx == index
                ),
                start=start,
            )
        return chunks.stream(
            database,
            lambda index: select(ExportChunkRow.data).where(
                ExportChunkRow.export_id == self.export_id, ExportChunkRow.idx == index
            ),
            start=start,
        )


def num_parts(file: ModelFileRow) -> int:
    """Return the number of parts in which a file is fetched."""
    parts = (file.place or {}).get("parts")
    return max(1, len(parts)) if parts is not None else 1


def find_file(
    session: Session, name: str, number: int, path: str
) -> tuple[ModelVersionRow, ModelFileRow]:
    """Return a file of a version. Raises NotFound, and Conflict while the version has none."""
    model = find_model(session, name)
    version = find_version(session, model, number)
    return version, file_of(session, model, version, path)


def file_of(session: Session, model: ModelRow, version: ModelVersionRow, path: str) -> ModelFileRow:
    if version.state != "ready":
        raise Conflict(
            "models.not_ready",
            f"Version {version.number} of model {model.name} is "
            + ("still being made." if version.state == "making" else f"failed: {version.message}."),
        )
    row = session.scalar(
        select(ModelFileRow).where(ModelFileRow.version_id == version.id, ModelFileRow.path == path)
    )
    if row is None:
        raise NotFound(
            "models.no_file",
            f"Version {version.number} of model {model.name} has no file {path[:200]!r}.",
            hint=f"`muster model show {model.name}:{version.number}` lists them.",
        )
    return row


def request(
    session: Session,
    version: ModelVersionRow,
    file: ModelFileRow,
    part: int,
    caller: Caller,
    *,
    settings: Settings,
) -> ModelFetchOut:
    """Have a part of a file read, if the server lacks it; one that is there, or under way, is enough.

    Raises InvalidRequest for a part that there is not, and Conflict where it cannot be read.
    """
    if part >= num_parts(file):
        raise InvalidRequest(
            "models.no_part", f"{file.path} has parts 0 to {num_parts(file) - 1}, not {part}."
        )
    if file.place is None:
        return ModelFetchOut(
            state="ready",
            waits_for="",
            message="",
            sha256=file.sha256,
            size_bytes=file.size_bytes,
            export_id=None,
        )
    if file.place["kind"] == "model":
        assert version.checkpoint_id is not None
        return shown(exports.request(session, version.checkpoint_id, caller, settings=settings))
    place = StoragePlace(
        file.place["storage_id"],
        file.place["storage_url"],
        file.place["folder"],
        file.place["node_name"],
    )
    trial = session.get_one(TrialRow, version.trial_id)
    wanted = _wanted(version, file, part, settings)
    return shown(request_file(session, trial, place, wanted, caller, settings=settings))


def find_content(session: Session, file: ModelFileRow, *, export_id: int | None) -> Content:
    """Return the bytes of a file, or of the part of it that an export has.

    Raises NotFound for an export that is gone or of other files, and Conflict for one that is not
    done.
    """
    if file.place is None:
        return Content(file.sha256, file.size_bytes or 0, file.blob_sha256, file.artifact_id)
    row = session.get(ExportRow, export_id) if export_id is not None else None
    version = session.get_one(ModelVersionRow, file.version_id)
    if row is None or row.trial_id != version.trial_id:
        raise NotFound(
            "models.not_fetched",
            f"{file.path} is not at the server now.",
            hint="Have it fetched: POST …/files:fetch.",
        )
    done = exports.require_done(session, row.id)
    return Content(done.sha256, done.size_bytes or 0, export_id=row.id)


def _wanted(
    version: ModelVersionRow, file: ModelFileRow, part: int, settings: Settings
) -> OutputFile:
    assert file.place is not None
    if file.place["kind"] == "objects":
        whole = OutputFile(
            path=file.path,
            state="kept",
            size_bytes=file.size_bytes or 0,
            sha256=file.sha256,
            parts=file.place["parts"],
        )
        is_cut = (file.size_bytes or 0) > OUTPUT_PART_BYTES
        return part_of(whole, part) if is_cut else whole
    size_bytes = file.size_bytes
    if size_bytes is None:
        size_bytes = min(version.size_bytes, settings.export_max_bytes)
    if size_bytes > settings.export_max_bytes:
        raise Conflict(
            "outputs.too_large",
            f"{file.path} has {size_bytes:,} bytes, and {settings.export_max_bytes:,} are sent in one "
            "piece (MUSTER_EXPORT_MAX_BYTES).",
            hint="Copy it from the storage of the node.",
        )
    return OutputFile(
        path=file.place["path"],
        state="kept",
        size_bytes=size_bytes,
        sha256=file.sha256,
        parts=[file.sha256],
    )


def shown(export: ExportOut) -> ModelFetchOut:
    """Return how far an export of a part is."""
    states = {"pending": "pending", "done": "ready", "failed": "failed"}
    return ModelFetchOut.model_validate(
        {
            "state": states[export.state],
            "waits_for": export.waits_for,
            "message": export.message,
            "sha256": export.sha256 or "",
            "size_bytes": export.size_bytes,
            "export_id": export.id,
        }
    )
