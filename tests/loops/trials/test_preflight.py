"""Before a gang starts: versions are compared, and its nodes try each other when it says so."""

import datetime as dt

import pytest
from sqlalchemy import select

from muster.wire import LinkReport, NodeFacts, PreflightReport, Rendezvous, StateRecord
from muster_server import clock
from muster_server.db.models import PreflightRow
from muster_server.services.core import retention

API = "/api/v1"


@pytest.fixture
def nodes(agent):
    return [agent("node-1", slots=1), agent("node-2", slots=1)]


@pytest.fixture
def prepared(controller, nodes, submit):
    """`prepared(document, facts_1, facts_2)` submits a gang of two and makes both READY; its
    allocations."""

    def make(document, *facts):
        submit(document, slots=2, nodes=2)
        controller.tick()
        ids = [next(iter(node.poll())) for node in nodes]
        for rank, (node, allocation_id) in enumerate(zip(nodes, ids, strict=True)):
            there = Rendezvous(host="127.0.0.1", port=1234, run_id="") if rank == 0 else None
            node.send(
                allocation_id,
                StateRecord(observed="PREPARING"),
                StateRecord(
                    observed="READY", rendezvous=there, facts=facts[rank] if facts else None
                ),
            )
        controller.tick()
        return ids

    return make


def only_trial(show):
    (item,) = show("/experiments/1/trials")["items"]
    return show(f"/trials/{item['id']}")


def told(show, kind):
    found = show(f"/trials/{only_trial(show)['id']}/events")["items"]
    return [e["message"] for e in found if e["type"] == kind]


def wanted(node):
    return {a.desired for a in node.poll().values()}


def facts(torch="2.9.1", **more):
    return NodeFacts(python_version="3.11.7", torch_version=torch, muster_version="0.1.0", **more)


# ---------------------------------------------------------------- versions


def test_nodes_with_other_versions_start_with_a_warning(prepared, nodes, show):
    prepared("", facts(), facts("2.8.0"))
    assert [wanted(node) for node in nodes] == [{"start"}] * 2
    (words,) = told(show, "attempt.warning")
    assert words.startswith("The nodes differ: torch is 2.9.1 on node-1 but 2.8.0 on node-2.")


def test_or_not_at_all_when_the_document_requires_the_same(prepared, nodes, show, controller):
    prepared(
        "preflight: {versions: require}\nrestarts: {infra: 0}",
        facts(code_hash="aa"),
        facts("2.8.0", code_hash="bb"),
    )
    for node in nodes:
        (allocation_id,) = node.poll()
        assert wanted(node) == {"kill"}
        node.exit(allocation_id, "stopped")
    controller.tick()
    trial = only_trial(show)
    assert (trial["state"], trial["termination"]) == ("FAILED", "versions_differ")
    assert trial["reason"].startswith(
        "its nodes differ: torch is 2.9.1 on node-1 but 2.8.0 on node-2; "
        "the code is aa on node-1 but bb on node-2"
    )


@pytest.mark.parametrize("policy", ["warn", "require"])
def test_the_same_versions_start_without_a_word(prepared, nodes, show, policy):
    prepared(f"preflight: {{versions: {policy}}}", facts(), facts())
    assert [wanted(node) for node in nodes] == [{"start"}] * 2
    assert told(show, "attempt.warning") == []


def test_older_agents_say_nothing_and_are_not_compared(prepared, nodes):
    prepared("preflight: {versions: require}", facts(), None)
    assert [wanted(node) for node in nodes] == [{"start"}] * 2


# ---------------------------------------------------------------- the preflight of a gang


def report_all(nodes, stage, **changes):
    """Both nodes report a stage, as if all were well; changes: of node-1."""
    for rank, node in enumerate(nodes):
        (wanted_now,) = node.preflights()
        assert wanted_now.stage == stage
        assert wanted_now.rank == rank
        report = {
            "listen": {"host": "127.0.0.1", "port": 4000 + rank},
            "connect": {
                "links": [LinkReport(rank=1 - rank, message="", ms=0.5)],
                "torch_version": "2.9",
                "store_port": 5000 if rank == 0 else None,
            },
            "reduce": {
                "links": [LinkReport(rank=1 - rank, message="", ms=2.0)],
                "reduce_ms": 2.0,
            },
        }[stage] | (changes if rank == 0 else {})
        assert node.report_preflight(PreflightReport(id=wanted_now.id, stage=stage, **report))


def test_a_gang_waits_for_its_preflight_and_then_starts(prepared, nodes, controller, show):
    prepared("preflight: {network: true}")
    assert [wanted(node) for node in nodes] == [{"prepare"}] * 2
    report_all(nodes, "listen")
    (there,) = nodes[1].preflights()
    assert [(p.node_name, p.host, p.port) for p in there.peers] == [
        ("node-1", "127.0.0.1", 4000),
        ("node-2", "127.0.0.1", 4001),
    ]
    report_all(nodes, "connect")
    controller.tick()
    assert [wanted(node) for node in nodes] == [{"prepare"}] * 2
    assert (nodes[1].preflights()[0].store.host, nodes[1].preflights()[0].store.port) == (
        "127.0.0.1",
        5000,
    )
    report_all(nodes, "reduce")
    assert [node.preflights() for node in nodes] == [[], []]
    controller.tick()
    controller.tick()
    assert [wanted(node) for node in nodes] == [{"start"}] * 2
    (words,) = told(show, "attempt.preflight")
    assert words.startswith("The preflight of node-1, node-2 passed: all 2 connections")
    assert len(show("/preflights")["items"]) == 1


def test_a_failing_pair_ends_the_attempt_and_is_named(prepared, nodes, controller, show):
    prepared("preflight: {network: true}\nrestarts: {infra: 0}")
    report_all(nodes, "listen")
    report_all(
        nodes,
        "connect",
        links=[LinkReport(rank=1, message="no connection to 127.0.0.1:4001", ms=None)],
    )
    controller.tick()
    for node in nodes:
        (allocation_id,) = node.poll()
        assert wanted(node) == {"kill"}
        node.exit(allocation_id, "stopped")
    controller.tick()
    trial = only_trial(show)
    assert (trial["state"], trial["termination"]) == ("FAILED", "preflight_failed")
    assert trial["reason"].startswith(
        "the preflight failed: node-1 → node-2: no connection to 127.0.0.1:4001"
    )
    for found in show("/nodes")["items"]:
        kinds = [e["type"] for e in show(f"/nodes/{found['id']}/events")["items"]]
        assert "node.preflight_failed" in kinds


def test_the_next_attempt_has_a_preflight_of_its_own(
    prepared, nodes, controller, show, time_machine
):
    time_machine.move_to(clock.now(), tick=False)  # the wait before the retry must not pass yet
    prepared("preflight: {network: true}")
    report_all(nodes, "listen", port=0, problems=["its disk is full"])
    controller.tick()
    for node in nodes:
        node.exit(next(iter(node.poll())), "stopped")
    controller.tick()
    assert only_trial(show)["state"] == "RETRY_WAIT"
    assert "node-1: its disk is full" in only_trial(show)["reason"]
    now = clock.now()
    for _ in range(60):
        now += dt.timedelta(seconds=5)
        time_machine.move_to(now, tick=False)
        for node in nodes:
            node.beat()
        controller.tick()
        if any(a.desired == "prepare" for a in nodes[0].poll().values()):
            break
    for rank, node in enumerate(nodes):
        node.get_ready(next(iter(node.poll())), port=1 if rank == 0 else None)
    controller.tick()
    found = show("/preflights")["items"]
    assert [p["attempt_no"] for p in found] == [2, 1]
    assert [p["state"] for p in found] == ["running", "failed"]


def fail_between(nodes, controller):
    """The first of two nodes does not reach the other one, and both end."""
    report_all(nodes, "listen")
    no_way = [LinkReport(rank=1, message="no connection", ms=None)]
    report_all(nodes, "connect", links=no_way)
    controller.tick()
    for node in nodes:
        node.exit(next(iter(node.poll())), "stopped")
    controller.tick()


def pass_time(time_machine, controller, nodes, seconds):
    now = clock.now()
    for _ in range(seconds // 5):
        now += dt.timedelta(seconds=5)
        time_machine.move_to(now)
        for node in nodes:
            node.beat()
        controller.tick()


def on_nodes(nodes):
    return [bool([a for a in node.poll().values() if a.desired == "prepare"]) for node in nodes]


def test_the_next_attempt_leaves_out_a_node_of_the_failing_pair_and_costs_nothing(
    prepared, nodes, agent, controller, show, time_machine
):
    prepared("preflight: {network: true}\nrestarts: {infra: 1}")
    third = agent("node-3", slots=1)
    fail_between(nodes, controller)
    trial = only_trial(show)
    assert trial["reason"].endswith("restart without node-2, not charged, in 1 s")
    pass_time(time_machine, controller, [*nodes, third], 10)
    assert on_nodes([*nodes, third]) == [True, False, True]


def start(prepared, nodes, controller, document="on_disconnect: continue"):
    """A gang that was told to start; its launchers are there, its workers are not."""
    ids = prepared(document)
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.send(allocation_id, StateRecord(observed="STARTING"))
    controller.tick()
    assert wanted(nodes[0]) == {"start"}
    return ids


def test_a_gang_that_does_not_get_up_has_its_nodes_try_each_other_and_avoids_the_pair(
    prepared, nodes, agent, controller, show, time_machine
):
    third = agent("node-3", slots=1)
    ids = start(prepared, nodes, controller)
    pass_time(time_machine, controller, [*nodes, third], 55)
    assert show("/preflights")["items"] == []
    pass_time(time_machine, controller, [*nodes, third], 10)
    (found,) = show("/preflights")["items"]
    assert [n["node_name"] for n in found["nodes"]] == ["node-1", "node-2"]
    said = "node-1, node-2 did not start all workers within 60 s"
    assert told(show, "attempt.preflight") == [f"{said}: the nodes now try to reach each other."]
    report_all(nodes, "listen")
    no_way = [LinkReport(rank=1, message="no connection", ms=None)]
    report_all(nodes, "connect", links=no_way)
    controller.tick()
    (attempt,) = only_trial(show)["attempts"]
    assert (attempt["state"], attempt["termination"]) == ("FAILED", "preflight_failed")
    assert attempt["reason"].startswith(
        f"{said}, for its nodes cannot reach each other: node-1 → node-2: no connection"
    )
    assert "node-1 → node-2: no connection" in told(show, "attempt.preflight")[0]
    for node, allocation_id in zip(nodes, ids, strict=True):
        assert wanted(node) <= {"stop", "kill"}
        node.exit(allocation_id, "stopped")
    controller.tick()
    trial = only_trial(show)
    assert trial["reason"].endswith("restart without node-2, not charged, in 1 s")
    pass_time(time_machine, controller, [*nodes, third], 10)
    assert on_nodes([*nodes, third]) == [True, False, True]


def test_a_gang_that_is_slow_and_can_connect_is_left_alone(
    prepared, nodes, controller, show, time_machine
):
    ids = start(prepared, nodes, controller)
    pass_time(time_machine, controller, nodes, 65)
    report_all(nodes, "listen")
    report_all(nodes, "connect")
    report_all(nodes, "reduce")
    controller.tick()
    assert show("/preflights")["items"][0]["state"] == "passed"
    pass_time(time_machine, controller, nodes, 100)
    assert len(show("/preflights")["items"]) == 1, "once an attempt"
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.send(allocation_id, StateRecord(observed="RUNNING"))
    controller.tick()
    trial = only_trial(show)
    assert (trial["state"], trial["num_restarts"]) == ("RUNNING", 0)


def test_what_the_preflight_finds_beside_the_network_ends_no_slow_start(
    prepared, nodes, controller, show, time_machine
):
    start(prepared, nodes, controller)
    pass_time(time_machine, controller, nodes, 65)
    report_all(nodes, "listen")
    report_all(nodes, "connect", problems=["its disk is nearly full"])
    controller.tick()
    assert show("/preflights")["items"][0]["state"] == "failed"
    assert only_trial(show)["state"] == "STARTING"
    assert "its disk is nearly full" in told(show, "attempt.preflight")[0]


def test_without_another_node_it_waits_says_why_and_is_charged_the_next_time(
    prepared, nodes, controller, show, time_machine
):
    prepared("preflight: {network: true}\nrestarts: {infra: 1}")
    fail_between(nodes, controller)
    pass_time(time_machine, controller, nodes, 30)
    trial = only_trial(show)
    assert trial["state"] == "QUEUED"
    assert "avoiding node-2 (until " in trial["pending_reason"]
    assert "node-1 → node-2: no connection" in trial["pending_reason"]
    assert on_nodes(nodes) == [False, False]
    pass_time(time_machine, controller, nodes, 60)
    assert on_nodes(nodes) == [True, True]
    for rank, node in enumerate(nodes):
        node.get_ready(next(iter(node.poll())), port=1 if rank == 0 else None)
    controller.tick()
    fail_between(nodes, controller)
    assert any("infra restart (1 of 1 used), at once" in m for m in told(show, "trial.state"))


def test_a_node_that_does_not_answer_is_named_in_time(
    prepared, nodes, controller, show, time_machine
):
    prepared("preflight: {network: true}\nrestarts: {infra: 0}")
    (wanted_now,) = nodes[0].preflights()
    nodes[0].report_preflight(PreflightReport(id=wanted_now.id, stage="listen", port=1))
    for _ in range(13):  # in steps: a silence of all, however long, is not held against anybody
        time_machine.move_to(clock.now() + dt.timedelta(seconds=5))
        for node in nodes:
            node.beat()
        controller.tick()
    (found,) = show("/preflights")["items"]
    assert (found["state"], found["message"]) == ("failed", "node-2 did not begin within 60 s")


def test_a_stop_does_not_wait_for_it(prepared, nodes, controller, show, member_client):
    prepared("preflight: {network: true}")
    member_client.post(f"{API}/experiments/1:stop", json={})
    controller.tick()
    assert [wanted(node) for node in nodes] == [{"kill"}] * 2


def test_a_single_node_needs_none(controller, agent, submit, show):
    node = agent(slots=2)
    submit("preflight: {network: true}", slots=2)
    controller.tick()
    (allocation_id,) = node.poll()
    node.get_ready(allocation_id)
    controller.tick()
    assert wanted(node) == {"start"}
    assert show("/preflights")["items"] == []


# ---------------------------------------------------------------- on demand


def ask(client, *names, status=201):
    reply = client.post(f"{API}/preflights", json={"nodes": list(names)})
    assert reply.status_code == status, reply.text
    return reply.json()


def test_on_demand_over_rest(nodes, admin_client, show, member_client):
    made = ask(admin_client, "node-2", "node-1")
    assert (made["state"], made["stage"]) == ("running", "listen")
    report_all(nodes[::-1], "listen")
    report_all(nodes[::-1], "connect")
    report_all(nodes[::-1], "reduce")
    found = show(f"/preflights/{made['id']}")
    assert (found["state"], found["allreduce_ms"]) == ("passed", 2.0)
    assert [n["node_name"] for n in found["nodes"]] == ["node-2", "node-1"]
    assert found["nodes"][0]["address"] == "127.0.0.1:4000"
    assert [(x["from_node"], x["to_node"], x["round_trip_ms"], x["allreduce_ms"])
            for x in found["links"]] == [
        ("node-2", "node-1", 0.5, 2.0), ("node-1", "node-2", 0.5, 2.0),
    ]  # fmt: skip
    assert "token" not in found
    ask(member_client, "node-1", status=403)
    actions = admin_client.get(f"{API}/audit").json()["items"]
    assert "preflight.requested" in {a["action"] for a in actions}


def test_reports_twice_late_or_of_others_change_nothing(nodes, agent, admin_client, show):
    made = ask(admin_client, "node-1", "node-2")
    stranger = agent("node-3")
    assert stranger.preflights() == []
    report = PreflightReport(id=made["id"], stage="listen", host="h", port=1)
    assert not stranger.report_preflight(report)
    assert nodes[0].report_preflight(report)
    assert not nodes[0].report_preflight(report)
    early = PreflightReport(id=made["id"], stage="reduce", reduce_ms=1.0)
    assert not nodes[1].report_preflight(early)
    assert not nodes[1].report_preflight(PreflightReport(id=999, stage="listen"))
    assert show(f"/preflights/{made['id']}")["stage"] == "listen"


def test_what_cannot_be_tried_is_refused_and_said(nodes, admin_client, controller, time_machine):
    def code(*names, status):
        return ask(admin_client, *names, status=status)["error"]["code"]

    assert code("nobody", status=404) == "nodes.not_found"
    assert code("node-1", "node-1", status=422) == "preflights.twice"
    assert code(status=422)
    assert admin_client.get(f"{API}/preflights/77").status_code == 404
    controller.tick()  # it leads from here on
    time_machine.move_to(clock.now() + dt.timedelta(seconds=30))
    nodes[0].beat()
    controller.tick()
    assert code("node-2", status=409) == "preflights.not_online"
    for _ in range(16):
        ask(admin_client, "node-1")
    assert code("node-1", status=409) == "preflights.too_many"


def test_they_are_kept_for_a_month(nodes, admin_client, database, time_machine):
    ask(admin_client, "node-1")
    (wanted_now,) = nodes[0].preflights()
    nodes[0].report_preflight(PreflightReport(id=wanted_now.id, stage="listen", problems=["x"]))

    def rest(days):
        with database.transaction() as session:
            retention.delete_expired(session, clock.now() + dt.timedelta(days=days))
            return len(session.scalars(select(PreflightRow)).all())

    assert rest(29) == 1
    assert rest(31) == 0


def test_the_command_prints_what_was_found_and_fails_with_it(
    nodes, admin_client, muster, monkeypatch
):
    """Both nodes report each stage while the command waits for them."""
    stages = iter(["listen", "connect"])

    def pause(seconds):
        stage = next(stages)
        failing = LinkReport(rank=1, message="no connection to 10.0.0.9:4001", ms=None)
        report_all(nodes, stage, **({"links": [failing]} if stage == "connect" else {}))

    monkeypatch.setattr("muster.cli.commands.nodes.time.sleep", pause)
    result = muster("node", "preflight", "node-1", "node-2", as_="admin")
    assert result.exit_code == 1
    assert "failed: node-1 → node-2: no connection to 10.0.0.9:4001" in result.output
    assert "0.5 ms" in result.output
