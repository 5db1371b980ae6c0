"""A real `muster up` whose jobs run in sandboxes: two agents of one machine, and what users do inside."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stack import Stack, started, wait_for

SCRIPT = """
import os, pathlib, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("sum", total.item(), "uid", os.getuid(), flush=True)
pathlib.Path("sum.txt").write_text(str(total.item()))
pathlib.Path.home().joinpath("cached").touch()
while not pathlib.Path.home().joinpath("end").exists():
    time.sleep(0.05)
dist.destroy_process_group()
"""
DOCUMENT = """
name: walled
entrypoint: train.py
resources: {slots: 2, nodes: 2, isolation: sandbox}
"""


@pytest.fixture
def walled() -> Iterator[Stack]:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    with started(lambda home: Stack(home, agents=2, slots=1, isolation="auto")) as stack:
        yield stack


def test_a_gang_of_two_agents_runs_in_sandboxes_and_commands_run_inside(
    walled: Stack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "walled.yaml").write_text(DOCUMENT)
    with walled.client() as client:
        nodes = client.nodes()
        if {node["isolation"] for node in nodes} == {"none"}:
            pytest.skip(nodes[0]["isolation_reason"])
        assert [node["isolation"] for node in nodes] == ["sandbox"] * 2
        assert "Each job runs in a sandbox" in walled.text()
        submitted = walled.cli("submit", str(tmp_path / "walled.yaml"))
        assert submitted.returncode == 0, submitted.stderr
        number = int(submitted.stdout)
        (trial,) = wait_for("a trial", lambda: client.trials(number) or None)

        def sums() -> list[str]:
            return [line["text"] for line in client.log_lines(trial["id"]) if "sum" in line["text"]]

        wait_for("both ranks", lambda: len(sums()) == 2, 120)
        assert all(line.startswith("sum 2.0 uid ") for line in sums())
        uids = {line.rpartition(" ")[2] for line in sums()}
        for rank in ("0", "1"):
            inside = "id -u; ls /home /root; ls $HOME; ls /proc | grep -c '^[0-9]'; touch $HOME/end"
            done = walled.cli("exec", str(number), "--rank", rank, "--", "sh", "-c", inside)
            assert done.returncode == 0, done.stderr
            uid, *seen, num_processes = done.stdout.split()
            assert {uid} == uids
            assert seen == ["/home:", "/root:", "cached"]
            assert int(num_processes) < 15
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"
        wait_for(
            "its files", lambda: "sum.txt" in walled.cli("outputs", "list", str(number)).stdout
        )
