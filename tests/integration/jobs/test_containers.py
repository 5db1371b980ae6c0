"""A real `muster up` whose jobs run in containers: a gang over two agents, and what users see of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.nodes import containers
from support.stack import Stack, started, wait_for

pytestmark = pytest.mark.torch

SCRIPT = """
import os, time, torch, torch.distributed as dist, muster
muster.init()
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
muster.log({"train/loss": total.item()}, step=1)
print("sum", total.item(), os.path.exists("/home"), flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
dist.destroy_process_group()
"""


@pytest.fixture
def contained(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    engine, reason = containers.find_engine()
    if engine is None:
        pytest.skip(reason)
    for name, value in engine.environment.items():
        if name.startswith("CONTAINERS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("MUSTER_AGENT_CONTAINERS", engine.kind)
    with started(lambda home: Stack(home, agents=2, slots=1, environment={})) as stack:
        yield stack


def test_the_same_document_gives_the_same_losses_in_containers(
    contained: Stack, tmp_path: Path
) -> None:
    document: dict[str, Any] = {
        "name": "losses",
        "trainer": {
            "model": "mlp",
            "data": "synthetic",
            "steps": 12,
            "batch_size": 16,
            "options": {"seed": 7, "rows_per_s": 0},
        },
        "resources": {"slots": 2, "nodes": 2},
    }
    curves = []
    with contained.client() as client:
        for environment in ({}, containers.section()):
            path = tmp_path / "losses.yaml"
            path.write_text(yaml.safe_dump({**document, "environment": environment}))
            submitted = contained.cli("submit", str(path))
            assert submitted.returncode == 0, submitted.stderr
            number = int(submitted.stdout)
            assert client.wait(number, timeout_s=180)["state"] == "COMPLETED"
            (trial,) = client.trials(number)
            curves.append(client.series(trial["id"], "train/loss"))
    assert len(curves[0]["value"]) >= 2
    assert curves[0]["value"] == curves[1]["value"]


def test_a_role_runs_in_an_image_of_its_own(contained: Stack, tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text("import os; print('in', os.environ.get('MUSTER_CONTAINER'))")
    environment = containers.section()
    image = environment.pop("image")
    document = {
        "name": "images",
        "environment": environment,
        "roles": {
            "plain": {"entrypoint": "where.py"},
            "own": {"entrypoint": "where.py", "on_end": "finish", "environment": {"image": image}},
        },
    }
    (tmp_path / "images.yaml").write_text(yaml.safe_dump(document))
    with contained.client() as client:
        submitted = contained.cli("submit", str(tmp_path / "images.yaml"))
        assert submitted.returncode == 0, submitted.stderr
        number = int(submitted.stdout)
        assert client.wait(number, timeout_s=180)["state"] == "COMPLETED"
        (trial,) = client.trials(number)
        lines = {line["member"]: line["text"] for line in client.log_lines(trial["id"])}
    assert lines["plain/0"] == "in None"
    assert lines["own/0"].startswith("in muster-")


def test_a_gang_of_two_agents_runs_in_containers_and_can_be_repeated(
    contained: Stack, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    document = {
        "name": "contained",
        "entrypoint": "train.py",
        "resources": {"slots": 2, "nodes": 2},
        "environment": containers.section(),
    }
    (tmp_path / "contained.yaml").write_text(yaml.safe_dump(document))
    engine, _ = containers.find_engine()
    assert engine is not None
    with contained.client() as client:
        assert {node["container_runtime"] for node in client.nodes()} == {engine.kind}
        submitted = contained.cli("submit", str(tmp_path / "contained.yaml"))
        assert submitted.returncode == 0, submitted.stderr
        number = int(submitted.stdout)
        (trial,) = wait_for("a trial", lambda: client.trials(number) or None)

        def sums() -> list[str]:
            return [line["text"] for line in client.log_lines(trial["id"]) if "sum" in line["text"]]

        wait_for("both ranks", lambda: len(sums()) == 2, 120)
        assert sums() == ["sum 2.0 False"] * 2
        for rank in ("0", "1"):
            inside = "ls /home 2>/dev/null; echo $MUSTER_CONTAINER; touch end"
            done = contained.cli("exec", str(number), "--rank", rank, "--", "sh", "-c", inside)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("muster-")
        assert client.wait(number, timeout_s=60)["state"] == "COMPLETED"
        repeated = client.get(f"/trials/{trial['id']}/reproduction")["environment"]
        assert repeated["image"] == containers.IMAGE
        assert len(repeated["image_id"]) == 64
