"""POST plans, and the command: what a training takes, before it is launched."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict

import pytest

from muster_server.db.models import ScalingReportRow
from muster_server.domain.cost_model.fitting import Transfer
from muster_server.domain.cost_model.steps import Run
from muster_server.domain.scaling import Point
from muster_server.schemas.plans import PlanOut

DOCUMENT = """
name: digits
trainer: {model: mlp, data: digits, width: 64, depth: 2}
resources: {slots: 4}
"""
PARAMS = 64 * 64 + 64 + 64 * 64 + 64 + 640 + 10
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def plan(client, document=DOCUMENT, *, status=200, **more):
    reply = client.post("/api/v1/plans", json={"document": document, **more})
    assert reply.status_code == status, reply.text
    return PlanOut.model_validate(reply.json()) if status == 200 else reply.json()["error"]


def test_a_plan_says_what_each_strategy_takes(member_client):
    found = plan(member_client, slot_memory_bytes=10**9)
    assert (found.num_params, found.global_batch) == (PARAMS, 128)
    ddp = found.strategies[0]
    assert (ddp.kind, ddp.is_chosen, ddp.fits) == ("ddp", True, True)
    assert ddp.memory.parameters == 4 * PARAMS
    assert [(t.kind, t.num_bytes) for t in ddp.traffic] == [("all_reduce", 4 * PARAMS)]
    kinds = {s.kind: s for s in found.strategies}
    assert "none" in kinds["tp"].problem
    assert kinds["tp"].memory is None
    assert found.recommended == "ddp"
    assert found.recommended_batch_size > 1000
    assert ddp.step_ms is None
    assert "muster scaling" in found.time_source


def test_without_nodes_memory_is_not_invented(member_client):
    found = plan(member_client)
    assert (found.slot_memory_bytes, found.strategies[0].fits) == (None, None)
    assert found.recommended_batch_size is None
    assert "no node of the pool default" in found.slot_memory_source


@pytest.mark.parametrize(
    "document",
    [
        "name: x\nentrypoint: train.py\ncode: {installed: /srv}\n",
        "name: x\ntrainer: {model: 'mine:net'}\ncode: {installed: /srv}\n",
    ],
)
def test_code_of_ones_own_is_said_to_be_unknown(member_client, document):
    found = plan(member_client, document)
    assert (found.known, found.strategies, found.num_params) == (False, [], None)
    assert found.reason.startswith("Unknown: ")


def test_a_document_that_cannot_work_is_refused_with_the_path(member_client):
    error = plan(member_client, "name: x\ntrainer: {modl: mlp}\n", status=422)
    assert error["fields"][0]["path"] == "trainer.modl"


def test_step_times_come_from_a_scaling_report_of_the_same_model(member_client, database):
    made = member_client.post("/api/v1/experiments", json={"document": DOCUMENT}).json()["id"]

    def run(size):
        transfers = () if size == 1 else (
            Transfer(kind="all_reduce", size=size, count=1, num_bytes=1e7, transfer_s=0.01 * size),
        )  # fmt: skip
        exposed = transfers[0].transfer_s if transfers else 0.0
        return Run(
            size=size, samples=32, step_s=0.05 + exposed, compute_s=0.04, optimizer_s=0.01,
            data_s=0.0, exposed_s=exposed, hidden_s=0.0, wait_s=0.0, other_s=0.0,
            transfers=transfers, num_steps=40,
        )  # fmt: skip

    points = [Point(slots=n, repeat=r, run=run(n)) for n in (1, 2) for r in (1, 2)]
    with database.transaction() as session:
        session.add(
            ScalingReportRow(
                experiment_id=made, state="done", reason="", mode="weak", num_steps=40,
                slot_hours=None, points=[asdict(p) for p in points], user_id=None,
                requested_by="eve", created_at=NOW, ended_at=NOW,
            )
        )  # fmt: skip
    found = plan(member_client)
    # 36 kB at 1/2 GB/s beside 50 ms: what is sent does not matter here.
    assert found.strategies[0].step_ms.value == pytest.approx(50, rel=0.05)
    assert f"of experiment {made}" in found.time_source
    other = plan(member_client, DOCUMENT.replace("width: 64", "width: 32"))
    assert other.strategies[0].step_ms is None


def test_the_command_prints_it(muster, tmp_path):
    (tmp_path / "digits.yaml").write_text(DOCUMENT)
    result = muster("plan", str(tmp_path / "digits.yaml"), "--slot-memory-gb", "1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "ddp (chosen)" in result.output
    assert "Recommended: ddp" in result.output
