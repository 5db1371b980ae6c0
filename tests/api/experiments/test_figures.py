"""The figures of one run are the same wherever they are shown."""

from __future__ import annotations

import csv
import io
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster_server.services.metrics import ingest
from support.data import NOW, add_attempt, add_experiment, add_trial, add_worker, metrics_record

STEPS = range(1, 251)
BATCH = 64


def step_ms(step: int) -> float:
    """Every fifth step is slow, so that a mean of rates or of shares is far from the true one."""
    return 450.0 if step % 5 == 0 else 100.0


def exposed_ms(rank: int, step: int) -> float:
    return 10.0 + 5.0 * rank + (60.0 if step % 5 == 0 else 0.0)


@pytest.fixture
def run(database):
    """A running training of two ranks, of which 250 rows came in several records."""
    with database.transaction() as session:
        experiment = add_experiment(session)
        row = add_trial(session, experiment)
        (allocation,) = add_attempt(session, row)
        row.state = "RUNNING"
        for rank in (0, 1):
            add_worker(session, allocation, rank)
        session.flush()
        seq = 0
        for begin in range(1, 251, 50):
            for rank in (0, 1):
                steps = range(begin, begin + 50)
                values = {
                    "time/step_ms": [(s, step_ms(s)) for s in steps],
                    "time/forward_ms": [(s, step_ms(s) - exposed_ms(rank, s)) for s in steps],
                    "comm/exposed_ms": [(s, exposed_ms(rank, s)) for s in steps],
                    "comm/overhead_ratio": [(s, exposed_ms(rank, s) / step_ms(s)) for s in steps],
                }
                if rank == 0:
                    values["throughput/samples_per_s"] = [
                        (s, BATCH / step_ms(s) * 1e3) for s in steps
                    ]
                    values["loss"] = [(s, 1.0 / s) for s in steps]
                    values["val/error"] = [(1, 0.5)] if begin == 1 else []
                seq += 1
                record = metrics_record({n: v for n, v in values.items() if v}, rank=rank)
                ingest.ingest(session, allocation=allocation, seq=seq, record=record, at=NOW)
        return experiment.id, row.id


def from_the_export(client, trial_id: int) -> dict[str, float]:
    """Sum over sum of the latest 100 rows, from the CSV file."""
    text = client.get(f"/api/v1/trials/{trial_id}/series.csv").text
    sums: dict[tuple[str, str], list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        sums.setdefault((row["name"], row["rank"]), []).append(float(row["value"]))
    latest = {key: values[-100:] for key, values in sums.items()}
    steps = latest["time/step_ms", "0"]
    rates = latest["throughput/samples_per_s", "0"]
    exposed = [sum(latest["comm/exposed_ms", rank]) for rank in ("0", "1")]
    samples = sum(rate * ms / 1e3 for rate, ms in zip(rates, steps, strict=True))
    return {
        "time/step_ms": sum(steps) / 100,
        "throughput/samples_per_s": samples / (sum(steps) / 1e3),
        "comm/overhead_ratio": sum(exposed) / (2 * sum(steps)),
    }


def test_rest_export_and_commands_say_the_same(run, viewer_client, muster):
    experiment_id, trial_id = run
    path = f"/api/v1/trials/{trial_id}/performance"
    performance = viewer_client.get(path).json()
    figures = performance["figures"]
    assert (performance["num_rows"], performance["first_step"]) == (100, 151)
    assert figures["time/step_ms"] == pytest.approx(170)
    # The batch over the step time; a mean of the rates of steps says 540.
    assert figures["throughput/samples_per_s"] == pytest.approx(BATCH / 0.17)
    assert figures["comm/overhead_ratio"] == pytest.approx(24.5 / 170)
    for name, value in from_the_export(viewer_client, trial_id).items():
        assert figures[name] == pytest.approx(value), name
    # The verdict is over the same rows, and so is the table of ranks.
    verdict = performance["bottleneck"]
    assert (verdict["step_ms"], verdict["num_rows"]) == (pytest.approx(170), 100)
    assert [(r["step_ms"], r["num_rows"]) for r in performance["ranks"]] == [(170, 100)] * 2
    (listed,) = viewer_client.get(f"/api/v1/experiments/{experiment_id}/figures").json()["items"]
    assert listed == {
        "trial_id": trial_id,
        "attempt_no": 1,
        "figures": figures,
        "num_rows": performance["num_rows"],
    }
    shown = " ".join(muster("show", str(experiment_id)).output.split())
    assert re.search(rf"\b{BATCH / 0.17:.2f} samples/s 14% 0\b", shown), shown
    told = " ".join(muster("performance", str(experiment_id)).output.split())
    assert (
        f"{BATCH / 0.17:.2f} samples/s, 170.0 ms per step, communication and waiting 14%" in told
    ), told
    assert "the newest 100 rows of each rank" in told


def test_list_page_and_command_name_the_same_metric_with_the_same_value(run, viewer_client, muster):
    experiment_id, trial_id = run
    (listed,) = viewer_client.get("/api/v1/experiments").json()["items"]
    trial = viewer_client.get(f"/api/v1/trials/{trial_id}").json()
    entry = trial["summary"][trial["headline"]]
    assert (trial["headline"], entry["last"], entry["step"]) == ("loss", 1 / 250, 250)
    assert listed["headline"]["name"] == trial["headline"]
    assert (listed["headline"]["last"], listed["headline"]["step"]) == (1 / 250, 250)
    for command in (("show", str(experiment_id)), ("list",)):
        assert "loss 0.004" in " ".join(muster(*command).output.split()), command


def test_the_cluster_and_prometheus_say_what_was_measured_last(run, viewer_client):
    _, trial_id = run
    cluster = viewer_client.get("/api/v1/cluster").json()
    scraped = {
        sample.name: sample.value
        for family in text_string_to_metric_families(viewer_client.get("/metrics").text)
        for sample in family.samples
    }
    last = viewer_client.get(f"/api/v1/trials/{trial_id}").json()["summary"]
    assert cluster["samples_per_s"] == pytest.approx(last["throughput/samples_per_s"]["last"])
    assert cluster["samples_per_s"] == pytest.approx(BATCH / 0.45)
    # Rank 0 and rank 1: 70 and 75 of 450 ms each.
    assert cluster["comm_overhead_ratio"] == pytest.approx(145 / 900)
    assert (cluster["num_trials_comm"], cluster["num_workers_comm"]) == (1, 2)
    assert scraped["muster_training_samples_per_second"] == cluster["samples_per_s"]
    assert scraped["muster_training_communication_ratio"] == cluster["comm_overhead_ratio"]
