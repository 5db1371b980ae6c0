"""A checkpoint of a small model, like those of the built-in trainer, made without torch. For tests."""

from __future__ import annotations

import struct
from pathlib import Path

from muster.sdk import checkpoints, shards
from muster.sdk.shards import Chunk, Stored

NUMBERS = 400_000
"""Of float32: two pieces of an export."""


def save_model(trial: Path, step: int) -> Path:
    """A checkpoint whose model has one tensor, in two shards; in place of one of the same step."""
    folder = checkpoints.begin(trial, step)
    half = NUMBERS // 2
    chunks = []
    for part in range(2):
        data = struct.pack(f"<{half}f", *([float(part)] * half))
        header = (
            f'{{"w":{{"dtype":"F32","shape":[{half}],"data_offsets":[0,{len(data)}]}}}}'.encode()
        )
        name = f"shard-{part:05d}.safetensors"
        (folder / name).write_bytes(len(header).to_bytes(8, "little") + header + data)
        chunks.append(Chunk((part * half,), (half,), name, "w"))
    shards.write_index(folder, {"model/w": Stored("F32", (NUMBERS,), tuple(chunks))})
    final, _ = checkpoints.commit(folder, step=step)
    return final
