"""Record what a version of Muster leaves in its database, for the tests of upgrades.

    mkdir /tmp/tree && git archive COMMIT | tar x -C /tmp/tree
    .venv/bin/python tests/databases/record.py /tmp/tree NAME

writes NAME.sqlite.sql.gz and NAME.postgres.sql.gz beside this file. The tree's own code does
everything: its migrations make the tables, and its API server, its controller and its fake agents fill
them with users, a node, trainings (completed, running and waiting), a search, checkpoints, metrics and
logs. So this file uses only what every version has. Record the head before a revision is added to it.

PostgreSQL's binaries, `pg_dump` among them, have to be on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import gzip
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TRAINING = """
name: {name}
entrypoint: train.py
code: {{installed: /srv/code}}
labels: {{team: vision}}
resources: {{slots: {slots}}}
"""
SEARCH = """
name: search
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: asha, metric: val/loss, goal: min, trials: 4, max_length: {epochs: 9}, concurrent: 2}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="the files of a commit")
    parser.add_argument("name", help="what the two files are called")
    parser.add_argument("--fill", metavar="URL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fill:
        fill(args.fill)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "muster.db"
        _fill_apart(args.tree, f"sqlite:///{file}")
        with contextlib.closing(sqlite3.connect(file)) as connection:
            _write(f"{args.name}.sqlite", "\n".join(connection.iterdump()))

    from support.postgres import find_binaries, private_postgres

    binaries = find_binaries()
    assert binaries is not None, "no PostgreSQL on this machine"
    with private_postgres(binaries) as server:
        _fill_apart(args.tree, server.url)
        url = server.url.replace("postgresql+psycopg", "postgresql")
        dump = ["pg_dump", "--inserts", "--no-owner", "--no-acl", url]
        lines = subprocess.run(dump, check=True, capture_output=True, text=True).stdout.splitlines()
        # What psql alone understands, and a setting that is not in every version.
        kept = [line for line in lines if not line.startswith(("\\", "SET transaction_timeout"))]
        _write(f"{args.name}.postgres", "\n".join(kept))


def _fill_apart(tree: Path, url: str) -> None:
    """Run `fill` in a process that imports the tree's packages."""
    roots = [
        str((tree / name).resolve()) for name in ("server", "trainer", "agent", "parts/models")
    ]
    command = [sys.executable, __file__, str(tree), "-", "--fill", url]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(roots)})


def _write(name: str, sql: str) -> None:
    path = FOLDER / f"{name}.sql.gz"
    path.write_bytes(gzip.compress(sql.encode(), mtime=0))
    print(path, path.stat().st_size, "bytes")


# ---------------------------------------------------------------- by the code of the tree


def fill(url: str) -> None:
    """Migrate the database, and let the ordinary happen in it."""
    from muster_server import clock
    from muster_server.app import create_app
    from muster_server.db.engine import Database
    from muster_server.db.migrations import upgrade
    from muster_server.db.models import ApiTokenRow, JoinTokenRow, UserRow
    from muster_server.loops.runner import Controller
    from muster_server.security.tokens import hash_secret, mint, visible_prefix
    from muster_server.settings import Settings
    from support.agent import FakeAgent
    from support.client import make_client, running

    database = Database(url)
    upgrade(database)
    token, join_token, now = mint("usr"), mint("join"), clock.now()
    later = now + dt.timedelta(days=365)
    with database.transaction() as session:
        user = UserRow(username="ada", password_hash=None, role="admin", created_at=now)
        session.add(user)
        session.flush()
        said = {"created_at": now, "expires_at": later}
        session.add(
            ApiTokenRow(
                user_id=user.id, name="cli", secret_hash=hash_secret(token),
                prefix=visible_prefix(token), role="admin", **said,
            )
        )  # fmt: skip
        session.add(
            JoinTokenRow(
                secret_hash=hash_secret(join_token), prefix=visible_prefix(join_token),
                pool="default", uses_left=1, **said,
            )
        )  # fmt: skip
    settings = Settings(
        database_url=url, redis_url=None, allowed_hosts=["localhost"], public_url=None,
        controller_lease_s=300.0, takeover_grace_s=0.0,
    )  # fmt: skip
    controller = Controller(database, settings)
    app = create_app(settings)
    with running(app) as portal, make_client(app, portal, token=token) as client:

        def submit(document: str) -> None:
            reply = client.post("/api/v1/experiments", json={"document": document})
            assert reply.status_code == 201, reply.text

        connect = lambda secret: make_client(app, portal, token=secret)  # noqa: E731
        node = FakeAgent(connect, join_token, "node-1", slots=3)
        node.register()
        submit(TRAINING.format(name="completed", slots=1))
        _run(node, controller, ends=True)
        submit(TRAINING.format(name="running", slots=1))
        _run(node, controller, ends=False)
        submit(SEARCH)
        _run(node, controller, ends=True)
        submit(TRAINING.format(name="waiting", slots=3))
        controller.tick()
    controller.resign()
    database.dispose()


def _run(node: object, controller: object, *, ends: bool) -> None:
    """Let the next allocation train for two steps."""
    from muster.wire import CheckpointRecord, MetricsRecord, SeriesPoints, WorkerRecord

    controller.tick()
    fresh = set(node.poll()) - set(node.streams)
    allocation_id = min(fresh)
    node.get_ready(allocation_id, port=29500)
    controller.tick()
    node.poll()
    node.run(allocation_id)
    where = {"node_id": node.node_id, "session_epoch": node.epoch, "attempt_no": 1, "offset": 0}
    path = f"/agent/v1/allocations/{allocation_id}/logs/0/stdout"
    assert node.client.post(path, params=where, content="epoch 1\nepoch 2\n").status_code == 200
    series = [
        SeriesPoints(name=name, steps=[1, 2], times_ms=[1000, 2000], values=[1.0, 0.5])
        for name in ("train/loss", "val/loss")
    ]
    node.send(
        allocation_id,
        WorkerRecord(
            local_rank=0, rank=0, world_size=1, node_rank=0, pid=7, host="host-node-1",
            master_addr="127.0.0.1", master_port=29500, reports=True,
        ),
        MetricsRecord(local_rank=0, rank=0, series=series, step=2, epoch=1.0),
        CheckpointRecord(step=2, path="step-2", size_bytes=3, files={"model.pt": "0" * 64}),
    )  # fmt: skip
    if ends:
        node.exit(allocation_id)
    controller.tick()


if __name__ == "__main__":
    main()
