"""The files that a job writes: work folders, their manifests, and what becomes of them.

Every trial has one work folder on each of its nodes. It survives the attempts of the trial, and is
copied into the storage of the trial while the job runs and when it has ended:

    <storage>/experiment-12/trial-1/outputs/
        objects/ab/<sha256>                       one part of a file, named after its digest
        manifests/n<rank>-a<attempt>-<seq>.json   written last: a reader never sees half a state
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OUTPUT_PART_BYTES = 256 * 2**20
"""Size of the parts of a file in the storage in bytes; the last one is shorter."""
OUTPUT_FILES_MAX = 20_000
"""Most files of one node that a manifest lists; what is beyond is counted in `left_out`."""


@dataclass(frozen=True, kw_only=True)
class OutputsSpec:
    """What is kept of the files that a job writes."""

    include: list[str] = field(default_factory=lambda: ["**"])
    """Patterns of paths relative to the work folder, in the syntax of .gitignore."""
    exclude: list[str] = field(default_factory=list)
    """Patterns of paths that are not kept; they win over `include`."""
    max_bytes: int = 50 * 10**9
    """Bytes that one node keeps of a trial. Files beyond are listed as left out."""
    every_s: float = 120.0
    """Seconds between two collections while the job runs."""
    adopt: str = ""
    """Pattern of the files or folders that are checkpoints of the script (muster.adoption); "" for
    none."""


@dataclass(frozen=True, kw_only=True)
class WorkSource:
    """The last manifest of one node rank: the content from which a work folder is restored."""

    node_rank: int
    attempt_no: int
    seq: int
    node_id: str
    """Node that wrote it, and may still have the folder."""
    storage_id: str
    """Id of the storage folder; "" for an object store."""
    storage_url: str
    """Folder of the trial's outputs in an object store; "" for the storage folder."""
    folder: str
    """Folder of the trial's outputs, relative to the storage folder: experiment-12/trial-1/outputs."""
    size_bytes: int
    source: str = ""
    """What is restored, if it is a checkpoint of another trial: "step 200 of trial 36.2". Without its
    files the attempt does not start."""


OutputState = Literal["kept", "growing", "link", "left_out"]


@dataclass(frozen=True, kw_only=True)
class OutputFile:
    """One file of a work folder that did not come with the code, or was changed since."""

    path: str
    """Path relative to the work folder, with slashes."""
    state: OutputState
    """`kept`: complete in the storage. `growing`: still open for writing, kept up to size_bytes.
    `link`: a symbolic link to `target` within the work folder. `left_out`: not in the storage, for
    the `reason`."""
    size_bytes: int = 0
    mtime_ms: int = 0
    """Time of the last change in milliseconds since 1970."""
    mode: int = 0o644
    """Permission bits."""
    sha256: str = ""
    """Digest of the whole file as kept."""
    parts: list[str] = field(default_factory=list)
    """Digests of its parts of OUTPUT_PART_BYTES, in order."""
    target: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class OutputsSummary:
    """State of one node's outputs; the list itself travels as `OutputsRequest.files`."""

    experiment_id: int
    trial_id: int
    attempt_no: int
    node_rank: int
    seq: int
    """Number of the manifest, increasing over all attempts of this trial and rank."""
    is_final: bool
    """Whether no process of the attempt lived any more when it was made, and nothing is missing."""
    num_files: int
    """Number of files in the storage."""
    size_bytes: int
    """Bytes of these files."""
    num_left_out: int
    left_out_bytes: int
    problem: str = ""
    """Reason why the storage lacks something that it should have, as one sentence; "" if nothing is
    missing."""


ADOPTED_FILES_MAX = 2000
"""Most files of an adopted checkpoint on one node."""
ADOPTED_AT_ONCE = 10
"""Most adopted checkpoints in one request; the others follow."""
ADOPTED_SEQ = 1
"""Number in the name of the manifest of an adopted checkpoint, whose attempt is 0 there."""


@dataclass(frozen=True, kw_only=True)
class AdoptedCheckpoint:
    """Files that the script saved as a checkpoint. They lie in a folder of their own beside the
    outputs, laid out like those, and stay when the script replaces or deletes them."""

    no: int
    """Number within the work folder, increasing."""
    attempt_no: int
    node_rank: int
    name: str
    """Path of the file or folder relative to the work folder."""
    step: int | None
    """Step that the name says; None if it says none."""
    folder: str
    """Folder relative to the trial's: adopted-<digest of the list of files>."""
    saved_ms: int
    """Time of the last change of its files in milliseconds since 1970."""
    files: str
    """The list of its files, packed like OutputsRequest.files."""
    problem: str = ""
    """Reason why it was not adopted, as half a sentence; its folder is not there then."""


@dataclass(frozen=True, kw_only=True)
class OutputsRequest:
    """`POST /agent/v1/outputs`: a manifest has been written. Sending it twice is harmless."""

    node_id: str
    session_epoch: int
    storage_id: str
    storage_url: str
    folder: str
    summary: OutputsSummary
    files: str
    """base64 of zlib of a JSON list of OutputFile, sorted by path."""
    adopted: list[AdoptedCheckpoint] = field(default_factory=list)
    """Checkpoints of the script that were not answered yet, oldest first."""


@dataclass(frozen=True, kw_only=True)
class OutputsReply:
    taken: bool
    """Whether it is now the newest manifest of this rank; False if a newer attempt has written."""


@dataclass(frozen=True, kw_only=True)
class WorkFolder:
    """A work folder on this node."""

    experiment_id: int
    trial_id: int
    attempt_no: int
    """Attempt that used it last."""
    is_collected: bool
    """Whether the final manifest of that attempt was taken by the server."""
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class WorkFoldersRequest:
    """`POST /agent/v1/work-folders`: what lies on this node, so that the server can say what goes."""

    node_id: str
    session_epoch: int
    folders: list[WorkFolder]


@dataclass(frozen=True, kw_only=True)
class WorkFoldersReply:
    delete: list[int] = field(default_factory=list)
    """Trials whose work folders are not needed any more. What has not been collected is never
    named, unless the trial itself was deleted."""
