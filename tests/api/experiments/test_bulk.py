"""One operation on many experiments: preview, digest, and exactly what was previewed."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from muster_server.db.models import AllocationRow, AuditRow, ExperimentRow, TrialRow
from muster_server.schemas.operations import BulkOut, BulkPreviewOut
from muster_server.services.experiments import bulk

pytestmark = pytest.mark.either_database

API = "/api/v1"
TRAINER = "name: digits\ntrainer: {model: mlp}\n"


def submit(client, document=TRAINER):
    answer = client.post(f"{API}/experiments", json={"document": document})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def preview(client, action, **body):
    answer = client.post(f"{API}/experiments:bulk-preview", json={"action": action, **body})
    assert answer.status_code == 200, answer.text
    return BulkPreviewOut.model_validate(answer.json())


def perform(client, action, digest, *, key=None, **body):
    headers = {"Idempotency-Key": key} if key else {}
    sent = {"action": action, "digest": digest, **body}
    answer = client.post(f"{API}/experiments:bulk", json=sent, headers=headers)
    assert answer.status_code == 200, answer.text
    return BulkOut.model_validate(answer.json())


def refusal(client, path, **body):
    answer = client.post(f"{API}/experiments:{path}", json=body)
    assert answer.status_code >= 400, answer.text
    return answer.json()["error"]


def finish(database, *experiment_ids, state="COMPLETED"):
    with database.transaction() as session:
        for row in (ExperimentRow, TrialRow):
            column = ExperimentRow.id if row is ExperimentRow else TrialRow.experiment_id
            session.execute(update(row).where(column.in_(experiment_ids)).values(state=state))
        session.execute(update(AllocationRow).values(observed="CLEANED"))


def desired(database):
    with database.read() as session:
        return dict(session.execute(select(ExperimentRow.id, ExperimentRow.desired)).all())


@pytest.mark.both_databases
def test_a_filter_touches_exactly_what_it_selects(member_client, database):
    mine = [submit(member_client, TRAINER + "labels: {team: a}") for _ in range(3)]
    others = [submit(member_client, TRAINER + "labels: {team: b}"), submit(member_client)]
    selection = {"filter": {"label": ["team=a"]}}
    seen = preview(member_client, "stop", **selection)
    assert [i.id for i in seen.items] == mine
    assert (seen.num, seen.num_changes, seen.num_refused) == (3, 3, 0)
    assert set(desired(database).values()) == {"run"}, "a preview changes nothing"
    done = perform(member_client, "stop", seen.digest, **selection)
    assert [(i.id, i.outcome) for i in done.items] == [(id_, "changes") for id_ in mine]
    assert desired(database) == {**dict.fromkeys(mine, "stop"), **dict.fromkeys(others, "run")}


def test_a_changed_selection_is_refused_and_nothing_is_done(member_client, database):
    first = submit(member_client, TRAINER + "labels: {team: a}")
    selection = {"filter": {"label": ["team=a"]}}
    seen = preview(member_client, "stop", **selection)
    second = submit(member_client, TRAINER + "labels: {team: a}")
    error = refusal(member_client, "bulk", action="stop", digest=seen.digest, **selection)
    assert error["code"] == "bulk.selection_changed"
    assert desired(database) == {first: "run", second: "run"}


def test_a_digest_is_good_for_its_action_alone(member_client, database):
    experiment_id = submit(member_client)
    seen = preview(member_client, "pause", ids=[experiment_id])
    error = refusal(member_client, "bulk", action="kill", digest=seen.digest, ids=[experiment_id])
    assert error["code"] == "bulk.selection_changed"
    labels = preview(member_client, "label", ids=[experiment_id], set_labels={"a": "1"})
    error = refusal(
        member_client,
        "bulk",
        action="label",
        digest=labels.digest,
        ids=[experiment_id],
        set_labels={"a": "2"},
    )
    assert error["code"] == "bulk.selection_changed"
    assert desired(database) == {experiment_id: "run"}


def test_each_one_has_its_own_outcome(member_client, connect, make_user_token, database):
    running, ended = submit(member_client), submit(member_client)
    theirs = submit(connect(token=make_user_token("member", username="eve")))
    finish(database, ended)
    listed = [theirs, running, ended, 9999, running]
    seen = preview(member_client, "pause", ids=listed)
    expected = {
        running: ("changes", None),
        ended: ("refused", "experiments.ended"),
        theirs: ("refused", "experiments.not_yours"),
        9999: ("refused", "experiments.not_found"),
    }
    assert {i.id: (i.outcome, i.code) for i in seen.items} == expected
    done = perform(member_client, "pause", seen.digest, ids=listed)
    assert {i.id: (i.outcome, i.code) for i in done.items} == expected
    assert (done.num_changed, done.num_unchanged, done.num_refused) == (1, 0, 3)
    again = perform(member_client, "pause", seen.digest, ids=listed)
    assert (again.num_changed, again.num_unchanged) == (0, 1)
    with database.read() as session:
        lines = session.execute(
            select(AuditRow.subject, AuditRow.detail).where(
                AuditRow.action == "experiments.pause_requested"
            )
        ).all()
    assert [(subject, detail["bulk"]) for subject, detail in lines] == [
        (f"experiment:{running}", seen.digest[:16])
    ]


def test_labels_are_set_and_removed_beside_the_others(member_client):
    first = submit(member_client, TRAINER + "labels: {team: a, old: x}")
    second = submit(member_client)
    body = {"ids": [first, second], "set_labels": {"phase": "2"}, "remove_labels": ["old"]}
    perform(member_client, "label", preview(member_client, "label", **body).digest, **body)
    labels = {
        id_: member_client.get(f"{API}/experiments/{id_}").json()["labels"]
        for id_ in (first, second)
    }
    assert labels == {first: {"team": "a", "phase": "2"}, second: {"phase": "2"}}


def test_a_selection_beyond_the_bound_is_refused_not_cut(member_client, database, monkeypatch):
    monkeypatch.setattr(bulk, "MAX_SELECTED", 2)
    ids = [submit(member_client) for _ in range(3)]
    for selection in ({"filter": {"q": "digits"}}, {"ids": ids}):
        error = refusal(member_client, "bulk-preview", action="stop", **selection)
        assert error["code"] == "bulk.too_many"
        assert error["message"].startswith("3 experiments")
    assert preview(member_client, "stop", ids=ids[:2]).num == 2
    assert set(desired(database).values()) == {"run"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"action": "stop"}, "filter"),
        ({"action": "stop", "ids": [1], "filter": {"q": "x"}}, "filter"),
        ({"action": "stop", "filter": {}}, "filter"),
        ({"action": "stop", "filter": {"archived": "include"}}, "filter"),
        ({"action": "stop", "ids": [1], "set_labels": {"a": "b"}}, "set_labels"),
        ({"action": "label", "ids": [1]}, "set_labels"),
    ],
)
def test_what_cannot_be_meant_is_refused(member_client, body, path):
    error = refusal(member_client, "bulk-preview", **body)
    assert (error["code"], error["fields"][0]["path"]) == ("bulk.invalid", path)


def test_nothing_is_done_without_a_preview(member_client, database):
    experiment_id = submit(member_client)
    error = refusal(member_client, "bulk", action="stop", ids=[experiment_id])
    assert (error["code"], error["fields"][0]["path"]) == ("bulk.invalid", "digest")
    assert desired(database) == {experiment_id: "run"}


def test_a_repeated_request_is_answered_as_the_first(member_client, database):
    experiment_id = submit(member_client)
    selection = {"filter": {"state": ["QUEUED"]}}
    seen = preview(member_client, "stop", **selection)
    first = perform(member_client, "stop", seen.digest, key="abc", **selection)
    finish(database, experiment_id, state="CANCELED")  # the filter selects nothing any more
    assert perform(member_client, "stop", seen.digest, key="abc", **selection) == first


@pytest.mark.both_databases
def test_deleting_many_says_what_is_freed_and_leaves_the_others(member_client, database):
    ended = [submit(member_client) for _ in range(2)]
    going_on = submit(member_client)
    finish(database, *ended)
    listed = [*ended, going_on]
    seen = preview(member_client, "delete", ids=listed)
    assert seen.freed.num_trials == 2
    assert [(i.id, i.outcome) for i in seen.items] == [
        (ended[0], "changes"), (ended[1], "changes"), (going_on, "refused"),
    ]  # fmt: skip
    done = perform(member_client, "delete", seen.digest, ids=listed)
    assert (done.num_changed, done.num_refused) == (2, 1)
    left = member_client.get(f"{API}/experiments").json()["items"]
    assert [e["id"] for e in left] == [going_on]
