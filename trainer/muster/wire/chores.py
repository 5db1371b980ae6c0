"""Server to agent, and back: files to delete or to export, and nodes to test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .outputs import OutputFile


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """Files of a deleted experiment. Asked of one node that has the storage, until it says how it
    went; doing it twice is harmless."""

    id: int
    storage_id: str
    """Id of the storage; a node that has another one by now refuses."""
    path: str
    """Path relative to the storage folder."""
    cluster_id: str
    """Mark that the experiment's folder must carry."""
    storage_url: str = ""
    """Object store that contains the path, below a folder of this server, in place of the storage
    folder. storage_id has no meaning then."""


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    id: int
    outcome: Literal["done", "refused", "failed"]
    """Result of the deletion. `refused`: not ours to delete, for good. `failed`: it did not work
    this time, and is tried again."""
    freed_bytes: int = 0
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class DeletionsRequest:
    """`POST /agent/v1/deletions`."""

    node_id: str
    session_epoch: int
    results: list[DeletionResult]


@dataclass(frozen=True, kw_only=True)
class DeletionsReply:
    num_taken: int


EXPORT_PIECE_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class Export:
    """A model to be made into one file and sent in pieces. Requested from one node that can read
    its checkpoint, until it reports the result; repeating it is harmless, for the pieces are the
    same."""

    id: int
    storage_id: str
    """Id of the storage; a node that has another one by now reports that."""
    path: str
    """Path relative to the storage folder."""
    cluster_id: str
    """Mark that the experiment's folder must carry."""
    max_bytes: int
    """Size above which a file is not accepted."""
    storage_url: str = ""
    """Object store that contains the path, below a folder of this server, in place of the storage
    folder. storage_id has no meaning then."""
    files: list[OutputFile] = field(default_factory=list)
    """Files of a trial's outputs to send in place of a model; `path` is then the folder of the
    outputs. One is sent as it is, several as a tar archive under their paths."""
    first_bytes: int = 0
    """Number of bytes to send, from the beginning, for a preview; 0 for all."""


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    id: int
    outcome: Literal["done", "failed"]
    size_bytes: int = 0
    sha256: str = ""
    message: str = ""
    """Reason of a failure that repeating would not cure."""


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """`POST /agent/v1/exports`, after all its pieces: `POST /agent/v1/exports/{id}/pieces/{idx}`, of
    EXPORT_PIECE_BYTES each but the last."""

    node_id: str
    session_epoch: int
    result: ExportResult


@dataclass(frozen=True, kw_only=True)
class ExportReply:
    taken: bool
    """Whether the report was accepted; False if the export is not wanted any more."""


@dataclass(frozen=True, kw_only=True)
class PreflightPeer:
    rank: int
    node_name: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class PreflightStore:
    """Store on rank 0 in which the processes of an all-reduce find each other."""

    host: str
    port: int


PreflightStage = Literal["listen", "connect", "reduce"]


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """A test of this node together with others. `stage` is to be done now, once; a preflight that
    is not wanted any more is ended."""

    id: int
    stage: PreflightStage
    rank: int
    token: str
    """Secret that the participating nodes show each other."""
    python: str | None
    """Path of the interpreter; None means the agent's default one."""
    slots: list[int]
    """CUDA devices to test."""
    peers: list[PreflightPeer]
    """All participating nodes, this one included; empty at `listen`."""
    store: PreflightStore | None = None
    """Store of the all-reduce, at `reduce`."""


@dataclass(frozen=True, kw_only=True)
class LinkReport:
    """Result of testing the connection to another node."""

    rank: int
    message: str
    """Description of the problem; "" if there is none."""
    ms: float | None
    """Milliseconds of the quickest round trip (connect), or of an all-reduce of 1 MiB between the
    two (reduce)."""


@dataclass(frozen=True, kw_only=True)
class PreflightReport:
    """Result of a stage on this node."""

    id: int
    stage: PreflightStage
    problems: list[str] = field(default_factory=list)
    """Problems of the node itself."""
    host: str = ""
    """Address where the others reach it, at `listen`."""
    port: int = 0
    """Port where the others reach it; 0 for none."""
    store_port: int | None = None
    """Port of rank 0's store, at `connect`."""
    torch_version: str = ""
    """Version of torch, at `connect`; empty if it is not installed."""
    links: list[LinkReport] = field(default_factory=list)
    reduce_ms: float | None = None
    """Milliseconds of the all-reduce over all nodes, at `reduce`."""


@dataclass(frozen=True, kw_only=True)
class PreflightRequest:
    """`POST /agent/v1/preflights`."""

    node_id: str
    session_epoch: int
    report: PreflightReport


@dataclass(frozen=True, kw_only=True)
class PreflightReply:
    taken: bool
    """Whether the report was accepted; False if it was known already, or is not wanted any more."""
