"""Real agents and jobs: what the server hears of kept files, and how they are sent."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.jobs.programs import Programs
from muster_agent.outputs import keeper
from muster_agent.outputs.storage import Storage
from muster_agent.outputs.work import TrialWork, WorkUse
from support.nodes.work_folders import (
    CLUSTER,
    FOLDER,
    TRIAL,
    bundle,
    files_of,
    final_of,
    run,
)

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

    programs = Programs()

    async def go() -> None:
        outputs = keeper.OutputsKeeper(
            tmp_path,
            storage=storage,
            bytes_per_s=10**9,
            is_running=lambda allocation_id: False,
            programs=programs,
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

    try:
        asyncio.run(go())
    finally:
        programs.close()


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
    damaged = bytearray(part.read_bytes())
    damaged[-1] ^= 1
    part.write_bytes(damaged)
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
