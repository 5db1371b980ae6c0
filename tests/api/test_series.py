"""GET metrics, series, series.csv and the series of an experiment."""

from __future__ import annotations

import csv
import io
import math

import pytest

from muster_server.db.models import AllocationRow
from muster_server.schemas.data import ExperimentSeriesReply, SeriesList, SeriesReply
from muster_server.services import metrics, metrics_compaction
from muster_server.testing.data import (
    NOW,
    add_attempt,
    add_experiment,
    add_trial,
    metrics_record,
)


@pytest.fixture
def database_url(any_database_url):
    return any_database_url


@pytest.fixture
def trial(database):
    """A trial of two ranks with 3,000 steps, most of them compacted, and a diverged loss."""
    with database.transaction() as session:
        experiment = add_experiment(session)
        row = add_trial(session, experiment)
        (allocation,) = add_attempt(session, row)
        for rank in (0, 1):
            metrics.ingest(
                session,
                allocation=allocation,
                seq=rank + 1,
                record=metrics_record(
                    {"train/loss": [(s, 1 / s) for s in range(1, 3001)]}, rank=rank
                ),
                at=NOW,
            )
    metrics_compaction.compact_trial(database, row.id, NOW)
    with database.transaction() as session:
        metrics.ingest(
            session,
            allocation=session.get_one(AllocationRow, allocation.id),
            seq=3,
            record=metrics_record({"train/loss": [(3001, math.nan)], "val/loss": [(3001, 0.5)]}),
            at=NOW,
        )
    return row


def test_the_list_shows_every_series_with_its_summary(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/metrics")
    reply = SeriesList.model_validate(answer.json())
    assert reply.names == ["train/loss", "val/loss"]
    assert reply.ranks == [0, 1]
    loss = reply.items[0]
    assert (loss.name, loss.rank, loss.count, loss.num_non_finite) == ("train/loss", 0, 3001, 1)
    assert answer.json()["items"][0]["last"] == "NaN"


def test_a_long_series_comes_in_buckets_and_a_window_in_points(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/series"
    answer = viewer_client.get(
        path, params={"name": "train/loss", "rank": 0, "max_points": 100}
    ).json()
    reply = SeriesReply.model_validate(answer)
    (series,) = reply.series
    assert not series.raw
    assert series.bucket_steps == 32
    assert sum(series.count) == 3001
    assert answer["series"][0]["last"][-1] == "NaN"
    assert answer["series"][0]["min"][0] == pytest.approx(1 / 31)
    assert answer["series"][0]["max"][0] == 1.0

    window = viewer_client.get(
        path, params={"name": "train/loss", "from_step": 2999, "to_step": 3001}
    ).json()
    assert [s["rank"] for s in window["series"]] == [0, 1]
    assert window["series"][0]["raw"]
    assert window["series"][0]["step"] == [2999, 3000, 3001]
    assert window["series"][0]["min"][-1] == "NaN"


def test_no_name_means_all_names(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/series", params={"rank": 0}).json()
    assert [s["name"] for s in answer["series"]] == ["train/loss", "val/loss"]
    assert answer["num_matching"] == 2
    assert answer["truncated"] is False


def test_an_export_holds_every_point(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/series.csv", params={"rank": 0})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 3002
    assert rows[0] == {
        "name": "train/loss",
        "rank": "0",
        "attempt_no": "1",
        "step": "1",
        "time_ms": "1001000",
        "value": "1.0",
    }
    assert [r["value"] for r in rows[-2:]] == ["NaN", "0.5"]


def test_one_metric_over_the_trials_of_an_experiment(viewer_client, database, trial):
    with database.transaction() as session:
        experiment = add_experiment(session, metric_name="val/loss")
        for no in (1, 2, 3):
            row = add_trial(session, experiment, no=no)
            row.metric = 1.0 / no
            if no < 3:
                (allocation,) = add_attempt(session, row)
                metrics.ingest(
                    session,
                    allocation=allocation,
                    seq=1,
                    record=metrics_record({"val/loss": [(1, float(no))]}, rank=1),
                    at=NOW,
                )
    path = f"/api/v1/experiments/{experiment.id}/series"
    reply = ExperimentSeriesReply.model_validate(
        viewer_client.get(path, params={"name": "val/loss"}).json()
    )
    assert [(i.trial_no, i.series.rank, i.series.last) for i in reply.items] == [
        (1, 1, [1.0]),
        (2, 1, [2.0]),
    ]
    best = viewer_client.get(path, params={"name": "val/loss", "max_trials": 1}).json()
    assert [i["trial_no"] for i in best["items"]] == [2]
    assert best["num_trials"] == 2


def test_unknown_trials_and_bad_windows_are_refused(viewer_client, trial):
    assert viewer_client.get("/api/v1/trials/999/metrics").status_code == 404
    assert viewer_client.get("/api/v1/trials/999/series").status_code == 404
    assert viewer_client.get("/api/v1/trials/999/series.csv").status_code == 404
    assert viewer_client.get("/api/v1/experiments/999/series?name=a").status_code == 404
    path = f"/api/v1/trials/{trial.id}/series"
    for query in ("from_step=-1", "max_points=0", "max_points=100000", "rank=x"):
        assert viewer_client.get(f"{path}?{query}").status_code == 422


def test_nothing_is_told_without_credentials(client, trial):
    assert client.get(f"/api/v1/trials/{trial.id}/series").status_code == 401
