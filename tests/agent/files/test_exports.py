"""A real agent makes one file of a model and sends it, or says why not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster.sdk import checkpoints, shards
from muster_agent.outputs.storage import Storage
from support.buckets import Buckets, buckets
from support.training.small_model import NUMBERS, save_model

CLUSTER = "aaaa1111"


def save(home: Path, step: int) -> Path:
    """A checkpoint in an agent's storage folder."""
    Storage(home / "storage").claim("experiment-3/trial-2", CLUSTER)
    return save_model(home / "storage" / "experiment-3" / "trial-2", step)


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


@pytest.fixture
def s3() -> Iterator[Buckets]:
    with buckets("bucket") as started:
        yield started


def test_a_model_in_an_object_store_is_fetched_verified_and_sent(
    s3: Buckets, agent: Any, plane: Any, tmp_path: Path, wait_for: Any
) -> None:
    root = f"s3://bucket/muster-{CLUSTER}/experiment-3/trial-2"
    for step in (1, 2):
        folder = save_model(tmp_path, step)
        for path in folder.iterdir():
            s3.put(f"{root}/{folder.name}/{path.name}", path.read_bytes())
    changed = bytearray(s3.get(f"{root}/step-00000002/shard-00001.safetensors"))
    changed[-1] ^= 1
    s3.put(f"{root}/step-00000002/shard-00001.safetensors", bytes(changed))

    wait_for(lambda: plane.registrations)
    for number, step in ((1, 1), (2, 2), (3, 3)):
        plane.want_exported(wanted(plane, number, step, storage_url="s3://bucket", storage_id=""))
    plane.want_exported(wanted(plane, 4, 1, storage_url="s3://nowhere", storage_id=""))
    found = wait_for(lambda: len(plane.export_results) >= 4 and plane.export_results)
    results = {r.id: r for r in found}

    size, content = shards.exported(tmp_path / "step-00000001")
    file = b"".join(content)
    pieces = plane.exported[1]
    assert b"".join(pieces[i] for i in sorted(pieces)) == file
    assert results[1] == wire.ExportResult(
        id=1, outcome="done", size_bytes=size, sha256=hashlib.sha256(file).hexdigest()
    )
    assert {results[number].outcome for number in (2, 3, 4)} == {"failed"}
    assert "shard-00001.safetensors does not have the SHA-256" in results[2].message
    assert "step-00000003" in results[3].message
    assert "s3://nowhere" in results[4].message
    assert set(plane.exported) == {1}, "nothing is sent of what is not whole"
    assert not list(agent.home.glob("export-*")), "what was fetched is let go of"


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
