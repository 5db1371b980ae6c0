"""The guides as a reader follows them: their files, their commands in order, on a real stack.

Lines of the guides' console blocks are run by a real shell, where more than words stand in them. Experiment 1 of a guide is the first that
its reader submits; here others came before.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support import preloaded
from support.stack import Stack, wait_for

if TYPE_CHECKING:
    from muster.client import schema

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
ADDRESS = "127.0.0.2"
"""Of this machine, and not the one that `muster up` serves without being told."""
NOT_HERE = ("muster up",)
"""What the stack of these tests did already."""
NEEDS_SHELL = re.compile(r"[|&;<>()$`*?\[{~#!\n]")
COMMAND_TIMEOUT_S = 200


def with_numbers_from(first: int, text: str) -> str:
    """The same commands or documents, about the experiments that are numbered 1, 2, … in them."""
    commands = "show|logs|stop|kill|pause|resume|continue|fork|archive|unarchive|delete|label|budget|move|scaling|outputs list|outputs get|media list|media get"
    several = rf"(?<=muster )(?:{commands})(?: \d+)+"
    one = r"(?<=muster )priority \d+|--before \d+|\bexperiment: \d+|(?<=--set after=)\d+|(?<=--experiment )\d+|(?<=--best )\d+"

    def move(match: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: str(first - 1 + int(number[0])), match[0])

    return re.sub(f"{several}|{one}", move, text)


def write_files(text: str, folder: Path) -> None:
    """Blocks whose first line is a comment with a file name are that file."""
    for name, content in re.findall(r"```\w+\n# ([\w-]+\.\w+)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(content)


def console_lines(text: str) -> list[str]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        found += [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return found


def pool_commands(text: str) -> list[str]:
    """Return the commands about pools in blocks for a shell, one string each."""
    found = []
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines()
        told = [" ".join(shlex.split(line, comments=True)) for line in lines]
        found += [line for line in told if line.startswith("muster pool ")]
    return found


def shell(stack: Stack, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell does. `muster` begins with its code imported where nothing needs a shell."""
    environment = Stack.environment(stack.home)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    if line.startswith("muster ") and not NEEDS_SHELL.search(line):
        return preloaded.run(
            [preloaded.COMMANDS, *shlex.split(line)[1:]],
            environment=environment,
            folder=folder,
            timeout_s=COMMAND_TIMEOUT_S,
        )
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


def run_guide(stack: Stack, guide: str, folder: Path) -> None:
    text = with_numbers_from(last_id(stack) + 1, (GUIDES / guide).read_text())
    write_files(text, folder)
    lines = [line for line in console_lines(text) if not line.startswith(NOT_HERE)]
    assert lines
    for line in lines:
        done = shell(stack, line, folder)
        assert done.returncode == 0, f"{guide}: {line}\n{done.stdout}\n{done.stderr}"


@contextmanager
def joined(stack: Stack, name: str, folder: Path, options: str = "") -> Iterator[dict[str, object]]:
    """Another machine, by the command of `muster agent token` as it is; its node.

    At the end the agent is stopped and the node removed.
    """
    made = shell(stack, "muster agent token", folder)
    command = made.stdout.strip()
    assert f"http://{ADDRESS}:" in command, made
    environment = Stack.environment(stack.home)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    home = folder / f"agent-{name}"
    command = (
        f"exec env {command} --name {name} --slots 1 --home {shlex.quote(str(home))} {options}"
    )
    agent = subprocess.Popen(
        ["sh", "-c", command],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with stack.client() as client:

            def node() -> schema.NodeOut | None:
                return next((n for n in client.pages("/nodes") if n["name"] == name), None)

            found = wait_for("it joins", lambda: (n := node()) and n["state"] == "ONLINE" and n)
            assert isinstance(found, dict)
            wait_for("it keeps its credential", (home / "credential.json").exists)
            yield found
            client.patch(f"/nodes/{found['id']}", {"scheduling": "cordoned"})
            agent.terminate()
            agent.wait(60)
            client.delete(f"/nodes/{found['id']}")
            assert node() is None or node()["state"] == "REMOVED"  # type: ignore[index]
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait()
