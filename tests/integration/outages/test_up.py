"""`muster up` as a process: starting, refusing to start, being killed, ending."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import psutil
from sqlalchemy import make_url

from support.stack import Stack, processes_of, scripted, wait_for

HANG = [{"log": "up"}, {"fork_daemon": 600}, {"ignore_sigterm": True}, {"hang": True}]


def up(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A `muster up` that is expected not to start."""
    return subprocess.run(
        [sys.executable, "-m", "muster.cli", "up", "--home", str(home), *arguments],
        env=Stack.environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def start_hanging_training(stack: Stack) -> int:
    """A worker that is deaf to SIGTERM and has left a daemon behind; returns its pid."""
    with stack.client() as client:
        experiment = client.submit(scripted("hangs", HANG))

        def worker() -> dict[str, Any] | None:
            trials = client.trials(experiment["id"])
            if not trials or trials[0]["state"] != "RUNNING":
                return None
            lines = list(client.log_lines(trials[0]["id"]))
            if not any(line["text"].startswith("daemon pid") for line in lines):
                return None
            return next(iter(client.pages(f"/trials/{trials[0]['id']}/workers")), None)

        return int(wait_for("the training hangs", worker)["pid"])


def test_nothing_is_left_after_a_kill_and_ctrl_c_ends_every_part_and_says_so(
    own_stack: Stack,
) -> None:
    own_stack.start()
    pid = start_hanging_training(own_stack)
    before = processes_of(own_stack.home)
    assert pid in [p.pid for p in before]
    assert len(before) >= 8  # up, valkey, server, controller, worker, agent, shim, worker, daemon

    # What an agent leaves behind when it is killed is collected whatever the machine's first process does.
    shim = next(p for p in before if "muster_agent.shim" in p.cmdline())
    agent = shim.parent()
    assert agent is not None
    agent.kill()
    assert own_stack.process is not None
    up_pid = own_stack.process.pid
    wait_for("it is adopted", lambda: shim.ppid() == up_pid)
    own_stack.kill()
    wait_for("everything has ended", lambda: not processes_of(own_stack.home), 40)

    # And the same home starts again, with what it knew.
    own_stack.start()
    with own_stack.client() as client:
        (experiment,) = client.pages("/experiments")
        assert experiment["name"] == "hangs"
        client.stop(experiment["id"])
        client.wait(experiment["id"], timeout_s=90)

    start_hanging_training(own_stack)
    assert own_stack.interrupt() == 0
    assert processes_of(own_stack.home) == []
    text = own_stack.text()
    for title in ("Agent local-1", "Celery worker", "Controller", "API server", "Valkey"):
        assert f"{title}: stopped" in text, text
    assert text.rstrip().endswith("Nothing is left running.")
    assert not (own_stack.home / "up.json").exists()


def test_a_second_one_in_the_same_home_says_where_the_first_is(stack: Stack) -> None:
    result = up(stack.home, "--port", "0")
    assert result.returncode == 1
    assert "Muster already runs from" in result.stderr
    assert stack.url in result.stderr
    assert "Traceback" not in result.stderr


def test_a_taken_port_is_named_with_its_holder(new_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = up(new_home, "--port", str(port))
    assert result.returncode == 1
    assert f"error: Port {port} is taken by process {os.getpid()}" in result.stderr
    assert "--port" in result.stderr
    assert processes_of(new_home) == []


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = up(tmp_path / "file", "--port", "0")
    assert result.returncode == 1
    assert "is not a folder" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_old_database_is_brought_up_to_date_and_one_of_the_future_is_refused(
    own_stack: Stack, load_database: Callable[[str, str], str]
) -> None:
    old = make_url(load_database("0002-8b9083c", "sqlite")).database
    own_stack.home.mkdir(mode=0o700)
    shutil.move(str(old), own_stack.home / "muster.db")
    own_stack.start()
    listed = own_stack.cli("list")
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in ("completed", "running", "search", "waiting"))
    shown = own_stack.cli("show", "1")
    assert (shown.returncode, "COMPLETED" in shown.stdout) == (0, True), shown.stderr
    with own_stack.client() as client:
        new = client.submit(scripted("new", [{"log": "up"}]))
        assert client.wait(new["id"], timeout_s=90)["state"] == "COMPLETED"
    ready = httpx.get(f"{own_stack.url}/readyz").json()
    assert (ready["status"], ready["controller"]) == ("ready", "ok")

    # Whoever takes a column away ends all of it, with one sentence, instead of restarts for ever.
    with closing(sqlite3.connect(own_stack.home / "muster.db")) as connection:
        connection.execute("ALTER TABLE attempts DROP COLUMN stuck_reason")
    assert own_stack.process is not None
    assert own_stack.process.wait(60) == 1
    said = "Controller cannot go on: muster-server: The database says revision"
    assert said in own_stack.text()
    assert "lacks column attempts.stuck_reason" in own_stack.text()

    with sqlite3.connect(own_stack.home / "muster.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
    connection.close()
    result = up(own_stack.home, "--port", "0")
    assert result.returncode == 1
    assert "error: The database cannot be prepared" in result.stderr
    assert "start a newer version" in result.stderr
    assert "Traceback" not in result.stderr
    assert processes_of(own_stack.home) == []


def test_status_names_every_part_with_its_memory(stack: Stack) -> None:
    status = json.loads(stack.cli("status", "--json").stdout)
    names = {p["name"] for p in status["parts"]}
    assert names >= {"muster up", "valkey", "server", "controller", "worker", "agent-local-1"}
    assert all(p["rss_bytes"] > 1_000_000 for p in status["parts"])
    assert status["url"] == stack.url
    assert "valkey" in stack.cli("status").stdout


def test_the_join_token_ends_when_the_agents_have_joined(stack: Stack) -> None:
    token = stack.home / "agents" / "join-token"
    wait_for("the token has ended", lambda: not token.exists())
    with stack.client() as client:
        assert client.get("/join-tokens")["items"] == []
        done = [row["action"] for row in client.pages("/audit") if "join_tok" in row["action"]]
        # Other tests of this stack may have made more since; the newest come first.
        assert done[-2:] == ["join_tokens.revoked", "join_tokens.created"]
        assert {node["state"] for node in client.pages("/nodes")} == {"ONLINE"}


def test_secrets_are_readable_by_this_user_alone(stack: Stack) -> None:
    assert (stack.home / "cli.json").stat().st_mode & 0o777 == 0o600
    assert stack.home.stat().st_mode & 0o777 == 0o700
    token = stack.access["token"]
    for process in processes_of(stack.home):
        try:
            assert token not in " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
    for log in (stack.home / "logs").glob("*.log"):
        assert token not in log.read_text(errors="replace"), log
