"""Deployments on a real stack: the guide, and requests while a replica dies and versions change."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from muster.client import Client, Refused
from muster_models.domain.deployments import routing
from support.guides import run_guide
from support.ports import free_port
from support.stack import Stack, wait_for

pytestmark = pytest.mark.torch

REQUESTS = 1_000
REQUESTS_MAX = 20_000
SENDERS = 3
PAUSE_S = 0.05


SEARCH = """
name: reads-digits
trainer: {model: mlp, data: digits, epochs: 2, batch_size: 64, width: 8, depth: 1}
hyperparameters: {lr: {choice: [0.0001, 0.01]}}
search: {method: grid, metric: val/loss, goal: min}
"""


@dataclass
class Load:
    """Requests in a bounded loop, and what came of each."""

    url: str
    token: str
    phase: str = ""
    answers: list[tuple[str, int, str]] = field(default_factory=list)
    """Phase at the end, status, and version or error."""
    stop: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        rows = {"name": "input", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5] * 64}
        body = json.dumps({"inputs": [rows]})
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx.Client(headers=headers, timeout=30) as http:
            while len(self.answers) < REQUESTS_MAX:
                if self.stop.wait(PAUSE_S):
                    return
                try:
                    reply = http.post(f"{self.url}/v2/models/it/infer", content=body)
                    said = reply.json()
                    what = said.get("model_version") or said["error"]
                    self.answers.append((self.phase, reply.status_code, what))
                except httpx.TransportError as error:
                    self.answers.append((self.phase, 0, repr(error)))

    @contextmanager
    def going_on(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.send) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()

    def wait_for_answers(self, num: int) -> None:
        """Wait until there are so many more."""
        wanted = min(len(self.answers) + num, REQUESTS_MAX)
        wait_for(f"{num} answers", lambda: len(self.answers) >= wanted, 120)

    def failures(self, phase: str) -> list[tuple[str, int, str]]:
        return [a for a in self.answers if a[0] == phase and a[1] != 200]

    def versions(self, phase: str) -> set[str]:
        return {a[2] for a in self.answers if a[0] == phase and a[1] == 200}

    def wait_for_version(self, version: str) -> None:
        """Wait until the last answers all come from this version."""
        start = len(self.answers)
        wait_for(
            f"version {version} answers",
            lambda: (
                len(self.answers) >= start + 10
                and {a[2] for a in self.answers[-10:] if a[1] == 200} == {version}
            ),
        )


def test_the_best_of_a_search_serves_while_parts_are_killed_and_versions_change(
    stack: Stack,
) -> None:
    with stack.client() as client:
        _register(client)
        _export_and_evaluate(client)
        client.deploy("it@production", replicas=2)
        try:
            _check(client, stack)
        finally:
            client.stop_deployment("it")
        assert client.wait_for_deployment("it", timeout_s=120)["state"] == "stopped"
        client.delete_deployment("it")


def _register(client: Client) -> None:
    """Train, and make the worse model version 1, in production, and the better one version 2."""
    experiment_id = client.submit(SEARCH)["id"]
    assert client.wait(experiment_id, timeout_s=200)["state"] == "COMPLETED"
    best = client.best_trial(experiment_id)["id"]
    other = next(t["id"] for t in client.trials(experiment_id) if t["id"] != best)
    client.register_model("it", checkpoint_id=client.checkpoints(other)[0]["id"])
    client.wait_for_model("it:1", timeout_s=60)
    client.set_model_alias("it", "production", 1)
    client.promote_model("it", "candidate", experiment_id)
    names = {"candidate", "production"}
    wait_for("the rule is applied", lambda: names == {a["name"] for a in _aliases(client)})
    version = client.model_version("it@candidate")
    assert (version["number"], version["lineage"]["trial_id"]) == (2, best)


def _aliases(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/models/it")["aliases"]
    return found


def _export_and_evaluate(client: Client) -> None:
    jobs = [
        client.export_model("it@candidate", ["onnx", "safetensors"])["id"],
        *(client.evaluate_model(f"it:{number}")["id"] for number in (1, 2)),
    ]
    for job in jobs:
        assert client.wait(job, timeout_s=200)["state"] == "COMPLETED"
    (export,) = client.model_exports("it:2")
    verdicts = {e["format"]: e["comparison"]["verdict"] for e in export["exports"]}
    assert verdicts == {"onnx": "within", "safetensors": "equal"}
    board = next(b for b in client.model_leaderboards("digits") if _versions(b) >= {1, 2})
    ranks = {row["version"]: row["rank"] for row in board["rows"] if row["model"] == "it"}
    assert ranks[2] < ranks[1]


def _versions(board: dict[str, Any]) -> set[int]:
    return {row["version"] for row in board["rows"] if row["model"] == "it"}


def _check(client: Client, stack: Stack) -> None:
    found = client.wait_for_deployment("it", timeout_s=120)
    assert (found["version"], found["num_ready"]) == (1, 2)
    load = Load(found["url"], stack.access["token"], "steady")
    with load.going_on():
        load.wait_for_version("1")
        stack.kill_part(f"agent-{found['replicas'][0]['node']}")
        stack.kill_part("controller")
        load.wait_for_answers(50)
        _kill_one(client, load)
        load.phase = "update"
        assert client.update_deployment("it", "it@candidate", reason="newer")["state"] == "updating"
        stack.kill_part("controller")
        found = client.wait_for_deployment("it", timeout_s=180)
        assert (found["version"], found["message"]) == (2, "")
        load.wait_for_version("2")
        load.phase = "rollback"
        client.roll_back_deployment("it")
        assert client.wait_for_deployment("it", timeout_s=180)["version"] == 1
        load.wait_for_version("1")
        load.wait_for_answers(REQUESTS - len(load.answers))
    for phase in ("steady", "update", "rollback"):
        assert load.failures(phase) == []
    killed = load.failures("kill")
    assert len(killed) <= SENDERS, "only what the killed replica was answering may fail"
    assert all(status == 502 and "Send the request again" in said for _, status, said in killed)
    assert load.versions("update") == load.versions("rollback") == {"1", "2"}
    _check_edges(client, found["url"], stack)
    revisions = client.deployment("it")["revisions"]
    assert [(r["version"], r["state"]) for r in revisions] == [
        (1, "serving"),
        (2, "replaced"),
        (1, "replaced"),
    ]
    uses = {use["kind"] for use in client.model_lineage("it:2")["uses"]}
    assert uses == {"export", "evaluation", "deployment"}


def _kill_one(client: Client, load: Load) -> None:
    """Kill the process of a replica, and wait until another one serves in its place."""
    replica = client.deployment("it")["replicas"][0]
    (worker,) = [
        w for w in client.pages(f"/trials/{replica['trial_id']}/workers") if w["ended_at"] is None
    ]
    load.phase = "kill"
    os.kill(worker["pid"], signal.SIGKILL)

    def is_back() -> bool:
        found = client.deployment("it")
        trial = client.get(f"/trials/{replica['trial_id']}")
        return bool(trial["attempt_no"] == 2 and found["num_ready"] == 2)

    wait_for("the killed replica is back", is_back, 120)


def _check_edges(client: Client, url: str, stack: Stack) -> None:
    path = f"{url}/v2/models/it"
    assert httpx.get(path).status_code == 401
    assert httpx.get(path, headers={"authorization": "Bearer mst_usr_wrong"}).status_code == 401
    assert len(client.predict("it", [[[[0.0] * 8] * 8]])[0]) == 10
    with pytest.raises(Refused, match="must be"):
        client.predict("it", [[0.0] * 3])
    with pytest.raises(Refused, match="deployment it serves it"):
        client.delete_model("it:1", force=True)
    made = json.loads(stack.cli("token", "create", "it", "--role", "predict", "--json").stdout)
    with Client(stack.url, made["secret"]) as reader:

        def answered() -> bool:
            try:
                return bool(reader.predict("it", [[[[0.0] * 8] * 8]]))
            except Refused:
                return False

        wait_for("the router knows the new token", answered, 20)
        with pytest.raises(Refused):
            reader.deployments()
    away = url.replace("/it", "/nothing")
    token = {"authorization": f"Bearer {stack.access['token']}"}
    assert httpx.get(f"{away}/v2", headers=token).status_code == 404
    metrics = httpx.get(url.replace("/it", "/metrics"), headers=token)
    assert "haproxy_backend_http_requests_total" in metrics.text


def test_a_hidden_deployment_is_answered_as_none_by_the_router(tmp_path: Path) -> None:
    port = free_port()
    member, stranger = (
        hashlib.sha256(name.encode()).hexdigest() for name in ("member", "stranger")
    )
    routes = routing.Routes(
        names={routing.name_digest(name): f"d{n}" for n, name in ((1, "open"), (12, "closed"))},
        keys={"d1": "k1", "d12": "k12"},
        tokens=frozenset({member, stranger}),
        hidden=frozenset({"d12"}),
        seen_by=frozenset({routing.seen_by_entry(member, "d12")}),
    )
    for name, content in routing.file_contents(routes).items():
        (tmp_path / name).write_text(content)
    config = tmp_path / "haproxy.cfg"
    config.write_text(
        routing.configuration(
            routes, folder=str(tmp_path), socket=f"{tmp_path}/s", host="127.0.0.1", port=port,
            prefix="/lab/models",
        )
    )  # fmt: skip

    def ask(name: str, token: str) -> tuple[int, str]:
        """As behind a proxy that strips the path of the address, and behind one that passes it on."""
        headers = {"authorization": f"Bearer {token}"}
        answers = [
            httpx.get(f"http://127.0.0.1:{port}{prefix}/{name}/v2", headers=headers)
            for prefix in ("", "/lab/models")
        ]
        assert answers[0].text == answers[1].text
        return answers[0].status_code, answers[0].text

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    haproxy = subprocess.Popen(["haproxy", "-db", "-f", config], stderr=subprocess.PIPE)
    try:
        wait_for("the router listens", listens, 30)
        assert ask("closed", "member")[0] == 503, "it has no replica"
        assert ask("open", "stranger")[0] == 503
        assert ask("closed", "stranger") == ask("nothing", "stranger")
        assert ask("closed", "stranger")[0] == 404
        assert ask("closed", "nobody")[0] == 401
    finally:
        haproxy.kill()
        haproxy.communicate()


OWN = """
import torch

def net(inputs, classes):
    return torch.nn.Linear(inputs[0], classes)

def samples():
    x = torch.linspace(-1, 1, 300)[:, None]
    y = (x[:, 0] > 0).long()
    return {split: (x, y) for split in ("train", "val", "test")}
"""


def test_a_model_of_ones_own_functions_is_served_with_the_code_that_trained_it(
    stack: Stack, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    trainer = {"model": "own:net", "data": "own:samples", "epochs": 8, "lr": 0.1}
    with stack.client() as client:
        document = {"name": "own", "code": {"path": "."}, "trainer": trainer}
        trained = client.submit(document, code=tmp_path)["id"]
        assert client.wait(trained, timeout_s=200)["state"] == "COMPLETED"
        saved = client.checkpoints(experiment_id=trained)[0]
        client.register_model("own", checkpoint_id=saved["id"])
        client.wait_for_model("own:1", timeout_s=60)
        client.deploy("own")
        try:
            assert client.wait_for_deployment("own", timeout_s=120)["state"] == "ready"
            outputs = client.predict("own", [[-1.0], [1.0]])
        finally:
            client.stop_deployment("own")
        assert [row.index(max(row)) for row in outputs] == [0, 1]
        client.wait_for_deployment("own", timeout_s=120)
        client.delete_deployment("own")


def test_the_guide_is_followed(stack: Stack, tmp_path: Path) -> None:
    run_guide(stack, "deployments.md", tmp_path)
