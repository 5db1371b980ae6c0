"""Searches that are driven from outside: points enqueued, trials asked for, results told."""

from __future__ import annotations

import datetime as dt
import json
import random

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import SearchEventRow, TrialRow

POINTS = """
name: points
trainer: {}
hyperparameters: {lr: {log: [1e-4, 1e-1]}, width: 8}
search: {method: random, sampler: external, metric: val/loss, goal: min, trials: 3, concurrent: 2}
"""
TRIALS = """
name: trials
hyperparameters: {lr: {log: [1e-4, 1e-1]}}
search: {method: asha, runner: external, metric: val/loss, goal: min, trials: 6,
  max_length: {epochs: 9}, divisor: 3, concurrent: 2, tell_within_s: 60}
"""


@pytest.fixture
def submitted(member_client):
    def make(document, *overrides):
        body = {"document": document, "overrides": list(overrides)}
        reply = member_client.post("/api/v1/experiments", json=body)
        assert reply.status_code == 201, reply.text
        return f"/api/v1/experiments/{reply.json()['id']}"

    return make


def test_a_tell_without_the_metric_is_answered_with_its_name(member_client, submitted):
    path = submitted(TRIALS)
    member_client.post(f"{path}/search:ask", json={"count": 1})

    def tell(**body):
        return member_client.post(f"{path}/search:tell", json={"no": 1, **body})

    told = tell(metrics={"val_loss": 0.5}, units=1).json()
    assert told["decision"] == "continue"
    assert told["hint"] == (
        "it was told no val/loss, by which this search compares its trials. It was told val_loss: "
        "tell that as val/loss."
    )
    assert tell(units=1).json()["hint"] == "", "a sign of life says nothing wrong"
    refused = tell(units=9, state="completed")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "search.metric_missing")
    assert member_client.get(f"{path}/trials").json()["items"][0]["state"] == "RUNNING"
    assert tell(metrics={"val/loss": 0.4}, units=9).json()["hint"] == ""
    # What was told before counts.
    assert tell(metrics={"train/loss": 0.1}, units=9, state="completed").status_code == 200


# ---------------------------------------------------------------- points from outside


def test_points_are_tried_as_they_come_and_once_per_name(member_client, submitted, tick):
    path = submitted(POINTS)
    assert member_client.get(f"{path}/trials").json()["items"] == []
    point = {"hparams": {"lr": 0.5}, "point": "first"}
    for _ in range(3):
        reply = member_client.post(f"{path}/search/points", json=point)
        assert (reply.status_code, reply.json()["point"]) == (202, "first")
        tick()
    (trial,) = member_client.get(f"{path}/trials").json()["items"]
    assert trial["hparams"] == {"lr": 0.5, "width": 8}
    found = member_client.get(f"{path}/search/points/first").json()
    assert (found["trial_no"], found["state"], found["metric"]) == (1, "QUEUED", None)
    other = member_client.post(f"{path}/search/points", json={**point, "hparams": {"lr": 0.1}})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "search.point_exists")
    assert member_client.get(f"{path}/search/points/none").status_code == 404


def test_there_are_as_many_points_as_trials_and_closing_ends_the_search(
    member_client, submitted, tick
):
    path = submitted(POINTS)
    for name in ("a", "b", "c", "d"):
        reply = member_client.post(
            f"{path}/search/points", json={"hparams": {"lr": 0.1}, "point": name}
        )
        assert reply.status_code == (409 if name == "d" else 202)
    assert reply.json()["error"]["code"] == "search.all_points_given"

    other = submitted(POINTS)
    member_client.post(f"{other}/search/points", json={"hparams": {"lr": 0.1}})
    tick()
    assert member_client.post(f"{other}/search:close").status_code == 202
    (trial,) = member_client.get(f"{other}/trials").json()["items"]
    member_client.post(f"/api/v1/trials/{trial['id']}:stop")
    for _ in range(3):
        tick()
    assert member_client.get(f"{other}/search").json()["finished"] is True
    assert member_client.post(f"{other}/search:close").status_code == 202


# ---------------------------------------------------------------- trials run outside


def ask(client, path, count=1, key=None):
    headers = {"Idempotency-Key": key} if key else {}
    reply = client.post(f"{path}/search:ask", json={"count": count}, headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


def tell(client, path, no, value=None, units=None, state="running"):
    metrics = {} if value is None else {"val/loss": value}
    body = {"no": no, "metrics": metrics, "units": units, "state": state}
    reply = client.post(f"{path}/search:tell", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_whole_search_is_run_outside(member_client, submitted, tick):
    path = submitted(TRIALS)
    ended = 0
    while not (asked := ask(member_client, path))["is_over"]:
        (trial,) = asked["trials"]
        assert (trial["marks"], trial["max_units"], trial["unit"]) == ([3, 9], 9, "epochs")
        for units in (3, 9):
            told = tell(member_client, path, trial["no"], trial["no"] / 10, units)
            if told["decision"] != "continue":
                break
        else:
            told = tell(member_client, path, trial["no"], state="completed")
        ended += 1
        assert told["state"] in ("COMPLETED", "STOPPED_EARLY")
    assert ended == 6
    assert "all 6 trials have ended" in asked["reason"]
    for _ in range(2):
        tick()
    shown = member_client.get(path).json()
    assert (shown["state"], shown["best_metric"]) == ("COMPLETED", 0.1)
    results = member_client.get(f"{path}/search/results").json()
    assert results["metric"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    rungs = member_client.get(f"{path}/search").json()["rungs"]
    assert [len(rung["trials"]) for rung in rungs] == [6, 1]
    queue = member_client.get("/api/v1/queue").json()["items"]
    assert queue == []


def test_what_is_repeated_counts_once(member_client, submitted, database):
    path = submitted(TRIALS)
    first = ask(member_client, path, key="k1")
    assert ask(member_client, path, key="k1") == first
    no = first["trials"][0]["no"]
    for _ in range(3):
        assert tell(member_client, path, no, "NaN", 3)["decision"] in ("stop", "over")
    with database.read() as session:
        keys = list(session.scalars(select(SearchEventRow.key).order_by(SearchEventRow.seq)))
        summary = session.scalar(select(TrialRow.summary).where(TrialRow.no == no))
    assert keys == ["started", f"validation:{no}:3", f"ended:{no}"]
    assert summary["val/loss"]["count"] == 1
    # Two at once are as many as the search allows; the third waits for a result.
    assert len(ask(member_client, path, count=5)["trials"]) == 2
    assert "search.concurrent is 2" in ask(member_client, path)["reason"]


def test_what_is_told_is_a_curve(member_client, submitted):
    path = submitted(TRIALS)
    ask(member_client, path)
    for units, value in ((0.5, 0.9), (1, 0.8), (1, 0.8), (2, "NaN"), (0.5, 0.7), (7, 0.3)):
        tell(member_client, path, 1, value, units)
    found = member_client.get(f"{path}/series", params={"name": "val/loss"}).json()
    (curve,) = found["items"]
    assert curve["series"]["step"] == [1, 2, 3, 7]
    assert curve["series"]["last"] == [0.9, 0.8, "NaN", 0.3]
    (trial, *_) = member_client.get(f"{path}/trials").json()["items"]
    assert (trial["step"], trial["epoch"]) == (7, 7.0)
    listed = member_client.get(f"/api/v1/trials/{trial['id']}/metrics").json()
    assert listed["names"] == ["progress/epochs", "val/loss"]
    exported = member_client.get(f"/api/v1/trials/{trial['id']}/series.csv").text.splitlines()
    assert len(exported) == 9
    body = {"no": 1, "metrics": {"a\nb": 1.0}, "units": 8}
    reply = member_client.post(f"{path}/search:tell", json=body)
    assert reply.json()["error"]["code"] == "search.metric_name"

    path = submitted(TRIALS, "search.max_length={seconds: 900}")
    ask(member_client, path)
    tell(member_client, path, 1, 0.5, 310.25)
    for name, value in (("val/loss", 0.5), ("progress/seconds", 310.25)):
        (curve,) = member_client.get(f"{path}/series", params={"name": name}).json()["items"]
        assert (curve["series"]["step"], curve["series"]["last"]) == ([310], [value])


def test_a_point_that_cannot_work_is_replaced(member_client, submitted):
    path = submitted(TRIALS, "search.trials=2", "search.max_invalid=1")
    for no, created in ((1, 3), (2, 3)):
        ask(member_client, path)
        assert tell(member_client, path, no, state="invalid")["decision"] == "over"
        items = member_client.get(f"{path}/trials").json()["items"]
        assert len(items) == created
        (ended,) = [t for t in items if t["no"] == no]
        assert (ended["state"], ended["termination"]) == ("FAILED", "invalid_hparams")


def test_what_was_not_handed_out_or_has_no_length_is_refused(member_client, submitted):
    path = submitted(TRIALS)
    body = {"no": 1, "metrics": {"val/loss": 1.0}, "units": 3}
    reply = member_client.post(f"{path}/search:tell", json=body)
    assert reply.json()["error"]["code"] == "search.not_handed_out"
    ask(member_client, path)
    reply = member_client.post(f"{path}/search:tell", json={**body, "units": None})
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "search.units_missing")
    reply = member_client.post(f"{path}/search:tell", json={**body, "no": 99})
    assert reply.status_code == 404
    reply = member_client.post(f"{submitted(POINTS)}/search:ask", json={})
    assert reply.json()["error"]["code"] == "search.not_external"


def test_trials_from_outside_may_be_counted_in_seconds(member_client, submitted, tick):
    path = submitted(TRIALS, "search.max_length={seconds: 900}", "search.variant=promotion")
    assert [t["unit"] for t in ask(member_client, path, count=2)["trials"]] == ["seconds"] * 2
    assert tell(member_client, path, 1, 0.5, 310.25)["decision"] == "pause"
    assert tell(member_client, path, 2, 0.6, 50)["decision"] == "continue"
    assert tell(member_client, path, 2, 0.6, 50)["decision"] == "continue"
    member_client.post(f"{path}:pause")
    tick()
    assert tell(member_client, path, 2, 0.6, 60)["decision"] == "pause"
    member_client.post(f"{path}:resume")
    tick()
    (trial,) = [t for t in ask(member_client, path, count=2)["trials"] if t["no"] == 2]
    assert (trial["units"], trial["marks"]) == (60, [300, 900])


def test_a_paused_trial_is_handed_out_again_and_a_silent_one_has_failed(
    member_client, submitted, database
):
    path = submitted(TRIALS, "search.variant=promotion", "search.concurrent=3")
    numbers = [t["no"] for t in ask(member_client, path, count=3)["trials"]]
    # The best of three goes on at once; the others wait.
    decisions = [tell(member_client, path, no, 1 / no, 3)["decision"] for no in numbers]
    assert decisions == ["pause", "pause", "continue"]
    assert tell(member_client, path, 3, state="completed")["decision"] == "over"
    assert [t["no"] for t in ask(member_client, path, count=1)["trials"]] == [4]
    with database.transaction() as session:
        trial = session.scalars(select(TrialRow).where(TrialRow.no == 4)).one()
        trial.progress_at = clock.now() - dt.timedelta(seconds=61)
    ask(member_client, path)
    items = member_client.get(f"{path}/trials").json()["items"]
    (silent,) = [t for t in items if t["no"] == 4]
    assert silent["state"] == "FAILED"
    assert "search.tell_within_s" in silent["reason"]


def test_stopping_and_pausing_reach_trials_that_nobody_here_runs(member_client, submitted, tick):
    path = submitted(TRIALS)
    (trial,) = ask(member_client, path)["trials"]
    member_client.post(f"{path}:pause")
    tick()
    assert tell(member_client, path, trial["no"], 0.5, 1)["decision"] == "pause"
    assert ask(member_client, path) == {
        "trials": [],
        "is_over": False,
        "reason": "paused by a user",
    }
    member_client.post(f"{path}:resume")
    tick()
    assert ask(member_client, path)["trials"][0]["units"] == 1
    member_client.post(f"{path}:stop")
    for _ in range(3):
        tick()
    assert tell(member_client, path, trial["no"], 0.4, 2)["decision"] == "over"
    assert member_client.get(path).json()["state"] == "CANCELED"
    assert ask(member_client, path)["is_over"] is True


def test_a_program_and_a_shell_drive_the_same_search(member_client, submitted, tick, muster):
    from muster.ask_tell import Drive
    from muster.client import Client, Target

    client = Client(Target("http://localhost:8470", "unused", "the test"))
    client._http.close()
    client._http = member_client  # the application in this process, in place of a socket

    drive = Drive(client, int(submitted(TRIALS, "search.trials=3").rsplit("/", 1)[1]))
    ends = []
    for trial in drive.trials(by="a test", poll_s=0):
        told = [trial.tell({"val/loss": trial.no + units}, units) for units in trial.marks]
        trial.fail("out of memory") if trial.no == 2 else trial.complete()
        ends.append((trial.no, told))
    assert ends == [(1, [True, True]), (2, [False, False]), (3, [False, False])]
    assert muster("search", "tell", f"{drive.experiment_id}.2").stdout.strip() == "over"

    path = submitted(POINTS)
    no = path.rsplit("/", 1)[1]
    made = muster("search", "enqueue", no, '{"lr": 0.02}', "--name", "mine", "--json")
    assert json.loads(made.stdout)["point"] == "mine"
    tick()
    points = Drive(client, int(no))
    assert points.result("mine").trial_no == 1
    with pytest.raises(TimeoutError, match="mine is still QUEUED"):
        points.wait("mine", timeout_s=0, poll_s=0)
    assert f"trial {no}.1 QUEUED" in muster("search", "point", no, "mine").stdout
    assert "is not JSON" in str(muster("search", "enqueue", no, "lr").exception)
    assert "will create no more" in muster("search", "close", no).stdout


def test_a_program_and_a_shell_are_warned_of_a_missing_metric(member_client, submitted, muster):
    path = submitted(TRIALS)
    number = path.rpartition("/")[2]
    member_client.post(f"{path}/search:ask", json={"count": 1})
    told = muster("search", "tell", f"{number}.1", '{"loss": 0.5}', "--units", "1")
    assert told.stdout.strip() == "continue"
    assert f"muster: trial {number}.1: it was told no val/loss" in told.stderr


def test_a_shell_changes_a_search_while_it_goes_on(member_client, submitted, tick, muster):
    path = submitted(TRIALS, "search.variant=promotion", "search.concurrent=3")
    no = path.rsplit("/", 1)[1]
    for trial in ask(member_client, path, count=3)["trials"]:
        tell(member_client, path, trial["no"], 1 / trial["no"], 3)
    assert (
        "trials 7, concurrent 6"
        in muster("search", "limits", no, "--trials", "7", "--concurrent", "6").stdout
    )
    assert "continues as soon as" in muster("search", "promote", f"{no}.1").stdout
    tick()
    ended = ask(member_client, path, count=9)
    assert 1 in [t["no"] for t in ended["trials"]]
    shown = member_client.get(f"{path}/search").json()
    assert shown["num_trials_planned"] == 7
    wrong = muster("search", "limits", no, "--concurrent", "many")
    assert "is not a number" in str(wrong.exception)
    assert "Nothing to change" in str(muster("search", "limits", no).exception)
    assert "has no trial 99" in str(muster("search", "promote", f"{no}.99").exception)


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        (["trainer={}"], "trainer"),
        (["search.method=pbt", "search.population=4"], "search.runner"),
        (["search.sampler=external", "search.method=grid"], "search.sampler"),
    ],
)
def test_documents_that_contradict_themselves_are_refused(member_client, overrides, path):
    body = {"document": TRIALS, "overrides": overrides}
    reply = member_client.post("/api/v1/experiments", json=body)
    assert reply.status_code == 422
    assert path in [field["path"] for field in reply.json()["error"]["fields"]]


def test_a_crash_between_any_two_calls_changes_nothing(member_client, submitted, monkeypatch):
    """Every call is done twice, once in a transaction that is thrown away before its commit."""
    from muster_server.services.experiments import ask_tell

    def play(path, *, crashes):
        decisions = []
        rng = random.Random(5)
        for _ in range(200):
            if crashes:
                crash(member_client, path, monkeypatch, ask_tell, "ask", {"count": 1})
            asked = ask(member_client, path)
            if asked["is_over"]:
                return decisions
            (trial,) = asked["trials"]
            for units in (3, 9):
                value = rng.random()
                body = {"no": trial["no"], "metrics": {"val/loss": value}, "units": units}
                if crashes:
                    crash(member_client, path, monkeypatch, ask_tell, "tell", body)
                told = tell(member_client, path, trial["no"], value, units)
                decisions.append((trial["no"], json.dumps(trial["hparams"]), told["decision"]))
                if told["decision"] != "continue":
                    break
            else:
                tell(member_client, path, trial["no"], state="completed")
        raise AssertionError("the search does not end")

    assert play(submitted(TRIALS), crashes=True) == play(submitted(TRIALS), crashes=False)


def crash(client, path, monkeypatch, module, name, body):
    """The call decides everything, and then its process dies before the commit."""
    real = getattr(module, name)

    def dies(*args, **kwargs):
        real(*args, **kwargs)
        raise ConnectionAbortedError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(module, name, dies)
        assert client.post(f"{path}/search:{name}", json=body).status_code == 500
