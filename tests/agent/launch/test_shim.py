"""One shim, real processes, launcher "direct"."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import support
from muster import wire
from muster_agent.clock import boot_clock
from muster_agent.shim.control import Commands, send_command
from support.ports import free_port
from support.training.jobs import wait_for

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"

STUBBORN_GRANDCHILD = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(sys.argv[1] + os.environ["RANK"], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def test_workers_run_to_success(shims: Any) -> None:
    shim = shims("import os; print('rank', os.environ['RANK'], os.environ['WORLD_SIZE'])")
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "success"
    assert [w.exit_code for w in info.workers] == [0, 0]
    assert shim.printed(1) == "rank 1 2\n"
    states = shim.states()
    assert states[:3] == ["PREPARING", "READY", "STARTING"]
    assert states[-1] == "EXITED"
    workers = shim.of(wire.WorkerRecord)
    assert [(w.local_rank, w.rank, w.world_size, w.reports) for w in workers] == [
        (0, 0, 2, False),
        (1, 1, 2, False),
    ]
    assert 21_000 <= workers[0].master_port <= 21_999


def test_exit_code_and_exception_of_the_first_failing_rank_are_the_cause(shims: Any) -> None:
    shim = shims(
        "import os, sys, time\n"
        "if os.environ['RANK'] == '0': time.sleep(600)\n"
        "try:\n    raise ValueError('bad batch')\n"
        "except ValueError:\n    import traceback; traceback.print_exc(); sys.exit(7)\n"
    )
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "user_error"
    assert info.message == "rank 1 exited with code 7: ValueError: bad batch"
    assert info.first_failure is not None
    assert (info.first_failure.rank, info.first_failure.exit_code) == (1, 7)
    assert info.log_tail[-1] == "ValueError: bad batch"
    assert {w.rank: w.signal for w in info.workers}[0] == signal.SIGTERM


def test_worker_killed_by_sigkill_is_told_apart_from_an_error(shims: Any) -> None:
    shim = shims(WAIT)
    shim.start()
    shim.wait_state("RUNNING")
    os.kill(shim.of(wire.WorkerRecord)[1].pid, signal.SIGKILL)
    info = shim.wait_exit()
    assert info.cause == "killed_by_signal"
    assert "rank 1 was killed by SIGKILL, and not by the kernel" in info.message
    assert info.signal == signal.SIGKILL


def test_a_full_disk_ends_no_training_and_loses_no_report(
    shims: Any, tmp_path: Path, wait_for: Any
) -> None:
    go = tmp_path / "go"
    shim = shims(
        "import os, time\n"
        "from muster.sdk.run import init\n"
        "run = init()\n"
        "run.log({'train/loss': 1.0}, step=1)\n"
        "run.flush()\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "run.log({'train/loss': 0.5}, step=2)\n"
        "with run.checkpoint(step=2) as folder: (folder / 'w').touch()\n",
        slots=[0],
        world_size=1,
    )
    shim.start()
    wait_for(lambda: shim.of(wire.MetricsRecord), what="the first report")
    # No file of the shim may grow: what a full disk does, to this process alone.
    before = resource.prlimit(shim.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(shim.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    (worker,) = shim.of(wire.WorkerRecord)[-1:]
    go.touch()
    wait_for(lambda: not psutil.pid_exists(worker.pid), what="the worker has ended")
    assert shim.states()[-1] == "RUNNING"
    assert shim.of(wire.CheckpointRecord) == []
    resource.prlimit(shim.process.pid, resource.RLIMIT_FSIZE, before)
    assert shim.wait_exit().cause == "success"
    assert shim.process.wait(timeout=30) == 0
    assert [r.record.type for r in shim.records if r.record.type in ("metrics", "checkpoint")] == [
        "metrics", "metrics", "checkpoint",
    ]  # fmt: skip
    assert shim.state.observed == "EXITED"


def test_memory_error_is_out_of_memory(shims: Any) -> None:
    shim = shims("raise MemoryError('no room')", slots=[0], world_size=1)
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "out_of_memory"
    assert info.message == "rank 0 exited with code 1: MemoryError: no room"


def test_stop_ends_a_double_forked_grandchild_that_ignores_sigterm(
    shims: Any, tmp_path: Path
) -> None:
    pids = tmp_path / "pid-"
    shim = shims(STUBBORN_GRANDCHILD, entrypoint=["main.py", str(pids)], stop_grace_s=0.5)
    shim.start()
    shim.wait_state("RUNNING")
    files = [Path(f"{pids}{rank}") for rank in (0, 1)]
    from_files = _wait_for_numbers(files)
    assert all(psutil.pid_exists(pid) for pid in from_files)
    shim.command("stop", reason="enough")
    info = shim.wait_exit()
    assert info.cause == "killed"
    assert info.message == ("killed: it did not end within 0.5 s after being asked to (enough)")
    assert not any(psutil.pid_exists(pid) for pid in from_files)
    assert shim.states()[-2:] == ["STOPPING", "EXITED"]


def test_stop_is_gentle_first(shims: Any) -> None:
    shim = shims(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print('saving', flush=True), sys.exit(0)))\n"
        "print('up', flush=True)\ntime.sleep(600)\n"
    )
    shim.start()
    shim.wait_state("RUNNING")
    _wait_for_text(shim.log(0), "up")
    _wait_for_text(shim.log(1), "up")
    shim.command("stop", reason="the searcher stopped it")
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("stopped", "stopped (the searcher stopped it)")
    assert shim.printed(0) == "up\nsaving\n"


def test_stop_before_start_exits_without_running(shims: Any) -> None:
    shim = shims(WAIT)
    shim.wait_state("READY")
    shim.command("stop", reason="changed my mind")
    info = shim.wait_exit()
    assert info.cause == "stopped"
    assert shim.states() == ["PREPARING", "READY", "EXITED"]
    assert shim.process.wait(timeout=10) == 0
    assert not Path(shim.state.socket_dir).exists()


def test_kill_overrides_a_stop_that_waits(shims: Any) -> None:
    shim = shims(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\ntime.sleep(600)\n",
        stop_grace_s=300.0,
    )
    shim.start()
    _wait_for_text(shim.log(0), "up")  # SIGTERM is ignored from here on
    _wait_for_text(shim.log(1), "up")
    shim.command("stop", reason="first")
    shim.wait_state("STOPPING")
    shim.command("kill", reason="second")
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("killed", "killed (second)")


def test_a_shim_whose_folder_is_gone_ends(shims: Any) -> None:
    shim = shims(WAIT)
    shim.start()
    shim.wait_state("RUNNING")
    state = shim.folder.read_state()
    shutil.rmtree(shim.folder.path)
    asyncio.run(send_command(state.control_socket, {"command": "kill", "reason": "gone"}))
    assert shim.process.wait(timeout=30) == 0


def test_leftovers_of_a_finished_worker_are_killed_and_told(shims: Any) -> None:
    shim = shims(
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n",
        slots=[0],
        world_size=1,
    )
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "success"
    assert "1 processes were still running" in shim.of(wire.MessageRecord)[0].text


def test_a_late_renewal_shortens_no_lease_before_the_start() -> None:
    commands = Commands(deadline_boot_s=100.0)
    deadlines = []
    for command, deadline_boot_s in (
        ("renew", 50.0),
        ("renew", 110.0),
        ("start", 60.0),
        ("renew", 55.0),
    ):
        commands.apply({"command": command, "deadline_boot_s": deadline_boot_s})
        deadlines.append(commands.deadline_boot_s)
    assert deadlines == [100.0, 110.0, 60.0, 55.0]


def test_lease_deadline_kills_when_the_policy_says_so(shims: Any) -> None:
    shim = shims(WAIT, on_disconnect="stop", options={"deadline_boot_s": boot_clock() + 600.0})
    shim.start()
    shim.wait_state("RUNNING")
    shim.command("renew", deadline_boot_s=boot_clock() + 0.2)
    info = shim.wait_exit()
    assert info.cause == "shim_lost"
    assert "on_disconnect is 'stop'" in info.message


def test_lease_deadline_means_nothing_when_training_rides_outages_through(shims: Any) -> None:
    shim = shims("import time; time.sleep(0.5)", options={"deadline_boot_s": boot_clock() - 5.0})
    shim.start()
    assert shim.wait_exit().cause == "success"


def test_cut_lifeline_leaves_nothing_behind(shims: Any) -> None:
    read_end, write_end = os.pipe()
    shim = shims(WAIT, environment={"MUSTER_LIFELINE_FD": str(read_end)}, pass_fds=(read_end,))
    os.close(read_end)
    shim.start()
    shim.wait_state("RUNNING")
    os.close(write_end)
    info = shim.wait_exit()
    assert info.cause == "shim_lost"
    assert shim.process.wait(timeout=10) == 0
    assert shim.folder.processes() == set()


def test_worker_sees_its_environment_and_none_of_the_agents_secrets(shims: Any) -> None:
    shim = shims(
        "import json, os; print(json.dumps(dict(os.environ)))",
        slots=[0],
        world_size=1,
        environment={"MUSTER_AGENT_JOIN_TOKEN": "mst_join_x", "RANK": "99", "PET_NNODES": "4"},
    )
    shim.start()
    shim.wait_exit()
    seen = json.loads(shim.printed(0))
    assert "MUSTER_AGENT_JOIN_TOKEN" not in seen
    assert "PET_NNODES" not in seen
    assert (seen["RANK"], seen["MUSTER_TRIAL_ID"], seen["MUSTER_RESUME_FROM"]) == ("0", "7", "")
    assert seen["OMP_NUM_THREADS"] == "1"
    assert seen["CUDA_VISIBLE_DEVICES"] == ""
    config = json.loads(Path(seen["MUSTER_CONFIG_FILE"]).read_text())
    assert config == {"hparams": {"lr": 0.1}, "config": {"name": "digits"}, "seed": 5}
    assert Path(seen["MUSTER_CHECKPOINT_DIR"]).is_dir()
    assert len(seen["MUSTER_REPORT_SOCKET"]) < 100


REPORTER = """
import json, os, socket, sys, time
rank = int(os.environ["RANK"])
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["MUSTER_REPORT_SOCKET"])
def say(**m): s.sendall(json.dumps(m).encode() + b"\\n")
say(type="hello", local_rank=rank, rank=rank, world_size=2, node_rank=0, pid=os.getpid(),
    host="h", master_addr="m", master_port=1, device="cpu", backend="gloo", torch_version="2")
say(type="metrics", series=[dict(name="train/loss", steps=[1, 2], times_ms=[5, 6],
    values=[0.5, "NaN"])], step=2, local_rank=9, rank=9)
"""


def test_a_process_beside_the_worker_reports_a_run_of_its_own(shims: Any) -> None:
    shim = shims(
        "import muster, multiprocessing\n"
        "def train(n):\n"
        "    for step in range(3): muster.log({'loss': n}, step=step)\n"
        "    muster.init().flush()\n"
        "train(1)\n"
        "for n in (2, 3):\n"
        "    p = multiprocessing.get_context('fork').Process(target=train, args=(n,))\n"
        "    p.start(); p.join()\n"
        "muster.log({'loss': 4.0}, step=9)\n",
        slots=[0],
        world_size=1,
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    found: dict[str, list[Any]] = {}
    for record in shim.of(wire.MetricsRecord):
        for each in record.series:
            found.setdefault(each.name, []).extend(zip(each.steps, each.values, strict=True))
    assert found == {
        "loss": [(0, 1.0), (1, 1.0), (2, 1.0), (9, 4.0)],
        "run-2/loss": [(0, 2.0), (1, 2.0), (2, 2.0)],
        "run-3/loss": [(0, 3.0), (1, 3.0), (2, 3.0)],
    }
    assert len({w.pid for w in shim.of(wire.WorkerRecord) if w.reports}) == 1


def test_reports_are_recorded_in_order_under_the_rank_that_said_hello(shims: Any) -> None:
    shim = shims(
        REPORTER + 'say(type="group", name="world", kind="world", backend="gloo", ranks=[0, 1])\n'
        'say(type="checkpoint", step=2, path="step-2", size_bytes=3, files={"a": "b"})\n'
        'say(type="evaluation", name="test", step=2, classes=["a"], confusion=[[3]])\n'
        'say(type="metrics", series=[dict(name="x", steps=[1], times_ms=[1], values=["oops"])])\n'
        's.sendall(b"{\\"type\\": \\"metrics\\", \\"series\\": [{\\"name\\": NaN}]}\\n")\n'
        'say(type="from_the_future", a=1)\n'
        'say(type="message", level="info", text="done")\n'
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    metrics = shim.of(wire.MetricsRecord)
    assert sorted((m.local_rank, m.rank, m.step) for m in metrics) == [(0, 0, 2), (1, 1, 2)]
    assert metrics[0].series[0].values == [0.5, "NaN"]
    hellos = [w for w in shim.of(wire.WorkerRecord) if w.reports]
    assert sorted((w.rank, w.backend) for w in hellos) == [(0, "gloo"), (1, "gloo")]
    assert len(shim.of(wire.GroupRecord)) == len(shim.of(wire.CheckpointRecord)) == 2
    assert [e.confusion for e in shim.of(wire.EvaluationRecord)] == [[[3]], [[3]]]
    texts = [m.text for m in shim.of(wire.MessageRecord)]
    assert texts.count("done") == 2
    assert len([t for t in texts if "was refused" in t]) == 1
    assert len([t for t in texts if "values of 'x' are left out: value 'oops' is not" in t]) == 1


STARTS_WORKERS = (Path(support.__file__).parent / "nodes/starts_workers.py").read_text()


@pytest.mark.parametrize(
    ("code", "argument", "cause", "said"),
    [
        ("0", "raise", "success", ""),
        ("3", "go on", "success", ""),
        (
            "3",
            "raise",
            "user_error",
            "rank 0 exited with code 1: RuntimeError: a worker has failed",
        ),
    ],
)
def test_of_workers_that_a_plain_process_starts_it_decides_itself(
    shims: Any, code: str, argument: str, cause: str, said: str
) -> None:
    shim = shims(
        STARTS_WORKERS,
        launcher="plain",
        slots=[0],
        world_size=1,
        entrypoint=["main.py", argument],
        variables={"CODE": code},
    )
    shim.start()
    info = shim.wait_exit()
    assert (info.cause, [w.rank for w in info.workers]) == (cause, [0])
    assert said in info.message
    assert {m.rank for m in shim.of(wire.MetricsRecord)} == {0, 1, 2}


LISTENS = """
import os, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.bind(("127.0.0.1", int(os.environ["PORT"])))
s.listen()
print("listening", flush=True)
time.sleep(300)
"""
WANTS = """
import os, socket
try:
    socket.socket().bind(("127.0.0.1", int(os.environ["PORT"])))
except OSError as error:
    raise RuntimeError(f"port: {os.environ['PORT']}, name: EADDRINUSE, {error}") from None
"""


@pytest.mark.parametrize("launcher", ["plain", "shell"])
def test_a_port_that_another_job_holds_is_named_and_its_holder(shims: Any, launcher: str) -> None:
    port = str(free_port())
    alone: dict[str, Any] = {"launcher": "plain", "slots": [0], "world_size": 1}
    first = shims(LISTENS, allocation_id="first", variables={"PORT": port}, **alone)
    first.start()
    first.wait_state("RUNNING")
    wait_for(lambda: "listening" in first.printed(0))
    command = ["main.py"] if launcher == "plain" else [sys.executable, "main.py"]
    changes = {**alone, "launcher": launcher, "entrypoint": command}
    second = shims(WANTS, allocation_id="second", variables={"PORT": port}, **changes)
    second.start()
    info = second.wait_exit()
    trial = first.folder.read_spec().trial_id
    assert info.cause == "user_error"
    assert f"Port {port}, which the script has chosen, is in use on this node by another job, " in (
        info.message
    )
    assert f"trial {trial} of experiment 3" in info.message
    first.command("kill", reason="over")
    first.wait_exit()


def test_reporting_workers_hear_of_a_stop_before_any_signal(shims: Any) -> None:
    shim = shims(
        REPORTER + "f = s.makefile()\n"
        "while not (c := json.loads(f.readline()))['should_stop']: pass\n"
        "say(type='stopping')\ntime.sleep(2)\n"
        "left = c['deadline_boot_s'] - time.clock_gettime(time.CLOCK_BOOTTIME)\n"
        "print('saved', c['kind'], c['reason'], 0 < left < 3)\n",
        stop_grace_s=3.0,
    )
    shim.start()
    shim.wait_state("RUNNING")
    _wait_for_records(shim, wire.MetricsRecord, 2)
    shim.command("stop", reason="budget spent", kind="budget")
    info = shim.wait_exit()
    assert info.cause == "stopped"
    # 2 s is more than the half grace that silent reporters get.
    assert shim.printed(0) == "saved budget budget spent True\n"
    assert [w.exit_code for w in info.workers] == [0, 0]


def test_a_script_that_is_measured_from_outside_gets_the_signal_at_once(shims: Any) -> None:
    # It reports, but nothing in it listens: half of the grace would be lost.
    attached = REPORTER.replace('backend="gloo"', 'backend="gloo", attached=True')
    assert attached != REPORTER
    shim = shims(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print('saving', flush=True), sys.exit(0)))\n"
        + attached
        + "time.sleep(600)\n",
        stop_grace_s=600.0,
    )
    shim.start()
    shim.wait_state("RUNNING")
    _wait_for_records(shim, wire.MetricsRecord, 2)
    shim.command("stop", reason="make room", kind="preempt")
    info = shim.wait_exit(timeout_s=60)
    assert info.cause == "stopped"
    assert shim.printed(0) == "saving\n"


def test_survivors_of_a_failed_gang_are_ended_at_once(shims: Any) -> None:
    # Deaf to the request, as a rank is that waits in a collective for one that died elsewhere.
    shim = shims(REPORTER + "time.sleep(600)\n", stop_grace_s=300.0)
    shim.start()
    shim.wait_state("RUNNING")
    _wait_for_records(shim, wire.MetricsRecord, 2)
    shim.command("stop", reason="another member of the gang ended", kind="gang")
    info = shim.wait_exit()
    assert info.cause == "stopped"
    assert {w.signal for w in info.workers} == {signal.SIGTERM}


def test_survivors_of_a_failed_gang_that_ignore_it_are_killed_soon(shims: Any) -> None:
    shim = shims(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\ntime.sleep(600)\n",
        stop_grace_s=300.0,
    )
    shim.start()
    shim.wait_state("RUNNING")
    _wait_for_text(shim.log(0), "up")
    _wait_for_text(shim.log(1), "up")
    shim.command("stop", reason="another member of the gang ended", kind="gang")
    assert shim.wait_exit(timeout_s=60).cause == "killed"


def test_report_line_of_10_mb_is_refused_and_the_next_one_taken(shims: Any) -> None:
    shim = shims(
        REPORTER + 's.sendall(b"x" * 10_000_000 + b"\\n")\n'
        'say(type="message", level="info", text="still here")\n'
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert [m.text for m in shim.of(wire.MessageRecord)].count("still here") == 2


def test_another_users_connection_is_closed_at_once(shims: Any) -> None:
    shim = shims(WAIT)
    shim.start()
    shim.wait_state("RUNNING")
    mode = Path(shim.state.socket_dir).stat().st_mode & 0o777
    assert mode == 0o700
    with socket.socket(socket.AF_UNIX) as same_user:
        same_user.connect(str(Path(shim.state.socket_dir) / "job" / "report"))
        same_user.settimeout(0.2)
        with pytest.raises(TimeoutError):
            same_user.recv(1)


def test_log_line_of_50_mb_does_not_disturb(shims: Any) -> None:
    shim = shims(
        "import sys; sys.stdout.write('x' * 50_000_000); sys.stdout.flush(); sys.exit(3)",
        slots=[0],
        world_size=1,
    )
    shim.start()
    info = shim.wait_exit()
    assert info.message == "rank 0 exited with code 3"
    assert shim.log(0).stat().st_size == 50_000_000


def test_second_shim_of_the_same_allocation_gives_up(shims: Any) -> None:
    import subprocess
    import sys

    shim = shims(WAIT)
    shim.wait_state("READY")
    argv = [sys.executable, "-m", "muster_agent.shim", "--dir", str(shim.folder.path)]
    second = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    assert second.returncode == 3
    assert shim.command("status")["observed"] == "READY"


def _wait_for_numbers(files: list[Path]) -> list[int]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        texts = [f.read_text() if f.exists() else "" for f in files]
        if all(texts):
            return [int(t) for t in texts]
        time.sleep(0.02)
    pytest.fail("the grandchildren did not come up")


def _wait_for_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.02)
    pytest.fail(f"{text!r} never appeared in {path}")


def _wait_for_records(shim: Any, kind: type, count: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if len(shim.of(kind)) >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"fewer than {count} {kind.__name__}")


DUMPS = """
import os, time
path = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + os.environ["RANK"]
for number in range(12):
    with open(path, "a") as file:
        file.write("part ")
    if number == 0:
        print("up", flush=True)
    time.sleep(0.25)
with open(path, "a") as file:
    file.write("whole")
time.sleep(600)
"""


def test_a_stop_lets_torch_finish_the_dump_that_says_where_it_hangs(shims: Any) -> None:
    shim = shims(DUMPS, stop_grace_s=60.0)
    shim.start()
    for rank in (0, 1):
        _wait_for_text(shim.log(rank), "up")
    shim.command("stop", reason="it hangs")
    assert shim.wait_exit().cause == "stopped"
    dumps = sorted(shims.home.parent.rglob("flight-recorder-1-rank-*"))
    assert [dump.read_text().endswith("whole") for dump in dumps] == [True, True]
