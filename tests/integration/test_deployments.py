"""Deployments on a real stack: the guide, and requests while a replica dies and versions change."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from guides import run_guide

from muster.client import Client, Refused
from support.stack import Stack, wait_for

pytestmark = [pytest.mark.timeout(400), pytest.mark.torch]

REQUESTS_MAX = 1_000
SENDERS = 3
PAUSE_S = 0.1
SLOWING = 150
"""After so many requests in a phase, another second between two: phases may take long."""


def write_version(folder: Path, seed: int) -> Path:
    """Write the files of a small model, each seed another one."""
    import torch
    from safetensors.torch import save_file

    from muster.document.model_config import ModelConfig
    from muster.document.train_config import TrainConfig
    from muster.training.models import build

    config = ModelConfig.of(TrainConfig(model="mlp", data="digits", width=8, depth=1))
    assert config.shape is not None
    assert config.classes is not None
    torch.manual_seed(seed)
    settings = config.train_config()
    module = build(settings, inputs=config.shape, classes=config.classes)
    folder.mkdir()
    save_file({k: v + seed for k, v in module.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(config.text())
    return folder


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
                num = sum(phase == self.phase for phase, _, _ in self.answers)
                if self.stop.wait(PAUSE_S + num / SLOWING):
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


def test_no_request_fails_while_a_replica_is_killed_and_versions_change(
    open_stack: Stack, tmp_path: Path
) -> None:
    with open_stack.client() as client:
        for seed in (1, 2):
            version = client.upload_model("it", write_version(tmp_path / f"v{seed}", seed))
            client.wait_for_model(f"it:{version['number']}", timeout_s=60)
        client.set_model_alias("it", "production", 1)
        client.deploy("it@production", replicas=2)
        try:
            _check(client, open_stack)
        finally:
            client.stop_deployment("it")
        assert client.wait_for_deployment("it", timeout_s=120)["state"] == "stopped"
        client.delete_deployment("it")


def _check(client: Client, open_stack: Stack) -> None:
    found = client.wait_for_deployment("it", timeout_s=120)
    assert (found["version"], found["num_ready"]) == (1, 2)
    load = Load(found["url"], open_stack.access["token"], "steady")
    with load.going_on():
        load.wait_for_version("1")
        _kill_one(client, load)
        load.phase = "update"
        assert client.update_deployment("it", "it:2", reason="newer")["state"] == "updating"
        found = client.wait_for_deployment("it", timeout_s=180)
        assert (found["version"], found["message"]) == (2, "")
        load.wait_for_version("2")
        load.phase = "rollback"
        client.roll_back_deployment("it")
        assert client.wait_for_deployment("it", timeout_s=180)["version"] == 1
        load.wait_for_version("1")
    for phase in ("steady", "update", "rollback"):
        assert load.failures(phase) == []
    killed = load.failures("kill")
    assert len(killed) <= SENDERS, "only what the killed replica was answering may fail"
    assert all(status == 502 and "Send the request again" in said for _, status, said in killed)
    assert load.versions("update") == load.versions("rollback") == {"1", "2"}
    _check_edges(client, found["url"], open_stack)
    revisions = client.deployment("it")["revisions"]
    assert [(r["version"], r["state"]) for r in revisions] == [
        (1, "serving"),
        (2, "replaced"),
        (1, "replaced"),
    ]


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
        return trial["attempt_no"] == 2 and found["num_ready"] == 2

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
        assert reader.predict("it", [[[[0.0] * 8] * 8]])
        with pytest.raises(Refused):
            reader.deployments()
    away = url.replace("/it", "/nothing")
    token = {"authorization": f"Bearer {stack.access['token']}"}
    assert httpx.get(f"{away}/v2", headers=token).status_code == 404
    metrics = httpx.get(url.replace("/it", "/metrics"), headers=token)
    assert "haproxy_backend_http_requests_total" in metrics.text


def test_the_guide_is_followed(open_stack: Stack, tmp_path: Path) -> None:
    run_guide(open_stack, "deployments.md", tmp_path)
