"""What REST says at the top of a trial whose script runs, and not as intended."""

from __future__ import annotations

import dataclasses

import pytest

from muster.document.inference import EvaluateSection
from muster.wire import NEAR_LIMIT
from muster_server.db.models import ExperimentRow, TrialRow, WorkerRow
from muster_server.domain.states import TrialState
from muster_server.services.core.events import add_event
from support.data import NOW, add_attempt, add_experiment, add_trial

pytestmark = pytest.mark.either_database

MEASURED = {"last": 4.0, "min": 4.0, "max": 4.0, "count": 50, "step": 50}


@pytest.fixture
def trial(database):
    """Two workers of a script that have stepped 50 times; rank 1 has made a group if asked to."""

    def make(*, backend: str):
        with database.transaction() as session:
            experiment = add_experiment(session)
            row = add_trial(session, experiment)
            row.step, row.summary = 50, {"time/backward_ms": MEASURED}
            (allocation,) = add_attempt(session, row)
            for rank in (0, 1):
                session.add(
                    WorkerRow(
                        allocation_id=allocation.id,
                        trial_id=row.id,
                        attempt_no=row.attempt_no,
                        rank=rank,
                        local_rank=rank,
                        node_rank=0,
                        world_size=2,
                        node_name="n1",
                        slot=rank,
                        pid=100 + rank,
                        host="n1",
                        master_addr="127.0.0.1",
                        master_port=1,
                        backend=backend if rank == 1 else "",
                        reports=True,
                        started_at=NOW,
                    )
                )
        return row

    return make


def codes(notices):
    return [part["code"] for notice in notices for part in notice["parts"]]


def test_workers_without_a_process_group_are_told_of_with_the_trial_and_its_experiment(
    viewer_client, trial
):
    row = trial(backend="")
    detail = viewer_client.get(f"/api/v1/trials/{row.id}").json()
    assert codes(detail["notices"]) == ["script.independent", "script.no_loss"]
    assert detail["notices"][0]["text"].startswith("2 workers train independently")
    experiment = viewer_client.get(f"/api/v1/experiments/{row.experiment_id}").json()
    assert codes(experiment["notices"]) == codes(detail["notices"])


def test_a_limit_that_is_near_is_said_until_the_attempt_is_over(viewer_client, trial, database):
    row = trial(backend="gloo")
    words = "n1: its files take 8.5 MB of the 10.0 MB declared in resources.disk."
    with database.transaction() as session:
        for attempt_no, text in ((row.attempt_no, words), (row.attempt_no + 1, "n1: another")):
            add_event(
                session,
                NEAR_LIMIT,
                text,
                now=NOW,
                trial_id=row.id,
                attempt_no=attempt_no,
            )
    detail = viewer_client.get(f"/api/v1/trials/{row.id}").json()
    assert detail["notices"][0]["text"] == words
    assert codes(detail["notices"]) == ["script.no_loss"]
    with database.transaction() as session:
        session.get_one(TrialRow, row.id).state = TrialState.COMPLETED
    detail = viewer_client.get(f"/api/v1/trials/{row.id}").json()
    assert words not in [notice["text"] for notice in detail["notices"]]


def test_an_evaluation_is_not_told_that_it_has_not_trained(viewer_client, trial, database):
    row = trial(backend="gloo")
    judged = EvaluateSection(model="digits")
    for section, said in ((None, ["script.no_step"]), (judged, [])):
        with database.transaction() as session:
            ended = session.get_one(TrialRow, row.id)
            ended.state, ended.step = TrialState.COMPLETED, 0
            experiment = session.get_one(ExperimentRow, row.experiment_id)
            experiment.config = dataclasses.replace(experiment.config, evaluate=section)
        detail = viewer_client.get(f"/api/v1/trials/{row.id}").json()
        assert codes(detail["notices"]) == said


def test_a_backend_of_any_rank_is_a_process_group(viewer_client, trial):
    row = trial(backend="gloo")
    detail = viewer_client.get(f"/api/v1/trials/{row.id}").json()
    assert codes(detail["notices"]) == ["script.no_loss"]
