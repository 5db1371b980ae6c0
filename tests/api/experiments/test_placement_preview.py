"""What the scheduler would decide now: never older than the question, and one reading for many."""

import dataclasses
import datetime as dt

import pytest
from sqlalchemy import update

from muster_server.db.models import TrialRow
from muster_server.domain.scheduling import SchedulerPolicy, schedule
from muster_server.services.scheduling.placement_preview import Foresight
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.data import add_experiment, add_trial

pytestmark = pytest.mark.either_database

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
POLICY = SchedulerPolicy()


@pytest.fixture
def clock():
    """Set `clock[0]`."""
    return [1.0]


@pytest.fixture
def foresight(database, clock):
    with database.transaction() as session:
        for _ in range(3):
            add_trial(session, add_experiment(session))
        session.execute(update(TrialRow).values(state="QUEUED"))
    return Foresight(database, POLICY, monotonic=lambda: clock[0])


def enqueue(database):
    with database.transaction() as session:
        add_trial(session, add_experiment(session)).state = "QUEUED"


def told(decided):
    return [*decided.actions, *decided.waits()]


def expected(database):
    with database.read() as session:
        return schedule(load_scheduler_snapshot(session, now=NOW), now=NOW, policy=POLICY)


def test_it_tells_what_is_true_at_the_question(foresight, database, clock):
    for second in (1.0, 2.0, 3.0):
        clock[0] = second
        enqueue(database)
        with foresight.ask(NOW) as foreseen:
            assert told(foreseen.decided) == expected(database)


def test_those_who_asked_before_it_read_share_what_it_read(foresight, database, clock):
    clock[0] = 5.0
    with foresight.ask(NOW) as first:
        enqueue(database)
    clock[0] = 4.0  # asked while another one was being answered
    with foresight.ask(NOW) as second:
        assert second is first
        assert len(told(second.decided)) == 3
    clock[0] = 6.0
    with foresight.ask(NOW) as third:
        assert len(told(third.decided)) == 4


def test_asking_about_another_snapshot_changes_nothing_for_later_questions(
    foresight, database, clock
):
    with foresight.ask(NOW) as (snapshot, _):
        one = dataclasses.replace(snapshot, queue=snapshot.queue[:1])
        assert len(told(foresight.ask_about(one, NOW))) == 1
    clock[0] = 0.5  # even for one that would share what was read before
    with foresight.ask(NOW) as foreseen:
        assert told(foreseen.decided) == expected(database)
