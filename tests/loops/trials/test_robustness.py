"""What goes wrong with one trial stays with that trial, and the controller goes on."""

import threading

import pytest
from sqlalchemy import select, update

from muster_server.db.models import AllocationRow, AttemptRow, TrialRow
from muster_server.live.waker import HintWaker
from muster_server.loops.runner import Controller, run_until


@pytest.fixture
def database_url(sqlite_url):
    return sqlite_url


def test_a_trial_in_an_impossible_state_does_not_stop_the_others(
    controller, agent, submit, database, show
):
    node = agent(slots=2)
    submit(slots=1)
    controller.tick()
    broken = node.only().spec
    with database.transaction() as session:
        # A RUNNING trial whose attempt is only now to start: there is no such edge.
        session.execute(update(AttemptRow).values(state="PLANNED"))
        session.execute(update(AllocationRow).values(observed="EXITED"))
        session.execute(update(TrialRow).values(state="RUNNING"))
    healthy = submit(slots=1)
    controller.tick()
    assert {a.spec.experiment_id for a in node.poll().values()} == {broken.experiment_id, healthy}
    with database.read() as session:
        assert session.scalar(select(TrialRow.state).where(TrialRow.id == broken.trial_id)) == (
            "RUNNING"
        )


def test_the_loop_survives_a_failing_tick_and_gives_its_lease_back(
    database, settings, monkeypatch, agent, submit
):
    node = agent(slots=1)
    submit(slots=1)
    controller = Controller(database, settings)
    stop, waker = threading.Event(), HintWaker(None, "loops")
    ticks = []
    real = controller.tick

    def tick():
        ticks.append(1)
        if len(ticks) == 1:
            raise RuntimeError("boom")
        result = real()
        stop.set()
        return result

    monkeypatch.setattr(controller, "tick", tick)
    run_until(controller, stop, waker, interval_s=0.01)
    assert len(node.poll()) == 1
    assert Controller(database, settings).tick()  # leads at once
