"""Batch inference: shards of rows, from the control plane to workers and back.

Shards go the way that everything goes: up as records of the allocation's stream, which is durable, in
order and fenced by node session and attempt number; down as part of the complete desired set. A worker
never waits for an answer: what it holds is what the newest ShardOrders say, and it says again what it has
done until they do not name it any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SHARDS_MAX = 10_000
"""Largest number of shards of one job."""
INPUTS_MAX = 2_000
"""Largest number of inputs of one job; a folder of images is one."""
PARTS_PER_PAGE = 400
"""Largest number of committed parts in one ShardOrders."""
REFUSED_MAX = 64
"""Largest number of refused commits in one ShardOrders; older ones are forgotten."""

InputKind = Literal["jsonl", "jsonl_gz", "parquet", "images"]


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """An input as it was when the job began. One that differs later is an error."""

    path: str
    """Absolute path of a file, or of a folder of images."""
    kind: InputKind
    size_bytes: int
    mtime_ns: int
    digest: str
    """SHA-256: of a file of JSON lines, of the footer of a Parquet file, of the list of a folder."""
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class ShardPlanRecord:
    """All inputs and shards of the job, from rank 0 when the orders want them. Columns have one length;
    the position in them is the shard's number. A later plan is ignored."""

    type: Literal["shard_plan"] = "shard_plan"
    inputs: list[InputFile]
    input_nos: list[int]
    """Position in `inputs`."""
    first_rows: list[int]
    """First row in the input, from 0."""
    nums_rows: list[int]
    starts: list[int]
    """First byte of JSON lines, first row group of Parquet, first image."""
    ends: list[int]
    """The one after the last."""


@dataclass(frozen=True, kw_only=True)
class ShardDone:
    """A shard whose part is complete on the node's disk."""

    no: int
    token: int
    num_rows: int
    """Number of predictions in the part."""
    num_errors: int
    """Number of rows in the file of errors beside it."""
    size_bytes: int
    sha256: str
    """Digest of the part's bytes."""


@dataclass(frozen=True, kw_only=True)
class ShardsRecord:
    """What a worker has done and wants. Each prolongs the leases of the worker."""

    type: Literal["shards"] = "shards"
    rank: int
    local_rank: int
    done: list[ShardDone] = field(default_factory=list)
    rows_per_s: float = 0.0
    """Measured speed of this worker; 0 if unknown."""
    takes_none: bool = False
    """Whether the worker takes no shards, and gives back those that it holds: it loads its model, or
    stops."""
    parts: list[list[int]] | None = None
    """Numbers and tokens of the parts that lie on this node. The first worker of each node says so once
    at the beginning of an attempt."""
    parts_from: int = 0
    """Number of committed parts that rank 0 knows: once all are, it gets the ones from there on."""


@dataclass(frozen=True, kw_only=True)
class ShardGrant:
    """A shard that a worker holds."""

    rank: int
    no: int
    token: int
    """Number of this lease of the shard; a commit has to carry the latest."""
    input_no: int
    first_row: int
    num_rows: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class CommittedPart:
    """The part that counts of a shard."""

    token: int
    num_rows: int
    num_errors: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ShardOrders:
    """Everything that the workers of one allocation hold. Replaces earlier orders of a smaller number."""

    no: int
    """Increases within the allocation."""
    wants_plan: bool = False
    """Whether rank 0 should report the inputs."""
    inputs: dict[str, InputFile] = field(default_factory=dict)
    """The inputs that `grants` name, by number."""
    grants: list[ShardGrant] = field(default_factory=list)
    refused: list[list[int]] = field(default_factory=list)
    """Numbers and tokens of the latest commits that came too late: their parts count for nothing."""
    num_shards: int = 0
    num_done: int = 0
    num_rows: int = 0
    rows_done: int = 0
    """Rows of committed shards, with those in error."""
    num_errors: int = 0
    is_complete: bool = False
    """Whether every shard is committed, and its part is where it should be."""
    parts_from: int = 0
    parts: list[CommittedPart] = field(default_factory=list)
    """Parts of the shards from number `parts_from` on, for rank 0 of a complete job."""
    problem: str = ""
    """Why the job cannot go on."""
