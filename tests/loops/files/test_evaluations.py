"""What a model is worth, from an agent's record to the answer of the API."""

from muster.client import Client
from muster.wire import EvaluationRecord


def judged(**more):
    values = {"name": "test", "step": 40, "metrics": {"test/loss": 0.5, "test/odd": "NaN"}}
    return EvaluationRecord(
        **values | {"classes": ["cat", "dog"], "confusion": [[8, 2], [0, 10]]} | more
    )


def test_the_newest_evaluation_of_each_name_is_kept(
    controller, agent, submit, show, connect, make_user_token
):
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    path = f"/trials/{trial['id']}/evaluations"
    assert show(path) == []

    node.send(
        allocation_id,
        judged(step=20, confusion=[[0, 10], [10, 0]]),
        judged(),
        judged(name="robust\0ness", classes=[], confusion=[]),
        judged(name="wrong", confusion=[[1]]),
        judged(name="late", step=-1),
    )
    robust, test = show(path)
    with Client("http://localhost:8470") as client:
        client.close()
        client._http = connect(token=make_user_token("member"))  # the application in this process
        assert client.evaluations(trial["id"]) == [robust, test]
    assert (robust["name"], robust["classes"], robust["confusion"]) == ("robustness", [], [])
    assert (test["name"], test["step"], test["attempt_no"]) == ("test", 40, 1)
    assert test["metrics"] == {"test/loss": 0.5, "test/odd": "NaN"}
    assert test["confusion"] == [[8, 2], [0, 10]]
    assert test["classes"][0] == {
        "name": "cat",
        "num_samples": 10,
        "num_predicted": 8,
        "precision": 1.0,
        "recall": 0.8,
        "f1": 16 / 18,
    }
    said = [e["message"] for e in show(f"/trials/{trial['id']}/events")["items"]]
    assert (
        "The evaluation 'wrong' was not kept: it must have 2 rows and columns, one for each class."
        in said
    )
    assert "The evaluation 'late' was not kept: its step -1 is not between 0 and 2^53." in said
