"""Read sharded tensors of a checkpoint, each worker only its own parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

if TYPE_CHECKING:
    from .files import Saved


def read_sharded(saved: Saved, wanted: Mapping[str, Tensor]) -> None:
    """Fill DTensors with their parts. Needs no other worker."""
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(dict(wanted), _metadata(saved, wanted), is_coordinator=True)
    per_file: dict[str, list[tuple[str, Any]]] = {}
    chunks = {(n, c.offsets): c for n in wanted for c in saved.index[n].chunks}
    for item in planner.create_local_plan().items:
        chunk = chunks[item.storage_index.fqn, tuple(item.storage_index.offset or ())]
        per_file.setdefault(chunk.file, []).append((chunk.key, item))
    for file, items in per_file.items():
        with saved.opened(file) as opened:
            for key, item in items:
                box = tuple(
                    slice(o, o + n) for o, n in zip(item.storage_offsets, item.lengths, strict=True)
                )
                part = opened.get_slice(key)[box] if box else opened.get_tensor(key)
                target = planner.resolve_tensor(item).detach()
                target.copy_(part)
                planner.commit_tensor(item, target)


def _metadata(saved: Saved, names: Mapping[str, Tensor]) -> Metadata:
    return Metadata(
        {
            name: TensorStorageMetadata(
                properties=TensorProperties(dtype=tensor.dtype),
                size=torch.Size(saved.index[name].shape),
                chunks=[
                    ChunkStorageMetadata(torch.Size(c.offsets), torch.Size(c.shape))
                    for c in saved.index[name].chunks
                    if 0 not in c.shape
                ],
            )
            for name, tensor in names.items()
        }
    )
