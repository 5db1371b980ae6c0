"""The alert rules and the Grafana dashboard in a Prometheus that scrapes a server, whose parts then fail."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from support.ports import free_port
from support.processes import ControlPlane
from support.stack import wait_for
from support.valkey import private_valkey

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "deploy/monitoring"
EXPECTED = {"MusterNoWorker", "MusterNeverBackedUp"}
"""Without a Celery worker and a backup, both are right."""
Ask = Callable[..., Any]

pytestmark = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="no prometheus: install prometheus"
)


@pytest.fixture
def cluster(sqlite_url: str, tmp_path: Path) -> Iterator[ControlPlane]:
    with private_valkey() as valkey:
        cluster = ControlPlane(tmp_path, sqlite_url, valkey.url, is_preloaded=True)
        try:
            cluster.start_server()
            cluster.start_controller()
            yield cluster
        finally:
            cluster.close()


@pytest.fixture
def ask(cluster: ControlPlane, tmp_path: Path) -> Iterator[Ask]:
    """`ask("rules")` asks Prometheus, which scrapes as the reference page says, once a second, and
    whose rules wait no longer than that."""
    url = cluster.urls["server"]
    as_admin = {"Authorization": f"Bearer {cluster.make_user_token()}"}
    body = {"name": "prometheus", "role": "metrics"}
    token = httpx.post(f"{url}/api/v1/tokens", json=body, headers=as_admin, trust_env=False).json()
    (tmp_path / "muster-token").write_text(token["secret"])
    rules = (MONITORING / "alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(re.sub(r"for: \w+", "for: 1s", rules))
    page = (ROOT / "docs/reference/metrics.md").read_text()
    (scrape,) = re.findall(r"```yml\n(.*?)```", page, re.DOTALL)
    settings = yaml.safe_load(scrape.replace("muster.example:8470", url.removeprefix("http://")))
    settings |= {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1/", trust_env=False) as http:

        def get(path: str, **query: str) -> Any:
            reply = http.get(path, params=query).json()
            assert reply["status"] == "success", reply
            return reply["data"]

        def is_up() -> bool:
            try:
                return bool(get("query", query='up{job="muster"} == 1')["result"])
            except (httpx.TransportError, ValueError):  # "Service Unavailable", while it starts
                assert process.poll() is None
                return False

        try:
            wait_for("Prometheus has scraped the server", is_up)
            yield get
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def firing(ask: Ask) -> set[str]:
    return {
        alert["labels"]["alertname"]
        for alert in ask("alerts")["alerts"]
        if alert["state"] == "firing"
    }


def test_alerts_fire_when_parts_fail_and_every_panel_can_be_drawn(
    cluster: ControlPlane, ask: Ask
) -> None:
    wait_for("what is always so has been seen", lambda: firing(ask) >= EXPECTED)
    assert firing(ask) == EXPECTED
    (group,) = ask("rules")["groups"]
    assert {rule["name"]: rule["health"] for rule in group["rules"]} == {
        rule["name"]: "ok" for rule in group["rules"]
    }
    dashboard = json.loads((MONITORING / "grafana/muster.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            ask("query", query=target["expr"])
    assert ask("query", query="max(muster_controller_led)")["result"][0]["value"][1] == "1"

    cluster.kill("controller")
    wait_for("nobody leads", lambda: "MusterNoController" in firing(ask))
    cluster.start_controller("controller-2")
    wait_for("the alert has ended", lambda: firing(ask) == EXPECTED)
    cluster.kill("server")
    wait_for("the server is down", lambda: "MusterServerDown" in firing(ask))
