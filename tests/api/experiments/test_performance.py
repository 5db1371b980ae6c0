"""GET performance: where the time of a trial's steps went."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from muster_server.db.models import AllocationRow
from muster_server.schemas.analysis.performance import PerformanceOut
from muster_server.services.metrics import ingest
from support.data import (
    NOW,
    add_attempt,
    add_experiment,
    add_late_trial,
    add_trial,
    metrics_record,
)

pytestmark = pytest.mark.either_database


@pytest.fixture
def trial(database):
    return add_late_trial(database)


def test_rows_of_one_step_are_compared_step_by_step_where_few_steps_have_parts(
    viewer_client, database
):
    trial = add_late_trial(database, recorded=range(4, 201, 4))
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    assert (reply.num_rows, reply.bucket_steps) == (50, 1)
    assert reply.bottleneck is not None
    assert reply.bottleneck.kind == "waiting"
    assert "rank 1 is late in 25 of 50" in reply.bottleneck.reason.lower()


def test_windows_of_the_profiler_compare_ranks_and_say_of_how_many_steps(viewer_client, database):
    trial = add_late_trial(database, recorded=range(120, 201, 20), windows=True)
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    assert (reply.num_rows, reply.bucket_steps) == (5, 1)
    assert [(r.rank, r.step_ms, r.wait_ms) for r in reply.ranks] == [(0, 150, 50), (1, 150, 0)]
    (traffic,) = reply.traffic
    assert (traffic.transfer_ms, traffic.wait_ms) == (5, 25)  # a mean over both ranks
    assert reply.source is not None
    assert reply.source.endswith("from the kernel timeline: 5 of 81 steps.")
    assert [p.code for p in reply.source_parts] == ["measured.timeline"]


def test_what_the_recorder_alone_has_seen_has_counts_and_no_times(viewer_client, database):
    trial = add_late_trial(database, recorded=range(120, 201, 20), windows=True)
    with database.transaction() as session:
        query = select(AllocationRow).where(AllocationRow.trial_id == trial.id)
        allocation = session.scalars(query).one()
        for rank in (0, 1):
            values = {
                "comm/recorder_steps": [(s, 30.0) for s in (150, 170)],
                "comm/world/all_reduce/count": [(s, 3.0) for s in (150, 170)],
                "comm/world/all_reduce/bytes": [(s, 3e6) for s in (150, 170)],
                "comm/world/broadcast/count": [(170, 0.5)],
                "comm/world/broadcast/bytes": [(170, 64.0)],
            }
            record = metrics_record(values, rank=rank)
            ingest.ingest(session, allocation=allocation, seq=rank + 10, record=record, at=NOW)
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    reduced, sent = reply.traffic
    # Windows and recorder say the bytes of different steps; the rate is of what the windows timed.
    assert reduced.num_bytes == pytest.approx((60 * 3e6 + 5 * 1e6) / 65)
    assert reduced.algorithm_bytes_per_s == pytest.approx(1e6 / 5e-3)
    assert (sent.kind, sent.time_ms, sent.transfer_ms, sent.bus_bytes_per_s) == (
        ("broadcast", None, None, None)
    )
    assert (sent.num_rows, sent.num_rows_with) == (2, 1)
    assert reply.source is not None
    assert reply.source.endswith("from torch's flight recorder: 60 steps.")


def test_the_newest_rows_say_who_waits_for_whom_and_why(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    assert (reply.first_step, reply.last_step, reply.bucket_steps) == (101, 200, 1)
    assert (reply.source, reply.source_parts) == (None, [])
    assert [(r.rank, r.num_rows, r.step_ms, r.wait_ms) for r in reply.ranks] == [
        (0, 100, 150, 50),
        (1, 100, 150, 0),
    ]
    for rank in reply.ranks:
        assert sum(rank.parts.values()) == pytest.approx(rank.step_ms)
    assert reply.culprit is not None
    assert (reply.culprit.rank, reply.culprit.part) == (1, "time/data_wait_ms")
    assert reply.culprit.share == pytest.approx(1 / 3)
    assert reply.bottleneck is not None
    assert (reply.culprit.num_late, reply.culprit.num_buckets, reply.culprit.late_ms) == (
        100,
        100,
        50,
    )
    bound = reply.bottleneck
    assert (bound.kind, bound.ms, bound.share) == ("waiting", 50, pytest.approx(1 / 3))
    assert [p.code for p in bound.headline_parts] == ["bound.largest"]
    assert [p.code for p in bound.reason_parts] == ["bound.late_steps", "bound.late_part"]
    assert [(c.kind, c.ms) for c in bound.costs] == [
        ("computation", 95),
        ("waiting", 50),
        ("communication", 5),
    ]
    (traffic,) = reply.traffic
    assert (traffic.count, traffic.transfer_ms, traffic.wait_ms) == (3, 5, 25)
    assert traffic.bus_bytes_per_s == pytest.approx(2e8)


def test_a_pipeline_that_waits_for_its_stages_is_bound_by_its_bubble(database, viewer_client):
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        for rank in (0, 1):
            parts = {
                "time/step_ms": 407.0,
                "time/forward_ms": 60.0,
                "time/backward_ms": 100.0,
                "comm/exposed_ms": 21.0,
                "pipeline/bubble_ms": 226.0,
                "pipeline/stage": float(rank),
            }
            record = metrics_record(
                {name: [(s, value) for s in range(1, 41)] for name, value in parts.items()},
                rank=rank,
            )
            ingest.ingest(session, allocation=allocation, seq=rank + 1, record=record, at=NOW)
    answer = viewer_client.get(f"/api/v1/trials/{row.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    assert reply.bottleneck is not None
    assert (reply.bottleneck.kind, round(reply.bottleneck.share, 2)) == ("bubble", 0.56)
    assert "more micro-batches (`strategy.accumulate`)" in reply.bottleneck.reason
    assert reply.figures["pipeline/bubble_ms"] == 226


def test_what_is_rare_says_in_how_many_steps_it_was(database, viewer_client, muster):
    """Local SGD: parameters are exchanged in one step of four."""
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        steps = range(1, 15)
        for rank in (0, 1):
            values = {
                "time/step_ms": [(s, 50.0) for s in steps],
                "time/forward_ms": [(s, 20.0) for s in steps],
                "comm/exposed_ms": [(s, 30.0 * (s % 4 == 0)) for s in steps],
                **{
                    f"comm/world/{name}": [(s, value) for s in steps if s % 4 == 0]
                    for name, value in (
                        ("exposed_ms", 30.0),
                        ("all_reduce/time_ms", 30.0),
                        ("all_reduce/count", 4.0),
                        ("all_reduce/bytes", 366_933.0),
                    )
                },
            }
            record = metrics_record(values, rank=rank)
            ingest.ingest(session, allocation=allocation, seq=rank + 1, record=record, at=NOW)
    answer = viewer_client.get(f"/api/v1/trials/{row.id}/performance")
    (traffic,) = PerformanceOut.model_validate(answer.json()).traffic
    assert (traffic.num_rows_with, traffic.num_rows) == (3, 14)
    assert traffic.num_bytes == pytest.approx(3 * 366_933 / 14)
    plan = viewer_client.get(f"/api/v1/trials/{row.id}/plan").json()
    assert plan["measured_bytes_per_step"] == pytest.approx(3 * 366_933 / 14)
    said = " ".join(muster("performance", str(row.id)).output.split())
    assert "all_reduce of world is in 3 of 14 steps, 30.0 ms in each of them." in said


def test_more_rows_reach_further_back(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance", params={"rows": 1000})
    reply = PerformanceOut.model_validate(answer.json())
    assert reply.first_step == 1
    assert [r.num_rows for r in reply.ranks] == [200, 200]


@pytest.mark.both_databases
def test_the_latest_hundred_are_the_latest_hundred_however_far_they_are_apart(
    database, viewer_client
):
    """Rows of 10 steps, and at the end of 40 steps: as far apart as none of the series before."""
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        steps = [*range(10, 10_001, 10), *range(10_040, 14_001, 40)]
        times = {
            step: 1000.0 if no < len(steps) - 100 else 10.0 + no % 2
            for no, step in enumerate(steps)
        }
        values = {
            "time/step_ms": list(times.items()),
            "time/forward_ms": list(times.items()),
            "throughput/samples_per_s": [(step, 64 / ms * 1e3) for step, ms in times.items()],
            "train/loss": [(step, 1.0) for step in steps],
        }
        ingest.ingest(session, allocation=allocation, seq=1, record=metrics_record(values), at=NOW)
    answer = viewer_client.get(f"/api/v1/trials/{row.id}/performance")
    reply = PerformanceOut.model_validate(answer.json())
    assert (reply.num_rows, reply.first_step, reply.last_step) == (100, 10_040, 14_000)
    assert [r.num_rows for r in reply.ranks] == [100]
    assert reply.figures["time/step_ms"] == reply.ranks[0].step_ms == pytest.approx(10.5)
    assert reply.figures["throughput/samples_per_s"] == pytest.approx(64 / 10.5 * 1e3)
    assert "train/loss" not in reply.figures


def test_an_attempt_that_measured_nothing_has_nothing_to_say(viewer_client, trial):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance", params={"attempt": 7})
    reply = PerformanceOut.model_validate(answer.json())
    assert (reply.first_step, reply.num_ranks, reply.ranks, reply.bottleneck) == (None, 0, [], None)


def test_an_unknown_trial_and_a_bad_number_are_refused(viewer_client, trial):
    assert viewer_client.get("/api/v1/trials/999999/performance").status_code == 404
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/performance", params={"rows": 0})
    assert answer.status_code == 422


def test_the_command_shows_each_rank_and_names_the_one_that_is_waited_for(muster, trial):
    result = muster("performance", str(trial.id))
    assert result.exit_code == 0, result.output
    assert "all_reduce" in result.output
    said = " ".join(result.output.split())
    assert (
        "Largest avoidable cost: waiting for late ranks, 33% of the step (50 of 150 ms); computing takes 63%."
    ) in said
    assert "Rank 1 is late in 100 of 100 steps; the others wait 50 ms" in said
    assert "Its data wait takes 50 ms longer there than that of the others." in said
    nothing = muster("performance", str(trial.id), "--attempt", "7")
    assert "measured no steps" in nothing.output + nothing.stderr
