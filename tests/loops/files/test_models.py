"""Models with a real controller and agents that only talk: making, promoting, pulling."""

from __future__ import annotations

import errno
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import select, update

from muster.cli.output import CommandFailure
from muster.client import models as pulling
from muster.client.errors import ClientError, Unreachable
from muster.client.models import NotPulled
from muster.sdk.shards import INDEX
from muster.wire import CheckpointRecord, ExportResult
from muster_server import clock
from muster_server.db.models import EventRow, ExportRow, ModelVersionRow
from support.agent import start

from .test_outputs import digest, kept, serve

API = "/api/v1"
SEARCH = """
hyperparameters: {lr: {choice: [0.1, 0.2]}}
search: {method: grid, concurrent: 1, metric: val/loss, goal: min}
"""


def checkpoint(step, value, files):
    return CheckpointRecord(
        step=step,
        path=f"step-{step:08d}",
        size_bytes=sum(len(data) for data in files.values()),
        files={name: digest(data) for name, data in files.items()},
        metrics={} if value is None else {"val/loss": value},
    )


BUILT_IN = {INDEX: b"{}", "shard-00000.safetensors": b"weights"}


@pytest.fixture
def search(controller, agent, submit):
    """`search(values, …)` runs a search of two trials whose only checkpoints have these values; returns
    its number."""
    node = agent(slots=1)

    def run(values, files=BUILT_IN):
        experiment_id = submit(SEARCH, slots=1)
        controller.tick()
        for value in values:
            allocation_id = start(controller, node)
            node.send(allocation_id, checkpoint(10, value, files))
            node.exit(allocation_id)
            controller.tick()
        return experiment_id

    run.node = node
    return run


def make_file(node, data=b"model", **changes):
    """The node makes the file of the model that is asked for."""
    (export,) = node.exports()
    if changes:
        assert node.report_export(ExportResult(id=export.id, **changes))
    else:
        serve(node, export, data)


def promote(client, experiment_id, alias="candidate", name="digits"):
    client.post(f"{API}/models", json={"name": name})
    body = {"experiment_id": experiment_id, "alias": alias}
    answer = client.post(f"{API}/models/{name}/promotions", json=body)
    assert answer.status_code == 201, answer.text


def rules(client, name="digits"):
    items = client.get(f"{API}/models/{name}/promotions").json()["items"]
    return [(rule["state"], rule["version"]) for rule in items], items[0]["message"]


def aliases(client, name="digits"):
    found = client.get(f"{API}/models/{name}").json()["aliases"]
    return {alias["name"]: alias["version"] for alias in found}


def test_the_best_of_a_search_becomes_an_alias_and_a_worse_one_does_not(
    search, controller, member_client, database
):
    first = search([0.4, 0.2])
    promote(member_client, first)
    controller.tick()
    assert rules(member_client) == (
        [("waiting", 1)],
        "val/loss is 0.2 at step 10 of trial 2, the best of the experiment; version 1 is being made",
    )
    assert aliases(member_client) == {}, "an alias never names what nobody can pull"
    made = member_client.get(f"{API}/models/digits/versions/1").json()
    assert (made["state"], made["digest"], made["files"]) == ("making", "", [])
    make_file(search.node)
    controller.tick()
    made = member_client.get(f"{API}/models/digits/versions/1").json()
    assert [(f["path"], f["sha256"], f["size_bytes"]) for f in made["files"]] == [
        ("model.safetensors", digest(b"model"), 5)
    ]
    assert (made["state"], made["aliases"], made["is_unsafe"]) == ("ready", ["candidate"], False)
    assert rules(member_client)[0] == [("moved", 1)]
    (move,) = member_client.get(f"{API}/models/digits/history").json()["items"]
    assert move["by"].startswith("rule 1 of user:") or "rule 1 of token:" in move["by"]
    assert move["reason"] == "val/loss is 0.2 at step 10 of trial 2, the best of the experiment"

    promote(member_client, search([0.3, "NaN"]))
    controller.tick()
    assert rules(member_client) == (
        [("kept", None), ("moved", 1)],
        "val/loss is 0.3 at step 10 of trial 1, not better than 0.2 of version 1",
    )
    promote(member_client, search(["NaN", None]))
    controller.tick()
    assert rules(member_client)[0][0] == ("refused", None)
    assert aliases(member_client) == {"candidate": 1}
    versions = member_client.get(f"{API}/models/digits/versions").json()["items"]
    assert len(versions) == 1, "what does not become an alias is not registered"

    better = search([0.1, 0.5])
    promote(member_client, better)
    controller.tick()
    make_file(search.node, b"better")
    controller.tick()
    controller.tick()
    assert aliases(member_client) == {"candidate": 2}
    with database.read() as session:
        told = session.scalars(
            select(EventRow.message).where(
                EventRow.type == "model.promotion", EventRow.experiment_id == better
            )
        ).all()
    assert told == [
        "Alias candidate of model digits moved: val/loss is 0.1 at step 10 of trial 1, better than 0.2 "
        "of version 1."
    ]


def test_a_rule_waits_for_the_end_of_the_search(controller, agent, submit, member_client):
    node = agent(slots=1)
    experiment_id = submit(SEARCH, slots=1)
    promote(member_client, experiment_id)
    controller.tick()
    allocation_id = start(controller, node)
    node.send(allocation_id, checkpoint(10, 0.4, {"w.bin": b"w"}))
    controller.tick()
    assert rules(member_client)[0] == [("waiting", None)]
    node.exit(allocation_id)
    controller.tick()
    allocation_id = start(controller, node)
    node.exit(allocation_id)
    controller.tick()
    assert rules(member_client)[0] == [("moved", 1)], "its files are known: no node makes any"


def test_a_version_that_cannot_be_made_says_why_and_an_expired_export_is_asked_for_again(
    search, controller, member_client, database
):
    search([0.2, 0.4])
    url = f"{API}/models/digits/versions"
    body = {"checkpoint_id": 1}
    assert member_client.post(url, json=body).json()["state"] == "making"
    refused = member_client.put(f"{API}/models/digits/aliases/production", json={"version": 1})
    assert refused.json()["error"]["code"] == "models.not_ready"

    # Its node was away for longer than an export is kept.
    with database.transaction() as session:
        session.execute(update(ExportRow).values(expires_at=clock.now()))
        session.execute(ExportRow.__table__.delete())
        row = session.scalars(select(ModelVersionRow)).one()
        row.updated_at = row.updated_at.replace(year=2020)
    controller.tick()
    make_file(search.node, outcome="failed", message="shard-00000.safetensors is damaged")
    controller.tick()
    failed = member_client.get(f"{url}/1").json()
    assert failed["state"] == "failed"
    assert "shard-00000.safetensors is damaged" in failed["message"]
    again = member_client.post(url, json=body).json()
    assert (again["number"], again["state"], again["is_new"]) == (2, "making", True)


class Node:
    """Answers the exports of a node out of what it has, in a thread."""

    def __init__(self, node, *contents, model=b""):
        self.contents = {digest(data): data for data in contents}
        self.model = model
        self.asked = []
        self._node = node
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _run(self):
        while not self._ended.wait(0.02):
            for export in self._node.exports():
                self.asked += [file.path for file in export.files] or ["model"]
                data = self.contents.get(export.files[0].sha256) if export.files else self.model
                if data is None:
                    gone = ExportResult(id=export.id, outcome="failed", message="it is not there")
                    self._node.report_export(gone)
                else:
                    serve(self._node, export, data)


FILES = {"weights.pt": b"w" * 3000, "config.json": b"{}"}


@pytest.fixture
def registered(search, member_client):
    """Version 1 of digits: two files of a checkpoint that a script saved; the node that has them."""
    search([0.4, 0.2], FILES)
    for checkpoint_id in (1, 2):
        answer = member_client.post(
            f"{API}/models/digits/versions", json={"checkpoint_id": checkpoint_id}
        )
        assert answer.status_code == 201, answer.text
    member_client.put(f"{API}/models/digits/aliases/production", json={"version": 1})
    return search.node


def ok(result):
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def tree(folder: Path):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_pull_is_verified_and_puts_all_of_it_into_place(registered, muster, tmp_path):
    to = tmp_path / "served"
    with Node(registered, *FILES.values()) as node:
        done = ok(muster("model", "pull", "digits@production", str(to), as_="viewer"))
        assert "Pulled version 1 of digits" in done.stderr
        assert sorted(node.asked) == ["config.json", "weights.pt"]
        found = tree(to)
        manifest = json.loads(found.pop(".muster-model.json"))
        assert found == FILES
        assert (manifest["model"], manifest["version"]) == ("digits", 1)
        again = ok(muster("model", "pull", "digits:1", str(to)))
        assert "0 files fetched, 2 unchanged" in again.stderr

        (to / "config.json").write_bytes(b"mine")
        refused = muster("model", "pull", "digits:1", str(to))
        assert isinstance(refused.exception, NotPulled)
        assert "other content under" in str(refused.exception)
        assert (to / "config.json").read_bytes() == b"mine"
        ok(muster("model", "pull", "digits:1", str(to), "--force"))
        assert (to / "config.json").read_bytes() == b"{}"


def test_a_cache_saves_fetching_and_stays_bounded(registered, muster, tmp_path):
    cache = tmp_path / "cache"
    options = ("--cache", str(cache), "--cache-size", "3000")
    with Node(registered, *FILES.values()) as node:
        ok(muster("model", "pull", "digits", str(tmp_path / "a"), *options))
        assert sum(len(data) for data in tree(cache).values()) <= 3000
        asked = len(node.asked)
        ok(muster("model", "pull", "digits", str(tmp_path / "b"), *options))
        assert len(node.asked) < 2 * asked, "at least one file came from the cache"
    assert tree(tmp_path / "b") == tree(tmp_path / "a")
    for path in cache.glob("*/*"):
        path.write_bytes(b"damaged")
    with Node(registered, *FILES.values()):
        ok(muster("model", "pull", "digits", str(tmp_path / "c"), *options))
    assert tree(tmp_path / "c") == tree(tmp_path / "a"), "what is damaged is not believed"


def test_an_interrupted_pull_goes_on_and_an_alias_that_moved_is_noticed(
    registered, muster, member_client, tmp_path, monkeypatch
):
    to = tmp_path / "served"
    real = pulling.Connection.continue_to
    cuts = []

    def cut_off(self, path, draft, *, etag="", params=None):
        if params["path"] == "weights.pt" and len(cuts) < pulling.TRIES:
            cuts.append(draft)
            draft.write_bytes(b"w" * 1000)
            raise Unreachable("The download ended early.", code="client.unreachable")
        return real(self, path, draft, etag=etag, params=params)

    monkeypatch.setattr("muster.client.client.Client.continue_to", cut_off, raising=False)
    monkeypatch.setattr(pulling, "POLL_S", 0.01)
    with Node(registered, *FILES.values()):
        stopped = muster("model", "pull", "digits@production", str(to))
        assert isinstance(stopped.exception, ClientError)
        assert [path.name for path in to.iterdir()] == [".muster-pull"], "nothing half-done is seen"
        member_client.put(f"{API}/models/digits/aliases/production", json={"version": 2})
        done = ok(muster("model", "pull", "digits@production", str(to)))
    assert "Pulled version 2 of digits" in done.stderr
    assert "Continuing an interrupted pull." in done.stderr, "both versions have the same files"
    assert {name: data for name, data in tree(to).items() if name in FILES} == FILES


def test_what_goes_wrong_on_the_way_is_clear_and_leaves_nothing(
    registered, muster, tmp_path, monkeypatch
):
    to = tmp_path / "served"
    wrong = {**FILES, "weights.pt": b"x" * 3000}
    with Node(registered) as node:
        node.contents = {digest(data): wrong[name] for name, data in FILES.items()}
        refused = muster("model", "pull", "digits:1", str(to))
    assert isinstance(refused.exception, NotPulled)
    assert "does not have the digest of version 1" in str(refused.exception)
    assert [path.name for path in to.iterdir()] == [".muster-pull"]
    with Node(registered) as node:
        refused = muster("model", "pull", "digits:1", str(to))
    assert "could not be read: node-1: it is not there." in str(refused.exception)
    assert len(node.asked) <= 3, "it is not asked for again and again"

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Node(registered, *FILES.values()) as node, monkeypatch.context() as patch:
        patch.setattr(pulling.shutil, "disk_usage", lambda _: SimpleNamespace(free=-1))
        refused = muster("model", "pull", "digits:1", str(to))
        assert "are still needed" in str(refused.exception)
        patch.undo()
        patch.setattr(pulling, "_settle", full)
        refused = muster("model", "pull", "digits:1", str(to))
        assert "No space is left" in str(refused.exception)
        assert [path.name for path in to.iterdir()] == [".muster-pull"]
        patch.undo()
        asked = len(node.asked)
        ok(muster("model", "pull", "digits:1", str(to)))
        assert len(node.asked) == asked, "what was there is not fetched again"
    for name in ("nothing@production", "digits@nothing", "digits:9", "digits:x"):
        refused = muster("model", "pull", name, str(to))
        assert isinstance(refused.exception, ClientError), name


def test_the_commands_show_what_there_is(registered, muster, tmp_path):
    listed = ok(muster("model", "list")).stdout
    assert "digits" in listed
    assert "production → 1" in listed
    shown = ok(muster("model", "show", "digits"))
    assert "step 10 of experiment 1" in shown.stdout
    assert "can run code" in shown.stderr
    card = ok(muster("model", "show", "digits@production")).stdout
    assert "# digits, version 1" in card
    ok(muster("model", "alias", "digits", "production", "2", "--reason", "better"))
    history = ok(muster("model", "history", "digits", "production")).stdout
    assert "better" in history
    assert ok(muster("model", "register", "digits", "--best", "1.2")).exit_code == 0
    refused = muster("model", "register", "digits")
    assert isinstance(refused.exception, CommandFailure)
    folder = tmp_path / "up"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a.bin").write_bytes(b"a" * 10)
    made = ok(muster("model", "upload", "other", str(folder), "--metric", "acc=0.5", "--json"))
    assert [f["path"] for f in json.loads(made.stdout)["files"]] == ["sub/a.bin"]
    ok(muster("model", "edit", "other:1", "--notes", "Mine."))
    ok(muster("model", "pull", "other", str(tmp_path / "got")))
    assert (tmp_path / "got/sub/a.bin").read_bytes() == b"a" * 10
    assert "aliases production name" in str(muster("model", "delete", "digits", "--yes").exception)
    ok(muster("model", "alias", "digits", "production", "--remove"))
    ok(muster("model", "delete", "digits", "--yes"))


def test_large_outputs_are_pulled_in_parts(
    ended_on_one, muster, member_client, tmp_path, monkeypatch
):
    from muster_models.services.registry import fetching
    from muster_server.services.outputs import downloads

    for module in (downloads, fetching):
        monkeypatch.setattr(module, "OUTPUT_PART_BYTES", 1000)
    node, experiment_id, allocation_id = ended_on_one
    data = bytes(range(250)) * 10
    parts = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    file = replace(kept("out/big.safetensors", data), parts=[digest(part) for part in parts])
    node.send_outputs(allocation_id, [file])
    ok(muster("model", "register", "big", "--outputs", str(experiment_id), "out"))
    with Node(node, *parts) as served:
        ok(muster("model", "pull", "big:1", str(tmp_path / "to")))
    assert (tmp_path / "to/big.safetensors").read_bytes() == data
    assert len(served.asked) == 3
