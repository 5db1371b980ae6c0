"""MLflow's tracking API of a shim: what real clients have sent, and what no client should."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conftest import RunningShim, wait_for
from muster import wire

RECORDED = Path(__file__).parent / "mlflow_requests"
WAIT = """
import json, os, pathlib, time
rank = os.environ.get("RANK", "0")
names = ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN")
pathlib.Path(f".seen-{rank}").write_text(json.dumps([os.environ.get(n, "") for n in names]))
os.rename(f".seen-{rank}", f"seen-{rank}")
while not pathlib.Path("end").exists():
    time.sleep(0.02)
"""
RUN = "/api/2.0/mlflow/runs"


@dataclass
class TrackingClient:
    """A client without MLflow: bodies in, bodies out."""

    port: int
    token: str
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def raw(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        headers.setdefault("Authorization", f"Bearer {self.token}")
        self.connection.request(method, path, body or None, headers)
        reply = self.connection.getresponse()
        return reply.status, reply.read()

    def refused(self, path: str, **body: Any) -> tuple[int, str, str]:
        """The answer to what is not possible: status, code and message."""
        status, data = self.raw("POST", path, json.dumps(body).encode())
        found = json.loads(data)
        return status, found["error_code"], found["message"]

    def post(self, path: str, **body: Any) -> Any:
        status, data = self.raw("POST", path, json.dumps(body).encode())
        assert status == 200, data
        return json.loads(data)

    def get(self, path: str) -> Any:
        status, data = self.raw("GET", path)
        assert status == 200, data
        return json.loads(data)

    def start(self, name: str = "", **tags: str) -> str:
        given = [{"key": key.replace("__", "."), "value": value} for key, value in tags.items()]
        body = {"experiment_id": "0", "start_time": 1_000, "tags": given}
        return str(self.post(f"{RUN}/create", run_name=name, **body)["run"]["info"]["run_id"])


@dataclass
class TrackedJob:
    """A job that waits while the test sends what its script could send."""

    shim: RunningShim
    client: TrackingClient
    code: Path

    @property
    def outputs(self) -> Path:
        home = self.shim.folder.path.parent.parent
        return home / "work/7/files/muster-outputs/mlflow"

    def end(self) -> None:
        (self.code / "end").touch()
        assert self.shim.wait_exit().cause == "success"
        for path in (self.code / "end", *self.code.glob("seen-*")):
            path.unlink()

    def points(self) -> dict[str, list[tuple[int, wire.Number]]]:
        """The values on their way to the server, by series."""
        found: dict[str, list[tuple[int, wire.Number]]] = {}
        for record in self.shim.of(wire.MetricsRecord):
            for series in record.series:
                rows = zip(series.steps, series.values, strict=True)
                found.setdefault(series.name, []).extend(rows)
        return found

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs as the server puts them together, by label."""
        found: dict[str, dict[str, Any]] = {}
        for record in self.shim.of(wire.TrackedRunRecord):
            if record.is_new:
                found.pop(record.label, None)
            run = found.setdefault(record.label, {"params": {}, "tags": {}})
            run |= {"status": record.status, "name": record.name, "rank": record.label}
            run["params"].update(record.params)
            run["tags"].update(record.tags)
            for key in record.removed_tags:
                del run["tags"][key]
        return found


@contextlib.contextmanager
def registry(running: TrackedJob, **errors: str) -> Iterator[list[wire.ModelRegistrationRecord]]:
    """Answer what a script registers, as the agent does with the server's answers: folders are numbered
    in their order. errors: of models by name. Yields what was asked."""
    asked: list[wire.ModelRegistrationRecord] = []
    folders: list[str] = [""]
    has_ended = threading.Event()

    def answer() -> None:
        while not has_ended.wait(0.01):
            for record in running.shim.of(wire.ModelRegistrationRecord)[len(asked) :]:
                asked.append(record)
                is_new = record.folder not in folders or not record.folder
                folders.extend([record.folder] if record.folder not in folders else [])
                done = wire.ModelRegistration(
                    no=record.no,
                    version=folders.index(record.folder),
                    is_new=is_new,
                    error=errors.get(record.name, ""),
                )
                running.shim.command("registered", done=dataclasses.asdict(done))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield asked
    finally:
        has_ended.set()
        thread.join()


@pytest.fixture
def job(shims: Any) -> Iterator[Callable[..., TrackedJob]]:
    clients: list[TrackingClient] = []

    def start(before: str = "", **changes: Any) -> TrackedJob:
        changes = {"launcher": "plain", "slots": [0], "world_size": 1} | changes
        shim = shims(before + WAIT, **changes)
        shim.start()
        seen = shims.code / "seen-0"
        uri, token = json.loads(wait_for(lambda: seen.exists() and seen.read_text()))
        host, _, port = uri.removeprefix("http://").partition(":")
        assert host == "127.0.0.1"
        clients.append(TrackingClient(int(port), token))
        return TrackedJob(shim, clients[-1], shims.code)

    yield start
    for client in clients:
        client.connection.close()


def test_what_a_library_reports_itself_is_not_recorded_again(job: Any) -> None:
    """A Trainer that reports to MLflow, too."""
    running = job(
        "import sys, types\n"
        "sys.modules['mlflow'] = types.ModuleType('mlflow')\n"
        "from muster.sdk.reporter import current\n"
        # The name is at the agent when the call returns, before MLflow's client is asked.
        "current().log_captured({'loss': 0.5}, route='transformers', library='x', step=10)\n"
    )
    run = running.client.start()
    metrics = [
        {"key": key, "value": 0.5, "timestamp": 1_000, "step": 10} for key in ("loss", "own")
    ]
    running.client.post(f"{RUN}/log-batch", run_id=run, metrics=metrics)
    found = running.client.get(f"/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key=loss")
    assert [metric["value"] for metric in found["metrics"]] == [0.5], "the client sees its own"
    running.end()
    assert running.points() == {"loss": [(10, 0.5)], "own": [(10, 0.5)]}


@pytest.mark.parametrize("version", ["3.17", "2.22"])
def test_what_real_clients_send_arrives(job: Any, version: str) -> None:
    running = job()
    with registry(running):
        for item in json.loads((RECORDED / f"{version}.json").read_text()):
            body = (item["body"] or "").encode("latin-1")
            status, data = running.client.raw(item["method"], f"/{item['path']}", body)
            # When the recording was made, a job could not register a model.
            expected = 200 if item["path"].endswith("registered-models/create") else item["status"]
            assert status == expected, (item["method"], item["path"], data)
    running.end()

    points = running.points()
    assert points["train/loss"] == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert points["val/loss"] == [(2, "NaN")]
    assert points["worst"] == [(2, "Infinity")]
    assert points["least"] == [(2, "-Infinity")]
    # Logged at a negative step; the newer client then repeats, with its model, what it once read at 0.
    assert ("late" in points) == (version == "3.17")
    assert points["after"] == [(0, 1.0)]
    assert points["fold-1/loss"] == [(1, 3.0)]
    runs = running.runs()
    assert runs.keys() == {"", "fold-1"}
    assert runs[""]["params"] == {"lr": "0.1", "layers": "3", "note": "x" * 300}
    assert runs[""]["status"] == runs["fold-1"]["status"] == "FINISHED"
    assert {k: v for k, v in runs[""]["tags"].items() if "mlflow." not in k} == {"team": "vision"}
    assert (running.outputs / "base-line/artifacts/notes/hello.txt").read_text() == "hello"
    assert json.loads((running.outputs / "base-line/artifacts/settings.json").read_text())
    models = "models" if version == "3.17" else "artifacts"
    assert (running.outputs / "base-line" / models / "twice/MLmodel").is_file()


def test_limits_are_mlflows_and_an_error_changes_nothing(job: Any) -> None:
    running = job()
    client = running.client
    run_id = client.start("limits")
    batch = f"{RUN}/log-batch"

    def metric(key: str = "loss", **more: Any) -> dict[str, Any]:
        return {"key": key, "value": 1.0, "timestamp": 1_000, "step": 0} | more

    for body, message in [
        ({"metrics": [metric(step=n) for n in range(1_001)]}, "at most 1000 metrics. Got 1001"),
        ({"params": [{"key": f"p{n}", "value": "1"} for n in range(101)]}, "at most 100 params"),
        ({"tags": [{"key": f"t{n}", "value": "1"} for n in range(101)]}, "at most 100 tags"),
        ({"metrics": [metric(), metric("x" * 251)]}, "has 251 characters"),
        ({"metrics": [metric(), metric("a/../b")]}, "Names must be unique as paths"),
        ({"metrics": [metric(), metric("a\nb")]}, "cannot contain control characters"),
        (
            {"metrics": [metric(), metric(value="much")]},
            "Got invalid value 'much' for metric 'loss'",
        ),
        ({"metrics": [metric(), metric(value=True)]}, "a number is needed"),
        ({"metrics": [metric(), metric(step="two")]}, "for step of metric 'loss'"),
        ({"metrics": [metric()], "params": "p"}, "params must be a list"),
    ]:
        assert client.refused(batch, run_id=run_id, **body)[:2] == (400, "INVALID_PARAMETER_VALUE")
        assert message in client.refused(batch, run_id=run_id, **body)[2]
    items = {"metrics": [metric(step=n) for n in range(950)]}
    items["params"] = [{"key": f"p{n}", "value": "1"} for n in range(60)]
    assert "at most 1000 items. Got 1010" in client.refused(batch, run_id=run_id, **items)[2]
    assert client.refused(batch, run_id="none")[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    status, data = client.raw("POST", batch, b"{")
    assert (status, json.loads(data)["error_code"]) == (400, "INVALID_PARAMETER_VALUE")

    client.post(f"{RUN}/log-parameter", run_id=run_id, key="lr", value="0.1")
    client.post(f"{RUN}/log-parameter", run_id=run_id, key="lr", value="0.1")
    changed = client.refused(f"{RUN}/log-parameter", run_id=run_id, key="lr", value="0.2")
    assert "Changing param values is not allowed" in changed[2]
    both = [{"key": "new", "value": "1"}, {"key": "lr", "value": "0.2"}]
    assert client.refused(batch, run_id=run_id, params=both)[0] == 400
    assert running.points() == {}
    assert running.runs()[""]["params"] == {"lr": "0.1"}

    whole = [metric(value=float(n), step=n // 4, timestamp=str(n)) for n in range(1_000)]
    for _ in range(2):  # The second time as after a lost answer.
        client.post(batch, run_id=run_id, metrics=whole)
    client.post(batch, run_id=run_id, metrics=[*whole[900:], metric("k" * 250)])
    history = client.get(f"/api/2.0/mlflow/metrics/get-history?run_id={run_id}&metric_key=loss")
    assert [point["value"] for point in history["metrics"]] == [float(n) for n in range(1_000)]
    running.end()
    points = running.points()
    assert points.pop("loss") == [(n // 4, float(n)) for n in range(1_000)]
    (long_name,) = points
    assert len(long_name) == 200
    assert long_name.startswith("k" * 191 + "~")


def test_only_who_has_the_token_is_answered_and_the_rest_is_refused(job: Any) -> None:
    running = job()
    client = running.client
    for token in ("", "Bearer wrong", f"Bearer {client.token}x"):
        status, data = client.raw("POST", f"{RUN}/create", b"{}", Authorization=token)
        assert (status, json.loads(data)["error_code"]) == (401, "UNAUTHENTICATED")
    for path in (
        "/api/2.0/mlflow/registered-models/rename",
        "/api/3.0/mlflow/traces",
        "/v1/traces",
        "/elsewhere",
    ):
        status, code, message = client.refused(path, name="m")
        assert (status, code) == (404, "ENDPOINT_NOT_FOUND")
        assert path in message
    too_large = client.raw("POST", f"{RUN}/log-batch", b" " * (8 * 2**20 + 1))
    assert too_large[0] == 400
    running.end()
    assert running.runs() == {}
    assert client.token not in json.dumps([str(r) for r in running.shim.records])


MLFLOW = "/api/2.0/mlflow"
VERSIONS = f"{MLFLOW}/model-versions"


def logged(client: TrackingClient) -> tuple[str, str]:
    """Log a model for a run; the id of the run, and the source of a version of the model."""
    run_id = client.start("base")
    path = f"0/{run_id}/artifacts/net"
    for name, content in (("MLmodel", b"flavors: {}"), ("data/w.bin", b"x" * 10)):
        artifact = f"/api/2.0/mlflow-artifacts/artifacts/{path}/{name}"
        assert client.raw("PUT", artifact, content)[0] == 200
    return run_id, f"mlflow-artifacts:/{path}"


def test_a_version_has_the_number_that_the_server_gives(job: Any) -> None:
    running = job()
    client = running.client
    run_id, source = logged(client)
    with registry(running, theirs="Model theirs belongs to ada.") as asked:
        client.post(f"{MLFLOW}/registered-models/create", name="digits", description="Of digits.")
        taken = client.refused(f"{MLFLOW}/registered-models/create", name="digits")
        assert taken[:2] == (400, "RESOURCE_ALREADY_EXISTS")
        body = {"name": "digits", "source": source, "run_id": run_id}
        tags = [{"key": "team", "value": "vision"}]
        for again in ({}, {"tags": tags}):  # The same files once more are the same version.
            made = client.post(f"{VERSIONS}/create", **body | again)["model_version"]
            assert (made["version"], made["status"], made["source"]) == ("1", "READY", source)
        body["source"] = f"runs:/{run_id}/net/data"
        assert client.post(f"{VERSIONS}/create", **body)["model_version"]["version"] == "2"
        found = client.get(f"{VERSIONS}/get?name=digits&version=1")["model_version"]
        assert (found["tags"], found["run_id"]) == (tags, run_id)
        uri = client.get(f"{VERSIONS}/get-download-uri?name=digits&version=1")
        assert uri == {"artifact_uri": source}
        query = urllib.parse.urlencode({"filter": "name='digits' AND version_number > 1"})
        (second,) = client.get(f"{VERSIONS}/search?{query}")["model_versions"]
        assert second["version"] == "2"
        for version in ("1", "2"):  # It moves.
            alias = {"name": "digits", "alias": "champion", "version": version}
            client.post(f"{MLFLOW}/registered-models/alias", **alias)
        named = client.get(f"{MLFLOW}/registered-models/get?name=digits")["registered_model"]
        assert named["aliases"] == [{"alias": "champion", "version": "2"}]
        assert named["description"] == "Of digits."

        nothing = client.refused(f"{VERSIONS}/create", **body | {"source": f"{source}/none"})
        assert nothing[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
        elsewhere = client.refused(f"{VERSIONS}/create", **body | {"source": "s3://b/net"})
        assert "muster model upload" in elsewhere[2]
        refused = client.refused(f"{VERSIONS}/create", **body | {"name": "theirs"})
        assert refused == (400, "INVALID_PARAMETER_VALUE", "Model theirs belongs to ada.")
        assert client.get(f"{VERSIONS}/search?filter=name%3D%27theirs%27") == {"model_versions": []}
    running.end()
    folder = "muster-outputs/mlflow/base/artifacts/net"
    assert [(r.name, r.folder, r.aliases) for r in asked] == [
        ("digits", "", None), ("digits", folder, None), ("digits", folder, None),
        ("digits", f"{folder}/data", None), ("digits", folder, ["champion"]),
        ("digits", f"{folder}/data", ["champion"]), ("digits", folder, []),
        ("theirs", f"{folder}/data", None),
    ]  # fmt: skip
    assert asked[1].mlmodel == "flavors: {}"


def test_nobody_waits_for_a_server_that_is_away(job: Any) -> None:
    running = job()
    client = running.client
    run_id, source = logged(client)
    body = {"name": "digits", "source": source, "run_id": run_id}
    began = time.monotonic()
    made = client.post(f"{VERSIONS}/create", **body)["model_version"]
    assert time.monotonic() - began < 30
    assert (made["version"], made["status"]) == ("0", "READY")
    assert "cannot be reached" in made["status_message"]
    said = [record.text for record in running.shim.of(wire.MessageRecord)]
    assert any("version gets its number when the server answers" in text for text in said)
    done = wire.ModelRegistration(no=1, version=7, is_new=True)
    running.shim.command("registered", done=dataclasses.asdict(done))
    found = client.get(f"{VERSIONS}/get?name=digits&version=7")["model_version"]
    assert "cannot be reached" not in found["status_message"]
    running.end()


def test_artifacts_stay_below_their_run(job: Any, tmp_path: Path) -> None:
    running = job()
    client = running.client
    run_id = client.start("files")
    base = f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts"
    big = os.urandom(3 * 2**20)
    refused = client.raw("PUT", f"{base}/../x", big)
    assert refused[0] == 400, "the refusal arrives although the body was not wanted"
    assert client.raw("PUT", f"{base}/a/big.bin", big)[0] == 200
    assert client.raw("GET", f"{base}/a/big.bin") == (200, big)
    for path in ("../x", "a/%2e%2e/%2e%2e/x", "a//x", "%00", "x" * 300, "a/big.bin/x"):
        status, data = client.raw("PUT", f"{base}/{path}", b"x")
        assert (status, json.loads(data)["error_code"]) == (400, "INVALID_PARAMETER_VALUE"), path
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    artifacts = running.outputs / "files/artifacts"
    (artifacts / "link").symlink_to(outside)
    (artifacts / "single").symlink_to(outside / "secret")
    assert client.raw("PUT", f"{base}/link/new", b"x")[0] == 400
    assert client.raw("GET", f"{base}/link/secret")[0] != 200
    assert client.raw("GET", f"{base}/single")[0] != 200
    assert list(outside.iterdir()) == [outside / "secret"]
    root = "/api/2.0/mlflow-artifacts/artifacts"
    listed = client.get(f"{root}?path=0/{run_id}/artifacts/a")
    assert listed == {"files": [{"path": "big.bin", "is_dir": False, "file_size": len(big)}]}
    assert client.raw("GET", f"{base}/none")[0] == 404
    assert client.raw("GET", f"{root}/0/none/artifacts/x")[0] == 404
    assert client.raw("DELETE", f"{base}/a")[0] == 200
    assert not (artifacts / "a").exists()
    running.end()


def test_an_upload_that_breaks_off_leaves_nothing(job: Any) -> None:
    running = job()
    client = running.client
    run_id = client.start("files")
    path = f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/a.bin"
    with socket.create_connection(("127.0.0.1", client.port)) as broken:
        head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
        broken.sendall(f"{head}Authorization: Bearer {client.token}\r\n\r\nabc".encode())
        folder = running.outputs / "files/artifacts"
        wait_for(lambda: folder.exists() and list(folder.iterdir()), what="the upload begins")
    wait_for(lambda: not list(folder.iterdir()), what="the upload is deleted")
    with socket.create_connection(("127.0.0.1", client.port)) as strange:
        strange.sendall(b"nonsense\r\n\r\n")
        assert strange.recv(100).startswith(b"HTTP/1.1 400")
    assert client.raw("GET", "/health")[0] == 200
    running.end()
    assert "Traceback" not in running.shim.words()


def test_one_run_is_the_trial_and_others_are_its_children(job: Any) -> None:
    running = job()
    client = running.client
    first = client.start("main")
    child = client.start("fold", mlflow__parentRunId=first)
    second, third = client.start("fold"), client.start()
    for value, run_id in enumerate((first, child, second, third)):
        body = {"key": "loss", "value": value, "timestamp": 1, "step": 1}
        client.post(f"{RUN}/log-metric", run_id=run_id, **body)
    client.post(f"{RUN}/update", run_id=child, status="FAILED", end_time=2_000)
    wrong = client.refused(f"{RUN}/update", run_id=child, status="DONE")
    assert "must be one of RUNNING, SCHEDULED, FINISHED" in wrong[2]
    found = client.post(
        f"{RUN}/search", experiment_ids=["0"], order_by=["metrics.loss DESC"], max_results=3
    )
    assert [run["info"]["run_id"] for run in found["runs"]] == [third, second, child]
    rest = client.post(f"{RUN}/search", experiment_ids=["0"], order_by=["metrics.loss DESC"],
                       page_token=found["next_page_token"])  # fmt: skip
    assert [run["info"]["run_id"] for run in rest["runs"]] == [first]
    failed = client.post(f"{RUN}/search", experiment_ids=[0], filter="attributes.status = 'FAILED'")
    assert [run["info"]["run_id"] for run in failed["runs"]] == [child]
    assert client.refused(f"{RUN}/search", experiment_ids=[0], filter="loss ~ 1")[0] == 400
    running.end()
    assert running.points() == {
        "loss": [(1, 0.0)], "fold/loss": [(1, 1.0)], "fold-2/loss": [(1, 2.0)],
        "run-3/loss": [(1, 3.0)],
    }  # fmt: skip
    assert running.runs()["fold"]["status"] == "FAILED"


def test_a_later_attempt_starts_the_same_run_afresh_or_resumes_it(job: Any) -> None:
    before = job()
    run_id = before.client.start("main")
    before.client.post(f"{RUN}/log-parameter", run_id=run_id, key="lr", value="0.1")
    body = {"key": "loss", "value": 0.5, "timestamp": 1, "step": 3}
    before.client.post(f"{RUN}/log-metric", run_id=run_id, **body)
    before.client.raw(
        "PUT", f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts/x", b"first"
    )
    before.end()

    resumed = job(allocation_id="b2", attempt_no=2, trial_id=7)
    known = resumed.client.get(f"{RUN}/get?run_id={run_id}")["run"]
    assert known["data"]["params"] == [{"key": "lr", "value": "0.1"}]
    assert [m["value"] for m in known["data"]["metrics"]] == [0.5]
    base = f"/api/2.0/mlflow-artifacts/artifacts/0/{run_id}/artifacts"
    assert resumed.client.raw("GET", f"{base}/x") == (200, b"first")
    resumed.end()

    afresh = job(allocation_id="b3", attempt_no=3, trial_id=7)
    assert afresh.client.start("main") == run_id
    afresh.client.post(f"{RUN}/log-parameter", run_id=run_id, key="lr", value="0.2")
    afresh.end()
    assert afresh.runs()[""]["params"] == {"lr": "0.2"}


CREATE = """
import json, os, pathlib, time, urllib.request
rank = os.environ["RANK"]
while rank == "0" and not pathlib.Path("done-1").exists():
    time.sleep(0.02)  # The trial's run is that of rank 0, not the first to come.
request = urllib.request.Request(
    os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/create",
    json.dumps({"experiment_id": "0", "run_name": "both"}).encode(),
    {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]},
)
with urllib.request.urlopen(request) as reply:
    json.load(reply)
pathlib.Path(f"done-{rank}").touch()
"""


def test_the_first_run_of_rank_0_is_the_trial(shims: Any) -> None:
    shim = shims(CREATE)
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert [r.label for r in shim.of(wire.TrackedRunRecord)] == ["rank-1", ""]


@pytest.mark.parametrize(("rank", "label"), [("0", ""), ("1", "rank-1"), (None, "rank-1")])
def test_ranks_count_as_torchrun_has_dealt_them_to_the_nodes(
    shims: Any, rank: str | None, label: str
) -> None:
    """Rank 0 may be on the second node; who has no rank is taken for the first of its node."""
    (shims.code / "call.py").write_text(
        CREATE.replace('os.environ["RANK"]', 'os.environ.get("RANK", "x")')
        .replace('rank == "0" and', "False and")
    )  # fmt: skip
    given = f"dict(os.environ, RANK={rank!r})" if rank else "dict(os.environ)"
    script = (
        "import os, subprocess, sys\ndel os.environ['RANK']\n"
        f"subprocess.run([sys.executable, 'call.py'], env={given}, check=True)\n"
    )
    shim = shims(script, num_nodes=2, node_rank=1, slots=[0], rank_offset=1)
    shim.start(wire.Rendezvous(host="127.0.0.1", port=1, run_id="r"))
    assert shim.wait_exit().cause == "success"
    assert [r.label for r in shim.of(wire.TrackedRunRecord)] == [label]


def test_a_tracking_server_of_the_jobs_own_wins(shims: Any) -> None:
    shim = shims(
        "import os; print(os.environ['MLFLOW_TRACKING_URI'], 'MLFLOW_TRACKING_TOKEN' in os.environ)",
        launcher="plain", slots=[0], world_size=1,
        environment={"MLFLOW_TRACKING_URI": "https://mlflow.example"},
    )  # fmt: skip
    shim.start()
    assert shim.wait_exit().cause == "success"
    assert shim.printed(0) == "https://mlflow.example False\n"


def test_the_token_is_masked_also_by_an_agent_that_starts_anew(
    plane: Any, agent: Any, make_spec: Any, code: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = (
        "import os, time\nprint('first', os.environ['MLFLOW_TRACKING_TOKEN'], flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "print('then', os.environ['MLFLOW_TRACKING_TOKEN'], flush=True)\n"
        "raise ValueError(os.environ['MLFLOW_TRACKING_TOKEN'])\n"
    )
    plane.want(make_spec("a1", code=code(script), launcher="plain", slots=[0], world_size=1))
    agent.wait_state("a1", "RUNNING")
    held = plane.of("a1")
    wait_for(lambda: "first" in held.log_text(0))
    token = agent.folder("a1").read_options().tracking_token
    assert len(token) > 30
    agent.kill()
    agent.start()
    go.touch()
    info = agent.wait_exit("a1")
    stars = "*" * len(token)
    assert held.log_text(0) == f"first {stars}\nthen {stars}\n"
    assert info.message.endswith(f"ValueError: {stars}")
    assert token not in str(held.records)
