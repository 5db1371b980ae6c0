"""A diagnosis from the request to the verdict: probes one at a time, judged when all have ended."""

from __future__ import annotations

import pytest

from muster.wire import WorkerRecord
from support.data import metrics_record

DOCUMENT = """
name: digits
trainer: {model: mlp, steps: 500}
resources: {slots: 2}
hyperparameters: {lr: 0.01}
"""
STEPS = range(1, 41)
STEP_MS = {"as_is": 100.0, "no_sync": 62.0, "synthetic": 99.0, "alone": 60.0, "bucket": 101.0}


def rows(step_ms, rank):
    values = {
        "time/step_ms": step_ms,
        "time/forward_ms": 30.0,
        "time/optimizer_ms": 2.0,
        "comm/exposed_ms": 38.0,
        "comm/world/exposed_ms": 38.0,
        "throughput/samples_per_s": 64e3 / step_ms,
    }
    return metrics_record({n: [(s, v) for s in STEPS] for n, v in values.items()}, rank=rank)


@pytest.fixture
def trial_id(member_client):
    made = member_client.post("/api/v1/experiments", json={"document": DOCUMENT}).json()
    (trial,) = member_client.get(f"/api/v1/experiments/{made['id']}/trials").json()["items"]
    assert member_client.post(f"/api/v1/trials/{trial['id']}:kill").status_code == 202
    return trial["id"]


@pytest.fixture
def diagnose(member_client, trial_id):
    def ask(**body):
        return member_client.post(f"/api/v1/trials/{trial_id}/diagnoses", json=body)

    return ask


def run_next(controller, node):
    """The one probe that is placed trains and ends; which it was."""
    (placed,) = (a for a in node.poll().values() if a.desired != "stop")
    allocation_id, probe = placed.spec.allocation_id, placed.spec.hparams["probe"]
    node.get_ready(allocation_id, port=29500)
    controller.tick()
    node.run(allocation_id)
    kind, _, repeat = probe.replace(":", "/").partition("/")
    step_ms = STEP_MS[kind] * (1.002 if repeat.endswith("2") else 1.0)
    for rank in (0,) if kind == "alone" else (0, 1):
        node.send(allocation_id, rows(step_ms, rank))
    node.exit(allocation_id)
    controller.tick()
    return probe


@pytest.fixture
def node(agent, controller):
    return agent(slots=4)


def test_probes_run_one_at_a_time_and_then_there_is_a_verdict(
    controller, node, diagnose, trial_id, show, member_client, admin_client, database, settings
):
    guards = "[{no_step_for_min: 30, action: stop}]"  # a probe is not for them
    admin_client.patch("/api/v1/projects/default", json={"guards": guards})
    asked = diagnose(repeats=2, steps=40)
    assert asked.status_code == 201, asked.text
    path = f"/diagnoses/{asked.json()['id']}"
    again = diagnose()
    assert (again.status_code, again.json()["error"]["code"]) == (409, "diagnoses.running")
    controller.tick()
    done = [run_next(controller, node) for _ in range(3)]
    half = show(path)
    assert (half["state"], half["verdict"]) == ("running", None)
    assert [p["state"] for p in half["probes"][:3]] == ["COMPLETED"] * 3

    # Another process goes on with it: there is nothing but the tables.
    other = type(controller)(database, settings)
    controller.resign()
    other.tick()
    done += [run_next(other, node) for _ in range(7)]
    assert done == [f"{p['probe']}/{p['repeat']}" for p in half["probes"]]
    other.tick()
    found = show(path)
    assert (found["state"], found["verdict"], found["method"]) == (
        "complete",
        "communication",
        "probes",
    )
    share = found["shares"]["communication"]
    assert share["low"] < 0.38 < share["high"]
    assert share["high"] - share["low"] < 0.05
    assert found["efficiency"]["value"] == pytest.approx(0.6, abs=0.01)
    assert found["baseline_samples_per_s"] == pytest.approx(640, rel=0.01)
    (advice,) = found["advice"]
    assert advice["overrides"] == ["strategy.accumulate=4"]
    probes = show(f"/experiments/{found['probes_id']}")
    assert probes["purpose"] == "diagnose"
    assert probes["config"]["resources"]["slots"] == 2
    assert probes["config"]["guards"] == []
    events = show(f"/trials/{trial_id}/events")["items"]
    assert [e["type"] for e in events if "diagnos" in e["type"]] == [
        "trial.diagnosed",
        "trial.diagnosis_started",
    ]

    # The advice, launched: predicted beside achieved.
    applied = member_client.post(f"/api/v1{path}:apply", json={"advice": "accumulate"})
    assert applied.status_code == 201, applied.text
    (launched,) = applied.json()["advice"][0]["applied"]
    assert launched["achieved"] is None
    fork = show(f"/experiments/{launched['experiment_id']}")
    assert fork["config"]["strategy"]["accumulate"] == 4
    assert fork["config"]["hyperparameters"] == {"lr": 0.01}
    other.tick()
    (placed,) = (a for a in node.poll().values() if a.spec.trial_id == launched["trial_id"])
    node.get_ready(placed.spec.allocation_id, port=29500)
    other.tick()
    node.run(placed.spec.allocation_id)
    node.send(placed.spec.allocation_id, rows(64e3 / 870, 0))
    (launched,) = show(path)["advice"][0]["applied"]
    assert launched["achieved"] == pytest.approx(870 / 640 - 1, abs=0.01)
    assert launched["num_steps"] == 35

    unknown = member_client.post(f"/api/v1{path}:apply", json={"advice": "luck"})
    assert unknown.status_code == 422
    assert unknown.json()["error"]["fields"][0]["hint"] == "possible: accumulate"


@pytest.mark.parametrize(("num_nodes", "kind"), [(2, "fix_rank"), (3, "avoid_node")])
def test_a_node_can_be_avoided_only_where_there_is_another_one(
    controller, agent, diagnose, show, num_nodes, kind
):
    nodes = [agent(f"node-{n}", slots=1) for n in range(num_nodes)]
    made = diagnose(repeats=2, steps=40).json()
    controller.tick()
    for _ in range(10):
        placed = [(n, a) for n in nodes for a in n.poll().values() if a.desired != "stop"]
        placed.sort(key=lambda pair: pair[1].spec.node_rank)
        assert len(placed) == 2
        for rank, (node, allocation) in enumerate(placed):
            node.get_ready(allocation.spec.allocation_id, port=29500 if rank == 0 else None)
        controller.tick()
        for rank, (node, allocation) in enumerate(placed):
            allocation_id, probe = allocation.spec.allocation_id, allocation.spec.hparams["probe"]
            node.run(allocation_id)
            worker = WorkerRecord(
                local_rank=0, rank=rank, world_size=2, node_rank=rank, pid=7, host="h",
                master_addr="m", master_port=1,
            )  # fmt: skip
            node.send(allocation_id, worker, _waiting(rank, is_alone=probe.startswith("alone")))
        for node, allocation in placed:
            node.exit(allocation.spec.allocation_id)
        late = placed[1][0].name
        controller.tick()
    controller.tick()
    found = show(f"/diagnoses/{made['id']}")
    assert (found["state"], found["verdict"]) == ("complete", "straggler")
    (advice,) = found["advice"]
    assert advice["kind"] == kind
    avoids = f'resources.deny_nodes=["{late}"]'
    assert advice["overrides"] == ([avoids] if kind == "avoid_node" else [])


def _waiting(rank, *, is_alone):
    """A step of 100 ms in which rank 0 waits 60 ms for rank 1, which computes that much longer."""
    exposed = 2.0 if rank == 1 or is_alone else 62.0
    values = {
        "time/step_ms": 42.0 if is_alone else 100.0,
        "time/forward_ms": 98.0 - exposed if not is_alone else 40.0,
        "comm/exposed_ms": exposed,
        "comm/world/exposed_ms": exposed,
    }
    return metrics_record({n: [(s, v) for s in STEPS] for n, v in values.items()}, rank=rank)


def test_canceling_ends_the_probes(controller, node, diagnose, show, member_client):
    made = diagnose().json()
    controller.tick()
    reply = member_client.post(f"/api/v1/diagnoses/{made['id']}:cancel")
    assert (reply.status_code, reply.json()["state"]) == (202, "canceled")
    (placed,) = node.poll().values()
    node.exit(placed.spec.allocation_id, "killed")
    controller.tick()
    assert show(f"/experiments/{made['probes_id']}")["state"] == "CANCELED"
    found = show(f"/diagnoses/{made['id']}")
    assert (found["state"], found["verdict"]) == ("canceled", None)
    assert diagnose().status_code == 201  # and one may begin anew


def test_probes_that_fail_leave_nothing_to_compare(controller, node, diagnose, show, member_client):
    made = diagnose(repeats=2).json()
    member_client.post(f"/api/v1/experiments/{made['probes_id']}:kill")
    controller.tick()
    controller.tick()
    found = show(f"/diagnoses/{made['id']}")
    assert (found["state"], found["verdict"]) == ("complete", "inconclusive")
    assert "ended well" in found["reason"]
    assert found["advice"] == []


def test_a_script_of_one_s_own_is_judged_by_what_it_has_measured(
    controller, node, submit, show, member_client
):
    experiment_id = submit(slots=2)
    controller.tick()
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    path = f"/api/v1/trials/{trial['id']}/diagnoses"
    before = member_client.post(path, json={}).json()
    assert (before["state"], before["verdict"]) == ("complete", "inconclusive")
    assert "Too few steps" in before["reason"]
    (placed,) = node.poll().values()
    for rank in (0, 1):
        node.send(placed.spec.allocation_id, rows(100.0, rank))
    told = "GPU 0 is used by ann (pid 4242, 31 GiB) outside Muster"
    node.beat(problems=[{"kind": "used", "message": told, "blocks": True, "slot": 0}])
    found = member_client.post(path, json={}).json()
    assert (found["method"], found["verdict"]) == ("observed", "communication")
    (note,) = (note for note in found["notes"] if "outside Muster" in note)
    assert note == f"{told.replace('GPU 0', 'GPU 0 of node-1')}: its steps may be slower for that."
    assert found["shares"]["communication"]["value"] == pytest.approx(0.38)
    (advice,) = found["advice"]
    assert (advice["is_bound"], advice["overrides"]) == (True, [])
    listed = show(f"/trials/{trial['id']}/diagnoses?limit=1")
    assert [d["id"] for d in listed["items"]] == [found["id"]]
    listed = show(f"/trials/{trial['id']}/diagnoses?cursor={listed['next']}")
    assert ([d["id"] for d in listed["items"]], listed["next"]) == ([before["id"]], None)
