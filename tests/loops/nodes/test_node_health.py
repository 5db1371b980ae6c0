"""Health of nodes: what agents find, what keeps new work away, quarantine and release."""

import pytest

from muster.wire import StateRecord
from muster_server.domain.nodes.health import QUARANTINE_AFTER
from muster_server.services.core.paging import encode_cursor

FULL = {"kind": "disk", "message": "only 3 MiB are free at /data", "blocks": True}
SLOW = {"kind": "clock", "message": "its clock is 90 s behind the server's", "blocks": False}


def node_of(show, name="node-1"):
    return next(n for n in show("/nodes")["items"] if n["name"] == name)


def events(show, node, kind):
    found = show(f"/nodes/{node['id']}/events")["items"]
    return [e["message"] for e in found if e["type"] == kind]


def waiting_reason(show):
    (item,) = show("/queue")["items"]
    return item["pending_reason"]


def fail_to_prepare(controller, node, *, blames="node", passes=False):
    """The one allocation it is to prepare fails."""
    (allocation_id,) = [i for i, a in node.poll().items() if a.desired == "prepare"]
    node.send(
        allocation_id,
        StateRecord(observed="PREPARING"),
        StateRecord(
            observed="PREPARE_FAILED", message="the disk is broken", blames=blames, passes=passes
        ),
    )
    controller.tick()


def test_a_problem_is_shown_with_its_reason_and_is_gone_with_it(agent, show):
    node = agent()
    node.beat(problems=[SLOW])
    shown = node_of(show)
    assert (shown["health"], shown["health_reason"]) == ("degraded", SLOW["message"])
    assert shown["problems"] == [SLOW | {"slot": None}]
    # Another figure of the same thing is no news.
    node.beat(problems=[SLOW | {"message": "its clock is 91 s behind the server's"}])
    assert node_of(show)["health_reason"] == "its clock is 91 s behind the server's"
    assert len(events(show, shown, "node.health")) == 1
    node.beat(problems=[])
    assert (node_of(show)["health"], node_of(show)["problems"]) == ("ok", [])
    assert events(show, shown, "node.health") == [
        "node-1 has no problems any more.",
        "node-1 is degraded: its clock is 90 s behind the server's.",
    ]


def test_a_problem_that_blocks_keeps_new_work_away_until_it_is_gone(
    controller, agent, submit, show
):
    node = agent(slots=2)
    node.beat(problems=[FULL])
    submit(slots=1)
    controller.tick()
    assert node.poll() == {}
    assert "2 on unhealthy node node-1" in waiting_reason(show)
    node.beat(problems=[SLOW])  # only what blocks does
    controller.tick()
    assert len(node.poll()) == 1


USED = {
    "kind": "used",
    "message": "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster",
    "blocks": True,
    "slot": 1,
}


def test_a_problem_of_a_slot_keeps_new_work_off_that_slot_alone(controller, agent, submit, show):
    node = agent(slots=2)
    node.beat(problems=[USED])
    shown = node_of(show)
    assert (shown["unavailable"], shown["num_slots_free"]) == (None, 1)
    assert [slot["problem"] for slot in shown["slots"]] == ["", USED["message"]]
    assert shown["problems"] == [USED]
    assert shown["health"] == "ok", "a device that somebody uses is well"
    assert show("/cluster")["num_slots_free"] == 1
    submit(slots=1)
    submit(slots=1)
    controller.tick()
    (assignment,) = node.poll().values()
    assert assignment.spec.slots == [0]
    assert "GPU 1 of node-1 is used by ann (pid 4242, 31 GiB) outside Muster" in waiting_reason(
        show
    )
    assert (node_of(show)["num_slots_free"], show("/cluster")["num_slots_free"]) == (0, 0)

    node.beat(problems=[])
    assert node_of(show)["num_slots_free"] == 1
    controller.tick()
    assert sorted(a.spec.slots for a in node.poll().values()) == [[0], [1]]
    assert events(show, node_of(show), "node.used") == [
        "Nobody uses GPU 1 outside Muster any more.",
        "GPU 1 is used by ann (pid 4242, 31 GiB) outside Muster.",
    ]
    assert events(show, node_of(show), "node.health") == []


def test_a_pool_may_ignore_who_else_uses_a_device(controller, agent, submit, show, admin_client):
    node = agent(slots=2)
    node.beat(problems=[USED])
    submit(slots=2)
    controller.tick()
    assert node.poll() == {}
    url = "/api/v1/pools/default"
    pool = admin_client.put(url, json={"foreign_processes": "ignore"}).json()
    assert pool["foreign_processes"] == "ignore"
    assert node_of(show)["num_slots_free"] == 2
    assert node_of(show)["problems"] == [USED], "it is told all the same"
    controller.tick()
    assert len(node.poll()) == 1

    lost = USED | {"kind": "device", "message": "GPU 1 is lost"}
    node.beat(problems=[lost])  # that is not ignored
    assert node_of(show)["slots"][1]["problem"] == "GPU 1 is lost"
    node.beat(problems=[USED])
    assert node_of(show)["slots"][1]["problem"] == ""
    admin_client.put(url, json={"foreign_processes": "wait"})
    assert node_of(show)["slots"][1]["problem"] == USED["message"]


def test_who_comes_to_a_device_while_a_trial_runs_is_named_on_the_trial_and_ends_nothing(
    controller, agent, submit, show
):
    node = agent(slots=2)
    submit(slots=2)
    controller.tick()
    (allocation_id,) = node.poll()
    trial = show("/experiments/1/trials")["items"][0]["id"]
    assert show(f"/trials/{trial}/performance")["foreign"] == []
    node.beat(problems=[USED])
    said = "GPU 1 of node-1 is used by ann (pid 4242, 31 GiB) outside Muster"
    found = show(f"/trials/{trial}/events")["items"]
    (event,) = [e for e in found if e["type"] == "attempt.device_shared"]
    assert (event["message"], event["level"]) == (f"{said}.", "warning")
    assert show(f"/trials/{trial}/performance")["foreign"] == [said]
    more = USED | {"message": "GPU 1 is used by ann (pid 4242, 40 GiB) outside Muster"}
    node.beat(problems=[more])
    assert show(f"/trials/{trial}/performance")["foreign"] == [said.replace("31", "40")]
    controller.tick()
    assert node.poll()[allocation_id].desired == "prepare"
    node.beat(problems=[])
    assert show(f"/trials/{trial}/performance")["foreign"] == [said]
    controller.tick()
    assert node.poll()[allocation_id].desired == "prepare"


def test_a_device_that_is_lost_is_told_with_its_slot(agent, show):
    node = agent(slots=2)
    node.beat(problems=[USED | {"kind": "device", "message": "GPU 1 is lost"}])
    shown = node_of(show)
    assert (shown["health"], shown["health_reason"]) == ("degraded", "GPU 1 is lost")
    assert events(show, shown, "node.health") == [
        "node-1 is degraded: GPU 1 is lost, and slot 1 takes no new work meanwhile."
    ]


def test_an_agent_that_registers_again_offers_no_slot_that_has_a_problem(agent, show):
    node = agent(slots=2)
    node.beat(problems=[USED])
    node.register()
    assert node_of(show)["num_slots_free"] == 1


def test_an_older_agent_says_nothing_and_changes_nothing(agent, show):
    node = agent()
    node.beat(problems=[SLOW])
    node.beat()
    assert node_of(show)["health"] == "degraded"


def test_a_node_that_cannot_prepare_again_and_again_is_quarantined(
    controller, agent, submit, show, admin_client
):
    node = agent(slots=1)
    for no in range(QUARANTINE_AFTER):
        assert node_of(show)["health"] == "ok"
        assert node_of(show)["strikes"] == no
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node)
    shown = node_of(show)
    reason = "it could not prepare 3 times in a row, the last time because the disk is broken"
    assert (shown["health"], shown["quarantine_reason"]) == ("quarantined", reason)
    submit(slots=1)
    controller.tick()
    assert not [a for a in node.poll().values() if a.desired == "prepare"]
    assert "quarantined" in waiting_reason(show)

    node.beat(problems=[SLOW])  # both are said, and the quarantine stays
    assert node_of(show)["health_reason"] == f"{reason}; {SLOW['message']}"
    node.beat(problems=[])
    assert node_of(show)["health"] == "quarantined"

    released = admin_client.post(f"/api/v1/nodes/{shown['id']}:release").json()
    assert (released["health"], released["strikes"], released["scheduling"]) == ("ok", 0, "open")
    assert events(show, shown, "node.released")
    controller.tick()
    assert [a for a in node.poll().values() if a.desired == "prepare"]
    actions = admin_client.get("/api/v1/audit").json()["items"]
    assert "node.release" in {a["action"] for a in actions}
    # Once more is harmless.
    admin_client.post(f"/api/v1/nodes/{shown['id']}:release")
    assert len(events(show, shown, "node.released")) == 1


def test_what_was_asked_for_is_not_the_nodes_fault(controller, agent, submit, show):
    node = agent(slots=1)
    for _ in range(QUARANTINE_AFTER + 1):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node, blames="request")
    assert (node_of(show)["health"], node_of(show)["strikes"]) == ("ok", 0)


def test_what_its_checks_see_the_end_of_does_not_quarantine_a_node(controller, agent, submit, show):
    """A disk that was full for seconds must not need somebody who releases the node."""
    node = agent(slots=1)
    for _ in range(QUARANTINE_AFTER + 1):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node, passes=True)
    assert (node_of(show)["health"], node_of(show)["strikes"]) == ("ok", 0)


def test_a_node_that_prepares_in_between_is_not_quarantined(controller, agent, submit, show):
    node = agent(slots=1)
    for _ in range(QUARANTINE_AFTER - 1):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node)
    submit(slots=1)
    controller.tick()
    (allocation_id,) = [i for i, a in node.poll().items() if a.desired == "prepare"]
    node.get_ready(allocation_id)
    shown = node_of(show)
    assert (shown["strikes"], shown["strike_reason"]) == (0, "")


@pytest.mark.parametrize("scheduling", ["cordoned", "draining"])
def test_release_leaves_the_scheduling_alone_and_opening_releases(
    controller, agent, submit, show, admin_client, scheduling
):
    node = agent(slots=1)
    for _ in range(QUARANTINE_AFTER):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node)
    path = f"/api/v1/nodes/{node_of(show)['id']}"
    admin_client.patch(path, json={"scheduling": scheduling})
    assert node_of(show)["health"] == "quarantined"
    if scheduling == "cordoned":
        released = admin_client.post(f"{path}:release").json()
    else:
        released = admin_client.patch(path, json={"scheduling": "open"}).json()
    expected = {"cordoned": "cordoned", "draining": "open"}[scheduling]
    assert (released["health"], released["scheduling"]) == ("ok", expected)


def test_a_reboot_ends_a_quarantine(controller, agent, submit, show):
    node = agent(slots=1)
    for _ in range(QUARANTINE_AFTER):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node)
    node.boot_id = "boot-2"
    node.register(expect=409)  # its lease is still that of the former boot
    assert node_of(show)["health"] == "quarantined"


def test_an_address_takes_a_nodes_name_as_its_id(agent, show, admin_client):
    agent("gpu-7", slots=1)
    found = node_of(show, "gpu-7")
    for rest in ("", "/events", "/allocations", "/system-metrics"):
        assert show(f"/nodes/gpu-7{rest}") == show(f"/nodes/{found['id']}{rest}")
    path = "/api/v1/nodes/gpu-7"
    assert admin_client.patch(path, json={"scheduling": "cordoned"}).json()["id"] == found["id"]
    assert events(show, found, "node.scheduling")
    assert admin_client.post(f"{path}:release").json()["scheduling"] == "cordoned"
    assert admin_client.delete(path).status_code == 204
    assert show("/nodes")["items"] == []
    missing = admin_client.get(path)
    assert missing.status_code == 404
    assert missing.json()["error"]["message"] == "There is no node 'gpu-7'."
    assert show(f"/nodes/{found['id']}/events")["items"], "kept, under its id"


def test_only_administrators_release(agent, show, member_client):
    agent()
    path = f"/api/v1/nodes/{node_of(show)['id']}:release"
    assert member_client.post(path).status_code == 403


def test_the_commands(controller, agent, submit, show, muster):
    """list, show, cordon, drain, open and release, as people type them."""
    node = agent(slots=1)
    agent("node-2", slots=1).beat(problems=[FULL])
    for _ in range(QUARANTINE_AFTER):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node)

    def run(*words, code=0, as_="admin"):
        result = muster("node", *words, as_=as_)
        assert result.exit_code == code, (result.output, result.exception)
        return result.output

    listed = run("list")
    assert "quarantined: it could not prepare 3 times in a row" in listed
    assert "degraded: only 3 MiB are free at /data" in listed
    shown = run("show", "node-1")
    assert "the last time because the disk is broken" in shown
    assert "no new work until it is gone" in run("show", "node-2")
    assert "is released from quarantine" in run("release", "node-1")
    assert "was not quarantined" in run("release", "node-1")
    for verb, scheduling in (("cordon", "cordoned"), ("drain", "draining"), ("open", "open")):
        assert "node-1" in run(verb, "node-1")
        assert node_of(show)["scheduling"] == scheduling
    refused = muster("node", "remove", "node-1", as_="admin")
    assert refused.exit_code == 1
    assert "ONLINE and open" in str(refused.exception)
    run("cordon", "node-1")
    assert "Removed node-1." in run("remove", "node-1")
    assert [node["name"] for node in show("/nodes")["items"]] == ["node-2"]
    missing = muster("node", "show", "nobody", as_="admin")
    assert missing.exit_code == 1
    assert "There is no node 'nobody'" in str(missing.exception)
    assert "there are: node-2" in missing.exception.hint


# ---------------------------------------------------------------- what ran here


def test_what_ran_on_a_node_is_listed_newest_first_in_pages(
    controller, agent, submit, show, viewer_client
):
    node = agent(slots=1)
    for _ in range(3):
        submit("restarts: {infra: 0}", slots=1)
        controller.tick()
        fail_to_prepare(controller, node, blames="request")
    submit(slots=1)
    controller.tick()
    path = f"/nodes/{node_of(show)['id']}/allocations"
    first = show(f"{path}?limit=2")
    assert [(a["experiment_id"], a["state"]) for a in first["items"]] == [
        (4, "ASSIGNED"),
        (3, "CLEANED"),
    ]
    running, failed = first["items"]
    assert (running["ended_at"], running["num_slots"], running["attempt_no"]) == (None, 1, 1)
    assert failed["ended_at"] is not None
    assert failed["message"] == "the disk is broken"
    rest = show(f"{path}?limit=2&cursor={first['next']}")
    assert [a["experiment_id"] for a in rest["items"]] == [2, 1]
    assert rest["next"] is None
    assert viewer_client.get("/api/v1/nodes/none/allocations").status_code == 404
    for key in ([2**62, "a"], [-5, "a"]):  # no time that ever was, and no fault of ours
        assert viewer_client.get(f"/api/v1{path}?cursor={encode_cursor(*key)}").status_code == 200
