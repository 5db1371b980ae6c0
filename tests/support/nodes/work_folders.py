"""Jobs whose work folders are kept: how tests write them, run them and read what was kept."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from muster import wire
from muster_agent.outputs.index import unpacked

TRIAL = 7
CLUSTER = "aaaa1111"
FOLDER = "experiment-3/trial-2/outputs"

CHECKPOINTING = """
import os, pathlib, time
at = pathlib.Path("ckpt.txt")
step = int(at.read_text()) if at.exists() else 0
print("resumed at" if step else "began at", step, flush=True)
stop = step + 60
while True:
    step += 1
    if step % 20 == 0:
        at.with_suffix(".new").write_text(str(step))
        at.with_suffix(".new").replace(at)
        if step >= stop and not os.path.exists("go on"):
            break
    time.sleep(0.005)
print("done at", step, flush=True)
"""


def bundle(plane: Any, script: str, **files: bytes | str) -> wire.CodeSpec:
    """Uploaded code: main.py, other files, and links, whose text is a str."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in {"main.py": script.encode(), **files}.items():
            info = tarfile.TarInfo(name)
            if isinstance(data, str):
                info.type, info.linkname, data = tarfile.SYMTYPE, data, b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    plane.blobs[sha256] = buffer.getvalue()
    return wire.CodeSpec(kind="bundle", sha256=sha256)


def source_of(request: wire.OutputsRequest, **changes: Any) -> wire.WorkSource:
    """What the server says of a manifest to the next attempt."""
    summary = request.summary
    source = wire.WorkSource(
        node_rank=summary.node_rank,
        attempt_no=summary.attempt_no,
        seq=summary.seq,
        node_id=request.node_id,
        storage_id=request.storage_id,
        storage_url=request.storage_url,
        folder=request.folder,
        size_bytes=summary.size_bytes,
    )
    return dataclasses.replace(source, **changes)


def files_of(request: wire.OutputsRequest) -> dict[str, wire.OutputFile]:
    return {file.path: file for file in unpacked(request.files)}


def final_of(plane: Any, wait_for: Any, number: int = 1) -> wire.OutputsRequest:
    found: wire.OutputsRequest = wait_for(lambda: plane.final_outputs(TRIAL, number))
    return found


def stored(storage: Path, file: wire.OutputFile, folder: str = FOLDER) -> bytes:
    return b"".join(
        (storage / folder / "objects" / part[:2] / part).read_bytes() for part in file.parts
    )


def run(agent: Any, plane: Any, spec: wire.AllocationSpec) -> wire.ExitInfo:
    plane.want(spec)
    info: wire.ExitInfo = agent.wait_exit(spec.allocation_id)
    return info


def move(agent: Any, other: Any, plane: Any) -> None:
    """The node is gone, and another one is there."""
    agent.kill()
    plane.assignments.clear()
    other.environment.setdefault("MUSTER_AGENT_STORAGE_DIR", str(agent.home / "storage"))
    other.start()
