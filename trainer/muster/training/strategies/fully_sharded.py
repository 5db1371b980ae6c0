"""Fully sharded (FSDP2), and hybrid: each worker holds a slice of every parameter.

Split: the batch, parameters, gradients, optimizer state. Sent: each layer's parameters are gathered
just before its forward and again before its backward, and its gradients are reduced to the owners
of the slices. In memory on each worker: 1/n of everything, and one layer whole at a time.

Hybrid (hsdp): as above within a group of workers, for example one node; groups hold copies of each
other, and add up their gradients once per step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)

from muster.document.strategy import StrategySection
from muster.training.strategies.base import Strategy
from muster.training.strategies.layers import layers
from muster.training.strategies.mesh import data_mesh, make_mesh
from muster.training.strategies.precision import DTYPES


class FullySharded(Strategy):
    """fully_shard on each layer and on what is left."""

    module: FSDPModule  # type: ignore[assignment]
    casts_itself = True

    def share(self) -> None:
        mesh = make_mesh(self.options, self.place)
        shard(self.module, data_mesh(mesh), self.options)  # type: ignore[arg-type]

    def combine_in_backward(self, last: bool) -> None:
        self.module.set_requires_gradient_sync(last)


def shard(model: nn.Module, mesh: DeviceMesh, options: StrategySection) -> None:
    """Split the model's parameters over the mesh's last axis, and repeat them over its first when
    it has two."""
    policies: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": options.reshard}
    if options.offload:
        policies["offload_policy"] = CPUOffloadPolicy()
    computes = reduces = None
    if options.precision != "fp32":
        computes, reduces = DTYPES[options.precision], torch.float32
    for layer in layers(model):
        fully_shard(layer, mp_policy=MixedPrecisionPolicy(computes, reduces), **policies)
    answers = None if computes is None else torch.float32
    fully_shard(model, mp_policy=MixedPrecisionPolicy(computes, reduces, answers), **policies)
