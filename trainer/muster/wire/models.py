"""Agent to server: files of the versions of models that an allocation reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MODEL_RESULT_BYTES = 64 << 10
"""Most bytes of a result, as JSON."""
MODEL_MANIFEST = ".muster-model.json"
"""File in the folder of a version that says which one it is, and the digests of its files."""


def content_digest(files: Mapping[str, str]) -> str:
    """Return "sha256:…" of a list of files, path → SHA-256. The same files always have the same
    digest, whatever the version is called and wherever they lie."""
    listed = [{"path": path, "sha256": files[path]} for path in sorted(files)]
    text = json.dumps({"format": 1, "files": listed}, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A version that an allocation reads."""

    model: str
    version: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    path: str
    sha256: str
    size_bytes: int | None
    """None if only the total of the version's files is known."""
    num_parts: int
    """Number of parts of OUTPUT_PART_BYTES in which it is fetched."""


@dataclass(frozen=True, kw_only=True)
class ModelFilesRequest:
    """`POST /agent/v1/allocations/{id}/models`."""

    node_id: str
    session_epoch: int
    attempt_no: int
    name: str
    """Name of the version among the `models` of the document."""


@dataclass(frozen=True, kw_only=True)
class ModelFilesReply:
    files: list[ModelFile]
    size_bytes: int
    """Bytes of all files."""


@dataclass(frozen=True, kw_only=True)
class ModelPartRequest:
    """`POST /agent/v1/allocations/{id}/models/parts`: have a part of a file read, if the server lacks
    it. Repeated until it is ready."""

    node_id: str
    session_epoch: int
    attempt_no: int
    name: str
    path: str
    part: int = 0
    export_id: int | None = None
    """Export of an earlier answer, to learn what became of it; None asks for one."""
    drops: int | None = None
    """Export of another part that has arrived, and only takes room now."""


@dataclass(frozen=True, kw_only=True)
class ModelPartReply:
    state: Literal["ready", "pending", "failed"]
    waits_for: str = ""
    """Node that reads it, or why none does; "" unless it is pending."""
    message: str = ""
    """Why it failed; "" otherwise."""
    sha256: str = ""
    """Digest of the part; "" if it is not known before the whole is there."""
    export_id: int | None = None
    """Export that holds the bytes; None if the server has them for good."""
