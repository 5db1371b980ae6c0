"""What a job is told of its place: get_cluster_info()."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from muster.sdk.env import read_config, surroundings

USER_DATA_VARIABLE = "DET_USER_DATA"
"""JSON of the section `data` of Determined's configuration."""


@dataclass(frozen=True, kw_only=True)
class TrialInfo:
    """The trial of this job."""

    trial_id: int
    experiment_id: int
    trial_seed: int
    hparams: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClusterInfo:
    """The place of this process in the cluster."""

    trial: TrialInfo
    latest_checkpoint: str | None
    """Checkpoint to begin with, for `restore_path`; None for a fresh start."""
    container_rank: int
    """Number of this node in the job, from 0."""
    container_addrs: list[str]
    """Addresses of the nodes. Only the first one, at which workers meet, is known; the others are
    node1, node2, …"""
    container_slot_counts: list[int]
    slot_ids: list[int]
    """Slots of this node, from 0."""
    gpu_uuids: list[str]
    """Devices of this node by the names that CUDA_VISIBLE_DEVICES has; empty for CPU slots."""
    user_data: dict[str, Any] = field(default_factory=dict)
    task_type: str = "TRIAL"
    task_id: str = ""
    allocation_id: str = ""
    cluster_id: str = "muster"
    agent_id: str = ""
    session_token: str = ""
    master_url: str = ""


def get_cluster_info() -> ClusterInfo | None:
    """Return the place of this process; None outside of a job."""
    around = surroundings()
    if around.trial_id is None or around.experiment_id is None:
        return None
    trial = read_config(around.config_file)
    world = _int("MUSTER_WORLD_SIZE", around.info.world_size)
    resources = trial.config.get("resources") or {}
    on_node = _int("NPROC_PER_NODE", _int("LOCAL_WORLD_SIZE", world))
    num_nodes = _int(
        "NNODES", _int("GROUP_WORLD_SIZE", resources.get("nodes") or max(1, world // on_node))
    )
    first = os.environ.get("MASTER_ADDR") or "127.0.0.1"
    return ClusterInfo(
        trial=TrialInfo(
            trial_id=around.trial_id,
            experiment_id=around.experiment_id,
            trial_seed=trial.seed,
            hparams=trial.hparams,
        ),
        latest_checkpoint=around.resume_from or around.weights_from or None,
        container_rank=around.info.node_rank,
        container_addrs=[first, *(f"node{i}" for i in range(1, num_nodes))],
        container_slot_counts=[on_node] * num_nodes,
        slot_ids=list(range(on_node)),
        gpu_uuids=[d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d],
        user_data=json.loads(os.environ.get(USER_DATA_VARIABLE, "{}")) or {},
        task_id=f"trial-{around.trial_id}",
        allocation_id=around.allocation_id,
    )


def _int(name: str, default: int) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return default
