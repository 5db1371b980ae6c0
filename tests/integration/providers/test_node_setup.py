"""Machines that are reached with ssh, through a real ssh server: added, upgraded, removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import support
from support.batch.sshd import Sshd, why_missing
from support.nodes.wheels import pack_installed
from support.stack import Stack, scripted, wait_for

pytestmark = [
    pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "sshd is here"),
]

BIN = str(Path(sys.executable).parent)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    pack_installed(folder, "muster-train[agent]")
    return folder


@pytest.fixture
def machine() -> Iterator[Sshd]:
    """A user's account: sessions see a home of their own."""
    with tempfile.TemporaryDirectory(prefix="muster-ssh-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        home.mkdir()
        variables = {
            "HOME": str(home),
            "PATH": f"{BIN}:/usr/bin:/bin",
            "MUSTER_AGENT_ISOLATION": "none",
            "MUSTER_AGENT_CONTAINERS": "none",
        }
        sshd = Sshd(Path(folder) / "sshd", variables)
        sshd.start()
        try:
            yield sshd
        finally:
            sshd.stop()
            for process in processes_of(home):
                process.kill()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The packages as an older version, which differs in a file."""
    for name in ("trainer/muster", "agent/muster_agent"):
        shutil.copytree(ROOT / name, tmp_path / Path(name).name)
    (tmp_path / "muster" / "older.txt").write_text("older")
    return tmp_path


def home_of(machine: Sshd) -> Path:
    return Path(machine.variables["HOME"])


def processes_of(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            is_ended = process.status() == psutil.STATUS_ZOMBIE
            if process.environ().get("HOME") == str(home) and not is_ended:
                found.append(process)
        except psutil.Error:
            continue
    return found


def run(
    stack: Stack, *words: str, packages: Path | None = None
) -> subprocess.CompletedProcess[str]:
    variables = Stack.environment(stack.home)
    if packages is not None:
        variables["PYTHONPATH"] = str(packages)
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", "node", *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def node_of(stack: Stack, name: str) -> dict[str, Any] | None:
    with stack.client() as client:
        return next((node for node in client.pages("/nodes") if node["name"] == name), None)


def tokens_of(stack: Stack) -> list[int]:
    """Join tokens that still work."""
    with stack.client() as client:
        return [token["id"] for token in client.pages("/join-tokens")]


def test_a_machine_is_added_upgraded_while_a_job_runs_and_removed(
    stack: Stack, machine: Sshd, wheels: Path, older: Path
) -> None:
    base = home_of(machine) / ".muster" / "node"
    of_agents = stack.home / "agents" / "join-token"
    wait_for("the token of the stack's own agents has ended", lambda: not of_agents.exists())
    tokens = set(tokens_of(stack))
    words = ["add", machine.host, *machine.options, "--name=added", "--pool=added", "--slots=1"]
    words.append(f"--wheels={wheels}")
    done = run(stack, *words, packages=older)
    assert done.returncode == 0, done.stderr
    assert "added is online: 1 slots in added." in done.stderr
    assert "after a restart of the machine" in done.stderr
    assert (base / "join-token").read_text() == ""
    assert (base / "settings").stat().st_mode & 0o077 == 0
    # Those of other tests may end meanwhile.
    assert set(tokens_of(stack)) <= tokens
    pid = (base / "agent.pid").read_text()
    again = run(stack, *words, packages=older)
    assert again.returncode == 0, again.stderr
    assert "added is online already, with this version." in again.stderr
    assert (base / "agent.pid").read_text() == pid

    steps = [{"checkpoint": 5}, {"wait_for_stop": 300, "exit": 0}]
    # What was installed there is the product, without what tests start.
    variables = {"PYTHONPATH": str(Path(support.__file__).parents[1])}
    resources = {"slots": 1, "pool": "added"}
    environment = {"variables": variables}
    document = scripted("upgraded", steps, resources=resources, environment=environment)
    with stack.client() as client:
        experiment_id = client.post("/experiments", {"document": document})["id"]

    def trial() -> dict[str, Any]:
        with stack.client() as client:
            (found,) = client.get(f"/experiments/{experiment_id}/trials")["items"]
            shown: dict[str, Any] = client.get(f"/trials/{found['id']}")
        return shown

    wait_for("it runs", lambda: trial()["state"] == "RUNNING", 60)
    before = (base / "current").resolve()
    done = run(stack, "upgrade", "added", f"--wheels={wheels}")
    assert done.returncode == 0, done.stderr
    assert "added is online with version" in done.stderr
    assert (base / "current").resolve() != before
    assert before.is_dir(), "its shim still runs from there"
    assert (base / "agent.pid").read_text() != pid
    shown = trial()
    assert (shown["state"], len(shown["attempts"])) == ("RUNNING", 1)
    done = run(stack, "upgrade", machine.host, *machine.options)
    assert "added has this version already." in done.stderr

    done = run(stack, "remove", "added")
    assert done.returncode == 1
    assert "of checkpoints and outputs, which would be deleted" in done.stderr
    done = run(stack, "remove", "added", "--with-checkpoints")
    assert done.returncode == 0, done.stderr
    assert "nothing is left on" in done.stderr
    assert node_of(stack, "added") is None
    assert list(home_of(machine).rglob("*")) == []
    assert processes_of(home_of(machine)) == []
    assert trial()["state"] == "QUEUED"
    with stack.client() as client:
        client.post(f"/experiments/{experiment_id}:kill")
    done = run(stack, "remove", machine.host, *machine.options)
    assert done.returncode == 0
    assert "nothing to remove" in done.stderr


def test_each_failure_names_its_step_and_what_to_do_and_leaves_nothing(
    stack: Stack, machine: Sshd, wheels: Path, tmp_path: Path
) -> None:
    tokens = tokens_of(stack)

    def add(*more: str) -> str:
        words = ["add", machine.host, *machine.options, "--name=refused", *more]
        done = run(stack, *words)
        assert done.returncode == 1, done.stderr
        assert node_of(stack, "refused") is None
        assert tokens_of(stack) == tokens
        assert not (home_of(machine) / ".muster" / "node" / "current").exists()
        return " ".join(done.stderr.split())

    machine.know("other_key")
    told = add()
    assert f"connecting on {machine.host}: ssh:" in told
    assert "Host key verification failed" in told
    assert "ssh-keygen -R" in told or "compare the fingerprint" in told
    machine.know("host_key")
    told = add(f"--identity={machine.folder}/other_key")
    assert "Permission denied" in told
    assert "--identity" in told
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no wheels (*.whl)" in add(f"--wheels={empty}")
    (empty / "nothing-1-py3-none-any.whl").write_bytes(b"")
    told = add(f"--wheels={empty}")
    assert f"installing on {machine.host}" in told
    assert "--wheels must have all" in told
    told = add(f"--wheels={wheels}", "--name=local-1")
    assert "There is a node local-1 already" in told
    machine.stop()
    told = add()
    assert "Connection refused" in told
    assert "check --port" in told


def test_a_machine_without_python_or_room_is_told_so(
    stack: Stack, machine: Sshd, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sed", "cut", "df", "awk", "uname", "id", "cat", "find", "du", "seq"):
        (programs / name).symlink_to(str(shutil.which(name)))
    machine.stop()
    machine.variables["PATH"] = str(programs)
    machine.start()
    done = run(stack, "add", machine.host, *machine.options)
    told = " ".join(done.stderr.split())
    assert f"checking on {machine.host}: there is no Python 3.11 or later; found none" in told
    assert "python3.11-venv" in told
    if os.geteuid() != 0:
        return
    machine.stop()
    machine.variables["PATH"] = f"{BIN}:/usr/bin:/bin"
    machine.start()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", machine.variables["HOME"]]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        done = run(stack, "add", machine.host, *machine.options)
    finally:
        subprocess.run(["umount", machine.variables["HOME"]], check=True)
    told = " ".join(done.stderr.split())
    assert "has 8 MiB free, and an agent needs 1024 MiB" in told
    assert "make room there" in told


def test_an_address_that_the_machine_does_not_reach_is_told_before_the_agent_starts(
    stack: Stack, machine: Sshd, wheels: Path
) -> None:
    url = "http://127.0.0.1:9"
    words = ["add", machine.host, *machine.options, "--name=far", f"--wheels={wheels}"]
    done = run(stack, *words, f"--server-url={url}")
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    assert f"reaching {url} on {machine.host}" in told
    assert "--server-url" in told
    assert processes_of(home_of(machine)) == []
    done = run(stack, "remove", machine.host, *machine.options)
    assert done.returncode == 0, done.stderr
    assert list(home_of(machine).rglob("*")) == []
