"""The guides as a reader follows them: their files, their commands in order, on a real stack.

Lines of the guides' console blocks are run by a real shell. An experiment number in them is the
reader's first; here it is the one submitted last.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.testing.stack import Stack, scripted, wait_for

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
}


def run_guide(stack: Stack, guide: str, folder: Path) -> None:
    text = (GUIDES / guide).read_text()
    write_files(text, folder)
    lines = [line for line in console_lines(text) if not line.startswith(NOT_HERE)]
    assert lines
    for line in lines:
        number = str(last_id(stack))
        words = re.sub(r"^(muster (?:show|logs|stop)) 1\b", rf"\1 {number}", line)
        done = shell(stack, words, folder)
        assert done.returncode == 0, f"{guide}: {words}\n{done.stdout}\n{done.stderr}"


@pytest.mark.timeout(600)
@pytest.mark.torch
@pytest.mark.parametrize("guide", GUIDES_RUN)
def test_every_command_of_a_guide_works(open_stack: Stack, guide: str, tmp_path: Path) -> None:
    run_guide(open_stack, guide, tmp_path)
    if check := GUIDES_RUN[guide]:
        check(open_stack)


def test_what_the_guide_backs_up_and_restores_is_the_same_muster(
    open_stack: Stack, tmp_path: Path
) -> None:
    script = [{"log": "to be kept"}, {"train": {"epochs": 1, "steps_per_epoch": 3}}]
    with open_stack.client() as client:
        kept = client.submit(scripted("kept", script))["id"]
        assert client.wait(kept, timeout_s=90)["state"] == "COMPLETED"
        (trial,) = client.trials(kept)
        runs_on = client.submit(scripted("runs-on", [{"checkpoint": 1}, {"wait_for_stop": 600}]))
        (other,) = client.trials(runs_on["id"])
        checkpoints = f"/trials/{other['id']}/checkpoints"
        wait_for("it has a checkpoint", lambda: any(client.pages(checkpoints)))
        paths = (
            f"/experiments/{kept}",
            f"/trials/{trial['id']}/series?name=train/loss&rank=0",
            f"/trials/{trial['id']}/logs",
            checkpoints,
        )
        before = [client.get(path) for path in paths]
        run_guide(open_stack, "operations.md", tmp_path)
        client.stop(runs_on["id"])
    assert before[1]["series"][0]["step"] == [1, 2, 3]
    assert [line["text"] for line in before[2]["lines"]] == ["to be kept"]

    again = Stack(tmp_path / "restored", agents=1)
    try:
        again.start()
        with again.client() as client:
            assert [client.get(path) for path in paths] == before
            resumed = wait_for(
                "what ran goes on from its checkpoint",
                lambda: (t := client.get(f"/trials/{other['id']}"))["state"] == "RUNNING" and t,
            )
            assert resumed["attempts"][0]["resume_step"] == 1
            client.call("POST", f"/experiments/{runs_on['id']}:kill")
    finally:
        again.close()


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
