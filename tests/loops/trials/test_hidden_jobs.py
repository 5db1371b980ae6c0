"""Jobs of a project that the caller does not see: they take slots and wait, and nothing names them."""

from support.agent import start

MARK = "zqmark"
DOCUMENT = f"project: {MARK}\nlabels: {{of: {MARK}}}\n"


def test_they_take_slots_and_are_not_named(
    controller, agent, submit, admin_client, connect, make_user_token
):
    node = agent(slots=2)
    submit(DOCUMENT, slots=1)
    waiting = submit(DOCUMENT, slots=2)
    own = submit("project: other\n", slots=2)
    controller.tick()
    start(controller, node)
    assert admin_client.patch(f"/api/v1/projects/{MARK}", json={"visibility": "members"}).is_success
    eve = connect(token=make_user_token("member", username="eve"))

    (shown,) = eve.get("/api/v1/nodes").json()["items"]
    assert (shown["num_slots"], shown["num_slots_used"], shown["num_slots_free"]) == (2, 1, 1)
    assert [slot["allocation_id"] is None for slot in shown["slots"]] == [False, True]
    assert [slot["trial_id"] for slot in shown["slots"]] == [None, None]
    for path in (
        "nodes", f"nodes/{node.node_id}", f"nodes/{node.node_id}/allocations", "cluster",
        f"nodes/{node.node_id}/events", "cluster/utilization", "queue", "experiments", "projects",
    ):  # fmt: skip
        reply = eve.get(f"/api/v1/{path}")
        assert reply.status_code == 200, reply.text
        assert MARK not in reply.text, path
    assert [t["experiment_id"] for t in eve.get("/api/v1/queue").json()["items"]] == [own]
    queued = admin_client.get("/api/v1/queue").json()["items"]
    assert {t["experiment_id"] for t in queued} == {waiting, own}
