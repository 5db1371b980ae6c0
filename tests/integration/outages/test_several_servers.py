"""Two API servers and two controllers on one PostgreSQL and one Redis, and an agent that knows one.

Everything is a process of its own, as in a cluster behind a load balancer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from muster.client import Client, Target
from support.live import LiveClient
from support.processes import ControlPlane
from support.stack import scripted, wait_for
from support.valkey import private_valkey

pytestmark = pytest.mark.postgres

TAKE_OVER_S = 30.0
"""With room for a busy machine: the lease is 5 s."""


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Iterator[ControlPlane]:
    with private_valkey() as valkey:
        cluster = ControlPlane(tmp_path, postgres_url, valkey.url, is_preloaded=True)
        (tmp_path / "join-token").write_text(cluster.make_join_token(uses=1))
        try:
            for name in ("server-a", "server-b"):
                cluster.start_server(name)
            for name in ("controller-1", "controller-2"):
                cluster.start_controller(name)
            cluster.start(
                "agent", "muster_agent.cli", "run", "--name", "n1", "--slots", "2",
                "--slot-type", "cpu", "--server", cluster.urls["server-a"],
                "--join-token-file", str(tmp_path / "join-token"),
                "--home", str(tmp_path / "agent"), "--stop-allocations",
            )  # fmt: skip
            yield cluster
        finally:
            cluster.close()


def only_trial(client: Client, experiment_id: int) -> dict[str, Any]:
    (trial,) = client.trials(experiment_id)
    return trial


def test_what_one_server_takes_in_another_shows_at_once_and_the_lead_moves(
    cluster: ControlPlane,
) -> None:
    token = cluster.make_user_token()

    def connect(name: str) -> Client:
        return Client(Target(cluster.urls[name], token, "the test"))

    # Many steps, far apart: each is on screen before the next one is reported.
    script = [{"train": {"epochs": 1, "steps_per_epoch": 4000, "step_s": 0.25}}]
    with connect("server-b") as client:
        first = client.submit(scripted("long", script))["id"]
        wait_for("it trains", lambda: only_trial(client, first)["step"] > 2, 120)
        trial = only_trial(client, first)

        # The agent reports to A alone; B's page hears of it, and finds it there.
        page = LiveClient(urlsplit(cluster.urls["server-b"]).port or 0, token=token)
        assert page.receive()["hello"]["degraded"] is False
        topic = f"trial:{trial['id']}:metrics"
        page.subscribe(topic)
        series = f"/trials/{trial['id']}/series?name=train/loss&rank=0&max_points=1000"

        def last_step() -> int:
            return int(client.get(series)["series"][0]["step"][-1])

        for _ in range(3):
            seen = last_step()
            while last_step() <= seen:  # a hint may be of something else, or late
                page.expect("topic", topic, timeout_s=20)
        page.close()

        # Who leads dies; the other one goes on, and what runs notices nothing.
        epoch, leader = cluster.leader()
        cluster.processes[leader].kill()
        second = client.submit(scripted("after", [{"log": "hello"}]))["id"]
        wait_for("another one leads", lambda: cluster.leader()[0] > epoch, TAKE_OVER_S)
        assert cluster.leader()[1] not in ("", leader)
        ended = client.wait(second, timeout_s=90)
        assert ended["state"] == "COMPLETED"

        # Stopped through the server that its agent has never spoken to.
        assert only_trial(client, first)["attempt_no"] == 1
        client.stop(first)
        assert client.wait(first, timeout_s=90)["state"] == "CANCELED"
    with connect("server-a") as other:
        assert other.experiment(first)["state"] == "CANCELED"
