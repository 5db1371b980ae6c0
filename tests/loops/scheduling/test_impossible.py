"""What the present nodes can never run is told apart from what only waits, wherever people look."""


def document(**resources):
    lines = "".join(f"  {key}: {value}\n" for key, value in resources.items())
    text = f"name: p\nentrypoint: t.py\ncode: {{installed: /srv/c}}\nresources:\n{lines}"
    return {"document": text}


def test_an_impossible_request_is_shown_everywhere_until_a_node_can_hold_it(
    controller, agent, submit, show, member_client
):
    agent("node-1", slots=2)
    agent("node-2", slots=2)
    submit(slots=3)
    controller.tick()
    (item,) = show("/queue")["items"]
    assert item["is_impossible"]
    assert item["pending_reason"] == (
        "Needs 3 cpu slots in pool default: the slots of 2 nodes cannot be divided that "
        "way. Set `resources.uneven: true` to start it now."
    )
    assert item["pending_parts"][-1]["code"] == "help.uneven_now"
    trial = show(f"/trials/{item['trial_id']}")
    assert trial["is_impossible"]
    (listed,) = show("/experiments/1/trials")["items"]
    assert listed["is_impossible"]
    cluster = show("/cluster")
    assert cluster["num_impossible"] == 1
    (found,) = cluster["impossible"]
    assert found["trial_id"] == item["trial_id"]
    assert found["pending_reason"] == item["pending_reason"]

    def preview(**resources):
        reply = member_client.post("/api/v1/experiments:preview", json=document(**resources))
        assert reply.status_code == 200, reply.text
        return reply.json()

    assert preview(slots=3)["is_impossible"]
    uneven = preview(slots=3, uneven="true")
    assert (uneven["fits_now"], uneven["is_impossible"]) == (True, False)

    agent("node-3", slots=3)
    controller.tick()
    assert show(f"/trials/{item['trial_id']}")["state"] == "STARTING"
    assert show("/cluster")["impossible"] == []


def test_what_only_waits_is_not_impossible(controller, agent, submit, show):
    agent("node-1", slots=2)
    submit(slots=2)
    controller.tick()
    submit(slots=2)
    controller.tick()
    (item,) = show("/queue")["items"]
    assert not item["is_impossible"]
    assert item["pending_parts"][-1]["code"].startswith("help.")
    cluster = show("/cluster")
    assert (cluster["num_impossible"], cluster["impossible"]) == (0, [])
