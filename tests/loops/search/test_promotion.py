"""A search that pauses trials at their rungs: through the real API, with an agent that only talks."""

from muster.wire import CheckpointRecord, MetricsRecord, SeriesPoints
from support.agent import start

DOCUMENT = """
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: asha, variant: promotion, metric: val/loss, goal: min, trials: 2,
  max_length: {steps: 20}, divisor: 2, rungs: 2, concurrent: 1}
"""


def report(controller, node, allocation_id, step, value):
    points = SeriesPoints(name="val/loss", steps=[step], times_ms=[1000 + step], values=[value])
    record = MetricsRecord(local_rank=0, rank=0, series=[points], step=step)
    node.send(allocation_id, record)
    controller.tick()
    controller.tick()


def leave(controller, node, allocation_id, step):
    node.state(allocation_id, "STOPPING")
    path = f"{allocation_id}-{step}"
    node.send(allocation_id, CheckpointRecord(step=step, path=path, size_bytes=1, files={"a": "0"}))
    node.exit(allocation_id, "stopped")
    controller.tick()
    controller.tick()


def test_a_trial_waits_at_its_rung_without_slots_and_goes_on_from_its_checkpoint(
    controller, agent, submit, show
):
    node = agent(slots=1)
    experiment_id = submit(DOCUMENT, slots=1)

    def states():
        items = show(f"/experiments/{experiment_id}/trials")["items"]
        return {trial["no"]: trial["state"] for trial in items}

    controller.tick()
    first = start(controller, node)
    report(controller, node, first, 10, 0.5)
    assert node.only().stop_kind == "pause"
    leave(controller, node, first, 12)
    assert states()[1] == "PAUSED"
    # The slot went to the second trial, which is worse.
    controller.tick()
    second = start(controller, node)
    assert states() == {1: "PAUSED", 2: "RUNNING"}
    assert show(f"/experiments/{experiment_id}")["state"] == "RUNNING"
    report(controller, node, second, 10, 0.9)
    leave(controller, node, second, 10)
    controller.tick()
    spec = node.only().spec
    assert (spec.trial_no, spec.attempt_no, spec.resume_step) == (1, 2, 12)
    again = start(controller, node)
    assert states() == {1: "RUNNING", 2: "PAUSED"}
    view = show(f"/experiments/{experiment_id}/search")
    assert [(r["bracket"], r["index"], r["units"]) for r in view["rungs"]] == [
        (0, 0, 10),
        (0, 1, 20),
    ]
    assert [(t["trial_no"], t["promoted"], t["stopped"]) for t in view["rungs"][0]["trials"]] == [
        (1, True, False),
        (2, False, False),
    ]
    report(controller, node, again, 20, 0.1)
    node.exit(again, "success")
    for _ in range(4):
        controller.tick()
    assert states() == {1: "COMPLETED", 2: "STOPPED_EARLY"}
    done = show(f"/experiments/{experiment_id}")
    assert (done["state"], done["best_metric"]) == ("COMPLETED", 0.1)


def test_a_pause_by_a_user_and_one_at_a_rung_do_not_undo_each_other(
    controller, agent, submit, show, member_client
):
    node = agent(slots=1)
    experiment_id = submit(DOCUMENT, slots=1)
    controller.tick()
    first = start(controller, node)
    report(controller, node, first, 10, 0.5)
    leave(controller, node, first, 12)
    assert member_client.post(f"/api/v1/experiments/{experiment_id}:pause").status_code == 202
    for _ in range(3):
        controller.tick()
    assert show(f"/experiments/{experiment_id}")["state"] in ("PAUSED", "RUNNING")
    assert member_client.post(f"/api/v1/experiments/{experiment_id}:resume").status_code == 202
    for _ in range(3):
        controller.tick()
    items = show(f"/experiments/{experiment_id}/trials")["items"]
    assert {t["no"]: t["state"] == "PAUSED" for t in items} == {1: True, 2: False}
