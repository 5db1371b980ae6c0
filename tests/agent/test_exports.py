"""A real agent makes one file of a model and sends it, or says why not."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

from muster import checkpoints, shards, wire
from muster.shards import Chunk, Stored
from muster_agent.storage import Storage

CLUSTER = "aaaa1111"
NUMBERS = 400_000
"""Of float32: two pieces."""


def save(home: Path, step: int) -> Path:
    """A checkpoint whose model has one tensor, in two shards."""
    trial = home / "storage" / "experiment-3" / "trial-2"
    Storage(home / "storage").claim("experiment-3/trial-2", CLUSTER)
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


def wanted(plane: Any, number: int, step: int, **changes: Any) -> wire.Export:
    fields = {
        "id": number,
        "path": f"experiment-3/trial-2/step-{step:08d}",
        "storage_id": plane.registrations[-1]["inventory"]["storage_id"],
        "cluster_id": CLUSTER,
        "max_bytes": 10 * 2**20,
        **changes,
    }
    return wire.Export(**fields)


def test_a_model_is_sent_in_pieces_and_what_cannot_be_says_why(
    agent: Any, plane: Any, wait_for: Any
) -> None:
    folder = save(agent.home, 1)
    damaged = save(agent.home, 2)
    with (damaged / "shard-00001.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    foreign = save(agent.home, 3)
    (foreign / shards.INDEX).unlink()
    (foreign / checkpoints.MANIFEST).unlink()
    facts = {p.name: checkpoints.settle(p) for p in foreign.iterdir()}
    manifest = checkpoints.manifest_of(facts, step=3, epoch=None, metrics=None)
    (foreign / checkpoints.MANIFEST).write_text(checkpoints.manifest_text(manifest))

    wait_for(lambda: plane.registrations)
    plane.want_exported(wanted(plane, 1, 1))
    plane.want_exported(wanted(plane, 2, 2))
    plane.want_exported(wanted(plane, 3, 3))
    plane.want_exported(wanted(plane, 4, 4))
    plane.want_exported(wanted(plane, 5, 1, max_bytes=NUMBERS))
    plane.want_exported(wanted(plane, 6, 1, cluster_id="bbbb2222"))
    plane.want_exported(wanted(plane, 7, 1, storage_id="0" * 32))
    found = wait_for(lambda: len(plane.export_results) >= 7 and plane.export_results)
    results = {r.id: r for r in found}
    assert len(found) == 7

    size, content = shards.exported(folder)
    file = b"".join(content)
    pieces = plane.exported[1]
    assert b"".join(pieces[i] for i in sorted(pieces)) == file
    assert (len(pieces), len(pieces[0])) == (2, wire.EXPORT_PIECE_BYTES)
    assert results[1] == wire.ExportResult(
        id=1, outcome="done", size_bytes=size, sha256=hashlib.sha256(file).hexdigest()
    )
    why = {number: result.message for number, result in results.items() if number > 1}
    assert {results[n].outcome for n in why} == {"failed"}
    assert "shard-00001.safetensors" in why[2]
    assert "another program than the built-in trainer made it" in why[3]
    assert "step-00000004 is not there" in why[4]
    assert "taken at most; use `muster checkpoint export` on this node" in why[5]
    assert "does not carry this server's mark" in why[6]
    assert why[7] == "this node has another storage folder now"
