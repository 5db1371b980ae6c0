"""What a job brings and how it is started, from the document to its log, on a real `muster up`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.client import Client
from support.nodes.wheels import make_wheel
from support.stack import Stack, started


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Two nodes of one slot, whose uv sees a folder of wheels and no index."""
    wheels = tmp_path_factory.mktemp("wheels")
    make_wheel(wheels, "tinypkg", "1.1", script=True)
    seen = {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
    agents = {f"agent-local-{number}": seen for number in (1, 2)}
    with started(lambda home: Stack(home, slots=1, environment=agents)) as stack:
        yield stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with stack.client() as client:
        yield client


def run(client: Client, code: Path, **document: Any) -> tuple[Any, Any]:
    """Run an experiment to its end; it, and its trial."""
    given = {"name": "job", "code": {"installed": str(code)}, "restarts": {"infra": 3}}
    experiment = client.submit(json.dumps({**given, **document}))
    ended = client.wait(experiment["id"], timeout_s=200)
    (trial,) = client.trials(experiment["id"])
    return ended, client.get(f"/trials/{trial['id']}")


def test_a_script_runs_on_every_node_with_its_packages_and_data(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(
        'set -eu\necho "node $NODE_RANK of $NNODES, data $MUSTER_DATA_TRAIN, to $1"\ntinypkg\n'
    )
    document: dict[str, Any] = {
        "entrypoint": "bash run.sh ${MUSTER_TRIAL_NO}",
        "resources": {"slots": 2, "nodes": 2},
        "environment": {"requirements": "tinypkg", "setup": "tinypkg"},
        "data": {"train": str(tmp_path)},
    }
    times = []
    for _ in range(2):
        began = time.monotonic()
        ended, trial = run(client, tmp_path, **document)
        times.append(time.monotonic() - began)
        assert ended["state"] == "COMPLETED", trial["reason"]
    lines = [line["text"] for line in client.log_lines(trial["id"], ranks=[-1])]
    for number in (0, 1):
        assert f"node {number} of 2, data {tmp_path}, to 1" in lines
    assert lines.count("program 1.1") == 2
    # The second time the environments were there.
    assert not [line for line in lines if "[setup]" in line]
    print(f"first {times[0]:.1f} s, second {times[1]:.1f} s")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"environment": {"requirements": ["tinypkg==9"]}}, "there is no version of tinypkg==9"),
        ({"environment": {"setup": ["echo no licence; exit 3"]}}, "exited with code 3: no licence"),
        ({"environment": {"python": "3.4"}}, "the interpreter python3.4 does not exist"),
        ({"data": {"train": "/nowhere/imagenet"}}, "the data set train (/nowhere/imagenet)"),
        (
            {"data": {"train": {"url": "https://example.org/all.tar", "size": "9000TB"}}},
            "the job downloads 9,000,000.0 GB (train in data), and only ",
        ),
        ({"entrypoint": "bash other.sh"}, "the entry point other.sh does not exist"),
    ],
)
def test_what_no_node_has_is_permanent_and_named(
    client: Client, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    (tmp_path / "run.sh").write_text("true\n")
    ended, trial = run(client, tmp_path, **{"entrypoint": "bash run.sh", **changes})
    assert ended["state"] == "FAILED"
    assert reason in trial["reason"]
    # One attempt on each node at the most, none of them charged, and no waiting.
    assert len(trial["attempts"]) <= 2
    assert trial["termination"] == "cannot_run"


def test_the_plan_shows_the_line_of_each_node(client: Client) -> None:
    preview = client.preview(
        "name: x\nentrypoint: torchrun train.py\nresources: {slots: 2, nodes: 2}\n"
        "code: {installed: /tmp}\n"
    )
    assert [node["command"][:4] for node in preview["plan"]] == [
        ["torchrun", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={number}"]
        for number in (0, 1)
    ]
