"""Server to agent: the desired allocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .chores import Deletion, Export, Preflight
from .code import CodeSpec
from .layers import Description
from .models import ModelSpec
from .outputs import OutputsSpec, WorkSource
from .predictions import ShardOrders
from .tunnels import Tunnel


@dataclass(frozen=True, kw_only=True)
class LocalCheckpoint:
    """A checkpoint of the trial that this node may have on its own disk."""

    attempt_no: int
    step: int
    path: str
    """Name of its folder."""
    files: dict[str, str]
    """SHA-256 by file name."""
    is_stored: bool
    """Whether the storage has it, too: it is that of `resume_from`."""


@dataclass(frozen=True, kw_only=True)
class AllocationSpec:
    """Everything a shim needs to run its part of an attempt."""

    allocation_id: str
    experiment_id: int
    experiment_name: str
    trial_id: int
    trial_no: int
    attempt_id: int
    attempt_no: int
    node_rank: int
    num_nodes: int
    slots: list[int]
    """Indexes of this node's slots; one worker each."""
    slot_type: Literal["cpu", "cuda"]
    rank_offset: int
    """First expected rank: rank_offset .. rank_offset+len(slots)-1; what the workers report wins.
    """
    world_size: int
    launcher: Literal["torchrun", "direct", "plain", "shell"]
    """Launcher of the workers. `direct`: the shim starts one process per slot itself with
    torchrun's environment variables. `plain`: one process without them. `shell`: one command per
    node, which may start workers by a launcher of its own."""
    entrypoint: list[str]
    """Command to run: ["train.py", "--epochs", "3"] or ["-m", "package.module", ...]; with any
    launcher but torchrun also a program: ["bash", "run.sh"]."""
    code: CodeSpec
    python: str | None
    """Path of the interpreter; None means the agent's default one."""
    environment: dict[str, str]
    hparams: dict[str, Any]
    config: dict[str, Any]
    """Resolved experiment document."""
    seed: int
    checkpoint_dir: str
    """Folder of this trial's checkpoints; relative paths are under the agent's storage folder."""
    resume_from: str | None
    """Checkpoint to continue from: its path under the storage folder, or its URL."""
    resume_step: int
    stop_grace_s: float
    on_disconnect: Literal["continue", "stop"]
    log_limit_bytes: int
    """Limit in bytes per worker and stream; past it the log is cut with a marker."""
    skip_samples: int = 0
    """Samples after that checkpoint's place that are not used, counted over all ranks."""
    weights_from: str | None = None
    """Checkpoint of which only the model's weights are used: its path, or its URL."""
    checkpoint_url: str = ""
    """Folder of the trial in an object store. Empty: checkpoints stay in checkpoint_dir."""
    cluster_id: str = ""
    """Id of the server: marks its folders in the storage, which another server may have used too.
    """
    project_id: int = 0
    """Project of the experiment: jobs of one project run as one user where a node separates them; 0
    from an older server."""
    outputs: OutputsSpec | None = None
    """What is kept of the files that the job writes; None: nothing, as an older server says."""
    work_from: list[WorkSource] = field(default_factory=list)
    """Newest manifests of the trial's earlier attempts, by node rank, from which a node that lacks
    the work folder restores it. Empty for a first attempt."""
    secrets: list[str] = field(default_factory=list)
    """Names of the secrets that the workers get as environment variables. Their values never are
    in a spec: the agent asks for them with SecretsRequest."""
    gang_key: str = ""
    """Secret that the nodes of one attempt have in common, by which the steps of a batch script know their
    own; "" for one node, and from an older server."""
    models: dict[str, ModelSpec] = field(default_factory=dict)
    """Versions of models that the job reads, by name. The agent asks for their files with
    ModelFilesRequest, and has them in place before it starts the shim."""
    role: str = ""
    """Role of a member of a gang of several kinds of jobs; "" for any other job. A member is a world of
    its own: `num_nodes` is 1, `world_size` counts its slots, `node_rank` is its number in the gang, and
    `rank_offset` is added to the ranks that its workers know, which makes them unique in the gang."""
    role_index: int = 0
    """Number of the member within its role, from 0."""
    role_count: int = 0
    """Members of its role."""
    max_restarts: int = 0
    """How often the node starts the processes of this member again when they fail."""
    local_checkpoints: list[LocalCheckpoint] = field(default_factory=list)
    """Checkpoints to prefer over `resume_from` if this node has them intact, newest first. The node
    deletes all others of the trial from its own disk."""

    @property
    def member(self) -> str:
        """How people name a member of a role: "rollout/0"; "" for any other job."""
        if not self.role:
            return ""
        from muster.document.roles import member_name  # the wire format is loaded without documents

        return member_name(self.role, self.role_index)

    @property
    def rank_base(self) -> int:
        """What is added to the rank that a worker knows of itself."""
        return self.rank_offset if self.role else 0

    @property
    def group_rank(self) -> int:
        """Number of the node within the world of its workers."""
        return 0 if self.role else self.node_rank


@dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """Address on which rank 0 listens, or a member of a role. Known once its node is READY."""

    host: str
    port: int
    run_id: str

    @property
    def address(self) -> str:
        """Host and port in one text."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


STOP_KINDS: Mapping[str, str] = {
    "user": "a user stopped it for good",
    "early": "the searcher has seen enough of it",
    "preempt": "its slots are needed for something more important; it continues later",
    "resize": "it continues at another world size",
    "pause": "a user paused it; it continues when resumed",
    "drain": "its node is being drained; it continues elsewhere",
    "guard": "a guard of its document acted; it continues from a checkpoint",
    "budget": "a budget is used up",
    "gang": "another worker of the gang has failed or ended",
    "superseded": "a newer attempt of the trial exists",
    "node": "its node asked for it: the agent or the machine is shutting down",
    "signal": "the process got a signal",
    "finished": "the role that decides has ended, so it is not needed any more",
    "time_limit": "it has run for as long as its document allows",
}
"""Kinds of stop requests, as far as a program may want to distinguish them. A newer server may send
others."""

Desired = Literal["prepare", "start", "stop", "kill"]
"""Desired state of an allocation. prepare → start → stop/kill; each includes the one before. An
allocation that is absent from the set is forgotten: killed if alive, folder deleted."""


@dataclass(frozen=True, kw_only=True)
class ProfileOrder:
    """A requested window of torch's profiler."""

    no: int
    """Number of the window within the trial, from 1."""
    ranks: list[int]
    """Global ranks to trace; the others go on as they are."""
    num_steps: int


@dataclass(frozen=True, kw_only=True)
class Assignment:
    spec: AllocationSpec
    desired: Desired
    rendezvous: Rendezvous | None
    """Rendezvous, set from `start` on when num_nodes > 1."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Addresses of the members of each role in order, separated by commas; set from `start` on."""
    stop_reason: str = ""
    """Reason passed to the workers when desired is stop or kill."""
    stop_kind: str = ""
    """Kind passed to the workers likewise: one of STOP_KINDS, or empty."""
    stop_grace_s: float | None = None
    """Seconds they get with stop in place of the spec's, without notice before SIGTERM. For a gang
    that has lost a member: what the others could still do is wait for it."""
    stacks_no: int = 0
    """Number of the last request for stacks: while it is greater than what the shim has answered,
    it answers once more."""
    profile: ProfileOrder | None = None
    """Last profiler window; carried out once, like `stacks_no`."""
    shards: ShardOrders | None = None
    """Latest orders of batch inference."""


@dataclass(frozen=True, kw_only=True)
class AssignmentsReply:
    index: int
    """Index to pass back as `index`; the call then waits until something has changed."""
    assignments: list[Assignment]
    """Complete set of allocations this node should have."""
    deletions: list[Deletion] = field(default_factory=list)
    """Folders this node should delete from its storage; each stays here until it is reported."""
    preflights: list[Preflight] = field(default_factory=list)
    """Preflights this node takes part in now."""
    exports: list[Export] = field(default_factory=list)
    """Models this node should make into one file; each stays here until it is reported."""
    descriptions: list[Description] = field(default_factory=list)
    """Models whose layers this node should list; each stays here until it is reported."""
    tunnels: list[Tunnel] = field(default_factory=list)
    """Tunnels this node should open; each once."""
