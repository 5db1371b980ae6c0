"""MLflow's tracking API of the server: what real clients have sent, and what no client should."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import UserRow

RECORDED = Path(__file__).parents[2] / "agent/reports/mlflow_requests"
API = "/mlflow/api/2.0/mlflow"
FILES = "/mlflow/api/2.0/mlflow-artifacts/artifacts"
_ID = re.compile(r"m-[0-9a-f]{32}|[0-9a-f]{32}|\b\d{15}\b")


class Tracking:
    def __init__(self, http: Any) -> None:
        self.http = http

    def post(self, path: str, **body: Any) -> Any:
        reply = self.http.post(f"{API}/{path}", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def get(self, path: str, **query: Any) -> Any:
        reply = self.http.get(f"{API}/{path}", params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def refused(self, path: str, **body: Any) -> tuple[int, str, str]:
        reply = self.http.post(f"{API}/{path}", content=json.dumps(body))
        found = reply.json()
        return reply.status_code, found["error_code"], found["message"]

    def start(self, name: str = "", experiment: str = "0", **tags: str) -> str:
        given = [{"key": key.replace("__", "."), "value": value} for key, value in tags.items()]
        body = {"experiment_id": experiment, "run_name": name, "tags": given}
        return str(self.post("runs/create", **body)["run"]["info"]["run_id"])

    def experiment_of(self, name: str) -> Any:
        (found,) = [
            e for e in self.http.get("/api/v1/experiments").json()["items"] if e["name"] == name
        ]
        return found


@pytest.fixture
def tracking(member_client):
    return Tracking(member_client)


def metric(key: str = "loss", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": 1.0, "timestamp": 1_000, "step": 0} | more


@pytest.mark.parametrize("version", ["3.17", "2.22"])
def test_what_real_clients_send_becomes_unmanaged_runs(tracking, tick, version):
    tracking.post("experiments/create", name="digits")
    items = json.loads((RECORDED / f"{version}.json").read_text())
    real: dict[str, str] = {}

    def renamed(text: str) -> str:
        return _ID.sub(lambda found: real.get(found[0], found[0]), text)

    def learn(path: str, reply: Any, later: list[Any]) -> None:
        """Note which id of the recording is which of this server."""
        if "get-by-name" in path:
            new = [reply["experiment"]["experiment_id"]]
            pattern = r"\b\d{15}\b"
        elif path.endswith("runs/create"):
            new, pattern = [reply["run"]["info"]["run_id"]], r"(?<!m-)\b[0-9a-f]{32}\b"
        elif path.endswith("/logged-models"):
            new, pattern = [reply["model"]["info"]["model_id"]], r"m-[0-9a-f]{32}"
        else:
            return
        for item in later:
            for old in re.findall(pattern, f"{item['path']} {item['body']}"):
                if old not in real:
                    real[old] = new[0]
                    return

    for no, item in enumerate(items):
        body = renamed(item["body"] or "").encode("latin-1")
        path = renamed(item["path"])
        reply = tracking.http.request(item["method"], f"/mlflow/{path}", content=body)
        # The server of a job, of which the recording is, has no registry of models.
        status = 200 if path.endswith("registered-models/create") else item["status"]
        assert reply.status_code == status, (item["method"], path, reply.text)
        if reply.status_code == 200 and reply.headers["content-type"] == "application/json":
            learn(item["path"], reply.json(), items[no + 1 :])
    tick()

    parent, child = tracking.experiment_of("base line"), tracking.experiment_of("fold 1")
    assert parent["unmanaged"] == child["unmanaged"] == "mlflow"
    assert parent["state"] == child["state"] == "COMPLETED"
    assert parent["labels"] == {"mlflow.experiment": "digits", "team": "vision"}
    trial = tracking.http.get(f"/api/v1/trials/{parent['only_trial_id']}").json()
    assert trial["hparams"] == {"lr": 0.1, "layers": 3, "note": "x" * 300}
    summary = {name: (one["last"], one["count"]) for name, one in trial["summary"].items()}
    assert summary["train/loss"] == (1 / 3, 3), "a batch that was sent again counts once"
    assert summary["val/loss"] == ("NaN", 1)
    assert summary["worst"] == ("Infinity", 1)
    # Logged at a negative step; the newer client then repeats, with its model, what it once read at 0.
    assert ("late" in summary) == (version == "3.17")
    assert summary["after"] == (1.0, 1)
    series = tracking.http.get(f"/api/v1/trials/{trial['id']}/series.jsonl").text
    rows = [json.loads(line) for line in series.splitlines()]
    losses = [(r["step"], r["value"]) for r in rows if r["name"] == "train/loss"]
    assert losses == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    (run,) = tracking.http.get(f"/api/v1/trials/{trial['id']}/tracked-runs").json()["items"]
    assert (run["status"], run["params"]["lr"], run["tags"]["team"]) == (
        "FINISHED",
        "0.1",
        "vision",
    )


def test_bad_requests_are_answered_in_mlflows_shape(tracking, connect, viewer_client):
    run_id = tracking.start("limits")
    for body, message in [
        ({"metrics": [metric(step=n, value="NaN") for n in range(1_001)]}, "Got 1001 metrics"),
        ({"metrics": [metric(), metric(value="much")]}, "Got invalid value 'much'"),
        ({"metrics": [metric(), metric("a\0b")]}, "NUL"),
        ({"params": [{"key": "lr", "value": "1"}, {"key": "lr", "value": "2"}]}, "not allowed"),
    ]:
        status, code, told = tracking.refused("runs/log-batch", run_id=run_id, **body)
        assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
        assert message in told
    assert tracking.refused("runs/log-batch", run_id="none")[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert tracking.refused("prompts/create", name="m")[:2] == (404, "ENDPOINT_NOT_FOUND")
    assert tracking.get("runs/get", run_id=run_id)["run"]["data"]["metrics"] == []

    for client, status, code in (
        (connect(), 401, "UNAUTHENTICATED"),
        (connect(token="mst_usr_wrong"), 401, "UNAUTHENTICATED"),
        (viewer_client, 403, "PERMISSION_DENIED"),
    ):
        assert Tracking(client).refused("runs/create")[:2] == (status, code)
    seen = viewer_client.post(f"{API}/runs/search", json={"experiment_ids": ["0"]}).json()
    assert [run["info"]["run_id"] for run in seen["runs"]] == [run_id]


def test_only_its_owner_changes_a_run(tracking, connect, make_user_token):
    run_id = tracking.start("mine")
    other = Tracking(connect(token=make_user_token("member", username="other")))
    status, code, message = other.refused("runs/log-metric", run_id=run_id, **metric())
    assert (status, code) == (403, "PERMISSION_DENIED")
    assert "belongs to member" in message
    for path in ("runs/delete", "runs/update", "runs/set-tag", "runs/outputs"):
        refused = other.refused(path, run_id=run_id, status="FAILED", key="k", value="v")
        assert refused[0] == 403, path
    model = tracking.post("logged-models", experiment_id="0", name="m", source_run_id=run_id)
    model_path = f"{API}/logged-models/{model['model']['info']['model_id']}"
    assert other.http.patch(model_path, json={"status": "LOGGED_MODEL_READY"}).status_code == 403
    assert other.http.put(f"{FILES}/0/{run_id}/artifacts/a", content=b"x").status_code == 403
    assert other.http.delete(f"{FILES}/0/{run_id}/artifacts/a").status_code == 403
    mine = tracking.post("experiments/create", name="mine")["experiment_id"]
    assert other.refused("experiments/delete", experiment_id=mine)[0] == 403
    assert other.get("runs/get", run_id=run_id)["run"]["info"]["run_name"] == "mine"


def test_values_that_arrive_together_are_answered_each_for_itself(
    tracking, connect, make_user_token
):
    """What waits at the same moment shares a transaction: of one run as of several, of its owner, of a
    stranger, with what cannot be stored between."""
    bob = Tracking(connect(token=make_user_token("member", username="bob")))
    runs = [tracking.start(f"run {no}") for no in range(3)]
    calls: list[tuple[Tracking, dict[str, Any], int]] = [
        (tracking, metric("loss", run_id=run, step=step, value=step / 8, timestamp=1 + step), 200)
        for step in range(30)
        for run in runs
    ]
    for step in range(10):
        calls.insert(9 * step, (bob, metric("loss", run_id=runs[0], step=1_000 + step), 403))
        calls.insert(9 * step, (tracking, metric("loss", run_id="f" * 32, step=step), 404))
        calls.insert(9 * step, (tracking, {"run_id": runs[1], "key": "no value"}, 400))

    def send(call: tuple[Tracking, dict[str, Any], int]) -> int:
        who, body, _ = call
        return int(who.http.post(f"{API}/runs/log-metric", content=json.dumps(body)).status_code)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(send, calls)) == [expected for _, _, expected in calls]
    for run in runs:
        history = tracking.get("metrics/get-history", run_id=run, metric_key="loss")["metrics"]
        assert sorted((m["step"], m["value"]) for m in history) == [(n, n / 8) for n in range(30)]


def test_what_is_out_of_order_or_sent_again_counts_once(tracking):
    run_id = tracking.start("order")
    points = [metric(step=n, timestamp=n, value=float(n)) for n in (3, 1, 2)]
    for point in (*points, *points):
        tracking.post("runs/log-metric", run_id=run_id, **point)
    nan = metric(step=2, timestamp=5, value="NaN")
    tracking.post("runs/log-batch", run_id=run_id, metrics=[nan, nan, *points])
    tracking.post("runs/log-batch", run_id=run_id, metrics=[nan, *points])
    found = tracking.get("metrics/get-history", run_id=run_id, metric_key="loss")["metrics"]
    assert [(p["step"], p["value"]) for p in found] == [(1, 1.0), (2, "NaN"), (3, 3.0)], (
        "the later value of a step stays, whatever is sent again"
    )
    bulk = tracking.get(
        "metrics/get-history-bulk-interval", run_ids=[run_id], metric_key="loss", max_results=2
    )
    assert [(p["step"], p["run_id"]) for p in bulk["metrics"]] == [(1, run_id), (3, run_id)]
    latest = tracking.get("runs/get", run_id=run_id)["run"]["data"]["metrics"]
    assert [(m["step"], m["value"]) for m in latest] == [(3, 3.0)]


@pytest.fixture
def theirs(connect, make_user_token, database):
    """A member who has logged a value just now, with the id of the run and of the member."""
    tracking = Tracking(connect(token=make_user_token("member", username="ada")))
    run = tracking.start("theirs")
    tracking.post("runs/log-metric", run_id=run, **metric())
    with database.read() as session:
        user = session.scalars(select(UserRow.id).where(UserRow.username == "ada")).one()
    return tracking, run, user


LATER = metric(step=1, timestamp=2_000)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("log-metric", LATER),
        ("log-batch", {"metrics": [LATER]}),
        ("log-batch", {"metrics": [LATER], "params": [{"key": "lr", "value": "1"}]}),
    ],
)
@pytest.mark.parametrize(
    ("change", "expected"), [({"role": "viewer"}, 403), ({"is_active": False}, 401)]
)
def test_a_caller_known_from_the_last_value_is_looked_up_again(
    theirs, admin_client, change, expected, path, body
):
    tracking, run, user = theirs
    assert admin_client.patch(f"/api/v1/users/{user}", json=change).status_code == 200
    reply = tracking.http.post(f"{API}/runs/{path}", json={"run_id": run, **body})
    assert reply.status_code == expected, reply.text
    history = admin_client.get(
        f"{API}/metrics/get-history", params={"run_id": run, "metric_key": "loss"}
    )
    assert [m["step"] for m in history.json()["metrics"]] == [0]


def test_a_revoked_token_logs_no_further_value_and_its_use_is_noted(theirs, admin_client):
    tracking, run, _ = theirs
    tokens = tracking.http.get("/api/v1/tokens").json()["items"]
    assert tracking.http.delete(f"/api/v1/tokens/{tokens[0]['id']}").is_success
    for _ in range(2):  # Known once, then unknown.
        reply = tracking.http.post(
            f"{API}/runs/log-metric", json={"run_id": run, **metric(step=1, timestamp=2_000)}
        )
        assert (reply.status_code, reply.json()["error_code"]) == (401, "UNAUTHENTICATED")
    audit = admin_client.get("/api/v1/audit", params={"q": "auth.token_refused"}).json()
    assert [(line["subject"], line["detail"]["reason"]) for line in audit["items"]] == [
        (f"token:{tokens[0]['id']}", "revoked")
    ] * 2


def test_a_project_that_is_closed_to_the_caller_takes_no_further_value(theirs, admin_client):
    tracking, run, _ = theirs
    closed = {"visibility": "members", "submission": "members"}
    assert admin_client.patch("/api/v1/projects/default", json=closed).is_success
    reply = tracking.http.post(
        f"{API}/runs/log-metric", json={"run_id": run, **metric(step=1, timestamp=2_000)}
    )
    assert reply.status_code == 404, reply.text


def test_experiments_can_be_renamed_deleted_and_found(tracking):
    first = tracking.post("experiments/create", name="a")["experiment_id"]
    assert tracking.refused("experiments/create", name="a")[1] == "RESOURCE_ALREADY_EXISTS"
    second = tracking.post("experiments/create", name="b", tags=[{"key": "k", "value": "v"}])[
        "experiment_id"
    ]
    assert (
        tracking.refused("experiments/update", experiment_id=second, new_name="a")[1]
        == "RESOURCE_ALREADY_EXISTS"
    )
    tracking.post("experiments/update", experiment_id=second, new_name="c")
    found = tracking.post("experiments/search", filter="tags.k = 'v'", max_results=10)
    assert [e["name"] for e in found["experiments"]] == ["c"]
    tracking.post("experiments/delete", experiment_id=first)
    assert "'active' state" in tracking.refused("runs/create", experiment_id=first)[2]
    names = [e["name"] for e in tracking.post("experiments/search")["experiments"]]
    assert sorted(names) == ["Default", "c"]


def test_models_are_found_by_the_searches_that_clients_make_by_default(tracking):
    tracking.post("registered-models/create", name="digits")
    prompt = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]
    tracking.post("registered-models/create", name="digits-prompt", tags=prompt)

    def names(filter):
        found = tracking.get("registered-models/search", filter=filter, max_results=100)
        return [m["name"] for m in found["registered_models"]]

    assert names("name LIKE 'dig%' AND tag.`mlflow.prompt.is_prompt` != 'true'") == ["digits"]
    assert names("tag.`mlflow.prompt.is_prompt` = 'true'") == ["digits-prompt"]
    assert tracking.get("model-versions/search", max_results=10_000) == {"model_versions": []}


def test_artifacts_are_kept_listed_and_replaced(tracking):
    run_id = tracking.start("files")
    base = f"{FILES}/0/{run_id}/artifacts"
    big = bytes(range(256)) * 10_000
    for content in (b"first", big):
        assert tracking.http.put(f"{base}/a/big.bin", content=content).status_code == 200
    reply = tracking.http.get(f"{base}/a/big.bin")
    assert reply.content == big
    assert reply.headers["content-disposition"] == "attachment"
    listed = tracking.http.get(FILES, params={"path": f"0/{run_id}/artifacts"}).json()
    assert listed == {"files": [{"path": "a", "is_dir": True}]}
    for path in ("a", "a/big.bin/x", "..%2fx", "a//x", ""):
        assert tracking.http.put(f"{base}/{path}", content=b"x").status_code == 400, path
    assert tracking.http.get(f"{base}/none").json()["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    assert tracking.http.delete(f"{base}/a").status_code == 200
    listed = tracking.http.get(FILES, params={"path": f"0/{run_id}/artifacts"}).json()
    assert listed == {"files": []}


def test_a_model_without_a_run_gets_one(tracking, connect, make_user_token):
    """What `mlflow.sklearn.log_model` and `mlflow.create_external_model` do outside a run."""
    digits = tracking.post("experiments/create", name="digits")["experiment_id"]
    model = tracking.post("logged-models", experiment_id=digits, name="forest")["model"]["info"]
    run = tracking.get("runs/get", run_id=model["source_run_id"])["run"]["info"]
    assert (run["run_name"], run["experiment_id"], run["status"]) == ("forest", digits, "FINISHED")
    assert tracking.experiment_of("forest")["labels"] == {"mlflow.experiment": "digits"}
    path = f"{FILES}/{digits}/models/{model['model_id']}/artifacts/MLmodel"
    assert tracking.http.put(path, content=b"flavors: {}").status_code == 200
    model_path = f"{API}/logged-models/{model['model_id']}"
    ready = tracking.http.patch(model_path, json={"status": "LOGGED_MODEL_READY"})
    assert ready.json()["model"]["info"]["status"] == "LOGGED_MODEL_READY"
    assert tracking.http.get(path).content == b"flavors: {}"

    other = connect(token=make_user_token("member", username="other"))
    assert other.delete(model_path).status_code == 403
    assert tracking.http.delete(model_path).status_code == 200
    assert tracking.http.get(model_path).status_code == 404
    assert tracking.http.get(path).status_code == 404
    run_id = model["source_run_id"]
    assert tracking.get("runs/get", run_id=run_id)["run"]["info"]["lifecycle_stage"] == "active"


def test_the_address_that_clients_print_leads_to_the_dashboard(tracking):
    reply = tracking.http.get("/mlflow/", follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (307, "/experiments")


def test_times_of_1970_make_neither_long_runs_nor_old_points(tracking):
    created = tracking.post("runs/create", experiment_id="0", run_name="old", start_time=5)["run"][
        "info"
    ]
    for n in range(1, 6):
        point = metric("test", value=float(n), timestamp=n, step=0)
        tracking.post("runs/log-metric", run_id=created["run_id"], **point)
    seconds = int(time.time())
    tracking.post("runs/log-metric", run_id=created["run_id"], **metric(timestamp=seconds))
    trial_id = tracking.experiment_of("old")["only_trial_id"]
    trial = tracking.http.get(f"/api/v1/trials/{trial_id}").json()
    assert not trial["started_at"].startswith("1970")
    rows = tracking.http.get(f"/api/v1/trials/{trial_id}/series.jsonl").text.splitlines()
    points = {row["name"]: row for row in map(json.loads, rows)}
    assert points["test"]["value"] == 5.0
    assert points["test"]["time_ms"] > 1_000_000_000_000
    assert points["loss"]["time_ms"] == seconds * 1000


def test_the_parent_of_a_run_may_be_elsewhere(tracking):
    """Runs that are copied from another server keep their tags."""
    child = tracking.start("fold", mlflow__parentRunId="7")
    tags = tracking.get("runs/get", run_id=child)["run"]["data"]["tags"]
    assert {"key": "mlflow.parentRunId", "value": "7"} in tags


def test_an_unmanaged_run_ends_by_its_client_or_when_it_is_closed(tracking, tick, monkeypatch):
    run_id = tracking.start("outside")
    tick()
    experiment = tracking.experiment_of("outside")
    path = f"/api/v1/experiments/{experiment['id']}"
    trial_path = f"/api/v1/trials/{experiment['only_trial_id']}"
    assert tracking.http.get("/api/v1/queue").json()["items"] == []
    for operation in ("pause", "stop", "kill", "resume", "continue", "fork"):
        body = {} if operation in ("continue", "fork") else None
        refused = tracking.http.post(f"{path}:{operation}", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            409, "experiments.unmanaged",
        ), operation  # fmt: skip
    assert tracking.http.post(f"{trial_path}:stop").status_code == 409
    assert tracking.http.post(f"{path}/search:ask", json={"count": 1}).status_code == 409

    later = clock.now() + dt.timedelta(hours=20)
    monkeypatch.setattr(clock, "now", lambda: later)
    tick()
    trial = tracking.http.get(trial_path).json()
    assert (trial["state"], trial["is_silent"]) == ("RUNNING", True)
    tracking.post("runs/set-tag", run_id=run_id, key="k", value="v")
    assert tracking.http.get(trial_path).json()["is_silent"] is False

    assert tracking.http.post(f"{path}:close").status_code == 202
    tick()
    assert tracking.http.get(path).json()["state"] == "CANCELED"
    assert tracking.get("runs/get", run_id=run_id)["run"]["info"]["status"] == "KILLED"
    tracking.post("runs/update", run_id=run_id, status="RUNNING")
    tick()
    assert tracking.http.get(path).json()["state"] == "RUNNING"
    tracking.post("runs/update", run_id=run_id, status="FAILED")
    tick()
    assert tracking.http.get(path).json()["state"] == "FAILED"
    tracking.post("runs/delete", run_id=run_id)
    assert tracking.http.get(path).json()["archived_at"] is not None
    assert tracking.post("runs/search", experiment_ids=["0"])["runs"] == []
    assert tracking.http.delete(path).status_code == 200
    assert tracking.http.get(f"{API}/runs/get", params={"run_id": run_id}).status_code == 404


def test_steps_that_begin_again_are_another_run_of_the_series(tracking):
    run_id = tracking.start("folds")

    def fold(number: int, *, clock: int) -> list[dict[str, Any]]:
        return [
            metric(step=step, value=number + step / 10, timestamp=clock + step)
            for step in range(3 + number)
        ]

    t0 = 1_800_000_000_000
    first, second = fold(0, clock=t0), fold(1, clock=t0 + 1_000)
    for one in first:
        tracking.post("runs/log-metric", run_id=run_id, **one)
    for one in (*second[:2], first[0], second[1]):  # Late and repeated ones are what they were.
        tracking.post("runs/log-metric", run_id=run_id, **one)
    tracking.post("runs/log-batch", run_id=run_id, metrics=second)
    last = metric("accuracy", timestamp=t0 + 2_000, step=3, value=0.5)
    tracking.post("runs/log-batch", run_id=run_id, metrics=[*fold(2, clock=t0 + 1_500), last])

    trial_id = tracking.experiment_of("folds")["only_trial_id"]
    series = tracking.http.get(f"/api/v1/trials/{trial_id}/series.jsonl").text
    found: dict[str, list[tuple[int, float]]] = {}
    for row in map(json.loads, series.splitlines()):
        found.setdefault(row["name"], []).append((row["step"], row["value"]))
    assert found == {
        "loss": [(0, 0.0), (1, 0.1), (2, 0.2)],
        "run-2/loss": [(0, 1.0), (1, 1.1), (2, 1.2), (3, 1.3)],
        "run-3/loss": [(0, 2.0), (1, 2.1), (2, 2.2), (3, 2.3), (4, 2.4)],
        "accuracy": [(3, 0.5)],
    }
    history = tracking.get("metrics/get-history", run_id=run_id, metric_key="loss")["metrics"]
    assert [(m["step"], m["value"]) for m in history] == [
        point for name in ("loss", "run-2/loss", "run-3/loss") for point in found[name]
    ]
    events = tracking.http.get(f"/api/v1/trials/{trial_id}/events").json()["items"]
    assert [e["message"] for e in events if "begin again" in e["message"]] == [
        f"The steps of 'loss' begin again at 0: from there on its values are those of another run, "
        f"'run-{number}/loss'."
        for number in (3, 2)
    ]


def test_an_import_that_is_repeated_is_the_same_run(tracking):
    first, again = (tracking.start("offline", muster__importId="wandb/a/1") for _ in range(2))
    assert first == again
    for value in ("0.1", "0.2"):
        params = [{"key": "lr", "value": value}]
        tracking.post("runs/log-batch", run_id=first, params=params)
    trial_id = tracking.experiment_of("offline")["only_trial_id"]
    assert tracking.http.get(f"/api/v1/trials/{trial_id}").json()["hparams"] == {"lr": 0.2}
    assert tracking.start("offline", muster__importId="wandb/a/2") != first


WANDB_RUN = Path(__file__).parents[2] / "unit/wandb_runs/run-ab12cd34.wandb"


def test_offline_runs_of_wandb_are_imported_once(muster, tracking, tick, tmp_path):
    folder = tmp_path / "wandb/offline-run-20261125_065344-ab12cd34"
    folder.mkdir(parents=True)
    whole = WANDB_RUN.read_bytes()
    (folder / WANDB_RUN.name).write_bytes(whole[:9_000])
    first = muster("import", "wandb", str(tmp_path / "wandb"))
    assert first.exit_code == 0, first.output
    assert "it has not ended" in first.output
    assert tracking.experiment_of("base line")["state"] == "RUNNING"

    damaged = bytearray(whole)
    damaged[9_000] ^= 1
    (folder / WANDB_RUN.name).write_bytes(bytes(damaged))
    partly = muster("import", "wandb", str(folder))
    assert partly.exit_code == 0, partly.output
    assert "it is damaged at byte" in partly.output
    assert "nothing behind it was read" in partly.output
    tick()
    assert tracking.experiment_of("base line")["state"] == "CANCELED", "nobody will end it"

    (folder / WANDB_RUN.name).write_bytes(whole)
    for _ in range(2):
        again = muster("import", "wandb", str(folder))
        assert again.exit_code == 0, again.output
        assert "base line: 153 values; 1 values that are not numbers" in again.output
    tick()
    experiment = tracking.experiment_of("base line")
    assert (experiment["unmanaged"], experiment["state"]) == ("wandb", "COMPLETED")
    trial = tracking.http.get(f"/api/v1/trials/{experiment['only_trial_id']}").json()
    assert trial["hparams"] == {"lr": 0.1, "layers": 3, "opt.name": "adam", "late": True}
    assert trial["summary"]["train/loss"]["count"] == 50
    assert trial["summary"]["val/loss"]["last"] == "NaN"
    lines = tracking.http.get(f"/api/v1/trials/{trial['id']}/series.jsonl").text.splitlines()
    rows = [json.loads(line) for line in lines]
    losses = [row["value"] for row in rows if row["name"] == "train/loss"]
    assert losses == [1 / (step + 1) for step in range(50)]

    (folder / "other.wandb").write_bytes(b":W&B\xe1\xbe\x07" + bytes(50))
    wrong = muster("import", "wandb", str(folder / "other.wandb"))
    assert wrong.exit_code == 1
    assert "version 7, and only 0xbee1 version 0 is known" in wrong.output
    assert "has no run of wandb" in str(muster("import", "wandb", str(tmp_path)[:-3]).exception)
