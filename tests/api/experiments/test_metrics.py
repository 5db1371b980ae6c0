"""GET metrics, series, series.csv and the series of an experiment."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from arro3.io import read_parquet

from muster_server.db.models import AllocationRow, ExperimentRow
from muster_server.schemas.data import CurvesReply, ExperimentSeriesReply, SeriesList, SeriesReply
from muster_server.services.metrics import compaction, ingest
from support.data import (
    NOW,
    add_attempt,
    add_experiment,
    add_trial,
    metrics_record,
)

pytestmark = pytest.mark.both_databases


@pytest.fixture
def trial(database):
    """A trial of two ranks with 3,000 steps, most of them compacted, and a diverged loss."""
    with database.transaction() as session:
        experiment = add_experiment(session)
        row = add_trial(session, experiment)
        (allocation,) = add_attempt(session, row)
        for rank in (0, 1):
            ingest.ingest(
                session,
                allocation=allocation,
                seq=rank + 1,
                record=metrics_record(
                    {"train/loss": [(s, 1 / s) for s in range(1, 3001)]}, rank=rank
                ),
                at=NOW,
            )
    compaction.compact_trial(database, row.id, NOW)
    with database.transaction() as session:
        ingest.ingest(
            session,
            allocation=session.get_one(AllocationRow, allocation.id),
            seq=3,
            record=metrics_record({"train/loss": [(3001, math.nan)], "val/loss": [(3001, 0.5)]}),
            at=NOW,
        )
    return row


def test_long_answers_are_compressed_for_who_takes_that(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/series"
    long = viewer_client.get(path, headers={"Accept-Encoding": "gzip"})
    plain = viewer_client.get(path, headers={"Accept-Encoding": "identity"})
    assert long.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert long.json() == plain.json()
    assert int(long.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 2
    export = viewer_client.get(f"{path}.csv", headers={"Accept-Encoding": "gzip"})
    short = viewer_client.get("/api/v1/auth/state", headers={"Accept-Encoding": "gzip"})
    assert not {"Content-Encoding"} & {*export.headers, *short.headers}


def test_the_list_shows_every_series_with_its_summary(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/metrics")
    reply = SeriesList.model_validate(answer.json())
    assert reply.names == ["train/loss", "val/loss"]
    assert reply.ranks == [0, 1]
    loss = reply.items[0]
    assert (loss.name, loss.rank, loss.count, loss.num_non_finite) == ("train/loss", 0, 3001, 1)
    assert answer.json()["items"][0]["last"] == "NaN"
    path = f"/api/v1/trials/{trial.id}/metrics?items=non_finite"
    few = SeriesList.model_validate(viewer_client.get(path).json())
    assert (few.names, few.ranks) == (reply.names, reply.ranks)
    assert [(item.name, item.rank) for item in few.items] == [("train/loss", 0)]


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


def test_json_lines_and_parquet_hold_what_the_csv_file_holds(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/series"
    rows = list(csv.DictReader(io.StringIO(viewer_client.get(f"{path}.csv").text)))
    lines = viewer_client.get(f"{path}.jsonl")
    assert lines.headers["content-type"] == "application/x-ndjson"
    objects = [json.loads(line) for line in lines.text.splitlines()]
    assert [{k: str(v) for k, v in o.items()} for o in objects] == rows
    answer = viewer_client.get(f"{path}.parquet")
    assert answer.headers["content-disposition"].endswith(f'"trial-{trial.id}.parquet"')
    table = read_parquet(io.BytesIO(answer.content)).read_all()
    assert table.num_rows == len(rows)
    assert table["name"].to_pylist() == [r["name"] for r in rows]
    for field in ("rank", "attempt_no", "step", "time_ms"):
        assert table[field].to_pylist() == [int(r[field]) for r in rows]
    np.testing.assert_array_equal(
        table["value"].to_numpy(), np.array([float(r["value"]) for r in rows])
    )


def test_an_export_of_a_window_holds_the_window(viewer_client, trial):
    window = {"name": "train/loss", "rank": 1, "from_step": 2999, "to_step": 3001}
    lines = viewer_client.get(f"/api/v1/trials/{trial.id}/series.jsonl", params=window)
    assert [json.loads(line)["step"] for line in lines.text.splitlines()] == [2999, 3000]
    nothing = viewer_client.get(f"/api/v1/trials/{trial.id}/series.parquet", params={"name": "no"})
    assert read_parquet(io.BytesIO(nothing.content)).read_all().num_rows == 0


@pytest.fixture
def second_trial(database, trial):
    """Of the same experiment: 100 steps in 2 epochs, which it logs, and the samples seen."""
    with database.transaction() as session:
        experiment = session.get_one(ExperimentRow, trial.experiment_id)
        row = add_trial(session, experiment, no=2)
        row.started_at = NOW
        (allocation,) = add_attempt(session, row)
        loss = [(s, float(s)) for s in range(1, 101)]
        samples = [(s, 32.0 * s) for s in range(10, 101, 10)]
        record = metrics_record({"train/loss": loss, "samples": samples}, epoch=2.0)
        ingest.ingest(session, allocation=allocation, seq=1, record=record, at=NOW)
    return row


def curves(client, **params):
    return CurvesReply.model_validate(client.get("/api/v1/series", params=params).json())


def test_many_metrics_of_many_trials_come_in_one_answer(viewer_client, trial, second_trial):
    reply = curves(
        viewer_client,
        trial=[second_trial.id, 999, trial.id],
        name=["val/loss", "train/loss"],
    )
    assert [
        (c.trial_no, c.series.name, c.series.rank, c.series.num_points) for c in reply.items
    ] == [
        (2, "train/loss", 0, 100),
        (1, "val/loss", 0, 1),
        (1, "train/loss", 0, 3001),
    ]
    assert (reply.missing, reply.num_matching, reply.max_points) == ([999], 3, 1000)
    assert [c.start_ms for c in reply.items] == [round(NOW.timestamp() * 1000), None, None]
    assert [c.series.raw for c in reply.items] == [True, True, False]
    of_ranks = curves(viewer_client, trial=trial.id, name="train/loss", rank=[0, 1])
    assert [c.series.rank for c in of_ranks.items] == [0, 1]


def test_curves_lie_along_epochs_or_along_any_metric(viewer_client, trial, second_trial):
    asked = {"trial": [trial.id, second_trial.id], "name": "train/loss", "from_step": 5}
    unknown, known = curves(viewer_client, **asked, x="epoch").items
    assert unknown.x is None
    assert (known.x[0], known.x[45], known.x[-1]) == (0.1, 1.0, 2.0)
    unknown, known = curves(viewer_client, **asked, x="metric", x_name="samples").items
    assert unknown.x is None
    assert known.series.step[0] == 5
    assert known.x[:7] == [None] * 5 + [320.0, 352.0]
    assert known.x[-1] == 3200.0
    assert curves(viewer_client, **asked).items[0].x is None


def test_an_answer_with_many_curves_has_fewer_points_of_each_and_says_so(
    viewer_client, database, trial
):
    names = [f"layer/{n}" for n in range(50)]
    with database.transaction() as session:
        row = add_trial(session, session.get_one(ExperimentRow, trial.experiment_id), no=3)
        (allocation,) = add_attempt(session, row, slots=5)
        for rank in range(5):
            record = metrics_record({n: [(1, 1.0)] for n in names}, rank=rank)
            ingest.ingest(session, allocation=allocation, seq=rank + 1, record=record, at=NOW)
    reply = curves(viewer_client, trial=row.id, name=names, rank=[0, 1, 2, 3, 4])
    assert (len(reply.items), reply.num_matching, reply.max_points) == (200, 250, 300)


def test_a_request_for_curves_says_what_it_lacks(viewer_client, trial):
    for query in ("name=a", "trial=1", "trial=1&name=a&x=metric", "trial=1&name=a&x_name=b"):
        assert viewer_client.get(f"/api/v1/series?{query}").status_code == 422


def test_as_many_trials_as_a_request_may_name_fit_into_its_address(viewer_client, trial):
    many = [1_000_000 + no for no in range(499)]
    assert curves(viewer_client, trial=[trial.id, *many], name=["train/loss", "val/loss"]).items
    more = viewer_client.get("/api/v1/series", params={"trial": [trial.id, *many, 1], "name": "a"})
    assert more.status_code == 422, "one more says which field is too long"


def test_one_metric_over_the_trials_of_an_experiment(viewer_client, database, trial):
    with database.transaction() as session:
        experiment = add_experiment(session, metric_name="val/loss")
        for no in (1, 2, 3):
            row = add_trial(session, experiment, no=no)
            row.metric = 1.0 / no
            if no < 3:
                (allocation,) = add_attempt(session, row)
                ingest.ingest(
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
