"""Real agents, jobs and a real storage folder: what a plain script writes outlives its attempts."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.jobs.process import kill_all
from muster_agent.outputs import keeper
from muster_agent.outputs.index import unpacked
from muster_agent.outputs.storage import Storage
from muster_agent.outputs.work import OUTPUT_FOLDER, TrialWork, WorkUse
from support.buckets import Buckets, buckets

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


def bundle(plane: Any, script: str, **files: bytes) -> wire.CodeSpec:
    """Uploaded code: main.py, and other files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in {"main.py": script.encode(), **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    sha256 = hashlib.sha256(buffer.getvalue()).hexdigest()
    plane.blobs[sha256] = buffer.getvalue()
    return wire.CodeSpec(kind="bundle", sha256=sha256)


@pytest.fixture
def attempt(make_spec: Any) -> Callable[..., wire.AllocationSpec]:
    """An attempt of the one trial, on one worker."""

    def make(number: int = 1, **changes: Any) -> wire.AllocationSpec:
        fields = {
            "trial_id": TRIAL,
            "attempt_no": number,
            "slots": [0],
            "world_size": 1,
            "checkpoint_dir": "experiment-3/trial-2",
            "cluster_id": CLUSTER,
            "outputs": wire.OutputsSpec(every_s=0.5),
            **changes,
        }
        return make_spec(f"a{number}", **fields)

    return make


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


# ---------------------------------------------------------------- attempts


def test_a_plain_script_that_is_stopped_and_started_again_goes_on(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    code = bundle(plane, CHECKPOINTING)
    files = TrialWork(agent.home, TRIAL).files
    plane.want(attempt(1, code=code))
    agent.wait_state("a1", "RUNNING")
    (files / "go on").touch()
    wait_for(lambda: (files / "ckpt.txt").exists() and int((files / "ckpt.txt").read_text()) > 60)
    plane.want(attempt(1, code=code), "stop", reason="paused")
    assert agent.wait_exit("a1").cause in ("stopped", "killed_by_signal")
    saved = int((files / "ckpt.txt").read_text())
    (files / "go on").unlink()
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())

    assert run(agent, plane, attempt(2, code=code)).cause == "success"
    lines = plane.of("a2").log_text(0).splitlines()
    assert lines[0] == f"resumed at {saved}"
    assert int(lines[1].removeprefix("done at ")) >= saved + 60


def test_a_kill_of_everything_leaves_the_files_to_the_next_attempt(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    code = bundle(plane, CHECKPOINTING)
    files = TrialWork(agent.home, TRIAL).files
    plane.want(attempt(1, code=code))
    agent.wait_state("a1", "RUNNING")
    (files / "go on").touch()
    wait_for(lambda: (files / "ckpt.txt").exists())
    agent.kill()
    folder = agent.folder("a1")
    state = folder.read_state()
    os.kill(state.pid, 9)
    plane.assignments.clear()
    (files / "go on").unlink()
    agent.start()
    plane.want(attempt(2, code=code))
    assert agent.wait_exit("a2").cause == "success"
    assert plane.of("a2").log_text(0).startswith("resumed at ")
    assert folder.processes() == set()


def test_an_attempt_waits_for_processes_of_the_one_before(shims: Any, make_spec: Any) -> None:
    old = shims(spec=make_spec("a1", trial_id=TRIAL, slots=[0], world_size=1, **plain(shims)))
    old.start()
    old.wait_state("RUNNING")
    new = shims(
        spec=make_spec("a2", trial_id=TRIAL, attempt_no=2, slots=[0], world_size=1, **plain(shims))
    )
    new.wait_state("PREPARING")
    old.process.kill()  # its worker lives on
    old.process.wait()
    assert old.folder.processes()
    assert "READY" not in new.states()
    kill_all(old.folder.processes, timeout_s=10.0)
    new.wait_state("READY")
    assert not old.folder.processes()


def plain(shims: Any) -> dict[str, Any]:
    (shims.code / "main.py").write_text("import time\ntime.sleep(600)\n")
    return {"code": wire.CodeSpec(kind="installed", path=str(shims.code))}


def test_installed_code_runs_where_it_is_and_has_a_folder_for_outputs(
    agent: Any, plane: Any, attempt: Any, code: Any, wait_for: Any
) -> None:
    script = (
        "import os, pathlib\n"
        "print(os.getcwd())\n"
        "pathlib.Path(os.environ['MUSTER_OUTPUT_DIR'], 'model.pkl').write_bytes(b'model')\n"
        "pathlib.Path(os.environ['MUSTER_WORK_DIR'], 'notes.txt').write_text('n')\n"
    )
    spec = attempt(1, code=code(script), outputs=wire.OutputsSpec(include=["nothing"]))
    assert run(agent, plane, spec).cause == "success"
    assert plane.of("a1").log_text(0).strip() == spec.code.path
    found = files_of(final_of(plane, wait_for))
    assert set(found) == {f"{OUTPUT_FOLDER}/model.pkl"}
    assert stored(agent.home / "storage", found[f"{OUTPUT_FOLDER}/model.pkl"]) == b"model"


# ---------------------------------------------------------------- another node


def move(agent: Any, other: Any, plane: Any) -> None:
    """The node is gone, and another one is there."""
    agent.kill()
    plane.assignments.clear()
    other.environment.setdefault("MUSTER_AGENT_STORAGE_DIR", str(agent.home / "storage"))
    other.start()


def test_a_trial_that_moves_to_another_node_goes_on(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = CHECKPOINTING + (
        "if not os.path.exists('latest'):\n"
        "    os.symlink('ckpt.txt', 'latest'); open('secret', 'w').close()\n"
        "    os.chmod('secret', 0o600); os.utime('secret', (1e9, 1e9))\n"
    )
    code = bundle(plane, script, **{"data.txt": b"code"})
    assert run(agent, plane, attempt(1, code=code)).cause == "success"
    source = source_of(final_of(plane, wait_for))
    move(agent, other, plane)
    plane.want(attempt(2, code=code, work_from=[source], entrypoint=["main.py"]))
    assert other.wait_exit("a2").cause == "success"
    assert plane.of("a2").log_text(0).startswith("resumed at 60\n")
    files = TrialWork(other.home, TRIAL).files
    assert (files / "latest").readlink() == Path("ckpt.txt")
    assert (files / "secret").stat().st_mode & 0o777 == 0o600
    assert (files / "secret").stat().st_mtime == 1e9
    assert messages(plane, "a2")[0].startswith("Restoring the work folder of attempt 1 (node 0): ")
    second = final_of(plane, wait_for, 2)
    assert second.summary.seq > 200_000 > source.seq
    assert not (TrialWork(other.home, TRIAL).path / "files.new").exists()


def messages(plane: Any, allocation_id: str) -> list[str]:
    records = [r.record for r in plane.of(allocation_id).records]
    return [r.text for r in records if isinstance(r, wire.MessageRecord)]


def test_a_node_without_the_storage_says_that_the_trial_starts_empty(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    code = bundle(plane, CHECKPOINTING)
    assert run(agent, plane, attempt(1, code=code)).cause == "success"
    source = source_of(final_of(plane, wait_for))
    other.environment["MUSTER_AGENT_STORAGE_DIR"] = str(tmp_path / "its own")
    move(agent, other, plane)
    plane.want(attempt(2, code=code, work_from=[source]))
    other.wait_state("a2", "EXITED")
    assert plane.of("a2").log_text(0).startswith("began at 0\n")
    (text,) = messages(plane, "a2")
    assert text.startswith("The trial starts with an empty work folder: the files of attempt 1")
    assert "storage of another node. Node n1 wrote them" in text
    assert "MUSTER_AGENT_STORAGE_DIR" in text


def test_more_than_a_node_restores_is_refused_with_the_name_of_the_setting(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    code = bundle(plane, "open('big', 'wb').write(bytes(3_000_000))")
    assert run(agent, plane, attempt(1, code=code)).cause == "success"
    source = source_of(final_of(plane, wait_for))
    other.environment["MUSTER_AGENT_WORK_RESTORE_MAX_BYTES"] = "1000000"
    move(agent, other, plane)
    plane.want(attempt(2, code=code, work_from=[source]))
    other.wait_state("a2", "PREPARE_FAILED")
    record = plane.of("a2").records[-1].record
    assert record.message == (
        "the files of attempt 1 have 0.0 GB, and this node restores at most 0.0 GB "
        "(MUSTER_AGENT_WORK_RESTORE_MAX_BYTES)"
    )
    assert record.blames == "placement"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"path": "../../escaped"}, "is not a path within the folder"),
        ({"path": "/tmp/escaped"}, "is not a path within the folder"),
        ({"path": "a//b"}, "is not a path within the folder"),
        ({"state": "link", "target": "../../x", "parts": []}, "links to something outside"),
        ({"state": "link", "target": "/etc", "parts": []}, "links to something outside"),
        ({"sha256": "0" * 64}, "is not what its manifest says"),
        ({"parts": ["../../../../etc/passwd"]}, "is no SHA-256"),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any, changes: Any, reason: str
) -> None:
    code = bundle(plane, "open('file', 'w').write('content')")
    assert run(agent, plane, attempt(1, code=code)).cause == "success"
    request = final_of(plane, wait_for)
    path = agent.home / "storage" / FOLDER / "manifests" / f"n0-a1-{request.summary.seq}.json"
    manifest = json.loads(path.read_text())
    manifest["files"][0].update(changes)
    path.write_text(json.dumps(manifest))
    move(agent, other, plane)
    plane.want(attempt(2, code=code, work_from=[source_of(request)]))
    other.wait_state("a2", "PREPARE_FAILED")
    assert reason in plane.of("a2").records[-1].record.message
    assert not list(other.home.rglob("escaped"))


def test_a_link_that_a_job_left_in_the_storage_is_not_followed(
    agent: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = (
        "import os\n"
        f"os.symlink({str(elsewhere)!r}, os.path.join(os.environ['MUSTER_CHECKPOINT_DIR'], 'outputs'))\n"
        "open('file', 'w').write('content')\n"
    )
    assert run(agent, plane, attempt(1, code=bundle(plane, script))).cause == "success"
    wait_for(lambda: "outputs_away" in agent.words())
    assert not list(elsewhere.iterdir())


# ---------------------------------------------------------------- what is collected


def test_new_and_changed_files_are_kept_and_the_code_is_not(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, pathlib, socket\n"
        "pathlib.Path('runs/a').mkdir(parents=True)\n"
        "pathlib.Path('runs/a/events').write_bytes(b'e' * 1000)\n"
        "pathlib.Path('config.txt').write_text('changed')\n"
        "pathlib.Path('same.txt').write_text('same')\n"
        "pathlib.Path('__pycache__').mkdir()\n"
        "pathlib.Path('__pycache__/x.pyc').touch()\n"
        "pathlib.Path('empty').touch()\n"
        "pathlib.Path('notes.tmp').touch()\n"
        "os.link('runs/a/events', 'twin')\n"
        "os.symlink('runs/a', 'latest'); os.symlink('/etc/passwd', 'out')\n"
        "os.symlink(os.path.abspath('runs'), 'absolute')\n"
        "os.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('sock')\n"
        "open(b'caf\\xe9', 'w').close()\n"
        "open('huge', 'wb').truncate(5_000_000)\n"
    )
    code = bundle(plane, script, **{"config.txt": b"first", "same.txt": b"same", "untouched": b"u"})
    outputs = wire.OutputsSpec(exclude=["*.tmp"], max_bytes=4_000_000)
    assert run(agent, plane, attempt(1, code=code, outputs=outputs)).cause == "success"
    request = final_of(plane, wait_for)
    found = files_of(request)
    assert {path: file.state for path, file in found.items()} == {
        "absolute": "link",
        "caf\ufffd": "left_out",
        "config.txt": "kept",
        "empty": "kept",
        "huge": "left_out",
        "latest": "link",
        "out": "left_out",
        "pipe": "left_out",
        "runs/a/events": "kept",
        "sock": "left_out",
        "twin": "kept",
    }
    assert {path: file.reason for path, file in found.items() if file.reason} == {
        "caf\ufffd": "its name is not valid UTF-8",
        "huge": "a node keeps at most 4,000,000 bytes (outputs.max_size) of a trial",
        "out": "it is a link to something outside of the work folder",
        "pipe": "it is a FIFO",
        "sock": "it is a socket",
    }
    assert (found["latest"].target, found["absolute"].target) == ("runs/a", "runs")
    assert found["huge"].size_bytes == 5_000_000
    storage = agent.home / "storage"
    files = TrialWork(agent.home, TRIAL).files
    for path in ("config.txt", "empty", "runs/a/events", "twin"):
        content = (files / path).read_bytes()
        assert stored(storage, found[path]) == content
        assert found[path].sha256 == hashlib.sha256(content).hexdigest()
    summary = request.summary
    assert (summary.num_files, summary.size_bytes) == (4, 2007)
    assert (summary.num_left_out, summary.left_out_bytes) == (5, 5_000_000)
    manifest = json.loads(
        (storage / FOLDER / "manifests" / f"n0-a1-{summary.seq}.json").read_text()
    )
    assert [wire.load(wire.OutputFile, f) for f in manifest["files"]] == list(found.values())


def test_a_log_that_stays_open_is_kept_as_far_as_it_goes(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, time\n"
        "log = open('log', 'w'); old = open('model', 'wb'); old.write(b'whole'); old.close()\n"
        "while not os.path.exists('half'):\n"
        "    log.write('line\\n'); log.flush(); time.sleep(0.02)\n"
        "model = open('model', 'r+b'); model.truncate(); model.write(b'ha'); model.flush()\n"
        "open('written', 'w').close()\n"
        "while not os.path.exists('enough'): time.sleep(0.02)\n"
        "model.write(b'lf'); model.close()\n"
    )
    plane.want(attempt(1, code=bundle(plane, script)))
    files = TrialWork(agent.home, TRIAL).files

    def latest(path: str) -> wire.OutputFile | None:
        return files_of(plane.outputs[-1]).get(path) if plane.outputs else None

    def is_state(path: str, state: str) -> bool:
        found = latest(path)
        return found is not None and found.state == state

    wait_for(lambda: is_state("log", "growing") and is_state("model", "kept"))
    log = latest("log")
    assert log is not None
    assert stored(agent.home / "storage", log) == b"line\n" * (log.size_bytes // 5)
    (files / "half").touch()
    wait_for(lambda: latest("written"))
    model = latest("model")
    assert model is not None
    assert stored(agent.home / "storage", model) == b"whole"  # and not half of the next one
    (files / "enough").touch()
    agent.wait_exit("a1")
    found = files_of(final_of(plane, wait_for))
    assert found["log"].state == found["model"].state == "kept"
    assert stored(agent.home / "storage", found["model"]) == b"half"
    assert stored(agent.home / "storage", found["log"]) == (files / "log").read_bytes()


def test_a_kill_in_the_middle_of_a_collection_loses_nothing(
    agent: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    agent.kill()
    agent.environment["MUSTER_AGENT_OUTPUTS_BYTES_PER_S"] = "8000000"
    agent.start()
    script = (
        "import os\n"
        "os.mkdir('many')\n"
        "for i in range(8): open(f'many/{i}', 'wb').write(os.urandom(3_000_000))\n"
    )
    plane.want(attempt(1, code=bundle(plane, script)))
    agent.wait_exit("a1")
    objects = agent.home / "storage" / FOLDER / "objects"
    wait_for(lambda: len(list(objects.glob("??/*"))) >= 2)
    assert plane.final_outputs(TRIAL) is None
    agent.kill()
    wait_for(lambda: not collectors(agent.home))
    agent.environment.pop("MUSTER_AGENT_OUTPUTS_BYTES_PER_S")
    agent.start()
    request = final_of(plane, wait_for)
    files = TrialWork(agent.home, TRIAL).files
    names = sorted(f"many/{i}" for i in range(8))
    said = subprocess.run(
        ["sha256sum", *names], cwd=files, check=True, capture_output=True, text=True
    ).stdout
    assert {line.split()[1]: line.split()[0] for line in said.splitlines()} == {
        path: file.sha256 for path, file in files_of(request).items()
    }
    for file in files_of(request).values():
        assert hashlib.sha256(stored(agent.home / "storage", file)).hexdigest() == file.sha256
    wait_for(lambda: plane.work_folders[-1] and plane.work_folders[-1][0].is_collected)


def collectors(home: Path) -> list[int]:
    """Processes that collect from this home."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "muster_agent.outputs" in words and str(home) in words:
            found.append(process.pid)
    return found


def test_a_storage_that_is_away_for_a_while_gets_everything_later(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, time\n"
        "open('first', 'w').write('1')\n"
        "while not os.path.exists('enough'): time.sleep(0.02)\n"
        "open('second', 'w').write('2')\n"
    )
    plane.want(attempt(1, code=bundle(plane, script)))
    wait_for(lambda: plane.outputs and "first" in files_of(plane.outputs[-1]))
    storage = agent.home / "storage"
    storage.rename(agent.home / "moved")
    (TrialWork(agent.home, TRIAL).files / "enough").touch()
    assert agent.wait_exit("a1").cause == "success"
    wait_for(lambda: "outputs_away" in agent.words())
    assert not storage.exists()
    (agent.home / "moved").rename(storage)
    found = files_of(final_of(plane, wait_for))
    assert stored(storage, found["second"]) == b"2"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_keeps_the_files_until_there_is_room(
    agent: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("this machine does not allow to mount a tmpfs")
    try:
        agent.kill()
        agent.environment["MUSTER_AGENT_STORAGE_DIR"] = str(disk)
        agent.start()
        (disk / "filler").write_bytes(bytes(3_000_000))
        script = "import os\nopen('big', 'wb').write(os.urandom(2_000_000))\n"
        assert run(agent, plane, attempt(1, code=bundle(plane, script))).cause == "success"
        wait_for(lambda: "No space left on device" in agent.words())
        assert not list((disk / FOLDER / "objects").glob(".tmp-*"))
        (disk / "filler").unlink()
        found = files_of(final_of(plane, wait_for))
        assert (
            stored(disk, found["big"]) == (TrialWork(agent.home, TRIAL).files / "big").read_bytes()
        )
    finally:
        agent.kill()
        wait_for(lambda: not collectors(agent.home))
        subprocess.run(["umount", "-l", disk], check=True)


def test_two_nodes_that_write_the_same_path_are_both_kept(
    agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = "import sys\nopen('ckpt', 'w').write(sys.argv[1])\nopen('same', 'w').write('s')\n"
    code = bundle(plane, script)
    assert (
        run(agent, plane, attempt(1, code=code, entrypoint=["main.py", "zero"])).cause == "success"
    )
    zero = final_of(plane, wait_for)
    move(agent, other, plane)
    one_spec = dataclasses.replace(
        attempt(1, code=code, entrypoint=["main.py", "one"]), allocation_id="b1", node_rank=1
    )
    plane.want(one_spec)
    other.wait_state("b1", "EXITED")
    one = wait_for(
        lambda: [r for r in plane.outputs if r.summary.node_rank == 1 and r.summary.is_final]
    )[0]
    storage = agent.home / "storage"
    assert stored(storage, files_of(zero)["ckpt"]) == b"zero"
    assert stored(storage, files_of(one)["ckpt"]) == b"one"
    assert files_of(zero)["same"].parts == files_of(one)["same"].parts
    assert len(list((storage / FOLDER / "objects").glob("??/*"))) == 3


@pytest.fixture
def s3() -> Iterator[Buckets]:
    with buckets("bucket") as started:
        yield started


def test_a_bucket_keeps_the_files_and_another_node_goes_on_from_it(
    s3: Buckets, agent: Any, other: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    code = bundle(plane, CHECKPOINTING)
    url = f"s3://bucket/muster-{CLUSTER}/experiment-3/trial-2"
    assert run(agent, plane, attempt(1, code=code, checkpoint_url=url)).cause == "success"
    request = final_of(plane, wait_for)
    assert (request.storage_id, request.storage_url) == ("", f"{url}/outputs")
    ckpt = files_of(request)["ckpt.txt"]
    assert s3.get(f"{url}/outputs/objects/{ckpt.sha256[:2]}/{ckpt.sha256}") == b"60"
    export = wire.Export(
        id=1,
        storage_id="",
        storage_url="s3://bucket",
        path=FOLDER,
        cluster_id=CLUSTER,
        max_bytes=1000,
        files=[ckpt],
    )
    plane.want_exported(export)
    wait_for(lambda: plane.export_results)
    assert plane.export_results[0].outcome == "done"
    assert plane.exported[1] == {0: b"60"}

    other.environment["MUSTER_AGENT_STORAGE_DIR"] = str(other.home / "nothing in it")
    move(agent, other, plane)
    plane.want(attempt(2, code=code, checkpoint_url=url, work_from=[source_of(request)]))
    assert other.wait_exit("a2").cause == "success"
    assert plane.of("a2").log_text(0).startswith("resumed at 60\n")
    assert stored_in(s3, url, files_of(final_of(plane, wait_for, 2))["ckpt.txt"]) == b"120"


def stored_in(s3: Buckets, url: str, file: wire.OutputFile) -> bytes:
    return b"".join(s3.get(f"{url}/outputs/objects/{part[:2]}/{part}") for part in file.parts)


def test_a_file_that_grows_for_ever_is_listed_with_its_size(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, time\n"
        "log = open('log', 'wb')\n"
        "while not os.path.exists('enough'):\n"
        "    log.write(bytes(20_000)); log.flush(); time.sleep(0.02)\n"
    )
    outputs = wire.OutputsSpec(every_s=0.5, max_bytes=300_000)
    plane.want(attempt(1, code=bundle(plane, script), outputs=outputs))

    def is_left_out() -> bool:
        found = files_of(plane.outputs[-1]).get("log") if plane.outputs else None
        return found is not None and found.state == "left_out"

    wait_for(is_left_out)
    file = files_of(plane.outputs[-1])["log"]
    assert file.size_bytes > 300_000
    assert file.reason.startswith("a node keeps at most 300,000 bytes")
    (TrialWork(agent.home, TRIAL).files / "enough").touch()
    assert agent.wait_exit("a1").cause == "success"
    assert final_of(plane, wait_for).summary.left_out_bytes > 300_000


def test_versions_that_nobody_needs_are_deleted_from_the_storage(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, time\n"
        "for number in range(3):\n"
        "    open('new', 'w').write(str(number)); os.replace('new', 'ckpt')\n"
        "    while not os.path.exists(f'go {number}'): time.sleep(0.02)\n"
    )
    plane.want(attempt(1, code=bundle(plane, script)))
    storage, files = agent.home / "storage", TrialWork(agent.home, TRIAL).files
    versions = []
    for number in range(3):

        def has_version(number: int = number) -> bool:
            found = files_of(plane.outputs[-1]).get("ckpt") if plane.outputs else None
            return found is not None and stored(storage, found) == str(number).encode()

        wait_for(has_version)
        (sha256,) = files_of(plane.outputs[-1])["ckpt"].parts
        versions.append(storage / FOLDER / "objects" / sha256[:2] / sha256)
        os.utime(versions[-1], (1e9, 1e9))  # Long ago: nobody is about to use it.
        (files / f"go {number}").touch()
    agent.wait_exit("a1")
    final_of(plane, wait_for)
    assert not versions[0].exists()
    assert versions[2].exists()
    manifests = {p.name for p in (storage / FOLDER / "manifests").iterdir()}
    assert f"n0-a1-{plane.outputs[-1].summary.seq}.json" in manifests
    assert "n0-a1-100001.json" not in manifests


# ---------------------------------------------------------------- reports


def test_a_folder_goes_when_the_server_names_it_and_nothing_uses_it(
    agent: Any, plane: Any, attempt: Any, wait_for: Any, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    script = f"import os\nos.symlink({str(kept)!r}, 'out')\nopen('file', 'w').close()\n"
    plane.delete_work = {TRIAL}
    assert run(agent, plane, attempt(1, code=bundle(plane, script))).cause == "success"
    wait_for(lambda: any(f.is_collected for folders in plane.work_folders for f in folders))
    assert TrialWork(agent.home, TRIAL).files.exists(), "its allocation is still here"
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())
    agent.kill()
    agent.start()
    wait_for(lambda: not TrialWork(agent.home, TRIAL).path.exists())
    assert (kept / "file").exists()
    wait_for(lambda: not list((agent.home / "work").iterdir()))


def test_an_older_server_is_told_nothing_and_folders_stay(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    plane.has_outputs = False
    spec = attempt(1, code=bundle(plane, "open('file', 'w').close()"), outputs=None)
    assert run(agent, plane, spec).cause == "success"
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())
    assert (TrialWork(agent.home, TRIAL).files / "file").exists()
    assert not (agent.home / "storage" / FOLDER).exists()


def test_reports_go_on_across_outages_and_sessions(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, time\n"
        "while not os.path.exists('enough'): time.sleep(0.02)\n"
        "open('second', 'w').write('2')\n"
    )
    plane.want(attempt(1, code=bundle(plane, script)))
    agent.wait_state("a1", "RUNNING")
    work = TrialWork(agent.home, TRIAL)
    plane.is_down = True
    (work.files / "enough").touch()

    def is_final() -> bool:
        last = work.read_manifest()
        return last is not None and last.summary.is_final

    wait_for(is_final)
    assert plane.final_outputs(TRIAL) is None
    with plane.changed:
        plane.epoch += 1  # The session is forgotten as well.
        plane.is_down = False
        plane.changed.notify_all()
    assert "second" in files_of(final_of(plane, wait_for))
    num_reports = len([r for r in plane.outputs if r.summary.is_final])
    agent.kill()
    agent.start()
    num_registrations = len(plane.registrations)
    wait_for(lambda: len(plane.registrations) > num_registrations or plane.work_folders)
    assert len([r for r in plane.outputs if r.summary.is_final]) == num_reports == 1


def test_the_server_hears_of_a_storage_that_stays_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "LOOK_S", 0.05)
    monkeypatch.setattr(keeper, "RETRY_FIRST_S", 0.05)
    monkeypatch.setattr(keeper, "TELL_AFTER_S", 0.2)
    storage, work = tmp_path / "storage", TrialWork(tmp_path, TRIAL)
    work.files.mkdir(parents=True)
    (work.files / "file").write_text("content")
    work.write_use(
        WorkUse(
            cluster_id=CLUSTER,
            experiment_id=3,
            trial_id=TRIAL,
            attempt_no=1,
            allocation_id="a1",
            node_rank=0,
            code_sha256="",
            outputs=wire.OutputsSpec(),
            storage_id="s1",
            folder=FOLDER,
            url="",
            first_seq=4,
        )
    )

    async def go() -> None:
        outputs = keeper.OutputsKeeper(
            tmp_path, storage=storage, bytes_per_s=10**9, is_running=lambda allocation_id: False
        )
        running = asyncio.create_task(outputs.run())
        try:
            async with asyncio.timeout(60):
                await outputs.has_news.wait()
                problem = outputs.problem_of(work)
                assert problem == f"the storage folder {storage} is not there"
                told = keeper.with_problem(work.read_use(), work.read_manifest(), problem)
                assert (told.summary.seq, told.summary.problem) == (0, problem)
                outputs.has_news.clear()
                storage_id = Storage(storage).id()
                await outputs.has_news.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        written = work.read_manifest()
        assert outputs.problem_of(work) == written.summary.problem == ""
        assert (written.storage_id, written.summary.is_final) == (storage_id, True)
        assert written.summary.seq == 5

    asyncio.run(go())


# ---------------------------------------------------------------- downloads


def test_one_file_is_sent_as_it_is_and_several_as_an_archive(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os\n"
        "os.makedirs('runs/ä' + 'x' * 150)\n"
        "open('runs/ä' + 'x' * 150 + '/events', 'wb').write(os.urandom(2_500_000))\n"
        "open('notes', 'w').write('n')\n"
        "open('empty', 'w').close()\n"
        "os.symlink('notes', 'latest'); os.symlink('/etc', 'out')\n"
    )
    assert run(agent, plane, attempt(1, code=bundle(plane, script))).cause == "success"
    request = final_of(plane, wait_for)
    found = files_of(request)
    storage, files = agent.home / "storage", TrialWork(agent.home, TRIAL).files
    events = next(file for path, file in found.items() if path.endswith("/events"))

    def want(number: int, *wanted: wire.OutputFile, **changes: Any) -> None:
        fields = {
            "id": number,
            "storage_id": request.storage_id,
            "path": request.folder,
            "cluster_id": CLUSTER,
            "max_bytes": 10 * 2**20,
            "files": list(wanted),
            **changes,
        }
        plane.want_exported(wire.Export(**fields))

    many = [events, found["notes"], found["empty"], found["latest"]]
    want(1, events)
    want(2, *many)
    want(3, found["out"])
    want(4, dataclasses.replace(found["notes"], parts=["0" * 64], sha256="0" * 64))
    want(5, *many, max_bytes=1000)
    want(6, events, cluster_id="bbbb2222")
    wait_for(lambda: len(plane.export_results) == 6)
    part = storage / FOLDER / "objects" / events.parts[0][:2] / events.parts[0]
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    want(7, events)
    wait_for(lambda: len(plane.export_results) == 7)

    results = {r.id: r for r in plane.export_results}
    assert (results[1].outcome, results[2].outcome) == ("done", "done")
    sent = {n: b"".join(plane.exported[n][i] for i in sorted(plane.exported[n])) for n in (1, 2)}
    assert sent[1] == (files / events.path).read_bytes()
    assert results[1].sha256 == events.sha256
    assert (len(sent[2]), hashlib.sha256(sent[2]).hexdigest()) == (
        results[2].size_bytes,
        results[2].sha256,
    )
    with tarfile.open(fileobj=io.BytesIO(sent[2])) as tar:
        assert tar.getnames() == [file.path for file in many]
        for file in many[:3]:
            content = tar.extractfile(file.path)
            assert content is not None
            assert content.read() == (files / file.path).read_bytes()
        assert tar.getmember("latest").linkname == "notes"
    why = {number: result.message for number, result in results.items() if number > 2}
    assert (
        why[3] == "out is not in the storage: it is a link to something outside of the work folder"
    )
    assert why[4] == "notes is no longer in the storage: a newer version has replaced it"
    assert "ask for fewer files at a time" in why[5]
    assert "does not carry this server's mark" in why[6]
    assert "does not have the SHA-256" in why[7]
