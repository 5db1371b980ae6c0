"""Real agents and jobs: which files of a work folder are kept, and what storage does to it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.outputs.work import TrialWork
from support.buckets import Buckets, buckets
from support.nodes.work_folders import (
    CHECKPOINTING,
    CLUSTER,
    FOLDER,
    TRIAL,
    bundle,
    files_of,
    final_of,
    move,
    run,
    source_of,
    stored,
)


def test_new_and_changed_files_are_kept_and_the_code_is_not(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    script = (
        "import os, pathlib, socket\n"
        "assert pathlib.Path('link').read_bytes() == b'u'\n"
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
    code = bundle(plane, script, **{
        "config.txt": b"first", "same.txt": b"same", "untouched": b"u", "link": "untouched",
    })  # fmt: skip
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


def test_a_collector_leaves_the_processor_to_training_of_other_sessions(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    own = Path("/proc/self/autogroup")
    if not own.exists():
        pytest.skip("this kernel does not group processes by session")
    groups = []

    def is_grouped() -> bool:
        for pid in collectors(agent.home):
            with contextlib.suppress(OSError):
                groups.append(Path(f"/proc/{pid}/autogroup").read_text())
        return any(group.rstrip().endswith("nice 19") for group in groups)

    script = "import time\nopen('first', 'w').write('1')\ntime.sleep(60)\n"
    plane.want(attempt(1, code=bundle(plane, script)))
    wait_for(is_grouped)


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
