"""Artifacts of unmanaged runs, in the database in pieces of 1 MiB.

A file is written piece by piece, each in a transaction of its own, under a name that nobody sees, and
gets its own name when it is complete.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import IO, Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from muster.tracking import TrackingError, invalid, missing
from muster_server.db.engine import Database
from muster_server.db.models import (
    LoggedModelRow,
    ModelFileRow,
    ModelRow,
    ModelVersionRow,
    RunArtifactChunkRow,
    RunArtifactRow,
    UnmanagedRunRow,
)

from ..core import chunks
from ..core.callers import Caller
from .store import DatabaseStore

CHUNK_BYTES = 1 << 20
FILES_MAX = 10_000
"""Most artifacts of one run."""
LISTED_MAX = 10_000
PATH_MAX_CHARS = 900
REGISTRY = "registry"
"""Beginning of the paths under which versions of models are read: registry/<id of the version>/…"""
_UPLOAD = ".upload-"
_PART = re.compile(r"[^\x00-\x1f\x7f]{1,255}")


def place(session: Session, caller: Caller, path: str, *, writes: bool) -> tuple[int, str]:
    """Return the trial and the path below its folder for <experiment>/<run>/artifacts/… and
    <experiment>/models/<model>/artifacts/… Raises TrackingError and Forbidden."""
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") or not _PART.fullmatch(part) for part in parts):
        raise invalid(f"Invalid path of an artifact: {path[:300]!r}")
    if len(path) > PATH_MAX_CHARS:
        raise invalid(f"the path of an artifact has more than {PATH_MAX_CHARS} characters")
    store = DatabaseStore(session, caller, writes=writes)
    match parts:
        case [_, "models", model_id, "artifacts", *rest]:
            query = (
                select(LoggedModelRow.trial_id, UnmanagedRunRow.run_id)
                .join(UnmanagedRunRow, UnmanagedRunRow.trial_id == LoggedModelRow.trial_id)
                .where(LoggedModelRow.model_id == model_id)
            )
            found = session.execute(query).one_or_none()
            if found is None:
                raise missing(f"Logged model with ID '{model_id[:64]}' not found.")
            return store.rows_of(found.run_id)[1].id, "/".join(["models", model_id, *rest])
        case [_, run_id, "artifacts", *rest]:
            return store.rows_of(run_id)[1].id, "/".join(["artifacts", *rest])
    raise invalid(f"Invalid path of an artifact: {path[:300]!r} is not that of a run or model")


def put(
    database: Database,
    caller: Caller,
    path: str,
    file: IO[bytes],
    size_bytes: int,
    *,
    run_max_bytes: int,
) -> None:
    """Store a file, in place of one of the same path.

    run_max_bytes: most bytes of all artifacts of one run. Raises TrackingError and Forbidden.
    """
    with database.transaction() as session:
        trial_id, inner = _file(session, caller, path, writes=True)
        run = session.get_one(UnmanagedRunRow, trial_id)
        _check_room(run, size_bytes, run_max_bytes)
        _check_no_clash(session, trial_id, inner)
        upload = RunArtifactRow(
            trial_id=trial_id,
            path=f"{_UPLOAD}{secrets.token_hex(8)}",
            size_bytes=size_bytes,
            created_at=caller.now,
        )
        session.add(upload)
        session.flush()
        upload_id = upload.id
    digest = hashlib.sha256()
    try:
        for index in range((size_bytes + CHUNK_BYTES - 1) // CHUNK_BYTES):
            with database.transaction() as session:
                piece = file.read(CHUNK_BYTES)
                digest.update(piece)
                session.add(RunArtifactChunkRow(artifact_id=upload_id, idx=index, data=piece))
        with database.transaction() as session:
            run = session.get_one(UnmanagedRunRow, trial_id, with_for_update=True)
            _remove(session, run, RunArtifactRow.path == inner)
            _check_room(run, size_bytes, run_max_bytes)
            stored = session.get_one(RunArtifactRow, upload_id)
            stored.path, stored.sha256 = inner, digest.hexdigest()
            run.num_artifacts += 1
            run.artifact_bytes += size_bytes
    except BaseException:
        with database.transaction() as session:
            session.execute(delete(RunArtifactRow).where(RunArtifactRow.id == upload_id))
        raise


def is_registered(path: str) -> bool:
    """Return whether a path is that of a version of a model."""
    return path.strip("/").startswith(f"{REGISTRY}/")


def read(database: Database, caller: Caller, path: str) -> tuple[int, Iterator[bytes]]:
    """Return the size of a file and its content. Raises TrackingError."""
    with database.read() as session:
        trial_id, inner = _file(session, caller, path, writes=False)
        row = session.scalars(
            select(RunArtifactRow).where(
                RunArtifactRow.trial_id == trial_id, RunArtifactRow.path == inner
            )
        ).one_or_none()
        if row is None:
            raise missing(f"No such artifact: {path[-300:]}")
        artifact_id, size = row.id, row.size_bytes
    pieces = chunks.stream(
        database,
        lambda index: select(RunArtifactChunkRow.data).where(
            RunArtifactChunkRow.artifact_id == artifact_id, RunArtifactChunkRow.idx == index
        ),
    )
    return size, pieces


def entries(session: Session, caller: Caller, path: str) -> list[dict[str, Any]]:
    """Return the entries of a folder as MLflow shows them; none for a file or for nothing.

    Raises TrackingError for a folder of more than `LISTED_MAX`."""
    if is_registered(path):
        _, version, inner = version_at(session, path)
        files = select(ModelFileRow.path, ModelFileRow.size_bytes).where(
            ModelFileRow.version_id == version.id
        )
        rows = [(f"/{file}" if not inner else file, size) for file, size in session.execute(files)]
        rows = [(file, size) for file, size in rows if file.startswith(f"{inner}/")]
    else:
        trial_id, inner = place(session, caller, path, writes=False)
        artifacts = select(RunArtifactRow.path, RunArtifactRow.size_bytes).where(
            RunArtifactRow.trial_id == trial_id,
            RunArtifactRow.path.startswith(f"{inner}/", autoescape=True),
        )
        rows = [(file, size) for file, size in session.execute(artifacts)]
    found: dict[str, dict[str, Any]] = {}
    for file, size in rows:
        name, _, rest = file.removeprefix(f"{inner}/").partition("/")
        entry: dict[str, Any] = {"path": name, "is_dir": bool(rest)}
        found[name] = entry if rest else {**entry, "file_size": size}
    return [found[name] for name in sorted(found)]


def remove(session: Session, caller: Caller, path: str) -> None:
    """Delete a file or folder; nothing if there is none. Raises TrackingError and Forbidden."""
    trial_id, inner = _file(session, caller, path, writes=True)
    run = session.get_one(UnmanagedRunRow, trial_id, with_for_update=True)
    inside = RunArtifactRow.path.startswith(f"{inner}/", autoescape=True)
    _remove(session, run, (RunArtifactRow.path == inner) | inside)


def remove_model(session: Session, run: UnmanagedRunRow, model_id: str) -> None:
    """Delete the artifacts of a model of a run."""
    inside = RunArtifactRow.path.startswith(f"models/{model_id}/", autoescape=True)
    _remove(session, run, inside)


def version_at(session: Session, path: str) -> tuple[ModelRow, ModelVersionRow, str]:
    """Return the model, the version and the path within it for registry/<id>/…"""
    _, number, *inner = path.strip("/").split("/")
    found = session.execute(
        select(ModelRow, ModelVersionRow)
        .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
        .where(ModelVersionRow.id == (int(number) if re.fullmatch(r"\d{1,9}", number) else 0))
    ).one_or_none()
    if found is None:
        raise missing(f"There is no version of a model under {path[:200]}.")
    return found[0], found[1], "/".join(inner)


def _require_unused(session: Session, mine: Any) -> None:
    """Raise TrackingError if a version of a model consists of one of these artifacts."""
    user = session.execute(
        select(ModelRow.name, ModelVersionRow.number, RunArtifactRow.path)
        .join(ModelVersionRow, ModelVersionRow.model_id == ModelRow.id)
        .join(ModelFileRow, ModelFileRow.version_id == ModelVersionRow.id)
        .join(RunArtifactRow, RunArtifactRow.id == ModelFileRow.artifact_id)
        .where(*mine)
        .limit(1)
    ).one_or_none()
    if user is not None:
        raise TrackingError(
            400,
            "INVALID_STATE",
            f"{user.path} belongs to version {user.number} of model {user.name}: it can be neither "
            "replaced nor deleted. Delete that version first",
        )


def _remove(session: Session, run: UnmanagedRunRow, where: Any) -> None:
    mine = [RunArtifactRow.trial_id == run.trial_id, where]
    _require_unused(session, mine)
    num, size = session.execute(
        select(func.count(), func.coalesce(func.sum(RunArtifactRow.size_bytes), 0)).where(*mine)
    ).one()
    session.execute(delete(RunArtifactRow).where(*mine))
    run.num_artifacts -= num
    run.artifact_bytes -= int(size)


def _file(session: Session, caller: Caller, path: str, *, writes: bool) -> tuple[int, str]:
    trial_id, inner = place(session, caller, path, writes=writes)
    if inner == "artifacts" or (inner.startswith("models/") and inner.count("/") < 2):
        raise invalid(f"Invalid path of an artifact: {path[:300]!r} names no file")
    return trial_id, inner


def _check_room(run: UnmanagedRunRow, size_bytes: int, run_max_bytes: int) -> None:
    if run.num_artifacts >= FILES_MAX or run.artifact_bytes + size_bytes > run_max_bytes:
        # 507 is not repeated by clients, unlike 503.
        raise TrackingError(
            507,
            "RESOURCE_EXHAUSTED",
            f"the run has {run.num_artifacts:,} artifacts of {run.artifact_bytes:,} bytes; at most "
            f"{FILES_MAX:,} of together {run_max_bytes:,} bytes are kept "
            "(MUSTER_RUN_ARTIFACTS_MAX_BYTES)",
        )


def _check_no_clash(session: Session, trial_id: int, path: str) -> None:
    """Raise TrackingError where a folder would be a file as well."""
    parts = path.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    below = RunArtifactRow.path.startswith(f"{path}/", autoescape=True)
    clash = session.scalar(
        select(RunArtifactRow.path)
        .where(RunArtifactRow.trial_id == trial_id, RunArtifactRow.path.in_(above) | below)
        .limit(1)
    )
    if clash is not None:
        raise invalid(f"A part of {path[:300]} is a file, not a folder, or the other way round")
