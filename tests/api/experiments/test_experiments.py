"""Experiments and trials over REST."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import math
import tarfile

import pytest
from sqlalchemy import func, select, update

from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    AuditRow,
    BlobChunkRow,
    BlobRow,
    CheckpointRow,
    EventRow,
    ExperimentRow,
    MetricBatchRow,
    ProcessGroupRow,
    SearchEventRow,
    TrialRow,
    WorkerRow,
)
from muster_server.schemas.base import Page
from muster_server.schemas.cluster import EventOut
from muster_server.schemas.experiments import (
    CheckpointOut,
    ExperimentDetail,
    ExperimentOut,
    HeadlineOut,
    PreviewOut,
    ProcessGroupOut,
    SearchOut,
    TrialDetail,
    TrialOut,
    WorkerOut,
)
from muster_server.schemas.operations import DeletionOut
from muster_server.services.experiments import deletion
from support.data import add_attempt

pytestmark = pytest.mark.either_database

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
API = "/api/v1"
TRAINER = "name: digits\ntrainer: {model: mlp}\n"
ASHA = (
    TRAINER
    + """
resources: {slots: 2}
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: asha, metric: val/loss, goal: min, trials: 9, max_length: {epochs: 9},
  divisor: 3, concurrent: 3}
"""
)


def submit(client, document=TRAINER, *, status=201, key=None, **more):
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post(f"{API}/experiments", json={"document": document, **more}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


def get(client, path, model=None, *, status=200, **params):
    answer = client.get(f"{API}{path}", params=params)
    assert answer.status_code == status, answer.text
    return model.model_validate(answer.json()) if model else answer.json()


def finish(database, experiment_id, state="COMPLETED"):
    with database.transaction() as session:
        session.get_one(ExperimentRow, experiment_id).state = state
        for trial in session.scalars(
            select(TrialRow).where(TrialRow.experiment_id == experiment_id)
        ):
            trial.state = state
        session.execute(update(AllocationRow).values(observed="CLEANED"))


def upload(database, *names):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    with database.transaction() as session:
        session.add(BlobRow(sha256=digest, size_bytes=len(data), created_at=NOW))
        session.flush()
        session.add(BlobChunkRow(sha256=digest, idx=0, data=data))
    return digest


# ---------------------------------------------------------------- submitting


def test_submitting_stores_the_experiment_and_its_first_trials(member_client):
    detail = ExperimentDetail.model_validate(submit(member_client, ASHA))
    assert (detail.state, detail.owner, detail.project) == ("QUEUED", "member", "default")
    assert (detail.searcher, detail.num_trials, detail.num_trials_planned) == ("asha", 3, 9)
    assert detail.num_trials_by_state == {"QUEUED": 3}
    assert detail.progress == 0
    assert detail.only_trial_id is None
    assert detail.slots_per_trial == 2
    assert detail.config["search"]["rungs"] == 5
    assert detail.document == ASHA
    trials = get(member_client, f"/experiments/{detail.id}/trials", Page[TrialOut]).items
    assert [t.no for t in trials] == [1, 2, 3]
    assert len({t.hparams["lr"] for t in trials}) == 3


def test_a_plain_training_is_an_experiment_of_one_trial(member_client):
    detail = ExperimentDetail.model_validate(submit(member_client))
    assert detail.num_trials_planned == 1
    trial = get(member_client, f"/trials/{detail.only_trial_id}", TrialDetail)
    assert (trial.no, trial.state, trial.attempts) == (1, "QUEUED", [])
    assert trial.config == detail.config


def test_a_bad_document_is_refused_with_every_problem_and_nothing_stored(member_client, database):
    body = submit(member_client, "name: x\nresources: {slots: 10000, slt: 1}", status=422)
    assert body["error"]["code"] == "experiments.invalid_document"
    assert [(f["path"], f["message"]) for f in body["error"]["fields"]] == [
        ("resources.slots", "must be at most 4096, got 10000"),
        ("resources.slt", "does not exist"),
    ]
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(ExperimentRow)) == 0


def test_an_entry_point_needs_code(member_client):
    body = submit(member_client, "name: x\nentrypoint: train.py", status=422)
    (field,) = body["error"]["fields"]
    assert field["path"] == "code"
    assert "muster submit" in field["hint"]
    submit(member_client, "name: x\nentrypoint: -m my_package.train")
    submit(member_client, "name: x\nentrypoint: train.py\ncode: {installed: /shared/x}")


def test_functions_for_the_trainer_need_code_and_what_is_built_in_needs_none(
    member_client, database
):
    digest = upload(database, "nets.py")
    document = "name: x\ntrainer: {model: 'nets:net'}\ncode: {path: .}"
    body = submit(member_client, document, status=422)
    (field,) = body["error"]["fields"]
    assert (field["path"], field["message"]) == (
        "code",
        "no code was uploaded for the functions",
    )
    submit(member_client, document, blob_sha256=digest)
    submit(member_client, document.replace("path: .", "installed: /shared/x"))
    body = submit(member_client, "name: x\ntrainer: {}", blob_sha256=digest, status=422)
    assert body["error"]["fields"][0]["path"] == "blob_sha256"


def test_a_missing_entry_file_is_named_with_near_ones(member_client, database):
    digest = upload(database, "train.py", "model.py")
    document = "name: x\nentrypoint: trian.py"
    body = submit(member_client, document, blob_sha256=digest, status=422)
    (field,) = body["error"]["fields"]
    assert field["path"] == "entrypoint"
    assert "'trian.py'" in field["message"]
    assert "train.py" in field["hint"]
    submit(member_client, document.replace("trian", "train"), blob_sha256=digest)
    body = submit(member_client, document, blob_sha256="0" * 64, status=422)
    assert body["error"]["fields"][0]["path"] == "blob_sha256"


def test_overrides_are_applied(member_client):
    detail = submit(member_client, ASHA, overrides=["resources.slots=4", "search.concurrent=1"])
    assert detail["slots_per_trial"] == 4
    assert detail["num_trials"] == 1


@pytest.mark.both_databases
def test_a_repeated_submission_with_the_same_key_counts_once(member_client, admin_client):
    first = submit(member_client, key="abc")
    assert submit(member_client, key="abc")["id"] == first["id"]
    assert submit(admin_client, key="abc")["id"] != first["id"], "keys belong to their user"
    body = submit(member_client, ASHA, key="abc", status=409)
    assert body["error"]["code"] == "request.idempotency_key_reused"


def test_a_refused_submission_does_not_use_up_its_key(member_client):
    submit(member_client, "name: x", key="abc", status=422)
    submit(member_client, key="abc")


def test_viewers_may_look_but_not_submit(viewer_client, member_client):
    submit(viewer_client, status=403)
    experiment = submit(member_client)
    get(viewer_client, f"/experiments/{experiment['id']}", ExperimentDetail)


# ---------------------------------------------------------------- preview


def test_preview_shows_exactly_what_a_submission_creates(member_client, database):
    answer = member_client.post(f"{API}/experiments:preview", json={"document": ASHA})
    assert answer.status_code == 200
    preview = PreviewOut.model_validate(answer.json())
    assert preview.valid
    assert preview.num_trials == 9
    assert preview.origins["resources.slots"] == "document"
    assert [(r["units"], r["max_trials"]) for r in preview.rungs] == [(1, 9), (3, 9), (9, 9)]
    counts = [r["expected_trials"] for r in preview.rungs]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 9
    assert not preview.fits_now
    assert preview.fit_reason
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(ExperimentRow)) == 0
    experiment = submit(member_client, ASHA)
    trials = get(member_client, f"/experiments/{experiment['id']}/trials", Page[TrialOut]).items
    assert [t.hparams for t in trials] == [p.hparams for p in preview.sampled_trials[:3]]


def test_preview_of_a_bad_document_is_an_answer_not_an_error(member_client):
    answer = member_client.post(f"{API}/experiments:preview", json={"document": "a: *b"})
    assert answer.status_code == 200
    preview = PreviewOut.model_validate(answer.json())
    assert not preview.valid
    assert preview.config is None
    assert "aliases" in preview.errors[0].message


# ---------------------------------------------------------------- lists


@pytest.mark.both_databases
def test_lists_are_newest_first_and_paged(member_client):
    ids = [submit(member_client)["id"] for _ in range(5)]
    seen, cursor = [], None
    while True:
        params = {"cursor": cursor} if cursor else {}
        page = get(member_client, "/experiments", Page[ExperimentOut], limit=2, **params)
        assert len(page.items) <= 2
        seen += [item.id for item in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    "cursor", ["x", "bnVsbA", "WzEsMl0", "WyJhIl0", "W3RydWVd", "é", "A" * 600]
)
def test_a_cursor_we_never_made_is_refused(member_client, cursor):
    body = get(member_client, "/experiments", status=422, cursor=cursor)
    assert body["error"]["code"].startswith("request.")


@pytest.mark.both_databases
def test_filters(member_client, database):
    first = submit(member_client, TRAINER.replace("digits", "50%_Digits"))["id"]
    second = submit(member_client, TRAINER + "project: vision")["id"]
    finish(database, second)

    def ids(**params):
        return [
            e.id for e in get(member_client, "/experiments", Page[ExperimentOut], **params).items
        ]

    assert ids(state="COMPLETED") == [second]
    assert ids(state=["COMPLETED", "QUEUED"]) == [second, first]
    assert ids(project="vision") == [second]
    assert ids(q="digits") == [second, first]
    assert ids(q="%_d") == [first]
    assert get(member_client, "/experiments", status=422, state="BROKEN")
    assert member_client.post(f"{API}/experiments/{first}:archive").status_code == 409
    assert member_client.post(f"{API}/experiments/{second}:archive").status_code == 200
    assert ids() == [first]
    assert ids(archived="include") == [second, first]
    assert member_client.post(f"{API}/experiments/{second}:unarchive").status_code == 200
    assert ids() == [second, first]


@pytest.mark.parametrize("limit", [0, 201, -1])
def test_pages_have_a_limit(member_client, limit):
    get(member_client, "/experiments", status=422, limit=limit)


@pytest.mark.both_databases
def test_trials_sorted_by_metric_page_through_ties_and_missing_values(member_client, database):
    document = ASHA.replace("concurrent: 3", "concurrent: 9")
    experiment_id = submit(member_client, document)["id"]
    metrics = [0.5, None, 0.1, 0.5, None, 0.3, 0.5, 0.9, None]
    with database.transaction() as session:
        for trial in session.scalars(select(TrialRow)):
            trial.metric = metrics[trial.no - 1]
    for sort, expected in {
        "metric": [3, 6, 1, 4, 7, 8, 2, 5, 9],
        "-metric": [8, 1, 4, 7, 6, 3, 2, 5, 9],
        "no": list(range(1, 10)),
        "-no": list(range(9, 0, -1)),
    }.items():
        seen, cursor = [], None
        while True:
            params = {"cursor": cursor} if cursor else {}
            path = f"/experiments/{experiment_id}/trials"
            page = get(member_client, path, Page[TrialOut], sort=sort, limit=2, **params)
            seen += [item.no for item in page.items]
            cursor = page.next
            if cursor is None:
                break
        assert seen == expected, sort


# ---------------------------------------------------------------- changing


def test_patch_changes_what_a_user_may_change(member_client):
    experiment_id = submit(member_client)["id"]
    answer = member_client.patch(
        f"{API}/experiments/{experiment_id}",
        json={"name": "other", "notes": "n", "labels": {"a": "b"}, "priority": 90},
    )
    assert answer.status_code == 200, answer.text
    detail = ExperimentDetail.model_validate(answer.json())
    assert (detail.name, detail.notes, detail.labels, detail.priority) == (
        "other",
        "n",
        {"a": "b"},
        90,
    )
    events = get(member_client, f"/experiments/{experiment_id}/events", Page[EventOut]).items
    assert events[0].message == "Priority changed from 50 to 90."
    bad = member_client.patch(f"{API}/experiments/{experiment_id}", json={"state": "COMPLETED"})
    assert bad.status_code == 422


def test_stop_asks_every_trial_to_stop_and_ends_the_search(member_client, database):
    experiment_id = submit(member_client, ASHA)["id"]
    for _ in range(2):
        answer = member_client.post(f"{API}/experiments/{experiment_id}:stop")
        assert answer.status_code == 202
        ExperimentOut.model_validate(answer.json())
    with database.read() as session:
        trials = session.scalars(select(TrialRow)).all()
        assert {t.desired for t in trials} == {"stop"}
        assert session.get_one(ExperimentRow, experiment_id).desired == "stop"
        kinds = session.scalars(select(EventRow.type)).all()
        assert kinds.count("experiment.stop_requested") == 1
    assert get(member_client, f"/experiments/{experiment_id}/search", SearchOut).finished


def test_stop_of_one_trial_leaves_the_others(member_client, database):
    experiment_id = submit(member_client, ASHA)["id"]
    trial = get(member_client, f"/experiments/{experiment_id}/trials", Page[TrialOut]).items[1]
    answer = member_client.post(f"{API}/trials/{trial.id}:stop")
    assert answer.status_code == 202
    assert TrialOut.model_validate(answer.json()).reason == "Stopped by member."
    with database.read() as session:
        desired = {t.no: t.desired for t in session.scalars(select(TrialRow))}
    assert desired == {1: "run", 2: "stop", 3: "run"}


@pytest.mark.both_databases
def test_delete_removes_everything_it_recorded(member_client, database):
    experiment_id = submit(member_client, ASHA)["id"]
    assert member_client.delete(f"{API}/experiments/{experiment_id}").status_code == 409
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow)).first()
        add_attempt(session, trial)
    finish(database, experiment_id)
    with database.transaction() as session:
        session.add(
            MetricBatchRow(
                allocation_id="a",
                seq=1,
                trial_id=trial.id,
                attempt_no=1,
                rank=0,
                num_points=1,
                first_step=1,
                last_step=1,
                received_at=NOW,
                body=b"",
            )
        )
    answer = member_client.delete(f"{API}/experiments/{experiment_id}")
    is_complete = DeletionOut.model_validate(answer.json()).complete
    while not is_complete:  # A slow machine leaves the rest to the controller, which does this.
        is_complete = deletion.clear(database, only=experiment_id)
    get(member_client, f"/experiments/{experiment_id}", status=404)
    with database.read() as session:
        for row in (ExperimentRow, TrialRow, EventRow, SearchEventRow, MetricBatchRow):
            assert session.scalar(select(func.count()).select_from(row)) == 0, row.__tablename__


def test_what_people_do_is_in_the_audit_trail(member_client, database):
    detail = submit(member_client, key="abc")
    submit(member_client, key="abc")
    path = f"{API}/experiments/{detail['id']}"
    member_client.patch(path, json={"notes": "secret words"})
    member_client.post(f"{API}/trials/{detail['only_trial_id']}:stop")
    member_client.post(f"{path}:stop")
    finish(database, detail["id"])
    member_client.post(f"{path}:archive")
    member_client.delete(path)
    assert member_client.delete(path).status_code == 404
    with database.read() as session:
        rows = session.execute(select(AuditRow.actor, AuditRow.action, AuditRow.detail)).all()
    assert {row.actor for row in rows} == {"token:1 (member)"}
    assert [row.action for row in rows] == [
        "experiments.submitted",
        "experiments.changed",
        "trials.stop_requested",
        "experiments.stop_requested",
        "experiments.archived",
        "experiments.deleted",
    ]
    assert rows[1].detail == {"fields": ["notes"]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/experiments/99"),
        ("GET", "/experiments/99/trials"),
        ("GET", "/experiments/99/events"),
        ("GET", "/experiments/99/search"),
        ("POST", "/experiments/99:stop"),
        ("POST", "/experiments/99:archive"),
        ("DELETE", "/experiments/99"),
        ("GET", "/trials/99"),
        ("POST", "/trials/99:stop"),
        ("GET", "/trials/99/workers"),
        ("GET", "/trials/99/groups"),
        ("GET", "/trials/99/checkpoints"),
        ("GET", "/trials/99/events"),
    ],
)
def test_what_does_not_exist_is_not_found(member_client, method, path):
    answer = member_client.request(method, f"{API}{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"].endswith(".not_found")


# ---------------------------------------------------------------- trials


@pytest.mark.both_databases
def test_a_trial_shows_attempts_workers_groups_and_checkpoints(member_client, database):
    document = TRAINER + "search: {metric: val/loss, goal: min}"
    trial_id = submit(member_client, document)["only_trial_id"]
    with database.transaction() as session:
        trial = session.get_one(TrialRow, trial_id)
        trial.summary = {
            "train/loss": {"last": "NaN", "min": 0.1, "max": 0.9, "count": 7, "step": 12}
        }
        add_attempt(session, trial, no=1)
        allocations = add_attempt(session, trial, no=2, num_nodes=2)
        for allocation in allocations:
            for local_rank in (0, 1):
                rank = allocation.rank_offset + local_rank
                session.add(
                    WorkerRow(
                        allocation_id=allocation.id,
                        trial_id=trial_id,
                        attempt_no=2,
                        rank=rank,
                        local_rank=local_rank,
                        node_rank=allocation.node_rank,
                        world_size=4,
                        node_name=allocation.node_name,
                        slot=local_rank,
                        pid=1000 + rank,
                        host="h",
                        master_addr="10.0.0.1",
                        master_port=29400,
                        latest={"time/step_ms": 1.5, "train/loss": "Infinity"},
                        last_report_at=NOW + dt.timedelta(seconds=rank),
                        started_at=NOW,
                    )
                )
        session.add(
            ProcessGroupRow(
                trial_id=trial_id,
                attempt_no=2,
                name="world",
                kind="world",
                backend="gloo",
                ranks=[0, 1, 2, 3],
            )
        )
        for step, value in ((10, 0.5), (20, 0.3), (30, "NaN")):
            session.add(
                CheckpointRow(
                    trial_id=trial_id,
                    attempt_no=1,
                    step=step,
                    path=f"step-{step}",
                    node_name="node-1",
                    size_bytes=10,
                    files={"a": "0"},
                    metrics={"val/loss": value},
                    created_at=NOW,
                )
            )
            session.flush()
        trial.latest_checkpoint_id = session.scalar(select(func.max(CheckpointRow.id)))

    detail = get(member_client, f"/trials/{trial_id}", TrialDetail)
    assert [(a.no, a.nodes, a.world_size) for a in detail.attempts] == [
        (2, ["node-1", "node-2"], 4),
        (1, ["node-1"], 2),
    ]
    assert detail.last_report_at == NOW + dt.timedelta(seconds=3)
    raw = get(member_client, f"/trials/{trial_id}")
    assert raw["summary"]["train/loss"]["last"] == "NaN"
    with database.transaction() as session:
        entry = {"last": 1.0, "min": 1.0, "max": 1.0, "count": 1, "step": 1}
        names = (
            "time/step_ms", "comm/exposed_ms", "pipeline/bubble_ms",
            "comm/world/all_reduce/ms", "layers/norm_1",
        )  # fmt: skip
        trial = session.get_one(TrialRow, trial_id)
        trial.summary = trial.summary | dict.fromkeys(names, entry)
    headline = get(member_client, f"/trials/{trial_id}", summary="headline")["summary"]
    assert set(headline) == {"train/loss", *names[:3]}
    assert set(get(member_client, f"/trials/{trial_id}")["summary"]) == {"train/loss", *names}
    for termination, num_restarts in (("preempted", 0), ("drained", 0), ("node_lost", 1)):
        with database.transaction() as session:
            first = select(AttemptRow).where(AttemptRow.trial_id == trial_id, AttemptRow.no == 1)
            session.scalars(first).one().termination = termination
        assert get(member_client, f"/trials/{trial_id}")["num_restarts"] == num_restarts

    path = f"/trials/{trial_id}/workers"
    page = get(member_client, path, limit=3)
    assert [w["rank"] for w in page["items"]] == [0, 1, 2]
    assert page["items"][0]["latest"] == {"time/step_ms": 1.5, "train/loss": "Infinity"}
    rest = get(member_client, path, Page[WorkerOut], limit=3, cursor=page["next"])
    assert [w.rank for w in rest.items] == [3]
    assert get(member_client, path, Page[WorkerOut], attempt=1).items == []

    (group,) = get(member_client, f"/trials/{trial_id}/groups", Page[ProcessGroupOut]).items
    assert (group.name, group.size, group.ranks) == ("world", 4, [0, 1, 2, 3])

    checkpoints = get(member_client, f"/trials/{trial_id}/checkpoints")["items"]
    assert [(c["step"], c["is_latest"], c["is_best"]) for c in checkpoints] == [
        (30, True, False),
        (20, False, True),
        (10, False, False),
    ]
    assert checkpoints[0]["metrics"] == {"val/loss": "NaN"}
    CheckpointOut.model_validate({**checkpoints[1]})
    events = get(member_client, f"/trials/{trial_id}/events", Page[EventOut]).items
    assert [e.type for e in events] == ["trial.created"]


def test_progress_counts_the_work_of_running_trials(member_client, database):
    experiment_id = submit(member_client, ASHA)["id"]
    with database.transaction() as session:
        first, second, _ = session.scalars(select(TrialRow).order_by(TrialRow.no))
        first.state = "COMPLETED"
        second.state, second.step, second.num_steps_planned = "RUNNING", 50, 100
    out = get(member_client, f"/experiments/{experiment_id}", ExperimentDetail)
    assert out.progress is not None
    assert math.isclose(out.progress, 1.5 / 9)


def test_a_failed_experiment_came_as_far_as_its_steps(member_client, database):
    experiment_id = submit(member_client)["id"]
    with database.transaction() as session:
        session.scalars(select(ExperimentRow)).one().state = "FAILED"
        trial = session.scalars(select(TrialRow)).one()
        trial.state, trial.step, trial.num_steps_planned = "FAILED", 25, 100
    out = get(member_client, f"/experiments/{experiment_id}", ExperimentDetail)
    assert out.progress == 0.25


def test_a_single_running_trial_says_which_metric_is_not_finite(member_client, database):
    single, searching = submit(member_client)["id"], submit(member_client, ASHA)["id"]

    def report(state: str, **last: float | str) -> None:
        with database.transaction() as session:
            for trial in session.scalars(select(TrialRow)):
                trial.state = state
                trial.summary = {
                    name.replace("_", "/"): {
                        "last": value,
                        "min": 0,
                        "max": 1,
                        "count": 1,
                        "step": 1,
                    }
                    for name, value in last.items()
                }

    def shown() -> tuple[str | None, ...]:
        page = get(member_client, "/experiments", Page[ExperimentOut])
        by_id = {item.id: item.non_finite_metric for item in page.items}
        return by_id[single], by_id[searching]

    report("RUNNING", train_loss=0.5)
    assert shown() == (None, None)
    report("RUNNING", train_grad="Infinity", train_loss="NaN")
    assert shown() == ("train/loss", None)
    report("COMPLETED", train_loss="NaN")
    assert shown() == (None, None)


@pytest.mark.both_databases
def test_every_experiment_shows_a_metric_in_lists(member_client, database):
    single = submit(member_client)["id"]
    greatest = ASHA.replace("goal: min", "goal: max").replace("val/loss", "val/accuracy")
    searching = submit(member_client, greatest)["id"]
    losses, accuracies = [0.9, 0.2, 0.4], [0.1, 0.8, 0.6]

    def headlines() -> tuple[HeadlineOut | None, ...]:
        page = get(member_client, "/experiments", Page[ExperimentOut])
        by_id = {item.id: item.headline for item in page.items}
        return by_id[single], by_id[searching]

    assert headlines() == (None, None)
    ids: dict[int, int] = {}
    with database.transaction() as session:
        for trial in session.scalars(select(TrialRow).order_by(TrialRow.id)):
            ids.setdefault(trial.experiment_id, trial.id)
            trial.summary = {
                name: {"last": v[-1], "min": min(v), "max": max(v), "count": 3, "step": 30}
                for name, v in {"val/loss": losses, "val/accuracy": accuracies}.items()
            }
    alone, search = headlines()
    assert alone == HeadlineOut(name="val/loss", trial_id=ids[single], last=0.4, best=0.2, step=30)
    assert search == HeadlineOut(
        name="val/accuracy", trial_id=ids[searching], last=0.6, best=0.8, step=30
    )
