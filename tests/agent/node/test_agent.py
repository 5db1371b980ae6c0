"""A real agent process with real shims against a control plane over HTTP."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import stat
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.jobs.folder import shim_identity
from muster_agent.records.logs import cut_marker

Code = Callable[[str], wire.CodeSpec]

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"

TICKER = """
import json, os, socket, time
rank = int(os.environ["RANK"])
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MUSTER_REPORT_SOCKET"])
def say(**m): s.sendall(json.dumps(m).encode() + b"\\n")
say(type="hello", local_rank=rank, rank=rank, world_size=1, node_rank=0, pid=os.getpid(),
    host="h", master_addr="m", master_port=1)
step = 0
while not os.path.exists("enough"):
    step += 1
    say(type="metrics", step=step, series=[dict(name="train/loss", steps=[step],
        times_ms=[int(time.time() * 1000)], values=[1.0 / step])])
    print("step", step, flush=True)
    time.sleep(0.02)
"""


def one_worker(**changes: Any) -> dict[str, Any]:
    return {"slots": [0], "world_size": 1, **changes}


def metric_steps(plane: Any, allocation_id: str = "a1") -> list[int]:
    records = [r.record for r in plane.of(allocation_id).records]
    return [r.step for r in records if isinstance(r, wire.MetricsRecord)]


def test_allocation_runs_and_its_exit_comes_after_its_whole_log(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    script = "import sys\nsys.stdout.write('x' * 3_000_000)\nprint('end')\n"
    plane.want(make_spec(code=code(script)))
    info = agent.wait_exit("a1")
    assert info.cause == "success"
    sizes = plane.log_bytes_at_exit["a1"]
    assert sizes[(0, "stdout")] == sizes[(1, "stdout")] == 3_000_004
    registration = plane.registrations[0]
    assert [s["index"] for s in registration["inventory"]["slots"]] == [0, 1]
    assert registration["inventory"]["torch_version"].startswith("2.")
    credential = agent.home / "credential.json"
    assert stat.S_IMODE(credential.stat().st_mode) == 0o600


def test_forgotten_allocation_is_killed_and_its_folder_deleted(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())
    assert agent.folder("a1").processes() == set()


def test_stop_of_an_allocation_that_never_began_is_settled(
    agent: Any, plane: Any, make_spec: Any
) -> None:
    plane.want(make_spec(), "stop", reason="too late")
    info = agent.wait_exit("a1")
    assert (info.cause, info.message) == ("stopped", "too late")


def test_prepared_gang_waits_for_start(agent: Any, plane: Any, make_spec: Any, code: Code) -> None:
    spec = make_spec(code=code("print('hi')"))
    plane.want(spec, "prepare")
    agent.wait_state("a1", "READY")
    assert "STARTING" not in plane.of("a1").states()
    plane.want(spec, "start")
    assert agent.wait_exit("a1").cause == "success"


def test_killed_agent_is_replaced_without_disturbing_training(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(**one_worker(code=code(TICKER))))
    agent.wait_state("a1", "RUNNING")
    pids = {identity.pid for identity in agent.folder("a1").processes()}
    agent.kill()
    seen = len(plane.of("a1").records)
    time.sleep(0.3)  # steps happen that nobody sends
    agent.start()
    wait_for(lambda: len(plane.of("a1").records) > seen + 10)
    assert {identity.pid for identity in agent.folder("a1").processes()} == pids
    assert plane.registrations[-1]["running"][0]["observed"] == "RUNNING"
    (Path(plane.assignments["a1"].spec.code.path) / "enough").touch()
    assert agent.wait_exit("a1").cause == "success"
    steps = metric_steps(plane)
    assert steps == list(range(1, len(steps) + 1))
    lines = plane.of("a1").log_text(0).splitlines()
    assert lines == [f"step {step}" for step in steps]


def test_outage_and_forgotten_session_lose_nothing(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(**one_worker(code=code(TICKER))))
    agent.wait_state("a1", "RUNNING")
    plane.is_down = True
    time.sleep(0.5)
    with plane.lock:
        plane.epoch += 1  # somebody else's session came and went
        plane.is_down = False
    seen = len(plane.of("a1").records)
    wait_for(lambda: len(plane.of("a1").records) > seen + 5)
    (Path(plane.assignments["a1"].spec.code.path) / "enough").touch()
    assert agent.wait_exit("a1").cause == "success"
    steps = metric_steps(plane)
    assert steps == list(range(1, len(steps) + 1))
    assert len(plane.registrations) >= 2


def test_what_is_wanted_after_an_outage_does_not_wait_for_a_poll_from_before(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    wait_for(lambda: plane.leases)
    with plane.changed:
        plane.is_mute = True
        plane.changed.notify_all()
    wait_for(lambda: plane.num_unheard)
    plane.want(make_spec(**one_worker(code=code("print('hello')"))))
    plane.is_mute = False
    agent.wait_state("a1", "PREPARING", timeout_s=20.0)  # the poll is given up after 55 s
    assert agent.wait_exit("a1").cause == "success"
    assert len(plane.registrations) == 1


def test_a_lost_answer_to_a_poll_is_noticed_with_a_heartbeat(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    wait_for(lambda: plane.leases)
    plane.num_answers_to_lose = 1
    plane.want(make_spec(**one_worker(code=code("print('hello')"))))
    agent.wait_state("a1", "PREPARING", timeout_s=20.0)  # the poll is given up after 55 s
    assert plane.num_answers_to_lose == 0
    assert agent.wait_exit("a1").cause == "success"
    assert len(plane.registrations) == 1


def test_records_reach_the_server_within_300_ms(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(**one_worker(code=code(TICKER))))
    wait_for(lambda: len(metric_steps(plane)) > 50)
    clock_offset = time.time() - time.monotonic()
    held = plane.of("a1")
    delays = sorted(
        at + clock_offset - record.at_ms / 1000
        for record, at in zip(held.records, held.at, strict=False)
        if isinstance(record.record, wire.MetricsRecord)
    )
    assert delays[len(delays) // 2] < 0.3


def test_killed_shim_is_swept_up_after_and_told(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    state = agent.folder("a1").read_state()
    os.kill(state.pid, signal.SIGKILL)
    info = agent.wait_exit("a1")
    assert info.cause == "shim_lost"
    assert agent.folder("a1").processes() == set()


def test_a_shim_may_take_longer_to_start_than_a_lease_lasts(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.lease_s = 3.0
    plane.want(make_spec(**one_worker(code=code("print('hi')"), on_disconnect="stop")))
    shim = wait_for(agent.shim)
    shim.suspend()
    num_leases = len(plane.leases)
    wait_for(lambda: len(plane.leases) > num_leases + 11)
    shim.resume()
    assert agent.wait_exit("a1").cause == "success"


def test_a_shim_that_does_not_answer_delays_no_heartbeat(
    agent: Any, plane: Any, make_spec: Any, code: Code, wait_for: Any
) -> None:
    plane.want(make_spec(**one_worker(code=code(WAIT), on_disconnect="stop")))
    agent.wait_state("a1", "RUNNING")
    shim = psutil.Process(agent.folder("a1").read_state().pid)
    shim.suspend()
    num_leases = len(plane.leases)
    wait_for(lambda: len(plane.leases) > num_leases + 10, timeout_s=20)
    shim.resume()
    plane.forget("a1")
    wait_for(lambda: not agent.folder("a1").path.exists())


def test_shim_killed_together_with_the_agent_is_swept_up_after(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    agent.kill()
    os.kill(agent.folder("a1").read_state().pid, signal.SIGKILL)
    assert len(agent.folder("a1").processes()) == 2
    agent.start()
    assert agent.wait_exit("a1").cause == "shim_lost"
    assert agent.folder("a1").processes() == set()


def test_reboot_is_told_apart(agent: Any, plane: Any, make_spec: Any, code: Code) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    agent.kill()
    folder = agent.folder("a1")
    state = folder.read_state()
    os.kill(state.pid, signal.SIGKILL)
    for identity in agent.folder("a1").processes():
        os.kill(identity.pid, signal.SIGKILL)
    raw = json.loads((folder.path / "shim.json").read_text())
    (folder.path / "shim.json").write_text(json.dumps(raw | {"boot_id": "an earlier one"}))
    agent.start()
    assert agent.wait_exit("a1").cause == "node_rebooted"


def test_sigterm_leaves_training_running(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    agent.process.terminate()
    assert agent.process.wait(timeout=15) == 0
    assert shim_identity(agent.folder("a1").read_state()) is not None
    assert len(agent.folder("a1").processes()) == 2


def test_sigterm_can_be_told_to_stop_training(
    plane: Any, make_spec: Any, code: Code, agent: Any
) -> None:
    agent.kill()
    agent.environment["MUSTER_AGENT_STOP_ALLOCATIONS"] = "1"
    agent.start()
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    agent.process.terminate()
    assert agent.process.wait(timeout=30) == 0
    assert agent.folder("a1").processes() == set()
    info = plane.of("a1").exit()
    assert info is not None
    # The server heard of it before, and lets the trial go on elsewhere at nobody's expense.
    assert info.cause == "stopped", info.message


def test_an_agent_that_ends_does_not_wait_for_what_is_not_wanted_any_more(
    plane: Any, make_spec: Any, code: Code, agent: Any, tmp_path: Path, wait_for: Any
) -> None:
    agent.kill()
    agent.environment["MUSTER_AGENT_STOP_ALLOCATIONS"] = "1"
    agent.start()
    stubborn = (
        "import os, pathlib, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path)!r}, 'deaf-' + os.environ['RANK']).touch()\n" + WAIT
    )
    plane.want(make_spec(code=code(stubborn), stop_grace_s=60.0))
    agent.wait_state("a1", "RUNNING")
    # That they were started does not say how far they are.
    wait_for(lambda: len(list(tmp_path.glob("deaf-*"))) == 2)
    agent.process.terminate()
    agent.wait_state("a1", "STOPPING")
    plane.forget("a1")
    # Neither for the end of its grace, nor for the delivery of what nobody takes (10 s).
    assert agent.process.wait(timeout=9) == 0
    assert not agent.folder("a1").path.exists()


def test_cut_lifeline_ends_agent_shim_and_workers(
    plane: Any, make_spec: Any, code: Code, agent: Any, wait_for: Any
) -> None:
    agent.kill()
    read_end, write_end = os.pipe()
    agent.environment["MUSTER_LIFELINE_FD"] = str(read_end)
    agent.pass_fds = (read_end,)
    agent.start()
    os.close(read_end)
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    shim = shim_identity(agent.folder("a1").read_state())
    assert shim is not None
    os.close(write_end)
    agent.process.wait(timeout=20)
    wait_for(lambda: agent.folder("a1").processes() == set() and not psutil.pid_exists(shim.pid))


def test_what_is_stopped_in_order_with_its_starter_is_charged_to_nobody(
    plane: Any, make_spec: Any, code: Code, agent: Any
) -> None:
    agent.kill()
    read_end, write_end = os.pipe()
    agent.environment["MUSTER_LIFELINE_FD"] = str(read_end)
    agent.pass_fds = (read_end,)
    agent.start()
    plane.want(make_spec(code=code(WAIT)))
    agent.wait_state("a1", "RUNNING")
    agent.process.terminate()  # as `muster up` does at its end, before it cuts the lifeline
    assert agent.process.wait(timeout=15) == 0
    agent.start()
    info = agent.wait_exit("a1")
    assert info.cause == "stopped", info.message
    assert info.site_stop_at_ms > 0
    os.close(read_end)
    os.close(write_end)


def test_superseded_attempt_is_killed(agent: Any, plane: Any, make_spec: Any, code: Code) -> None:
    plane.want(make_spec(**one_worker(code=code(TICKER))))
    agent.wait_state("a1", "RUNNING")
    plane.superseded.add("a1")
    info = agent.wait_exit("a1")
    assert info.message == "killed (a newer attempt of this trial exists)"


def test_refused_record_is_replaced_by_a_message_and_the_rest_goes_on(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    plane.refuse_records_with_name = "odd"
    script = TICKER.split("step = 0")[0] + (
        "for name in ('train/loss', 'odd', 'val/loss'):\n"
        "    say(type='metrics', step=1, series=[dict(name=name, steps=[1], times_ms=[1], values=[1.0])])\n"
    )
    plane.want(make_spec(**one_worker(code=code(script))))
    assert agent.wait_exit("a1").cause == "success"
    records = [r.record for r in plane.of("a1").records]
    names = [r.series[0].name for r in records if isinstance(r, wire.MetricsRecord)]
    assert names == ["train/loss", "val/loss"]
    texts = [r.text for r in records if isinstance(r, wire.MessageRecord)]
    assert any("was refused by the server and is lost" in text for text in texts)


def test_log_is_cut_at_its_limit_with_a_marker(
    agent: Any, plane: Any, make_spec: Any, code: Code
) -> None:
    script = "import sys\nsys.stdout.write('0123456789' * 50_000)\n"
    plane.want(make_spec(**one_worker(code=code(script), log_limit_bytes=100_000)))
    agent.wait_exit("a1")
    text = plane.of("a1").log_text(0)
    assert text == "0123456789" * 10_000 + cut_marker(100_000).decode()


def test_bundle_is_downloaded_once_checked_and_unpacked(
    agent: Any, plane: Any, make_spec: Any
) -> None:
    data = make_bundle(
        {"main.py": b"import helper\nprint(helper.WORD)\n", "helper.py": b"WORD = 'hi'\n"}
    )
    sha256 = hashlib.sha256(data).hexdigest()
    plane.blobs[sha256] = data
    spec = make_spec(**one_worker(code=wire.CodeSpec(kind="bundle", sha256=sha256)))
    plane.want(spec)
    assert agent.wait_exit("a1").cause == "success"
    assert plane.of("a1").log_text(0) == "hi\n"
    del plane.blobs[sha256]
    plane.want(make_spec("a2", **one_worker(code=wire.CodeSpec(kind="bundle", sha256=sha256))))
    assert agent.wait_exit("a2").cause == "success"


@pytest.mark.parametrize(
    ("changes", "blames", "message"),
    [
        ({"entrypoint": ["other.py"]}, "placement", "the entry point other.py does not exist in the code folder (it holds main.py)"),
        ({"entrypoint": ["-c", "print()"]}, "document", "the entry point begins with '-c'; it must be a script, or -m and a module"),
        ({"entrypoint": ["-m"]}, "document", "the entry point '-m' names no module"),
        ({"entrypoint": ["-m", "nosuch.train"]}, "placement", f"the module nosuch of the entry point nosuch.train does not exist, neither in the code folder (it holds main.py) nor for the interpreter {sys.executable}"),
        ({"entrypoint": ["-m", "json.nosuch"]}, "placement", f"the module json.nosuch does not exist, neither in the code folder (it holds main.py) nor for the interpreter {sys.executable}"),
        ({"entrypoint": ["-m", "main.nosuch"]}, "placement", f"the module main.nosuch does not exist, neither in the code folder (it holds main.py) nor for the interpreter {sys.executable}"),
        ({"python": "/nowhere/python"}, "placement", "the interpreter /nowhere/python does not exist on this node"),
        ({"config": {"data": {"train": "/nowhere/imagenet", "test": "/"}}}, "placement", "the data set train (/nowhere/imagenet) does not exist on this node"),
        ({"python": "/bin/false"}, "placement", "the interpreter /bin/false does not run: 1"),
        ({"checkpoint_dir": "/proc/nope"}, "node", "the checkpoint folder /proc/nope cannot be made: No such file or directory"),
        ({"code": wire.CodeSpec(kind="installed", path="/nowhere")}, "placement", "the code folder /nowhere does not exist on this node"),
        ({"code": wire.CodeSpec(kind="installed", path="nowhere")}, "document", "code.installed must be an absolute path, not 'nowhere'"),
        ({"code": wire.CodeSpec(kind="bundle", sha256="ab" * 32)}, "document", "the code bundle could not be downloaded: 404 blobs.not_found: no such blob"),
        ({"resume_from": "step-5"}, "", "the checkpoint step-5 to continue from is not on this node; nodes that share trials need a shared storage folder (MUSTER_AGENT_STORAGE_DIR)"),
    ],
)  # fmt: skip
def test_what_cannot_run_fails_in_prepare_with_one_sentence(
    agent: Any,
    plane: Any,
    make_spec: Any,
    code: Code,
    changes: dict[str, Any],
    blames: str,
    message: str,
) -> None:
    plane.want(make_spec(**{"code": code("pass"), **changes}))
    agent.wait_state("a1", "PREPARE_FAILED")
    record = plane.of("a1").records[-1].record
    assert isinstance(record, wire.StateRecord)
    assert (record.message, record.blames) == (message, blames)


@pytest.mark.parametrize(
    ("files", "entrypoint", "message"),
    [
        ({"main.py": b""}, ["train.py"], "the entry point train.py does not exist in the code folder (it holds main.py)"),
        (None, ["main.py"], "the code bundle was refused: 'up': it links to something outside the bundle"),
    ],
)  # fmt: skip
def test_what_uploaded_code_lacks_no_node_has(
    agent: Any,
    plane: Any,
    make_spec: Any,
    files: dict[str, bytes] | None,
    entrypoint: list[str],
    message: str,
) -> None:
    data = make_bundle(files) if files is not None else make_bundle({}, links={"up": "../x"})
    sha256 = hashlib.sha256(data).hexdigest()
    plane.blobs[sha256] = data
    code = wire.CodeSpec(kind="bundle", sha256=sha256)
    plane.want(make_spec(**one_worker(code=code, entrypoint=entrypoint)))
    agent.wait_state("a1", "PREPARE_FAILED")
    record = plane.of("a1").records[-1].record
    assert isinstance(record, wire.StateRecord)
    assert (record.message, record.blames) == (message, "document")


def test_second_agent_on_the_same_home_is_refused(agent: Any, wait_for: Any) -> None:
    wait_for(lambda: agent.plane.registrations)
    first = agent.process
    agent.start()
    second, agent.process = agent.process, first
    assert second.wait(timeout=20) == 4
    assert "another agent uses" in agent.words()


def test_agent_without_credential_says_what_to_do(agent: Any) -> None:
    agent.kill()
    (agent.home / "credential.json").unlink(missing_ok=True)
    agent.environment["MUSTER_AGENT_JOIN_TOKEN"] = ""
    agent.start()
    assert agent.process.wait(timeout=20) == 3
    assert "make a join token" in agent.words()


def make_bundle(files: dict[str, bytes], *, links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
