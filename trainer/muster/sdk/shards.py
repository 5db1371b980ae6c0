"""The tensors of a checkpoint of the built-in trainer, as they are stored on disk. No torch.

Each worker writes its parts of them into a file of its own, in the safetensors format, which holds
numbers and nothing that could be executed; `index.json` says which part is where. With it the whole
of a tensor can be read by any number of workers, and one file be made for use elsewhere.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from muster.sdk.checkpoints import CheckpointDamaged

INDEX = "index.json"
FORMAT = 1
MODEL = "model/"
"""Prefix of the names of the model's tensors."""
ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
"""Bytes per number, by the name of its type in safetensors."""
_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class Chunk:
    """A box of a tensor."""

    offsets: tuple[int, ...]
    """Position in the tensor at which the chunk begins, one number per dimension."""
    shape: tuple[int, ...]
    file: str
    key: str
    """Name of the chunk in that file."""


@dataclass(frozen=True)
class Stored:
    """A tensor, in chunks that together make it whole."""

    dtype: str
    """Name of its type, a key of ITEM_BYTES."""
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


Index = Mapping[str, Stored]
"""Location of each tensor, by name."""


def write_index(folder: Path, index: Index) -> None:
    document = {"format": FORMAT, "tensors": {name: asdict(t) for name, t in index.items()}}
    (folder / INDEX).write_text(json.dumps(document), encoding="utf-8")


def read_index(folder: Path) -> Index:
    """Read the index. Raises FileNotFoundError if there is none (another program made the
    checkpoint), and CheckpointDamaged if it is not valid."""
    try:
        document = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return {str(name): _stored(entry) for name, entry in document["tensors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointDamaged(f"{folder}: {INDEX} is not readable ({error})") from error


def _stored(entry: dict[str, Any]) -> Stored:
    chunks = tuple(
        Chunk(tuple(c["offsets"]), tuple(c["shape"]), str(c["file"]), str(c["key"]))
        for c in entry["chunks"]
    )
    if entry["dtype"] not in ITEM_BYTES:
        raise ValueError(f"numbers of type {entry['dtype']!r}")
    if any(Path(c.file).name != c.file for c in chunks):
        raise ValueError("a file outside of the checkpoint")
    return Stored(entry["dtype"], tuple(entry["shape"]), chunks)


# ---------------------------------------------------------------- one file


def exported(folder: Path, *, prefix: str = MODEL) -> tuple[int, Iterator[bytes]]:
    """Return one safetensors file of the tensors whose names begin with `prefix`, without it in
    their names: its size in bytes, and its content piece by piece.

    At most one tensor is in memory at a time. Raises what `read_index` does, and CheckpointDamaged
    when there is no such tensor or parts of one are missing.
    """
    chosen = {
        name.removeprefix(prefix): tensor
        for name, tensor in sorted(read_index(folder).items())
        if name.startswith(prefix)
    }
    if not chosen:
        raise CheckpointDamaged(f"{folder}: it holds no tensor whose name begins with {prefix!r}")
    for name, tensor in chosen.items():
        held = sum(math.prod(chunk.shape) for chunk in tensor.chunks)
        if held != math.prod(tensor.shape):
            raise CheckpointDamaged(f"{folder}: parts of the tensor {name} are missing")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in chosen.items():
        begin, end = end, end + tensor.size_bytes
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)  # the numbers begin at a multiple of 8
    head = len(head).to_bytes(8, "little") + head

    def content() -> Iterator[bytes]:
        yield head
        files = _Files(folder)
        try:
            for tensor in chosen.values():
                yield from _whole(tensor, files)
        finally:
            files.close()

    return len(head) + end, content()


def _whole(tensor: Stored, files: _Files) -> Iterator[bytes]:
    """Yield the numbers of a tensor in row-major order."""
    chunks = sorted((c for c in tensor.chunks if math.prod(c.shape)), key=lambda c: c.offsets)
    if all(c.shape[1:] == tensor.shape[1:] for c in chunks):  # cut along the first dimension only
        for chunk in chunks:
            yield from files.pieces(chunk)
        return
    item = ITEM_BYTES[tensor.dtype]
    strides = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
    out = bytearray(tensor.size_bytes)
    for chunk in chunks:
        numbers = b"".join(files.pieces(chunk))
        row = chunk.shape[-1] * item
        starts = itertools.product(*(range(n) for n in chunk.shape[:-1]))
        for i, at in enumerate(starts):
            place = (*at, 0)
            begin = item * sum(
                (a + o) * s for a, o, s in zip(place, chunk.offsets, strides, strict=True)
            )
            out[begin : begin + row] = numbers[i * row : (i + 1) * row]
    yield bytes(out)


class _Files:
    """The workers' files, opened when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, tuple[BinaryIO, dict[str, Any], int]] = {}

    def pieces(self, chunk: Chunk) -> Iterator[bytes]:
        """Yield the bytes of a chunk. Raises CheckpointDamaged if they are missing."""
        try:
            file, header, base = self._open(chunk.file)
            begin, end = header[chunk.key]["data_offsets"]
            file.seek(base + begin)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointDamaged(f"{self._folder}: {chunk.file} is damaged ({error})") from error
        while begin < end:
            piece = file.read(min(_PIECE_BYTES, end - begin))
            if not piece:
                raise CheckpointDamaged(f"{self._folder}: {chunk.file} is cut short")
            begin += len(piece)
            yield piece

    def _open(self, name: str) -> tuple[BinaryIO, dict[str, Any], int]:
        if name not in self._opened:
            file = (self._folder / name).open("rb")
            size = int.from_bytes(file.read(8), "little")
            self._opened[name] = (file, json.loads(file.read(size)), 8 + size)
        return self._opened[name]

    def close(self) -> None:
        for file, _, _ in self._opened.values():
            file.close()
