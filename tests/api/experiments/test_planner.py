"""POST plans, and the command: what a training takes, before it is launched."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import tarfile
import threading
from dataclasses import asdict

import pytest
from sqlalchemy import select, update

from muster.wire import (
    DESCRIBES,
    Activations,
    DescriptionResult,
    Layer,
    LayerParameter,
    LayerTable,
)
from muster_server.db.models import LayerTableRow, NodeRow, ScalingReportRow
from muster_server.domain.insight.cost_model.fitting import Transfer
from muster_server.domain.insight.cost_model.steps import MeasuredRun
from muster_server.domain.insight.scaling import Point
from muster_server.schemas.analysis.planner import PlanOut
from muster_server.services.nodes import layer_tables
from support.agent import FakeAgent

DOCUMENT = """
name: digits
trainer: {model: mlp, data: digits, width: 64, depth: 2}
resources: {slots: 4}
"""
OWN = "name: x\ntrainer: {model: 'mine:net'}\nresources: {slots: 2}\ncode: {path: ./code}\n"
PARAMS = 64 * 64 + 64 + 64 * 64 + 64 + 640 + 10
NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def dense(name, num_in, num_out):
    kept = Activations(per_sample=4.0 * num_in, split_per_sample=0, once=0, work_per_sample=0)
    shapes = ([num_out, num_in], [num_out])
    return Layer(
        name=name, is_block=True, buffer_bytes=0, input_bytes=4.0 * num_in, flops=2.0 * num_in * num_out,
        parameters=[LayerParameter(shape=shape, bytes_per_value=4) for shape in shapes],
        activations={"fp32": kept, "bf16": kept},
    )  # fmt: skip


TABLE = LayerTable(
    layers=[dense("0", 64, 64), dense("1", 64, 64), dense("2", 64, 10)],
    sample_bytes=264,
    output_bytes=40,
)


def plan(client, document=DOCUMENT, *, status=200, **more):
    reply = client.post("/api/v1/plans", json={"document": document, **more})
    assert reply.status_code == status, reply.text
    return PlanOut.model_validate(reply.json()) if status == 200 else reply.json()["error"]


def codes(found):
    return [part.code for part in found.reason_parts]


@pytest.fixture
def join(connect, join_token):
    """`join("a")` registers an agent that lists layers; chores: what it says that it can do."""

    def join(name, *, chores=(DESCRIBES,), pool="default"):
        fake = FakeAgent(lambda token: connect(token=token), join_token, name, slots=2, pool=pool)
        fake.chores = list(chores)
        fake.register()
        return fake

    return join


@pytest.fixture
def node(join):
    return join("node-1")


def listed(client, node, document=DOCUMENT, table=TABLE, **more):
    """The plan after the node has listed the layers."""
    first = plan(client, document, **more)
    assert (first.known, first.is_pending, codes(first)) == (False, True, ["plan.listing"])
    (wanted,) = node.descriptions()
    assert node.report_description(DescriptionResult(id=wanted.id, outcome="done", table=table))
    return plan(client, document, **more)


def test_a_plan_says_what_each_strategy_takes(member_client, node):
    found = listed(member_client, node, slot_memory_bytes=10**9)
    assert (found.num_params, found.global_batch) == (PARAMS, 128)
    assert found.flops_per_sample == 2 * (64 * 64 * 2 + 640)
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
    assert node.descriptions() == []


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENT.replace("width: 64, depth: 2", "options: {width: 64}"),
        DOCUMENT.replace("width: 64, ", "") + "hyperparameters: {width: 64}\n",
    ],
)
def test_the_node_is_asked_for_the_model_wherever_its_settings_stand(member_client, node, document):
    plan(member_client, document)
    (wanted,) = node.descriptions()
    assert (wanted.settings["model"], wanted.settings["width"]) == ("mlp", 64)
    assert (wanted.code.kind, wanted.environment) == ("none", {})


def test_what_is_known_is_not_asked_for_again(member_client, node, database):
    listed(member_client, node)
    other = DOCUMENT.replace("slots: 4", "slots: 2") + "strategy: {precision: bf16}\n"
    assert plan(member_client, other).num_params == PARAMS
    assert plan(member_client, DOCUMENT.replace("width: 64", "width: 32")).is_pending
    with database.read() as session:
        assert len(session.scalars(select(LayerTableRow)).all()) == 2


def test_without_a_node_memory_is_unknown_until_one_joins(member_client, join):
    found = plan(member_client)
    assert (found.known, found.is_pending, codes(found)) == (False, False, ["plan.no_node"])
    assert "unknown until a node joins pool default" in found.reason
    assert "no node of the pool default" in found.slot_memory_source
    preview = member_client.post("/api/v1/experiments:preview", json={"document": DOCUMENT})
    assert preview.json()["valid"]
    assert listed(member_client, join("late")).num_params == PARAMS


def test_an_agent_that_knows_nothing_of_it_is_not_asked(member_client, join):
    old = join("old", chores=())
    found = plan(member_client)
    assert (found.is_pending, codes(found)) == (False, ["plan.old_agents"])
    assert old.descriptions() == []
    join("new")
    assert plan(member_client).is_pending


def test_another_node_is_asked_when_the_first_one_fails_or_goes(member_client, join, database):
    first, second = join("first"), join("second")
    plan(member_client)
    (wanted,) = first.descriptions()
    assert second.descriptions() == []
    failed = DescriptionResult(id=wanted.id, outcome="failed", message="there is no torch")
    assert first.report_description(failed)
    assert not first.report_description(failed)
    found = plan(member_client)
    assert (found.is_pending, codes(found)) == (False, ["plan.listing_failed"])
    assert "Node first could not list the layers of the model: there is no torch" in found.reason
    with database.transaction() as session:  # as if it were a minute later
        minute_ago = NOW - dt.timedelta(minutes=1)
        session.execute(update(LayerTableRow).values(ended_at=minute_ago, asked_at=minute_ago))
    assert plan(member_client).is_pending
    assert len(second.descriptions()) == 1
    with database.transaction() as session:
        session.execute(update(NodeRow).where(NodeRow.name == "second").values(state="LOST"))
    assert plan(member_client).is_pending
    assert len(first.descriptions()) == 1


def test_a_script_of_ones_own_is_said_to_be_unknown(member_client, node):
    found = plan(member_client, "name: x\nentrypoint: train.py\ncode: {installed: /srv}\n")
    assert (found.known, found.strategies, found.num_params) == (False, [], None)
    assert codes(found) == ["plan.script"]
    auto = plan(member_client, DOCUMENT.replace("depth: 2", "depth: 2, batch_size: auto"))
    assert codes(auto) == ["plan.batch_auto"]
    assert node.descriptions() == []


def upload(client):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("mine.py")
        info.size = 4
        tar.addfile(info, io.BytesIO(b"pass"))
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    reply = client.put(
        f"/api/v1/blobs/{digest}",
        content=buffer.getvalue(),
        headers={"Content-Type": "application/gzip"},
    )
    assert reply.status_code in (200, 201), reply.text
    return digest


def test_a_model_of_ones_own_is_described_with_its_code(member_client, node):
    assert codes(plan(member_client, OWN)) == ["plan.no_code"]
    digest = upload(member_client)
    assert plan(member_client, OWN, blob_sha256=digest).is_pending
    (wanted,) = node.descriptions()
    assert (wanted.settings["model"], wanted.code.kind, wanted.code.sha256) == (
        "mine:net",
        "bundle",
        digest,
    )
    code = f"/agent/v1/blobs/{digest}"
    assert node.client.get(code).status_code == 200  # while it lists the layers, and no longer
    node.report_description(DescriptionResult(id=wanted.id, outcome="done", table=TABLE))
    assert node.client.get(code).status_code == 404
    found = plan(member_client, OWN, blob_sha256=digest)
    assert (found.known, found.num_params) == (True, PARAMS)


def test_code_of_ones_own_that_fails_is_told_and_can_be_submitted(member_client, node):
    digest = upload(member_client)
    plan(member_client, OWN, blob_sha256=digest)
    (wanted,) = node.descriptions()
    message = "mine:net raised ValueError: no such width (mine.py, line 5)"
    node.report_description(DescriptionResult(id=wanted.id, outcome="refused", message=message))
    found = plan(member_client, OWN, blob_sha256=digest)
    assert (found.known, found.is_pending, codes(found)) == (False, False, ["plan.refused"])
    assert message in found.reason
    made = member_client.post("/api/v1/experiments", json={"document": OWN, "blob_sha256": digest})
    assert made.status_code == 201, made.text


def test_code_of_ones_own_runs_only_where_jobs_are_isolated_as_required(
    admin_client, member_client, join
):
    open_node, digest = join("open"), upload(member_client)
    document = OWN.replace("slots: 2", "slots: 2, isolation: user")
    assert codes(plan(member_client, document, blob_sha256=digest)) == ["plan.too_weak"]
    admin_client.put("/api/v1/pools/default", json={"min_isolation": "user"})
    assert codes(plan(member_client, OWN, blob_sha256=digest)) == ["plan.too_weak"]
    assert open_node.descriptions() == []
    assert plan(member_client).is_pending, "the trainer's own models are harmless"


def test_code_of_ones_own_runs_only_in_its_pool_and_for_those_who_may_submit(
    member_client, viewer_client, join
):
    other = join("elsewhere", pool="default")
    document = OWN.replace("slots: 2", "slots: 2, pool: gpus")
    found = plan(member_client, document, blob_sha256=upload(member_client))
    assert codes(found) == ["plan.no_node"]
    assert other.descriptions() == []
    refused = viewer_client.post("/api/v1/plans", json={"document": DOCUMENT})
    assert refused.status_code == 403
    assert plan(member_client, DOCUMENT.replace("slots: 4", "slots: 4, pool: gpus")).is_pending


def test_a_table_that_is_too_large_is_not_kept(member_client, node, database):
    plan(member_client)
    (wanted,) = node.descriptions()
    many = LayerTable(
        layers=[dense(f"{i}", 8, 8) for i in range(5_000)], sample_bytes=1, output_bytes=1
    )
    node.report_description(DescriptionResult(id=wanted.id, outcome="done", table=many))
    assert "bytes, and 524,288 are kept" in plan(member_client).reason
    with database.read() as session:
        assert session.scalars(select(LayerTableRow)).one().layers is None


def test_only_so_many_tables_are_kept(member_client, node, database, monkeypatch):
    monkeypatch.setattr(layer_tables, "MAX_ROWS", 3)
    for width in range(1, 6):
        plan(member_client, DOCUMENT.replace("width: 64", f"width: {width}"))
    widths = [wanted.settings["width"] for wanted in node.descriptions()]
    assert widths == [5, 4, 3]  # who edits a document waits for the last one


def test_agents_are_asked_for_few_at_once(member_client, node, monkeypatch):
    monkeypatch.setattr(layer_tables, "MAX_OPEN", 2)
    for width in (1, 2, 3):
        found = plan(member_client, DOCUMENT.replace("width: 64", f"width: {width}"))
        assert found.is_pending
    assert len(node.descriptions()) == 2


def test_a_document_that_cannot_work_is_refused_with_the_path(member_client):
    error = plan(member_client, "name: x\ntrainer: {modl: mlp}\n", status=422)
    assert error["fields"][0]["path"] == "trainer.modl"


def test_step_times_come_from_a_scaling_report_of_the_same_model(member_client, database, node):
    made = member_client.post("/api/v1/experiments", json={"document": DOCUMENT}).json()["id"]

    def run(size):
        transfers = () if size == 1 else (
            Transfer(kind="all_reduce", size=size, count=1, num_bytes=1e7, transfer_s=0.01 * size),
        )  # fmt: skip
        exposed = transfers[0].transfer_s if transfers else 0.0
        return MeasuredRun(
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
    found = listed(member_client, node)
    # 36 kB at 1/2 GB/s beside 50 ms: what is sent does not matter here.
    assert found.strategies[0].step_ms.value == pytest.approx(50, rel=0.05)
    assert f"of experiment {made}" in found.time_source
    other = listed(member_client, node, DOCUMENT.replace("width: 64", "options: {width: 32}"))
    assert other.strategies[0].step_ms is None


def test_a_trial_has_what_was_expected_of_it(member_client, viewer_client, node):
    made = member_client.post("/api/v1/experiments", json={"document": DOCUMENT}).json()["id"]
    trial = member_client.get(f"/api/v1/experiments/{made}/trials").json()["items"][0]["id"]
    first = viewer_client.get(f"/api/v1/trials/{trial}/plan").json()
    assert (first["known"], first["is_pending"]) == (False, True)
    (wanted,) = node.descriptions()
    node.report_description(DescriptionResult(id=wanted.id, outcome="done", table=TABLE))
    found = viewer_client.get(f"/api/v1/trials/{trial}/plan").json()
    assert (found["known"], found["bytes_per_step"], found["remarks"]) == (True, 4 * PARAMS, [])


def test_the_command_prints_it(muster, tmp_path, member_client, node):
    listed(member_client, node)
    (tmp_path / "digits.yaml").write_text(DOCUMENT)
    result = muster("plan", str(tmp_path / "digits.yaml"), "--slot-memory-gb", "1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "ddp (chosen)" in result.output
    assert "Recommended: ddp" in result.output


def test_the_command_waits_for_the_layers_and_says_why_there_are_none(muster, tmp_path, join):
    (tmp_path / "digits.yaml").write_text(DOCUMENT)
    alone = muster("plan", str(tmp_path / "digits.yaml"))
    assert (alone.exit_code, "until a node joins pool default" in alone.output) == (0, True)
    assert muster("plan").exit_code == 2


def test_validating_says_what_a_slot_needs(muster, tmp_path, member_client, node):
    (tmp_path / "digits.yaml").write_text(DOCUMENT)
    listed(member_client, node)
    result = muster("validate", str(tmp_path / "digits.yaml"))
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{PARAMS:,} parameters; needs 0." in result.output


def test_the_command_uploads_code_that_the_model_is_in(muster, tmp_path, node, database):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text("def net(**shapes): ...\n")
    (tmp_path / "own.yaml").write_text(OWN)
    done = threading.Event()

    def answer():
        while not done.is_set():
            for wanted in node.descriptions():
                assert wanted.code.kind == "bundle"
                result = DescriptionResult(id=wanted.id, outcome="done", table=TABLE)
                node.report_description(result)
            done.wait(0.05)

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        result = muster("plan", str(tmp_path / "own.yaml"))
    finally:
        done.set()
        answering.join()
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{PARAMS:,} parameters on 2 slots" in result.output


def test_the_command_compares_a_trial_with_what_was_expected(muster, member_client, node):
    made = member_client.post("/api/v1/experiments", json={"document": DOCUMENT}).json()["id"]
    listed(member_client, node)
    result = muster("plan", "--trial", str(made))
    assert result.exit_code == 0, (result.output, result.exception)
    assert "sent per step MB" in result.output
    assert f"{4 * PARAMS / 1e6:.3f}" in result.output
