"""Reading and writing the tensors of a checkpoint; see muster/sdk/shards.py for how they lie there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from muster.sdk import checkpoints, shards
from muster.sdk.shards import Chunk, Index, Stored

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

TRAINING = "training.pt"
"""What is no tensor."""
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
_FROM_NAME = {name: dtype for dtype, name in _DTYPES.items()}
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def file_name(rank: int) -> str:
    return f"shard-{rank:05d}.safetensors"


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a data type in the index. Raises ValueError for one that cannot be
    saved."""
    if dtype not in _DTYPES:
        raise ValueError(f"tensors of {dtype} cannot be saved")
    return _DTYPES[dtype]


def write(path: Path, tensors: Mapping[str, Tensor]) -> checkpoints.FileFacts:
    """Write one worker's file and make it durable. Tensors [any], on the CPU, contiguous.

    Raises OSError, with its errno where it is known, when the disk refuses.
    """
    try:
        save_file(dict(tensors), path)
    except SafetensorError as error:
        found = _OS_ERROR.search(str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error
    return checkpoints.settle(path)


def whole_index(tensors: Mapping[str, Tensor], *, rank: int) -> dict[str, Stored]:
    """Return the index of tensors that one worker has written as they are."""
    return {
        name: Stored(
            dtype_name(t.dtype),
            tuple(t.shape),
            (Chunk((0,) * t.dim(), tuple(t.shape), file_name(rank), name),),
        )
        for name, t in tensors.items()
    }


class Saved:
    """The tensors of a checkpoint, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Raises FileNotFoundError when it is none of this trainer, and CheckpointDamaged."""
        self.folder = folder
        self.index: Index = shards.read_index(folder)

    def names(self, prefix: str) -> set[str]:
        """Return the names of the tensors that begin with `prefix`, without the prefix."""
        return {n.removeprefix(prefix) for n in self.index if n.startswith(prefix)}

    def shape(self, name: str) -> torch.Size:
        return torch.Size(self.index[name].shape)

    def read(self, name: str) -> Tensor:
        """Return a whole tensor on the CPU."""
        entry = self.index[name]
        out = torch.empty(entry.shape, dtype=_FROM_NAME[entry.dtype])
        for chunk in entry.chunks:
            box = tuple(slice(o, o + n) for o, n in zip(chunk.offsets, chunk.shape, strict=True))
            with self.opened(chunk.file) as file:
                out[box] = file.get_tensor(chunk.key)
        return out

    def read_like(self, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what this worker holds of some tensors.

        wanted: for each name a tensor that is sharded as the result is to be, or any other for a
        whole tensor on the CPU. Of sharded tensors only the needed parts are read.

        Raises KeyError when one is missing, and RuntimeError when a shape differs.
        """
        for name, like in wanted.items():
            if self.shape(name) != like.shape:
                raise RuntimeError(
                    f"size mismatch for {name}: {tuple(self.shape(name))} in the checkpoint, "
                    f"{tuple(like.shape)} here"
                )
        sharded = {n: self._empty(n, t) for n, t in wanted.items() if is_sharded(t)}
        if sharded:
            from muster.training.saving.sharded import read_sharded

            read_sharded(self, sharded)
        return {n: sharded[n] if n in sharded else self.read(n) for n in wanted}

    def _empty(self, name: str, like: Tensor) -> Tensor:
        return torch.empty_like(like.detach(), dtype=_FROM_NAME[self.index[name].dtype])

    @contextlib.contextmanager
    def opened(self, file: str) -> Any:
        with safe_open(self.folder / file, framework="pt") as opened:
            yield opened

    def training(self) -> Any:
        return torch.load(self.folder / TRAINING, map_location="cpu", weights_only=True)


def is_sharded(value: Any) -> TypeGuard[DTensor]:
    """Return whether a value is a DTensor.

    Importing the module of DTensor takes 0.7 s, which only strategies that shard should pay.
    """
    return hasattr(value, "full_tensor")


def gathered(value: Tensor) -> Tensor:
    """Return the whole of a tensor. All ranks that hold parts of it must call it."""
    return value.full_tensor() if is_sharded(value) else value
