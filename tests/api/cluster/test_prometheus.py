"""What Prometheus reads: who may, what is there, and that nobody outside makes it grow."""

from __future__ import annotations

import datetime as dt

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import create_engine

from muster_server import clock
from muster_server.db.models import NodeRow, NodeSlotRow
from muster_server.security.tokens import hash_secret
from muster_server.services.core.liveness import backup_made, worker_sweeps
from muster_server.telemetry import cluster, families
from muster_server.telemetry.families import FAMILIES
from support.data import add_attempt, add_experiment, add_trial, add_worker

pytestmark = pytest.mark.either_database

METRICS = "/metrics"
STANDARD = ("process_", "python_")
"""Of prometheus_client itself."""


@pytest.fixture
def fresh(monkeypatch):
    """Every scrape counts anew."""
    monkeypatch.setattr(cluster, "KEPT_S", 0.0)


@pytest.fixture
def scrape(viewer_client):
    def read():
        reply = viewer_client.get(METRICS)
        assert reply.status_code == 200, reply.text
        return {f.name: f for f in text_string_to_metric_families(reply.text)}

    return read


def value(found, name, **labels):
    """Of one sample; None when there is none."""
    samples = (sample for family in found.values() for sample in family.samples)
    for sample in samples:
        if sample.name == name and labels.items() <= sample.labels.items():
            return sample.value
    return None


# ---------------------------------------------------------------- who


def test_it_is_not_for_everybody(client, join_client):
    assert client.get(METRICS).status_code == 401
    assert join_client.get(METRICS).status_code == 403


def test_a_token_of_its_own_may_read_it_and_nothing_else(connect, admin_client):
    made = admin_client.post("/api/v1/tokens", json={"name": "prometheus", "role": "metrics"})
    assert made.status_code == 201, made.text
    monitor = connect(token=made.json()["secret"])
    reply = monitor.get(METRICS)
    assert reply.status_code == 200
    assert reply.headers["Content-Type"].startswith("text/plain")
    for path in ("/api/v1/cluster", "/api/v1/experiments", "/api/v1/tokens", "/openapi.json"):
        assert monitor.get(path).status_code == 403, path
    again = monitor.post("/api/v1/tokens", json={"name": "more", "role": "viewer"})
    assert again.status_code == 403


def test_nobody_has_that_role_as_a_person(admin_client):
    body = {"username": "m", "password": "correct-horse-battery", "role": "metrics"}
    assert admin_client.post("/api/v1/users", json=body).status_code == 422


def test_it_is_scraped_under_whatever_name_the_machine_has(viewer_client):
    assert viewer_client.get(METRICS, headers={"Host": "10.1.2.3:8470"}).status_code == 200


def test_a_revoked_token_is_out_at_once(connect, admin_client):
    made = admin_client.post("/api/v1/tokens", json={"name": "p", "role": "metrics"}).json()
    monitor = connect(token=made["secret"])
    assert monitor.get(METRICS).status_code == 200
    admin_client.delete(f"/api/v1/tokens/{made['id']}")
    assert monitor.get(METRICS).status_code == 401


@pytest.mark.both_databases
def test_an_outage_of_the_database_is_told(app, connect, make_user_token, fresh):
    monitor = connect(token=make_user_token("viewer"))
    assert "muster_database_up 1.0" in monitor.get(METRICS).text
    database = app.state.database
    nowhere = create_engine("sqlite:////no/such/folder/muster.db")
    for sessions in (database._read, database._write):
        sessions.configure(bind=nowhere)
    reply = monitor.get(METRICS)
    stranger = connect(token="mst_usr_" + "x" * 43).get(METRICS)
    assert reply.status_code == 200
    assert "muster_database_up 0.0" in reply.text
    assert "muster_nodes{" not in reply.text
    assert "muster_http_requests_total{" in reply.text
    assert stranger.status_code == 503


# ---------------------------------------------------------------- what


def test_everything_that_is_listed_is_there_and_nothing_else(app, scrape, database):
    with database.transaction() as session:
        session.add(_node("a", slots=1, session=session))
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        trial.state = "RUNNING"
        trial.summary = {"throughput/samples_per_s": {"last": 8.0}}
        worker = add_worker(session, allocation, 0)
        worker.latest = {"time/step_ms": 10.0, "comm/exposed_ms": 2.0}
        backup_made(session, file="/backups/a.db", now=clock.now())
    app.state.telemetry.took_records([], 0)
    found = scrape()
    shown = {name for name in found if not name.startswith(STANDARD)}
    listed = {f.name.removesuffix("_total") for f in FAMILIES if "server" in f.processes}
    needs_redis = {families.CELERY_QUEUE.name, families.REDIS_CONNECTED.name}
    assert shown == listed - needs_redis
    for family in FAMILIES:
        metric = found.get(family.name.removesuffix("_total"))
        if metric is not None:
            assert metric.type == family.kind
            assert metric.documentation == family.help


def test_names_follow_the_conventions():
    for family in FAMILIES:
        assert family.name.startswith("muster_")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert not family.name.endswith(("_ms", "_s", "_mb", "_count", "_sum", "_bucket"))
        assert bool(family.buckets) == (family.kind == "histogram")
        assert list(family.buckets) == sorted(family.buckets)
        assert family.help.endswith((".", "…"))


def test_requests_are_counted_by_route_and_never_by_address(client, viewer_client, scrape):
    for number in range(30):
        viewer_client.get(f"/api/v1/experiments/{number + 1}")
        viewer_client.get(f"/api/v1/no/such/{number}")
        viewer_client.get(f"/page-{number}")
        viewer_client.request(f"M{number}", "/api/v1/experiments")
    client.get("/api/v1/experiments")
    viewer_client.get("/healthz?" + "x" * 9000)
    found = scrape()
    count = "muster_http_requests_total"
    route = "/api/v1/experiments/{experiment_id}"
    assert value(found, count, method="GET", route=route, status="404") == 30
    assert value(found, count, method="GET", route="(none)", status="404") == 30
    assert value(found, count, method="(other)", route="(none)", status="405") == 30
    assert value(found, count, method="GET", route="/api/v1/experiments", status="401") == 1
    assert value(found, count, method="GET", route="(none)", status="414") == 1
    seconds = "muster_http_request_duration_seconds"
    assert value(found, f"{seconds}_count", method="GET", route=route) == 30
    assert len(found[count.removesuffix("_total")].samples) < 12
    assert value(found, "muster_http_requests_in_progress") == 1, "this one"


@pytest.mark.both_databases
def test_the_cluster_is_counted(scrape, database, fresh):
    now = clock.now()
    with database.transaction() as session:
        session.add(_node("a", slots=3, used=1, session=session))
        session.add(_node("b", slots=2, scheduling="draining", session=session))
        session.add(_node("c", slots=1, state="LOST", pool="gpu", kind="cuda", session=session))
        session.add(_node("d", slots=1, health="quarantined", session=session))
        session.add(_node("e", slots=9, state="REMOVED", session=session))
        experiment = add_experiment(session)
        waits = (("QUEUED", 100), ("QUEUED", 20), ("RUNNING", 500))
        for no, (state, waited_s) in enumerate(waits, 1):
            trial = add_trial(session, experiment, no=no)
            trial.state = state
            trial.waiting_since = now - dt.timedelta(seconds=waited_s)
        worker_sweeps(session, holder="w", sweep_interval_s=30, now=now)
    found = scrape()
    assert value(found, "muster_nodes", state="ONLINE") == 3
    assert value(found, "muster_nodes", state="LOST") == 1
    assert value(found, "muster_nodes", state="SUSPECT") == 0
    assert value(found, "muster_nodes", state="REMOVED") is None
    assert value(found, "muster_nodes_scheduling", scheduling="draining") == 1
    assert value(found, "muster_nodes_health", health="quarantined") == 1
    slots = {
        tuple(s.labels[k] for k in ("pool", "slot_type", "state")): s.value
        for s in found["muster_slots"].samples
    }
    assert slots == {
        ("default", "cpu", "used"): 1,
        ("default", "cpu", "free"): 2,
        ("default", "cpu", "unavailable"): 3,
        ("gpu", "cuda", "used"): 0,
        ("gpu", "cuda", "free"): 0,
        ("gpu", "cuda", "unavailable"): 1,
    }
    assert value(found, "muster_queue_length") == 2
    assert 100 <= value(found, "muster_queue_oldest_wait_seconds") < 200
    assert value(found, "muster_trials", state="RUNNING") == 1
    assert value(found, "muster_trials", state="COMPLETED") == 0
    assert value(found, "muster_worker_alive") == 1
    assert value(found, "muster_controller_led") == 0
    assert value(found, "muster_controller_epoch") == 0
    assert value(found, "muster_database_size_bytes") > 10_000
    assert "muster_last_backup_timestamp_seconds" not in found


def test_the_time_of_the_last_backup_is_told(scrape, database, fresh):
    for day in (1, 2):
        at = dt.datetime(2026, 3, day, tzinfo=dt.UTC)
        with database.transaction() as session:
            backup_made(session, file="/backups/a.db", now=at)
    assert value(scrape(), "muster_last_backup_timestamp_seconds") == at.timestamp()


def test_every_node_tells_how_busy_it_is(scrape, database, fresh):
    gpu = {"index": 1, "name": "H", "use_pct": 90.0, "memory_used_bytes": 5, "temperature_c": None}
    hot = {"index": 2, "clock_mhz": 1200.0, "max_clock_mhz": 1980.0, "throttle_reasons": ["heat"]}
    usage = {
        "cpu_pct": 25.0,
        "memory_used_bytes": 7,
        "disk_free_bytes": 9,
        "load_1m": 1.5,
        "interfaces": [{"name": "eth0", "sent_bytes_per_s": 3.0, "received_bytes_per_s": 4.0}],
        "gpus": [gpu, hot],
    }
    with database.transaction() as session:
        _node("a", slots=1, session=session).usage = usage
        _node("b", slots=1, session=session)
        _node("gone", slots=1, state="LOST", session=session).usage = usage
    found = scrape()
    assert value(found, "muster_node_cpu_used_ratio", node="a") == 0.25
    assert value(found, "muster_node_load1", node="a") == 1.5
    assert value(found, "muster_node_memory_used_bytes", node="a") == 7
    sent = "muster_node_network_sent_bytes_per_second"
    assert value(found, sent, node="a", interface="eth0") == 3
    assert value(found, "muster_node_gpu_used_ratio", node="a", gpu="1") == 0.9
    assert not found["muster_node_gpu_temperature_celsius"].samples, "it does not tell"
    assert value(found, "muster_node_gpu_clock_hertz", node="a", gpu="2") == 1.2e9
    assert value(found, "muster_node_gpu_max_clock_hertz", node="a", gpu="2") == 1.98e9
    throttled = found["muster_node_gpu_throttled"].samples
    assert {(s.labels["gpu"], s.labels["reason"]): s.value for s in throttled} == {
        ("2", "power_cap"): 0,
        ("2", "heat"): 1,
        ("2", "board"): 0,
        ("2", "power_supply"): 0,
    }
    told = {s.labels["node"] for f in found.values() for s in f.samples if "node" in s.labels}
    assert told == {"a"}, "b has said nothing yet, and what a lost node said is old"
    assert value(found, "muster_node_left_out") == 0


def test_nodes_beyond_the_bound_are_counted(scrape, database, fresh, monkeypatch):
    monkeypatch.setattr(families, "NODES_MAX", 3)
    with database.transaction() as session:
        for number in range(7):
            _node(f"n{number}", slots=1, session=session).usage = {"cpu_pct": 1.0}
    found = scrape()
    assert len(found["muster_node_cpu_used_ratio"].samples) == 3
    assert value(found, "muster_node_left_out") == 4


def test_an_empty_queue_has_waited_for_nothing(scrape):
    found = scrape()
    assert value(found, "muster_queue_length") == 0
    assert value(found, "muster_queue_oldest_wait_seconds") == 0


def test_a_dead_worker_is_noticed(scrape, database, fresh):
    long_ago = clock.now() - dt.timedelta(hours=1)
    with database.transaction() as session:
        worker_sweeps(session, holder="w", sweep_interval_s=30, now=long_ago)
    assert value(scrape(), "muster_worker_alive") == 0


def test_pools_beyond_the_bound_are_counted_together(scrape, database, fresh, monkeypatch):
    monkeypatch.setattr(families, "POOLS_MAX", 3)
    with database.transaction() as session:
        for number in range(7):
            session.add(_node(f"n{number}", slots=2, pool=f"p{number}", session=session))
    samples = scrape()["muster_slots"].samples
    assert {s.labels["pool"] for s in samples} == {"p0", "p1", "p2", "(other)"}
    assert sum(s.value for s in samples) == 14


def test_many_scrapes_count_once(scrape, database):
    scrape()
    with database.transaction() as session:
        session.add(_node("late", slots=1, session=session))
    assert value(scrape(), "muster_nodes", state="ONLINE") == 0, "kept for some seconds"


@pytest.mark.both_databases
def test_connections_of_the_pool_are_told(scrape, database):
    found = scrape()
    assert value(found, "muster_database_pool_max_connections") == database.max_connections
    in_use = value(found, "muster_database_pool_connections", state="in_use")
    assert in_use is not None


def _node(
    name,
    *,
    session,
    slots,
    used=0,
    state="ONLINE",
    scheduling="open",
    health="ok",
    pool="default",
    kind="cpu",
):
    now = clock.now()
    row = NodeRow(
        id=f"id-{name}",
        name=name,
        pool=pool,
        state=state,
        scheduling=scheduling,
        health=health,
        credential_hash=hash_secret(name),
        registered_at=now,
        last_seen_at=now,
        lease_expires_at=now + dt.timedelta(minutes=1),
    )
    session.add(row)
    session.flush()
    for idx in range(slots):
        allocation = f"a-{name}-{idx}" if idx < used else None
        session.add(NodeSlotRow(node_id=row.id, idx=idx, slot_type=kind, allocation_id=allocation))
    return row


def test_a_free_slot_is_the_same_everywhere(scrape, viewer_client, database, fresh):
    nodes = {
        "open": ({}, 2, None),
        "held": ({"used": 2}, 0, None),
        "warned": ({"health": "degraded"}, 2, None),
        "blocked": ({"health": "degraded"}, 0, "unhealthy"),
        "set-aside": ({"health": "quarantined"}, 0, "quarantined"),
        "cordoned": ({"scheduling": "cordoned", "used": 1}, 0, "cordoned"),
        "draining": ({"scheduling": "draining"}, 0, "draining"),
        "lost": ({"state": "LOST"}, 0, "lost"),
    }
    with database.transaction() as session:
        for name, (how, _, _) in nodes.items():
            row = _node(name, slots=2, session=session, **how)
            if row.health == "degraded":
                row.problems = [{"kind": "disk", "message": "full", "blocks": name == "blocked"}]
            session.add(row)
    listed = viewer_client.get("/api/v1/nodes").json()["items"]
    assert {node["name"]: (node["num_slots_free"], node["unavailable"]) for node in listed} == {
        name: (free, why) for name, (_, free, why) in nodes.items()
    }
    assert viewer_client.get("/api/v1/cluster").json()["num_slots_free"] == 4
    assert value(scrape(), "muster_slots", state="free") == 4
    assert value(scrape(), "muster_slots", state="unavailable") == 9
    with database.transaction() as session:  # no controller leads, and one has become silent
        session.get(NodeRow, "id-open").lease_expires_at = clock.now() - dt.timedelta(minutes=1)
    assert viewer_client.get("/api/v1/nodes/open").json()["num_slots_free"] == 0
    assert viewer_client.get("/api/v1/cluster").json()["num_slots_free"] == 2
    assert value(scrape(), "muster_slots", state="free") == 2
