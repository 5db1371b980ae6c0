"""Liveness and readiness."""

from __future__ import annotations

import datetime as dt
import shutil
from contextlib import suppress
from pathlib import Path

from muster_server import clock
from muster_server.db.leases import acquire
from muster_server.services.core.liveness import CONTROLLER_LEASE, worker_sweeps


def test_healthz_answers_without_credentials(client):
    reply = client.get("/healthz")
    assert reply.status_code == 200
    assert reply.json() == {"status": "ok"}


def test_unknown_path_is_refused_without_credentials(client):
    assert client.get("/api/v1/nothing").status_code == 401


def test_unknown_path_is_404_for_a_user(viewer_client):
    reply = viewer_client.get("/api/v1/nothing")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "request.no_such_path"


def test_readiness_tells_which_part_is_down(client, database):
    now = clock.now()
    assert client.get("/readyz").json() == {
        "status": "ready",
        "database": "ok",
        "redis": "not_configured",
        "controller": "absent",
        "failing_loop": None,
        "worker": "absent",
    }
    with database.transaction() as session:
        ttl = dt.timedelta(seconds=60)
        acquire(session, name=CONTROLLER_LEASE, holder="c", ttl=ttl, now=now)
        worker_sweeps(session, holder="w", sweep_interval_s=30, now=now)
        worker_sweeps(session, holder="another", sweep_interval_s=30, now=now)
    ready = client.get("/readyz").json()
    assert (ready["controller"], ready["worker"]) == ("ok", "ok")


def test_a_database_that_is_away_hides_the_rest(app, connect, tmp_path):
    path = app.state.database.url.database
    if app.state.database.is_sqlite:
        while not Path(path).is_dir():  # a background task may make the file again in between
            shutil.move(path, tmp_path / "elsewhere.db")
            with suppress(FileExistsError):
                Path(path).mkdir()  # nothing that can be opened
    # Last: a background task could otherwise connect to the file before it is moved.
    app.state.database.engine.dispose()
    reply = connect().get("/readyz")
    assert reply.status_code == 503
    body = reply.json()
    assert body["database"] in ("unreachable", "not_migrated")
    assert (body["controller"], body["worker"]) == ("unknown", "unknown")


def test_a_full_disk_is_told(client, database, monkeypatch):
    usage = shutil._ntuple_diskusage(total=1000, used=1000, free=0)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    reply = client.get("/readyz")
    if database.is_sqlite:
        assert (reply.status_code, reply.json()["database"]) == (503, "disk_full")
    else:
        assert reply.status_code == 200
