"""Scaling reports through the real API, a controller, and agents that say what was measured."""

import csv

import pytest

from muster.wire import (
    DESCRIBES,
    Activations,
    DescriptionResult,
    Layer,
    LayerParameter,
    LayerTable,
)
from muster_server import clock
from muster_server.domain.insight.cost_model.links import payload_share
from muster_server.loops.runner import Controller
from support.data import metrics_record

API = "/api/v1"
DOCUMENT = """
name: digits
trainer: {model: mlp, batch_size: 16}
resources: {slots: 4}
"""
SCRIPT = """
name: own
entrypoint: a.py
code: {installed: /srv/own}
"""
STEPS = 20
LAYERS = LayerTable(
    layers=[
        Layer(
            name="0", is_block=True, parameters=[LayerParameter(shape=[1000, 2500], bytes_per_value=4)],
            buffer_bytes=0, input_bytes=256, flops=5e6,
            activations={
                kind: Activations(per_sample=256, split_per_sample=0, once=0, work_per_sample=0)
                for kind in ("fp32", "bf16")
            },
        )
    ],
    sample_bytes=264,
    output_bytes=40,
)  # fmt: skip
"""A model whose gradients are the 10 MB that are measured."""
TRANSFER_MS = {1: 0.0, 2: 10.0, 4: 15.0}
"""Of an all-reduce of 10 MB: 1 GB/s, and no latency."""


def measured(slots, *, repeat=1):
    """Metric → (step, value) of one worker: 40 ms of computing, less the batch of strong scaling."""
    shake = 1 + 0.01 * repeat
    exposed = TRANSFER_MS[slots] * shake
    values = {
        "time/forward_ms": 10.0 * shake,
        "time/backward_ms": 30.0 * shake,
        "time/optimizer_ms": 5.0,
        "time/data_wait_ms": 1.0,
        "time/other_ms": 0.5,
        "comm/exposed_ms": exposed,
        "time/step_ms": 40.0 * shake + 6.5 + exposed,
    }
    if slots > 1:
        values |= {
            "comm/overlapped_ms": 0.0,
            "comm/world/exposed_ms": exposed,
            "comm/world/all_reduce/time_ms": exposed,
            "comm/world/all_reduce/bytes": 1e7,
            "comm/world/all_reduce/count": 1.0,
        }
    return {name: [(s, value) for s in range(1, STEPS + 6)] for name, value in values.items()}


def ask(client, path, *, status=201, code=None, **body):
    reply = client.post(f"{API}{path}", json=body or None)
    if code is not None:
        assert reply.json()["error"]["code"] == code, reply.text
        return reply.json()["error"]
    assert reply.status_code == status, reply.text
    return reply.json()


@pytest.fixture
def source(member_client, controller, agent):
    """An experiment that has ended, and the node that it ran on."""
    made = ask(member_client, "/experiments", document=DOCUMENT)["id"]
    node = agent(slots=4)
    controller.tick()
    one_run(controller, node, steps=False)
    return made, node


def one_run(controller, node, *, steps=True, cause="success", repeat=1, values=measured):
    """Carry out what is assigned; the resolved document of it."""
    found = node.only()
    allocation_id, slots = found.spec.allocation_id, found.spec.world_size
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    if steps:
        for rank in range(slots):
            node.send(allocation_id, metrics_record(values(slots, repeat=repeat), rank=rank))
    node.exit(allocation_id, cause, message="boom" if cause == "user_error" else "")
    controller.tick()
    node.poll()
    return found.spec.config


def test_a_report_runs_every_size_in_turn_and_says_how_it_scales(
    database, settings, controller, source, member_client, viewer_client, show
):
    experiment_id, node = source
    made = ask(
        member_client, f"/experiments/{experiment_id}/scaling-reports",
        slots=[4, 1, 2], repeats=2, steps=STEPS, slot_hours=7.0,
    )  # fmt: skip
    path = f"/scaling-reports/{made['id']}"
    assert (made["state"], made["num_runs"], made["model"]) == ("running", 6, None)
    seen = []
    for run in range(6):
        if run == 3:  # another controller takes over, as after a restart
            controller.resign()
            controller = Controller(database, settings, monotonic=lambda: clock.now().timestamp())
        controller.tick()
        config = one_run(controller, node, repeat=run)
        seen.append(config["resources"]["slots"])
        assert config["trainer"]["steps"] == STEPS + 5
        # What is left, shared out by slots among the runs that are to come.
        to_come = 14 - sum(seen[:-1])
        assert config["budget"]["slot_hours"] == pytest.approx(7 * seen[-1] / to_come, rel=0.01)
    controller.tick()
    assert seen == [1, 2, 4, 4, 2, 1]
    report = show(path)
    assert (report["state"], report["num_over"]) == ("done", 6)
    assert report["reason"] == "6 runs were measured."
    one, two, four = report["sizes"]
    assert [s["num_runs"] for s in report["sizes"]] == [2, 2, 2]
    assert one["num_steps"] == 2 * STEPS
    assert two["parts_ms"]["transfer"] == pytest.approx(10, rel=0.06)
    assert sum(four["parts_ms"].values()) == pytest.approx(four["step_ms"]["value"], rel=1e-6)
    assert four["efficiency"]["value"] == pytest.approx(47 / 62, rel=0.03)
    assert report["model"]["bandwidth_bytes_per_s"]["value"] == pytest.approx(1e9, rel=0.06)
    assert report["model"]["step_error"] < 0.05
    largest = report["predictions"][-1]
    assert (largest["slots"], largest["network"]) == (32, "measured")
    assert largest["communication_ms"] == pytest.approx(2 * 31 / 32 * 10, rel=0.1)
    slow = show(f"{path}?slots=8&bandwidth_mbit_per_s=800")["predictions"]
    assert [p["network"] for p in slow] == ["measured", "800 Mbit/s"]
    on_link = 2 * 7 / 8 * 100 / payload_share(1500)
    assert slow[1]["communication_ms"] == pytest.approx(on_link, rel=0.01)
    told = show(f"{path}?slots=8&bandwidth_mbit_per_s=800&measured_bandwidth_mbit_per_s=9000")
    hosts = 10 - 10 / payload_share(1500) * 8 / 9
    assert told["predictions"][1]["communication_ms"] == pytest.approx(
        on_link + 2 * 7 / 8 * hosts, rel=0.02
    )

    text = viewer_client.get(f"{API}{path}/export").text
    assert "| 4 | 2 | 40 | 16 |" in text
    rows = list(
        csv.DictReader(viewer_client.get(f"{API}{path}/export?format=csv").text.splitlines())
    )
    assert [r["slots"] for r in rows if r["kind"] == "measured"] == ["1", "2", "4"]
    assert float(rows[0]["speedup"]) == 1

    # The runs are experiments like any other, linked to what they are about.
    children = show(f"/experiments/{experiment_id}/children")["items"]

    # With the report, what was to be expected of a trial stands beside what it has measured.
    of_four = next(c for c in children if "4 slots" in c["name"])
    (trial,) = show(f"/experiments/{of_four['id']}/trials")["items"]
    node.chores = [DESCRIBES]
    node.register()
    assert show(f"/trials/{trial['id']}/plan")["is_pending"]
    (wanted,) = node.descriptions()
    node.report_description(DescriptionResult(id=wanted.id, outcome="done", table=LAYERS))
    plan = show(f"/trials/{trial['id']}/plan")
    assert (plan["known"], plan["strategy"], plan["reason"]) == (True, "ddp", "")
    assert plan["step_ms"]["value"] == pytest.approx(plan["measured_step_ms"], rel=0.25)
    assert plan["bytes_per_step"] == plan["memory"]["parameters"]
    assert (plan["measured_bytes_per_step"], plan["num_rows"]) == (1e7, STEPS + 5)
    assert f"scaling report {made['id']}" in plan["time_source"]
    assert len(children) == 6
    assert show(f"/experiments/{children[0]['id']}")["purpose"] == "scaling"
    listed = show(f"/experiments/{experiment_id}/scaling-reports")["items"]
    assert [r["id"] for r in listed] == [made["id"]]


def test_a_run_that_fails_is_told_and_the_others_count(controller, source, member_client, show):
    experiment_id, node = source
    made = ask(
        member_client, f"/experiments/{experiment_id}/scaling-reports",
        slots=[1, 2], repeats=1, steps=STEPS,
    )  # fmt: skip
    controller.tick()
    one_run(controller, node, steps=False, cause="user_error")
    controller.tick()
    one_run(controller, node)
    controller.tick()
    report = show(f"/scaling-reports/{made['id']}")
    assert report["state"] == "done"
    assert "boom" in report["points"][0]["problem"]
    assert [s["slots"] for s in report["sizes"]] == [2]


def test_canceling_ends_the_run_and_keeps_what_was_measured(
    controller, source, member_client, show
):
    experiment_id, node = source
    path = f"/experiments/{experiment_id}/scaling-reports"
    made = ask(member_client, path, slots=[1, 2], repeats=1, steps=STEPS)
    refused = ask(member_client, path, code="scaling.running", slots=[1])
    assert "cancel" in refused["hint"]
    controller.tick()
    one_run(controller, node)
    controller.tick()
    report = ask(member_client, f"/scaling-reports/{made['id']}:cancel", status=200)
    assert (report["state"], report["num_over"]) == ("canceled", 1)
    going = report["points"][1]["experiment_id"]
    assert show(f"/experiments/{going}")["desired"] == "kill"
    again = ask(member_client, f"/scaling-reports/{made['id']}:cancel", status=200)
    assert again["ended_at"] == report["ended_at"]


def test_repeats_that_differ_too_much_are_added_to_up_to_a_bound(
    controller, source, member_client, show
):
    """The second run on 2 slots takes twice as long as all others."""
    experiment_id, node = source
    made = ask(
        member_client, f"/experiments/{experiment_id}/scaling-reports",
        slots=[1, 2], repeats=2, steps=STEPS,
    )  # fmt: skip
    seen = []

    def noisy(slots, *, repeat):
        seen.append(slots)
        long = 2.0 if slots == 2 and seen.count(2) in (3, 4) else 1.0  # of each run two workers
        return {name: [(s, long * v) for s, v in of] for name, of in measured(slots).items()}

    while (report := show(f"/scaling-reports/{made['id']}"))["state"] == "running":
        controller.tick()
        points = show(f"/scaling-reports/{made['id']}")["points"]
        if any(p["experiment_id"] and p["step_ms"] is None for p in points):
            one_run(controller, node, values=noisy)
        assert len(points) <= 8
    assert report["state"] == "done"
    repeats = [p["repeat"] for p in report["points"] if p["slots"] == 2]
    assert repeats == [1, 2, 3, 4, 5]
    assert [p["repeat"] for p in report["points"] if p["slots"] == 1] == [1, 2]
    assert "added because the repeats before differed too much" in report["reason"]
    one, two = (s["step_ms"] for s in report["sizes"])
    assert one["is_determined"]
    assert two["low"] > 0
    assert two["is_determined"]


def test_one_repeat_predicts_nothing_and_says_what_would(
    controller, source, member_client, show, muster
):
    experiment_id, node = source
    made = ask(
        member_client, f"/experiments/{experiment_id}/scaling-reports",
        slots=[1, 2, 4], repeats=1, steps=STEPS,
    )  # fmt: skip
    for _ in range(3):
        controller.tick()
        one_run(controller, node)
    controller.tick()
    report = show(f"/scaling-reports/{made['id']}")
    assert (report["state"], report["num_runs"]) == ("done", 3)
    assert report["predictions"]
    for prediction in report["predictions"]:
        assert "at least 3 repeats" in prediction["doubt"]
        assert [p["code"] for p in prediction["doubt_parts"]] == ["scaling.one_run"]
    exported = member_client.get(f"{API}/scaling-reports/{made['id']}/export").text
    predicted = exported.split("## Predicted")[1]
    assert "not determined" in predicted
    assert "at least 3 repeats" in predicted
    said = " ".join(muster("scaling", str(experiment_id)).output.split())
    assert "not determined" in said
    assert "measure with at least 3 repeats" in said


def test_a_script_that_is_measured_ends_in_the_name_of_its_report(
    controller, source, member_client, show, agent
):
    """It would go on: the report ends it, and no user cancels anything."""
    _, node = source
    made = ask(member_client, "/experiments", document=SCRIPT)["id"]
    controller.tick()
    one_run(controller, node, steps=False)
    report = ask(
        member_client, f"/experiments/{made}/scaling-reports", slots=[1], repeats=1, steps=STEPS
    )["id"]  # fmt: skip
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    values = measured(1) | {"throughput/samples_per_s": [(s, 100.0) for s in range(1, STEPS + 6)]}
    node.send(allocation_id, metrics_record(values, rank=0))
    controller.tick()
    assert node.only().desired == "stop"
    node.exit(allocation_id, "stopped")
    controller.tick()
    node.poll()
    controller.tick()
    (point,) = show(f"/scaling-reports/{report}")["points"]
    ran = show(f"/experiments/{point['experiment_id']}")
    (trial,) = show(f"/experiments/{point['experiment_id']}/trials")["items"]
    assert (ran["state"], trial["state"]) == ("COMPLETED", "STOPPED_EARLY")
    assert trial["reason"] == (
        f"Scaling report {report} stopped it: it has done the {STEPS} steps that are measured."
    )
    assert point["step_ms"] is not None


REFUSED = [
    ({"slots": [3], "mode": "strong"}, "slots", "3: a global batch of 64"),
    ({"slots": []}, "slots", "at least 1"),
    ({"slots": [1], "steps": 3}, "steps", "10"),
]


def test_what_cannot_run_and_who_may_not_are_refused(
    source, member_client, make_user_token, connect
):
    path = f"{API}/experiments/{source[0]}/scaling-reports"
    for body, field, message in REFUSED:
        reply = member_client.post(path, json=body)
        assert reply.status_code == 422, reply.text
        (problem,) = reply.json()["error"]["fields"]
        assert problem["path"] == field
        assert message in problem["message"]
    other = connect(token=make_user_token("member", username="mallory"))
    assert other.post(path, json={"slots": [1]}).status_code == 403
