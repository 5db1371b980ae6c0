"""Tensor parallel: each worker holds a slice of every matrix and computes with it.

Split: the matrices of each block, by columns (query, key, value, up) and then by rows (out, down),
so that a worker computes some of the heads and some of the hidden units. Sent: two all-reduces of
activations per block in forward and two in backward, in the middle of the computation: fast links
only. In memory on each worker: 1/n of the blocks and of their optimizer state.

With sequence parallel, what lies between (norms, dropout, residuals) is split along the sequence,
and each all-reduce becomes a reduce-scatter and an all-gather: the same bytes, 1/n of the
activations.
"""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from muster.document.strategy_rules import TP_COLUMNS, TP_ROWS
from muster.training.strategies import fully_sharded
from muster.training.strategies.base import Strategy
from muster.training.strategies.layers import layers
from muster.training.strategies.mesh import data_mesh, make_mesh

SEQUENCE_AXIS = 1


class TensorParallel(Strategy):
    """Matrices split along `tp`; on a mesh, what is left fully sharded along the data axes."""

    @property
    def speaks(self) -> bool:
        return self.coordinates["tp"] == 0

    @property
    def micro_batch(self) -> int:
        return self.workload.batch_size * self.sizes["tp"]

    def share(self) -> None:
        mesh = make_mesh(self.options, self.place)
        split(self.module, mesh["tp"], sequence=self.options.sequence_parallel)
        if self.data_world_size > 1:
            fully_sharded.shard(self.module, data_mesh(mesh), self.options)
            self.casts_itself = True

    def combine_in_backward(self, last: bool) -> None:
        if self.data_world_size > 1:
            self.module.set_requires_gradient_sync(last)  # type: ignore[operator]


def split(model: nn.Module, mesh: DeviceMesh, *, sequence: bool) -> None:
    """Split the matrices of the model's blocks over a one-dimensional mesh, in place.

    The model is one of models/transformer.py. Embeddings, last norm and head stay whole: they see
    whole activations on every rank, and so their gradients are the same on all.
    """
    blocks = layers(model)
    for block in blocks:
        parallelize_module(block, mesh, _with_sequence() if sequence else _plain())
    if sequence:
        whole, part = Replicate(), Shard(SEQUENCE_AXIS)
        parallelize_module(
            blocks[0],
            mesh,
            PrepareModuleInput(
                input_layouts=whole, desired_input_layouts=part, use_local_output=True
            ),
        )
        parallelize_module(
            blocks[-1],
            mesh,
            PrepareModuleOutput(
                output_layouts=part, desired_output_layouts=whole, use_local_output=True
            ),
        )


def _plain() -> dict[str, ParallelStyle]:
    columns: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in TP_COLUMNS}
    return columns | {name: RowwiseParallel() for name in TP_ROWS}


def _with_sequence() -> dict[str, ParallelStyle]:
    part = Shard(SEQUENCE_AXIS)
    gather = PrepareModuleInput(input_layouts=part, desired_input_layouts=Replicate())
    return _plain() | {
        "norm1": SequenceParallel(),
        "attention": gather,
        "attention.out": RowwiseParallel(output_layouts=part),
        "norm2": SequenceParallel(),
        "mlp": gather,
        "mlp.down": RowwiseParallel(output_layouts=part),
    }
