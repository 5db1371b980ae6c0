"""Models that a script registers within its job: real versions, for the owner of the experiment."""

import pytest
from sqlalchemy import update

from muster.wire import ModelRegistrationRecord
from muster_server.db.models import UserRow
from support.agent import start

from .test_outputs import kept

FOLDER = "muster-outputs/mlflow/trial-1.1/models/net"
MLMODEL = """
signature:
  inputs: '[{"type": "tensor", "name": "x", "tensor-spec": {"dtype": "float32", "shape": [-1, 4]}}]'
"""


@pytest.fixture
def running(controller, agent, submit):
    """A node, and the id of the allocation that runs on it."""
    node = agent(slots=1)
    submit(slots=1)
    controller.tick()
    return node, start(controller, node)


def registered(no=1, name="digits", **more):
    return ModelRegistrationRecord(no=no, name=name, **{"folder": FOLDER} | more)


def answers(reply):
    return [(one.no, one.version, one.is_new, one.error) for one in reply.models]


def end(controller, node, allocation_id, *files):
    node.exit(allocation_id, "success")
    controller.tick()
    node.send_outputs(allocation_id, list(files))
    controller.tick()


def test_a_version_has_its_number_at_once_and_its_files_at_the_end(running, controller, show):
    node, allocation_id = running
    reply = node.send(
        allocation_id,
        registered(1, folder=""),
        registered(2, mlmodel=MLMODEL, tags={"team": "vision\0"}),
        registered(3, folder=f"{FOLDER}-2"),
        registered(4, description="The best."),
    )
    assert answers(reply) == [
        (1, 0, True, ""),
        (2, 1, True, ""),
        (3, 2, True, ""),
        (4, 1, False, ""),
    ]
    controller.tick()
    version = show("/models/digits/versions/1")
    assert (version["state"], version["source"], version["files"]) == ("making", "outputs", [])
    assert "trial 1.1" in version["message"]
    assert (version["notes"], version["tags"]) == ("The best.", {"team": "vision"})
    assert version["signature"]["inputs"][0]["shape"] == [-1, 4]
    assert version["lineage"]["trial_id"] == version["trial_id"] == 1
    assert version["created_by"] == "user:member", "the owner of the experiment"

    end(controller, node, allocation_id, kept(f"{FOLDER}/MLmodel"), kept(f"{FOLDER}/data/w.bin"))
    version = show("/models/digits/versions/1")
    assert (version["state"], version["message"]) == ("ready", "")
    assert [file["path"] for file in version["files"]] == ["MLmodel", "data/w.bin"]
    failed = show("/models/digits/versions/2")
    assert failed["state"] == "failed"
    assert f"{FOLDER}-2" in failed["message"]


def test_an_answer_that_was_lost_is_given_again(running, show):
    node, allocation_id = running
    node.send(allocation_id, registered())
    reply = node.send(allocation_id, numbered=node.streams[allocation_id])
    assert answers(reply) == [(1, 1, False, "")]
    assert show("/models/digits")["num_versions"] == 1


def test_aliases_name_the_version_once_it_is_ready(running, controller, show):
    node, allocation_id = running
    node.send(allocation_id, registered(aliases=["champion"]))
    assert show("/models/digits")["aliases"] == []
    end(controller, node, allocation_id, kept(f"{FOLDER}/MLmodel"))
    (alias,) = show("/models/digits")["aliases"]
    assert (alias["name"], alias["version"]) == ("champion", 1)
    assert show("/models/digits/versions/1")["tags"] == {}


def test_a_job_may_what_its_owner_may_as_a_member(running, admin_client, database, show):
    node, allocation_id = running
    reply = admin_client.post("/api/v1/models", json={"name": "theirs"})
    assert reply.status_code == 201, reply.text
    of_another = node.send(
        allocation_id,
        registered(1, "theirs"),
        registered(2, "theirs", aliases=["production"]),
        registered(3, "theirs", folder="", description="Mine now."),
        registered(4, "my model"),
    )
    first, *refused = of_another.models
    assert (first.version, first.error) == (1, ""), "everybody may add a version"
    assert ["belongs to admin" in one.error for one in refused] == [True, True, False]
    assert "letters, digits" in refused[2].error
    assert show("/models/theirs")["description"] == ""
    with database.transaction() as session:
        session.execute(update(UserRow).where(UserRow.username == "member").values(role="viewer"))
    (answer,) = node.send(allocation_id, registered(5, "later")).models
    assert "may not register models" in answer.error
    events = [e["message"] for e in show("/experiments/1/events")["items"]]
    assert sum("was not registered" in message for message in events) == 4
