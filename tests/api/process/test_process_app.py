"""What controllers and Celery workers answer on ports of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import time

import httpx
import pytest

from muster_server.api.http.guard import operations_of
from muster_server.process_app import create_process_app
from muster_server.telemetry.families import FAMILIES
from muster_server.telemetry.process import ControllerTelemetry, WorkerTelemetry
from support import preloaded
from support.client import make_client, running
from support.ports import free_port

DEADLINE_S = 60


@pytest.fixture
def working():
    return {"is": True}


@pytest.fixture(params=[ControllerTelemetry, WorkerTelemetry])
def telemetry(request, database):
    return request.param(database)


@pytest.fixture
def process_app(settings, telemetry, database, working):
    return create_process_app(settings, telemetry, database, lambda: working["is"])


@pytest.fixture
def reach(process_app):
    with running(process_app) as portal:
        yield lambda token=None: make_client(process_app, portal, token=token)


def test_every_route_of_it_is_in_the_permission_table(process_app):
    permissions = {o.id: o.permission for o in operations_of(process_app.routes)}
    assert permissions == {
        "healthz": "public",
        "readyz": "public",
        "get_prometheus_metrics": "metrics",
    }


def test_its_metrics_are_those_that_are_listed(reach, telemetry, make_user_token):
    assert reach().get("/metrics").status_code == 401
    text = reach(make_user_token("viewer", token_role="metrics")).get("/metrics").text
    shown = set(re.findall(r"^# HELP (muster_\S+)", text, re.MULTILINE))
    assert shown == {f.name for f in FAMILIES if telemetry.process in f.processes}


def test_it_is_ready_while_it_works(reach, telemetry, working):
    client = reach()
    assert client.get("/healthz").status_code == 200
    ready = client.get("/readyz")
    expected = {
        "status": "ready",
        "process": telemetry.process,
        "database": "ok",
        "redis": "not_configured",
        "working": True,
    }
    if telemetry.process == "worker":  # whose jobs come through Redis
        expected["status"] = "not_ready"
    assert ready.json() == expected
    working["is"] = False
    stuck = client.get("/readyz")
    assert stuck.status_code == 503
    assert stuck.json()["working"] is False


def test_anything_else_is_404_for_who_may_ask(reach, make_user_token):
    assert reach().get("/api/v1/cluster").status_code == 401
    assert reach(make_user_token("admin")).get("/api/v1/cluster").status_code == 404


# ---------------------------------------------------------------- the processes


def start(command, tmp_path, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return preloaded.start(
        [preloaded.SERVER, command],
        environment={**environment, **variables},
        folder=tmp_path,
        output=tmp_path / f"{command}.log",
    )


def test_a_controller_answers_while_it_leads_and_ends_in_order(
    sqlite_url, tmp_path, make_user_token
):
    port = free_port()
    process = start(
        "controller", tmp_path, MUSTER_DATABASE_URL=sqlite_url, MUSTER_CONTROLLER_PORT=str(port)
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            assert process.poll() is None, (tmp_path / "controller.log").read_text()
            assert time.monotonic() < deadline
            try:
                ready = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5)
                if ready.status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        assert ready.json()["process"] == "controller"
        headers = {"Authorization": f"Bearer {make_user_token('viewer')}"}
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=headers).text
        assert "muster_controller_leading 1.0" in text
        assert 'muster_controller_pass_duration_seconds_count{loop="scheduler"}' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_taken_is_named_with_its_setting(sqlite_url, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = start(
            "controller", tmp_path, MUSTER_DATABASE_URL=sqlite_url, MUSTER_CONTROLLER_PORT=port
        )
        assert process.wait(DEADLINE_S) == 1
    assert f"MUSTER_CONTROLLER_PORT={port}" in (tmp_path / "controller.log").read_text()
