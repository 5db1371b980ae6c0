"""What to run: an allocation as argument vectors and environments. Pure.

The exact commands are pinned by golden tests, because users reproduce them by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.wire import LAUNCHER_LOCAL_RANK, AllocationSpec, Rendezvous

RENDEZVOUS_READ_TIMEOUT_S = 300
"""Nodes start together, but importing torch from a slow shared disk may take one of them minutes."""

_LAUNCHER_VARIABLES = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    }
)  # fmt: skip
_LAUNCHER_PREFIXES = ("TORCHELASTIC_", "TORCH_ELASTIC_", "PET_")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where on this node an allocation runs: what the spec cannot know."""

    python: str
    work_dir: str
    logs_dir: str
    report_socket: str
    config_file: str
    checkpoint_dir: str
    resume_from: str
    """Absolute path, or "" for a fresh start."""
    weights_from: str
    """Absolute path of a checkpoint whose weights are to be taken over, or ""."""
    cache_dir: str
    """Compiler caches. Per allocation: a worker killed while compiling leaves a truncated file
    behind, which would break every later run that shares the cache."""
    node_address: str
    network_interface: str = ""
    """The interface that holds `node_address`; "" when unknown."""
    sdk_path: str = ""
    """Folder to put on PYTHONPATH so that `import muster` works; "" when it does already."""
    loopback_interface: str = "lo"
    inherited: Mapping[str, str] = field(default_factory=dict)
    """The agent's own environment, see `inheritable`."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process to start. `local_rank` is -1 for a launcher that starts the workers itself."""

    local_rank: int
    rank: int
    argv: list[str]
    environment: dict[str, str]


def inheritable(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the agent's environment that workers may see.

    Left out: everything of ours (join tokens, the lifeline) and another launcher's variables.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("MUSTER_") and not _belongs_to_launcher(name)
    }


def build_commands(
    spec: AllocationSpec, place: Place, *, rendezvous: Rendezvous | None
) -> list[Command]:
    """The processes to start for `spec`: one torchrun, or one process per slot.

    rendezvous: required when the gang spans nodes, and for launcher "direct".
    Raises ValueError when it is missing.
    """
    environment = _environment(spec, place)
    if spec.launcher == "torchrun":
        argv = _torchrun_argv(spec, place, rendezvous)
        return [
            Command(local_rank=LAUNCHER_LOCAL_RANK, rank=-1, argv=argv, environment=environment)
        ]
    if rendezvous is None:
        raise ValueError("launcher 'direct' needs a rendezvous")
    return [
        Command(
            local_rank=local_rank,
            rank=spec.rank_offset + local_rank,
            argv=[place.python, *spec.entrypoint],
            environment=environment | _rank_variables(spec, place, rendezvous, local_rank),
        )
        for local_rank in range(len(spec.slots))
    ]


def worker_log_dir(logs_dir: str, local_rank: int) -> str:
    """Where a worker started by us (not by torchrun) writes."""
    return f"{logs_dir}/direct/{local_rank}"


def _torchrun_argv(spec: AllocationSpec, place: Place, rendezvous: Rendezvous | None) -> list[str]:
    if spec.num_nodes > 1:
        if rendezvous is None:
            raise ValueError("a gang of several nodes needs a rendezvous")
        host = f"[{rendezvous.host}]" if ":" in rendezvous.host else rendezvous.host
        endpoint, run_id = f"{host}:{rendezvous.port}", rendezvous.run_id
        local_address = place.node_address
        # The store is hosted by `muster.rendezvous`, so no torchrun may try to bind it.
        conf = f"is_host=false,read_timeout={RENDEZVOUS_READ_TIMEOUT_S}"
    else:
        # What --standalone does (a store on a port the kernel picks), with an id of our own.
        endpoint, run_id, local_address = "localhost:0", f"muster-{spec.allocation_id}", "127.0.0.1"
        conf = f"is_host=true,read_timeout={RENDEZVOUS_READ_TIMEOUT_S}"
    return [
        place.python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={spec.num_nodes}",
        f"--nproc-per-node={len(spec.slots)}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={endpoint}",
        f"--rdzv-id={run_id}",
        f"--rdzv-conf={conf}",
        f"--local-addr={local_address}",
        "--max-restarts=0",  # the controller owns restarts
        "--monitor-interval=0.1",
        f"--log-dir={place.logs_dir}/torchrun",
        "--redirects=3",  # files: a full pipe would block training
        *spec.entrypoint,
    ]


def _environment(spec: AllocationSpec, place: Place) -> dict[str, str]:
    interface = place.network_interface if spec.num_nodes > 1 else place.loopback_interface
    defaults = {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        # torchrun's patience with siblings of a failed worker (its default is 30 s).
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "10",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order of nvidia-smi, hence of slot indexes
    }
    if interface:
        # By itself gloo listens where the host name resolves to, often 127.0.1.1.
        defaults["GLOO_SOCKET_IFNAME"] = interface
        if spec.num_nodes > 1:
            defaults["NCCL_SOCKET_IFNAME"] = interface
    ours = {
        "TORCHINDUCTOR_CACHE_DIR": f"{place.cache_dir}/inductor",
        "TRITON_CACHE_DIR": f"{place.cache_dir}/triton",
        "CUDA_VISIBLE_DEVICES": (
            ",".join(str(slot) for slot in spec.slots) if spec.slot_type == "cuda" else ""
        ),
        "MUSTER_ALLOCATION_ID": spec.allocation_id,
        "MUSTER_ATTEMPT_NO": str(spec.attempt_no),
        "MUSTER_CHECKPOINT_DIR": place.checkpoint_dir,
        "MUSTER_CONFIG_FILE": place.config_file,
        "MUSTER_EXPERIMENT_ID": str(spec.experiment_id),
        "MUSTER_NODE_RANK": str(spec.node_rank),
        "MUSTER_REPORT_SOCKET": place.report_socket,
        "MUSTER_RESUME_FROM": place.resume_from,
        "MUSTER_RESUME_STEP": str(spec.resume_step),
        "MUSTER_TRIAL_ID": str(spec.trial_id),
        "MUSTER_TRIAL_NO": str(spec.trial_no),
        "MUSTER_WEIGHTS_FROM": place.weights_from,
    }
    users = {k: v for k, v in spec.environment.items() if not _belongs_to_launcher(k)}
    merged = {**place.inherited, **defaults, **users, **ours}
    if place.sdk_path:
        rest = merged.get("PYTHONPATH", "")
        merged["PYTHONPATH"] = f"{place.sdk_path}:{rest}" if rest else place.sdk_path
    return merged


def _rank_variables(
    spec: AllocationSpec, place: Place, rendezvous: Rendezvous, local_rank: int
) -> dict[str, str]:
    rank = spec.rank_offset + local_rank
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(spec.world_size),
        "LOCAL_WORLD_SIZE": str(len(spec.slots)),
        "GROUP_RANK": str(spec.node_rank),
        "GROUP_WORLD_SIZE": str(spec.num_nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(spec.world_size),
        "ROLE_NAME": "default",
        "MASTER_ADDR": rendezvous.host,
        "MASTER_PORT": str(rendezvous.port),
        "TORCHELASTIC_RUN_ID": rendezvous.run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_ERROR_FILE": f"{worker_log_dir(place.logs_dir, local_rank)}/error.json",
    }


def _belongs_to_launcher(name: str) -> bool:
    return name in _LAUNCHER_VARIABLES or name.startswith(_LAUNCHER_PREFIXES)
