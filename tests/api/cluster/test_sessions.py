"""The list of sessions: which ones it has, when they end, and who may enter them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from sqlalchemy import select

from muster.document.session import SessionSection
from muster_server.db.models import AttemptRow, ProjectRow, TrialRow, UserRow
from support.data import NOW, add_attempt, add_experiment, add_trial

pytestmark = pytest.mark.either_database
LATER = NOW + dt.timedelta(minutes=5)


@pytest.fixture
def session_id(database, make_user_token):
    """The number of ada's session, whose processes run; beside it a training runs."""
    make_user_token("member", username="ada")
    with database.transaction() as session:
        add_trial(session, add_experiment(session))
        row = add_experiment(session)
        row.name, row.config = (
            "notebook",
            replace(row.config, session=SessionSection(kind="jupyter", idle="30m")),
        )
        row.owner_id = session.scalar(select(UserRow.id).where(UserRow.username == "ada"))
        trial = add_trial(session, row)
        add_attempt(session, trial)
        session.scalars(
            select(AttemptRow).where(AttemptRow.trial_id == trial.id)
        ).one().started_at = NOW
    return row.id


@pytest.fixture
def listed(connect, make_user_token):
    def make(name, role="member"):
        token = make_user_token(role, username=name)
        reply = connect(token=token).get("/api/v1/interactive-sessions")
        assert reply.status_code == 200
        return reply.json()["items"]

    return make


def report(database, session_id, at, **values):
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow).where(TrialRow.experiment_id == session_id)).one()
        trial.progress_at = at
        trial.summary = {f"session/{name}": {"last": value} for name, value in values.items()}


def test_a_session_says_how_it_is_entered_by_whom_and_nothing_of_its_end_yet(session_id, listed):
    (row,) = listed("ada")
    assert (row["experiment_id"], row["kind"], row["state"]) == (session_id, "jupyter", "RUNNING")
    assert (row["owner"], row["node"], row["idle"]) == ("ada", "node-1", "30m")
    assert (row["is_in_use"], row["ends_at"], row["may_enter"]) == (None, None, True)
    assert [row["may_enter"] for row in listed("bob")] == [False]
    assert [row["may_enter"] for row in listed("eve", "admin")] == [True]


def test_it_ends_when_it_has_been_idle_for_its_time(database, session_id, listed):
    report(database, session_id, LATER, in_use=0.0, idle_s=120.0)
    (row,) = listed("ada")
    assert row["is_in_use"] is False
    assert dt.datetime.fromisoformat(row["ends_at"]) == LATER + dt.timedelta(minutes=28)
    report(database, session_id, LATER, in_use=1.0, idle_s=0.0)
    (row,) = listed("ada")
    assert (row["is_in_use"], row["ends_at"]) == (True, None)


def test_what_an_earlier_attempt_has_said_does_not_count(database, session_id, listed):
    report(database, session_id, NOW - dt.timedelta(minutes=1), in_use=0.0, idle_s=1700.0)
    (row,) = listed("ada")
    assert (row["is_in_use"], row["ends_at"]) == (None, None)


def test_nobody_sees_a_session_of_a_project_that_is_hidden(database, session_id, listed):
    with database.transaction() as session:
        session.scalars(select(ProjectRow)).one().visibility = "members"
    assert listed("bob") == []
    assert len(listed("eve", "admin")) == 1
