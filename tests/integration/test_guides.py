"""The guides as a reader follows them: their files, their commands in order, on a real stack.

Lines of the guides' console blocks are run by a real shell. An experiment number in them is the
reader's first; here it is the one submitted last.
"""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.testing.stack import Stack, processes_of, wait_for

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
ADDRESS = "127.0.0.2"
"""Of this machine, and not the one that `muster up` serves without being told."""
NOT_HERE = ("muster up",)
"""What the stack of these tests did already."""
COMMAND_TIMEOUT_S = 200


@pytest.fixture(scope="module")
def open_stack() -> Iterator[Stack]:
    """`muster up --address …`, two nodes of two slots."""
    with tempfile.TemporaryDirectory(prefix="muster-it-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder) / "home")
        stack.arguments.append(f"--address={ADDRESS}")
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def write_files(text: str, folder: Path) -> None:
    """Blocks whose first line is a comment with a file name are that file."""
    for name, content in re.findall(r"```\w+\n# ([\w-]+\.\w+)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(content)


def console_lines(text: str) -> list[str]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        found += [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return found


def shell(stack: Stack, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = Stack.environment(stack.home)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )


def last_id(stack: Stack) -> int:
    with stack.client() as client:
        return max((int(e["id"]) for e in client.pages("/experiments", limit=1)), default=0)


def trial_of(stack: Stack, name: str) -> tuple[dict[str, int], list[str]]:
    """Of the newest completed one of this name: metric → points of rank 0, and the log."""
    with stack.client() as client:
        named = client.pages("/experiments", q=name, state="COMPLETED")
        found = next(e for e in named if e["name"] == name)
        (trial,) = client.trials(found["id"])
        items = client.get(f"/trials/{trial['id']}/metrics")["items"]
        lines = [line["text"] for line in client.log_lines(trial["id"])]
    return {i["name"]: i["count"] for i in items if i["rank"] == 0}, lines


def check_quickstart(stack: Stack) -> None:
    """The script that reports has reported everything."""
    metrics, _ = trial_of(stack, "reporting")
    assert metrics == {"train/loss": 90, "val/loss": 9}


def check_experiments(stack: Stack) -> None:
    """Every metric of the built-in trainer is explained, and its log says a rank once."""
    metrics, lines = trial_of(stack, "digits")
    text = (GUIDES.parent / "concepts" / "measuring.md").read_text()
    assert len(metrics) > 15
    assert sorted(name for name in metrics if f"`{name}`" not in text) == []
    assert any(line.startswith("epoch ") for line in lines)


GUIDES_RUN = {
    "quickstart.md": check_quickstart,
    "experiments.md": check_experiments,
    "agents.md": None,
    "operations.md": None,
}


@pytest.mark.timeout(600)
@pytest.mark.torch
@pytest.mark.parametrize("guide", GUIDES_RUN)
def test_every_command_of_a_guide_works(open_stack: Stack, guide: str, tmp_path: Path) -> None:
    text = (GUIDES / guide).read_text()
    write_files(text, tmp_path)
    lines = [line for line in console_lines(text) if not line.startswith(NOT_HERE)]
    assert lines
    for line in lines:
        number = str(last_id(open_stack))
        words = re.sub(r"^(muster (?:show|logs|stop)) 1\b", rf"\1 {number}", line)
        done = shell(open_stack, words, tmp_path)
        assert done.returncode == 0, f"{guide}: {words}\n{done.stdout}\n{done.stderr}"
    if check := GUIDES_RUN[guide]:
        check(open_stack)


def test_another_machine_joins_with_the_printed_command(open_stack: Stack, tmp_path: Path) -> None:
    """The command of `muster agent token` as it is, in another home and under another name."""
    made = shell(open_stack, "muster agent token", tmp_path)
    command = made.stdout.strip()
    assert f"http://{ADDRESS}:" in command, made
    environment = Stack.environment(open_stack.home)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    home = tmp_path / "agent"
    agent = subprocess.Popen(
        ["sh", "-c", f"exec env {command} --name second --slots 1 --home {shlex.quote(str(home))}"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with open_stack.client() as client:

            def node() -> dict[str, object] | None:
                return next((n for n in client.pages("/nodes") if n["name"] == "second"), None)

            found = wait_for("it joins", lambda: (n := node()) and n["state"] == "ONLINE" and n)
            assert isinstance(found, dict)
            wait_for("it keeps its credential", (home / "credential.json").exists)
            for scheduling in ("draining", "cordoned"):
                reply = client.call(
                    "PATCH", f"/nodes/{found['id']}", body={"scheduling": scheduling}
                )
                assert reply.json()["scheduling"] == scheduling
            agent.terminate()
            agent.wait(60)
            client.delete(f"/nodes/{found['id']}")
            assert node() is None or node()["state"] == "REMOVED"  # type: ignore[index]
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait()


def test_the_database_is_copied_while_it_runs(open_stack: Stack, tmp_path: Path) -> None:
    text = (GUIDES / "operations.md").read_text()
    (line,) = re.findall(r"^python3 -c .*VACUUM.*\\\n.*$", text, re.MULTILINE)
    copy = tmp_path / "copy.db"
    line = line.replace("~/.muster", str(open_stack.home)).replace("/backup/muster.db", str(copy))
    done = shell(open_stack, line, tmp_path)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(copy) as database:
        (num_nodes,) = database.execute("SELECT count(*) FROM nodes").fetchone()
    database.close()
    assert num_nodes >= 2
    assert processes_of(open_stack.home)
