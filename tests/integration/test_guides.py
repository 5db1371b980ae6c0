"""The guides as a reader follows them: their files, their commands in order, on a real stack.

Lines of the guides' console blocks are run by a real shell. Experiment 1 of a guide is the first that
its reader submits; here others came before.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.testing.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.timeout(600)  # many commands, and a start of Muster or two

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
        stack.command.append(f"--address={ADDRESS}")
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def with_numbers_from(first: int, text: str) -> str:
    """The same commands or documents, about the experiments that are numbered 1, 2, … in them."""
    commands = (
        "show|logs|stop|kill|pause|resume|continue|fork|archive|unarchive|delete|label|budget|move"
    )
    several = rf"(?<=muster )(?:{commands})(?: \d+)+"
    one = r"(?<=muster )priority \d+|--before \d+|\bexperiment: \d+"

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


def check_managing(stack: Stack) -> None:
    """One curve through pause and continue; the fork starts from its end; what is bounded ended."""
    with stack.client() as client:
        newest = client.pages("/experiments", q="", limit=20)
        named = {e["name"]: e for e in reversed(list(itertools.islice(newest, 20)))}
        for name, begins, ends in (("first", 1, 60), ("further", 61, 80), ("tuned-again", 1, 20)):
            (trial,) = client.trials(named[name]["id"])
            curve = client.get(f"/trials/{trial['id']}/series", name="train/loss", rank=0)
            assert curve["series"][0]["step"] == list(range(begins, ends + 1)), name
        assert client.experiment(named["bounded"]["id"])["budget"]["limits"][0]["limit"] == 20
        assert "again" not in named, "deleted"


GUIDES_RUN = {
    "quickstart.md": check_quickstart,
    "experiments.md": check_experiments,
    "managing.md": check_managing,
    "agents.md": None,
}


def run_guide(stack: Stack, guide: str, folder: Path) -> None:
    text = with_numbers_from(last_id(stack) + 1, (GUIDES / guide).read_text())
    write_files(text, folder)
    lines = [line for line in console_lines(text) if not line.startswith(NOT_HERE)]
    assert lines
    for line in lines:
        done = shell(stack, line, folder)
        assert done.returncode == 0, f"{guide}: {line}\n{done.stdout}\n{done.stderr}"


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

            def node() -> dict[str, object] | None:
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


def test_another_machine_joins_with_the_printed_command(open_stack: Stack, tmp_path: Path) -> None:
    with joined(open_stack, "second", tmp_path) as node, open_stack.client() as client:
        drained = client.patch(f"/nodes/{node['id']}", {"scheduling": "draining"})
        assert drained["scheduling"] == "draining"


def test_labels_sizes_and_priorities_as_the_guide_says(open_stack: Stack, tmp_path: Path) -> None:
    options = "--labels rack=a,disk=nvme"
    with (
        joined(open_stack, "nvme-1", tmp_path, options),
        joined(open_stack, "nvme-2", tmp_path, options),
        open_stack.client() as client,
    ):
        before = last_id(open_stack)
        (tmp_path / "guide").mkdir()
        run_guide(open_stack, "placement.md", tmp_path / "guide")
        for number, state in enumerate(("COMPLETED",) * 4 + ("CANCELED",) * 2, before + 1):
            ended = client.wait(number, timeout_s=60)
            assert ended["state"] == state, ended["name"]
            (trial,) = client.trials(number)
            attempts = client.get(f"/trials/{trial['id']}")["attempts"]
            if ended["name"] in ("fast-disk", "background", "urgent"):
                assert sorted(attempts[0]["nodes"]) == ["nvme-1", "nvme-2"]
            if ended["name"] == "elastic":
                assert 1 <= attempts[0]["world_size"] <= 6
