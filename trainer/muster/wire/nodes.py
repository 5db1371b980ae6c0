"""Agent to server: registration, inventory and heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

IsolationLevel = Literal["none", "user", "sandbox"]
ISOLATION_LEVELS: tuple[IsolationLevel, ...] = ("none", "user", "sandbox")
"""Walls around the jobs of a node, the strongest last. See docs/concepts/security.md."""


@dataclass(frozen=True, kw_only=True)
class SlotInfo:
    """One schedulable accelerator, or one CPU share."""

    index: int
    slot_type: Literal["cpu", "cuda"]
    name: str
    """Vendor's name of the device ("NVIDIA H200"), or the CPU model."""
    memory_bytes: int = 0
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a node is and has. Sent at registration."""

    hostname: str
    address: str
    """Address at which other nodes reach this one: rendezvous and collectives use it."""
    platform: str
    num_cpus: int
    memory_bytes: int
    disk_free_bytes: int
    slots: list[SlotInfo]
    python_version: str
    agent_version: str
    torch_version: str = ""
    """Version of torch in the default training interpreter; empty if it is not installed there."""
    cuda_version: str = ""
    driver_version: str = ""
    storage_id: str = ""
    """Id of the storage folder; nodes that share one send the same. Empty: nothing can be kept
    there."""
    chores: list[str] = field(default_factory=list)
    """Short jobs that the agent carries out besides those that every agent does, such as DESCRIBES.
    """
    isolation: IsolationLevel = "none"
    """Level at which jobs run on this node."""
    isolation_reason: str = ""
    """Why it is no stronger one, as a sentence; "" if it is the strongest."""
    container_runtime: str = ""
    """Container engine that works on this node, "podman", "docker" or "apptainer"; "" for none."""
    container_version: str = ""
    container_reason: str = ""
    """Why there is none, or what it does not do, as a sentence; "" for neither."""


@dataclass(frozen=True, kw_only=True)
class RunningAllocation:
    """An allocation that an agent found on its disk at start, with its shim's state."""

    allocation_id: str
    attempt_no: int
    observed: str
    num_records: int
    """Number of records in its spool, so that the server can tell from which one on it still needs
    them."""


@dataclass(frozen=True, kw_only=True)
class PilotFacts:
    """What an agent that runs for a limited time says of itself, such as one inside a batch job."""

    ends_at_ms: int | None = None
    """Unix time in milliseconds at which the agent is killed at the latest; None if it is not known.
    """
    provider_ref: str = ""
    """What the batch system calls it, such as "slurm:lab:1234"; "" if nothing was given."""


@dataclass(frozen=True, kw_only=True)
class RegisterRequest:
    protocol_version: int
    name: str
    """The node's name, unique in the cluster. A second live agent of that name is refused."""
    pool: str
    labels: dict[str, str]
    boot_id: str
    """Id that changes when the machine reboots: after that, nothing that ran before can still run.
    """
    instance_id: str
    """Random id of the agent process: distinguishes a restart of this agent from a clone of it."""
    inventory: Inventory
    running: list[RunningAllocation] = field(default_factory=list)
    number: int = 0
    """Number of the registration, counted from 1 per process. One that arrives after a later one is
    refused, because its `running` is out of date. 0: not counted."""
    join_id: str = ""
    """Random id of a joining with a join token, repeated when the answer did not arrive. Then the
    token is not used up a second time."""
    pilot: PilotFacts | None = None
    """Set if the node leaves the cluster with its agent; None for a machine that stays."""


@dataclass(frozen=True, kw_only=True)
class LogOffset:
    local_rank: int
    stream: Literal["stdout", "stderr"]
    offset: int


@dataclass(frozen=True, kw_only=True)
class AckState:
    """Part of an allocation's spool that the server holds durably."""

    allocation_id: str
    acked_seq: int
    logs: list[LogOffset]


@dataclass(frozen=True, kw_only=True)
class RegisterReply:
    node_id: str
    session_epoch: int
    """Fencing number: calls with an older epoch of this node are answered 410
    `agent.session_superseded`."""
    credential: str | None
    """Credential of the agent's own, given once in exchange for a join token; None afterwards."""
    heartbeat_s: float
    lease_s: float
    adopt: list[AckState]
    """Allocations of `running` to keep."""
    forget: list[str]
    """Allocations of `running` that the server has no use for: kill whatever lives, delete the
    folder."""


@dataclass(frozen=True, kw_only=True)
class InterfaceUsage:
    """A network interface. The loopback is one of them."""

    name: str
    sent_bytes_per_s: float
    received_bytes_per_s: float


ThrottleReason = Literal["power_cap", "heat", "board", "power_supply"]
"""Why a device runs slower than it could: it is at its power limit (normal under load), too hot, or its
board or the power supply asks it to."""


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """Use of an NVIDIA device or a MIG instance, by NVML; None is what it does not report."""

    index: int
    """Index of its slot."""
    name: str
    use_pct: float | None
    """Share of the last sample period in which a kernel ran."""
    memory_used_bytes: int
    memory_total_bytes: int
    power_w: float | None
    temperature_c: float | None
    clock_mhz: float | None = None
    """Clock of its multiprocessors now."""
    max_clock_mhz: float | None = None
    throttle_reasons: list[ThrottleReason] | None = None


@dataclass(frozen=True, kw_only=True)
class NodeUsage:
    """Instantaneous use of a node. Percentages are 0..100."""

    cpu_pct: float
    memory_used_bytes: int
    memory_total_bytes: int
    disk_free_bytes: int
    net_sent_bytes_per_s: float = 0.0
    net_received_bytes_per_s: float = 0.0
    load_1m: float = 0.0
    disk_read_bytes_per_s: float = 0.0
    disk_written_bytes_per_s: float = 0.0
    interfaces: list[InterfaceUsage] = field(default_factory=list)
    gpus: list[GpuUsage] | None = None
    """Use of the NVIDIA devices; None if unknown, and `gpu_problem` gives the reason."""
    gpu_problem: str = ""
    images_bytes: int | None = None
    """Bytes of the container images that the agent has pulled; None on a node without an engine."""
    images_limit_bytes: int | None = None
    """Bytes above which it deletes those that were not used for the longest time."""


@dataclass(frozen=True, kw_only=True)
class NodeProblem:
    """A problem that an agent's check has found on its node."""

    kind: str
    """Kind of the problem: disk, memory, clock, device, used (a device that somebody uses outside
    Muster), workers or agent."""
    message: str
    blocks: bool = False
    """Whether nothing new should be placed there while it lasts."""
    slot: int | None = None
    """Index of the slot that it concerns; None for the whole node."""


def leaving_problem(reason: str) -> NodeProblem:
    """Return what keeps new work off a node whose agent ends, and with it all that it runs."""
    return NodeProblem(kind="agent", message=reason, blocks=True)


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Offset between a node's clocks and the server's (its database's), measured with heartbeats."""

    offset_ms: float
    """The server's Unix time minus the node's boot clock, in milliseconds."""
    error_ms: float
    """Largest error of the offset in milliseconds."""
    skew_s: float
    """Seconds that the node's wall clock is ahead of the server's."""


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    node_id: str
    session_epoch: int
    usage: NodeUsage | None = None
    running: list[str] | None = None
    """Allocations of which anything may still live here. With it the server frees the slots of
    forgotten ones as soon as they are gone; without it (None) only a while after registration."""
    accepts_credential: bool = False
    """Whether the agent takes up a `credential` of the reply."""
    clock: ClockReading | None = None
    problems: list[NodeProblem] | None = None
    """Problems of the node now; None before the first check."""


@dataclass(frozen=True, kw_only=True)
class LeaseReply:
    lease_s: float
    heartbeat_s: float
    credential: str | None = None
    """Credential to be used from now on; the former one is void once this one has been used."""
    server_time_ms: float | None = None
    """Unix time by the clock of the server's database, taken while the request was served."""
    assignments_index: int | None = None
    """Number of the node's assignments now. A poll that was asked with a smaller one should have been
    answered; its answer was lost on the way if it does not come soon."""


LeaveStage = Literal["closing", "draining", "gone"]
"""Steps in which a pilot leaves. `closing`: nothing new is placed on it, what runs goes on.
`draining`: what runs saves a checkpoint and goes on elsewhere, at nobody's expense. `gone`: nothing
runs there any more, and the node leaves the cluster."""


@dataclass(frozen=True, kw_only=True)
class LeaveRequest:
    """Sent by a pilot that is about to end, and with "draining" by any agent with which all that it runs
    ends. Safe to repeat."""

    node_id: str
    session_epoch: int
    stage: LeaveStage
    reason: str
    """Why it leaves, as the rest of a sentence: "its job was told to end"."""


@dataclass(frozen=True, kw_only=True)
class LeaveReply:
    num_open: int
    """Allocations of the node that have not ended. A node that is closing may leave at 0."""
