"""Log routes: pages, streams, downloads."""

from __future__ import annotations

import datetime as dt

import pytest

from muster_server.services.logs import reading, storage, values
from muster_server.services.logs import streams as log_streams
from support.data import NOW, add_attempt, add_experiment, add_trial


@pytest.fixture
def trial(database, monkeypatch):
    # On a busy machine a search of five lines may be interrupted for longer than it may take.
    monkeypatch.setattr(reading, "SEARCH_BUDGET_S", 60.0)
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        for rank, stream, data in [
            (0, "stdout", b"epoch 1\nepoch 2\n"),
            (0, "stderr", b"warning: slow\n"),
            (1, "stdout", b"epoch 1\n"),
            (-1, "stderr", b"launching\n"),
        ]:
            storage.append(
                session,
                allocation=allocation,
                local_rank=rank,
                stream=stream,
                offset=0,
                data=data,
                now=NOW,
            )
    return row


def test_lines_are_filtered_by_rank_stream_and_text(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/logs"

    def texts(**params):
        answer = viewer_client.get(path, params=params)
        assert answer.status_code == 200
        return [line["text"] for line in answer.json()["lines"]]

    assert texts() == ["launching", "epoch 1", "epoch 2", "warning: slow", "epoch 1"]
    assert texts(rank=[0, 1], stream="stdout") == ["epoch 1", "epoch 2", "epoch 1"]
    assert texts(rank=-1) == ["launching"]
    assert texts(q="EPOCH 2") == ["epoch 2"]
    assert texts(attempt=2) == []
    assert texts(limit=1) == ["epoch 1"]
    assert texts(limit=1, **{"from": "head"}) == ["launching"]


def test_lines_are_filtered_by_node_level_time_and_pattern(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/logs"

    def texts(**params):
        answer = viewer_client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return [line["text"] for line in answer.json()["lines"]]

    assert texts(level=["warning", "error"]) == ["warning: slow"]
    assert texts(node="nowhere") == []
    assert texts(q=r"^epoch [2-9]$", regex=True) == ["epoch 2"]
    assert texts(q="EPOCH 2", match_case=True) == []
    assert len(texts(since=NOW.isoformat())) == 5
    assert texts(until=NOW.isoformat()) == []
    page = viewer_client.get(path, params={"q": "2"}).json()
    assert page["searched"]["num_lines"] == 5
    (line,) = page["lines"]
    assert texts(line=f"{line['stream_id']}:{line['no']}", limit=1) == ["epoch 2"]
    assert texts(time=NOW.isoformat(), limit=1) == ["launching"]
    assert texts(fraction=0.5, limit=1) == ["epoch 2"]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("q=(a&regex=true", 422, "logs.bad_pattern"),
        ("line=1:0&from=head", 422, "logs.two_places"),
        ("line=9999:0", 404, "logs.no_such_line"),
        ("line=x", 422, "request.invalid"),
        ("fraction=nan", 422, "request.invalid"),
        ("since=2026-11-21T10:00:00", 422, "request.invalid"),
        ("level=loud", 422, "request.invalid"),
    ],
)
def test_a_wrong_question_says_what_is_wrong(viewer_client, trial, query, status, code):
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/logs?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_following_is_asking_again_with_newer(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/logs"
    page = viewer_client.get(path).json()
    assert page["older"] is None
    assert page["complete"] is False
    again = viewer_client.get(path, params={"cursor": page["newer"]}).json()
    assert again["lines"] == []
    assert again["newer"]


def test_bad_questions_are_refused(viewer_client, trial):
    path = f"/api/v1/trials/{trial.id}/logs"
    assert viewer_client.get(path, params={"cursor": "nonsense"}).status_code == 422
    for query in ("limit=0", "limit=99999", "stream=stdlog", "from=middle", "rank=-2"):
        assert viewer_client.get(f"{path}?{query}").status_code == 422
    assert viewer_client.get("/api/v1/trials/999/logs").status_code == 404
    assert viewer_client.get("/api/v1/trials/999/logs/streams").status_code == 404


def test_streams_and_their_bytes(viewer_client, trial):
    streams = viewer_client.get(f"/api/v1/trials/{trial.id}/logs/streams").json()["items"]
    assert [(s["rank"], s["stream"], s["size_bytes"], s["num_lines"]) for s in streams] == [
        (-1, "stderr", 10, 1),
        (0, "stdout", 16, 2),
        (0, "stderr", 14, 1),
        (1, "stdout", 8, 1),
    ]
    answer = viewer_client.get(f"/api/v1/trials/{trial.id}/logs/download", params={"rank": 0})
    assert answer.content == b"epoch 1\nepoch 2\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "rank-0-stdout.log" in answer.headers["content-disposition"]
    missing = viewer_client.get(f"/api/v1/trials/{trial.id}/logs/download", params={"rank": 7})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "logs.not_found")


@pytest.fixture
def experiment(database, monkeypatch):
    """Three trials of two ranks; rank r of trial t writes "t.r" every second, t seconds after NOW."""
    monkeypatch.setattr(reading, "SEARCH_BUDGET_S", 60.0)
    with database.transaction() as session:
        row = add_experiment(session)
        other = add_trial(session, add_experiment(session))
        for trial in [add_trial(session, row, no=no) for no in (1, 2, 3)] + [other]:
            (allocation,) = add_attempt(session, trial)
            for rank in (0, 1):
                storage.append(
                    session,
                    allocation=allocation,
                    local_rank=rank,
                    stream="stdout",
                    offset=0,
                    data=f"{trial.no}.{rank}\n".encode(),
                    now=NOW + dt.timedelta(seconds=trial.no),
                )
    return row


def test_lines_of_all_trials_are_one_log(viewer_client, experiment):
    path = f"/api/v1/experiments/{experiment.id}/logs"

    def page(**params):
        answer = viewer_client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def texts(**params):
        return [line["text"] for line in page(**params)["lines"]]

    assert texts() == ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]
    assert texts(trial=[1, 3], rank=1) == ["1.1", "3.1"]
    assert texts(q=r"^[23]\.0$", regex=True) == ["2.0", "3.0"]
    assert texts(since=(NOW + dt.timedelta(seconds=3)).isoformat()) == ["3.0", "3.1"]
    newest = page(limit=4)
    assert [line["text"] for line in newest["lines"]] == ["2.0", "2.1", "3.0", "3.1"]
    assert [line["text"] for line in page(cursor=newest["older"])["lines"]] == ["1.0", "1.1"]
    line = newest["lines"][-1]
    assert (line["trial_no"], line["attempt_no"], line["rank"]) == (3, 1, 1)
    whole = f"/api/v1/trials/{line['trial_id']}/logs"
    named = viewer_client.get(whole, params={"line": f"{line['stream_id']}:{line['no']}"})
    assert [found["text"] for found in named.json()["lines"]] == ["3.1"]


def test_of_too_many_streams_the_last_written_are_read_and_the_rest_with_until(
    viewer_client, experiment, monkeypatch
):
    monkeypatch.setattr(log_streams, "MAX_STREAMS", 3)
    path = f"/api/v1/experiments/{experiment.id}/logs"
    seen, params = [], {}
    while True:
        page = viewer_client.get(path, params=params).json()
        seen.append([line["text"] for line in page["lines"]])
        if page["left"] is None:
            break
        assert (page["at_end"], page["older"]) == (True, None)
        params = {"until": page["left"]["until"]}
    assert seen == [["3.0", "3.1"], ["2.0", "2.1"], ["1.0", "1.1"]]


def test_a_log_of_no_experiment_or_trial_is_refused(viewer_client, experiment):
    path = f"/api/v1/experiments/{experiment.id}/logs"
    for address in ("/api/v1/experiments/999/logs", f"{path}?trial=1&trial=9"):
        assert viewer_client.get(address).status_code == 404
    for query in ("trial=0", "limit=0", "cursor=nonsense", "q=(a&regex=true"):
        assert viewer_client.get(f"{path}?{query}").status_code == 422


def test_lines_over_time_by_level(viewer_client, database):
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        (allocation,) = add_attempt(session, row)
        experiment_id, trial_id, offset = row.experiment_id, row.id, 0
        for second, data in ((0, b"INFO a\nb\n"), (30, b"ERROR c\n"), (90, b"d\nWARNING e\nopen")):
            offset = storage.append(
                session, allocation=allocation, local_rank=0, stream="stdout", offset=offset,
                data=data, now=NOW + dt.timedelta(seconds=second),
            )  # fmt: skip

    def volume(**params):
        answer = viewer_client.get(f"/api/v1/trials/{trial_id}/logs/histogram", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    whole = volume()
    assert len(whole["edges_ms"]) == len(whole["num_lines"]) + 1 <= 61
    filled = [
        (n, {level: counts[i] for level, counts in whole["levels"].items() if counts[i]})
        for i, n in enumerate(whole["num_lines"])
        if n
    ]
    assert filled == [(2, {"info": 1}), (1, {"error": 1}), (2, {"warning": 1})]
    assert whole["edges_ms"][0] <= NOW.timestamp() * 1000 < whole["edges_ms"][1]
    window = volume(
        since=(NOW + dt.timedelta(seconds=1)).isoformat(),
        until=(NOW + dt.timedelta(seconds=90)).isoformat(),
    )
    assert sum(window["num_lines"]) == sum(window["levels"]["error"]) == 1
    assert volume(rank=7) == {"edges_ms": [], "num_lines": [], "levels": {}, "num_left": 0}
    path = f"/api/v1/experiments/{experiment_id}/logs/histogram"
    assert viewer_client.get(path).json() == whole
    assert viewer_client.get(path, params={"trial": 2}).status_code == 404
    wrong = viewer_client.get(f"/api/v1/trials/{trial_id}/logs/histogram", params={"q": "x"})
    assert wrong.status_code == 422


@pytest.fixture
def printed(database, monkeypatch):
    """A trial whose second attempt has printed losses."""
    monkeypatch.setattr(values, "PREVIEW_BUDGET_S", 60.0)
    with database.transaction() as session:
        row = add_trial(session, add_experiment(session))
        for no, lines in [
            (1, b"loss=9\n"),
            (2, b"step 1 loss=2.5\nstep 2 loss=nan\nstep 3 loss=x\n"),
        ]:
            (allocation,) = add_attempt(session, row, no=no)
            for rank in (-1, 0, 1):
                storage.append(
                    session,
                    allocation=allocation,
                    local_rank=rank,
                    stream="stdout",
                    offset=0,
                    data=lines,
                    now=NOW,
                )
    return row


def test_a_preview_says_what_a_pattern_finds(viewer_client, printed):
    path = f"/api/v1/trials/{printed.id}/logs/values"
    pattern = r"step (?P<step>\d+) (?P<name>\w+)=(?P<value>\S+)"
    found = viewer_client.get(path, params={"pattern": pattern, "rank": 0}).json()
    assert (found["num_values"], found["num_lines"], found["num_names"]) == (2, 2, 1)
    assert found["names"] == [{"name": "loss", "num_values": 2, "last_step": 2, "last": "NaN"}]
    assert found["first"][0] == {
        "name": "loss", "step": 1, "epoch": None, "value": 2.5, "rank": 0, "line": "step 1 loss=2.5",
    }  # fmt: skip
    assert (found["num_refused"], found["refused"]) == (1, "'loss': 'x' is not a number")
    assert (found["searched_bytes"], found["left_bytes"]) == (46, 0)
    # Of every rank, but not of the launcher again; and of another attempt.
    assert viewer_client.get(path, params={"pattern": pattern}).json()["num_values"] == 4
    named = {"pattern": "loss=(.+)", "name": "train/loss", "attempt": 1, "rank": 1}
    assert viewer_client.get(path, params=named).json()["names"][0]["name"] == "train/loss"
    # A preset; of itself it reads rank 0 alone.
    auto = viewer_client.get(path, params={"pattern": "auto"}).json()
    assert (auto["num_values"], auto["first"][0]["step"]) == (2, 1)


def test_a_preview_ends_in_time_and_says_so(viewer_client, printed, monkeypatch):
    monkeypatch.setattr(values, "PREVIEW_BUDGET_S", 0.0)
    path = f"/api/v1/trials/{printed.id}/logs/values"
    found = viewer_client.get(path, params={"pattern": "auto"}).json()
    assert (found["num_values"], found["searched_bytes"], found["left_bytes"]) == (0, 0, 46)


def test_a_pattern_that_cannot_find_values_is_refused(viewer_client, printed):
    path = f"/api/v1/trials/{printed.id}/logs/values"
    for params, words in [
        ({"pattern": "(?=x)"}, "`pattern` is not a pattern of RE2"),
        ({"pattern": "(?P<vlaue>.)", "name": "x"}, "`pattern` names a group 'vlaue'"),
        ({"pattern": "(.)", "name": "x", "line": "("}, "`line` is not a pattern of RE2"),
    ]:
        answer = viewer_client.get(path, params=params)
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "logs.bad_value_pattern"
        assert words in answer.json()["error"]["message"]
    assert viewer_client.get(path).status_code == 422
    assert viewer_client.get("/api/v1/trials/999/logs/values?pattern=auto").status_code == 404
