"""Job arrays through the real API, a controller and an agent."""

ARRAY = """
array: {i: 2-4}
environment: {variables: {OUT: "run-${i}-${MUSTER_TRIAL_NO}"}}
"""


def start_all(controller, node):
    """Drive the allocations of a node to RUNNING; (element → allocation id)."""
    ids = list(node.poll())
    for allocation_id in ids:
        node.get_ready(allocation_id)
    controller.tick()
    for allocation_id in ids:
        node.run(allocation_id)
    controller.tick()
    return {node.specs[id_].spec.hparams["i"]: id_ for id_ in ids}


def tick(controller, times=3):
    for _ in range(times):
        controller.tick()


def test_each_element_runs_by_itself_and_one_can_be_run_again(
    controller, agent, submit, show, member_client
):
    node = agent(slots=3)
    number = submit(ARRAY)
    behind = submit(f"after: {number}")
    controller.tick()
    running = start_all(controller, node)
    assert sorted(running) == [2, 3, 4]
    for element, allocation_id in running.items():
        found = node.specs[allocation_id].spec.environment
        no = element - 1
        assert found == {"i": str(element), "OUT": f"run-{element}-${{MUSTER_TRIAL_NO}}"}, no
    for element, allocation_id in running.items():
        if element != 4:
            node.exit(allocation_id, "user_error", message=f"element {element} broke")
    tick(controller)
    assert show(f"/experiments/{number}")["state"] == "RUNNING", "the others go on"
    node.exit(running[4], "success")
    tick(controller)
    ended = show(f"/experiments/{number}")
    assert ended["state"] == "FAILED"
    assert ended["reason"].startswith("1 of 3 elements of the array ended well; trial 1: ")
    assert show(f"/experiments/{behind}")["state"] == "CANCELED"

    trials = show(f"/experiments/{number}/trials")["items"]
    assert [t["hparams"] for t in sorted(trials, key=lambda t: t["no"])] == [
        {"i": 2}, {"i": 3}, {"i": 4},
    ]  # fmt: skip
    member_client.post(f"/api/v1/experiments/{number}:continue", json={}).raise_for_status()
    controller.tick()
    again = start_all(controller, node)
    assert sorted(again) == [2, 3]
    for allocation_id in again.values():
        node.exit(allocation_id, "success")
    tick(controller)
    assert show(f"/experiments/{number}")["state"] == "COMPLETED"


def test_more_failures_alike_than_end_a_search_end_no_array(controller, agent, submit, show):
    node = agent(slots=2)
    number = submit("array: {i: 0-5}\nmax_concurrent: 2\n")
    for _ in range(3):
        controller.tick()
        running = start_all(controller, node)
        assert len(running) == 2, "max_concurrent"
        for allocation_id in running.values():
            node.exit(allocation_id, "user_error", message="it broke")
        tick(controller)
    ended = show(f"/experiments/{number}")
    assert ended["state"] == "FAILED"
    assert ended["reason"].startswith("0 of 6 elements of the array ended well; trial 1: ")
