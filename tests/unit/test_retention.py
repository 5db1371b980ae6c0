"""services.core.retention and tasks.sweep: what goes, what stays, and that a sweep is repeatable."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import delete, func, select

from muster_server.db.engine import Database
from muster_server.db.models import (
    BlobRow,
    EventRow,
    ExperimentRow,
    JoinTokenRow,
    LogChunkRow,
    LogStreamRow,
    MetricBatchRow,
    MetricSeriesRow,
    ProjectRow,
    SessionRow,
    TrialRow,
    UserRow,
)
from muster_server.services.logs import storage
from muster_server.services.metrics import ingest
from muster_server.services.metrics import retention as metrics_retention
from muster_server.tasks.app import broker_url
from muster_server.tasks.sweep import sweep_once
from support.data import (
    NOW,
    add_attempt,
    add_experiment,
    add_trial,
    metrics_record,
)

pytestmark = pytest.mark.both_databases

DAY = dt.timedelta(days=1)


@pytest.fixture
def trial_id(database: Database) -> int:
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, trial)
        ingest.ingest(
            session,
            allocation=allocation,
            seq=1,
            record=metrics_record({"a": [(1, 1.0)], "\n": [(1, 1.0)]}),
            at=NOW,
        )
        storage.append(
            session,
            allocation=allocation,
            local_rank=0,
            stream="stdout",
            offset=0,
            data=b"x\n",
            now=NOW,
        )
    return trial.id


def count(database: Database, table: type) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def sweep(database: Database, after: dt.timedelta, **given: int | None) -> list[int]:
    enqueued: list[int] = []
    sweep_once(database, NOW + after, enqueue=enqueued.append, **given)
    return enqueued


def test_nothing_of_a_living_trial_is_touched(database: Database, trial_id: int) -> None:
    assert sweep(database, dt.timedelta(0)) == []
    assert sweep(database, 10 * DAY) == [trial_id]
    assert sweep(database, 10 * DAY) == [trial_id], "a lost message is sent again"
    assert count(database, MetricBatchRow) == 1
    assert count(database, EventRow) == 1
    assert count(database, LogStreamRow) == 1


def test_what_a_deleted_experiment_left_goes(database: Database, trial_id: int) -> None:
    with database.transaction() as session:
        session.execute(delete(ExperimentRow))
    assert count(database, MetricBatchRow) == 1
    sweep(database, dt.timedelta(0))
    for table in (MetricBatchRow, MetricSeriesRow, EventRow, LogStreamRow, LogChunkRow, TrialRow):
        assert count(database, table) == 0, table


def test_expired_sessions_and_tokens_and_unused_bundles_go(database: Database) -> None:
    with database.transaction() as session:
        user = UserRow(username="u", role="viewer", created_at=NOW)
        session.add(user)
        session.flush()
        for no, expires_at in enumerate((NOW - DAY, NOW + DAY)):
            session.add(
                SessionRow(
                    secret_hash=f"{no}",
                    user_id=user.id,
                    created_at=NOW,
                    last_seen_at=NOW,
                    expires_at=expires_at,
                )
            )
        for no, expires_at in enumerate((NOW - 31 * DAY, NOW - DAY)):
            session.add(
                JoinTokenRow(
                    secret_hash=f"{no}",
                    prefix="",
                    pool="",
                    uses_left=1,
                    created_at=NOW,
                    expires_at=expires_at,
                )
            )
        experiment = add_experiment(session)
        experiment.blob_sha256 = "used"
        for sha256, age in (("used", 30), ("new", 1), ("old", 30)):
            session.add(BlobRow(sha256=sha256, size_bytes=1, created_at=NOW - age * DAY))
    sweep(database, dt.timedelta(0))
    with database.read() as session:
        assert session.scalars(select(SessionRow.secret_hash)).all() == ["1"]
        assert session.scalars(select(JoinTokenRow.secret_hash)).all() == ["1"]
        assert set(session.scalars(select(BlobRow.sha256))) == {"used", "new"}


def test_old_logs_go_only_when_told_to_and_say_so(database: Database, trial_id: int) -> None:
    with database.transaction() as session:
        session.get_one(TrialRow, trial_id).ended_at = NOW
    sweep(database, 10 * DAY)
    sweep(database, 6 * DAY, log_retention_days=7)
    assert count(database, LogChunkRow) == 1
    sweep(database, 8 * DAY, log_retention_days=7)
    assert count(database, LogChunkRow) == 0
    with database.read() as session:
        messages = session.scalars(select(EventRow.message).where(EventRow.type == "logs.deleted"))
        assert messages.all() == ["Its logs were deleted, 8 days after it ended."]


@pytest.mark.parametrize(
    ("of_server", "of_project", "age", "is_kept"),
    [
        (None, 7, 8, False),
        (None, 7, 6, True),
        (7, 30, 8, True),
        (7, 30, 31, False),
        (30, 7, 8, False),
        (None, None, 999, True),
    ],
)
def test_the_age_of_a_project_counts_before_that_of_the_server(
    database: Database,
    trial_id: int,
    of_server: int | None,
    of_project: int | None,
    age: int,
    is_kept: bool,
) -> None:
    with database.transaction() as session:
        session.get_one(TrialRow, trial_id).ended_at = NOW
        project = session.scalars(select(ProjectRow)).one()
        project.log_retention_days = project.metric_retention_days = of_project
        session.add(ProjectRow(name="other", created_at=NOW, log_retention_days=1))
        session.execute(delete(MetricBatchRow))  # as if compacted
    now = NOW + age * DAY
    with database.read() as session:
        plan = metrics_retention.plan(session, now, metric_days=of_server, log_days=of_server)
    assert plan.logs.num_trials == (not is_kept)
    assert plan.num_projects_apart == 1 + (of_project is not None)
    sweep(database, age * DAY, log_retention_days=of_server, metric_retention_days=of_server)
    assert count(database, LogChunkRow) == is_kept
    with database.read() as session:
        assert (session.get_one(TrialRow, trial_id).downsampled_at is None) == is_kept


def test_a_broken_part_does_not_keep_the_others_from_running(
    database: Database, trial_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from muster_server.services.core import retention

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(retention, "delete_leftovers", broken)
    with database.transaction() as session:
        session.add(BlobRow(sha256="old", size_bytes=1, created_at=NOW - 30 * DAY))
    sweep(database, dt.timedelta(0))
    assert count(database, BlobRow) == 0


def test_the_broker_url_of_a_unix_socket() -> None:
    assert broker_url("unix:///tmp/v.sock") == "redis+socket:///tmp/v.sock"
    assert broker_url("redis://host/0") == "redis://host/0"
    with pytest.raises(ValueError, match="MUSTER_REDIS_URL"):
        broker_url(None)
