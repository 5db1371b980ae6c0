"""Server to agent, and back: files to delete or to put together, and nodes to try out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """Files of a deleted experiment. Asked of one node that has the storage, until it says how it
    went; doing it twice is harmless."""

    id: int
    storage_id: str
    """The storage meant; a node that has another one by now refuses."""
    path: str
    """Relative to the storage folder."""
    cluster_id: str
    """The mark that the experiment's folder must carry."""
    storage_url: str = ""
    """An object store that the path is in, below a folder of this server, in place of the storage
    folder. storage_id says nothing then."""


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    id: int
    outcome: Literal["done", "refused", "failed"]
    """refused: not ours to delete, for good. failed: it did not work this time, and is tried again."""
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
    """A model that is to be made into one file and sent in pieces. Asked of one node that can read
    its checkpoint, until it says how that went; doing it twice is harmless, for the pieces are the
    same."""

    id: int
    storage_id: str
    """The storage meant; a node that has another one by now says so."""
    path: str
    """Relative to the storage folder."""
    cluster_id: str
    """The mark that the experiment's folder must carry."""
    max_bytes: int
    """A larger file is not taken."""
    storage_url: str = ""
    """An object store that the path is in, below a folder of this server, in place of the storage
    folder. storage_id says nothing then."""


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    id: int
    outcome: Literal["done", "failed"]
    size_bytes: int = 0
    sha256: str = ""
    message: str = ""
    """Why it failed: nothing that would go better by itself."""


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
    """False: it is not wanted any more."""


@dataclass(frozen=True, kw_only=True)
class PreflightPeer:
    rank: int
    node_name: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class PreflightStore:
    """Where the processes of an all-reduce find each other: on rank 0."""

    host: str
    port: int


PreflightStage = Literal["listen", "connect", "reduce"]


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """What this node tries together with others. `stage` is what is to be done now, once; one that
    is not wanted any more is ended."""

    id: int
    stage: PreflightStage
    rank: int
    token: str
    """Shown to each other by the nodes that take part."""
    python: str | None
    """Interpreter; None means the agent's default one."""
    slots: list[int]
    """CUDA devices to try."""
    peers: list[PreflightPeer]
    """All that take part, this node included; empty at `listen`."""
    store: PreflightStore | None = None
    """At `reduce`."""


@dataclass(frozen=True, kw_only=True)
class PreflightLink:
    """What a node found when it tried another one."""

    rank: int
    message: str
    """What went wrong; "" when nothing did."""
    ms: float | None
    """connect: the quickest round trip; reduce: an all-reduce of 1 MiB between the two."""


@dataclass(frozen=True, kw_only=True)
class PreflightReport:
    """How a stage went on this node."""

    id: int
    stage: PreflightStage
    problems: list[str] = field(default_factory=list)
    """What is wrong with the node itself."""
    host: str = ""
    """listen: where the others reach it."""
    port: int = 0
    """0: nowhere."""
    store_port: int | None = None
    """connect: of rank 0's store."""
    torch_version: str = ""
    """connect: empty when torch is not installed."""
    links: list[PreflightLink] = field(default_factory=list)
    reduce_ms: float | None = None
    """reduce: of the all-reduce of all of them."""


@dataclass(frozen=True, kw_only=True)
class PreflightRequest:
    """`POST /agent/v1/preflights`."""

    node_id: str
    session_epoch: int
    report: PreflightReport


@dataclass(frozen=True, kw_only=True)
class PreflightReply:
    taken: bool
    """False: it was known already, or is not wanted any more."""
