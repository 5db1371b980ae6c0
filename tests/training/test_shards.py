"""Tensors of several workers on the disk, read by any number of them, and made one file. One process
writes what several would have written."""

from __future__ import annotations

import hashlib
import itertools
import math
import tracemalloc
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from muster.sdk import checkpoints, shards
from muster.sdk.shards import Chunk, Stored
from muster.training.saving import files

pytestmark = pytest.mark.torch
WHOLE = {
    "model/rows": torch.arange(35.0).reshape(7, 5),
    "model/columns": torch.arange(24, dtype=torch.bfloat16).reshape(4, 6),
    "model/scalar": torch.tensor(3.5, dtype=torch.float64),
    "model/empty": torch.empty(0, 3),
    "model/cube": torch.arange(60, dtype=torch.int64).reshape(3, 4, 5),
    "optimizer/rows/step": torch.tensor(7.0),
}
CUTS = {
    "model/rows": [(slice(0, 4),), (slice(4, 7),)],
    "model/columns": [(slice(None), slice(0, 2)), (slice(None), slice(2, 6))],
    "model/cube": [(slice(a, a + 2), slice(b, b + 2), slice(None)) for a in (0, 2) for b in (0, 2)],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """WHOLE, as two workers would have written it."""
    draft = checkpoints.begin(tmp_path, 3)
    pieces: list[dict[str, torch.Tensor]] = [{}, {}]
    index = {}
    for name, tensor in WHOLE.items():
        chunks = []
        for i, cut in enumerate(CUTS.get(name, [(slice(None),) * tensor.dim()])):
            box = (*cut, *(slice(None),) * (tensor.dim() - len(cut)))
            part = tensor[box].contiguous()
            offsets = tuple(s.start or 0 for s in box)
            key, rank = f"{name}@{i}", i % 2
            pieces[rank][key] = part
            chunks.append(Chunk(offsets, tuple(part.shape), files.file_name(rank), key))
        index[name] = Stored(files.dtype_name(tensor.dtype), tuple(tensor.shape), tuple(chunks))
    written = {
        files.file_name(r): files.write(draft / files.file_name(r), p) for r, p in enumerate(pieces)
    }
    shards.write_index(draft, index)
    return checkpoints.commit(draft, step=3, settled=written)[0]


def test_every_tensor_is_read_as_it_was(folder: Path) -> None:
    saved = files.Saved(folder)
    for name, tensor in WHOLE.items():
        assert torch.equal(saved.read(name), tensor), name
    with pytest.raises(RuntimeError, match="size mismatch for model/rows"):
        saved.read_like({"model/rows": torch.empty(7, 6)})


@pytest.mark.parametrize("piece_bytes", [1, 32, 2**20])
def test_one_file_of_the_model_is_what_the_library_reads(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(shards, "_PIECE_BYTES", piece_bytes)
    size, pieces = shards.exported(folder)
    out = tmp_path / "model.safetensors"
    out.write_bytes(b"".join(pieces))
    assert out.stat().st_size == size
    loaded = load_file(out)
    expected = {n.removeprefix("model/"): t for n, t in WHOLE.items() if n.startswith("model/")}
    assert loaded.keys() == expected.keys()
    for name, tensor in expected.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor), name


def test_a_missing_part_is_no_file_of_zeros(folder: Path) -> None:
    index = dict(shards.read_index(folder))
    rows = index["model/rows"]
    index["model/rows"] = Stored(rows.dtype, rows.shape, rows.chunks[:1])
    shards.write_index(folder, index)
    with pytest.raises(checkpoints.CheckpointDamaged, match="parts of the tensor rows are missing"):
        shards.exported(folder)
    index["model/rows"] = Stored(rows.dtype, rows.shape, (Chunk((0, 0), (7, 5), "../x", "k"),))
    shards.write_index(folder, index)
    with pytest.raises(checkpoints.CheckpointDamaged, match="outside of the checkpoint"):
        files.Saved(folder)
    for chunks, why in (
        ((Chunk((0, 0), (4, 5), "a", "k"), Chunk((3, 0), (3, 5), "a", "l")), "overlap"),
        ((Chunk((0, 0), (5, 7), "a", "k"),), "lies outside of it"),
    ):
        files.write(folder / "a", {"k": torch.zeros(20), "l": torch.zeros(15)})
        index["model/rows"] = Stored(rows.dtype, rows.shape, chunks)
        shards.write_index(folder, index)
        with pytest.raises(checkpoints.CheckpointDamaged, match=why):
            list(shards.exported(folder)[1])


def test_memory_does_not_depend_on_the_size_of_a_tensor(tmp_path: Path) -> None:
    whole = torch.arange(2.0**22).reshape(2**12, 2**10)  # 16 MiB, cut by columns
    chunks = []
    for rank, part in enumerate(whole.chunk(2, dim=1)):
        files.write(tmp_path / files.file_name(rank), {"w": part.contiguous()})
        chunks.append(Chunk((0, rank * 512), tuple(part.shape), files.file_name(rank), "w"))
    shards.write_index(tmp_path, {"model/w": Stored("F32", tuple(whole.shape), tuple(chunks))})
    _, pieces = shards.exported(tmp_path)
    tracemalloc.start()
    try:
        digest = hashlib.sha256()
        for piece in itertools.islice(pieces, 1, None):  # without the header
            digest.update(piece)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert digest.digest() == hashlib.sha256(whole.numpy().tobytes()).digest()
    assert peak_bytes < 4 * 2**20


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (2**40, "a header of 1,099,511,627,776 bytes in a file of"),
        (b"[" * 100_000, "recursion"),
        (b"[1]", "a header that is no object"),
        (b'{"x":{"data_offsets":[0,4]}}', "x has 4 bytes"),
        (b'{"x":{"data_offsets":[0,8]}}', "is cut short"),
    ],
)
def test_a_header_is_not_believed(tmp_path: Path, head: int | bytes, why: str) -> None:
    length = head if isinstance(head, int) else len(head)
    content = b"" if isinstance(head, int) else head
    (tmp_path / "a").write_bytes(length.to_bytes(8, "little") + content + b"1234")
    shards.write_index(tmp_path, {"model/x": Stored("F32", (2,), (Chunk((0,), (2,), "a", "x"),))})
    _, pieces = shards.exported(tmp_path)
    with pytest.raises(checkpoints.CheckpointDamaged, match=why):
        list(pieces)


def test_what_a_worker_said_it_wrote_has_to_be_there(tmp_path: Path) -> None:
    draft = checkpoints.begin(tmp_path, 1)
    facts = files.write(draft / "a", {"x": torch.zeros(4)})
    with pytest.raises(OSError, match="not to be seen here"):
        checkpoints.commit(draft, step=1, settled={"b": facts})
    (draft / "a").write_bytes(b"")
    with pytest.raises(OSError, match="shorter than what was written"):
        checkpoints.commit(draft, step=1, settled={"a": facts})
    assert math.prod(p.name.startswith(".tmp-") for p in tmp_path.iterdir()) == 1
