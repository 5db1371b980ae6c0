"""Sessions on a real stack: started, entered by OpenSSH's client and over HTTP, and ended when idle."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from support.guides import GUIDES, console_lines, last_id, shell
from support.ports import free_port
from support.stack import Stack, wait_for


@pytest.fixture(scope="module")
def walled() -> Iterator[Stack]:
    """A node whose jobs are behind walls where this machine can build them."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder) / "home", agents=1, slots=2, isolation="auto")
        stack.start()
        yield stack
        stack.close()


def started(stack: Stack, *options: str) -> int:
    done = stack.cli("session", "start", *options)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture(scope="module")
def by_ssh(walled: Stack) -> Iterator[int]:
    number = started(walled, "--kind", "ssh", "--idle", "10m")
    yield number
    walled.cli("session", "stop", str(number))
    with walled.client() as client:
        client.wait(number, timeout_s=60)


@pytest.fixture
def ssh(walled: Stack) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """`ssh("ssh", …)` runs a program of OpenSSH with the configuration that `muster ssh-config` writes."""
    done = walled.cli("ssh-config", "--print")
    assert done.returncode == 0, done.stderr

    def run(program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [program, "-F", str(walled.home / "ssh" / "config"), *arguments],
            env=Stack.environment(walled.home),
            capture_output=True,
            timeout=90,
            check=False,
            **more,
        )

    return run


def test_ssh_runs_commands_as_the_job_and_passes_their_input_output_and_exit_code(
    by_ssh: int, ssh: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    data = os.urandom(3_000_000)
    host = f"muster-{by_ssh}"
    done = ssh("ssh", host, "sha256sum; echo $MUSTER_EXPERIMENT_ID >&2; exit 7", input=data)
    assert done.returncode == 7, done.stderr
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert done.stderr.strip().decode() == str(by_ssh)
    assert ssh("ssh", host, "true", input=data).returncode == 0, "a command that reads nothing"


def test_files_go_both_ways(
    by_ssh: int, ssh: Callable[..., subprocess.CompletedProcess[bytes]], tmp_path: Path
) -> None:
    data = os.urandom(2_000_000)
    (tmp_path / "there").write_bytes(data)
    host = f"muster-{by_ssh}"
    for old in ((), ("-O",)):  # By sftp, and by the protocol of older clients.
        sent = ssh("scp", *old, str(tmp_path / "there"), f"{host}:file")
        assert sent.returncode == 0, sent.stderr
        back = ssh("scp", *old, f"{host}:file", str(tmp_path / "back"))
        assert back.returncode == 0, back.stderr
        assert (tmp_path / "back").read_bytes() == data
    listed = ssh("sftp", "-b", "-", host, input=b"ls\n")
    assert (listed.returncode, b"file" in listed.stdout) == (0, True), listed.stderr


def test_a_terminal_has_its_size_and_its_shell_ends_with_its_code(
    by_ssh: int, ssh: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    done = ssh("ssh", "-tt", f"muster-{by_ssh}", input=b"tty; echo $TERM-$((40+2)); exit 5\n")
    assert done.returncode == 5, done.stderr
    assert b"/dev/pts/" in done.stdout
    assert b"-42" in done.stdout


def test_a_forwarded_port_reaches_a_server_in_the_job_as_vs_code_does_it(
    walled: Stack, by_ssh: int, ssh: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    there, here = free_port(), free_port()
    host = f"muster-{by_ssh}"
    # It installs its server by a command, starts it in a session of its own, and forwards its port.
    serve = (
        f"nohup {sys.executable} -m http.server {there} --bind 127.0.0.1 >serve.log 2>&1 & echo $!"
    )
    pid = ssh("ssh", host, f"echo hello > index.html; {serve}").stdout.strip().decode()
    forward = subprocess.Popen(
        ["ssh", "-F", str(walled.home / "ssh" / "config"), "-N", "-L", f"{here}:127.0.0.1:{there}", host],
        env=Stack.environment(walled.home),
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:

        def answer() -> str | None:
            try:
                return httpx.get(f"http://127.0.0.1:{here}/", trust_env=False).text
            except httpx.TransportError:
                return None

        assert wait_for("the forwarded port", answer, 60).strip() == "hello"
    finally:
        forward.terminate()
        forward.wait()
        ssh("ssh", host, f"kill {pid}")


def _address(stack: Stack, number: int) -> dict[str, Any]:
    done = stack.cli(
        "exec", str(number), "--", "sh", "-c", 'cat "$MUSTER_SESSION_DIR/address.json"'
    )
    address: dict[str, Any] = json.loads(done.stdout)
    return address


def test_a_stranger_gets_in_neither_by_muster_nor_from_the_node(
    walled: Stack, by_ssh: int, tmp_path: Path
) -> None:
    with walled.client() as client:
        made = client.post("/users", {"username": "bob", "kind": "service", "role": "member"})
        token = client.post(f"/users/{made['id']}/tokens", {"name": "t"})["secret"]
    others = {
        **Stack.environment(tmp_path / "home"),
        "MUSTER_URL": walled.url,
        "MUSTER_TOKEN": token,
    }
    for command in (["session", "proxy", f"muster-{by_ssh}"], ["exec", str(by_ssh), "--", "ls"]):
        done = subprocess.run(
            [sys.executable, "-m", "muster.cli", *command],
            env=others, capture_output=True, text=True, timeout=60, check=False, input="",
        )  # fmt: skip
        assert done.returncode != 0
        assert "its owner and administrators may change it" in done.stderr, done.stderr
    # Whoever has an account on the node reaches the port, and has no key that it lets in.
    port = _address(walled, by_ssh)["port"]
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True
    )
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "BatchMode=yes", "-i", str(tmp_path / "key"), "-p", str(port)]
    denied = subprocess.run(
        ["ssh", "-F", "none", *options, "muster@127.0.0.1", "true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert denied.returncode == 255
    assert "Permission denied" in denied.stderr


@pytest.fixture
def notebook(walled: Stack) -> Iterator[tuple[int, str, str]]:
    """A Jupyter session: its number, its address on this machine, and its token."""
    number = started(walled, "--kind", "jupyter", "--idle", "10m")
    opened = subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "session", "open", str(number), "--no-browser"],
        env=Stack.environment(walled.home),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert opened.stderr is not None
        said = opened.stderr.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", said)
        assert found is not None, said + opened.stderr.read()
        yield number, found[1], found[2].rstrip(".")
    finally:
        opened.send_signal(signal.SIGINT)
        opened.communicate(timeout=30)
        walled.cli("session", "stop", str(number))
        with walled.client() as client:
            client.wait(number, timeout_s=60)


def test_jupyter_runs_code_in_the_job_for_who_has_its_token(
    walled: Stack, notebook: tuple[int, str, str]
) -> None:
    number, url, token = notebook
    headers = {"Authorization": f"token {token}"}
    assert httpx.get(f"{url}/api/kernels", trust_env=False).status_code == 403
    kernel = httpx.post(f"{url}/api/kernels", headers=headers, trust_env=False, timeout=60).json()
    way = f"{url.replace('http', 'ws', 1)}/api/kernels/{kernel['id']}/channels"
    with connect(way, additional_headers=headers, proxy=None) as socket_:
        code = "import os, time; print('in', os.environ['MUSTER_EXPERIMENT_ID']); time.sleep(600)"
        message = {
            "header": {"msg_id": "1", "msg_type": "execute_request", "session": "s", "username": "",
                       "version": "5.3", "date": "2026-01-01T00:00:00Z"},
            "parent_header": {}, "metadata": {}, "channel": "shell",
            "content": {"code": code, "silent": False, "store_history": False,
                        "user_expressions": {}, "allow_stdin": False},
        }  # fmt: skip
        socket_.send(json.dumps(message))
        printed = ""
        while f"in {number}" not in printed:
            heard = json.loads(socket_.recv(timeout=60))
            printed += heard["content"].get("text", "") if heard["msg_type"] == "stream" else ""
    # Nobody is connected any more, and the kernel still runs.
    with walled.client() as client:

        def busy() -> bool:
            (trial,) = client.trials(number)
            last = client.get(f"/trials/{trial['id']}")["summary"].get("session/busy_kernels")
            return bool(last and last["last"] == 1)

        wait_for("its kernel is busy", busy, 90)


def test_a_session_that_nobody_uses_ends_and_one_in_use_does_not(walled: Stack) -> None:
    number = started(walled, "--idle", "10s", "--name", "short")
    holding = subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "exec", str(number), "--", "cat"],
        env=Stack.environment(walled.home),
        stdin=subprocess.PIPE,
    )
    with walled.client() as client:

        def row() -> dict[str, Any]:
            rows = client.get("/interactive-sessions")["items"]
            return next(row for row in rows if row["experiment_id"] == number)

        wait_for("it is in use", lambda: row()["is_in_use"], 60)
        assert holding.stdin is not None
        holding.stdin.close()
        assert holding.wait(timeout=30) == 0
        wait_for("its end is known", lambda: row()["ends_at"], 60)
        ended = client.wait(number, timeout_s=90)
        (trial,) = client.trials(number)
        lines = [line["text"] for line in client.log_lines(trial["id"])]
    assert ended["state"] == "COMPLETED"
    assert any("Nothing has gone on in this session for 10s" in line for line in lines), lines


def test_it_opens_the_code_the_variables_and_the_checkpoint_of_a_run(
    walled: Stack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "import muster\n"
        "with muster.checkpoint(step=3) as folder: (folder / 'w').write_text('weights')\n"
    )
    (tmp_path / "run.yaml").write_text(
        "name: run\nentrypoint: train.py\nlauncher: plain\n"
        "environment: {variables: {COLOR: blue}}\n"
    )
    run = int(walled.cli("submit", str(tmp_path / "run.yaml")).stdout)
    with walled.client() as client:
        assert client.wait(run, timeout_s=90)["state"] == "COMPLETED"
        number = started(walled, "--from", str(run))
        try:
            script = 'ls; echo $COLOR; cat "$MUSTER_RESUME_FROM/w"'
            done = walled.cli("exec", str(number), "--", "sh", "-c", script)
            assert done.returncode == 0, done.stderr
            assert {"train.py", "blue", "weights"} <= set(done.stdout.split()), done.stdout
        finally:
            walled.cli("session", "stop", str(number))
            assert client.wait(number, timeout_s=60)["state"] == "CANCELED"


def test_the_commands_of_the_guide_work(walled: Stack, tmp_path: Path) -> None:
    lines = console_lines((GUIDES / "sessions.md").read_text())
    assert len(lines) == 2
    for line in lines:
        done = shell(walled, line, tmp_path)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    with walled.client() as client:
        rows = client.get("/interactive-sessions")["items"]
        number = next(row["experiment_id"] for row in rows if row["name"] == "session-jupyter")
        walled.cli("kill", str(number), "--yes")
        client.wait(number, timeout_s=60)


def test_what_cannot_be_served_says_what_to_install(walled: Stack, tmp_path: Path) -> None:
    (tmp_path / "code.yaml").write_text(
        "name: code\nsession: {kind: code}\nenvironment: {variables: {PATH: /nowhere}}\n"
    )
    submitted = shell(walled, "muster submit code.yaml", tmp_path)
    assert submitted.returncode == 0, submitted.stderr
    number = last_id(walled)
    with walled.client() as client:
        ended = client.wait(number, timeout_s=90)
        (trial,) = client.trials(number)
        lines = " ".join(line["text"] for line in client.log_lines(trial["id"]))
    assert ended["state"] == "FAILED"
    assert "code-server is not on the job's PATH" in lines
    refused = walled.cli("session", "open", str(number))
    assert refused.returncode == 1
    assert "is not a session that runs or waits" in refused.stderr
