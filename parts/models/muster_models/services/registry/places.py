"""The files of a version: what they are, and where an agent or the server finds their bytes.

A place is one of these, as JSON:

    {"kind": "model"}                      the model of the version's checkpoint, made into one file
    {"kind": "plain", "folder", …}         a file of a checkpoint's folder
    {"kind": "objects", "folder", …}       parts in a folder of outputs, named after their digests
    null                                   bytes in the database: an upload or a logged artifact
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.sdk.shards import INDEX
from muster.wire import OutputFile, content_digest
from muster_models.domain.registry.contents import (
    FILES_MAX,
    clash,
    path_problem,
)
from muster_server.db.models import CheckpointRow, ExperimentRow, ModelFileRow, TrialRow
from muster_server.errors import Conflict, FieldProblem, InvalidRequest
from muster_server.services.checkpoints.lookup import ADOPTED, OBJECT_STORE, store_of, trial_folder
from muster_server.services.core.output_lists import decode_files, unpack_base64
from muster_server.services.outputs.downloads import StoragePlace

MODEL_FILE = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class VersionFile:
    path: str
    sha256: str
    size_bytes: int | None
    place: dict[str, Any] | None = None
    blob_sha256: str | None = None
    artifact_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class VersionContents:
    """What a version consists of."""

    files: Sequence[VersionFile] = field(default_factory=tuple)
    """Empty while it is not known."""
    size_bytes: int = 0

    @property
    def digest(self) -> str:
        """Content digest; "" while the files are not known."""
        return content_digest({f.path: f.sha256 for f in self.files}) if self.files else ""

    def rows(self, version_id: int) -> list[ModelFileRow]:
        return [
            ModelFileRow(
                version_id=version_id,
                path=f.path,
                sha256=f.sha256,
                size_bytes=f.size_bytes,
                place=f.place,
                blob_sha256=f.blob_sha256,
                artifact_id=f.artifact_id,
            )
            for f in self.files
        ]


def checked(files: Sequence[VersionFile], size_bytes: int | None = None) -> VersionContents:
    """Return the contents of a version. Raises InvalidRequest for paths that cannot be."""
    if not files:
        raise InvalidRequest("models.no_files", "A version needs at least one file.")
    if len(files) > FILES_MAX:
        raise InvalidRequest(
            "models.too_many_files",
            f"A version may have {FILES_MAX:,} files, and these are {len(files):,}.",
            hint="Name the ones that belong to the model, or pack them into one archive.",
        )
    by_path = {f.path: f for f in files}
    problems = [
        FieldProblem(f"files.{path[:80]}", why) for path in by_path if (why := path_problem(path))
    ]
    both = clash(by_path)
    if both is not None:
        problems.append(FieldProblem(f"files.{both[:80]}", "is a file and a folder at once"))
    if len(by_path) < len(files):
        problems.append(FieldProblem("files", "has a path twice"))
    if problems:
        raise InvalidRequest(
            "models.bad_path", "A path cannot be one of a version's files.", fields=problems[:20]
        )
    if size_bytes is None:
        size_bytes = sum(f.size_bytes or 0 for f in files)
    return VersionContents(
        files=tuple(by_path[path] for path in sorted(by_path)), size_bytes=size_bytes
    )


def of_checkpoint(
    experiment: ExperimentRow, trial: TrialRow, checkpoint: CheckpointRow
) -> VersionContents:
    """Return the files of a checkpoint; none yet for one of the built-in trainer, whose model a node
    makes into one file first. Raises Conflict and InvalidRequest."""
    if not checkpoint.storage_id and checkpoint.kind != ADOPTED:
        raise Conflict(
            "models.no_storage",
            f"{checkpoint.node_name} never said in which storage checkpoint {checkpoint.id} lies.",
            hint="Copy its files from that node, and use `muster model upload`.",
        )
    if checkpoint.kind == ADOPTED:
        part = checkpoint.parts[0]
        place = StoragePlace(
            part["storage_id"], part["storage_url"], part["path"], part["node_name"]
        )
        listed = {f.path: f for f in decode_files(unpack_base64(part["files"]))}
        return checked(of_outputs(listed, [checkpoint.path], dict.fromkeys(listed, place)))
    if INDEX in checkpoint.files:
        return VersionContents()
    in_store = checkpoint.storage_id == OBJECT_STORE
    found = {
        "kind": "plain",
        "storage_id": checkpoint.storage_id,
        "storage_url": store_of(experiment.config) if in_store else "",
        "folder": f"{trial_folder(experiment.id, trial.no)}/{checkpoint.path}",
        "node_name": checkpoint.node_name,
    }
    is_one = len(checkpoint.files) == 1
    return checked(
        [
            VersionFile(
                path=name,
                sha256=sha256,
                size_bytes=checkpoint.size_bytes if is_one else None,
                place={**found, "path": name},
            )
            for name, sha256 in checkpoint.files.items()
        ],
        checkpoint.size_bytes,
    )


def of_outputs(
    listed: Mapping[str, OutputFile], paths: Sequence[str], places: Mapping[str, StoragePlace]
) -> list[VersionFile]:
    """Return the files of outputs that paths name, files or folders; all for no path. One folder alone
    becomes the root, and one file alone has its own name. Raises InvalidRequest for a path that names
    nothing."""
    chosen = list(listed) if not paths else _named(listed, paths)
    files = []
    for name in chosen:
        file, place = listed[name], places[name]
        if file.state != "kept":
            # Nothing is left out in silence: a link or a growing file is no content that stays.
            why = {"link": "it is a link", "growing": "it is still being written"}
            raise InvalidRequest(
                "models.not_kept",
                f"{name} cannot belong to a version: {why.get(file.state, 'it was left out')}.",
                hint="Name the files that belong to the model.",
            )
        files.append(
            VersionFile(
                path=_inner(name, paths),
                sha256=file.sha256,
                size_bytes=file.size_bytes,
                place={
                    "kind": "objects",
                    "storage_id": place.storage_id,
                    "storage_url": place.storage_url,
                    "folder": place.folder,
                    "node_name": place.node_name,
                    "parts": file.parts,
                },
            )
        )
    return files


def _named(listed: Mapping[str, OutputFile], paths: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for path in paths:
        folder = path.rstrip("/") + "/"
        names = [name for name in listed if name == path or name.startswith(folder)]
        if not names:
            raise InvalidRequest(
                "models.no_output",
                f"No output is called {path!r}.",
                hint="`muster outputs list` shows them.",
                fields=[FieldProblem("paths", f"names no output: {path!r}")],
            )
        found |= dict.fromkeys(names)
    return list(found)


def _inner(name: str, paths: Sequence[str]) -> str:
    if len(paths) != 1:
        return name
    path = paths[0].rstrip("/")
    return name.rpartition("/")[2] if name == path else name.removeprefix(f"{path}/")
