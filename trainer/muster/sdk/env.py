"""The environment of this process: torchrun's variables and Muster's own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RankInfo:
    """Rank of this worker among the others. A lone process is rank 0 of 1."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    node_rank: int = 0
    master_addr: str = ""
    master_port: int = 0


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Everything Muster tells a worker. All empty when the script runs on its own."""

    info: RankInfo
    spans_nodes: bool = False
    """Whether a launcher has started workers on other nodes, too."""
    report_socket: str = ""
    report_file: str = ""
    allocation_id: str = ""
    experiment_id: int | None = None
    trial_id: int | None = None
    trial_no: int | None = None
    attempt_no: int | None = None
    config_file: str = ""
    checkpoint_dir: str = ""
    """Empty when Muster gave none; checkpoints then go to ./checkpoints."""
    checkpoint_url: str = ""
    """The trial's folder in an object store; empty when checkpoints stay in checkpoint_dir."""
    checkpoint_local: str = ""
    """Folder of this node's disk in which checkpoints are saved first; empty for none."""
    output_dir: str = ""
    """Folder whose content is kept as outputs of the trial; empty for none."""
    resume_from: str = ""
    """Path or URL of a checkpoint."""
    resume_step: int = 0
    skip_samples: int = 0
    """Samples after the place of that checkpoint that are not used, counted over all ranks."""
    weights_from: str = ""


joining: tuple[int, int] | None = None
"""Rank and world size in the process group that is being made; None before."""


def rank_info(environ: Mapping[str, str] | None = None) -> RankInfo:
    """Return this worker's rank, local rank, world size and node rank, as torchrun set them; without
    `RANK`, those of the process group, for a script that starts its workers itself, or of the task of
    a batch script.

    A variable that is missing or not a number counts as not set.
    """
    env = os.environ if environ is None else environ
    local_rank = _int(env, "LOCAL_RANK", 0)
    rank, world_size = _int(env, "RANK", local_rank), _int(env, "WORLD_SIZE", 1)
    local_world_size = _int(env, "LOCAL_WORLD_SIZE", 1)
    if "MUSTER_STEP" in env and "RANK" not in env:  # see muster.launch.slurm
        rank, world_size = _int(env, "SLURM_PROCID", 0), _int(env, "SLURM_NTASKS", 1)
        local_rank = _int(env, "SLURM_LOCALID", 0)
        local_world_size = _int(env, "MUSTER_STEP_LOCAL_TASKS", 1)
    place = _place_in_group() if environ is None and "RANK" not in env else None
    if place is not None and place != (rank, world_size):
        rank, world_size = place
        local_world_size = _int(env, "NPROC_PER_NODE", world_size)
        before = _int(env, "NODE_RANK", 0) * local_world_size
        local_rank = _int(env, "LOCAL_RANK", max(0, rank - before))
    return RankInfo(
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=local_world_size,
        node_rank=_int(env, "GROUP_RANK", _int(env, "MUSTER_NODE_RANK", 0)),
        master_addr=env.get("MASTER_ADDR", ""),
        master_port=_int(env, "MASTER_PORT", 0),
    )


def _place_in_group() -> tuple[int, int] | None:
    """Return rank and world size in torch's process group; None if there is none."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return joining
    return distributed.get_rank(), distributed.get_world_size()


def surroundings() -> Surroundings:
    """Return every variable that Muster sets."""
    env, info = os.environ, rank_info()
    return Surroundings(
        info=info,
        spans_nodes="LOCAL_WORLD_SIZE" in env and info.local_world_size < info.world_size,
        report_socket=env.get("MUSTER_REPORT_SOCKET", ""),
        report_file=env.get("MUSTER_REPORT_FILE", ""),
        allocation_id=env.get("MUSTER_ALLOCATION_ID", ""),
        experiment_id=_int_or_none(env, "MUSTER_EXPERIMENT_ID"),
        trial_id=_int_or_none(env, "MUSTER_TRIAL_ID"),
        trial_no=_int_or_none(env, "MUSTER_TRIAL_NO"),
        attempt_no=_int_or_none(env, "MUSTER_ATTEMPT_NO"),
        config_file=env.get("MUSTER_CONFIG_FILE", ""),
        checkpoint_dir=env.get("MUSTER_CHECKPOINT_DIR", ""),
        checkpoint_url=env.get("MUSTER_CHECKPOINT_URL", ""),
        checkpoint_local=env.get("MUSTER_CHECKPOINT_LOCAL", ""),
        output_dir=env.get("MUSTER_OUTPUT_DIR", ""),
        resume_from=env.get("MUSTER_RESUME_FROM", ""),
        resume_step=_int(env, "MUSTER_RESUME_STEP", 0),
        skip_samples=_int(env, "MUSTER_SKIP_SAMPLES", 0),
        weights_from=env.get("MUSTER_WEIGHTS_FROM", ""),
    )


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """Content of MUSTER_CONFIG_FILE."""

    hparams: dict[str, Any]
    """This trial's point of the search space."""
    config: dict[str, Any]
    """The resolved experiment document."""
    seed: int


def read_config(path: str) -> TrialConfig:
    """Return the trial's configuration; empty, with seed 0, if there is no file.

    Raises ValueError when the file exists but is not what Muster writes: training with silently
    wrong hyperparameters would be worse than not starting.
    """
    if not path:
        return TrialConfig(hparams={}, config={}, seed=0)
    value = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object with hparams, config and seed")
    return TrialConfig(
        hparams=dict(value.get("hparams") or {}),
        config=dict(value.get("config") or {}),
        seed=int(value.get("seed") or 0),
    )


def _int(env: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(env[name])
    except (KeyError, ValueError):
        return default


def _int_or_none(env: Mapping[str, str], name: str) -> int | None:
    try:
        return int(env[name])
    except (KeyError, ValueError):
        return None


def torch_facts() -> tuple[str, str, str]:
    """Return (torch version, device, backend) without importing torch: empty as long as unknown."""
    torch: Any = sys.modules.get("torch")
    version = getattr(getattr(torch, "version", None), "__version__", "")
    if not version:
        return "", "", ""  # not imported, or half way through
    device, backend = "cpu", ""
    if torch.cuda.is_initialized():
        device = f"cuda:{torch.cuda.current_device()}"
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        backend = str(distributed.get_backend()).removeprefix("muster_")
        if backend == "undefined":  # left to torch, which then takes one
            backend = str(distributed.get_backend_config()).partition(",")[0].partition(":")[2]
    return str(version), device, backend
