"""Outputs that the policy of a document deletes by itself, and what stays."""

import contextlib
import datetime as dt
import re

import pytest
from sqlalchemy import select, update

from muster.wire import CheckpointRecord, DeletionResult
from muster_agent.outputs.storage import Storage
from muster_agent.outputs.store import FolderOutputs
from muster_server import clock
from muster_server.db.models import FileDeletionRow, TrialOutputsRow
from muster_server.loops.cleaning import ALL_EVERY, EVERY
from muster_server.services.outputs import retention

from .test_adopting import ADOPT, adopted, tell
from .test_lineage import post, start
from .test_outputs import events, kept, names, plan_of
from .test_outputs_command import ok

DAY = dt.timedelta(days=1)
KEEP = "outputs: {keep: {days: 30}}\n"


@pytest.fixture
def look(time_machine, controller):
    """Let the loop look at outputs once more, while nodes are heard."""
    time_machine.move_to(clock.now(), tick=True)

    def move(*nodes, by=ALL_EVERY):
        time_machine.shift(by + dt.timedelta(seconds=1))
        for node in nodes:
            node.beat()
        controller.tick()

    return move


@pytest.fixture
def age(database):
    """Make what was collected so far older."""

    def change(days, trial_id=None):
        with database.transaction() as session:
            of = True if trial_id is None else TrialOutputsRow.trial_id == trial_id
            moment = clock.now() - days * DAY
            session.execute(update(TrialOutputsRow).where(of).values(updated_at=moment))

    return change


def ended(controller, node, *, save=None, files=(), **outputs):
    """One attempt that leaves files behind; its allocation."""
    node.beat()
    allocation_id = start(controller, node)
    if save is not None:
        record = CheckpointRecord(
            step=save, path=f"step-{save:08d}", size_bytes=1, files={}, metrics={}
        )
        node.send(allocation_id, record)
    node.exit(allocation_id, "success")
    node.send_outputs(allocation_id, list(files), **outputs)
    controller.tick()
    return allocation_id


def test_old_outputs_go_by_themselves_and_it_is_said(
    look, age, controller, agent, submit, muster, show, database
):
    node = agent(slots=1)
    experiment_id = submit(KEEP, slots=1)
    controller.tick()
    allocation_id = ended(controller, node, files=[kept("a", b"abc"), kept("b", b"de")])
    summary = show("/trials/1/outputs/summary")
    assert summary["keep"] == {"days": 30.0, "max_bytes": None, "experiment_best": 0}
    assert summary["held"] == ""
    written_at, expires_at = (
        dt.datetime.fromisoformat(text)
        for text in (summary["nodes"][0]["updated_at"], summary["expires_at"])
    )
    assert expires_at == written_at + 30 * DAY
    said = ok(muster("outputs", "list", str(experiment_id))).stderr
    assert "The experiment's policy deletes outputs 30 d after their last change." in said
    assert re.search(r"These reach that age in 29 d 2\d h\.", said), said
    look(node)
    assert names(show) == ["a", "b"]

    age(31)
    dry = ok(muster("outputs", "clean", str(experiment_id), "--dry-run"))
    assert re.search(rf"{experiment_id}\.1 +2 +5 B .* delete +31\.0 d old", dry.stdout)
    assert "(outputs older than 30 d go)" in dry.stderr
    assert names(show) == ["a", "b"], "a dry run changes nothing"

    look(node)
    assert names(show) == []
    summary = show("/trials/1/outputs/summary")
    assert (summary["state"], summary["deleted_bytes"]) == ("deleted", 5)
    assert (summary["expires_at"], summary["held"]) == (None, "")
    assert dict(events(show))["outputs.cleaned"] == (
        "Outputs are deleted: 2 files, 5 bytes, 31.0 d old (outputs older than 30 d go); "
        "requested by the experiment's policy."
    )
    (deletion,) = node.deletions()
    assert deletion.path == f"experiment-{experiment_id}/trial-1/outputs"
    assert node.send_outputs(allocation_id, [kept("a")]), "an agent says its list again"
    node.report_deletions(DeletionResult(id=deletion.id, outcome="done", freed_bytes=5))
    look(node)
    assert node.deletions() == []
    assert len([kind for kind, _ in events(show) if kind == "outputs.cleaned"]) == 1
    listed = ok(muster("outputs", "list", str(experiment_id))).stderr
    assert "Its outputs, 5 B, were deleted" in listed
    with database.read() as session:
        rows = session.execute(select(FileDeletionRow.requested_by, FileDeletionRow.state)).all()
    assert rows == [("the experiment's policy", "done")]


def test_what_somebody_may_need_stays_however_old(
    look, age, controller, agent, submit, member_client, show
):
    node = agent(slots=1)
    experiment_id = submit("outputs: {keep: {days: 1, max_size: 1B}}\n", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    record = CheckpointRecord(step=7, path="step-7", size_bytes=1, files={}, metrics={})
    node.send(allocation_id, record)
    node.send_outputs(allocation_id, [kept("a", b"ab")], is_final=False)

    def stays(why):
        age(9)
        look(node)
        _, rows = plan_of(show, experiment_id, "")
        assert rows == [(1, True, why)]
        assert show("/trials/1/outputs/summary")["held"] == why
        assert names(show) == ["a"]

    stays("its trial may still run")
    post(member_client, f"/experiments/{experiment_id}:pause", status=202)
    controller.tick()
    node.state(allocation_id, "STOPPING")
    node.exit(allocation_id, "stopped")
    node.send_outputs(allocation_id, [kept("a", b"ab")], seq=2)
    controller.tick()
    assert show("/trials/1")["state"] == "PAUSED"
    stays("its trial may still run")
    post(member_client, f"/experiments/{experiment_id}:resume", status=202)
    controller.tick()
    again = start(controller, node)
    node.exit(again, "success")
    controller.tick()
    stays("its last files have not been collected")
    node.send_outputs(again, [kept("a", b"ab")], seq=3)
    checkpoint_id = show("/trials/1/checkpoints")["items"][0]["id"]
    post(member_client, f"/checkpoints/{checkpoint_id}:pin", status=200)
    stays("its checkpoint of step 7 is pinned")
    post(member_client, f"/checkpoints/{checkpoint_id}:unpin", status=200)
    look(node)
    assert names(show) == []


def test_of_too_much_the_oldest_go_a_few_in_each_pass(
    look, age, controller, agent, submit, show, monkeypatch
):
    monkeypatch.setattr(retention, "TRIALS_AT_ONCE", 1)
    node = agent(slots=1)
    kept_by_all = submit(slots=1)
    experiment_id = submit("array: {i: 0-2}\noutputs: {keep: {max_size: 2B}}\n", slots=1)
    other_id = submit(KEEP, slots=1)
    controller.tick()
    for no in range(5):
        ended(controller, node, files=[kept(f"f{no}", b"xx")])
    of = {
        e: [t["id"] for t in show(f"/experiments/{e}/trials")["items"]]
        for e in (kept_by_all, experiment_id, other_id)
    }
    for days, trial_id in zip((40, 60, 50), of[experiment_id], strict=True):
        age(days, trial_id)
    age(35, of[other_id][0])
    age(99, of[kept_by_all][0])

    def left():
        return [names(show, trial_id) != [] for trial_id in of[experiment_id]]

    look(node)
    assert (left(), names(show, of[other_id][0]) != []) == ([True, False, True], True)
    look(node, by=EVERY)
    assert names(show, of[other_id][0]) == [], "nobody waits for another experiment"
    for _ in range(2):  # There are no more experiments; then from the first one on again.
        look(node, by=EVERY)
    assert left() == [True, False, False]
    look(node)
    assert left() == [True, False, False]
    assert names(show, of[kept_by_all][0]) != [], "without a policy nothing goes"


def test_a_real_storage_loses_the_outputs_and_nothing_else(
    look, age, controller, agent, submit, show, tmp_path
):
    root = tmp_path / "storage"
    storage = Storage(root)
    node = agent(slots=1, storage_id=storage.id())
    submit(KEEP + "checkpoints: {adopt: 'out/ckpt-*.pt'}\n", slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    spec = node.specs[allocation_id].spec
    storage.claim(spec.checkpoint_dir, spec.cluster_id)
    stored = {}
    for name in ("outputs", adopted(10).folder):
        with contextlib.closing(FolderOutputs(root, f"{spec.checkpoint_dir}/{name}")) as folder:
            stored[name], _ = folder.write([b"10"])
    checkpoint = root / spec.checkpoint_dir / "step-00000005"
    checkpoint.mkdir()
    tell(node, allocation_id, adopted(10))
    record = CheckpointRecord(step=5, path="step-00000005", size_bytes=1, files={}, metrics={})
    node.send(allocation_id, record)
    node.exit(allocation_id, "success")
    node.send_outputs(allocation_id, [kept("out/ckpt-10.pt", b"10")], seq=2)
    controller.tick()
    age(31)
    look(node)
    (deletion,) = node.deletions()
    freed = storage.delete(
        deletion.path,
        request=deletion.id,
        storage_id=deletion.storage_id,
        cluster_id=deletion.cluster_id,
    )
    assert freed >= 2
    assert not (root / spec.checkpoint_dir / "outputs").exists()
    assert checkpoint.exists()
    with contextlib.closing(
        FolderOutputs(root, f"{spec.checkpoint_dir}/{adopted(10).folder}", create=False)
    ) as folder:
        assert b"".join(folder.read(stored[adopted(10).folder])) == b"10"


def test_a_trial_that_goes_on_without_its_outputs_has_its_newest_checkpoint(
    look, age, controller, agent, submit, member_client, show
):
    node = agent(slots=1)
    experiment_id = submit(KEEP + ADOPT, slots=1)
    controller.tick()
    allocation_id = start(controller, node)
    tell(node, allocation_id, adopted(10), adopted(20, no=2))
    node.exit(allocation_id, "success")
    node.send_outputs(allocation_id, [kept("out/ckpt-20.pt", b"20")], seq=2)
    controller.tick()
    age(31)
    look(node)
    assert names(show) == []
    post(member_client, f"/experiments/{experiment_id}:continue", status=202)
    controller.tick()
    (source,) = node.only().spec.work_from
    assert (source.folder, source.source) == (
        f"experiment-{experiment_id}/trial-1/{adopted(20).folder}",
        "step 20 of trial 1.1",
    )
