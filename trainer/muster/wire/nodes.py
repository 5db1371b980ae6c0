"""Agent to server: who I am, what I have, and that I am there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class SlotInfo:
    """One schedulable accelerator, or one CPU share."""

    index: int
    slot_type: Literal["cpu", "cuda"]
    name: str
    """What the vendor calls it ("NVIDIA H200"), or the CPU model."""
    memory_bytes: int = 0
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What a node is and has. Sent at registration."""

    hostname: str
    address: str
    """The address other nodes reach this one on: rendezvous and collectives use it."""
    platform: str
    num_cpus: int
    memory_bytes: int
    disk_free_bytes: int
    slots: list[SlotInfo]
    python_version: str
    agent_version: str
    torch_version: str = ""
    """Of the default training interpreter; empty when torch is not installed there."""
    cuda_version: str = ""
    driver_version: str = ""
    storage_id: str = ""
    """Of the storage folder; nodes that share one say the same. Empty: nothing can be kept there."""
    chores: list[str] = field(default_factory=list)
    """Short jobs that the agent carries out besides those that every agent does: DESCRIBES."""


@dataclass(frozen=True, kw_only=True)
class RunningAllocation:
    """An allocation an agent found on its disk at start, with what its shim says."""

    allocation_id: str
    attempt_no: int
    observed: str
    num_records: int
    """Records in its spool, so the server can say from which one on it still needs them."""


@dataclass(frozen=True, kw_only=True)
class RegisterRequest:
    protocol_version: int
    name: str
    """The node's name, unique in the cluster. A second live agent of that name is refused."""
    pool: str
    labels: dict[str, str]
    boot_id: str
    """Changes when the machine reboots: after that, nothing that ran before can still run."""
    instance_id: str
    """Random per agent process: tells a restart of this agent from a clone of it."""
    inventory: Inventory
    running: list[RunningAllocation] = field(default_factory=list)
    number: int = 0
    """1, 2, 3, … with every registration this process sends: one that arrives after a later one
    is refused, for what it says of `running` is not true any more. 0: not counted."""
    join_id: str = ""
    """With a join token: random per joining, the same when it is asked again because the answer
    did not arrive. Then the token is not used up a second time."""


@dataclass(frozen=True, kw_only=True)
class LogOffset:
    local_rank: int
    stream: Literal["stdout", "stderr"]
    offset: int


@dataclass(frozen=True, kw_only=True)
class AckState:
    """How much of an allocation's spool the server holds durably."""

    allocation_id: str
    acked_seq: int
    logs: list[LogOffset]


@dataclass(frozen=True, kw_only=True)
class RegisterReply:
    node_id: str
    session_epoch: int
    """Fence: calls with an older epoch of this node are answered 410 `agent.session_superseded`."""
    credential: str | None
    """The agent's own credential, given once in exchange for a join token; None afterwards."""
    heartbeat_s: float
    lease_s: float
    adopt: list[AckState]
    """Of `running`, those to keep."""
    forget: list[str]
    """Of `running`, those the server has no use for: kill whatever lives, delete the folder."""


@dataclass(frozen=True, kw_only=True)
class InterfaceUsage:
    """A network interface. The loopback is one of them."""

    name: str
    sent_bytes_per_s: float
    received_bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class GpuUsage:
    """An NVIDIA device, by NVML; None is what it does not tell."""

    index: int
    name: str
    use_pct: float | None
    """Share of the last sample period in which a kernel ran."""
    memory_used_bytes: int
    memory_total_bytes: int
    power_w: float | None
    temperature_c: float | None


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
    """None: not known, and `gpu_problem` says why."""
    gpu_problem: str = ""


@dataclass(frozen=True, kw_only=True)
class NodeProblem:
    """What a check of the agent finds wrong with its node."""

    kind: str
    """disk | memory | clock | device."""
    message: str
    blocks: bool = False
    """Nothing new should be placed there while it lasts."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """How a node's clocks stand to the server's (its database's), measured with heartbeats."""

    offset_ms: float
    """The server's Unix time minus the node's boot clock, in milliseconds."""
    error_ms: float
    """It is right to within this."""
    skew_s: float
    """The node's wall clock minus the server's."""


@dataclass(frozen=True, kw_only=True)
class LeaseRequest:
    node_id: str
    session_epoch: int
    usage: NodeUsage | None = None
    running: list[str] | None = None
    """Allocations of which anything may still live here. With it the server frees the slots of
    forgotten ones as soon as they are gone; without it (None) only a while after registration."""
    accepts_credential: bool = False
    """The agent takes up a `credential` of the reply."""
    clock: ClockReading | None = None
    problems: list[NodeProblem] | None = None
    """All that is wrong with the node now; None: not looked yet."""


@dataclass(frozen=True, kw_only=True)
class LeaseReply:
    lease_s: float
    heartbeat_s: float
    credential: str | None = None
    """To be used from now on; the former one is void once this one has been used."""
    server_time_ms: float | None = None
    """Unix time by the clock of the server's database, taken while the request was served."""
