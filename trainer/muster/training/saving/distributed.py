"""Who writes what, when several workers save together, and who reads what: torch's planners of
torch.distributed.checkpoint, with files of muster/sdk/shards.py in place of its pickled ones.

A tensor that several workers have is written by one of them, so that each writes about as much.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint import state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    Metadata,
)
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from muster.sdk.checkpoints import FileFacts, FolderStore
from muster.sdk.local_store import LocalStore
from muster.sdk.object_store import ObjectStore
from muster.sdk.shards import Chunk, Stored
from muster.training.saving import files

Begin = Callable[[bool], Path]
Publish = Callable[[Path, Mapping[str, Stored], Mapping[str, FileFacts]], None]


def stage(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, parts of tensors still being parts."""
    return dict(BlockingAsyncStager().stage(dict(tensors)))


def save(
    tensors: Mapping[str, Tensor],
    *,
    store: FolderStore | ObjectStore,
    rank: int,
    group: Any,
    begin: Begin,
    publish: Publish,
) -> None:
    """Write this worker's parts. All workers call it; when it returns, all have written theirs and
    the first has published the checkpoint.

    begin: makes the folder, on the first worker; it is told whether a node's disk has no room.
    publish: gets it, complete, with what is where.
    Raises what the first worker that failed has raised, on all of them.
    """
    writer = _Writer(store, rank, begin, publish)
    planner = DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    try:
        state_dict_saver.save(
            dict(tensors), storage_writer=writer, planner=planner, process_group=group
        )
    except CheckpointException as error:
        failed, (cause, _) = min(error.failures.items())
        if isinstance(cause, OSError):
            raise OSError(
                cause.errno, f"rank {failed}: {cause.strerror}", cause.filename
            ) from error
        raise RuntimeError(f"rank {failed}: {type(cause).__name__}: {cause}") from error


class _Writer(StorageWriter):
    """One file per worker, in a folder that the first one names in everybody's plan."""

    def __init__(
        self, store: FolderStore | ObjectStore, rank: int, begin: Begin, publish: Publish
    ) -> None:
        self._store, self._rank = store, rank
        self._begin, self._publish = begin, publish

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None: ...

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None: ...

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        store = self._store
        is_short = isinstance(store, LocalStore) and store.spans_nodes and not store.has_room()
        return dataclasses.replace(plan, storage_data=is_short)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        self._folder = self._begin(any(plan.storage_data for plan in plans))
        return [dataclasses.replace(plan, storage_data=self._folder.name) for plan in plans]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        keys: dict[str, Any] = {}
        for item in plan.items:
            offset = item.index.offset
            at = "" if offset is None else "@" + ",".join(map(str, offset))
            keys[item.index.fqn + at] = item.index
        items = {item.index: item for item in plan.items}
        tensors = {}
        for key, index in keys.items():
            tensor = planner.resolve_data(items[index])
            assert isinstance(tensor, Tensor)
            tensors[key] = tensor.detach().cpu().contiguous()
        name = files.file_name(self._rank)
        facts = None
        if tensors:
            path = self._store.draft(plan.storage_data) / name
            facts = files.write(path, tensors)
            self._store.sent(path, facts)
        done: Future[list[WriteResult]] = Future()
        done.set_result(
            [
                WriteResult(
                    index, tensors[key].nbytes, (name, key, tuple(tensors[key].shape), facts)
                )
                for key, index in keys.items()
            ]
        )
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        index: dict[str, Stored] = {}
        written: dict[str, FileFacts] = {}
        for result in (r for of_rank in results for r in of_rank):
            file, key, shape, facts = result.storage_data
            written[file] = facts
            entry: Any = metadata.state_dict_metadata[result.index.fqn]
            offset = result.index.offset
            chunk = Chunk(
                tuple(offset) if offset is not None else (0,) * len(shape), shape, file, key
            )
            before = index.get(result.index.fqn)
            index[result.index.fqn] = Stored(
                files.dtype_name(entry.properties.dtype),
                tuple(entry.size),
                (*(before.chunks if before else ()), chunk),
            )
        self._publish(self._folder, index, written)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return True
