"""Jobs behind walls: real sandboxes on real processes. Says what it skips where they do not work."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.environments.build import find_uv
from muster_agent.environments.cleaning import collect, marker_of
from muster_agent.isolation import walls
from muster_agent.isolation.levels import Walls
from muster_agent.isolation.walls import CannotIsolate, Isolation
from muster_agent.records.logs import launcher_log
from muster_agent.settings import AgentSettings
from support.nodes.wheels import make_wheel

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def make_settings(**changes: Any) -> AgentSettings:
    return AgentSettings(**{"server_url": "http://127.0.0.1", **changes})


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user reaches."""
    folder = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(shims: Any, script: str, isolation: Isolation, **changes: Any) -> Any:
    shim = shims(script, options={"isolation": isolation}, **changes)
    shim.start()
    return shim


def test_workers_in_a_sandbox_run_to_success_and_see_little(shims: Any, sandbox: Isolation) -> None:
    shim = run(
        shims,
        "import json, os, sys, time\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "seen = [p for p in os.listdir('/proc') if p.isdigit()]\n"
        "print(json.dumps([os.environ['RANK'], os.getuid(), len(seen), os.listdir('/home'),"
        " os.environ['HOME'], os.environ['TMPDIR'], os.getcwd()]))\n",
        sandbox,
    )
    shim.wait_state("RUNNING")  # A worker that ends at once may not have been seen.
    code = shim.folder.path.parent.parent.parent / "code"
    (code / "go").touch()
    info = shim.wait_exit()
    assert info.cause == "success", shim.words()
    assert [w.exit_code for w in info.workers] == [0, 0]
    for rank in (0, 1):
        said, uid, num_processes, homes, home, tmp, folder = json.loads(shim.printed(rank))
        assert said == str(rank)
        assert uid == (os.getuid() if sandbox.uid is None else sandbox.uid)
        assert num_processes <= 5  # init, the starter, both ranks: one sandbox holds them all
        assert (homes, home, tmp) == ([], sandbox.home, "/tmp")
        assert folder == str(code)


MAKE_NAMESPACES = """
import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
for command in (["unshare", "-Ur", "id", "-u"], ["unshare", "-U", "--pid", "--fork", "true"]):
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.returncode, done.stdout.strip())
NEWUSER, SIGCHLD = 0x10000000, 17
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
pid = libc.syscall(clone, NEWUSER | SIGCHLD, 0, 0, 0, 0)
if pid == 0: os._exit(0)
print(pid > 0)
args = (ctypes.c_uint64 * 11)(NEWUSER, 0, 0, 0, SIGCHLD)
pid = libc.syscall(435, args, ctypes.sizeof(args))
if pid == 0: os._exit(0)
print(pid > 0)
thread = threading.Thread(target=lambda: print("a thread", subprocess.check_output(["echo", "and a child"], text=True), end=""))
thread.start(); thread.join()
"""


@pytest.mark.parametrize("may", [False, True])
def test_a_job_makes_user_namespaces_only_if_its_document_asks_for_it(
    shims: Any, sandbox: Isolation, may: bool
) -> None:
    shim = run(
        shims,
        MAKE_NAMESPACES,
        dataclasses.replace(sandbox, user_namespaces=may),
        slots=[0], world_size=1, launcher="plain",
    )  # fmt: skip
    assert shim.wait_exit().cause == "success", shim.words()
    said = shim.printed(0).splitlines()
    made = ["0 0", "0", "True", "True"] if may else ["1", "1", "False", "False"]
    assert said == [
        *(word + " " if word.isdigit() else word for word in made),
        "a thread and a child",
    ]


def test_exit_code_of_a_rank_in_a_sandbox_is_the_cause(shims: Any, sandbox: Isolation) -> None:
    shim = run(
        shims,
        "import os, sys, time\n"
        "if os.environ['RANK'] == '0': time.sleep(600)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "raise SystemExit(7)\n",
        sandbox,
    )
    shim.wait_state("RUNNING")
    (shim.folder.path.parent.parent.parent / "code" / "go").touch()
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("user_error", "rank 1 exited with code 7")
    assert {w.rank: w.signal for w in info.workers}[0] == signal.SIGTERM


def test_a_sandbox_dies_with_its_shim_and_leaves_nothing(
    shims: Any, sandbox: Isolation, wait_for: Any
) -> None:
    shim = run(
        shims,
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\ntime.sleep(600)\n",
        sandbox,
    )
    shim.wait_state("RUNNING")
    wait_for(lambda: len(shim.folder.processes()) >= 4, what="both ranks and what they forked")
    shim.process.kill()
    shim.process.wait()
    wait_for(lambda: not shim.folder.processes(), what="nothing is left")


def test_stacks_of_a_sandboxed_worker_are_found_though_it_has_another_pid_inside(
    shims: Any, sandbox: Isolation, wait_for: Any
) -> None:
    shim = run(
        shims,
        "import os, time\nfrom muster.sdk.run import init\n"
        "def training_thread():\n    print(os.getpid(), flush=True); time.sleep(600)\n"
        "init()\ntraining_thread()\n",
        sandbox,
        slots=[0],
        world_size=1,
    )
    wait_for(lambda: shim.printed(0))
    wait_for(lambda: [w for w in shim.of(wire.WorkerRecord) if w.reports])
    (worker,) = [w for w in shim.of(wire.WorkerRecord) if w.reports]
    assert int(shim.printed(0)) != worker.pid
    assert psutil.Process(worker.pid).environ()["RANK"] == "0"
    shim.command("stacks", no=1)
    wait_for(lambda: shim.of(wire.StacksRecord), what="stacks")
    (record,) = shim.of(wire.StacksRecord)
    assert (record.problem, "training_thread" in record.text) == ("", True)


def test_a_job_writes_its_checkpoints_and_its_work_folder(shims: Any, sandbox: Isolation) -> None:
    shim = run(
        shims,
        "import os\n"
        "open(os.path.join(os.environ['MUSTER_CHECKPOINT_DIR'], 'w'), 'w').write('x')\n"
        "open('/tmp/t', 'w').write('x'); open('/dev/shm/s', 'w').write('x')\n"
        "open(os.path.expanduser('~/h'), 'w').write('x')\n",
        sandbox,
        slots=[0],
        world_size=1,
    )
    assert shim.wait_exit().cause == "success", shim.log(0, "stderr").read_text()


@pytest.mark.parametrize("folder", ["/root", "/home/ann", "/root/.ssh", "/", "HOME"])
def test_a_document_cannot_open_what_the_sandbox_closes(
    shims: Any, sandbox: Isolation, tmp_path: Path, folder: str
) -> None:
    path = str(tmp_path / "home") if folder == "HOME" else folder
    if not Path(path).is_dir():
        pytest.skip(f"{path} does not exist here")
    (tmp_path / "x.py").write_text("")
    shim = shims(
        options={"isolation": sandbox},
        code=wire.CodeSpec(kind="installed", path=path),
        entrypoint=[str(tmp_path / "x.py")],
    )
    state = shim.wait_state("PREPARE_FAILED")
    assert "a job in a sandbox cannot read the code folder" in state.message


def test_a_level_that_does_not_work_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walls, "OUTER_PATH", str(tmp_path))
    asked = make_settings(home=tmp_path, isolation="sandbox")
    with pytest.raises(CannotIsolate, match="bubblewrap is not installed: install the package"):
        walls.choose(asked, gpus=None)
    auto = walls.choose(asked.model_copy(update={"isolation": "auto"}), gpus=None)
    assert (auto.level, auto.reason.split(":")[0]) == ("none", "bubblewrap is not installed")


def test_auto_is_the_default_and_leaves_user_ids_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUSTER_AGENT_ISOLATION")
    assert make_settings(home=tmp_path).isolation == "auto"
    if os.geteuid() != 0:
        pytest.skip("only agents that run as root have user ids for jobs")
    (first, *_) = [u for u in pwd.getpwall() if u.pw_uid >= 1_000]
    found = walls.choose(make_settings(home=tmp_path, uid_base=first.pw_uid), gpus=None)
    assert found.level == "none"
    assert f"/etc/passwd gives some of them to {first.pw_name}" in found.reason
    assert walls.in_words(found).startswith("Jobs can do whatever the agent's user can. Jobs would")


def test_auto_needs_a_storage_that_can_be_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("an agent without root hands nothing over")

    def squash(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(walls.os, "chown", squash)
    settings = make_settings(home=tmp_path, isolation="auto", storage_dir=tmp_path / "far" / "away")
    found = walls.choose(settings, gpus=None)
    assert found.level == "none"
    assert "cannot be handed over to users of jobs (Operation not permitted)" in found.reason
    assert list(tmp_path.iterdir()) == []


def test_auto_puts_jobs_with_gpus_into_the_sandbox_as_those_without(
    sandbox: Isolation, tmp_path: Path
) -> None:
    settings = make_settings(home=tmp_path, isolation="auto")
    without = walls.choose(settings, gpus=None)
    assert walls.choose(settings, gpus=["GPU-a"]).level == without.level


@pytest.fixture
def sandboxed(agent: Any, sandbox: Isolation, tmp_path: Path) -> Any:
    """An agent that puts its jobs into sandboxes."""
    agent.kill()
    agent.environment["MUSTER_AGENT_ISOLATION"] = "sandbox"
    agent.environment["MUSTER_AGENT_JOB_READS"] = str(tmp_path / "code")
    agent.start()
    return agent


def test_an_agent_tells_its_level_and_runs_jobs_at_it(
    sandboxed: Any, plane: Any, make_spec: Any, code: Any, tmp_path: Path, wait_for: Any
) -> None:
    secret = tmp_path / "agent" / "credential.json"
    script = (
        "import os\n"
        f"print('sees', os.path.exists({str(secret)!r}), os.listdir('/root'), flush=True)\n"
        f"print('others', [d for d in os.listdir({str(tmp_path / 'agent')!r})])\n"
        "open('/tmp/x', 'w').close()\n"
    )
    wait_for(
        lambda: plane.registrations and plane.registrations[-1]["inventory"]["isolation"] != "none"
    )
    inventory = plane.registrations[-1]["inventory"]
    assert (inventory["isolation"], inventory["isolation_reason"]) == ("sandbox", "")
    plane.want(make_spec(code=code(script), project_id=3, slots=[0], world_size=1))
    info = sandboxed.wait_exit("a1")
    assert info.cause == "success", (info, sandboxed.words())
    assert secret.exists()
    said = plane.of("a1").log_text(0)
    assert "sees False" in said
    assert "credential" not in said


def test_what_a_killed_agent_and_shim_leave_of_a_sandbox_is_ended_by_the_next_agent(
    sandboxed: Any, plane: Any, make_spec: Any, code: Any, wait_for: Any
) -> None:
    plane.want(make_spec(code=code(WAIT)))
    sandboxed.wait_state("a1", "RUNNING")
    folder = sandboxed.folder("a1")
    sandboxed.kill()
    os.kill(folder.read_state().pid, signal.SIGKILL)
    sandboxed.start()
    assert sandboxed.wait_exit("a1").cause == "shim_lost"
    assert folder.processes() == set()


def test_an_agent_whose_level_does_not_work_says_so_and_ends(tmp_path: Path) -> None:
    run_agent = [sys.executable, "-m", "muster_agent.cli", "run", "--home", str(tmp_path / "agent")]
    # A container without this capability forbids what both levels need.
    weak = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    done = subprocess.run(
        [*weak, *run_agent] if os.geteuid() == 0 else run_agent,
        env={
            **os.environ,
            "MUSTER_AGENT_SERVER_URL": "http://127.0.0.1:1",
            "MUSTER_AGENT_ISOLATION": "user",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "MUSTER_AGENT_ISOLATION is user, which does not work here." in done.stderr


def test_a_plain_process_behind_walls_is_stopped_by_a_signal_of_its_own(
    shims: Any, sandbox: Isolation, wait_for: Any
) -> None:
    shim = run(
        shims,
        "import signal, sys, time\n"
        "def end(*_):\n    print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\ntime.sleep(600)\n",
        sandbox,
        launcher="plain",
    )
    wait_for(lambda: shim.printed(0))

    def is_seen() -> bool:
        records = shim.of(wire.WorkerRecord)
        return bool(records) and "bwrap" not in psutil.Process(records[-1].pid).name()

    wait_for(is_seen)
    shim.command("stop", reason="a test")
    assert shim.wait_exit().cause == "stopped"
    assert shim.printed(0) == "up\nsaved\n"


def test_a_stop_of_a_sandboxed_shell_script_waits_for_what_it_has_started(
    shims: Any, sandbox: Isolation, tmp_path: Path, wait_for: Any
) -> None:
    (tmp_path / "code" / "run.sh").write_text(
        'python3 -c "\n'
        "import signal, sys, time\n"
        "def end(*_): time.sleep(1); print('saved', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)\n"
        '"\n'
    )
    shim = run(
        shims,
        "",
        sandbox,
        launcher="shell",
        entrypoint=["bash", "run.sh"],
        slots=[0],
        world_size=1,
        stop_grace_s=20.0,
    )
    log = shim.folder.logs / "launcher" / "stdout.log"
    wait_for(lambda: log.exists() and "up" in log.read_text())
    shim.command("stop", reason="a test")
    assert shim.wait_exit().cause == "stopped"
    assert log.read_text() == "up\nsaved\n"


def test_steps_of_a_batch_script_reach_the_sandboxes_of_all_nodes(
    shims: Any, sandbox: Isolation, tmp_path: Path, wait_for: Any
) -> None:
    (tmp_path / "code" / "job.sbatch").write_text(
        "#!/bin/bash\n"
        'echo "$(srun -l touch $SLURM_TMPDIR/x) $(srun ls $SLURM_TMPDIR | wc -l)"\n'
        "srun sh -c 'trap \"sleep 1; echo saved; exit 0\" TERM; echo up; sleep 600 & wait'\n"
    )
    gang = [
        shims(
            "",
            options={"isolation": sandbox},
            allocation_id=f"gang{rank}",
            launcher="shell",
            entrypoint=["sbatch", "job.sbatch"],
            node_rank=rank,
            num_nodes=2,
            slots=[0],
            rank_offset=rank,
            world_size=2,
            gang_key="key",
            stop_grace_s=20.0,
        )
        for rank in (0, 1)
    ]
    rendezvous = gang[0].wait_state("READY").rendezvous
    for shim in gang:
        shim.start(rendezvous)
    wait_for(lambda: all("up" in shim.printed(0) for shim in gang))
    for shim in gang:
        shim.command("stop", reason="a test")
    assert [shim.wait_exit().cause for shim in gang] == ["stopped", "stopped"]
    assert [shim.printed(0) for shim in gang] == ["up\nsaved\n"] * 2
    assert (gang[0].folder.logs / "launcher" / "stdout.log").read_text() == " 2\n"


def test_a_command_inside_a_sandboxed_job_is_behind_the_same_walls(
    shims: Any, sandbox: Isolation, wait_for: Any
) -> None:
    shim = run(shims, WAIT, sandbox)
    shim.wait_state("RUNNING")
    session = wait_for(lambda: shim.command("session")["session"])
    process = {
        "argv": ["sh", "-c", "id -u; ls /proc | grep -c '^[0-9]'; ls /home; echo $RANK$HOME; pwd"],
        "environment": session["environment"],
        "folder": session["folder"],
    }
    around = Walls(level=sandbox.level, uid=sandbox.uid)
    with walls.confined(around, [process], beside=session["beside"]) as (command, fds):
        done = subprocess.run(
            command, capture_output=True, text=True, pass_fds=fds, check=False, timeout=60
        )
    uid, num_processes, *said = done.stdout.split()
    assert int(uid) == (os.getuid() if sandbox.uid is None else sandbox.uid), done.stderr
    assert int(num_processes) <= 10
    assert said == [sandbox.home, session["folder"]]


def test_caches_of_the_agent_hold_where_the_job_sees_them(tmp_path: Path) -> None:
    for name in ("seen", "hidden"):
        (tmp_path / name).mkdir()
    isolation = Isolation(
        level="sandbox", hidden=[str(tmp_path)], write=[str(tmp_path / "seen")], home="/h"
    )
    given = {
        "A": "1",
        "HF_HOME": str(tmp_path / "seen"),
        "TORCH_HOME": str(tmp_path / "hidden"),
        "MPLCONFIGDIR": "/no/such/folder",
        "XDG_CACHE_HOME": str(tmp_path / "seen"),
    }
    found = walls.inside(isolation, given, of_user=[])
    own = {"PATH": walls.OUTER_PATH, "HOME": "/h", "TMPDIR": "/tmp"}
    assert found == {"A": "1", "HF_HOME": str(tmp_path / "seen"), **own}
    assert walls.inside(isolation, given, of_user=["TORCH_HOME"])["TORCH_HOME"].endswith("hidden")


def test_a_data_set_of_the_document_can_be_read_unless_it_is_closed_to_others(
    shims: Any, sandbox: Isolation, place: Path
) -> None:
    home = place / "ann"
    sets = home / "sets"
    sets.mkdir(parents=True)
    (sets / "words.txt").write_text("from far away")
    script = (
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['MUSTER_DATA_WORDS'])\n"
        "print((folder / 'words.txt').read_text(), list(folder.parent.iterdir()) == [folder])\n"
        "try: (folder / 'x').touch()\n"
        "except OSError: print('read-only')\n"
    )
    (home / "other").mkdir()
    one = {"slots": [0], "world_size": 1, "config": {"name": "x", "data": {"words": str(sets)}}}
    shim = run(shims, script, sandbox, **one)
    assert shim.wait_exit().cause == "success", shim.log(0, "stderr").read_text()
    assert shim.printed(0) == "from far away True\nread-only\n"
    if sandbox.uid is None:
        pytest.skip("an agent without root opens what its user can read")
    home.chmod(0o700)
    refused = shims(script, allocation_id="a2", options={"isolation": sandbox}, **one)
    message = refused.wait_state("PREPARE_FAILED").message
    assert "a folder above it, is closed to other users of the machine" in message
    assert "MUSTER_AGENT_JOB_READS" in message


HOSTILE_SETUP = """
import json, os, pathlib, sys
def can(action):
    try:
        action()
    except OSError:
        return False
    return True
agent, mine = pathlib.Path(sys.argv[1]), pathlib.Path(os.environ["VIRTUAL_ENV"])
print("could", json.dumps({
    "read the credential": can((agent / "credential.json").read_text),
    "list environments": mine.parent.name == "project-1" and len(list(mine.parent.iterdir())),
    "list projects": sorted(p.name for p in mine.parents[1].iterdir()),
    "write beside": can((mine.parent / "x.complete").touch),
    "write into the agent": can((agent / "x").touch),
    "see homes": os.listdir("/home"),
    "see processes": len([p for p in os.listdir("/proc") if p.isdigit()]) > 10,
}), flush=True)
pathlib.Path.home().joinpath("made").write_text("by setup")
"""


def test_an_environment_is_built_behind_walls_for_its_project_alone(
    shims: Any, sandbox: Isolation, tmp_path: Path, wait_for: Any
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "tinypkg", "1.0")
    home = tmp_path / "home"
    (home / "credential.json").write_text("secret")
    (home / "credential.json").chmod(0o600)
    (tmp_path / "code" / "setup.py").write_text(HOSTILE_SETUP)
    script = (
        "import os, pathlib, sys, tinypkg, torch\n"
        "try: pathlib.Path(sys.prefix, 'x').touch()\n"
        "except OSError: print('read-only', end=' ')\n"
        "print(tinypkg.VERSION, pathlib.Path.home().joinpath('made').exists(), sys.prefix)\n"
    )

    def start(allocation_id: str, project_id: int) -> Any:
        isolation = dataclasses.replace(
            sandbox,
            uid=None if sandbox.uid is None else sandbox.uid + project_id,
            home=str(home / "homes" / f"project-{project_id}"),
            read=[*sandbox.read, str(wheels)],
        )
        shim = shims(
            script,
            allocation_id=allocation_id,
            project_id=project_id,
            slots=[0],
            world_size=1,
            config={
                "name": "x",
                "environment": {
                    "requirements": ["tinypkg"],
                    "setup": [f"python setup.py {home}"] if project_id == 1 else [],
                },
            },
            options={
                "isolation": isolation,
                "environments": str(home / "environments"),
                "uv": find_uv(),
            },
            environment={"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"},
        )
        shim.start()
        return shim

    first = start("a1", 1)
    assert first.wait_exit(timeout_s=120).cause == "success", first.log(0, "stderr").read_text()
    log = launcher_log(first.folder.logs, "stdout").read_text()
    (could,) = [line for line in log.splitlines() if line.startswith("could ")]
    assert json.loads(could.removeprefix("could ")) == {
        "read the credential": False,
        "list environments": 2,  # its own, and uv's cache
        "list projects": ["project-1"],
        "write beside": False,
        "write into the agent": False,
        "see homes": [],
        "see processes": False,
    }
    environments = home / "environments"
    said = first.printed(0).split()
    assert said[:3] == ["read-only", "1.0", "True"]
    assert said[3].startswith(str(environments / "project-1"))
    other = start("a2", 2)
    assert other.wait_exit(timeout_s=120).cause == "success", other.log(0, "stderr").read_text()
    said = other.printed(0).split()
    assert said[:3] == ["read-only", "1.0", "False"]
    assert said[3].startswith(str(environments / "project-2"))
    # What was built is the agent's: it counts, and is deleted, as a whole.
    built = [p for p in environments.glob("project-*/*") if marker_of(p).exists()]
    assert len(built) == 2
    assert {p.stat().st_uid for b in built for p in (b, *b.rglob("*.pth"))} == {os.getuid()}
    collected: set[Path] = set()

    def are_gone() -> bool:
        collected.update(collect(environments, limit_bytes=0))
        return not any(b.exists() for b in built)

    wait_for(are_gone, what="an environment is in use until its shim has ended")
    assert collected == {b.parent for b in built}


def test_a_stop_ends_a_build_behind_walls(shims: Any, sandbox: Isolation, wait_for: Any) -> None:
    shim = shims(
        "",
        config={"name": "x", "environment": {"setup": ["echo up; exec sleep 600"]}},
        options={
            "isolation": sandbox,
            "environments": str(shims.home / "environments"),
            "uv": find_uv(),
        },
    )
    log = launcher_log(shim.folder.logs, "stdout")
    wait_for(lambda: log.exists() and "up" in log.read_text().split())
    shim.command("stop", reason="enough")
    assert shim.wait_exit().cause == "stopped"


def test_a_gang_of_two_nodes_meets_from_inside_two_sandboxes(
    shims: Any, sandbox: Isolation
) -> None:
    """Two agents of one machine: their torchruns have the same address and the same pid. One of them
    has two workers, which share its sandbox."""
    script = (
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.ones(1); dist.all_reduce(total)\n"
        "print('sum', total.item(), os.environ['RANK'], flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    nodes = [
        shims(
            script,
            options={"isolation": sandbox},
            allocation_id=f"gang{node_rank}",
            # Two nodes of one trial have no work folder in common, as these have.
            trial_id=7 + node_rank,
            launcher="torchrun",
            node_rank=node_rank,
            num_nodes=2,
            slots=[0, 1] if node_rank == 0 else [0],
            rank_offset=2 * node_rank,
            world_size=3,
        )
        for node_rank in (0, 1)
    ]
    rendezvous = nodes[0].wait_state("READY", timeout_s=120).rendezvous
    nodes[1].wait_state("READY", timeout_s=120)
    for node in nodes:
        node.start(rendezvous)
    infos = [node.wait_exit(timeout_s=180) for node in nodes]
    assert [info.cause for info in infos] == ["success", "success"], infos
    for node, ranks in zip(nodes, ({0, 1}, {2}), strict=True):
        logs = node.folder.logs.glob("torchrun/*/attempt_0/*/stdout.log")
        assert sorted(log.read_text() for log in logs) == [f"sum 3.0 {rank}\n" for rank in ranks]
        workers = [w for w in node.of(wire.WorkerRecord) if not w.reports]
        assert {w.rank for w in workers} == ranks


@pytest.mark.parametrize(
    ("script", "cause", "message"),
    [
        ("", "success", ""),
        (
            "import os, sys, time\nif os.environ['RANK'] == '0': time.sleep(600)\nsys.exit(7)\n",
            "user_error",
            "rank 1 exited with code 7",
        ),
    ],
)
def test_ranks_in_a_sandbox_that_end_at_once_are_seen(
    shims: Any, sandbox: Isolation, script: str, cause: str, message: str
) -> None:
    info = run(shims, script, sandbox).wait_exit()
    assert (info.cause, len(info.workers)) == (cause, 2)
    assert message in info.message


UPLOAD = """
import json, os, pathlib, urllib.request
rank = os.environ["RANK"]
root = os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0"

def call(method, path, body):
    token = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
    request = urllib.request.Request(root + path, body, token, method=method)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)

run = call("POST", "/mlflow/runs/create", b'{"run_name": "main"}')["run"]["info"]["run_id"]
call("PUT", f"/mlflow-artifacts/artifacts/0/{run}/artifacts/a/x.txt", b"hello")
folder = "rank-1" if rank == "1" else "main"
file = pathlib.Path(os.environ["MUSTER_OUTPUT_DIR"], "mlflow", folder, "artifacts/a/x.txt")
assert file.read_text() == "hello"
assert (file.stat().st_uid, file.parent.stat().st_uid) == (os.getuid(), os.getuid())
file.write_text("mine")  # The job's own, as what it writes itself.
"""


def test_a_job_in_a_sandbox_reaches_the_tracking_server(shims: Any, sandbox: Isolation) -> None:
    shim = run(shims, UPLOAD, sandbox)
    assert shim.wait_exit().cause == "success", shim.log(0, "stderr").read_text()
    assert {r.label for r in shim.of(wire.TrackedRunRecord)} == {"", "rank-1"}
    (home,) = {path.parent for path in shim.folder.path.parents if path.name == "allocations"}
    assert len(list(home.glob("work/*/files/muster-outputs/mlflow/*/run.json"))) == 2


def test_limits_hold_in_a_sandbox(shims: Any, sandbox: Isolation) -> None:
    script = (
        "import time\nheld = []\n"
        "for _ in range(20):\n    held.append(bytearray(b'x' * 20_000_000)); time.sleep(0.05)\n"
        "time.sleep(60)\n"
    )
    resources = {"memory": "150MB", "disk": "1GB"}
    shim = run(shims, script, sandbox, config={"name": "digits", "resources": resources})
    info = shim.wait_exit()
    assert info.cause == "limit_exceeded", info
    assert "of memory of the 150.0 MB declared in resources.memory" in info.message
