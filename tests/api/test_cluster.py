"""GET /api/v1/cluster: every number says over how many trials it is."""

from __future__ import annotations

import pytest

from support.data import add_experiment, add_trial


def test_sums_and_means_say_over_how_many_trials_they_are(database, viewer_client):
    with database.transaction() as session:
        experiment = add_experiment(session)
        reported: list[tuple[str, dict[str, float]]] = [
            ("RUNNING", {"throughput/samples_per_s": 100.0, "comm/overhead_ratio": 0.25}),
            ("RUNNING", {"throughput/samples_per_s": 50.0}),
            ("RUNNING", {}),
            ("COMPLETED", {"throughput/samples_per_s": 999.0}),
        ]
        for no, (state, summary) in enumerate(reported, 1):
            row = add_trial(session, experiment, no=no)
            row.state = state
            row.summary = {name: {"last": value} for name, value in summary.items()}
    reply = viewer_client.get("/api/v1/cluster").json()
    assert reply["num_trials_running"] == 3
    assert (reply["samples_per_s"], reply["num_trials_throughput"]) == (150.0, 2)
    assert (reply["comm_overhead_ratio"], reply["num_trials_comm"]) == (0.25, 1)
    assert reply["num_values_comm"] == 1


def test_the_share_of_communication_is_over_the_newest_steps_not_over_one(database, viewer_client):
    with database.transaction() as session:
        experiment = add_experiment(session)
        experiment_id = experiment.id
        for no, recent in enumerate(((0.1, 40), (0.3, 100)), 1):
            row = add_trial(session, experiment, no=no)
            row.state = "RUNNING"
            entry = {"last": 0.9, "min": 0.1, "max": 0.9, "count": 100, "step": 99}
            entry |= {"recent_mean": recent[0], "recent_count": recent[1]}
            row.summary = {"comm/overhead_ratio": entry}
    reply = viewer_client.get("/api/v1/cluster").json()
    assert reply["comm_overhead_ratio"] == pytest.approx(0.2)
    assert (reply["num_trials_comm"], reply["num_values_comm"]) == (2, 140)
    trials = viewer_client.get(f"/api/v1/experiments/{experiment_id}/trials?sort=-no").json()
    of_trial = trials["items"][0]["summary"]["comm/overhead_ratio"]
    assert (of_trial["recent_mean"], of_trial["recent_count"]) == (0.3, 100)


def test_without_reports_there_is_no_number(viewer_client):
    reply = viewer_client.get("/api/v1/cluster").json()
    assert (reply["samples_per_s"], reply["num_trials_throughput"]) == (None, 0)
    assert (reply["comm_overhead_ratio"], reply["num_trials_comm"]) == (None, 0)
