"""The endpoints: what of a book a request reads and changes. Bodies and answers are JSON values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from . import search
from .book import (
    DATASETS_MAX,
    HISTORY_POINTS_MAX,
    MODELS_TAG,
    RUNS_MAX,
    TrackedRun,
    TrackingBook,
)
from .errors import invalid, no_endpoint
from .models import ModelShelf
from .values import key_of, pair_of, point_of, text_of, whole_of

PAGE_MAX = 50_000
"""Most runs in one answer."""
HISTORY_PAGE_MAX = 25_000
"""Most points in one answer."""

_PATH = re.compile(r"(?:/ajax-api|/api)/(?:2|3)\.0/mlflow(/.*)")

Body = Mapping[str, Any]


def answer(
    book: TrackingBook, shelf: ModelShelf, method: str, path: str, body: Body, *, rank: int
) -> dict[str, Any]:
    """Return the answer to a request. Raises TrackingError.

    body: the fields of its JSON body or, for GET, of its query.
    rank: of the worker that asks.
    """
    found = _PATH.fullmatch(path)
    name = found[1] if found else ""
    if name.startswith("/logged-models"):
        return shelf.answer(method, name, body, now_ms=book.now_ms())
    endpoint = _ENDPOINTS.get((method, name))
    if name == "/runs/create" and method == "POST":
        return {"run": book.create_run(body, rank=rank).shown()}
    if endpoint is None:
        raise no_endpoint(method, path)
    return endpoint(book, body)


def _run(book: TrackingBook, body: Body) -> TrackedRun:
    run_id = body.get("run_id") or body.get("run_uuid")
    return book.run(text_of({"run_id": run_id}, "run_id"))


# ---------------------------------------------------------------- experiments


def _get_experiment(book: TrackingBook, body: Body) -> dict[str, Any]:
    return {"experiment": book.experiment_by_id(text_of(body, "experiment_id"))}


def _get_experiment_by_name(book: TrackingBook, body: Body) -> dict[str, Any]:
    return {"experiment": book.experiment_of(text_of(body, "experiment_name"))}


def _create_experiment(book: TrackingBook, body: Body) -> dict[str, Any]:
    return {"experiment_id": book.create_experiment(text_of(body, "name"), body.get("tags") or [])}


def _search_experiments(book: TrackingBook, body: Body) -> dict[str, Any]:
    if body.get("filter"):
        raise invalid("experiments cannot be filtered here: every one is of the same trial")
    return {"experiments": list(book.experiments.values())}


def _set_experiment_tag(book: TrackingBook, body: Body) -> dict[str, Any]:
    experiment = book.experiment_by_id(text_of(body, "experiment_id"))
    key, value = pair_of(body, "tag")
    kept = [tag for tag in experiment["tags"] if tag["key"] != key]
    if len(kept) < DATASETS_MAX:
        experiment["tags"] = [*kept, {"key": key, "value": value}]
    return {}


# ---------------------------------------------------------------- runs


def _get_run(book: TrackingBook, body: Body) -> dict[str, Any]:
    return {"run": _run(book, body).shown()}


def _update_run(book: TrackingBook, body: Body) -> dict[str, Any]:
    run = _run(book, body)
    book.update_run(body, run)
    return {"run_info": run.info()}


def _delete_run(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.set_stage(_run(book, body), "deleted")
    return {}


def _restore_run(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.set_stage(_run(book, body), "active")
    return {}


def _search_runs(book: TrackingBook, body: Body) -> dict[str, Any]:
    matches = search.matcher(str(body.get("filter") or ""), _ATTRIBUTES)
    wanted = {str(number) for number in body.get("experiment_ids") or []}
    view = str(body.get("run_view_type") or "ACTIVE_ONLY").upper()
    stages = {"ACTIVE_ONLY": ("active",), "DELETED_ONLY": ("deleted",)}.get(
        view, ("active", "deleted")
    )
    found = [
        run
        for run in book.runs.values()
        if run.experiment_id in wanted and run.stage in stages and matches(run)
    ]
    found.sort(key=lambda run: (-run.started_ms, run.run_id))
    order_by = body.get("order_by") or []
    page, token = _page(
        search.ordered(found, order_by if isinstance(order_by, list) else [order_by], _ATTRIBUTES),
        body,
        default=1_000,
        limit=PAGE_MAX,
    )
    answer: dict[str, Any] = {"runs": [run.shown() for run in page]}
    return {**answer, "next_page_token": token} if token else answer


def _log_metric(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.add_points(_run(book, body), [point_of(body)])
    return {}


def _log_parameter(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.log_param(body, _run(book, body))
    return {}


def _log_batch(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.log(body, _run(book, body))
    return {}


def _set_tag(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.set(_run(book, body), {}, dict([book.pair(body, "tag")]))
    return {}


def _delete_tag(book: TrackingBook, body: Body) -> dict[str, Any]:
    book.delete_tag(_run(book, body), key_of(body, "tag"))
    return {}


def _log_inputs(book: TrackingBook, body: Body) -> dict[str, Any]:
    run = _run(book, body)
    _extend(run.datasets, body.get("datasets"), DATASETS_MAX)
    _extend(run.models, body.get("models"), RUNS_MAX)
    return {}


def _log_outputs(book: TrackingBook, body: Body) -> dict[str, Any]:
    _extend(_run(book, body).models, body.get("models"), RUNS_MAX)
    return {}


def _log_model(book: TrackingBook, body: Body) -> dict[str, Any]:
    """Keep the description of a model that a 2.x client has logged, where its clients look for it."""
    run = _run(book, body)
    try:
        model = json.loads(text_of(body, "model_json", max_chars=2**20))
        history = json.loads(run.tags.get(MODELS_TAG) or "[]")
    except ValueError:
        raise invalid("model_json must be a JSON object") from None
    if len(history) < DATASETS_MAX:
        book.set(run, {}, {MODELS_TAG: json.dumps([*history, model])})
    return {}


def _get_history(book: TrackingBook, body: Body) -> dict[str, Any]:
    points = book.history(_run(book, body), text_of(body, "metric_key"))
    page, token = _page(points, body, default=HISTORY_POINTS_MAX, limit=HISTORY_PAGE_MAX)
    return {"metrics": page, **({"next_page_token": token} if token else {})}


def _extend(items: list[Any], new: Any, limit: int) -> None:
    if new is not None and not isinstance(new, list):
        raise invalid("datasets and models must be lists")
    items.extend((new or [])[: max(0, limit - len(items))])


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


def _page(items: list[Any], body: Body, *, default: int, limit: int) -> tuple[list[Any], str]:
    """Return one page of a list, and the token of the next; "" after the last."""
    token = str(body.get("page_token") or "0")
    if not token.isdecimal() or len(token) > 12:
        raise invalid("page_token is not one of an earlier answer")
    size = whole_of(body.get("max_results"), default)
    if size < 1:
        raise invalid(f"max_results is {size}; at least 1 is needed")
    end = int(token) + min(size, limit)
    return items[int(token) : end], str(end) if end < len(items) else ""


_ENDPOINTS: dict[tuple[str, str], Callable[[TrackingBook, Body], dict[str, Any]]] = {
    ("GET", "/experiments/get"): _get_experiment,
    ("GET", "/experiments/get-by-name"): _get_experiment_by_name,
    ("POST", "/experiments/create"): _create_experiment,
    ("GET", "/experiments/search"): _search_experiments,
    ("POST", "/experiments/search"): _search_experiments,
    ("POST", "/experiments/set-experiment-tag"): _set_experiment_tag,
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
}
