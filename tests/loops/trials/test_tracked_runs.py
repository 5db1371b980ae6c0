"""Runs of a script's tracking client, from an agent's record to the answer of the API."""

from muster.wire import TrackedRunRecord
from support.data import metrics_record


def reported(**more):
    values = {"run_id": "a" * 32, "name": "main", "label": "", "folder": "mlflow/main"}
    values |= {"parent_id": "", "status": "RUNNING", "started_ms": 1_700_000_000_000}
    return TrackedRunRecord(**values | more)


def test_params_and_tags_are_put_together(controller, agent, submit, show):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    path = f"/trials/{trial['id']}/tracked-runs"
    assert show(path)["items"] == []

    node.send(
        allocation_id,
        reported(is_new=True, params={"old": "1"}, tags={"old": "1"}),
        reported(is_new=True, tags={"team": "a\0b", "stage": "draft"}),
        reported(params={"lr": "0.1"}),
        reported(params={"layers": "3"}, tags={"team": "vision"}, removed_tags=["stage"]),
        reported(run_id="b" * 32, name="fold", label="fold", parent_id="a" * 32, ended_ms=10**18),
    )
    main, fold = show(path)["items"]
    assert (main["params"], main["tags"]) == ({"lr": "0.1", "layers": "3"}, {"team": "vision"})
    assert (main["status"], main["ended_at"], main["attempt_no"]) == ("RUNNING", None, 1)
    assert main["started_at"].startswith("2023-11-14T22:13:20")
    assert (fold["label"], fold["parent_run_id"]) == ("fold", "a" * 32)
    assert fold["ended_at"] is not None, "a time that no calendar has is that of the report"

    first = show(f"{path}?limit=1")
    assert [run["name"] for run in first["items"]] == ["main"]
    rest = show(f"{path}?limit=1&cursor={first['next']}")
    assert ([run["name"] for run in rest["items"]], rest["next"]) == (["fold"], None)


def test_a_child_run_is_known_by_its_record_and_not_by_a_number(
    controller, agent, submit, show, muster
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    points = {"loss": [(4, 0.5)], "alpha/val/loss": [(5, 0.1)], "run-2/score": [(5, 1.0)]}
    node.send(allocation_id, metrics_record(points))
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    assert trial["headline"] == "alpha/val/loss", "a name of the script's own"
    assert show(f"/trials/{trial['id']}")["child_runs"] == []

    node.send(allocation_id, reported(name="alpha", label="alpha"))
    assert show(f"/trials/{trial['id']}")["child_runs"] == ["alpha"]
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    (listed,) = show("/experiments")["items"]
    assert (trial["headline"], listed["headline"]["name"]) == ("loss", "loss")
    assert "loss 0.5 at step 4" in " ".join(muster("show", str(experiment_id)).stdout.split())
