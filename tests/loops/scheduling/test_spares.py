"""A node that a pool holds for trainings that lose one, from the setting to the restart."""

from muster.wire import CheckpointRecord
from muster_server import clock
from muster_server.domain.scheduling.unsatisfiable import is_impossible

HELD = "1 node is held as a spare for trainings that lose a node"


def trial_of(show, experiment_id):
    return show(f"/experiments/{experiment_id}/trials")["items"][0]


def set_spares(admin_client, num, *, expect=200):
    reply = admin_client.put("/api/v1/pools/default", json={"spares": num})
    assert reply.status_code == expect, reply.text
    return reply.json()


def test_a_gang_that_lost_a_node_goes_on_on_the_spare_in_the_next_pass(
    controller, agent, submit, show, admin_client, time_machine
):
    time_machine.move_to(clock.now(), tick=False)
    assert set_spares(admin_client, 1)["spares"] == 1
    nodes = [agent(f"node-{n}", slots=1) for n in (1, 2, 3)]
    gang = submit(slots=2, nodes=2)
    controller.tick()
    members = [node for node in nodes if node.poll()]
    (spare,) = (node for node in nodes if node not in members)
    ids = [node.only().spec.allocation_id for node in members]
    for node, allocation_id in zip(members, ids, strict=True):
        node.get_ready(allocation_id, port=29500)
    controller.tick()
    for node, allocation_id in zip(members, ids, strict=True):
        node.run(allocation_id)
    members[0].send(
        ids[0], CheckpointRecord(step=40, path="step-40", size_bytes=3, files={"a": "0"})
    )
    ordinary = submit(slots=1)
    controller.tick()
    assert HELD in trial_of(show, ordinary)["pending_reason"]
    queue = show("/queue")["items"]
    assert [HELD in item["pending_reason"] for item in queue] == [True]
    well, silent = members
    for _ in range(60):
        time_machine.shift(5)
        for node in (well, spare):
            node.beat()
        controller.tick()
        if well.only().desired != "start":
            break
    well.exit(ids[0], "stopped")
    controller.tick()
    controller.tick()
    assert trial_of(show, gang)["attempt_no"] == 2
    assert spare.only().spec.attempt_no == 2
    assert not [a for a in silent.specs.values() if a.spec.attempt_no == 2]
    assert trial_of(show, ordinary)["state"] == "QUEUED"


def test_a_gang_that_never_fits_beside_the_spares_hears_so_before_and_after(
    controller, agent, submit, show, admin_client, member_client
):
    for n in (1, 2):
        agent(f"node-{n}", slots=1)
    set_spares(admin_client, 1)
    controller.tick()
    document = "name: t\nentrypoint: t.py\ncode: {installed: /srv}\nresources: {slots: 2}\n"
    reply = member_client.post("/api/v1/experiments:preview", json={"document": document})
    assert reply.json()["is_impossible"], reply.text
    assert "not enough beside 1 node held as a spare" in reply.json()["fit_reason"]
    gang = submit(slots=2)
    controller.tick()
    trial = trial_of(show, gang)
    assert is_impossible(trial["pending_parts"])
    set_spares(admin_client, 0)
    controller.tick()
    assert trial_of(show, gang)["state"] == "STARTING"


def test_a_failure_of_the_script_is_no_loss(controller, agent, submit, show, admin_client):
    set_spares(admin_client, 1)
    nodes = [agent(f"node-{n}", slots=1) for n in (1, 2)]
    experiment = submit("restarts: {user: 3}", slots=1)
    controller.tick()
    (node,) = (node for node in nodes if node.poll())
    allocation_id = node.only().spec.allocation_id
    node.get_ready(allocation_id)
    controller.tick()
    node.run(allocation_id)
    node.exit(allocation_id, "user_error")
    controller.tick()
    trial = trial_of(show, experiment)
    assert trial["state"] == "RETRY_WAIT", trial
