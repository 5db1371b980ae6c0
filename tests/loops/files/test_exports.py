"""Models as one file: asked of an agent that has the storage, kept for a while, fetched by people."""

import datetime as dt
import hashlib

import pytest
from sqlalchemy import func, select, update

from muster.wire import EXPORT_PIECE_BYTES, CheckpointRecord, ExportResult
from muster_server import clock
from muster_server.db.models import CheckpointRow, ExportChunkRow, ExportRow
from muster_server.services.core import retention

from .test_lineage import API, post, start

FILE = bytes(range(256)) * 8192  # two pieces
SHA256 = hashlib.sha256(FILE).hexdigest()


@pytest.fixture
def saved(controller, agent, submit, database):
    """A node whose trial has saved two checkpoints and ended: (node, experiment, their ids)."""
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    for step in (1, 2):
        node.send(
            allocation_id,
            CheckpointRecord(
                step=step, path=f"step-{step:08d}", size_bytes=3 * 2**20, files={}, metrics={}
            ),
        )
    node.exit(allocation_id, "success")
    controller.tick()
    with database.read() as session:
        ids = list(session.scalars(select(CheckpointRow.id).order_by(CheckpointRow.step)))
    return node, experiment_id, ids


def send(node, export_id, data=FILE):
    for idx in range(0, len(data), EXPORT_PIECE_BYTES):
        number = idx // EXPORT_PIECE_BYTES
        reply = node.send_piece(export_id, number, data[idx : idx + EXPORT_PIECE_BYTES])
        assert (reply.status_code, reply.json()) == (200, {"taken": True}), reply.text


def done(export_id, **changes):
    fields = {"size_bytes": len(FILE), "sha256": SHA256, "outcome": "done", **changes}
    return ExportResult(id=export_id, **fields)


def test_from_the_request_to_the_file(saved, member_client, show, database):
    node, experiment_id, (_, newest) = saved
    asked = post(member_client, f"/checkpoints/{newest}:export", status=202)
    assert (asked["state"], asked["waits_for"]) == ("pending", node.name)
    again = post(member_client, f"/checkpoints/{newest}:export", status=202)
    assert again["id"] == asked["id"]
    file = f"{API}/exports/{asked['id']}/file"
    assert member_client.get(file).json()["error"]["code"] == "exports.pending"

    (wanted,) = node.exports()
    assert wanted.path == f"experiment-{experiment_id}/trial-1/step-00000002"
    send(node, wanted.id)
    send(node, wanted.id)  # its answer was lost
    assert node.report_export(done(wanted.id)) is True
    assert node.report_export(done(wanted.id)) is False
    assert node.exports() == []

    (listed,) = show(f"/trials/{asked['trial_id']}/exports")["items"]
    assert (listed["state"], listed["size_bytes"], listed["sha256"]) == ("done", len(FILE), SHA256)
    reply = member_client.get(file)
    assert reply.content == FILE
    name = f"experiment-{experiment_id}-trial-1-step-2.safetensors"
    assert reply.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert reply.headers["etag"] == f'"{SHA256}"'

    with database.transaction() as session:
        retention.delete_expired(session, clock.now() + dt.timedelta(hours=25))
    assert member_client.get(file).json()["error"]["code"] == "exports.not_found"
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(ExportChunkRow)) == 0


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"outcome": "failed", "message": "shard-00000.safetensors is damaged"}, "is damaged"),
        ({"size_bytes": len(FILE) + 1}, "2 pieces of 2,097,152 bytes arrived"),
    ],
)
def test_one_that_fails_says_why_and_may_be_asked_for_again(saved, member_client, result, message):
    node, _, (_, newest) = saved
    asked = post(member_client, f"/checkpoints/{newest}:export", status=202)
    send(node, asked["id"])
    node.report_export(done(asked["id"], **result))
    error = member_client.get(f"{API}/exports/{asked['id']}/file").json()["error"]
    assert error["code"] == "exports.failed"
    assert message in error["message"]
    assert post(member_client, f"/checkpoints/{newest}:export", status=202)["id"] != asked["id"]


def test_what_cannot_be_exported_is_refused_and_says_why(
    saved, member_client, controller, settings, database
):
    node, experiment_id, (oldest, newest) = saved
    post(member_client, "/checkpoints/99:export", code="checkpoints.not_found")
    asked = post(member_client, f"/checkpoints/{oldest}:export", status=202)

    # Larger than said: pieces past the checkpoint's own size are not taken.
    reply = node.send_piece(asked["id"], 3, b"x")
    assert reply.json()["error"]["code"] == "exports.too_large"

    # No room: what is there takes all of it.
    with database.transaction() as session:
        session.execute(update(ExportRow).values(room_bytes=settings.exports_max_bytes))
    refused = post(member_client, f"/checkpoints/{newest}:export", code="exports.no_room")
    assert "Delete one" in refused["hint"]
    with database.transaction() as session:
        session.execute(update(ExportRow).values(room_bytes=1))

    # Deleted while it waits, and before it is asked for.
    post(
        member_client, f"/experiments/{experiment_id}/checkpoints:clean", status=202, last=1, best=0
    )
    found = member_client.get(f"{API}/exports/{asked['id']}").json()
    assert (found["state"], found["message"]) == ("failed", "the checkpoint was deleted before")
    assert node.exports() == []
    assert node.send_piece(asked["id"], 0, b"x").json() == {"taken": False}

    post(member_client, f"/checkpoints/{oldest}:export", code="exports.checkpoint_deleted")

    # A node that is not heard is named, and a request can be taken back.
    asked = post(member_client, f"/checkpoints/{newest}:export", status=202)
    assert member_client.delete(f"{API}/exports/{asked['id']}").status_code == 204
    assert node.exports() == []
    with database.transaction() as session:
        session.execute(
            update(CheckpointRow).where(CheckpointRow.id == newest).values(storage_id="gone")
        )
    waiting = post(member_client, f"/checkpoints/{newest}:export", status=202)
    assert waiting["waits_for"] == f"{node.name}, whose storage no node has any more"
    with database.transaction() as session:
        session.execute(update(CheckpointRow).values(storage_id=""))
    post(member_client, f"/checkpoints/{newest}:export", code="exports.no_storage")
