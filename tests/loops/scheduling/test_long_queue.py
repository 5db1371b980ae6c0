"""A queue longer than what is noted of it in one pass."""

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import TrialRow
from muster_server.domain.scheduling import Decided, SchedulerPolicy
from muster_server.loops import scheduler as loops
from muster_server.services.scheduling.snapshot import load_scheduler_snapshot
from support.data import add_experiment, add_trial


def reasons(database):
    with database.read() as session:
        return list(session.scalars(select(TrialRow.pending_reason).order_by(TrialRow.id)))


@pytest.fixture
def queue(database, monkeypatch):
    monkeypatch.setattr(loops, "NOTED_IN_FRONT", 4)
    monkeypatch.setattr(loops, "NOTED_BEHIND", 3)
    with database.transaction() as session:
        experiment = add_experiment(session)
        for no in range(1, 13):
            add_trial(session, experiment, no=no).state = "QUEUED"


def test_everybody_is_told_what_it_waits_for_the_front_first(queue, controller, database):
    """Rounds of one tick go on until nothing is left to note."""
    controller.tick()
    assert all("Needs" in reason for reason in reasons(database))


def test_those_behind_have_their_turn_one_after_the_other(queue, database):
    loop = loops.SchedulerLoop(database, SchedulerPolicy())
    noted = []
    with database.read() as session:
        snapshot = load_scheduler_snapshot(session, now=clock.now())
    for _ in range(4):
        (waits,) = loop.decide(snapshot, now=clock.now())
        noted.append([wait.position for wait in waits.waits])
    front = [1, 2, 3, 4]
    assert noted == [[*front, 5, 6, 7], [*front, 8, 9, 10], [*front, 11, 12], [*front, 5, 6, 7]]


def test_a_pass_that_fails_forgets_what_it_knew(queue, database, monkeypatch):
    """Half-way through, what it remembers may be wrong."""
    loop = loops.SchedulerLoop(database, SchedulerPolicy())
    with database.read() as session:
        snapshot = load_scheduler_snapshot(session, now=clock.now())
    first = loop.decide(snapshot, now=clock.now())
    waits = Decided.waits

    def fail(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Decided, "waits", fail)
    with pytest.raises(RuntimeError):
        loop.decide(snapshot, now=clock.now())
    monkeypatch.setattr(Decided, "waits", waits)
    assert loop.decide(snapshot, now=clock.now()) == first
