"""Real agents, jobs and a real storage folder: what a plain script writes outlives its attempts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster import wire
from muster_agent.jobs.process import kill_all
from muster_agent.outputs.work import OUTPUT_FOLDER, TrialWork
from support.nodes.work_folders import (
    CHECKPOINTING,
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


def test_git_finds_no_repository_above_the_work_folder(
    agent: Any, plane: Any, attempt: Any, wait_for: Any
) -> None:
    git = ["git", "-C", agent.home, "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-qm", "x", "--allow-empty"], check=True)
    script = (
        "import subprocess\n"
        "done = subprocess.run(['git', 'rev-parse', 'HEAD'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stdout, done.stderr)\n"
    )
    assert run(agent, plane, attempt(1, code=bundle(plane, script))).cause == "success"
    assert "128" in plane.of("a1").log_text(0)
    assert "not a git repository" in plane.of("a1").log_text(0)


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
    assert messages(plane, "a2")[0].startswith("Restoring the files of attempt 1 (node 0): ")
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
