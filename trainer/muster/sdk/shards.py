"""The tensors of a checkpoint of the built-in trainer, as they are stored on disk. No torch.

Each worker writes its parts of them into a file of its own, in the safetensors format, which holds
numbers and nothing that could be executed; `index.json` says which part is where. With it the whole
of a tensor can be read by any number of workers, and one file be made for use elsewhere.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
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
"""Most bytes of a tensor that are in memory at a time."""
HEADER_MAX_BYTES = 100_000_000
"""Most bytes of the header of a safetensors file; the format's own reader has the same bound."""


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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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

    About 1 MiB is in memory at a time, however large the tensors are and whichever way they are cut.
    Raises what `read_index` does, and CheckpointDamaged when there is no such tensor or parts of one
    are missing.
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
        if not all(_lies_in(chunk, tensor.shape) for chunk in tensor.chunks):
            raise CheckpointDamaged(f"{folder}: a part of the tensor {name} lies outside of it")
    head = header({name: (tensor.dtype, tensor.shape) for name, tensor in chosen.items()})

    def content() -> Iterator[bytes]:
        yield head
        files = _Files(folder)
        try:
            for tensor in chosen.values():
                item = ITEM_BYTES[tensor.dtype]
                boxes = [
                    files.box(chunk, item) for chunk in tensor.chunks if math.prod(chunk.shape)
                ]
                yield from _joined(boxes, tensor.shape, item)
        finally:
            files.close()

    return len(head) + sum(tensor.size_bytes for tensor in chosen.values()), content()


def _lies_in(chunk: Chunk, shape: tuple[int, ...]) -> bool:
    boxes = zip(chunk.offsets, chunk.shape, shape, strict=False)
    return len(chunk.offsets) == len(chunk.shape) == len(shape) and all(
        0 <= offset <= offset + size <= whole for offset, size, whole in boxes
    )


def header(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> bytes:
    """Return the beginning of a safetensors file of tensors, name → type and shape, whose numbers
    follow in the same order. Its length is a multiple of 8."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head


@dataclass(frozen=True)
class _Box:
    """A chunk, or what lies in some rows of one: `shape` numbers from `at` on in a file."""

    file: BinaryIO
    name: str
    """Name of the file, for errors."""
    at: int
    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def rows(self, first: int, item: int) -> tuple[int, int]:
        """Return where the numbers of row `first` of the tensor begin in the file, and how many bytes
        of each row are here."""
        row = math.prod(self.shape[1:]) * item
        return self.at + (first - self.offsets[0]) * row, row

    def within(self, row: int, item: int) -> _Box:
        """Return the part of the box in one row, one dimension less."""
        at, _ = self.rows(row, item)
        return _Box(self.file, self.name, at, self.offsets[1:], self.shape[1:])

    def read(self, at: int, num_bytes: int) -> bytes:
        """Raises CheckpointDamaged if the file ends before."""
        self.file.seek(at)
        found = self.file.read(num_bytes)
        if len(found) < num_bytes:
            raise CheckpointDamaged(f"{self.name} is cut short")
        return found


def _joined(boxes: Sequence[_Box], shape: tuple[int, ...], item: int) -> Iterator[bytes]:
    """Yield the numbers of a tensor in row-major order, a few rows at a time."""
    if not boxes:
        return
    if len(boxes) == 1:  # nothing to put together
        yield from _pieces(boxes[0], boxes[0].at, math.prod(shape) * item)
        return
    row_bytes = math.prod(shape[1:]) * item
    edges = sorted({edge for b in boxes for edge in (b.offsets[0], b.offsets[0] + b.shape[0])})
    for first, end in itertools.pairwise(edges):
        # Between two edges each row is cut in the same way.
        here = [b for b in boxes if b.offsets[0] <= first < b.offsets[0] + b.shape[0]]
        if sum(math.prod(b.shape[1:]) for b in here) != math.prod(shape[1:]):
            raise CheckpointDamaged(f"{boxes[0].name}: parts of a tensor overlap")
        if len(here) == 1:
            yield from _pieces(here[0], here[0].rows(first, item)[0], (end - first) * row_bytes)
        elif row_bytes > _PIECE_BYTES:
            for row in range(first, end):
                yield from _joined([b.within(row, item) for b in here], shape[1:], item)
        else:
            step = max(1, _PIECE_BYTES // row_bytes)
            for row in range(first, end, step):
                yield _block(here, row, min(step, end - row), shape, item)


def _pieces(box: _Box, at: int, num_bytes: int) -> Iterator[bytes]:
    for begin in range(at, at + num_bytes, _PIECE_BYTES):
        yield box.read(begin, min(_PIECE_BYTES, at + num_bytes - begin))


def _block(
    boxes: Sequence[_Box], first: int, num_rows: int, shape: tuple[int, ...], item: int
) -> bytes:
    """Return some rows of a tensor, put together of boxes that each hold a part of every row."""
    strides = [math.prod(shape[i + 1 :]) * item for i in range(len(shape))]
    out = bytearray(num_rows * strides[0])
    for box in boxes:
        at, row_bytes = box.rows(first, item)
        numbers = box.read(at, num_rows * row_bytes)
        run = box.shape[-1] * item
        starts = itertools.product(range(num_rows), *(range(n) for n in box.shape[1:-1]))
        base = sum(o * s for o, s in zip(box.offsets[1:], strides[1:], strict=True))
        for i, place in enumerate(starts):
            begin = base + sum(a * s for a, s in zip(place, strides, strict=False))
            out[begin : begin + run] = numbers[i * run : (i + 1) * run]
    return bytes(out)


class _Files:
    """The workers' files, opened when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: dict[str, tuple[BinaryIO, dict[str, Any], int]] = {}

    def box(self, chunk: Chunk, item: int) -> _Box:
        """Return a chunk as it lies in its file. Raises CheckpointDamaged if the file does not hold
        it."""
        name = f"{self._folder}: {chunk.file}"
        try:
            file, entries, base = self._open(chunk.file)
            begin, end = entries[chunk.key]["data_offsets"]
            if begin < 0 or end - begin != math.prod(chunk.shape) * item:
                raise ValueError(f"{chunk.key} has {end - begin} bytes")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointDamaged(f"{name} is damaged ({error})") from error
        return _Box(file, name, base + begin, chunk.offsets, chunk.shape)

    def _open(self, name: str) -> tuple[BinaryIO, dict[str, Any], int]:
        if name not in self._opened:
            path = self._folder / name
            file = path.open("rb")
            self._opened[name] = file, {}, 0  # closed with the others, whatever follows
            entries, base = read_header(file, path.stat().st_size)
            self._opened[name] = file, entries, base
        return self._opened[name]

    def close(self) -> None:
        for file, _, _ in self._opened.values():
            file.close()


def read_header(file: BinaryIO, size_bytes: int) -> tuple[dict[str, Any], int]:
    """Return the entries of a safetensors file of `size_bytes` bytes that is at its beginning, and
    the position at which its numbers begin.

    Raises ValueError for a header that is longer than the file or than HEADER_MAX_BYTES, or that is no
    JSON object, and RecursionError for one that is nested too deep.
    """
    length = int.from_bytes(file.read(8), "little")
    if length > min(HEADER_MAX_BYTES, size_bytes - 8):
        raise ValueError(f"a header of {length:,} bytes in a file of {size_bytes:,}")
    entries = json.loads(file.read(length))
    if not isinstance(entries, dict):
        raise ValueError("a header that is no object")
    return entries, 8 + length
