"""Real agents and a script that knows nothing of Muster: its checkpoints outlive its own files."""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.outputs.work import TrialWork
from support.buckets import Buckets, buckets
from support.nodes.work_folders import CLUSTER, TRIAL, bundle, final_of, move, run

from .test_work_collected import collectors

PARENT = "experiment-3/trial-2"
ROTATING = """
import os, pathlib, time
out = pathlib.Path("out"); out.mkdir(exist_ok=True)
saved = sorted(out.glob("ckpt-*.pt"), key=lambda path: int(path.stem[5:]))
step = int(saved[-1].read_bytes().split()[1]) if saved else 0
print("begins after", step, flush=True)
last = step + 40
while step < last:
    step += 10
    new = out / f"ckpt-{step}.pt"
    new.write_bytes(b"step %d " % step + bytes(100_000))
    saved.append(new)
    for old in saved[:-2]:
        old.unlink()
    saved = saved[-2:]
    while os.path.exists(f"hold-{step}"):
        time.sleep(0.02)
"""
HOLDING = {f"hold-{step}": b"" for step in (10, 20, 30, 40)}
OUTPUTS = wire.OutputsSpec(every_s=0.3, adopt="out/ckpt-*.pt")


def adopted(plane: Any) -> dict[int | None, wire.AdoptedCheckpoint]:
    return {one.step: one for request in plane.outputs for one in request.adopted}


def files_in(one: wire.AdoptedCheckpoint) -> list[wire.OutputFile]:
    plain = json.loads(zlib.decompress(base64.b64decode(one.files)))
    return [wire.load(wire.OutputFile, file) for file in plain]


def content(storage: Path, one: wire.AdoptedCheckpoint) -> dict[str, bytes]:
    objects = storage / PARENT / one.folder / "objects"
    return {
        file.path: b"".join((objects / part[:2] / part).read_bytes() for part in file.parts)
        for file in files_in(one)
    }


def source_of_step(plane: Any, step: int, **changes: Any) -> wire.WorkSource:
    """What the server says of an adopted checkpoint to a fork."""
    one = adopted(plane)[step]
    fields: dict[str, Any] = {
        "node_rank": one.node_rank,
        "attempt_no": 0,
        "seq": wire.ADOPTED_SEQ,
        "node_id": "n1",
        "storage_id": plane.outputs[-1].storage_id,
        "storage_url": "",
        "folder": f"{PARENT}/{one.folder}",
        "size_bytes": 1,
        "source": f"step {step} of trial 3.2",
    }
    return wire.WorkSource(**(fields | changes))


def fork_of(attempt: Any, source: wire.WorkSource, number: int = 2, **changes: Any) -> Any:
    """The first attempt of another trial, which starts from an adopted checkpoint."""
    spec = attempt(
        number, trial_id=6 + number, checkpoint_dir="experiment-4/trial-1", work_from=[source]
    )
    return dataclasses.replace(spec, attempt_no=1, **changes)


def train(agent: Any, plane: Any, spec: wire.AllocationSpec, wait_for: Any, *steps: int) -> None:
    """Run the script, and let it go on when each of its checkpoints was adopted."""
    plane.want(spec)
    for step in steps:
        wait_for(lambda step=step: step in adopted(plane))
        (TrialWork(agent.home, spec.trial_id).files / f"hold-{step}").unlink()
    assert agent.wait_exit(spec.allocation_id).cause == "success"


def test_what_a_script_rotates_away_stays_and_a_fork_starts_with_it(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    code = bundle(plane, ROTATING, **HOLDING)
    train(agent, plane, attempt(1, code=code, outputs=OUTPUTS), wait_for, 10, 20, 30, 40)
    final_of(plane, wait_for)
    files = TrialWork(agent.home, TRIAL).files
    assert sorted(path.name for path in (files / "out").iterdir()) == ["ckpt-30.pt", "ckpt-40.pt"]
    storage = agent.home / "storage"
    found = adopted(plane)
    assert list(found) == [10, 20, 30, 40]
    for step, one in found.items():
        (path, data), *others = content(storage, one).items()
        assert (path, data[:8], others) == (f"out/ckpt-{step}.pt", b"step %d " % step, [])
    (part,) = files_in(found[40])[0].parts
    of_outputs = storage / PARENT / "outputs" / "objects" / part[:2] / part
    assert of_outputs.stat().st_nlink == 2, "the same file, so that it takes its space once"

    move(agent, other, plane)
    num = len(plane.outputs)
    code = bundle(plane, ROTATING)
    fork = fork_of(attempt, source_of_step(plane, 20), code=code, outputs=OUTPUTS)
    assert run(other, plane, fork).cause == "success"
    assert plane.of("a2").log_text(0).startswith("begins after 20\n")
    wait_for(lambda: plane.final_outputs(8))
    its_own = {one.step for request in plane.outputs[num:] for one in request.adopted}
    assert its_own >= {50, 60}, "not that of the other trial"
    assert 20 not in its_own


def test_a_fork_without_the_files_of_its_checkpoint_does_not_start(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    code = bundle(plane, ROTATING)
    assert run(agent, plane, attempt(1, code=code, outputs=OUTPUTS)).cause == "success"
    final_of(plane, wait_for)
    source = source_of_step(plane, 40)
    (part,) = files_in(adopted(plane)[40])[0].parts
    stored = agent.home / "storage" / source.folder / "objects" / part[:2] / part
    stored.write_bytes(b"damaged")
    plane.want(fork_of(attempt, source, 2, code=code))
    agent.wait_state("a2", "PREPARE_FAILED")
    text = plane.of("a2").records[-1].record.message
    assert text.startswith("the files of step 40 of trial 3.2 cannot be restored: a part of out/")
    other.environment["MUSTER_AGENT_STORAGE_DIR"] = str(tmp_path / "its own")
    move(agent, other, plane)
    plane.want(fork_of(attempt, source, 3, code=code))
    other.wait_state("a3", "PREPARE_FAILED")
    text = plane.of("a3").records[-1].record.message
    assert "step 40 of trial 3.2 cannot be restored, because they lie in the storage of" in text


def test_a_kill_in_the_middle_adopts_each_checkpoint_once_and_whole(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    agent.kill()
    agent.environment["MUSTER_AGENT_OUTPUTS_BYTES_PER_S"] = "3000000"
    agent.start()
    script = (
        "import os\n"
        "for i in (1, 2):\n"
        "    os.makedirs(f'out/checkpoint-{i}')\n"
        "    for name in 'abc':\n"
        "        open(f'out/checkpoint-{i}/{name}', 'wb').write(os.urandom(1_000_000))\n"
    )
    outputs = wire.OutputsSpec(every_s=0.3, adopt="out/checkpoint-*")
    plane.want(attempt(1, code=bundle(plane, script), outputs=outputs))
    agent.wait_exit("a1")
    objects = agent.home / "storage" / PARENT / "outputs" / "objects"
    wait_for(lambda: len(list(objects.glob("??/*"))) >= 2)
    agent.kill()
    wait_for(lambda: not collectors(agent.home))
    assert not adopted(plane), "not before all its files are stored"
    agent.environment.pop("MUSTER_AGENT_OUTPUTS_BYTES_PER_S")
    agent.start()
    final_of(plane, wait_for)
    found = wait_for(lambda: len(adopted(plane)) == 2 and adopted(plane))
    files = TrialWork(agent.home, TRIAL).files
    for step, one in found.items():
        mine = content(agent.home / "storage", one)
        assert list(mine) == [f"out/checkpoint-{step}/{name}" for name in "abc"]
        assert all((files / path).read_bytes() == data for path, data in mine.items())
    numbers = [one.no for request in plane.outputs for one in request.adopted]
    assert sorted(set(numbers)) == [1, 2]


def test_what_a_killed_script_was_writing_is_no_checkpoint(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import io, os, signal, zipfile\n"
        "buffer = io.BytesIO()\n"
        "with zipfile.ZipFile(buffer, 'w') as file: file.writestr('archive/data.pkl', bytes(1000))\n"
        "os.mkdir('out')\n"
        "open('out/ckpt-10.pt', 'wb').write(buffer.getvalue())\n"
        "torn = open('out/ckpt-20.pt', 'wb'); torn.write(buffer.getvalue()[:900]); torn.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    plane.want(attempt(1, code=bundle(plane, script), outputs=OUTPUTS))
    agent.wait_state("a1", "EXITED")
    final_of(plane, wait_for)
    found = adopted(plane)
    assert found[10].problem == ""
    assert found[20].problem == "out/ckpt-20.pt is cut off, as if its writer had been killed"
    assert not (agent.home / "storage" / PARENT / found[20].folder).exists()


@pytest.fixture
def s3() -> Iterator[Buckets]:
    with buckets("bucket") as started:
        yield started


def test_a_bucket_has_a_copy_of_its_own(
    s3: Buckets, agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    url = f"s3://bucket/muster-{CLUSTER}/{PARENT}"
    code = bundle(plane, ROTATING)
    spec = attempt(1, code=code, checkpoint_url=url, outputs=OUTPUTS)
    assert run(agent, plane, spec).cause == "success"
    final_of(plane, wait_for)
    one = adopted(plane)[40]
    (file,) = files_in(one)
    (part,) = file.parts
    assert s3.get(f"{url}/{one.folder}/objects/{part[:2]}/{part}").startswith(b"step 40 ")
    source = source_of_step(plane, 40, storage_id="", storage_url=f"{url}/{one.folder}")
    assert run(agent, plane, fork_of(attempt, source, code=code)).cause == "success"
    assert plane.of("a2").log_text(0).startswith("begins after 40\n")
