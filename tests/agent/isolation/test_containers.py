"""Jobs in containers of a real engine. Says what it skips where none works."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster import wire
from muster_agent.containers import upkeep
from muster_agent.containers.client import EngineFailed, call
from muster_agent.environments.build import find_uv
from muster_agent.isolation import walls
from muster_agent.isolation.containers import (
    ALLOCATION_LABEL,
    OWNER_LABEL,
    Container,
    Engine,
)
from muster_agent.isolation.levels import Walls
from muster_agent.isolation.walls import CannotIsolate
from muster_agent.records.logs import launcher_log
from muster_agent.settings import AgentSettings
from support.nodes import containers
from support.nodes.wheels import make_wheel

WAIT = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def containers_of(engine: Engine, allocation_id: str, owner: str) -> list[str]:
    """Containers of an allocation; another run on this machine may have one of the same number."""
    labels = (f"{ALLOCATION_LABEL}={allocation_id}", f"{OWNER_LABEL}={owner}")
    filters = [word for label in labels for word in ("--filter", f"label={label}")]
    return call(engine, "ps", "--all", "--quiet", *filters).split()


def owner_of(shim: Any) -> str:
    owner: str = shim.folder.owner.partition("@")[0]
    return owner


Start = Callable[..., Any]


@pytest.fixture
def run(contained: Start) -> Start:
    """Starts the shim of a job in a container; afterwards no container is left."""
    return contained


def relatives(container: str) -> dict[str, list[psutil.Process]]:
    """Return the processes of this machine that belong to a container, by what they are."""
    found: dict[str, list[psutil.Process]] = {"client": [], "watcher": []}
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
        except psutil.Error:
            continue
        if container in line and "run" in line:
            found["client"].append(process)
        elif line and Path(line[0]).name == "conmon" and container in line:
            found["watcher"].append(process)
    return found


def name_of(shim: Any) -> str:
    return f"muster-{shim.folder.owner.partition('@')[0]}-{shim.folder.allocation_id}"


def test_ranks_in_a_container_run_to_success_report_and_leave_nothing(
    run: Start, engine: Engine, tmp_path: Path, wait_for: Any
) -> None:
    shim = run(
        "import json, os, time, muster\n"
        "muster.init()\n"
        "muster.log({'loss': 0.5}, step=1)\n"
        "open(os.environ['MUSTER_WORK_DIR'] + '/written', 'w').write('x')\n"
        "shm = os.statvfs('/dev/shm')\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
        "print(json.dumps([os.environ['RANK'], os.getpid(), os.environ['TMPDIR'], os.getcwd(),"
        " shm.f_blocks * shm.f_frsize, os.path.exists('/home')]), flush=True)\n"
        "os.write(1, b'y' * 100_000 + b'last')\n",
        config={"environment": {"shm_size": "32MiB"}},
    )
    shim.wait_state("RUNNING")
    (environment,) = [s.environment for s in shim.of(wire.StateRecord) if s.environment]
    assert environment.image == containers.IMAGE
    assert re.fullmatch("[0-9a-f]{64}", environment.image_id)
    assert environment.python == sys.executable
    assert any(package.startswith("torch==") for package in environment.packages)
    (tmp_path / "code" / "go").touch()
    info = shim.wait_exit()
    assert info.cause == "success", (info, shim.words())
    assert [worker.exit_code for worker in info.workers] == [0, 0]
    pids = {w.rank: w.pid for w in shim.of(wire.WorkerRecord)}
    for rank in (0, 1):
        text = shim.printed(rank)
        said, pid, tmp, folder, shm_bytes, has_homes = json.loads(text.splitlines()[0])
        assert (said, tmp, folder) == (str(rank), "/tmp", str(tmp_path / "code"))
        assert (shm_bytes, has_homes) == (32 * 2**20, False)
        assert pid != pids[rank]
        assert text.endswith("last")
    (written,) = (tmp_path / "home" / "work").rglob("written")
    assert written.stat().st_uid == os.getuid()
    assert len(shim.of(wire.MetricsRecord)) == 2
    wait_for(
        lambda: not containers_of(engine, "a1", owner_of(shim)), what="its container is removed"
    )


@pytest.mark.parametrize("code", [7, 125, 126, 127])
def test_a_code_of_the_program_is_not_taken_for_one_of_the_engine(run: Start, code: int) -> None:
    script = f"import time; time.sleep(0.5); raise SystemExit({code})"
    shim = run(script, launcher="plain", slots=[0], world_size=1)
    info = shim.wait_exit()
    assert (info.cause, info.message) == ("user_error", f"rank 0 exited with code {code}")


def test_a_container_that_cannot_start_is_the_engines_failure(
    run: Start, engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "issue"
    file.touch()
    shim = run(
        WAIT, begin=False, slots=[0], world_size=1,
        config={"environment": {"mounts": [*containers.MOUNTS, f"{file}:/etc/issue"]}},
    )  # fmt: skip
    shim.wait_state("READY")
    file.unlink()
    file.mkdir()  # no engine puts a folder where the container has a file
    shim.command("start")
    info = shim.wait_exit()
    assert info.cause == "launcher_failed"
    assert info.message.startswith(f"{engine.kind} could not ")
    assert "issue" in info.message


@pytest.mark.parametrize("victim", ["client", "watcher", "shim"])
def test_nothing_survives_the_death_of_what_runs_a_container(
    run: Start, engine: Engine, wait_for: Any, victim: str
) -> None:
    shim = run(WAIT)
    shim.wait_state("RUNNING")
    assert len(containers_of(engine, "a1", owner_of(shim))) == 1
    if victim == "shim":
        shim.process.kill()
        shim.process.wait()
        assert shim.folder.processes()  # The container goes on without it.
        owner = owner_of(shim)
        assert upkeep.remove_orphans(engine, owner="another", is_kept=lambda _: False) == []
        assert upkeep.remove_orphans(engine, owner=owner, is_kept=lambda id: id == "a1") == []
        assert len(containers_of(engine, "a1", owner_of(shim))) == 1
        assert upkeep.remove_orphans(engine, owner=owner, is_kept=lambda _: False) == ["a1"]
    else:
        found = relatives(name_of(shim))[victim]
        if not found:
            pytest.skip(f"{engine.kind} has no such process for each container")
        for process in found:
            process.kill()
        info = shim.wait_exit()
        assert info.cause == "launcher_failed", info
    wait_for(lambda: not shim.folder.processes(), what="nothing is left")
    wait_for(
        lambda: not containers_of(engine, "a1", owner_of(shim)), what="its container is removed"
    )


def test_secrets_reach_the_job_and_no_command_line_and_not_the_engine(
    run: Start, engine: Engine, wait_for: Any
) -> None:
    value = "s3cret-of-a-test\nin two lines"
    reading, writing = os.pipe()
    os.write(writing, json.dumps({"HF_TOKEN": value, "LOGIN": "ann:pw-of-a-test"}).encode())
    os.close(writing)
    changes = {"secrets": ["HF_TOKEN", "LOGIN"], "slots": [0], "world_size": 1}
    section = {"secrets": ["HF_TOKEN"], "registry_login": "LOGIN"}
    shim = run(
        "import hashlib, os, time\n"
        "print(hashlib.sha256(os.environ['HF_TOKEN'].encode()).hexdigest(), 'LOGIN' in os.environ,"
        " [name for name in os.listdir('/tmp') if 'request' in name], flush=True)\n"
        "time.sleep(600)\n",
        begin=False,
        config={"environment": section},
        arguments=(f"--secrets-fd={reading}",),
        pass_fds=(reading,),
        **changes,
    )
    shim.start()
    log = shim.log(0)
    wait_for(lambda: log.exists() and log.read_text())
    assert log.read_text() == f"{hashlib.sha256(value.encode()).hexdigest()} False []\n"
    lines = " ".join(
        word
        for process in psutil.process_iter(["cmdline"])
        for word in process.info["cmdline"] or ()
    )
    shown = call(engine, "container", "inspect", name_of(shim))
    assert "of-a-test" not in lines + shown


def test_a_command_inside_runs_in_the_same_container(run: Start, wait_for: Any) -> None:
    shim = run(WAIT, slots=[0], world_size=1)
    shim.wait_state("RUNNING")
    session = wait_for(lambda: shim.command("session")["session"])
    process = {
        "argv": ["sh", "-c", "ls /home 2>&1; echo $MUSTER_CONTAINER; pwd; cat"],
        "environment": session["environment"],
        "folder": session["folder"],
    }
    container = wire.load(Container, session["container"])
    around = Walls(level="none", tmp=session["tmp"], container=container, own_uid=os.getuid())
    with walls.confined(around, [process], beside=session["beside"]) as (command, _):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, input="typed",
            env=walls.outer_environment(container),
        )  # fmt: skip
    homes, name, folder, typed = done.stdout.splitlines()
    assert "No such file" in homes, done.stderr
    assert (name, folder, typed) == (name_of(shim), session["folder"], "typed")


def test_stacks_of_a_worker_are_found_though_it_has_another_pid_inside(
    run: Start, wait_for: Any
) -> None:
    shim = run(
        "import os, time\nfrom muster.sdk.run import init\n"
        "def training_thread():\n    time.sleep(600)\n"
        "init()\ntraining_thread()\n",
        slots=[0],
        world_size=1,
    )
    wait_for(lambda: [w for w in shim.of(wire.WorkerRecord) if w.reports])
    shim.command("stacks", no=1)
    (record,) = wait_for(lambda: shim.of(wire.StacksRecord), what="stacks")
    assert (record.problem, "training_thread" in record.text) == ("", True)


@pytest.mark.parametrize("limit", ["memory", "processes", "disk"])
def test_a_job_that_exceeds_a_limit_ends_with_it_as_the_reason(run: Start, limit: str) -> None:
    scripts = {
        "memory": "x = bytearray(300_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\n",
        "processes": "import threading\nfor _ in range(60):\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n",
        "disk": "open('/tmp/big', 'wb').write(bytes(9_000_000))\n",
    }
    values = {"memory": "200MB", "processes": 40, "disk": "8MB"}
    script = f"import time\ntime.sleep(1)\n{scripts[limit]}time.sleep(600)\n"
    shim = run(script, slots=[0], world_size=1, config={"resources": {limit: values[limit]}})
    info = shim.wait_exit()
    assert info.cause == "limit_exceeded", info
    assert f"declared in resources.{limit}" in info.message


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"image": "localhost:1/none:1", "pull_policy": "missing"}, "could not be pulled: "),
        ({"image": "localhost/none:1"}, "pull_policy is never"),
        ({"mounts": ["/no/such/folder"]}, "/no/such/folder, which environment.mounts names"),
        ({"python": "/no/python"}, "the interpreter /no/python does not run"),
    ],
)
def test_what_the_node_lacks_is_the_reason_before_the_start(
    run: Start, section: dict[str, Any], said: str
) -> None:
    shim = run(WAIT, begin=False, config={"environment": section})
    state = shim.wait_state("PREPARE_FAILED")
    assert said in state.message
    if "pulled" in said:
        assert (
            "[setup] pulling localhost:1/none:1"
            in launcher_log(shim.folder.logs, "stdout").read_text()
        )


def test_a_node_that_isolates_jobs_gives_a_container_the_projects_user_and_no_foreign_folder(
    run: Start, engine: Engine, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    settings = AgentSettings(
        server_url="http://127.0.0.1",
        home=home,
        isolation="sandbox",
        job_reads=(tmp_path / "code", Path(sys.prefix), Path(sys.base_prefix)),
    )
    try:
        offer = walls.choose(settings, gpus=None)
    except CannotIsolate as error:
        pytest.skip(str(error))
    isolation = dataclasses.replace(offer, home=str(home / "homes" / "p1"))
    shim = run(
        "import os\nprint(os.getuid(), [l for l in open('/proc/self/status') if 'CapEff' in l],"
        " flush=True)\n",
        options={"isolation": isolation},
        slots=[0],
        world_size=1,
        config={"environment": {"mounts": [m for m in containers.MOUNTS if m != "/etc"]}},
    )
    assert shim.wait_exit().cause == "success", shim.words()
    uid = os.getuid() if isolation.uid is None else isolation.uid
    inner = 0 if engine.is_rootless and isolation.uid is None else uid
    assert shim.printed(0) == f"{inner} ['CapEff:\\t0000000000000000\\n']\n"
    refused = run(
        WAIT,
        begin=False,
        allocation_id="a2",
        options={"isolation": isolation},
        config={"environment": {"mounts": [*containers.MOUNTS, "/etc/ssl:/x:rw"]}},
    )
    assert "MUSTER_AGENT_JOB_WRITES" in refused.wait_state("PREPARE_FAILED").message


def test_removals_at_the_same_moment_leave_no_container(engine: Engine, tmp_path: Path) -> None:
    owner = f"test{os.getpid()}"
    ids = [f"busy{number}" for number in range(6)]
    for allocation_id in ids:
        labels = (f"{OWNER_LABEL}={owner}", f"{ALLOCATION_LABEL}={allocation_id}")
        call(engine, "create", *(f"--label={label}" for label in labels), containers.IMAGE, "/true")
    with ThreadPoolExecutor(len(ids)) as pool:
        one = partial(upkeep.remove, engine, owner=owner)
        removed = list(pool.map(lambda id: one(allocation_id=id), ids))
    assert removed == [True] * len(ids)
    assert [containers_of(engine, id, owner) for id in ids] == [[]] * len(ids)
    assert upkeep.remove_orphans(engine, owner=owner, is_kept=lambda _: False) == []


@pytest.mark.parametrize("num_failures", [2, 99])
def test_a_removal_is_tried_again_and_never_fails_in_silence(
    engine: Engine, tmp_path: Path, num_failures: int
) -> None:
    """The client of a busy engine, which cannot be made to fail at will."""
    client, count = tmp_path / "podman", tmp_path / "count"
    count.write_text("0")
    client.write_text(
        "#!/bin/sh\n"
        f"n=$(cat {count})\n"
        f"if [ $1 = rm ]; then echo $((n + 1)) > {count}; [ $n -lt {num_failures} ] &&"
        " { echo 'Error: container state improper' >&2; exit 2; }; exit 0; fi\n"
        f"[ $n -gt {num_failures} ] || echo abc\n"
    )
    client.chmod(0o755)
    busy = dataclasses.replace(engine, path=str(client))
    if num_failures == 2:
        assert upkeep.remove(busy, owner="o", allocation_id="a1")
        assert count.read_text() == "3\n"
    else:
        with pytest.raises(EngineFailed, match="allocation a1: container state improper"):
            upkeep.remove(busy, owner="o", allocation_id="a1")


def test_requirements_and_setup_are_laid_over_the_image(
    run: Start, engine: Engine, tmp_path: Path
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "tinypkg", "1.0")
    section = {
        "requirements": ["tinypkg"],
        "setup": ["echo made > $VIRTUAL_ENV/made"],
        "network": "none",
        "mounts": [*containers.MOUNTS, str(wheels)],
    }
    given: dict[str, Any] = {
        "slots": [0],
        "world_size": 1,
        "launcher": "torchrun",
        "options": {"environments": str(tmp_path / "environments"), "uv": find_uv()},
        "config": {"environment": section},
        "variables": {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"},
    }
    script = (
        "import os, sys, tinypkg, torch\n"
        "print(tinypkg.VERSION, torch.__file__, open(os.environ['VIRTUAL_ENV'] + '/made').read(),"
        " sys.prefix, sep='|', flush=True)\n"
    )

    def said(shim: Any) -> list[str]:
        texts = [path.read_text() for path in shim.folder.logs.rglob("stdout.log")]
        return next(text for text in texts if "|" in text).strip().split("|")

    first = run(script, **copy.deepcopy(given))
    assert first.wait_exit(timeout_s=120).cause == "success", first.words()
    version, torch, made, prefix = said(first)
    assert (version, torch.startswith(sys.prefix)) == ("1.0", True)
    assert made == "made\n"
    assert prefix.startswith(str(tmp_path / "environments"))
    (environment,) = [s.environment for s in first.of(wire.StateRecord) if s.environment]
    assert "tinypkg==1.0" in environment.packages
    words = launcher_log(first.folder.logs, "stdout").read_text()
    assert words.count("[setup] building an environment for") == 1
    assert "[setup] $ echo made" in words

    # Torch was found above: importing it takes most of the time of what follows.
    given["launcher"] = "direct"
    script = script.replace(", torch\n", "\n").replace("torch.__file__", "''")
    again = run(script, allocation_id="a2", **copy.deepcopy(given))
    assert again.wait_exit(timeout_s=120).cause == "success"
    assert not launcher_log(again.folder.logs, "stdout").exists() or "building" not in (
        launcher_log(again.folder.logs, "stdout").read_text()
    )
    # Another image under the same name: an environment of its own.
    changed = copy.deepcopy(given)
    changed["config"]["environment"]["image"] = "localhost/muster-other:1"
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("other"))
    subprocess.run(
        [engine.path, "import", "-", "localhost/muster-other:1"],
        input=empty.getvalue(), env=walls.outer_environment_of(engine), check=True,
        capture_output=True,
    )  # fmt: skip
    try:
        other = run(script, allocation_id="a3", **changed)
        assert other.wait_exit(timeout_s=120).cause == "success", other.words()
        assert said(other)[3] != prefix
    finally:
        upkeep.remove_orphans(
            engine, owner=first.folder.owner.partition("@")[0], is_kept=lambda _: False
        )
        call(engine, "rmi", "localhost/muster-other:1")


@pytest.mark.parametrize(
    ("section", "blames", "said"),
    [
        ({"requirements": ["no-such-package-here"]}, "document", "no-such-package-here"),
        ({"setup": ["echo it broke >&2; exit 3"]}, "document", "exited with code 3: it broke"),
    ],
)
def test_a_build_on_an_image_that_fails_says_why(
    run: Start, tmp_path: Path, section: dict[str, Any], blames: str, said: str
) -> None:
    shim = run(
        WAIT,
        begin=False,
        options={"environments": str(tmp_path / "environments"), "uv": find_uv()},
        config={"environment": section},
        variables={"UV_NO_INDEX": "1", "UV_OFFLINE": "1"},
    )
    state = shim.wait_state("PREPARE_FAILED", timeout_s=120)
    assert (state.blames, said in state.message) == (blames, True), state
    assert "[setup] failed:" in launcher_log(shim.folder.logs, "stdout").read_text()


def test_a_node_whose_engine_is_gone_says_so(run: Start) -> None:
    shim = run(WAIT, begin=False, options={"engine": None})
    state = shim.wait_state("PREPARE_FAILED")
    assert "needs a container engine, and none works on this node now" in state.message


ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(os.environ["RANK"], dist.get_world_size(), int(total), os.environ["MUSTER_CONTAINER"][-5:],
      flush=True)
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_gang_of_two_nodes_meets_in_containers(run: Start, engine: Engine) -> None:
    nodes = [
        run(
            ALL_REDUCE,
            begin=False,
            allocation_id=f"gang{node_rank}",
            launcher="torchrun",
            node_rank=node_rank,
            num_nodes=2,
            slots=[0],
            rank_offset=node_rank,
            world_size=2,
        )
        for node_rank in (0, 1)
    ]
    ready = nodes[0].wait_state("READY", timeout_s=120)
    other = nodes[1].wait_state("READY", timeout_s=120)
    assert ready.facts.image_id == other.facts.image_id != ""
    for node in nodes:
        node.start(ready.rendezvous)
    infos = [node.wait_exit(timeout_s=120) for node in nodes]
    assert [info.cause for info in infos] == ["success", "success"], infos
    said = sorted(
        path.read_text() for node in nodes for path in node.folder.logs.rglob("stdout.log")
        if "gang" in path.read_text()
    )  # fmt: skip
    assert said == ["0 2 2 gang0\n", "1 2 2 gang1\n"]
    for node in nodes:
        node.process.wait(60)
    owner = nodes[0].folder.owner.partition("@")[0]
    label = f"label={OWNER_LABEL}={owner}"
    assert call(engine, "ps", "--all", "--quiet", "--filter", label) == ""
