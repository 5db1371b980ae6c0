"""Commands, shells and ports inside running jobs, as users open them, on a real stack."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.client import Client
from support.guides import GUIDES, console_lines, shell
from support.stack import Stack, wait_for

SCRIPT = """
import http.server, os, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("listens on", server.server_port, flush=True)
threading.Event().wait()
"""
DOCUMENT = """
name: inside
entrypoint: serve.py
launcher: direct
resources: {slots: 2}
environment: {variables: {COLOR: blue}}
"""


@pytest.fixture(scope="module")
def job(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The number of a running experiment, whose two workers serve a port each."""
    folder = tmp_path_factory.mktemp("inside")
    (folder / "serve.py").write_text(SCRIPT)
    (folder / "inside.yaml").write_text(DOCUMENT)
    submitted = stack.cli("submit", str(folder / "inside.yaml"))
    assert submitted.returncode == 0, submitted.stderr
    number = int(submitted.stdout)
    with stack.client() as client:
        wait_for("the job", lambda: is_running(client, number), 90)
        (trial,) = client.trials(number)
        wait_for("its ports", lambda: len(list(client.log_lines(trial["id"]))) >= 2, 60)
        yield number
        stack.cli("kill", str(number), "--yes")
        client.wait(number, timeout_s=60)


def muster(stack: Stack, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "muster.cli", *arguments]


def is_running(client: Client, number: int) -> bool:
    """Whether its processes run: an experiment is RUNNING as soon as its trial is being started."""
    return [trial["state"] for trial in client.trials(number)] == ["RUNNING"]


def port_of(client: Client, number: int) -> int:
    (trial,) = client.trials(number)
    lines = [line["text"] for line in client.log_lines(trial["id"])]
    return int(next(line.split()[-1] for line in lines if line.startswith("listens on")))


def test_a_command_has_the_jobs_folder_and_variables_and_its_exit_code_comes_back(
    stack: Stack, job: int
) -> None:
    script = "echo $COLOR; ls; echo wrong >&2; env | grep -E '^(RANK|MASTER_ADDR)='; exit 7"
    done = stack.cli("exec", str(job), "--", "sh", "-c", script)
    assert (done.returncode, done.stderr.strip()) == (7, "wrong")
    assert done.stdout.split() == ["blue", "inside.yaml", "muster-outputs", "serve.py"]


def test_input_of_any_size_arrives_as_it_was_sent(stack: Stack, job: int) -> None:
    data = os.urandom(3_000_000)
    done = subprocess.run(
        muster(stack, "exec", str(job), "--", "sha256sum"),
        input=data,
        capture_output=True,
        env=Stack.environment(stack.home),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_the_guides_commands_work(stack: Stack, job: int, tmp_path: Path) -> None:
    lines = console_lines((GUIDES / "inside.md").read_text())
    assert len(lines) == 2
    for line in lines:
        done = shell(stack, re.sub(r"(?<=exec )1\b", str(job), line), tmp_path)
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_a_shell_has_a_terminal_with_job_control(stack: Stack, job: int) -> None:
    fd, theirs = pty.openpty()
    process = subprocess.Popen(
        muster(stack, "shell", str(job)),
        env={**Stack.environment(stack.home), "COLUMNS": "80", "LINES": "24"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    heard = b""

    def hears(pattern: bytes) -> bool:
        nonlocal heard
        if select.select([fd], [], [], 0)[0]:
            heard += os.read(fd, 65_536)
        return re.search(pattern, heard) is not None

    os.write(fd, b"echo $COLOR-$((40+2)); stty size\r")
    wait_for("the shell", lambda: hears(rb"blue-42\r\n(.|\n)*24 80"), 60)
    os.write(fd, b"sleep 1000\r")
    wait_for("the command", lambda: any("1000" in c for c in _commands("sleep")), 30)
    os.write(fd, b"\x03echo code-$?\r")
    wait_for("the prompt after Ctrl-C", lambda: hears(rb"code-130"), 30)
    os.write(fd, b"exit 5\r")
    assert process.wait(timeout=30) == 5
    os.close(fd)


def _commands(name: str) -> list[list[str]]:
    return [
        p.info["cmdline"]
        for p in psutil.process_iter(["name", "cmdline"])
        if p.info["name"] == name
    ]


def test_a_port_of_the_job_is_served_here_and_no_other_port_of_its_node(
    stack: Stack, client: Client, job: int
) -> None:
    port = port_of(client, job)
    process = subprocess.Popen(
        muster(stack, "port", str(job), str(port), "--local", "0"),
        env=Stack.environment(stack.home),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert url is not None, said
        for size in (5, 2_000_000):
            with urllib.request.urlopen(f"{url[0]}/{size}", timeout=30) as answer:
                assert len(answer.read()) == size
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)

    own = stack.client().target.url.rpartition(":")[2]
    refused = stack.cli("port", str(job), own)
    assert refused.returncode == 1
    assert f"No process of the job listens on port {own}" in refused.stderr


def test_what_cannot_be_opened_says_why(stack: Stack, job: int) -> None:
    for arguments, why in (
        (("exec", str(job), "--", "no-such-program"), "no-such-program is not on the job's PATH"),
        (("exec", str(job), "--rank", "9", "--", "ls"), "Its ranks are 0 to 1"),
        (("exec", "99999", "--", "ls"), "99999"),
        (("shell", str(job)), "A shell needs a terminal"),
        (("exec", "nonsense", "--", "ls"), "'nonsense' names neither"),
    ):
        done = stack.cli(*arguments)
        assert done.returncode in (1, 2), done.stdout
        assert why in re.sub(r"[\s│]+", " ", done.stderr), done.stderr


def test_a_command_ends_with_its_job_and_none_opens_after_it(
    stack: Stack, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "wait.py").write_text("import threading; threading.Event().wait()")
    (tmp_path / "short.yaml").write_text("name: short\nentrypoint: wait.py\nlauncher: direct\n")
    number = int(stack.cli("submit", str(tmp_path / "short.yaml")).stdout)
    wait_for("the job", lambda: is_running(client, number), 90)
    words = tmp_path / "words"
    with words.open("wb") as output:
        process = subprocess.Popen(
            muster(stack, "exec", str(number), "--", "sleep", "1001"),
            env=Stack.environment(stack.home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def runs() -> bool:
        assert process.poll() is None, words.read_text()
        return any("1001" in c for c in _commands("sleep"))

    wait_for("the command", runs, 60)
    stack.cli("kill", str(number), "--yes")
    assert process.wait(timeout=60) == 128 + signal.SIGKILL
    client.wait(number, timeout_s=60)
    assert not any("1001" in c for c in _commands("sleep"))
    late = stack.cli("exec", str(number), "--", "ls")
    assert (late.returncode, "has no running processes" in late.stderr) == (1, True), late.stderr
