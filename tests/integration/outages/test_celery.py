"""A real worker process with a real Valkey: it compacts, and losing the broker loses nothing."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import redis
from pydantic import SecretStr
from sqlalchemy import func, select, update

from muster.launch.forkserver import ForkedProgram
from muster_server import clock
from muster_server.api.health import redis_state
from muster_server.db.engine import Database
from muster_server.db.models import (
    AllocationRow,
    MetricBatchRow,
    MetricBlockRow,
    NotificationTargetRow,
    UserRow,
)
from muster_server.local.valkey import find_server_binary
from muster_server.schemas.accounts.notifications import (
    NotificationRuleIn,
    NotificationTargetIn,
    WebhookIn,
)
from muster_server.security.principal import Principal
from muster_server.security.stack_secrets import new_key
from muster_server.services.core.callers import Caller
from muster_server.services.core.events import add_event
from muster_server.services.metrics import ingest
from muster_server.services.notifications import rules, targets
from muster_server.settings import Settings
from support import preloaded
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record
from support.ports import free_port
from support.receivers import webhook_receiver

DEADLINE_S = 120.0


class Valkey:
    def __init__(self, folder: Path) -> None:
        self.socket = folder / "v.sock"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                find_server_binary(),
                "--port",
                "0",
                "--unixsocket",
                self.socket,
                "--save",
                "",
                "--maxmemory-policy",
                "noeviction",
                "--dir",
                self.socket.parent,
            ],
            stdout=subprocess.DEVNULL,
        )
        self.client = redis.Redis(unix_socket_path=str(self.socket))
        wait_until(self._answers, "Valkey to answer")

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:.0f} s for {what}"
        time.sleep(0.05)


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    folder = Path(tempfile.mkdtemp(prefix="mv"))  # short: socket paths have 100 bytes
    server = Valkey(folder)
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def start_worker(
    database_url: str, valkey: Valkey, tmp_path: Path
) -> Iterator[Callable[..., ForkedProgram]]:
    started: list[ForkedProgram] = []

    def start(lifeline_fd: int | None = None, **settings: str) -> ForkedProgram:
        environment = {
            **os.environ,
            **settings,
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_REDIS_URL": f"unix://{valkey.socket}",
            "MUSTER_SWEEP_INTERVAL_S": "1",
        }
        if lifeline_fd is not None:
            environment["MUSTER_LIFELINE_FD"] = str(lifeline_fd)
        started.append(
            preloaded.start(
                [preloaded.SERVER, "worker"],
                environment=environment,
                folder=tmp_path,
                output=tmp_path / f"worker-{len(started)}.txt",
                pass_fds=() if lifeline_fd is None else (lifeline_fd,),
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def allocation_id(database: Database) -> str:
    with database.transaction() as session:
        (allocation,) = add_attempt(session, add_trial(session, add_experiment(session)))
        return allocation.id


@pytest.fixture
def report(database: Database, allocation_id: str) -> Callable[[int], None]:
    """Store a batch that is old enough to be compacted."""

    def store(seq: int) -> None:
        with database.transaction() as session:
            ingest.ingest(
                session,
                allocation=session.get_one(AllocationRow, allocation_id),
                seq=seq,
                record=metrics_record({"train/loss": [(seq, 1.0)]}),
                at=clock.now() - dt.timedelta(minutes=5),
            )

    return store


@pytest.fixture
def num_compacted(database: Database) -> Callable[[], int]:
    """Points in blocks, once no batch is left; else -1."""

    def count() -> int:
        with database.read() as session:
            if session.scalar(select(func.count()).select_from(MetricBatchRow)):
                return -1
            return session.scalar(select(func.sum(MetricBlockRow.num_points))) or 0

    return count


@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_losing_everything_in_redis_is_a_delay_and_not_a_loss(
    valkey: Valkey,
    start_worker: Callable[..., ForkedProgram],
    report: Callable[[int], None],
    num_compacted: Callable[[], int],
) -> None:
    report(1)
    start_worker()
    wait_until(lambda: num_compacted() == 1, "the first compaction")

    report(2)
    valkey.client.flushall()
    wait_until(lambda: num_compacted() == 2, "a sweep after FLUSHALL")

    valkey.stop()
    report(3)
    valkey.start()
    wait_until(lambda: num_compacted() == 3, "a sweep after the broker came back empty")


@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_notifications_outlive_an_absent_receiver_and_an_emptied_redis(
    valkey: Valkey,
    start_worker: Callable[..., ForkedProgram],
    database: Database,
) -> None:
    """Three trials fail while the receiver is away, Redis is flushed and the worker is killed."""
    key = new_key()
    settings = Settings(secrets_key=SecretStr(key), notify_allowed_networks=["127.0.0.0/8"])
    environment = {
        "MUSTER_SECRETS_KEY": key,
        "MUSTER_NOTIFY_ALLOWED_NETWORKS": '["127.0.0.0/8"]',
        "MUSTER_NOTIFY_INTERVAL_S": "0.2",
    }
    with webhook_receiver() as hook:
        hook.status = 503
        with database.transaction() as session:
            user = UserRow(username="ada", password_hash=None, role="member", created_at=NOW)
            session.add(user)
            session.flush()
            experiment = add_experiment(session)
            experiment.owner_id = user.id
            caller = Caller(
                principal=Principal(kind="user", name="ada", role="member", user_id=user.id),
                now=clock.now(),
            )
            config = WebhookIn(kind="webhook", url=hook.url)
            made = targets.create_target(
                session, caller, NotificationTargetIn(name="hook", config=config), settings
            )
            rule = NotificationRuleIn(kinds=["trial.failed"], target_ids=[made.target.id])
            rules.create_rule(session, caller, rule)
            experiment_id = experiment.id
        worker = start_worker(**environment)
        for number in range(3):
            with database.transaction() as session:
                add_event(
                    session,
                    "trial.state",
                    f"cause {number}",
                    now=clock.now(),
                    experiment_id=experiment_id,
                    data={"after": "FAILED"},
                )
        wait_until(lambda: len(hook.refused) > 0, "the first attempt")
        valkey.client.flushall()
        worker.kill()
        hook.status = 200
        with database.transaction() as session:
            # As if the pause had passed, and the claim of the worker that was killed.
            session.execute(
                update(NotificationTargetRow).values(not_before=None, claimed_until=None)
            )
        start_worker(**environment)
        valkey.client.flushall()
        wait_until(lambda: len(hook.received) >= 3, "the messages")
        assert [one.body["data"]["message"] for one in hook.received] == [
            "cause 0",
            "cause 1",
            "cause 2",
        ]
        assert hook.received[0].id == hook.refused[0].id
        assert made.secret is not None
        assert all(one.is_signed_with(made.secret) for one in hook.received)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    kind = getattr(request, "param", "sqlite")
    url: str = request.getfixturevalue(f"{kind}_url")
    return url


def test_two_workers_at_once_count_each_point_once(
    start_worker: Callable[..., ForkedProgram],
    report: Callable[[int], None],
    num_compacted: Callable[[], int],
) -> None:
    for seq in range(1, 51):
        report(seq)
    start_worker()
    start_worker()
    wait_until(lambda: num_compacted() == 50, "the compaction")


def test_a_worker_ends_when_its_lifeline_is_cut(
    valkey: Valkey,
    start_worker: Callable[..., ForkedProgram],
    report: Callable[[int], None],
    num_compacted: Callable[[], int],
) -> None:
    read_fd, write_fd = os.pipe()
    report(1)
    worker = start_worker(read_fd)
    os.close(read_fd)
    wait_until(lambda: num_compacted() == 1, "the worker to work")
    os.close(write_fd)
    assert worker.wait(DEADLINE_S) == 0


def test_a_worker_ends_on_sigterm(
    start_worker: Callable[..., ForkedProgram],
    report: Callable[[int], None],
    num_compacted: Callable[[], int],
) -> None:
    report(1)
    worker = start_worker()
    wait_until(lambda: num_compacted() == 1, "the worker to work")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_S) == 0


def test_a_worker_answers_health_and_metrics_beside_its_work(
    database_url: str, valkey: Valkey, tmp_path: Path, make_user_token: Callable[..., str]
) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_REDIS_URL": f"unix://{valkey.socket}",
        "MUSTER_SWEEP_INTERVAL_S": "1",
        "MUSTER_WORKER_PORT": str(port),
    }
    worker = preloaded.start(
        [preloaded.SERVER, "worker"],
        environment=environment,
        folder=tmp_path,
        output=tmp_path / "worker.txt",
    )
    headers = {"Authorization": f"Bearer {make_user_token('viewer', token_role='metrics')}"}

    def get(path: str) -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=10).text
        except httpx.HTTPError:
            return ""

    try:
        wait_until(lambda: '"status":"ready"' in get("/readyz"), "the worker to be ready")
        swept = 'muster_tasks_total{outcome="success",task="muster.sweep"} '
        wait_until(lambda: swept in get("/metrics"), "a sweep to be counted")
        assert 'muster_task_duration_seconds_count{task="muster.sweep"}' in get("/metrics")
        valkey.stop()
        wait_until(lambda: '"redis":"unreachable"' in get("/readyz"), "the loss to be told")
        assert '"status":"not_ready"' in get("/readyz")
    finally:
        worker.kill()
        worker.wait()


def test_messages_are_json(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster_server.settings import Settings
    from muster_server.tasks.app import make_celery

    app = make_celery(Settings(redis_url=f"unix://{valkey.socket}"))
    app.send_task("muster.compact_metrics", (5,))
    message = json.loads(valkey.client.lindex("muster-celery:muster", 0) or b"")
    assert message["content-type"] == "application/json"
    assert app.conf.accept_content == ["json"]
    app.close()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_worker_waits_while_redis_takes_no_writes_and_says_why(
    valkey: Valkey,
    start_worker: Callable[..., ForkedProgram],
    report: Callable[[int], None],
    num_compacted: Callable[[], int],
    database_url: str,
    tmp_path: Path,
) -> None:
    report(1)
    valkey.client.config_set("min-replicas-to-write", 1)
    worker = start_worker(MUSTER_LOG_FORMAT="json")
    output = tmp_path / "worker-0.txt"

    def times_said() -> int:
        return output.read_text().count("redis_refuses_writes")

    wait_until(lambda: times_said() > 0 or worker.poll() is not None, "the worker to say why")
    assert worker.poll() is None, output.read_text()
    assert "NOREPLICAS" in output.read_text()
    environment = {
        **os.environ,
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_REDIS_URL": f"unix://{valkey.socket}",
    }
    command = [sys.executable, "-m", "muster_server.cli", "check"]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (line,) = [one for one in checked.stdout.splitlines() if one.startswith("redis:")]
    assert checked.returncode == 1
    assert "FAILED" in line
    assert "refuses writes: NOREPLICAS" in line

    settings = Settings(redis_url=SecretStr(f"unix://{valkey.socket}"))
    assert redis_state(settings) == "refuses_writes"

    valkey.client.config_set("min-replicas-to-write", 0)
    assert redis_state(settings) == "ok"
    wait_until(lambda: num_compacted() == 1, "a sweep once Redis takes writes")

    # A replica after a failover, in the middle of the work.
    before = times_said()
    valkey.client.replicaof("127.0.0.1", "1")
    wait_until(lambda: times_said() > before, "the worker to say why again")
    assert worker.poll() is None, output.read_text()
    report(2)
    valkey.client.replicaof("NO", "ONE")
    wait_until(lambda: worker.poll() is not None or num_compacted() == 2, "the worker to go on")
    assert worker.poll() is None, output.read_text()
    assert "READONLY" in output.read_text()
