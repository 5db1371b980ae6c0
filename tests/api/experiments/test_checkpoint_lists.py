"""Checkpoints of all trials as a list."""

from __future__ import annotations

import pytest

from muster_server.db.models import CheckpointRow
from support.data import NOW, add_experiment, add_trial

PATH = "/api/v1/checkpoints"


@pytest.fixture
def experiments(database):
    """Two experiments: checkpoints of 30, 10 and 20 bytes in the first, of 40 (deleted) in the other."""
    with database.transaction() as session:
        first, second = add_experiment(session), add_experiment(session)
        first.metric_name, second.metric_name = "val/loss", None
        for experiment, sizes in ((first, (30, 10, 20)), (second, (40,))):
            trial = add_trial(session, experiment)
            for step, size in enumerate(sizes, 1):
                row = CheckpointRow(
                    trial_id=trial.id,
                    attempt_no=1,
                    step=step,
                    path=f"step-{step}",
                    node_name="node-1",
                    size_bytes=size,
                    files={"a": "0"},
                    metrics={"val/loss": "NaN" if step == 2 else 0.5},
                    state="deleted" if size == 40 else "complete",
                    created_at=NOW,
                )
                session.add(row)
                session.flush()
            trial.latest_checkpoint_id = row.id
    return first, second


def test_checkpoints_of_all_trials_newest_or_largest_first(viewer_client, experiments):
    def pages(**params):
        sizes = []
        while True:
            answer = viewer_client.get(PATH, params={**params, "limit": 2})
            assert answer.status_code == 200, answer.text
            sizes += [item["size_bytes"] for item in answer.json()["items"]]
            if answer.json()["next"] is None:
                return sizes
            params["cursor"] = answer.json()["next"]

    first, second = experiments
    assert pages() == [40, 20, 10, 30]
    assert pages(order="largest") == [40, 30, 20, 10]
    assert pages(experiment=first.id, order="largest") == [30, 20, 10]
    assert pages(state=["complete", "deleting"]) == [20, 10, 30]
    assert pages(project="nobody") == []
    page = viewer_client.get(PATH, params={"experiment": first.id, "state": "deleted"}).json()
    assert page["items"] == []
    assert page["totals"] == [{"state": "complete", "num_checkpoints": 3, "size_bytes": 60}]
    newest, nan, _ = viewer_client.get(PATH, params={"experiment": first.id}).json()["items"]
    assert (newest["step"], newest["metric"], newest["is_latest"]) == (3, 0.5, True)
    assert (nan["metric"], nan["is_latest"]) == ("NaN", False)
    of_other = viewer_client.get(PATH, params={"experiment": second.id}).json()["items"][0]
    assert (of_other["metric"], of_other["metric_name"]) == (0.5, "val/loss"), "no search metric"


def test_a_wrong_question_about_checkpoints_is_refused(viewer_client, experiments):
    largest = viewer_client.get(PATH, params={"order": "largest", "limit": 1}).json()["next"]
    for query in ("order=oldest", "state=lost", "limit=0", f"cursor={largest}"):
        assert viewer_client.get(f"{PATH}?{query}").status_code == 422
