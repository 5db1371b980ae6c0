"""The named mesh: which workers share which part of the work."""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from muster.document.strategy import StrategySection
from muster.document.strategy_rules import axes
from muster.training.strategies.base import RankPosition


def make_mesh(options: StrategySection, place: RankPosition) -> DeviceMesh:
    """Return all workers, along the axes that `rules.axes` gives. All ranks call it together."""
    sizes = axes(options, place.world_size)
    return init_device_mesh(place.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def data_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """Return the axes along which workers see different data: shard, after replicate where there is
    one."""
    return mesh["shard"] if mesh["replicate"].size() == 1 else mesh["replicate", "shard"]
