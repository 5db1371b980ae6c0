"""The endpoints: what of a store a request reads and changes. Bodies and answers are JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from muster.series_rules import STEP_MAX

from . import search
from .errors import invalid, no_endpoint
from .models import MODELS_MAX, ModelShelf
from .runs import INPUT_MARK, MODELS_TAG, RunChange, TrackedExperiment, TrackedRun, metric_json
from .store import TrackingStore
from .values import (
    BATCH_METRICS_MAX,
    TrackedPoint,
    items_of,
    key_of,
    listed,
    page_of,
    pair_of,
    text_of,
    whole_of,
)

PAGE_MAX = 50_000
"""Most runs in one answer."""
HISTORY_PAGE_MAX = 25_000
"""Most points in one answer."""
DATASETS_MAX = 100
"""Most data sets of a run, and descriptions of models in its tag."""
EXPERIMENT_TAGS_MAX = 100
BULK_RUNS_MAX = 100
"""Most runs whose histories one request can ask for."""

_PATH = re.compile(r"(?:/ajax-api|/api)/(?:2|3)\.0/mlflow(/.*)")

Body = Mapping[str, Any]


def answer(
    store: TrackingStore, shelf: ModelShelf, method: str, path: str, body: Body, *, rank: int
) -> dict[str, Any]:
    """Return the answer to a request. Raises TrackingError.

    body: the fields of its JSON body or, for GET, of its query.
    rank: of the worker that asks.
    """
    found = _PATH.fullmatch(path)
    name = found[1] if found else ""
    if name.startswith("/logged-models"):
        return shelf.answer(method, name, body, now_ms=store.now_ms())
    endpoint = _ENDPOINTS.get((method, name))
    if name == "/runs/create" and method == "POST":
        return {"run": store.create_run(body, rank=rank).shown()}
    if endpoint is None:
        raise no_endpoint(method, path)
    return endpoint(store, body)


def run_id_of(body: Body) -> str:
    """Return the id of the run that a request is about. Raises TrackingError."""
    return text_of({"run_id": body.get("run_id") or body.get("run_uuid")}, "run_id")


def _run(store: TrackingStore, body: Body) -> TrackedRun:
    return store.run(run_id_of(body))


# ---------------------------------------------------------------- experiments


def _get_experiment(store: TrackingStore, body: Body) -> dict[str, Any]:
    return {"experiment": store.experiment(text_of(body, "experiment_id")).shown()}


def _get_experiment_by_name(store: TrackingStore, body: Body) -> dict[str, Any]:
    return {"experiment": store.experiment_named(text_of(body, "experiment_name")).shown()}


def _create_experiment(store: TrackingStore, body: Body) -> dict[str, Any]:
    if location := body.get("artifact_location"):
        store.refuse_location(str(location))
    tags = dict(store.pair(tag, "tag") for tag in items_of(body, "tags", EXPERIMENT_TAGS_MAX))
    name = body.get("name")
    if not isinstance(name, str):
        raise invalid("name must be a text")
    return {"experiment_id": store.create_experiment(text_of(body, "name"), tags).experiment_id}


def _update_experiment(store: TrackingStore, body: Body) -> dict[str, Any]:
    experiment = store.experiment(text_of(body, "experiment_id"))
    experiment.name = text_of(body, "new_name")
    return _saved(store, experiment)


def _delete_experiment(store: TrackingStore, body: Body) -> dict[str, Any]:
    experiment = store.experiment(text_of(body, "experiment_id"))
    experiment.stage = "deleted"
    return _saved(store, experiment)


def _restore_experiment(store: TrackingStore, body: Body) -> dict[str, Any]:
    experiment = store.experiment(text_of(body, "experiment_id"))
    experiment.stage = "active"
    return _saved(store, experiment)


def _search_experiments(store: TrackingStore, body: Body) -> dict[str, Any]:
    matches = search.matcher(str(body.get("filter") or ""), _EXPERIMENT_ATTRIBUTES)
    stages = _stages(body.get("view_type"))
    found = [e for e in store.experiments() if e.stage in stages and matches(e)]
    found.sort(key=lambda experiment: (-experiment.created_ms, whole_of(experiment.experiment_id)))
    found = search.ordered(found, _orders(body), _EXPERIMENT_ATTRIBUTES)
    page, token = page_of(found, body, default=1_000, limit=PAGE_MAX)
    answer: dict[str, Any] = {"experiments": [experiment.shown() for experiment in page]}
    return {**answer, "next_page_token": token} if token else answer


def _set_experiment_tag(store: TrackingStore, body: Body) -> dict[str, Any]:
    experiment = store.experiment(text_of(body, "experiment_id"))
    key, value = pair_of(body, "tag")
    if key not in experiment.tags and len(experiment.tags) >= EXPERIMENT_TAGS_MAX:
        raise invalid(f"an experiment can have at most {EXPERIMENT_TAGS_MAX} tags")
    experiment.tags[key] = value
    return _saved(store, experiment)


def _delete_experiment_tag(store: TrackingStore, body: Body) -> dict[str, Any]:
    experiment = store.experiment(text_of(body, "experiment_id"))
    experiment.tags.pop(key_of(body, "tag"), None)
    return _saved(store, experiment)


def _saved(store: TrackingStore, experiment: TrackedExperiment) -> dict[str, Any]:
    experiment.updated_ms = store.now_ms()
    store.save_experiment(experiment)
    return {}


_EXPERIMENT_ATTRIBUTES: search.Attributes[TrackedExperiment] = {
    "name": lambda experiment: experiment.name,
    "experiment_id": lambda experiment: whole_of(experiment.experiment_id),
    "creation_time": lambda experiment: experiment.created_ms,
    "last_update_time": lambda experiment: experiment.updated_ms,
}


# ---------------------------------------------------------------- runs


def _get_run(store: TrackingStore, body: Body) -> dict[str, Any]:
    return {"run": _run(store, body).shown()}


def _update_run(store: TrackingStore, body: Body) -> dict[str, Any]:
    run = _run(store, body)
    store.update_run(body, run)
    return {"run_info": run.info()}


def _delete_run(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.set_stage(_run(store, body), "deleted")
    return {}


def _restore_run(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.set_stage(_run(store, body), "active")
    return {}


def _search_runs(store: TrackingStore, body: Body) -> dict[str, Any]:
    matches = search.matcher(str(body.get("filter") or ""), _ATTRIBUTES)
    wanted = {str(number) for number in listed(body.get("experiment_ids"))}
    stages = _stages(body.get("run_view_type"))
    found = [run for run in store.runs_of(wanted) if run.stage in stages and matches(run)]
    found.sort(key=lambda run: (-run.started_ms, run.run_id))
    found = search.ordered(found, _orders(body), _ATTRIBUTES)
    page, token = page_of(found, body, default=1_000, limit=PAGE_MAX)
    answer: dict[str, Any] = {"runs": [run.shown() for run in page]}
    return {**answer, "next_page_token": token} if token else answer


def _log_metric(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.add_values(run_id_of(body), [body])
    return {}


def _log_parameter(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.log_param(body, _run(store, body))
    return {}


def metrics_alone(body: Body) -> list[Any] | None:
    """Return the metrics of a request for `runs/log-batch`; None if it has params or tags, too.
    Raises TrackingError."""
    if body.get("params") or body.get("tags"):
        return None
    return items_of(body, "metrics", BATCH_METRICS_MAX)


def _log_batch(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.log(body, _run(store, body))
    return {}


def _set_tag(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.set(_run(store, body), {}, dict([store.pair(body, "tag")]))
    return {}


def _delete_tag(store: TrackingStore, body: Body) -> dict[str, Any]:
    store.delete_tag(_run(store, body), key_of(body, "tag"))
    return {}


def _log_inputs(store: TrackingStore, body: Body) -> dict[str, Any]:
    run = _run(store, body)
    read = [{**model, INPUT_MARK: True} for model in _objects(body.get("models"))]
    run.datasets.extend(_objects(body.get("datasets"))[: max(0, DATASETS_MAX - len(run.datasets))])
    run.models.extend(read[: max(0, MODELS_MAX - len(run.models))])
    store.changed(RunChange(run=run))
    return {}


def _log_outputs(store: TrackingStore, body: Body) -> dict[str, Any]:
    run = _run(store, body)
    run.models.extend(_objects(body.get("models"))[: max(0, MODELS_MAX - len(run.models))])
    store.changed(RunChange(run=run))
    return {}


def _log_model(store: TrackingStore, body: Body) -> dict[str, Any]:
    """Keep the description of a model that a 2.x client has logged, where its clients look for it."""
    run = _run(store, body)
    try:
        model = json.loads(text_of(body, "model_json", max_chars=2**20))
        history = json.loads(run.tags.get(MODELS_TAG) or "[]")
    except ValueError:
        raise invalid("model_json must be a JSON object") from None
    if len(history) < DATASETS_MAX:
        store.set(run, {}, {MODELS_TAG: json.dumps([*history, model])})
    return {}


def _get_history(store: TrackingStore, body: Body) -> dict[str, Any]:
    points = store.history(_run(store, body), text_of(body, "metric_key"))
    page, token = page_of(points, body, default=HISTORY_PAGE_MAX, limit=HISTORY_PAGE_MAX)
    answer: dict[str, Any] = {"metrics": [metric_json(point) for point in page]}
    return {**answer, "next_page_token": token} if token else answer


def _get_history_bulk(store: TrackingStore, body: Body) -> dict[str, Any]:
    """Return the points of a metric of several runs, at `max_results` steps of each at most: the
    first, the last and some between. All of them without it."""
    key, run_ids = text_of(body, "metric_key"), listed(body.get("run_ids") or body.get("run_id"))
    if not run_ids or len(run_ids) > BULK_RUNS_MAX:
        raise invalid(f"run_ids names {len(run_ids)} runs; 1 to {BULK_RUNS_MAX} are possible")
    first = whole_of(body.get("start_step"), 0)
    last = whole_of(body.get("end_step"), STEP_MAX)
    most = min(whole_of(body.get("max_results"), HISTORY_PAGE_MAX), HISTORY_PAGE_MAX)
    if most < 1 or first > last:
        raise invalid("max_results must be at least 1, and end_step no less than start_step")
    found = []
    for run_id in run_ids:
        points = [p for p in store.history(store.run(run_id), key) if first <= p.step <= last]
        points.sort(key=lambda point: (point.step, point.time_ms))
        kept = _thinned(points, most)
        found += [{**metric_json(point), "run_id": run_id} for point in kept]
    return {"metrics": found}


def _thinned(points: list[TrackedPoint], most: int) -> list[TrackedPoint]:
    if len(points) <= most:
        return points
    last = len(points) - 1
    return [points[round(no * last / max(1, most - 1))] for no in range(most)]


def _objects(given: Any) -> list[dict[str, Any]]:
    found = given or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise invalid("datasets and models must be lists of objects")
    return found


_ATTRIBUTES: search.Attributes[TrackedRun] = {
    "run_id": lambda run: run.run_id,
    "run_name": lambda run: run.name,
    "name": lambda run: run.name,
    "status": lambda run: run.status,
    "user_id": lambda run: run.user,
    "start_time": lambda run: run.started_ms,
    "end_time": lambda run: run.ended_ms,
    "created": lambda run: run.started_ms,
    "artifact_uri": lambda run: run.artifact_uri,
}


def _stages(view: Any) -> tuple[str, ...]:
    """Return the stages of what a view shows: ACTIVE_ONLY, DELETED_ONLY or ALL, or its number."""
    chosen = str(view or "ACTIVE_ONLY").upper()
    if chosen in ("DELETED_ONLY", "2"):
        return ("deleted",)
    return ("active", "deleted") if chosen in ("ALL", "3") else ("active",)


def _orders(body: Body) -> list[str]:
    return [str(order) for order in listed(body.get("order_by"))]


_ENDPOINTS: dict[tuple[str, str], Callable[[TrackingStore, Body], dict[str, Any]]] = {
    ("GET", "/experiments/get"): _get_experiment,
    ("GET", "/experiments/get-by-name"): _get_experiment_by_name,
    ("POST", "/experiments/create"): _create_experiment,
    ("GET", "/experiments/search"): _search_experiments,
    ("POST", "/experiments/search"): _search_experiments,
    ("POST", "/experiments/set-experiment-tag"): _set_experiment_tag,
    ("POST", "/experiments/delete-experiment-tag"): _delete_experiment_tag,
    ("POST", "/experiments/update"): _update_experiment,
    ("POST", "/experiments/delete"): _delete_experiment,
    ("POST", "/experiments/restore"): _restore_experiment,
    ("GET", "/runs/get"): _get_run,
    ("POST", "/runs/update"): _update_run,
    ("POST", "/runs/delete"): _delete_run,
    ("POST", "/runs/restore"): _restore_run,
    ("POST", "/runs/search"): _search_runs,
    ("POST", "/runs/log-metric"): _log_metric,
    ("POST", "/runs/log-parameter"): _log_parameter,
    ("POST", "/runs/log-batch"): _log_batch,
    ("POST", "/runs/set-tag"): _set_tag,
    ("POST", "/runs/delete-tag"): _delete_tag,
    ("POST", "/runs/log-inputs"): _log_inputs,
    ("POST", "/runs/outputs"): _log_outputs,
    ("POST", "/runs/log-model"): _log_model,
    ("GET", "/metrics/get-history"): _get_history,
    ("GET", "/metrics/get-history-bulk"): _get_history_bulk,
    ("GET", "/metrics/get-history-bulk-interval"): _get_history_bulk,
}
