"""Checkpoints that scripts save under names of their own, as agents tell of them."""

import base64
import datetime as dt
import hashlib
import json
import zlib

import pytest

from muster.wire import (
    AdoptedCheckpoint,
    CheckpointRecord,
    DeletionResult,
    MetricsRecord,
    OutputFile,
    SeriesPoints,
)
from muster_server import clock

from .test_cleaning import wanted
from .test_lineage import API, post, start

ADOPT = "checkpoints: {adopt: 'out/ckpt-*.pt', keep: {last: 1, best: 1}}\n"
SEARCH = "search: {metric: val/loss, goal: min}\n"


def file(path, data=b"x"):
    sha256 = hashlib.sha256(data).hexdigest()
    return OutputFile(path=path, state="kept", size_bytes=len(data), sha256=sha256, parts=[sha256])


def adopted(step, *files, no=1, attempt_no=1, node_rank=0, name=None, **more):
    files = files or (file(f"out/ckpt-{step}.pt", str(step).encode()),)
    listed = [[f.path, f.sha256] for f in files]
    digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:32]
    text = json.dumps([vars(f) for f in files])
    fields = {
        "no": no,
        "attempt_no": attempt_no,
        "node_rank": node_rank,
        "name": name or files[0].path,
        "step": step,
        "folder": f"adopted-{digest}",
        "saved_ms": 0,
        "files": base64.b64encode(zlib.compress(text.encode())).decode(),
    }
    return AdoptedCheckpoint(**(fields | more))


def listed(show, trial_id=1):
    return list(reversed(show(f"/trials/{trial_id}/checkpoints")["items"]))


def texts(show, trial_id=1):
    return [e["message"] for e in reversed(show(f"/trials/{trial_id}/events?limit=200")["items"])]


def steps_of(show, state="complete"):
    return [c["step"] for c in listed(show) if c["state"] == state]


@pytest.fixture
def training(controller, agent, submit):
    """A trial that trains: (node, experiment id, allocation id)."""
    node = agent(slots=1)
    experiment_id = submit(SEARCH + ADOPT, slots=1)
    controller.tick()
    return node, experiment_id, start(controller, node)


def tell(node, allocation_id, *found, seq=1, is_final=False, **more):
    """What the collector has adopted, twice: an answer may be lost."""
    for _ in range(2):
        node.send_outputs(allocation_id, [], seq=seq, is_final=is_final, adopted=found, **more)


def losses(node, allocation_id, values):
    steps = list(range(10, 10 * len(values) + 1, 10))
    series = SeriesPoints(name="val/loss", steps=steps, times_ms=steps, values=values)
    node.send(allocation_id, MetricsRecord(local_rank=0, rank=0, series=[series], step=steps[-1]))


def test_they_are_listed_kept_by_the_policy_and_pinned(
    training, controller, member_client, show, database, time_machine
):
    node, experiment_id, allocation_id = training
    losses(node, allocation_id, [0.9, 0.1, 0.5, 0.4, 0.3])
    tell(node, allocation_id, *(adopted(10 * n, no=n) for n in (1, 2, 3)))
    tell(node, allocation_id, *(adopted(10 * n, no=n) for n in (4, 5)), seq=2)
    found = listed(show)
    assert [c["metrics"]["val/loss"] for c in found] == [0.9, 0.1, 0.5, 0.4, 0.3]
    assert [(c["kind"], c["path"], c["num_files"], c["size_bytes"]) for c in found[:1]] == [
        ("adopted", "out/ckpt-10.pt", 1, 2)
    ]
    assert [c["is_latest"] for c in found] == [False] * 4 + [True]
    assert [c["step"] for c in found if c["is_best"]] == [20]
    of_all = show(f"/checkpoints?experiment={experiment_id}")["items"][0]
    assert (of_all["kind"], of_all["path"]) == ("adopted", "out/ckpt-50.pt")
    post(member_client, f"/checkpoints/{found[2]['id']}:pin", status=200)

    time_machine.move_to(clock.now() + dt.timedelta(minutes=10), tick=True)
    node.beat()
    controller.tick()
    assert steps_of(show) == [20, 30, 40, 50], "best, pinned, and the two newest of one that runs"
    assert wanted(database) == [(f"experiment-1/trial-1/{adopted(10).folder}", "pending")]
    (deletion,) = node.deletions()
    node.report_deletions(DeletionResult(id=deletion.id, outcome="done", freed_bytes=2))
    assert steps_of(show, "deleted") == [10]

    # The policy says so again when a restored work folder brings one back.
    tell(node, allocation_id, adopted(10, no=6), seq=3)
    assert steps_of(show, "deleting") == [10]
    assert [d.path for d in node.deletions()] == [f"experiment-1/trial-1/{adopted(10).folder}"]


def test_outputs_may_go_and_a_checkpoint_stays(training, controller, member_client, show):
    node, experiment_id, allocation_id = training
    node.exit(allocation_id, "success")
    node.send_outputs(
        allocation_id, [file("log"), file("out/ckpt-10.pt", b"10")], adopted=[adopted(10)]
    )
    controller.tick()
    post(member_client, f"/experiments/{experiment_id}/outputs:clean", status=202, max_bytes=0)
    assert [d.path for d in node.deletions()] == ["experiment-1/trial-1/outputs"]
    assert steps_of(show) == [10]


def test_a_running_trial_with_one_has_nothing_unsaved(training, controller, member_client, show):
    node, experiment_id, allocation_id = training
    assert show(f"/experiments/{experiment_id}")["unsaved"]["num_trials"] == 1
    tell(node, allocation_id, adopted(10))
    assert show(f"/experiments/{experiment_id}")["unsaved"] is None


def test_the_next_attempt_is_given_its_work_folder_and_never_a_checkpoint(
    training, controller, member_client, show
):
    node, experiment_id, allocation_id = training
    tell(node, allocation_id, adopted(10))
    post(member_client, f"/experiments/{experiment_id}:pause", status=202)
    controller.tick()
    node.state(allocation_id, "STOPPING")
    node.exit(allocation_id, "stopped")
    node.send_outputs(allocation_id, [file("out/ckpt-10.pt", b"10")], seq=2)
    controller.tick()
    post(member_client, f"/experiments/{experiment_id}:resume", status=202)
    controller.tick()
    spec = node.only().spec
    assert (spec.resume_from, spec.resume_step, len(spec.work_from)) == (None, 0, 1)
    assert (spec.work_from[0].source, spec.work_from[0].folder) == (
        "", "experiment-1/trial-1/outputs",
    )  # fmt: skip


def test_a_fork_begins_with_its_files(training, controller, member_client, submit, show):
    node, experiment_id, allocation_id = training
    tell(node, allocation_id, adopted(10), adopted(20, no=2))
    node.exit(allocation_id, "success")
    node.send_outputs(allocation_id, [], seq=2)
    controller.tick()
    (first, _) = listed(show)
    submit(ADOPT + f"from: {{checkpoint: {first['id']}}}", slots=1)
    controller.tick()
    spec = next(a.spec for a in node.poll().values() if a.spec.experiment_id == 2)
    assert (spec.resume_from, spec.weights_from, spec.resume_step) == (None, None, 0)
    (source,) = spec.work_from
    assert (source.folder, source.attempt_no, source.seq, source.source) == (
        f"experiment-1/trial-1/{adopted(10).folder}", 0, 1, "step 10 of trial 1.1",
    )  # fmt: skip
    assert any("begins with the files of step 10 of trial 1.1" in text for text in texts(show, 2))
    # Its source stays while it has none of its own.
    plan = show(f"/experiments/{experiment_id}/checkpoints:plan")
    assert [(c["step"], c["is_kept"]) for c in plan["checkpoints"]] == [(10, True), (20, True)]


@pytest.mark.parametrize(
    ("document", "path"),
    [("entrypoint: a.py\ncode: {installed: /srv}\nfrom: {trial: 1, load: weights}", "from.load"),
     ("trainer: {}\nfrom: {trial: 1}", "from")],
)  # fmt: skip
def test_what_only_the_script_can_read_is_given_to_nothing_else(
    training, member_client, document, path
):
    node, _, allocation_id = training
    tell(node, allocation_id, adopted(10))
    body = {"document": f"name: x\n{document}"}
    reply = member_client.post(f"{API}/experiments", json=body)
    (problem,) = reply.json()["error"]["fields"]
    assert problem["path"] == path, reply.text
    assert "step 10 of trial 1.1 consists of files of its script" in problem["message"]


def test_a_fixed_name_takes_the_step_of_the_trial_and_what_it_held_goes(
    training, member_client, show, database
):
    node, _, allocation_id = training

    def overwritten(no, data):
        tell(node, allocation_id, adopted(None, file("ckpt.pt", data), no=no), seq=no)

    losses(node, allocation_id, [0.5])
    overwritten(1, b"a")
    overwritten(2, b"b")
    (only,) = listed(show)
    assert (only["step"], only["path"]) == (10, "ckpt.pt")
    gone = adopted(None, file("ckpt.pt", b"a")).folder
    assert [d.path for d in node.deletions()] == [f"experiment-1/trial-1/{gone}"]
    post(member_client, f"/checkpoints/{only['id']}:pin", status=200)
    overwritten(3, b"c")
    assert any("checkpoint 1 of this step is pinned" in text for text in texts(show))
    losses(node, allocation_id, [0.5, 0.4])
    overwritten(4, b"d")
    assert [c["step"] for c in listed(show)] == [10, 20]


def test_what_the_sdk_saved_at_a_step_stays(training, show, database):
    node, _, allocation_id = training
    node.send(
        allocation_id,
        CheckpointRecord(step=10, path="step-00000010", size_bytes=1, files={}, metrics={}),
    )
    tell(node, allocation_id, adopted(10))
    (only,) = listed(show)
    assert only["kind"] == "saved"
    assert any("out/ckpt-10.pt of step 10 is not kept" in text for text in texts(show))
    assert [d.path for d in node.deletions()] == [f"experiment-1/trial-1/{adopted(10).folder}"]


def test_shards_of_two_nodes_are_one_checkpoint(controller, agent, submit, show, member_client):
    nodes = [agent(f"node-{n}", slots=1) for n in (1, 2)]
    submit("checkpoints: {adopt: 'out/checkpoint-*'}\n", slots=2, nodes=2)
    controller.tick()
    ids = [node.only().spec.allocation_id for node in nodes]
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.get_ready(allocation_id, port=29500)
    controller.tick()
    for node, allocation_id in zip(nodes, ids, strict=True):
        node.run(allocation_id)
    same = file("out/checkpoint-5/config.json")
    for rank, (node, allocation_id) in enumerate(zip(nodes, ids, strict=True)):
        shard = file(f"out/checkpoint-5/shard-{rank}", str(rank).encode())
        found = adopted(5, same, shard, node_rank=rank, name="out/checkpoint-5")
        tell(node, allocation_id, found)
        stranger = nodes[1 - rank]
        stranger.specs[allocation_id] = node.specs[allocation_id]
        stranger.send_outputs(allocation_id, [], adopted=[adopted(6, node_rank=rank)])
    (only,) = listed(show)
    assert (only["num_files"], only["size_bytes"], only["path"]) == (3, 3, "out/checkpoint-5")
    export = post(member_client, f"/checkpoints/{only['id']}:export", status=202)
    assert export["file_name"] == "checkpoint-5.tar"
    (asked,) = nodes[0].exports()
    assert [f.path for f in asked.files] == [
        "out/checkpoint-5/config.json",
        "out/checkpoint-5/shard-0",
    ]

    for node, allocation_id in zip(nodes, ids, strict=True):
        node.exit(allocation_id, "success")
    controller.tick()
    submit(f"from: {{checkpoint: {only['id']}}}", slots=2, nodes=2)
    controller.tick()
    specs = [a.spec for node in nodes for a in node.poll().values() if a.spec.experiment_id == 2]
    assert [(s.node_rank, [w.node_rank for w in s.work_from]) for s in specs] == [
        (0, [0]),
        (1, [1]),
    ]
    # Both parts go with it, each from its own storage.
    post(member_client, "/experiments/1/checkpoints:clean", status=202, last=0, best=0)
    assert [c["state"] for c in listed(show)] == ["complete"], "the fork needs it"


def test_a_pattern_that_matched_nothing_is_said_at_the_end(training, controller, show):
    node, _, allocation_id = training
    node.exit(allocation_id, "success")
    for _ in range(2):
        node.send_outputs(allocation_id, [file("model.pt")])
    said = [text for text in texts(show) if text.startswith("No file matched")]
    assert said == [
        "No file matched `checkpoints.adopt: out/ckpt-*.pt`, so the trial has no checkpoint of its "
        "script. `muster outputs list 1.1` lists the files that it wrote."
    ]


def test_what_is_no_adopted_checkpoint_is_refused(training, show):
    node, _, allocation_id = training
    for bad in (adopted(1, folder="outputs"), adopted(1, files="*"),
                adopted(1, file("../x")), adopted(1, folder="adopted-" + "g" * 32)):  # fmt: skip
        node.send_outputs(allocation_id, [], adopted=[bad], expect=422)
        assert node.refusal["code"] == "outputs.bad_list"
    tell(node, allocation_id, adopted(1, problem="it has 3,000 files, and 2,000 are adopted"))
    assert listed(show) == []
    assert any("it has 3,000 files" in text for text in texts(show))
