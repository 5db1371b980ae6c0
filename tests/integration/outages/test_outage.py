"""A node that is out of reach for ten minutes, longer than its spool lasts, and a database that dies
while it catches up: every value that is acknowledged is there once, and what is not there is told.

The spool, the uploader, the server and PostgreSQL are the real ones; the ten minutes are those of
the records. `bench/outage.py` does the same by the clock, with a training and a network that is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from muster import wire
from muster_agent import uploads
from muster_agent.client import ControlPlane, Session
from muster_agent.jobs.allocations import Allocation
from muster_agent.jobs.folder import AllocationFolder
from muster_agent.records.spool import RecordWriter
from muster_server import clock
from muster_server.app import create_app
from muster_server.db.engine import Database
from muster_server.db.migrations import upgrade
from muster_server.services.core.accounts import tokens, users
from muster_server.services.core.audit import Author
from support.agent import FakeAgent
from support.data import add_attempt, add_experiment, add_trial, metrics_record
from support.live import serving
from support.postgres import Postgres, find_binaries, private_postgres

pytestmark = pytest.mark.postgres

NAMES = ("train/loss", "train/accuracy", "lr", "norm")
STEPS_PER_S = 5
OUTAGE_S = 600
SPOOL_BYTES = 300_000
BATCH = 20
"""Records a request takes, so that catching up is many requests."""


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL on this machine")
    with private_postgres(binaries, is_durable=True) as server:
        yield server


@pytest.fixture
def database_url(postgres: Postgres) -> str:
    database = Database(postgres.url)
    upgrade(database)
    database.dispose()
    return postgres.url


async def _release(allocation: Allocation) -> None:
    """Its slots are no devices whose memory would have to be free."""


@dataclass
class Node:
    """The real spool of a node and who brings it to the server."""

    url: str
    token: str
    trial_id: int
    credential: str
    session: Session
    allocation: Allocation
    writer: RecordWriter

    def log(self, steps: Iterable[int]) -> set[int]:
        """The steps that the spool took."""
        return {
            step
            for step in steps
            if self.writer.append(
                metrics_record({name: [(step, value_of(name, step))] for name in NAMES})
            )
        }

    @contextlib.asynccontextmanager
    async def reachable(self) -> Any:
        """What is in the spool is brought to the server until the end of the block."""
        plane = ControlPlane(self.url, trust_env=False)
        plane.use_credential(self.credential)
        bringing = asyncio.create_task(
            uploads.Uploader(self.allocation, plane, self.session, release=_release).run()
        )
        try:
            yield
        finally:
            bringing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await bringing
            await plane.close()

    async def until(self, seq: int) -> None:
        async with asyncio.timeout(60):
            while self.allocation.acked_seq < seq:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)

    def get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self.url}/api/v1/trials/{self.trial_id}{path}"
        return httpx.get(url, headers=headers, trust_env=False).raise_for_status()


def value_of(name: str, step: int) -> float:
    return step + NAMES.index(name) / 8


@pytest.fixture
def node(settings: Any, database: Database, tmp_path: Path) -> Iterator[Node]:
    with serving(create_app(settings)) as port:
        url = f"http://127.0.0.1:{port}"
        now = clock.now()
        with database.transaction() as session:
            user = users.create_user(
                session, username="ada", password_hash=None, role="admin", by=Author("test", now)
            )
            _, token = tokens.create_api_token(
                session, user=user, name="test", role=None, own_role="admin", lifetime=None,
                by=Author("test", now),
            )  # fmt: skip
            _, join = tokens.create_join_token(
                session, pool="default", uses=1, lifetime=dt.timedelta(hours=1),
                created_by=None, by=Author("test", now),
            )  # fmt: skip

        with contextlib.ExitStack() as clients:

            def connect(secret: str) -> httpx.Client:
                headers = {"Authorization": f"Bearer {secret}"}
                client = httpx.Client(base_url=url, headers=headers, trust_env=False)
                return clients.enter_context(client)

            agent = FakeAgent(connect, join, "node-1")
            agent.register()
        with database.transaction() as session:
            trial = add_trial(session, add_experiment(session))
            (row,) = add_attempt(session, trial)
            row.node_id = agent.node_id
            trial_id, allocation_id = trial.id, row.id
        folder = AllocationFolder(tmp_path, allocation_id)
        writer = RecordWriter(folder.records, limit_bytes=SPOOL_BYTES)
        spec = cast(
            wire.AllocationSpec, SimpleNamespace(attempt_no=1, log_limit_bytes=1 << 20, secrets=[])
        )
        yield Node(
            url=url,
            token=token,
            trial_id=trial_id,
            credential=agent.credential or "",
            session=Session(
                node_id=agent.node_id,
                epoch=agent.epoch,
                heartbeat_s=1,
                lease_s=9,
                deadline_boot_s=0,
            ),
            allocation=Allocation(folder, spec),
            writer=writer,
        )
        writer.close()


async def lose_and_find(node: Node, postgres: Postgres) -> set[int]:
    """The steps that the spool took."""
    cut_at, mended_at = 300, 300 + OUTAGE_S * STEPS_PER_S
    taken = node.log(range(1, cut_at + 1))
    async with node.reachable():
        await node.until(node.writer.num_records)
    taken |= node.log(range(cut_at + 1, mended_at + 1))
    assert cut_at + 100 < len(taken) < mended_at - 1_000, "the spool is full, and was not at once"

    num_full = node.writer.num_records
    async with node.reachable():
        await node.until(cut_at + 5 * BATCH)
        postgres.kill()
        acked = node.allocation.acked_seq
        await asyncio.sleep(0.3)
        assert node.allocation.acked_seq <= acked + BATCH, "one answer may have been on its way"
        assert node.allocation.acked_seq < num_full
        postgres.start()
        await node.until(num_full)
        taken |= node.log(range(mended_at + 1, mended_at + 101))
        await node.until(node.writer.num_records)
    assert mended_at + 100 in taken, "there is room again"
    return taken


def test_ten_minutes_out_of_reach_and_a_database_that_dies_lose_nothing_acknowledged(
    node: Node, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_RECORDS", BATCH)
    taken = asyncio.run(lose_and_find(node, postgres))
    rows = [json.loads(line) for line in node.get("/series.jsonl").text.splitlines()]
    for name in NAMES:
        found = [(row["step"], row["value"]) for row in rows if row["name"] == name]
        assert found == [(step, value_of(name, step)) for step in sorted(taken)]
    messages = [event["message"] for event in node.get("/events").json()["items"]]
    told = [
        int(n)
        for text in messages
        for n in re.findall(r"(\d+) metric and media records were lost", text)
    ]
    assert sum(told) == 300 + OUTAGE_S * STEPS_PER_S + 100 - len(taken)
