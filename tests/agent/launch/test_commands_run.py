"""Entry points that are commands, and processes that are no ranks: real ones under real shims."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import muster
from muster import wire
from muster.launch import commands
from muster.launch.variables import SITE_FILE, SITE_LINE
from muster_agent.records.logs import find_logs, launcher_log

SEEN = "import json, os; print(json.dumps(dict(os.environ)))"
REPORTS = """
import muster
muster.init()
muster.log({"train/loss": 0.5}, step=1)
"""


@pytest.fixture
def shell(shims: Any) -> Callable[..., Any]:
    """Starts a shim of `bash run.sh` on one slot."""

    def start(script: str, **changes: Any) -> Any:
        (shims.code / "run.sh").write_text(script)
        given = {"launcher": "shell", "entrypoint": ["bash", "run.sh"]}
        shim = shims(
            changes.pop("python_script", ""),
            **{**given, "slots": [0], "world_size": 1, **changes},
        )
        shim.start(changes.get("rendezvous"))
        return shim

    return start


def said(shim: Any, stream: Any = "stdout") -> str:
    path = launcher_log(shim.folder.logs, stream)
    return path.read_text() if path.exists() else ""


def test_a_plain_process_is_one_and_no_rank(shims: Any) -> None:
    shim = shims(SEEN, launcher="plain", environment={"RANK": "5", "MASTER_PORT": "1"})
    shim.start()
    info = shim.wait_exit()
    assert info.cause == "success"
    assert [w.rank for w in info.workers] == [0]
    seen = json.loads(shim.printed(0))
    ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "PET_")
    assert not [name for name in seen if name.startswith(ranks)]
    assert seen["MUSTER_WORLD_SIZE"] == "2"
    assert shim.states() == ["PREPARING", "READY", "STARTING", "RUNNING", "EXITED"]


def test_a_plain_process_reports_as_rank_0_and_names_its_exception(shims: Any) -> None:
    shim = shims(REPORTS + "raise ValueError('bad batch')\n", launcher="plain")
    shim.start()
    info = shim.wait_exit()
    assert info.message == "rank 0 exited with code 1: ValueError: bad batch"
    workers = shim.of(wire.WorkerRecord)
    assert [(w.rank, w.world_size, w.reports) for w in workers] == [(0, 1, False), (0, 1, True)]
    (metrics,) = shim.of(wire.MetricsRecord)
    assert [s.name for s in metrics.series] == ["train/loss"]


def test_a_shell_script_runs_with_its_variables(shell: Any) -> None:
    shim = shell(
        "set -eu\n"
        'echo "$MASTER_ADDR $NNODES $NODE_RANK $NPROC_PER_NODE ${RANK-no rank}"\n'
        'echo "$MASTER_PORT" >&2\n'
        "command -v torchrun\n",
        slots=[0, 1],
        world_size=2,
    )
    assert shim.wait_exit().cause == "success"
    assert said(shim) == f"127.0.0.1 1 0 2 no rank\n{shim.folder.path}/bin/torchrun\n"
    assert 21_000 <= int(said(shim, "stderr")) <= 21_999
    assert "RUNNING" in shim.states()


@pytest.mark.parametrize(
    ("script", "cause", "message"),
    [
        ("echo 'no data' >&2; exit 3", "user_error", "`bash run.sh` exited with code 3: no data"),
        ("echo 'on stdout'; false", "user_error", "`bash run.sh` exited with code 1: on stdout"),
        (
            "python -c 'raise KeyError(7)'",
            "user_error",
            "`bash run.sh` exited with code 1: KeyError: 7",
        ),
        (
            "sh -c 'kill -SEGV $$'; exit $?",
            "killed_by_signal",
            "`bash run.sh` was killed by SIGSEGV",
        ),
        ("kill -KILL $$", "killed_by_signal", "`bash run.sh` was killed by SIGKILL"),
        ("exec nosuchprogram", "user_error", "nosuchprogram"),
    ],
)
def test_a_failed_script_is_the_users_and_says_why(
    shell: Any, script: str, cause: str, message: str
) -> None:
    info = shell(script).wait_exit()
    assert (info.cause, info.first_failure) == (cause, None)
    assert message in info.message


def test_what_a_script_leaves_running_is_ended(shell: Any) -> None:
    shim = shell("sleep 600 &\necho $!\n")
    assert shim.wait_exit().cause == "success"
    assert not psutil.pid_exists(int(said(shim)))
    assert any("still running" in m.text for m in shim.of(wire.MessageRecord))


SAVES = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(0.3)
    pathlib.Path("saved").write_text("yes")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""


def test_stop_reaches_the_program_that_a_script_waits_for(
    shell: Any, shims: Any, wait_for: Any
) -> None:
    """The shell itself ends at once, and what it has started still gets its time."""
    shim = shell("python main.py", python_script=SAVES)
    wait_for(lambda: said(shim) == "up\n")
    shim.command("stop", reason="enough")
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("stopped", "stopped (enough)")
    assert (shims.code / "saved").read_text() == "yes"


def test_a_script_that_does_not_stop_is_killed_with_all_it_started(
    shell: Any, wait_for: Any
) -> None:
    script = "trap '' TERM\nsetsid sleep 600 &\necho $!\nwhile :; do sleep 1; done\n"
    shim = shell(script, stop_grace_s=1.0)
    pid = wait_for(lambda: int(said(shim) or 0))
    shim.command("stop", reason="enough")
    assert shim.wait_exit().cause == "killed"
    assert not psutil.pid_exists(pid)


def test_kill_ends_the_whole_tree(shell: Any, wait_for: Any) -> None:
    shim = shell("sleep 600 & echo $!; wait")
    pid = wait_for(lambda: int(said(shim) or 0))
    shim.command("kill", reason="now")
    assert shim.wait_exit().cause == "killed"
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("changes", "blames", "message"),
    [
        ({"entrypoint": ["bash", "nosuch.sh"]}, "placement", "the entry point nosuch.sh does not exist"),
        ({"entrypoint": ["nosuchtool", "x"]}, "placement", f"the program nosuchtool of the entry point is on this node neither beside the interpreter {sys.executable} nor elsewhere on PATH"),
        ({"entrypoint": ["./run.sh"]}, "document", "the entry point ./run.sh is not an executable file; write `bash ./run.sh`"),
        ({"entrypoint": ["torchrun", "--nnodes=4", "main.py"]}, "document", "the entry point has --nnodes 4, but the trial has 1 node; leave the option out, or set resources.nodes: 4"),
        ({"launcher": "torchrun"}, "document", "launcher 'torchrun' starts Python scripts and modules, and bash is neither"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_run_is_refused_before_the_start(
    shims: Any, changes: dict[str, Any], blames: str, message: str
) -> None:
    (shims.code / "run.sh").write_text("true")
    given = {"launcher": "shell", "entrypoint": ["bash", "run.sh"], "slots": [0], "world_size": 1}
    shim = shims("", **{**given, **changes})
    state = shim.wait_state("PREPARE_FAILED")
    assert state.message.startswith(message)
    assert state.blames == blames


TRAIN = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
name = f"{sys.argv[1]}-{os.environ['RANK']}"
open(name, "w").write(f"{dist.get_world_size()} {int(total)}")
if name == "second-1" and len(sys.argv) > 2:
    raise ValueError("bad batch")
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_script_may_start_torchrun_several_times(shell: Any, shims: Any) -> None:
    shim = shell(
        "set -e\ntorchrun main.py first\ntorchrun --nproc-per-node=2 main.py second\n",
        python_script=TRAIN,
        slots=[0, 1],
        world_size=2,
    )
    info = shim.wait_exit(timeout_s=200)
    assert info.cause == "success", said(shim, "stderr")
    found = {p.name: p.read_text() for p in shims.code.glob("*-?")}
    assert found == dict.fromkeys(("first-0", "first-1", "second-0", "second-1"), "2 2")
    # Four processes, each found by its variables or by its own report.
    assert len({w.pid for w in shim.of(wire.WorkerRecord)}) == 4


@pytest.mark.torch
def test_a_rank_that_fails_under_a_script_is_named(shell: Any) -> None:
    shim = shell(
        "set -e\ntorchrun main.py second fail\n",
        python_script=TRAIN,
        slots=[0, 1],
        world_size=2,
    )
    info = shim.wait_exit(timeout_s=200)
    assert info.cause == "user_error"
    assert info.message == "rank 1 exited with code 1: ValueError: bad batch", info
    assert any("ValueError: bad batch" in line for line in info.log_tail)


@pytest.mark.torch
def test_the_users_own_torchrun_spans_nodes_and_has_a_log_per_worker(shims: Any) -> None:
    nodes = [
        shims(
            TRAIN + "print('done', os.environ['RANK'], flush=True)\n",
            allocation_id=f"gang{node_rank}",
            launcher="shell",
            entrypoint=["torchrun", "main.py", "gang"],
            node_rank=node_rank,
            num_nodes=2,
            slots=[0],
            rank_offset=node_rank,
            world_size=2,
        )
        for node_rank in (0, 1)
    ]
    ready = nodes[0].wait_state("READY", timeout_s=120)
    for node in nodes:
        node.start(ready.rendezvous)
    for number, node in enumerate(nodes):
        info = node.wait_exit(timeout_s=200)
        assert info.cause == "success", said(node, "stderr")
        (log,) = (
            file.path
            for file in find_logs(node.folder.logs)
            if (file.local_rank, file.stream) == (0, "stdout")
        )
        assert log.read_text() == f"done {number}\n"
    assert (shims.code / "gang-1").read_text() == "2 2"


def test_hosts_of_a_gang_are_listed_for_deepspeed(shims: Any) -> None:
    (shims.code / "run.sh").write_text('cat "$MUSTER_HOSTFILE"\n')
    shim = shims(
        "", launcher="shell", entrypoint=["bash", "run.sh"], num_nodes=2, slots=[0], world_size=2
    )
    shim.start(shim.wait_state("READY").rendezvous)
    assert shim.wait_exit().cause == "success"
    assert said(shim) == "node0 slots=1\nnode1 slots=1\n"


def test_programs_on_path_need_the_standard_library_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", commands.__file__, str(tmp_path / "deepspeed")],
        env={"PATH": os.defpath},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 127


FOUND = """
import importlib.util, mmap, os, sys, time
print("muster.launch.attach" in sys.modules, importlib.util.find_spec("muster") is not None, flush=True)
if len(sys.argv) > 1:
    library = open(sys.argv[1], "rb")
    mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
    time.sleep(300)
"""


@pytest.fixture
def other_python(tmp_path: Path, shims: Any) -> Path:
    """An interpreter with an environment of its own, and the SDK's folder beside it."""
    venv.create(tmp_path / "other", symlinks=True)
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "muster").symlink_to(Path(muster.__file__).parent)
    return tmp_path / "other" / "bin" / "python"


def run_replacing(shell: Any, tmp_path: Path, python: Path, arguments: str = "") -> Any:
    return shell(
        f"export PYTHONPATH=$PWD\nexec {python} {arguments}\n",
        python_script=FOUND,
        options={"sdk_path": str(tmp_path / "sdk")},
    )


@pytest.mark.parametrize("option", ["", "-I "])
def test_an_environment_of_ours_finds_us_where_a_script_replaces_pythonpath(
    shell: Any, tmp_path: Path, other_python: Path, option: str
) -> None:
    (site,) = (tmp_path / "other").glob("lib/python3*/site-packages")
    (site / SITE_FILE).write_text(SITE_LINE)
    shim = run_replacing(shell, tmp_path, other_python, f"{option}main.py")
    assert shim.wait_exit().cause == "success"
    assert said(shim) == "True True\n"


def test_another_environment_is_attached_with_the_sdk(
    shell: Any, tmp_path: Path, other_python: Path
) -> None:
    shim = shell(
        f"exec {other_python} main.py\n",
        python_script=FOUND,
        options={"sdk_path": str(tmp_path / "sdk")},
    )
    assert shim.wait_exit().cause == "success"
    assert (said(shim), said(shim, "stderr")) == ("True True\n", "")


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("", "PYTHONPATH was replaced: export PYTHONPATH=FOLDER:$PYTHONPATH keeps Muster's folder"),
        ("-I ", "python -I and -E ignore PYTHONPATH"),
    ],
)
def test_a_training_that_cannot_be_measured_is_told_once(
    shell: Any, tmp_path: Path, other_python: Path, wait_for: Any, option: str, why: str
) -> None:
    library = tmp_path / "other" / "torch" / "lib" / "libtorch_cpu.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"torch" * 1000)
    shim = run_replacing(shell, tmp_path, other_python, f"{option}main.py {library}")

    def told() -> list[str]:
        texts = [record.text for record in shim.of(wire.MessageRecord)]
        return [text for text in texts if "not measured" in text]

    (text,) = wait_for(told)
    assert text.startswith(f"The steps of `{other_python}"[:60])
    assert text.endswith(f"are not measured: {why}")
    shim.command("kill", reason="seen")
    assert shim.wait_exit().cause == "killed"
    assert len(told()) == 1
