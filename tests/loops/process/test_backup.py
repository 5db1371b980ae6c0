"""A backup of a working control plane, restored into a fresh place of either kind."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import itertools
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest
import time_machine
from sqlalchemy import create_engine, make_url, select, text, update

from muster.wire import CheckpointRecord, MetricsRecord, SeriesPoints
from muster_server import clock
from muster_server.app import create_app
from muster_server.backup import BackupError, back_up, back_up_into, restore, verify
from muster_server.db.engine import Database
from muster_server.db.migrations import current_revision, downgrade, head_revision
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    ProjectRow,
    TrialRow,
)
from muster_server.domain.lifecycle import LifecyclePolicy
from muster_server.loops.runner import Controller
from support.client import make_client, running
from support.data import NOW, add_experiment, add_trial

POLICY = LifecyclePolicy()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def fresh_url(request, tmp_path):
    """Of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/restored.db"
    return request.getfixturevalue("empty_postgres_url")


@pytest.fixture
def backup(tmp_path):
    return tmp_path / "muster.backup"


@contextlib.contextmanager
def serving(settings, url):
    """A new application on that database; yields what makes its clients."""
    app = create_app(settings.model_copy(update={"database_url": url}))
    with running(app) as portal, contextlib.ExitStack() as stack:
        yield lambda token: stack.enter_context(
            contextlib.closing(make_client(app, portal, token=token))
        )


def metrics(*steps):
    points = SeriesPoints(
        name="train/loss",
        steps=list(steps),
        times_ms=[1000 * step for step in steps],
        values=[1 / step if step % 2 else "NaN" for step in steps],
    )
    return MetricsRecord(local_rank=0, rank=0, series=[points], step=steps[-1])


def send_log(node, allocation_id, text):
    where = {"node_id": node.node_id, "session_epoch": node.epoch, "attempt_no": 1, "offset": 0}
    reply = node.client.post(
        f"/agent/v1/allocations/{allocation_id}/logs/0/stdout", params=where, content=text
    )
    assert reply.status_code == 200, reply.text


def start(node, controller):
    controller.tick()
    (allocation_id,) = node.poll()
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    return allocation_id


def read(client, path):
    reply = client.get(f"/api/v1{path}")
    assert reply.status_code == 200, reply.text
    return reply.json()


FINISHED = (
    "/experiments/1",
    "/trials/1",
    "/trials/1/series?name=train/loss&rank=0",
    "/trials/1/logs",
    "/experiments/1/events",
)


def test_all_of_it_is_there_again_and_what_ran_goes_on_from_its_checkpoint(
    agent, submit, controller, database, settings, fresh_url, backup, make_user_token, connect
):
    token = make_user_token("member")
    node = agent(slots=1)
    submit(slots=1)
    submit(slots=1)
    first = start(node, controller)
    node.send(first, metrics(1, 2, 3))
    send_log(node, first, "so long\n")
    node.exit(first)
    controller.tick()
    second = start(node, controller)
    saved = CheckpointRecord(step=3, path="s3", size_bytes=1, files={"a": "0"})
    node.send(second, metrics(1, 2, 3, 4), saved)
    done = back_up(database, backup)
    assert (done.num_users, done.num_experiments, done.num_trials) == (1, 2, 2)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    before = [read(connect(token=token), path) for path in FINISHED]
    assert before[2]["series"][0]["step"] == [1, 2, 3]
    assert before[3]["lines"][0]["text"] == "so long"
    node.send(second, metrics(5, 6))  # nobody will know of these

    with time_machine.travel(clock.now() + dt.timedelta(hours=10), tick=True):
        again = restore(backup, fresh_url, POLICY)
        assert again.num_interrupted == 1
        with serving(settings, fresh_url) as connect_again, contextlib.ExitStack() as stack:
            client = connect_again(token)
            assert [read(client, path) for path in FINISHED] == before
            cost = read(client, "/experiments/2")["spending"]
            assert (cost["slots_held"], cost["slot_hours"] < 0.1) == (0, True), "not of the night"
            restored = Database(fresh_url)
            stack.callback(restored.dispose)
            late = Controller(restored, settings, monotonic=lambda: clock.now().timestamp())

            # The agent, with the session and the training it had.
            node._connect, node.client = connect_again, connect_again(node.credential)
            node.beat(expect=410)
            reply = node.register(running=[node.running(second)])
            assert (reply.adopt, reply.forget) == ([], [second])
            late.tick()
            node.beat()
            begun_at = clock.now()
            for seconds in range(5, 310, 5):  # Heard all the time: silence would not count.
                with time_machine.travel(begun_at + dt.timedelta(seconds=seconds), tick=True):
                    node.beat()
                    late.tick()
                    late.tick()
                    polled = node.poll()
            (resumed,) = polled.values()
            assert (resumed.spec.attempt_no, resumed.spec.resume_step) == (2, 3)
            trial = read(client, "/trials/2")
            assert trial["attempts"][1]["termination"] == "node_lost"
            # New keys do not collide with those that came along.
            body = {"document": "name: more\ntrainer: {}\n"}
            reply = client.post("/api/v1/experiments", json=body)
            assert (reply.status_code, reply.json()["id"]) == (201, 3)


def test_a_backup_holds_all_of_a_transaction_or_nothing(database, backup):
    names = (f"p{number}" for number in itertools.count())
    stop, many_are_there = threading.Event(), threading.Event()

    def write():
        for number in itertools.count():
            with database.transaction() as session:
                for _ in range(2):
                    session.add(ProjectRow(name=next(names), created_at=clock.now()))
                    session.flush()
            if number == 20:
                many_are_there.set()
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert many_are_there.wait(60)
        back_up(database, backup)
    finally:
        stop.set()
        writer.join()
    with contextlib.closing(sqlite3.connect(backup)) as file:
        found = [int(name[1:]) for (name,) in file.execute("SELECT name FROM projects ORDER BY id")]
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert found == list(range(len(found)))
    assert len(found) >= 40
    assert len(found) % 2 == 0


def test_an_older_backup_gets_the_new_tables(database, backup, fresh_url):
    downgrade(database, "0001")
    with database.transaction() as session:
        session.execute(
            text("INSERT INTO projects (id, name, created_at) VALUES (7, 'old', :now)"),
            {"now": clock.now().replace(tzinfo=None).isoformat(" ")},
        )
    back_up(database, backup)
    restore(backup, fresh_url, POLICY)
    target = Database(fresh_url)
    try:
        assert current_revision(target) == head_revision()
        with target.read() as session:
            assert session.execute(select(ProjectRow.id, ProjectRow.weight)).one() == (7, 1.0)
    finally:
        target.dispose()


@pytest.mark.parametrize("name", ["0001", "0002-8b9083c", "0002-2876edd"])
def test_a_backup_of_an_old_database_is_brought_up_to_date(
    name, request, load_database, database_url, backup, tmp_path, table_differences
):
    """From either kind of database into either kind, whatever its revision lacked by then."""
    kind = "sqlite" if database_url.startswith("sqlite") else "postgres"
    old = Database(load_database(name, kind))
    try:
        done = back_up(old, backup)
    finally:
        old.dispose()
    assert (done.num_users, done.num_experiments) == (1, 4)
    other = f"sqlite:///{tmp_path}/restored.db"
    if kind == "sqlite":
        other = request.getfixturevalue("empty_postgres_url")
    for url in (other, f"sqlite:///{tmp_path}/again.db"):
        restored = restore(backup, url, POLICY)
        assert restored.num_interrupted >= 1
        target = Database(url)
        try:
            assert table_differences(target) == []
            with target.read() as session:
                trials = session.scalars(select(TrialRow).order_by(TrialRow.id)).all()
                assert trials[0].state == "COMPLETED"
                assert trials[0].summary
                # Their order in the queue is that in which they came.
                assert [t.queue_no for t in trials] == sorted(t.queue_no for t in trials)
                assert trials[0].queue_no == pytest.approx(trials[0].queued_at.timestamp(), abs=1)
        finally:
            target.dispose()


def test_a_newer_version_is_refused_on_either_side(database, backup, fresh_url, tmp_path):
    back_up(database, backup)
    target = Database(fresh_url)
    try:
        if not target.is_sqlite:
            restore(backup, fresh_url, POLICY)
            with target.transaction() as session:
                session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
            with pytest.raises(BackupError, match="tables of 9999, which this version does not"):
                restore(backup, fresh_url, POLICY)
    finally:
        target.dispose()
    with contextlib.closing(sqlite3.connect(backup)) as file:
        file.execute("UPDATE alembic_version SET version_num = '9999'")
        file.commit()
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    with pytest.raises(BackupError, match="tables of 9999, which this version does not know"):
        restore(backup, elsewhere, POLICY)
    assert not (tmp_path / "elsewhere.db").exists()
    with database.transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(BackupError, match="the database has the tables of 9999"):
        back_up(database, tmp_path / "second.backup")


def test_nothing_that_is_there_is_written_over(database, database_url, backup):
    with database.transaction() as session:
        add_experiment(session)
    back_up(database, backup)
    with pytest.raises(BackupError, match="exists already"):
        back_up(database, backup)
    with pytest.raises(BackupError, match=r"exists already|there are 1 experiments"):
        restore(backup, database_url, POLICY)


def test_scheduled_backups_are_kept_by_number_and_others_left_alone(database, tmp_path):
    folder = tmp_path / "new" / "backups"
    start = dt.datetime(2026, 3, 1, 3, tzinfo=dt.UTC)
    for day in range(3):
        file, done = back_up_into(database, folder, keep=2, now=start + dt.timedelta(days=day))
        assert done.size_bytes == file.stat().st_size
        (folder / "muster-mine.db").touch()
    names = ["muster-20260302T030000Z.db", "muster-20260303T030000Z.db", "muster-mine.db"]
    assert sorted(path.name for path in folder.iterdir()) == names
    with pytest.raises(BackupError, match="exists already"):
        back_up_into(database, folder, keep=1, now=start + dt.timedelta(days=2))
    assert sorted(path.name for path in folder.iterdir()) == names, "nothing is deleted"


@pytest.mark.postgres
def test_a_backup_waits_for_a_database_that_takes_no_connection_yet(postgres_url, backup):
    url = make_url(postgres_url)
    admin = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    allow = f"ALTER DATABASE {url.database} ALLOW_CONNECTIONS"
    with admin.connect() as connection:
        connection.execute(text(f"{allow} false"))
        with subprocess.Popen(
            [sys.executable, "-m", "muster_server.cli", "backup", str(backup)],
            env=os.environ | {"MUSTER_DATABASE_URL": postgres_url},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                assert "not currently accepting connections" in process.stderr.readline()
            finally:
                connection.execute(text(f"{allow} true"))
            _, said = process.communicate(timeout=60)
    admin.dispose()
    assert process.returncode == 0, said
    assert verify(backup, POLICY).num_trials == 0


def test_a_piped_backup_is_one_and_says_what_is_not_in_it(database, database_url, tmp_path):
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        common = {
            "trial_id": trial.id,
            "attempt_no": 1,
            "node_name": "n1",
            "files": {},
            "metrics": {},
        }
        session.add_all(
            CheckpointRow(**common, step=step, path=f"{step}", size_bytes=2 * 10**9, created_at=NOW, storage_id=place)
            for step, place in enumerate(("object-store", "gone", "gone"))
        )  # fmt: skip
    command = [sys.executable, "-m", "muster_server.cli", "backup"]
    environment = os.environ | {"MUSTER_DATABASE_URL": database_url}
    run = functools.partial(subprocess.run, env=environment, capture_output=True, timeout=60)
    done = run([*command, "-"])
    said = done.stderr.decode()
    assert done.returncode == 0, said
    file = tmp_path / "piped.db"
    file.write_bytes(done.stdout)
    assert verify(file, POLICY).num_trials == 1
    assert "0 users, 1 experiment, 1 trial" in said
    assert said.splitlines()[-2:] == [
        "not in it: 2 checkpoints, 4.0 GB, in a storage folder that no node reaches any more",
        "not in it: 1 checkpoint, 2.0 GB, in the object stores that documents name",
    ]
    refused = run([*command, "-", "--keep", "3"])
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"one backup into a pipe" in refused.stderr


def test_verifying_restores_elsewhere_and_finds_damage(database, backup, tmp_path):
    with database.transaction() as session:
        add_experiment(session)
    back_up(database, backup)
    before = backup.read_bytes()
    assert verify(backup, POLICY).num_experiments == 1
    assert backup.read_bytes() == before
    backup.write_bytes(before[: len(before) // 2])
    with pytest.raises(BackupError):
        verify(backup, POLICY)


def test_a_log_that_another_database_left_is_not_mixed_in(database, backup, tmp_path):
    back_up(database, backup)
    (tmp_path / "new.db-wal").write_bytes(b"x")
    with pytest.raises(BackupError, match=r"new\.db-wal exists already"):
        restore(backup, f"sqlite:///{tmp_path}/new.db", POLICY)


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0" * 100])
def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path, backup, content):
    if content is not None:
        backup.write_bytes(content)
    with pytest.raises(BackupError, match=r"there is no such file|is no backup of Muster"):
        restore(backup, f"sqlite:///{tmp_path}/new.db", POLICY)
    assert set(tmp_path.iterdir()) <= {backup}


def test_a_damaged_backup_is_refused(database, backup, tmp_path):
    with database.transaction() as session:
        for number in range(500):
            session.add(ProjectRow(name=f"p{number}" + "x" * 90, created_at=clock.now()))
    back_up(database, backup)
    data = bytearray(backup.read_bytes())
    at = data.find(b"p250xxxx")
    data[at - 2048 : at + 2048] = b"\xff" * 4096
    backup.write_bytes(data)
    with pytest.raises(BackupError, match=r"is damaged|is no backup"):
        restore(backup, f"sqlite:///{tmp_path}/new.db", POLICY)


def test_a_backup_that_fails_leaves_no_file(database, tmp_path):
    with pytest.raises(BackupError, match="No such file"):
        back_up(database, tmp_path / "no" / "such" / "folder")
    assert not (tmp_path / "no").exists()


def test_a_database_that_is_not_there_is_not_made_by_asking(tmp_path, backup):
    mistyped = Database(f"sqlite:///{tmp_path}/mistyped.db")
    with pytest.raises(BackupError, match="there is no such database"):
        back_up(mistyped, backup)
    mistyped.dispose()
    assert list(tmp_path.iterdir()) == []


def test_what_had_ended_by_itself_is_not_lost(
    agent, submit, controller, database, backup, tmp_path
):
    node = agent(slots=1)
    submit(slots=1)
    allocation_id = start(node, controller)
    with database.transaction() as session:
        session.get_one(AllocationRow, allocation_id).observed = "EXITED"
    back_up(database, backup)
    url = f"sqlite:///{tmp_path}/new.db"
    restore(backup, url, POLICY)
    target = Database(url)
    try:
        with target.read() as session:
            assert session.get_one(AllocationRow, allocation_id).observed != "LOST"
    finally:
        target.dispose()


def test_a_trial_in_an_impossible_state_does_not_keep_the_others_back(
    agent, submit, controller, database, backup, tmp_path
):
    node = agent(slots=2)
    submit(slots=1)
    start(node, controller)
    with database.transaction() as session:
        # A RUNNING trial whose attempt is only now to start: there is no such edge.
        session.execute(update(AttemptRow).values(state="PLANNED"))
        session.execute(update(AllocationRow).values(observed="EXITED"))
    submit(slots=1)
    controller.tick()
    back_up(database, backup)
    url = f"sqlite:///{tmp_path}/new.db"
    restore(backup, url, POLICY)
    target = Database(url)
    try:
        with target.read() as session:
            found = session.scalars(select(AttemptRow.state).order_by(AttemptRow.id)).all()
    finally:
        target.dispose()
    assert found == ["PLANNED", "LOST"]
