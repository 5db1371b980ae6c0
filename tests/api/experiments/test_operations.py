"""Pause, resume, stop, kill, archive, label and budgets over REST, and who may do them."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import func, select, update

from muster_server.db.models import (
    AllocationRow,
    AuditRow,
    EventRow,
    ExperimentRow,
    SpendingRow,
    TrialRow,
)
from muster_server.domain.search import Searcher
from muster_server.schemas.base import Page
from muster_server.schemas.experiments import ExperimentDetail, ExperimentOut, TrialOut

pytestmark = pytest.mark.either_database

API = "/api/v1"
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
TRAINER = "name: digits\ntrainer: {model: mlp}\n"
SEARCH = (
    TRAINER
    + "hyperparameters: {lr: {log: [1e-4, 1e-1]}}\nsearch: {method: random, trials: 4, concurrent: 4}\n"
)


def submit(client, document=TRAINER, **more):
    answer = client.post(f"{API}/experiments", json={"document": document, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def do(client, experiment_id, verb, *, status=None, code=None, **body):
    answer = client.post(
        f"{API}/experiments/{experiment_id}:{verb}", **({"json": body} if body else {})
    )
    if code is not None:
        assert answer.json()["error"]["code"] == code, answer.text
        return answer.json()["error"]
    expected = status or (200 if verb in ("archive", "unarchive") else 202)
    assert answer.status_code == expected, answer.text
    return ExperimentOut.model_validate(answer.json())


def show(client, experiment_id):
    answer = client.get(f"{API}/experiments/{experiment_id}")
    assert answer.status_code == 200, answer.text
    return ExperimentDetail.model_validate(answer.json())


def finish(database, experiment_id, state="COMPLETED"):
    with database.transaction() as session:
        session.get_one(ExperimentRow, experiment_id).state = state
        session.execute(
            update(TrialRow).where(TrialRow.experiment_id == experiment_id).values(state=state)
        )
        session.execute(update(AllocationRow).values(observed="CLEANED"))


def events(database, kind):
    with database.read() as session:
        return session.scalars(
            select(EventRow.message).where(EventRow.type == kind).order_by(EventRow.id)
        ).all()


def audited(database):
    with database.read() as session:
        return session.scalars(select(AuditRow.action).order_by(AuditRow.id)).all()


# ---------------------------------------------------------------- wanted states


@pytest.mark.parametrize(
    ("verb", "desired", "event"),
    [
        ("pause", "pause", "experiment.pause_requested"),
        ("stop", "stop", "experiment.stop_requested"),
        ("kill", "kill", "experiment.kill_requested"),
    ],
)
def test_what_is_wanted_is_written_down_once(member_client, database, verb, desired, event):
    experiment_id = submit(member_client, SEARCH)
    for _ in range(2):
        assert do(member_client, experiment_id, verb).desired == desired
    assert show(member_client, experiment_id).desired == desired
    assert len(events(database, event)) == 1
    assert audited(database).count(f"experiments.{verb}_requested") == 1


def test_resume_undoes_a_pause_and_nothing_else(member_client, database):
    experiment_id = submit(member_client)
    assert do(member_client, experiment_id, "resume").desired == "run"
    assert events(database, "experiment.resumed") == []
    do(member_client, experiment_id, "pause")
    resumed = do(member_client, experiment_id, "resume")
    assert (resumed.desired, resumed.reason) == ("run", "Resumed by member.")
    do(member_client, experiment_id, "stop")
    do(member_client, experiment_id, "resume", code="experiments.stopping")
    do(member_client, experiment_id, "pause", code="experiments.stopping")


def test_kill_goes_beyond_stop_and_not_back(member_client, database):
    experiment_id = submit(member_client, SEARCH)
    do(member_client, experiment_id, "stop")
    do(member_client, experiment_id, "kill")
    assert do(member_client, experiment_id, "stop").desired == "kill"
    with database.read() as session:
        assert set(session.scalars(select(TrialRow.desired))) == {"kill"}
        state = session.get_one(ExperimentRow, experiment_id).search_state
    assert Searcher.from_state(state).is_finished


def test_one_trial_is_killed_alone(member_client, database):
    experiment_id = submit(member_client, SEARCH)
    trials = member_client.get(f"{API}/experiments/{experiment_id}/trials").json()["items"]
    for _ in range(2):
        answer = member_client.post(f"{API}/trials/{trials[1]['id']}:kill")
        assert answer.status_code == 202
        assert TrialOut.model_validate(answer.json()).reason == "Killed by member."
    member_client.post(f"{API}/trials/{trials[1]['id']}:stop")
    with database.read() as session:
        desired = session.scalars(select(TrialRow.desired).order_by(TrialRow.no)).all()
    assert desired == ["run", "kill", "run", "run"]
    assert len(events(database, "trial.kill_requested")) == 1


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_has_ended_cannot_be_paused_or_resumed(member_client, database, verb):
    experiment_id = submit(member_client)
    finish(database, experiment_id)
    error = do(member_client, experiment_id, verb, code="experiments.ended")
    assert "COMPLETED" in error["message"]


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_stopping_what_has_ended_changes_nothing(member_client, database, verb):
    experiment_id = submit(member_client)
    finish(database, experiment_id)
    assert do(member_client, experiment_id, verb).desired == "run"
    assert audited(database) == ["experiments.submitted"]


def test_an_archived_experiment_is_hidden_and_readable(member_client, database):
    experiment_id = submit(member_client)
    do(member_client, experiment_id, "archive", code="experiments.not_ended")
    finish(database, experiment_id)
    do(member_client, experiment_id, "archive")
    assert ids(member_client) == []
    assert ids(member_client, archived="include") == [experiment_id]
    assert ids(member_client, archived="only") == [experiment_id]
    assert show(member_client, experiment_id).archived_at is not None
    do(member_client, experiment_id, "unarchive")
    assert ids(member_client) == [experiment_id]
    assert ids(member_client, archived="only") == []


# ---------------------------------------------------------------- whose it is


VERBS = ["pause", "resume", "stop", "kill", "continue", "archive", "unarchive"]


@pytest.mark.parametrize("verb", VERBS)
def test_only_the_owner_and_administrators_change_an_experiment(
    member_client, connect, make_user_token, verb
):
    experiment_id = submit(member_client)
    other = connect(token=make_user_token("member", username="eve"))
    path = f"{API}/experiments/{experiment_id}:{verb}"
    answer = other.post(path, json={} if verb == "continue" else None)
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert error["code"] == "experiments.not_yours"
    assert "belongs to member" in error["message"]


def test_other_ways_to_change_it_are_closed_as_well(
    member_client, viewer_client, connect, make_user_token, database
):
    experiment_id = submit(member_client)
    trial_id = member_client.get(f"{API}/experiments/{experiment_id}/trials").json()["items"][0][
        "id"
    ]
    other = connect(token=make_user_token("member", username="eve"))
    path = f"{API}/experiments/{experiment_id}"
    answers = [
        other.patch(path, json={"name": "mine"}),
        other.put(f"{path}/budget", json={"cost": 1}),
        other.delete(path),
        other.post(f"{API}/trials/{trial_id}:stop"),
        other.post(f"{API}/trials/{trial_id}:kill"),
    ]
    assert {a.status_code for a in answers} == {403}
    assert {a.json()["error"]["code"] for a in answers} == {"experiments.not_yours"}
    assert show(other, experiment_id).name == "digits", "everybody may look"
    # A token acts with its own role: an administrator's member token is a member.
    weak = connect(token=make_user_token("admin", username="root", token_role="member"))
    assert weak.post(f"{path}:stop").status_code == 403
    assert viewer_client.post(f"{path}:stop").json()["error"]["code"] == "auth.forbidden"


def test_administrators_may_and_one_without_an_owner_is_theirs(
    member_client, admin_client, database
):
    experiment_id = submit(member_client)
    do(admin_client, experiment_id, "pause")
    with database.transaction() as session:
        session.get_one(ExperimentRow, experiment_id).owner_id = None
    error = do(member_client, experiment_id, "resume", code="experiments.not_yours")
    assert "no owner" in error["message"]
    do(admin_client, experiment_id, "resume")


# ---------------------------------------------------------------- labels, notes, name


def test_labels_notes_and_name_are_edited(member_client):
    experiment_id = submit(member_client, TRAINER + "labels: {team: vision}")
    answer = member_client.patch(
        f"{API}/experiments/{experiment_id}",
        json={"name": "better", "notes": "# Why\n", "labels": {"phase": "2"}},
    )
    assert answer.status_code == 200, answer.text
    detail = show(member_client, experiment_id)
    assert (detail.name, detail.notes, detail.labels) == ("better", "# Why\n", {"phase": "2"})


@pytest.mark.parametrize("labels", [{"": "x"}, {"x" * 65: "y"}, {"x": "y" * 257}, {"x": 1}])
def test_labels_that_no_document_could_have_are_refused(member_client, labels):
    experiment_id = submit(member_client)
    answer = member_client.patch(f"{API}/experiments/{experiment_id}", json={"labels": labels})
    assert answer.status_code == 422


def ids(client, **params):
    answer = client.get(f"{API}/experiments", params=params)
    assert answer.status_code == 200, answer.text
    return [e.id for e in Page[ExperimentOut].model_validate(answer.json()).items]


@pytest.mark.both_databases
def test_the_list_is_filtered_by_label_owner_project_state_and_text(
    member_client, admin_client, database
):
    vision = submit(member_client, TRAINER + "labels: {team: vision, urgent: ''}")
    speech = submit(member_client, TRAINER + "labels: {team: speech}\nproject: audio")
    theirs = submit(admin_client, "name: other\ntrainer: {}\n")
    finish(database, speech, "FAILED")
    assert ids(member_client) == [theirs, speech, vision]
    assert ids(member_client, label="team") == [speech, vision]
    assert ids(member_client, label="team=vision") == [vision]
    assert ids(member_client, label="urgent") == [vision]
    assert ids(member_client, label="urgent=") == [vision]
    assert ids(member_client, label="team=") == []
    assert ids(member_client, label=["team", "urgent"]) == [vision]
    assert ids(member_client, owner="admin") == [theirs]
    assert ids(member_client, owner="nobody") == []
    assert ids(member_client, project="audio", state="FAILED", q="DIG") == [speech]
    for bad in ("", "=x", 'a"b', "a\\b"):
        answer = member_client.get(f"{API}/experiments", params={"label": bad})
        assert answer.json()["error"]["code"] == "experiments.bad_label_filter", bad


@pytest.mark.both_databases
def test_pages_of_a_filtered_list_join_without_gaps(member_client):
    wanted = [submit(member_client, TRAINER + "labels: {team: a}") for _ in range(5)]
    submit(member_client)
    found, cursor = [], None
    while True:
        params = {"label": "team=a", "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = member_client.get(f"{API}/experiments", params=params).json()
        found += [e["id"] for e in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == wanted[::-1]


# ---------------------------------------------------------------- budgets


def test_a_document_budget_is_shown_with_what_is_gone_of_it(member_client):
    document = TRAINER + "budget: {slot_hours: 10, cost: 5, deadline: 6h, alert_at: [0.9, 0.5]}"
    detail = show(member_client, submit(member_client, document))
    assert detail.budget is not None
    hours, cost, deadline = detail.budget.limits
    assert (hours.measure, hours.unit, hours.limit, hours.spent) == (
        "slot_hours",
        "slot-hours",
        10,
        0,
    )
    assert (cost.unit, cost.limit, cost.share, cost.exhausted_at) == ("USD", 5, 0, None)
    assert deadline.limit_at - detail.created_at == dt.timedelta(hours=6)
    assert deadline.limit == pytest.approx(6)
    assert detail.budget.alert_at == [0.5, 0.9]
    assert detail.spending.slot_hours == 0
    assert detail.spending.currency == "USD"


def test_an_experiment_without_a_budget_still_says_what_it_spent(member_client, database):
    experiment_id = submit(member_client)
    with database.transaction() as session:
        session.execute(update(SpendingRow).values(slot_s=7200.0, cost=3.5))
    detail = show(member_client, experiment_id)
    assert detail.budget is None
    assert (detail.spending.slot_hours, detail.spending.cost) == (2, 3.5)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("{slot_hours: 0}", "budget.slot_hours", "above 0"),
        ("{cost: -1}", "budget.cost", "above 0"),
        ("{deadline: soon}", "budget.deadline", "neither a length of time nor a moment"),
        ("{deadline: '2020-01-01T00:00Z'}", "budget.deadline", "is in the past"),
        ("{deadline: '2099-01-01T00:00'}", "budget.deadline", "no time zone"),
        ("{alert_at: [1.5]}", "budget.alert_at[0]", "below 1"),
        ("{slots: 1}", "budget.slots", "does not exist"),
    ],
)
def test_a_budget_that_cannot_work_is_refused_by_path(member_client, text, path, words):
    document = TRAINER + f"budget: {text}"
    answer = member_client.post(f"{API}/experiments", json={"document": document})
    assert answer.status_code == 422
    (field,) = answer.json()["error"]["fields"]
    assert field["path"] == path
    assert words in field["message"]
    preview = member_client.post(f"{API}/experiments:preview", json={"document": document}).json()
    assert [e["path"] for e in preview["errors"]] == [path], "the preview checks the same"


def test_a_budget_is_replaced_and_taken_away(member_client, database):
    experiment_id = submit(member_client, TRAINER + "budget: {slot_hours: 1}")
    path = f"{API}/experiments/{experiment_id}/budget"
    answer = member_client.put(path, json={"cost": 20, "alert_at": [0.5]})
    assert answer.status_code == 200, answer.text
    (limit,) = ExperimentDetail.model_validate(answer.json()).budget.limits
    assert (limit.measure, limit.limit) == ("cost", 20)
    member_client.put(path, json={"cost": 20, "alert_at": [0.5]})
    assert len(events(database, "experiment.budget_changed")) == 1, "the same again is no change"
    answer = member_client.put(path, json={})
    assert answer.json()["budget"] is None
    error = member_client.put(path, json={"deadline": "2020-01-01T00:00Z"}).json()["error"]
    assert (error["code"], error["fields"][0]["path"]) == ("budgets.invalid", "budget.deadline")
    config = show(member_client, experiment_id).config
    assert config["budget"]["slot_hours"] == 1, "the document stays what was submitted"


def test_nothing_is_written_for_what_is_refused(member_client, database):
    experiment_id = submit(member_client)
    before = audited(database)
    do(member_client, experiment_id, "archive", code="experiments.not_ended")
    assert audited(database) == before
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(EventRow)) == 2
