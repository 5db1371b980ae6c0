"""What a script's runs may hold: bounds, and what is said of what they cut."""

from __future__ import annotations

from typing import Any

import pytest

from muster.tracking import (
    ModelShelf,
    RunChange,
    TrackedPoint,
    TrackedRun,
    TrackingBook,
    TrackingError,
    answer,
    book,
    models,
    series_name,
    store,
    values,
)

BATCH = "/api/2.0/mlflow/runs/log-batch"
RUNS = "/api/2.0/mlflow/runs"
MODELS = "/api/2.0/mlflow/logged-models"


class Desk:
    """A book with what it has passed on."""

    def __init__(self) -> None:
        self.points: list[TrackedPoint] = []
        self.changes: list[RunChange] = []
        self.warnings: list[str] = []
        self.book = TrackingBook(
            trial="c/1",
            points=lambda run, points: self.points.extend(points),
            changed=self.changes.append,
            warn=self.warnings.append,
            trial_name="trial-3.1",
        )
        self.shelf = ModelShelf(self.book.run, trial="c/1")

    def call(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        return answer(self.book, self.shelf, method, path, body, rank=0)

    def start(self, **body: Any) -> TrackedRun:
        found = self.call("POST", "/api/2.0/mlflow/runs/create", **body)
        return self.book.run(found["run"]["info"]["run_id"])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_params_and_tags_beyond_the_bound_are_left_out_and_told_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PARAMS_MAX", 3)
    monkeypatch.setattr(store, "TAGS_MAX", 2)
    run = desk.start()
    for first in (0, 2, 4):
        params = [{"key": f"p{n}", "value": n} for n in (first, first + 1)]
        desk.call("POST", BATCH, run_id=run.run_id, params=params)
    assert run.params == {"p0": "0", "p1": "1", "p2": "2"}
    for key in ("a", "b", "a"):
        desk.call("POST", "/api/2.0/mlflow/runs/set-tag", run_id=run.run_id, key=key, value="1")
    assert run.tags.keys() == {"mlflow.runName", "a"}
    assert desk.warnings == [
        "The run 'trial-3.1' has more than 3 params: the first 3 are kept.",
        "The run 'trial-3.1' has more than 2 tags: the first 2 are kept.",
    ]


def test_long_values_are_cut_as_mlflows_server_does(desk: Desk) -> None:
    run = desk.start()
    for _ in range(2):  # A script that logs the same again is not told that it has changed.
        params = [{"key": "p", "value": "x" * 6_001}]
        desk.call("POST", BATCH, run_id=run.run_id, params=params)
    desk.call("POST", BATCH, run_id=run.run_id, tags=[{"key": "t", "value": "y" * 8_001}])
    assert run.params == {"p": "x" * 6_000}
    assert run.tags["t"] == "y" * 8_000
    assert desk.warnings == [
        "The param 'p' has 6,001 characters: the first 6,000 are kept.",
        "The tag 't' has 8,001 characters: the first 8,000 are kept.",
    ]


def test_points_that_cannot_be_stored_do_not_cost_those_beside_them(desk: Desk) -> None:
    run = desk.start()
    metrics = [
        {"key": "loss", "value": 0.5, "step": step, "timestamp": 1} for step in (-1, 0, 1, 2**60)
    ]
    metrics += [{"key": "n", "value": 10**400, "step": 0, "timestamp": 1}] * 2
    metrics += [{"key": "late", "value": 1, "step": 0, "timestamp": 1_700_000_000_000_000_000}]
    desk.call("POST", BATCH, run_id=run.run_id, metrics=metrics)
    assert [(point.key, point.step) for point in desk.points] == [
        ("loss", 0),
        ("loss", 1),
        ("late", 0),
    ]
    assert desk.points[-1].time_ms < 2**53
    assert desk.warnings == [
        f"The metric 'loss' has values that are left out: step -1 lies outside 0 to {2**53 - 1}.",
        f"The metric 'loss' has values that are left out: step {2**60} lies outside 0 to "
        f"{2**53 - 1}.",
        "The metric 'n' has a value that is too large to be a number: it is left out.",
    ]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("params.note LIKE 'a*%'", "a"),
        ("params.note LIKE 'a_b_c%'", "a"),
        ("params.note LIKE 'A*%'", ""),
        ("params.note ILIKE 'A*%'", "a"),
        ("params.note LIKE '%[x]%'", "a"),
        ("params.note = 'it''s (so)'", "b"),
        ('params.note = "it\'s (so)"', "b"),
        ("params.note IN ('it''s (so)', \"a?b\")", "b"),
        ("dataset.name = 'mnist'", "a"),
        ("datasets.name LIKE 'mnist%' AND dataset.context = 'eval'", "b"),
        ("dataset.digest IN ('d1', 'd2')", "ab"),
        ("dataset.name != 'mnist'", "b"),
    ],
)
def test_filters_follow_their_own_rules(desk: Desk, condition: str, found: str) -> None:
    notes = {"a": "a*b\nc[x]", "b": "it's (so)"}
    contexts = {"a": ("mnist", "d1", "train"), "b": ("mnist2", "d2", "eval")}
    for name, note in notes.items():
        run_id = desk.start(run_name=name).run_id
        desk.call("POST", BATCH, run_id=run_id, params=[{"key": "note", "value": note}])
        dataset, digest, context = contexts[name]
        logged = {
            "dataset": {"name": dataset, "digest": digest},
            "tags": [{"key": "mlflow.data.context", "value": context}],
        }
        desk.call("POST", f"{RUNS}/log-inputs", run_id=run_id, datasets=[logged])
    runs = desk.call("POST", f"{RUNS}/search", experiment_ids=["0"], filter=condition)["runs"]
    assert "".join(sorted(run["info"]["run_name"] for run in runs)) == found


def test_times_in_the_place_of_steps_are_said(desk: Desk) -> None:
    run = desk.start()
    for n in range(1, 6):
        desk.call("POST", f"{RUNS}/log-metric", run_id=run.run_id, key="test", value=n, timestamp=n)
    (said,) = desk.warnings
    assert "has several values at step 0, with times in 1970" in said


def test_the_number_of_runs_and_models_is_bounded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "RUNS_MAX", 2)
    monkeypatch.setattr(models, "MODELS_MAX", 1)
    desk.start()
    run = desk.start()
    with pytest.raises(TrackingError, match="at most 2 runs in one attempt"):
        desk.start()
    desk.call("POST", "/api/2.0/mlflow/logged-models", name="m", source_run_id=run.run_id)
    with pytest.raises(TrackingError, match="at most 1 models"):
        desk.call("POST", "/api/2.0/mlflow/logged-models", name="m", source_run_id=run.run_id)


def test_reading_back_says_what_it_does_not_have(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "HISTORY_POINTS_MAX", 3)
    run = desk.start()
    path = "/api/2.0/mlflow/metrics/get-history"
    query = {"run_id": run.run_id, "metric_key": "loss"}
    for step in range(5):
        metric = {"key": "loss", "value": step, "timestamp": 1, "step": step}
        desk.call("POST", BATCH, run_id=run.run_id, metrics=[metric])
        if step == 1:
            first = desk.call("GET", path, **query, max_results=1)
            assert [point["step"] for point in first["metrics"]] == [0]
            rest = desk.call("GET", path, **query, page_token=first["next_page_token"])
            assert [point["step"] for point in rest["metrics"]] == [1]
    assert len(desk.points) == 5
    with pytest.raises(TrackingError, match="its first 3 points only"):
        desk.call("GET", path, **query)
    assert run.latest["loss"].value == 4


@pytest.mark.parametrize(
    ("label", "key", "name"),
    [
        ("", "train/loss", "train/loss"),
        ("fold-1", "loss", "fold-1/loss"),
        ("", "-odd", "-odd"),
        ("", "val acc: top 1", "val acc: top 1"),
    ],
)
def test_series_are_named_as_muster_allows(label: str, key: str, name: str) -> None:
    assert series_name(label, key) == name


def test_long_names_stay_apart() -> None:
    first, second = (series_name("run", "k" * 240 + end) for end in "ab")
    assert len(first) == len(second) == 200
    assert first != second


def test_the_run_of_the_trial_can_be_resumed_where_nothing_is_left_of_it(desk: Desk) -> None:
    run_id = Desk().start(run_name="main").run_id
    resumed = desk.call("GET", "/api/2.0/mlflow/runs/get", run_id=run_id)["run"]
    assert (resumed["info"]["run_id"], resumed["data"]["params"]) == (run_id, [])
    assert [change.is_new for change in desk.changes] == [False], "the server keeps what it has"
    child = desk.start(run_name="main")
    assert child.label == "main"
    with pytest.raises(TrackingError, match="not found"):
        desk.call("GET", "/api/2.0/mlflow/runs/get", run_id="0" * 32)


def test_a_script_that_wants_its_artifacts_elsewhere_goes_on(desk: Desk) -> None:
    """Scripts that were written for another server run unchanged."""
    create = "/api/2.0/mlflow/experiments/create"
    made = desk.call("POST", create, name="digits", artifact_location="s3://bucket/digits")
    assert desk.book.experiment(made["experiment_id"]).name == "digits"
    (warning,) = desk.warnings
    assert "s3://bucket/digits" in warning
    assert "outputs" in warning


def test_a_run_of_an_unknown_parent_is_the_trials_own(desk: Desk) -> None:
    """The parent may be at another server, whose driver started this job."""
    parent = [{"key": "mlflow.parentRunId", "value": "5" * 32}]
    first = desk.start(run_name="fold", tags=parent)
    assert (first.label, first.parent_id) == ("", "5" * 32)
    child = desk.start(run_name="a", tags=[{"key": "mlflow.parentRunId", "value": first.run_id}])
    assert (child.label, child.parent_id) == ("a", first.run_id)


def test_models_are_paged_ordered_and_deleted(desk: Desk) -> None:
    made = [
        desk.call("POST", f"{MODELS}", experiment_id="0", name=name)["model"]["info"]["model_id"]
        for name in ("a", "c", "b")
    ]

    def search(**body: Any) -> tuple[list[str], str]:
        found = desk.call("POST", f"{MODELS}/search", experiment_ids=["0"], **body)
        names = [model["info"]["name"] for model in found["models"]]
        return names, found.get("next_page_token", "")

    names, token = search(max_results=2)
    assert names == ["b", "c"]
    assert search(max_results=2, page_token=token) == (["a"], "")
    by_name = [{"field_name": "name", "ascending": True}]
    assert search(order_by=by_name)[0] == ["a", "b", "c"]
    assert search(order_by=[{"field_name": "name", "ascending": False}])[0] == ["c", "b", "a"]
    with pytest.raises(TrackingError, match="data sets"):
        search(datasets=[{"dataset_name": "digits"}])
    with pytest.raises(TrackingError, match="Invalid order_by"):
        search(order_by=["name"])

    desk.call("DELETE", f"{MODELS}/{made[1]}")
    assert search()[0] == ["b", "a"]
    with pytest.raises(TrackingError, match="not found"):
        desk.call("GET", f"{MODELS}/{made[1]}")
    with pytest.raises(TrackingError, match="No tag with key: none"):
        desk.call("DELETE", f"{MODELS}/{made[0]}/tags/none")


def test_models_that_a_run_reads_are_not_those_that_it_writes(desk: Desk) -> None:
    run = desk.start()
    desk.call("POST", f"{RUNS}/log-inputs", run_id=run.run_id, models=[{"model_id": "m-1"}])
    desk.call("POST", f"{RUNS}/outputs", run_id=run.run_id, models=[{"model_id": "m-2", "step": 3}])
    shown = desk.call("GET", f"{RUNS}/get", run_id=run.run_id)["run"]
    assert shown["inputs"]["model_inputs"] == [{"model_id": "m-1"}]
    assert shown["outputs"]["model_outputs"] == [{"model_id": "m-2", "step": 3}]
    for given in ("m-1", ["m-1"]):
        with pytest.raises(TrackingError, match="must be"):
            desk.call("POST", f"{RUNS}/log-inputs", run_id=run.run_id, models=given)


def test_models_without_a_name_differ(desk: Desk) -> None:
    names = {desk.call("POST", MODELS)["model"]["info"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("model-") for name in names)


def test_a_page_beyond_the_limit_is_refused(desk: Desk) -> None:
    with pytest.raises(
        TrackingError, match="Invalid value 50001 for parameter 'max_results' supplied: at most"
    ):
        desk.call("POST", "/api/2.0/mlflow/runs/search", experiment_ids=["0"], max_results=50_001)


def test_a_client_that_asks_for_more_than_a_page_holds_gets_it_in_pages() -> None:
    body: dict[str, Any] = {"max_results": 10_000}
    found: list[int] = []
    while "page_token" not in body or body["page_token"]:
        page, token = values.page_of(
            list(range(2_500)), body, default=100, limit=200_000, page_max=1_000
        )
        assert len(page) <= 1_000
        found += page
        body["page_token"] = token
    assert found == list(range(2_500))
